"""The tables of a sweep's page, and the warnings of its points."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape

from entresol.cost import Prices
from entresol.report import cells, economy, html
from entresol.report.cells import Cell
from entresol.report.definitions import MAIN
from entresol.report.html import Row
from entresol.report.sweep_points import Axes, Done, beside, comparable

_HEADS = (
    "execution time",
    "relative time",
    "IPC",
    "AMAT, all",
    "p99",
    "flash programs",
    "WAF",
    "log fills",
    "GCs",
    "switches",
    "warnings",
)
_COSTS = (
    "device $",
    "cheaper",
    "performance",
    "cost-effectiveness",
    "flash writes a day",
    "drive writes a day",
    "lifetime",
)
_table = partial(html.table, glossary=MAIN)


def points(done: Sequence[Done], axes: Axes) -> str:
    """Every point: where it is, and its main numbers; the fastest device design stands out."""
    fastest: dict[int, int] = {}
    best: set[int] = set()
    for some in comparable(done).values():
        least = min(point.run.time_ps for point in some) or 1
        fastest |= {point.number: least for point in some}
        devices = [point for point in some if point.run.is_device]
        best |= {min(devices, key=_time).number} if devices and len(some) > 1 else set()
    names = _varying(axes)
    rows = [
        Row(
            str(point.number),
            (*_place(point, names), *_numbers(point, fastest[point.number])),
            point.number in best,
        )
        for point in done
    ]
    return _table("Points", ("point", *names, *_HEADS), rows)


def _time(point: Done) -> int:
    return point.run.time_ps


def _numbers(point: Done, fastest: int) -> tuple[Cell, ...]:
    run = point.run
    warnings = len(run.warnings)
    return (
        cells.duration(run.time_ps),
        cells.ratio(run.time_ps / fastest),
        cells.micro(run.number("cores", "ipc_micro")),
        cells.duration(run.number("amat", "all_ps")),
        cells.duration(run.number("amat", "p99_ps")),
        cells.exact(run.number("flash", "program_pages")),
        cells.milli(run.write_amplification),
        cells.exact(run.number("activity", "log_fills")),
        cells.exact(run.number("activity", "gc_invocations")),
        cells.exact(run.switches),
        Cell(str(warnings), value=warnings),
    )


def extremes(done: Sequence[Done], axes: Axes) -> str:
    """Of points that may be compared the fastest, the fastest with a device, and the slowest."""
    names = [name for name in _varying(axes) if name != "trace"]
    rows: list[Row] = []
    for group, some in comparable(done).items():
        order = sorted(some, key=_time)
        devices = [point for point in order if point.run.is_device]
        chosen = {"fastest": order[0], "slowest": order[-1]}
        if devices and devices[0] is not order[0]:
            chosen = {"fastest": order[0], "fastest device": devices[0], "slowest": order[-1]}
        rows += [
            Row(
                group,
                (
                    Cell(what),
                    Cell(str(point.number), value=point.number),
                    *_place(point, names),
                    cells.duration(point.run.time_ps),
                    cells.ratio(point.run.time_ps / (order[0].run.time_ps or 1)),
                ),
            )
            for what, point in chosen.items()
        ]
    heads = ("capture", "which", "point", *names, "execution time", "relative time")
    return _table("Fastest and slowest points", heads, rows)


def costs(done: Sequence[Done], axes: Axes, prices: Prices) -> str:
    """Cost and endurance of every point with a device; performance is relative to dram-only at the
    same place."""
    names = _varying(axes)
    rows = []
    for point, panel in zip(done, beside(done), strict=True):
        if not point.run.is_device:
            continue
        _, device, _, _, *rest = economy.row(panel, point.run, prices)
        cheaper, speed, effect, _, *wear = rest
        numbers = (device, cheaper, speed, effect, *wear)
        rows.append(Row(str(point.number), (*_place(point, names), *numbers)))
    return _table("Cost and endurance", ("point", *names, *_COSTS), rows)


def _varying(axes: Axes) -> list[str]:
    return [name for name, values in axes.items() if len(values) > 1 or name in ("trace", "design")]


def _place(point: Done, names: Sequence[str]) -> tuple[Cell, ...]:
    settings = point.settings
    return tuple(Cell(settings.get(name, "")) for name in names)


def warnings(done: Sequence[Done]) -> str:
    """Each warning once, with the points it is about."""
    by_text: dict[str, list[int]] = {}
    for point in done:
        for text in point.run.warnings:
            by_text.setdefault(text, []).append(point.number)
    items = [
        f"{escape(text)}: {len(numbers):,} of {len(done):,} points ({escape(ranges(numbers))})"
        for text, numbers in by_text.items()
    ]
    return html.warning("Read with care", items)


def ranges(numbers: Sequence[int]) -> str:
    """`1–3, 7` for 1, 2, 3, 7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][-1:] = [number] if len(parts[-1]) > 1 else [parts[-1][0], number]
        else:
            parts.append([number])
    return ", ".join("–".join(map(str, part)) for part in parts)
