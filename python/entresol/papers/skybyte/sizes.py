"""Figures 19, 20 and 21: how large the write log and device DRAM are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.figures import frames, ink, lines
from entresol.figures.frames import Rows
from entresol.figures.plan import Results, Settings, Want, quotient
from entresol.figures.published import Table
from entresol.papers.skybyte.runs import published, want

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

LOGS = (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256)
"""MB of the paper, of 512 MB of device DRAM."""
DEFAULT_LOG = 64
LOG_WORKLOADS = frozenset({"bc", "radix", "srad", "tpcc", "ycsb"})
"""The workloads of which numbers were published."""
HOLES = frozenset({("tpcc", 1), ("ycsb", 8)})
"""Runs of theirs that are incomplete."""
HOSTS = (0.5, 1, 2, 4, 8)
"""Promoted pages in GB of the paper; device DRAM is a quarter, the log an eighth of that."""
DEFAULT_HOST = 2
DESIGNS = ("base-cssd", "skybyte-p", "skybyte-w", "skybyte-wp", "skybyte-full")


def _log(settings: Settings, workload: str, megabytes: float) -> Want:
    if megabytes == DEFAULT_LOG and settings.is_default:  # The same run as elsewhere.
        return want(workload, "skybyte-wp")
    return want(workload, "skybyte-wp", ssd__log__size=settings.size(megabytes))


def log_wants(settings: Settings) -> list[Want]:
    """The runs of Figures 19 and 20."""
    return [_log(settings, name, each) for name in settings.workloads for each in LOGS]


def log_times(results: Results) -> polars.DataFrame:
    """Figure 19: execution time over that with the default log."""
    paper, rows = published("fig19"), Rows()
    for name in results.settings.workloads:
        base = results.time(_log(results.settings, name, DEFAULT_LOG))
        for each in LOGS:
            ours = quotient(results.time(_log(results.settings, name, each)), base)
            theirs = _relative(paper, name, "exec_time", each)
            rows.add(name, "skybyte-wp", "normalised_time", ours, theirs, each)
    return rows.frame()


def log_writes(results: Results) -> polars.DataFrame:
    """Figure 20: pages programmed, over those with the default log."""
    paper, rows = published("fig20"), Rows()
    for name in results.settings.workloads:
        base = results.number(_log(results.settings, name, DEFAULT_LOG), "flash", "program_pages")
        for each in LOGS:
            item = _log(results.settings, name, each)
            pages = results.number(item, "flash", "program_pages")
            theirs = _relative(paper, name, "flash_page_writes", each)
            rows.add(name, item.design, "normalised_writes", quotient(pages, base), theirs, each)
            found = paper.find(name, item.design, "flash_page_writes", each)
            rows.add(name, item.design, "pages", pages, found, each)
    return rows.frame()


def _relative(paper: Table, workload: str, metric: str, megabytes: float) -> float | None:
    if workload not in LOG_WORKLOADS or (workload, megabytes) in HOLES:
        return None
    base = paper.value(workload, "skybyte-wp", metric, DEFAULT_LOG)
    return paper.value(workload, "skybyte-wp", metric, megabytes) / base


def draw_log_times(frame: polars.DataFrame) -> Figure:
    """A panel per workload."""
    return _draw_logs(frame, "normalised_time", "Time ÷ 64 MB")


def draw_log_writes(frame: polars.DataFrame) -> Figure:
    """A panel per workload."""
    return _draw_logs(frame, "normalised_writes", "Writes ÷ 64 MB")


def _draw_logs(frame: polars.DataFrame, metric: str, label: str) -> Figure:
    rows = [row for row in frames.read(frame) if row.metric == metric]
    known = {row.workload for row in rows if row.ours is not None or row.published is not None}
    names = [name for name in frames.distinct(frame, "workload") if name != frames.ARITHMETIC]
    names = [name for name in names if name in known or name not in frames.MEANS] or names
    columns = lines.columns_for(len(names))
    with ink.style():
        drawn, panels = lines.panels(len(names), 1.45, ink.PAGE)
        for axes, name in zip(panels, names, strict=True):
            for theirs in (True, False):
                points = [(float(row.x), value) for row in rows
                          if row.workload == name and row.x is not None
                          and (value := row.published if theirs else row.ours)]  # fmt: skip
                colour = ink.SOFT if theirs else ink.colour("skybyte-wp")
                lines.draw(axes, lines.Curve("", points, colour, theirs, 0))
            axes.set_xscale("log", base=2)
            axes.set_xticks((0.5, 4, 32, 256), ("0.5", "4", "32", "256"))
            ink.log_axis(axes, least=0.8, most=1.25)
            axes.set_title(name)
            ink.grid(axes)
            if name not in known:
                axes.set_yticks(())
                axes.set_yticks((), minor=True)
            axes.text(0.97, 0.95, _nothing(frame, name, metric), transform=axes.transAxes,
                      ha="right", va="top", fontsize=6, color=ink.SOFT)  # fmt: skip
        for axes in panels[::columns]:
            axes.set_ylabel(label)
        drawn.supxlabel("Write log (MB in the paper)", fontsize=7.5)
        lines.legend(drawn, [("SkyByte-WP", ink.colour("skybyte-wp"), 0)], twins=True)
    return drawn


def _nothing(frame: polars.DataFrame, workload: str, metric: str) -> str:
    """Why there is no curve of ours, where it is that nothing was written."""
    if metric != "normalised_writes" or workload in frames.MEANS:
        return ""
    rows = [row for row in frames.read(frame) if row.workload == workload]
    pages = [row.ours for row in rows if row.metric == "pages" and row.ours is not None]
    if not pages or any(row.ours is not None for row in rows if row.metric == metric):
        return ""
    where = f"\nwith {DEFAULT_LOG} MB" if any(pages) else ""
    return f"Entresol writes nothing{where}"


def _host(settings: Settings, workload: str, design: str, gigabytes: float) -> Want:
    if gigabytes == DEFAULT_HOST and settings.is_default:
        return want(workload, design)
    promoted = gigabytes * 1024
    return want(workload, design, host__promoted=settings.size(promoted),
                ssd__dram=settings.size(promoted / 4),
                ssd__log__size=settings.size(promoted / 32))  # fmt: skip


def dram_wants(settings: Settings) -> list[Want]:
    """The runs of Figure 21."""
    return [_host(settings, name, design, each) for name in settings.workloads
            for design in DESIGNS for each in HOSTS]  # fmt: skip


def dram_times(results: Results) -> polars.DataFrame:
    """Figure 21: execution time over SkyByte-Full's with the default; x is device DRAM in MB."""
    paper, rows = published("fig21"), Rows()
    for name in results.settings.workloads:
        base = results.time(_host(results.settings, name, "skybyte-full", DEFAULT_HOST))
        whole = paper.find(name, "skybyte-full", "exec_time", DEFAULT_HOST)
        for design in DESIGNS:
            for each in HOSTS:
                ours = quotient(results.time(_host(results.settings, name, design, each)), base)
                theirs = quotient(paper.find(name, design, "exec_time", each), whole)
                rows.add(name, design, "normalised_time", ours, theirs, each * 256)
    return rows.frame()


