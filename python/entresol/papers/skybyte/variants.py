"""Figures 22 and 23: other flash, and other ways to migrate pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from entresol.figures import bars, frames, ink
from entresol.figures.frames import Rows
from entresol.figures.plan import Results, Settings, Want, quotient
from entresol.papers.skybyte.runs import published, want

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NANDS = (("ull", "ULL"), ("ull2", "ULL2"), ("slc", "SLC"), ("mlc", "MLC"))
FLASH_THREADS = (16, 24, 32, 48)
MIGRATIONS = (
    "skybyte-c", "skybyte-ct", "skybyte-cp", "astriflash-cxl", "skybyte-wct", "skybyte-full",
)  # fmt: skip
TEXT = (("skybyte-cp", "astriflash-cxl", "CP over AstriFlash-CXL (average)"),
        ("skybyte-wct", "skybyte-ct", "WCT over CT (average)"),
        ("skybyte-full", "skybyte-wct", "Full over WCT (average)"))  # fmt: skip
"""§VI-H: a design, another, and the claim how much faster the first is."""


def _flash(settings: Settings, workload: str, nand: str) -> dict[str, Want]:
    del settings
    name = "" if nand == "ull" else nand  # ULL is what the machines have.
    found = {design: want(workload, design, nand=name) for design in ("skybyte-p", "skybyte-wp")}
    for threads in FLASH_THREADS:
        found[f"skybyte-full-{threads}"] = want(workload, "skybyte-full", threads=threads,
                                                nand=name)  # fmt: skip
    return found


def flash_wants(settings: Settings) -> list[Want]:
    """The runs of Figure 22."""
    return [item for name in settings.workloads for nand, _ in NANDS
            for item in _flash(settings, name, nand).values()]  # fmt: skip


def flashes(results: Results) -> polars.DataFrame:
    """Figure 22: execution time over SkyByte-P's with the same flash."""
    rows = Rows()
    for name in results.settings.workloads:
        for nand, _ in NANDS:
            items = _flash(results.settings, name, nand)
            base = results.time(items["skybyte-p"])
            for design, item in items.items():
                ours = quotient(results.time(item), base)
                rows.add(name, design, "normalised_time", ours, None, nand)
    return rows.frame()


def draw_flashes(frame: polars.DataFrame) -> Figure:
    """A panel per kind of flash."""
    designs = frames.distinct(frame, "design")
    shades = {name: ink.LADDER[index + 1] for index, name in
              enumerate(name for name in designs if "full" in name)}  # fmt: skip
    series = [
        bars.Series(name, ink.label(name), name.rsplit("-", 1)[1].upper(),
                    shades.get(name, ink.colour(name)))
        for name in designs
    ]  # fmt: skip
    groups = [name for name in frames.distinct(frame, "workload") if name != frames.ARITHMETIC]
    rows = frames.read(frame)
    known = [row.ours for row in rows if row.ours is not None]
    top = min(max(known, default=1.0) * 1.08, 1.6)
    with ink.style():
        drawn = ink.figure(ink.PAGE, 6.2)
        for axes, (nand, title) in zip(drawn.subplots(4, 1), NANDS, strict=True):
            values: Mapping[tuple[str, str | float | None], frames.Cell] = {
                (row.workload, row.design): (row.ours, None) for row in rows if row.x == nand
            }
            bars.grouped(axes, groups, series, values, limit=top)
            axes.axhline(1, color=ink.SOFT, linewidth=0.7, linestyle=(0, (3, 2)))
            axes.set_title(title, loc="left")
            axes.set_ylabel("Time ÷ SkyByte-P")
        bars.legend(drawn, series, twins=False)
    return drawn


def migration_wants(settings: Settings) -> list[Want]:
    """The runs of Figure 23."""
    return [want(name, design) for name in settings.workloads for design in MIGRATIONS]


def migrations(results: Results) -> polars.DataFrame:
    """Figure 23: execution time over SkyByte-C's, and the speedup over it."""
    rows = Rows()
    for name in results.settings.workloads:
        base = results.time(want(name, "skybyte-c"))
        for design in MIGRATIONS:
            ours = results.time(want(name, design))
            rows.add(name, design, "normalised_time", quotient(ours, base))
            rows.add(name, design, "speedup", quotient(base, ours))
    return rows.frame()


def draw_migrations(frame: polars.DataFrame) -> Figure:
    """Bars per design. A dashed mark over a mean is where the text's ratio puts that bar, given
    ours of the design that it is compared with."""
    from matplotlib.lines import Line2D

    groups = [name for name in frames.distinct(frame, "workload") if name != frames.ARITHMETIC]
    series = bars.of_designs(MIGRATIONS)
    values = frames.cells(frame, "normalised_time")
    mark = Line2D([], [], color=ink.INK, linestyle=(0, (2, 1)), linewidth=1,
                  label="ratio in the text")  # fmt: skip
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.7)
        axes = drawn.subplots()
        limit = bars.top_of(values, most=1.6)
        middles = bars.grouped(axes, groups, series, values, limit=limit)
        axes.axhline(1, color=ink.SOFT, linewidth=0.6)
        _text_marks(axes, values, middles)
        axes.set_ylabel("Execution time ÷ SkyByte-C")
        bars.legend(drawn, series, twins=False, columns=7, more=(mark,))
    return drawn


def _text_marks(
    axes: Axes, values: bars.Values, middles: Mapping[tuple[str, str | float], float]
) -> None:
    mean = frames.GEOMETRIC
    said = {row["quantity"]: float(row["value"]) for row in published.claims()}
    for faster, slower, claim in TEXT:
        reference = values.get((mean, slower), (None, None))[0]
        middle = middles.get((mean, faster))
        if reference is not None and middle is not None:
            axes.plot((middle - 0.8, middle + 0.8), (reference / said[claim],) * 2, color=ink.INK,
                      linestyle=(0, (2, 1)), linewidth=1)  # fmt: skip
