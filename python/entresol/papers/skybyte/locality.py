"""Figures 5 and 6: how much of a page is used while it is cached, and how much is dirty (§II-C)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.figures import frames, ink, lines
from entresol.figures.frames import Rows
from entresol.figures.plan import Results, Settings, Walk
from entresol.papers.skybyte.runs import PLAIN

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

SHARES = (2, 4, 8, 16)
"""By how much the page cache is smaller than the footprint."""
LINES = 64
USED_SHARE, PAGE_SHARE = 0.40, 0.75
"""The text: many workloads use less than 40 % of the lines in more than 75 % of the pages."""


def walks(settings: Settings) -> list[Walk]:
    """The analyses of both figures."""
    return [Walk(name, PLAIN, SHARES, "base-cssd") for name in settings.workloads]


def read(results: Results) -> polars.DataFrame:
    """Figure 5: pages read, by the share of lines that is used."""
    return _frame(results, "lines_used")


def flushed(results: Results) -> polars.DataFrame:
    """Figure 6: pages flushed, by the share of lines that is dirty."""
    return _frame(results, "lines_dirty")


def _frame(results: Results, histogram: str) -> polars.DataFrame:
    rows = Rows()
    for item in walks(results.settings):
        walk = results.walks.get(item)
        for cache in walk["caches"] if walk else []:
            counts = cache[histogram]
            total, below = sum(counts), 0
            for used, count in enumerate(counts):
                below += count
                share = below / total if total else None
                rows.add(item.workload, f"1:{cache['ratio']}", "share_of_pages", share, None,
                         used / LINES)  # fmt: skip
    return rows.frame(means=())


def draw_read(frame: polars.DataFrame) -> Figure:
    """A panel per workload, a curve per size of the cache."""
    return _draw(frame, "Lines used")


def draw_flushed(frame: polars.DataFrame) -> Figure:
    """A panel per workload, a curve per size of the cache."""
    return _draw(frame, "Lines dirty")


def _draw(frame: polars.DataFrame, quantity: str) -> Figure:
    rows = frames.read(frame)
    names, shares = frames.distinct(frame, "workload"), frames.distinct(frame, "design")
    columns = lines.columns_for(len(names))
    with ink.style():
        drawn, panels = lines.panels(len(names), 1.55, ink.PAGE)
        for axes, name in zip(panels, names, strict=True):
            for index, share in enumerate(shares):
                points = [
                    (row.ours, float(row.x))
                    for row in rows
                    if row.ours is not None
                    and row.x is not None
                    and (row.workload, row.design) == (name, share)
                ]
                curve = lines.Curve("", points, ink.LADDER[index + 1], False, None)
                lines.draw(axes, curve)
            axes.axhline(USED_SHARE, color=ink.SOFT, linewidth=0.7, linestyle=(0, (3, 2)))
            axes.axvline(PAGE_SHARE, color=ink.SOFT, linewidth=0.7, linestyle=(0, (3, 2)))
            axes.set(xlim=(0, 1), ylim=(0, 1.02), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
            axes.set_title(name)
            ink.grid(axes)
        for axes in panels[::columns]:
            axes.set_ylabel(f"{quantity} (share)")
        drawn.supxlabel("Share of pages", fontsize=7.5)
        shown = [(share, ink.LADDER[index + 1], None) for index, share in enumerate(shares)]
        lines.legend(drawn, shown, twins=False)
    return drawn
