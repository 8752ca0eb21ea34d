"""Figures 2, 3 and 4: what a plain CXL-SSD does to programs (§II-C), with four threads on four
cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.figures import bars, frames, ink, lines
from entresol.figures.frames import Rows
from entresol.figures.plan import Results, Settings, Want, quotient
from entresol.papers.skybyte.runs import MOTIVATION, published, upper_edge, want

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

_DESIGNS = ("dram-only", "base-cssd")
_CURVES = ("bc", "bfs-dense", "srad", "tpcc")
"""The workloads whose curves were published."""


def plain(workload: str, design: str) -> Want:
    """A run with the threads and cores of §II-C."""
    return want(workload, design, threads=MOTIVATION, cpu__cores=str(MOTIVATION))


def wants(settings: Settings) -> list[Want]:
    """The runs of all three figures."""
    return [plain(name, design) for name in settings.workloads for design in _DESIGNS]


def slowdowns(results: Results) -> polars.DataFrame:
    """Figure 2: execution time over that with DRAM."""
    paper, rows = published("fig02"), Rows()
    for name in results.settings.workloads:
        ideal = results.time(plain(name, "dram-only"))
        least = paper.value(name, "dram-only", "exec_time")
        for design in _DESIGNS:
            ours = quotient(results.time(plain(name, design)), ideal)
            theirs = paper.value(name, design, "exec_time") / least
            rows.add(name, design, "normalised_time", ours, theirs)
    return rows.frame()


def draw_slowdowns(frame: polars.DataFrame) -> Figure:
    """Bars of both memories, on a logarithmic axis."""
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.5)
        axes = drawn.subplots()
        series = bars.of_designs(_DESIGNS)
        values = frames.cells(frame, "normalised_time")
        groups = frames.distinct(frame, "workload")
        bars.grouped(axes, groups, series, values, log=True)
        axes.set_ylabel("Execution time ÷ DRAM")
        bars.legend(drawn, series, twins=True)
    return drawn


def latencies(results: Results) -> polars.DataFrame:
    """Figure 3: share of accesses that take at most so long."""
    paper, rows = published("fig03"), Rows()
    for name in results.settings.workloads:
        for design in _DESIGNS:
            run = results.runs.get(plain(name, design))
            points = run["statistics"]["latency_cdf"] if run else []
            total = points[-1][1] if points else 0
            for latency, count in points:
                rows.add(name, design, "share_of_accesses", count / total, None, latency / 1000)
            for latency, share in paper.curve(name, design, "cumulative_fraction_of_accesses"):
                rows.add(name, design, "share_of_accesses", None, share, upper_edge(latency))
    return rows.frame(means=())


def draw_latencies(frame: polars.DataFrame) -> Figure:
    """A panel per workload; the paper has four of them."""
    rows = frames.read(frame)
    names = frames.distinct(frame, "workload")
    with ink.style():
        drawn, panels = lines.panels(len(names), 1.7, ink.PAGE)
        for axes, name in zip(panels, names, strict=True):
            for design in _DESIGNS:
                of = [row for row in rows if (row.workload, row.design) == (name, design)]
                for theirs in (False, True):
                    points = [
                        (float(row.x), value)
                        for row in of
                        if row.x is not None
                        and (value := row.published if theirs else row.ours) is not None
                    ]
                    colour = ink.colour(design)
                    lines.draw(axes, lines.Curve("", sorted(points), colour, theirs, None))
            axes.set_xscale("log")
            axes.set_xlim(10, 1e6)
            axes.set_xticks((100, 1e4, 1e6), ("100 ns", "10 µs", "1 ms"))
            axes.set_ylim(0, 1.02)
            axes.set_title(name)
            ink.grid(axes)
        for axes in panels[:: lines.columns_for(len(names))]:
            axes.set_ylabel("Share of accesses")
        drawn.supxlabel("Latency of an off-chip access", fontsize=7.5)
        lines.legend(drawn, [(ink.label(name), ink.colour(name), None) for name in _DESIGNS],
                     twins=True)  # fmt: skip
    return drawn


def boundedness(results: Results) -> polars.DataFrame:
    """Figure 4: share of busy cycles bounded by memory, and by compute."""
    paper, rows = published("fig04"), Rows()
    for name in results.settings.workloads:
        for design in _DESIGNS:
            item = plain(name, design)
            memory = results.number(item, "cores", "memory_bound_ps")
            busy = results.number(item, "cores", "memory_bound_ps", "compute_bound_ps")
            ours = quotient(memory, busy)
            theirs = paper.value(name, design, "memory_bound_fraction")
            rows.add(name, design, "memory_bound", ours, theirs)
            rest = None if ours is None else 1 - ours
            rows.add(name, design, "compute_bound", rest, 1 - theirs)
    return rows.frame(means=(frames.ARITHMETIC,))


def draw_boundedness(frame: polars.DataFrame) -> Figure:
    """Bars of parts; D is DRAM, C the CXL-SSD."""
    parts = [
        bars.Series("memory_bound", "bound by memory", "", ink.PARTS["memory"]),
        bars.Series("compute_bound", "bound by compute", "", ink.PARTS["compute"]),
    ]
    values = frames.parts(frame)
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.5)
        axes = drawn.subplots()
        columns = [(name, "DRAM" if name == "dram-only" else "CXL") for name in _DESIGNS]
        bars.stacked(axes, frames.distinct(frame, "workload"), columns, parts, values)
        axes.set_ylim(0, 1)
        axes.set_ylabel("Share of cycles")
        bars.legend(drawn, parts, twins=True)
    return drawn
