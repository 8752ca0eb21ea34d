"""Figures 14, 17 and 18: execution time, memory access time and flash writes of the designs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.figures import bars, frames, ink
from entresol.figures.frames import Rows
from entresol.figures.plan import Results, Settings, Want, quotient
from entresol.papers.skybyte.runs import published, want

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

DESIGNS = (
    "base-cssd", "skybyte-p", "skybyte-c", "skybyte-w", "skybyte-cp", "skybyte-wp", "skybyte-full",
    "dram-only",
)  # fmt: skip
AMAT_DESIGNS = ("base-cssd", "skybyte-p", "skybyte-w", "skybyte-wp", "skybyte-full", "dram-only")
AMAT_PARTS = (
    ("host_dram", "host DRAM", "host", ("host_dram_ps",)),
    ("cxl_protocol", "CXL link", "link", ("link_ps", "l3_queue_ps", "inter_socket_ps")),
    ("indexing", "index", "index", ("index_ps",)),
    ("ssd_dram", "device DRAM", "dram", ("ssd_dram_ps",)),
    ("flash", "flash", "flash", ("flash_ps", "stall_ps")),
)
"""Metric of the paper, name, colour, and our components that belong to it."""


def time_wants(settings: Settings) -> list[Want]:
    """The runs of Figure 14."""
    return [want(name, design) for name in settings.workloads for design in DESIGNS]


def times(results: Results) -> polars.DataFrame:
    """Figure 14: execution time over Base-CSSD's, and the speedup, its inverse."""
    paper, rows = published("fig14"), Rows()
    for name in results.settings.workloads:
        base = results.time(want(name, "base-cssd"))
        whole = paper.value(name, "base-cssd", "exec_time")
        for design in DESIGNS:
            ours, theirs = results.time(want(name, design)), paper.value(name, design, "exec_time")
            rows.add(name, design, "normalised_time", quotient(ours, base), theirs / whole)
            rows.add(name, design, "speedup", quotient(base, ours), whole / theirs)
    return rows.frame()


def draw_times(frame: polars.DataFrame) -> Figure:
    """All designs beside each other per workload, in two rows."""
    return _two_rows(frame, "normalised_time", DESIGNS, "Execution time ÷ Base-CSSD", most=1.5)


def amat_wants(settings: Settings) -> list[Want]:
    """The runs of Figure 17."""
    return [want(name, design) for name in settings.workloads for design in AMAT_DESIGNS]


def access_times(results: Results) -> polars.DataFrame:
    """Figure 17: AMAT in ns, over Base-CSSD's, and the share of each component."""
    paper, rows = published("fig17"), Rows()
    for name in results.settings.workloads:
        base = results.number(want(name, "base-cssd"), "amat", "paper_ps")
        whole = paper.value(name, "base-cssd", "amat_total")
        for design in AMAT_DESIGNS:
            item = want(name, design)
            ours = results.number(item, "amat", "paper_ps")
            theirs = paper.value(name, design, "amat_total")
            rows.add(name, design, "amat_ns", quotient(ours, 1000), theirs)
            rows.add(name, design, "normalised_amat", quotient(ours, base), theirs / whole)
            for metric, _, _, keys in AMAT_PARTS:
                part = paper.value(name, design, f"amat_component_{metric}")
                share = quotient(results.number(item, "amat", *keys), ours)
                rows.add(name, design, metric, share, part / theirs)
    return rows.frame(parts=[metric for metric, *_ in AMAT_PARTS])


def draw_access_times(frame: polars.DataFrame) -> Figure:
    """(a) the mean time over Base-CSSD's, (b) what it consists of."""
    groups = frames.distinct(frame, "workload")
    names = [group for group in groups if group not in frames.MEANS]
    series = bars.of_designs(AMAT_DESIGNS)
    parts = [bars.Series(key, name, "", ink.PARTS[hue]) for key, name, hue, _ in AMAT_PARTS]
    values = frames.parts(frame)
    with ink.style():
        drawn = ink.figure(ink.PAGE, 6.4)
        top, bottom = drawn.subfigures(2, 1, squeeze=False)[:, 0]
        axes = top.subplots()
        bars.grouped(axes, groups, series, frames.cells(frame, "normalised_amat"), log=True)
        axes.set_ylabel("AMAT ÷ Base-CSSD")
        axes.set_title("(a) Average memory access time", loc="left")
        bars.legend(top, series, twins=True, columns=8)
        axes = bottom.subplots()
        columns = [(design, ink.code(design)) for design in AMAT_DESIGNS]
        bars.stacked(axes, names, columns, parts, values)
        axes.set_ylim(0, 1)
        axes.set_ylabel("Share of AMAT")
        axes.set_title("(b) Components", loc="left")
        bars.legend(bottom, parts, twins=True, columns=8)
    return drawn


def write_wants(settings: Settings) -> list[Want]:
    """The runs of Figure 18."""
    return [want(name, design) for name in settings.workloads for design in DESIGNS[:-1]]


def writes(results: Results) -> polars.DataFrame:
    """Figure 18: pages programmed, GC included, and over Base-CSSD's."""
    paper, rows = published("fig18"), Rows()
    for name in results.settings.workloads:
        base = results.number(want(name, "base-cssd"), "flash", "program_pages")
        whole = paper.value(name, "base-cssd", "flash_page_writes")
        for design in DESIGNS[:-1]:
            ours = results.number(want(name, design), "flash", "program_pages")
            theirs = paper.value(name, design, "flash_page_writes")
            rows.add(name, design, "normalised_writes", quotient(ours, base), theirs / whole)
            rows.add(name, design, "pages", ours, theirs)
    return rows.frame()


def draw_writes(frame: polars.DataFrame) -> Figure:
    """As Figure 14, on a logarithmic axis."""
    label = "Flash writes ÷ Base-CSSD"
    return _two_rows(frame, "normalised_writes", DESIGNS[:-1], label, log=True)


def _two_rows(
    frame: polars.DataFrame, metric: str, designs: tuple[str, ...], label: str, *,
    most: float = 0.0, log: bool = False,
) -> Figure:  # fmt: skip
    groups = frames.distinct(frame, "workload")
    series, values = bars.of_designs(designs), frames.cells(frame, metric)
    half = -(-len(groups) // 2) if len(groups) > 4 else len(groups)
    halves = [part for part in (groups[:half], groups[half:]) if part]
    with ink.style():
        drawn = ink.figure(ink.PAGE, 0.5 + 2.05 * len(halves))
        for axes, part in zip(drawn.subplots(len(halves), 1, squeeze=False)[:, 0], halves,
                              strict=True):  # fmt: skip
            limit = None if log else bars.top_of(values, most=most)
            bars.grouped(axes, part, series, values, limit=limit, log=log)
            axes.axhline(1, color=ink.SOFT, linewidth=0.6)
            axes.set_ylabel(label)
        if log:
            _share_limits(drawn)
        bars.legend(drawn, series, twins=True, columns=5)
    return drawn


def _share_limits(drawn: Figure) -> None:
    limits = [axes.get_ylim() for axes in drawn.axes]
    for axes in drawn.axes:
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
