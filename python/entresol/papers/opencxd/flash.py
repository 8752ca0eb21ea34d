"""Figures 3 to 6 and Table II: times of the two modules, from their presets through the flash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.figures import bars, frames, ink, lines
from entresol.figures.frames import Rows
from entresol.figures.plan import Bench, Results, Settings
from entresol.papers.opencxd.runs import (
    CONSTANT,
    DEPTHS,
    FLASH,
    MODULES,
    OPERATIONS,
    flash,
    published,
    setting,
    taken,
)
from entresol.units import picoseconds_of

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

KINDS = {**MODULES, CONSTANT: "constants of (a)"}
COLOURS = {"module-a": "#33608f", "module-b": "#d55e00", CONSTANT: "#7c828c"}
CELLS = {"read": "t_r", "program": "t_prog"}
PARTS = {
    "cells_us": ("cells, with nothing else on", "#62b9e2"),
    "controller_us": ("controller and firmware", "#e6c04a"),
    "others_us": ("with others in flight", "#d55e00"),
}
CURVES = (("read", 1), ("program", 1), ("read", 8))
"""The panels of Figure 6."""


def wants(_settings: Settings) -> list[Bench]:
    """All of them."""
    return [flash(kind, operation, depth) for kind in KINDS for operation in OPERATIONS
            for depth in DEPTHS]  # fmt: skip


def times(results: Results, depth: int) -> polars.DataFrame:
    """Figures 3 and 4: what a thousand commands in a row took."""
    rows = Rows()
    for operation in OPERATIONS:
        for kind in KINDS:
            run = results.benches.get(flash(kind, operation, depth))
            for place, time in enumerate([] if run is None else run["shown"]):
                rows.add(operation, kind, "time_us", time / 1e6, x=place)
    return rows.frame(means=())


def draw_times(frame: polars.DataFrame) -> Figure:
    """A panel for reads and one for programs."""
    found = frames.read(frame)
    with ink.style():
        drawn, panels = lines.panels(len(OPERATIONS), 2.1, ink.PAGE)
        for axes, operation in zip(panels, OPERATIONS, strict=True):
            for kind in KINDS:
                points = [(float(row.x), row.ours) for row in found
                          if (row.workload, row.design) == (operation, kind)
                          and row.x is not None and row.ours is not None]  # fmt: skip
                xs, ys = [x for x, _ in points], [y for _, y in points]
                axes.plot(xs, ys, ".", markersize=1.6, color=COLOURS[kind])
            axes.set_title(operation)
            axes.set_xlabel("request")
            ink.grid(axes)
        panels[0].set_ylabel("µs")
        lines.legend(drawn, [(KINDS[kind], COLOURS[kind], None) for kind in KINDS], twins=False)
    return drawn


def deviations(results: Results) -> polars.DataFrame:
    """Table II: standard deviations, by queue depth."""
    paper, rows = published("table2"), Rows()
    for operation in OPERATIONS:
        for kind in KINDS:
            for depth in DEPTHS:
                item = flash(kind, operation, depth)
                # SimpleSSD's has the wait for its timeline in it, which is all it has.
                name = "whole_sd_ps" if kind == CONSTANT else "sd_ps"
                theirs = paper.value(operation, kind, "sd_us", depth)
                rows.add(operation, kind, "sd_us", taken(results, item, name), theirs, depth)
    return rows.frame(means=())


def draw_deviations(frame: polars.DataFrame) -> Figure:
    """Bars by depth, on a logarithmic axis."""
    series = [bars.Series(kind, name, "", COLOURS[kind]) for kind, name in KINDS.items()]
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.5)
        axes = drawn.subplots()
        values: bars.Values = {
            (f"{row.workload}, depth {row.x:g}", row.design): (row.ours, row.published)
            for row in frames.read(frame)
            if isinstance(row.x, float)
        }
        groups = list(dict.fromkeys(group for group, _ in values))
        bars.grouped(axes, groups, series, values, log=True)
        axes.set_ylabel("Standard deviation (µs)")
        bars.legend(drawn, series, twins=True)
    return drawn


def breakdown(results: Results) -> polars.DataFrame:
    """Figure 5: parts of the mean time of module (b)."""
    rows = Rows()
    overhead = _microseconds("nand.empirical", "overhead")
    for operation in OPERATIONS:
        cells = _microseconds("nand", CELLS[operation])
        for depth in DEPTHS:
            mean = taken(results, flash(FLASH, operation, depth), "mean_ps")
            rest = None if mean is None else max(mean - cells - overhead, 0.0)
            parts = (cells, overhead, rest) if mean is not None else (None, None, None)
            for metric, part in zip(PARTS, parts, strict=True):
                rows.add(operation, FLASH, metric, part, x=depth)
    return rows.frame(means=(), parts=tuple(PARTS))


def _microseconds(section: str, name: str) -> float:
    return picoseconds_of(setting(section)[name], name) / 1e6


def draw_breakdown(frame: polars.DataFrame) -> Figure:
    """A stack for each operation and depth."""
    series = [bars.Series(key, name, "", colour) for key, (name, colour) in PARTS.items()]
    values = {
        (row.workload, f"{row.x:g}", row.metric): (row.ours, None) for row in frames.read(frame)
    }
    with ink.style():
        drawn = ink.figure(ink.COLUMN, 2.4)
        axes = drawn.subplots()
        columns = [(f"{depth}", f"depth {depth}") for depth in DEPTHS]
        bars.stacked(axes, OPERATIONS, columns, series, values)
        axes.set_ylabel("Mean time (µs)")
        bars.legend(drawn, series, twins=False, columns=1)
    return drawn


def distributions(results: Results) -> polars.DataFrame:
    """Figure 6: share of the commands that take at most so long."""
    rows = Rows()
    for operation, depth in CURVES:
        for module in MODULES:
            run = results.benches.get(flash(module, operation, depth))
            for percent, time in [] if run is None else run["quantiles"]:
                rows.add(f"{operation}, depth {depth}", module, "share", percent / 100,
                         x=time / 1e6)  # fmt: skip
    return rows.frame(means=())


def draw_distributions(frame: polars.DataFrame) -> Figure:
    """A panel each."""
    found = frames.read(frame)
    names = [f"{operation}, depth {depth}" for operation, depth in CURVES]
    with ink.style():
        drawn, panels = lines.panels(len(names), 2.0, ink.PAGE)
        for axes, name in zip(panels, names, strict=True):
            for module in MODULES:
                points = [(float(row.x), row.ours) for row in found
                          if (row.workload, row.design) == (name, module)
                          and row.x is not None and row.ours is not None]  # fmt: skip
                lines.draw(axes, lines.Curve("", points, COLOURS[module], mark=None))
            axes.set_title(name)
            axes.set_xlabel("µs")
            axes.set_ylim(0, 1.02)
            ink.grid(axes)
        panels[0].set_ylabel("Share of commands")
        lines.legend(drawn, [(MODULES[each], COLOURS[each], None) for each in MODULES],
                     twins=False)  # fmt: skip
    return drawn
