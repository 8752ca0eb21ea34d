"""Figures 10 to 12 and Table V: captures with constants, drawn times and measured firmware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.core import Json
from entresol.figures import bars, frames, ink, lines
from entresol.figures.frames import Rows
from entresol.figures.plan import Results, quotient
from entresol.papers.opencxd.runs import BACK_ENDS, on, published, want

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

ALL = tuple(BACK_ENDS)
WORK = {"check cache": "#62b9e2", "insert": "#e6c04a", "check log": "#9a3f86"}
"""Table V's, by the names of recordings."""
HITS = {"append": ("log insert: append", "#2a9264"), "check cache": ("cache hit: check", "#62b9e2")}
SHOWN = ("srad", "ycsb")
"""The workloads of Figure 11 and Table V."""
MISS_LEAST_US = 90.0
"""What takes longer waited for the flash: a read at the cells takes 96 us at least."""
CALM = {
    "mean_ns": ("p50_ns", "mean (line: median)"),
    "sd_ns": ("sd_of_999_ns", "deviation (line: without 0.1 %)"),
}
"""What stands beside a number because interruptions do not move it, and the panel's title."""
DECADES = 8
"""Bins of the histogram to a factor of ten."""

every = on(*ALL)
looped = on("loop")


def worked(run: Json | None, work: str, name: str) -> float | None:
    """A number of a kind of work, in nanoseconds."""
    of = [] if run is None else run["device"]["work"]
    return next((each[f"{name}_ps"] / 1e3 for each in of if each["work"] == work), None)


def operations(results: Results) -> polars.DataFrame:
    """Table V: mean and standard deviation of the firmware's work; and the median and the deviation
    without the slowest in a thousand, which an interruption of the process does not move."""
    paper, rows = published("table5"), Rows()
    for name in results.settings.workloads:
        run = results.runs.get(want(name, "loop"))
        for work in WORK:
            for metric in ("mean", "sd", "sd_of_999", "p50"):
                theirs = paper.find(name, work, f"{metric}_ns")
                rows.add(name, work, f"{metric}_ns", worked(run, work, metric), theirs)
    return rows.frame(means=())


def draw_operations(frame: polars.DataFrame) -> Figure:
    """A panel for means and one for deviations."""
    series = [bars.Series(work, work, "", colour) for work, colour in WORK.items()]
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.5)
        panels = drawn.subplots(1, 2)
        groups = frames.distinct(frame, "workload")
        for axes, metric in zip(panels, ("mean_ns", "sd_ns"), strict=True):
            middles = bars.grouped(axes, groups, series, frames.cells(frame, metric), log=True)
            calm, title = CALM[metric]
            axes.set_title(title)
            for (name, work), (value, _) in frames.cells(frame, calm).items():
                if value and work is not None:
                    axes.plot(middles[name, work], value, "_", color=ink.INK, markersize=9)
        panels[0].set_ylabel("ns of the controller")
        bars.legend(drawn, series, twins=True)
    return drawn


def averages(results: Results) -> polars.DataFrame:
    """Figure 10: the controller's work in hits, mean and 99th percentile; the flash's reads."""
    paper, rows = published("fig10"), Rows()
    ratio = paper.value("all", "loop", "miss_over_modelled")
    for name in results.settings.workloads:
        run = results.runs.get(want(name, "loop"))
        for work in HITS:
            for metric in ("mean", "p99"):
                rows.add(name, work, f"{metric}_ns", worked(run, work, metric))
    for name in results.settings.workloads:
        reads = {end: results.number(want(name, end), "flash", "average_read_latency_ps")
                 for end in ALL}  # fmt: skip
        for end, mean in reads.items():
            rows.add(name, end, "read_us", quotient(mean, 1e6))
        rows.add(name, "loop", "read_over_modelled", quotient(reads["loop"], reads["modelled"]),
                 ratio)  # fmt: skip
    return rows.frame(means=())