def draw_dram_times(frame: polars.DataFrame) -> Figure:
    """A panel per workload, a curve per design; published points where there are any."""
    names = [name for name in frames.distinct(frame, "workload") if name != frames.ARITHMETIC]
    rows = frames.read(frame)
    columns = lines.columns_for(len(names))
    with ink.style():
        drawn, panels = lines.panels(len(names), 1.7, ink.PAGE)
        for axes, name in zip(panels, names, strict=True):
            for index, design in enumerate(DESIGNS):
                for theirs in (True, False):
                    points = [
                        (float(row.x), value)
                        for row in rows
                        if row.x is not None
                        and (row.workload, row.design) == (name, design)
                        and (value := row.published if theirs else row.ours) is not None
                    ]
                    if points:
                        curve = lines.Curve("", points, ink.colour(design), theirs, index)
                        lines.draw(axes, curve)
            axes.set_xscale("log", base=2)
            ink.log_axis(axes, least=0.8, most=5)
            axes.set_xticks([each * 256 for each in HOSTS], [f"{each * 256:g}" for each in HOSTS],
                            rotation=45)  # fmt: skip
            axes.set_title(name)
            ink.grid(axes)
        for axes in panels[::columns]:
            axes.set_ylabel("Time ÷ Full, 512 MB")
        drawn.supxlabel("Device DRAM (MB in the paper)", fontsize=7.5)
        shown = [(ink.label(name), ink.colour(name), index) for index, name in enumerate(DESIGNS)]
        lines.legend(drawn, shown, twins=True)
    return drawn
