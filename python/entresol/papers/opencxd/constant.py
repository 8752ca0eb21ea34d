"""How wrong constants are: the same captures and designs on three back ends. Not of the paper."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from entresol.figures import bars, frames, ink
from entresol.figures.frames import Rows
from entresol.figures.plan import Results, Settings, Want, quotient
from entresol.papers.opencxd import runs
from entresol.papers.opencxd.runs import ALL_CONSTANT, BACK_ENDS, FLASH

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

DESIGNS = ("base-cssd", "skybyte-p", "skybyte-c", "skybyte-w", "skybyte-wp", "skybyte-full")
THREADS = 24
"""Of all designs, or their captures would differ."""
MEAN = "mean"
ENDS = {
    "modelled": BACK_ENDS["modelled"],
    MEAN: ("Constants: means of eight in flight", "#7c828c"),
    "empirical": BACK_ENDS["empirical"],
    "loop": BACK_ENDS["loop"],
}
"""Two kinds of constants: the module's means with one command, and those with eight, as many as its
tables know: against these the tables' shape is all that differs."""
DEEP = 8


def want(workload: str, design: str, end: str) -> Want:
    """A run. The controller's overhead is in all of them."""
    overrides = {"modelled": ALL_CONSTANT, MEAN: (*ALL_CONSTANT, *_means())}.get(end, ())
    device = "loop" if end == "loop" else ""
    return Want(workload, design, THREADS, tuple(sorted(overrides)), FLASH, device)


@cache
def _means() -> tuple[str, ...]:
    tables = runs.setting("nand.empirical")
    return tuple(f"nand.{time}={runs.mean(tables[name], DEEP)}ps"
                 for time, name in (("t_r", "read"), ("t_prog", "program")))  # fmt: skip


def wants(settings: Settings) -> list[Want]:
    """All of them."""
    return [want(name, design, end) for name in settings.workloads for design in DESIGNS
            for end in ENDS]  # fmt: skip


def tail(results: Results, item: Want) -> float | None:
    """The 99.9th percentile of reads, in picoseconds."""
    return results.number(item, "amat", "p999_ps")


def rank(values: dict[str, float | None]) -> dict[str, int | None]:
    """The place of each design, the quickest first; none unless all have a time."""
    known = {name: value for name, value in values.items() if value is not None}
    if len(known) < len(values):
        return dict.fromkeys(values)
    ordered = sorted(known, key=lambda name: known[name])
    return {name: ordered.index(name) + 1 for name in values}


def errors(results: Results) -> polars.DataFrame:
    """Time and tail over those with constants, and each design's place."""
    rows = Rows()
    for name in results.settings.workloads:
        for design in DESIGNS:
            base = want(name, design, "modelled")
            for end in ENDS:
                item = want(name, design, end)
                time = quotient(results.time(item), results.time(base))
                rows.add(name, design, "time_over_constant", time, x=end)
                more = quotient(tail(results, item), tail(results, base))
                rows.add(name, design, "p999_over_constant", more, x=end)
        for end in ENDS:
            places = rank({design: results.time(want(name, design, end)) for design in DESIGNS})
            for design, place in places.items():
                rows.add(name, design, "place", place, x=end)
    return rows.frame(means=())


def why(frame: polars.DataFrame) -> str:
    """Whether the ranking survives, from the frame's own numbers."""
    places: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for row in frames.read(frame):
        if row.metric == "place" and row.ours is not None:
            key = (row.workload, str(row.x))
            places.setdefault(key, []).append((row.design, row.ours))
    changed = []
    compared = 0
    for (name, end), found in places.items():
        if end == "modelled" or (name, "modelled") not in places:
            continue
        compared += 1
        if sorted(found) != sorted(places[name, "modelled"]):
            changed.append(f"{name} ({ENDS[end][0]})")
    if not compared:
        return ""
    where = f": {', '.join(changed)}" if changed else ""
    return f"The ranking of designs changes in {len(changed)} of {compared} comparisons{where}."


def draw(frame: polars.DataFrame) -> Figure:
    """A row for each device that has not the constants of one command: time, and the tail."""
    series = bars.of_designs(DESIGNS)
    groups = frames.distinct(frame, "workload")
    others = [end for end in ENDS if end != "modelled"]
    metrics = {"time_over_constant": "Time", "p999_over_constant": "p99.9 of reads"}
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.0 * len(others))
        grid = drawn.subplots(len(others), len(metrics), squeeze=False)
        for line, end in zip(grid, others, strict=True):
            for axes, (metric, name) in zip(line, metrics.items(), strict=True):
                values: bars.Values = {
                    (row.workload, row.design): (row.ours, None)
                    for row in frames.read(frame)
                    if (row.metric, row.x) == (metric, end)
                }
                bars.grouped(axes, groups, series, values)
                axes.axhline(1, color=ink.INK, linewidth=0.7)
                axes.set_title(ENDS[end][0])
                axes.set_ylabel(f"{name} ÷ constant")
        bars.legend(drawn, series, twins=False)
    return drawn