def draw_averages(frame: polars.DataFrame) -> Figure:
    """Hits to the left, misses to the right."""
    hits = [bars.Series(work, name, "", colour) for work, (name, colour) in HITS.items()]
    groups = frames.distinct(frame, "workload")
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.6)
        left, right = drawn.subplots(1, 2)
        middles = bars.grouped(left, groups, hits, frames.cells(frame, "mean_ns"), log=True)
        for (name, work), (tail, _) in frames.cells(frame, "p99_ns").items():
            if tail and work is not None:
                left.plot(middles[name, work], tail, "_", color=ink.INK, markersize=6)
        left.set_ylabel("ns (bar: mean; line: p99)")
        left.set_title("(a) work of the firmware in hits, in the loop")
        misses = _ends()
        bars.grouped(right, groups, misses, frames.cells(frame, "read_us"), log=True)
        right.set_title("(b) mean read of the flash")
        right.set_ylabel("µs")
        bars.legend(drawn, [*hits, *misses], twins=False, columns=3)
    return drawn


def _ends() -> list[bars.Series]:
    return [bars.Series(end, name, "", colour) for end, (name, colour) in BACK_ENDS.items()]


def misses(run: Json | None) -> list[tuple[float, float]]:
    """Shares of the reads that waited for the flash, by the upper edge of a bin in microseconds."""
    if run is None:
        return []
    bins: dict[int, int] = {}
    below = 0
    for latency, count in run["statistics"]["latency_cdf"]:
        if (edge := latency / 1e6) > MISS_LEAST_US:
            place = 0
            while MISS_LEAST_US * 10 ** (place / DECADES) < edge:
                place += 1
            bins[place] = bins.get(place, 0) + count - below
        below = count
    whole = sum(bins.values())
    return [(MISS_LEAST_US * 10 ** (place / DECADES), count / whole)
            for place, count in sorted(bins.items())]  # fmt: skip


def histograms(results: Results) -> polars.DataFrame:
    """Figure 11: how reads that miss the device's DRAM are distributed."""
    paper, rows = published("fig11"), Rows()
    for name in results.settings.workloads:
        for end in ALL:
            shares = misses(results.runs.get(want(name, end)))
            for edge, share in shares:
                rows.add(name, end, "share", share, x=edge)
            theirs = paper.find(name, end, "most_common_share")
            most = max((share for _, share in shares), default=None)
            rows.add(name, end, "most_common_share", most, theirs)
    return rows.frame(means=())


def draw_histograms(frame: polars.DataFrame) -> Figure:
    """A panel for each workload, of the paper's two where they are there."""
    found = frames.read(frame)
    names = frames.distinct(frame, "workload")
    names = [name for name in SHOWN if name in names] or names[:2]
    with ink.style():
        drawn, panels = lines.panels(len(names), 2.1, ink.PAGE)
        for axes, name in zip(panels, names, strict=True):
            for end, (_, colour) in BACK_ENDS.items():
                points = [(float(row.x), row.ours) for row in found
                          if (row.workload, row.design, row.metric) == (name, end, "share")
                          and row.x is not None and row.ours is not None]  # fmt: skip
                axes.step([x for x, _ in points], [y for _, y in points], where="mid",
                          color=colour)  # fmt: skip
            axes.set_xscale("log")
            axes.set_ylim(bottom=0)
            axes.set_title(name)
            axes.set_xlabel("read that missed (µs)")
            ink.grid(axes)
        panels[0].set_ylabel("Share of misses")
        names_of = [(name, colour, None) for name, colour in BACK_ENDS.values()]
        lines.legend(drawn, names_of, twins=False)
    return drawn


def cycles(results: Results) -> polars.DataFrame:
    """Figure 12: cycles of a core with a thread on it, for an instruction."""
    rows = Rows()
    for name in results.settings.workloads:
        for end in ALL:
            ipc = results.number(want(name, end), "cores", "ipc_micro")
            rows.add(name, end, "cpi", quotient(1e6, ipc))
    for name in results.settings.workloads:
        least = results.time(want(name, "modelled"))
        for end in ALL:
            rows.add(name, end, "normalised_time", quotient(results.time(want(name, end)), least))
    return rows.frame(means=())


def draw_cycles(frame: polars.DataFrame) -> Figure:
    """Cycles on a logarithmic axis, and times over the model's."""
    series = _ends()
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.6)
        left, right = drawn.subplots(1, 2)
        groups = frames.distinct(frame, "workload")
        bars.grouped(left, groups, series, frames.cells(frame, "cpi"), log=True)
        left.set_ylabel("Cycles ÷ instruction")
        bars.grouped(right, groups, series, frames.cells(frame, "normalised_time"), log=True)
        right.set_ylabel("Execution time ÷ modelled")
        bars.legend(drawn, series, twins=False)
    return drawn
