"""Figures 9, 10, 15 and 16, and Table III: the coordinated context switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from entresol.figures import bars, frames, ink, lines
from entresol.figures.frames import Rows
from entresol.figures.plan import Results, Settings, Want, quotient
from entresol.papers.skybyte.runs import PLAIN, published, want

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

THRESHOLDS = (2, 3, 4, 6, 8, 10, 14, 18, 22, 30, 40, 60, 80)
"""µs."""
THRESHOLD_WORKLOADS = ("bc", "srad", "tpcc")
SCHEDULERS = (("round_robin", "RR"), ("random", "Random"), ("cfs", "CFS"))
THREADS = (16, 24, 32, 40, 48)
REQUESTS = (
    ("host_dram_read_write", "H-R/W", "host", ("host_reads", "host_writes")),
    ("ssd_dram_read_hit", "S-R-H", "hit", ("ssd_log_hits", "ssd_cache_hits", "ssd_buffer_hits")),
    ("ssd_dram_read_miss", "S-R-M", "miss", ("ssd_misses", "ssd_merged_misses", "ssd_unmapped")),
    ("ssd_write", "S-W", "write", ("ssd_writes", "ssd_store_misses")),
)
"""Metric of the paper, its name there, colour, and our counts that belong to it."""
LINE = 64


def _threshold(settings: Settings, workload: str, microseconds: int) -> Want:
    if microseconds == 2 and settings.is_default:  # The same run as elsewhere.
        return want(workload, "skybyte-full")
    return want(workload, "skybyte-full", os__switch_threshold=f"{microseconds}us")


def _threshold_workloads(settings: Settings) -> list[str]:
    chosen = [name for name in settings.workloads if name in THRESHOLD_WORKLOADS]
    return chosen or list(settings.workloads)


def threshold_wants(settings: Settings) -> list[Want]:
    """The runs of Figure 9."""
    names = _threshold_workloads(settings)
    return [_threshold(settings, name, each) for name in names for each in THRESHOLDS]


def thresholds(results: Results) -> polars.DataFrame:
    """Figure 9: execution time over that with a threshold of 2 µs."""
    paper, rows = published("fig09"), Rows()
    for name in _threshold_workloads(results.settings):
        least = results.time(_threshold(results.settings, name, 2))
        for each in THRESHOLDS:
            theirs = None
            if name in THRESHOLD_WORKLOADS:
                value, at = (paper.value(name, "skybyte-full", "core_exe_time_max", x * 1000)
                             for x in (each, 2))  # fmt: skip
                theirs = value / at
            ours = quotient(results.time(_threshold(results.settings, name, each)), least)
            rows.add(name, "skybyte-full", "normalised_time", ours, theirs, each)
    return rows.frame()


def draw_thresholds(frame: polars.DataFrame) -> Figure:
    """A curve per workload."""
    colours = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c5a2b", "#5a4bc4", "#333333")
    names = [name for name in frames.distinct(frame, "workload") if name not in frames.MEANS]
    with ink.style():
        drawn = ink.figure(ink.COLUMN, 2.4)
        axes = drawn.subplots()
        shown = []
        for index, name in enumerate(names):
            _curves(axes, frame, name, colours[index], index)
            shown.append((name, colours[index], index))
        axes.set_xscale("log")
        ticks = (2, 4, 10, 20, 40, 80)
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("Threshold (µs)")
        axes.set_ylabel("Execution time ÷ that at 2 µs")
        ink.grid(axes)
        lines.legend(drawn, shown, twins=True)
    return drawn


def _curves(axes: Axes, frame: polars.DataFrame, name: str, colour: str, mark: int) -> None:
    rows = [row for row in frames.read(frame) if row.workload == name and row.x is not None]
    for theirs in (True, False):
        points = [(float(row.x), value) for row in rows if row.x is not None
                  and (value := row.published if theirs else row.ours) is not None]  # fmt: skip
        lines.draw(axes, lines.Curve(name, points, colour, theirs, mark))


def _scheduler(settings: Settings, workload: str, policy: str) -> Want:
    if policy == "cfs" and settings.is_default:
        return want(workload, "skybyte-full")
    return want(workload, "skybyte-full", os__scheduler=policy)


def scheduler_wants(settings: Settings) -> list[Want]:
    """The runs of Figure 10."""
    return [_scheduler(settings, name, key) for name in settings.workloads for key, _ in SCHEDULERS]


_PARTS = ("memory_bound", "compute_bound", "switch", "idle")


def schedulers(results: Results) -> polars.DataFrame:
    """Figure 10: execution time over that with round robin, and what the cores did in it."""
    rows = Rows()
    for name in results.settings.workloads:
        first = results.time(_scheduler(results.settings, name, "round_robin"))
        for key, _ in SCHEDULERS:
            item = _scheduler(results.settings, name, key)
            time = quotient(results.time(item), first)
            rows.add(name, "skybyte-full", "normalised_time", time, None, key)
            parts = {part: results.number(item, "cores", f"{part}_ps")
                     for part in _PARTS}  # fmt: skip
            whole = sum(value or 0 for value in parts.values())
            for part, value in parts.items():
                share = quotient(value, whole)
                height = None if share is None or time is None else share * time
                rows.add(name, "skybyte-full", part, height, None, key)
    return rows.frame(means=(frames.GEOMETRIC, frames.ARITHMETIC), parts=_PARTS)


def draw_schedulers(frame: polars.DataFrame) -> Figure:
    """Bars of parts per policy; the line is the text's: the three deliver similar performance."""
    names = {"memory_bound": ("bound by memory", "memory"),
             "compute_bound": ("bound by compute", "compute"),
             "switch": ("context switch", "switch"), "idle": ("idle", "other")}  # fmt: skip
    parts = [bars.Series(key, name, "", ink.PARTS[hue]) for key, (name, hue) in names.items()]
    values = {(row.workload, str(row.x), row.metric): (row.ours, row.published)
              for row in frames.read(frame)}  # fmt: skip
    groups = [name for name in frames.distinct(frame, "workload") if name != frames.GEOMETRIC]
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.5)
        axes = drawn.subplots()
        bars.stacked(axes, groups, SCHEDULERS, parts, values)
        axes.axhline(1, color=ink.SOFT, linewidth=0.7, linestyle=(0, (3, 2)))
        axes.set_ylabel("Execution time ÷ RR")
        bars.legend(drawn, parts, twins=False)
    return drawn


def _threads(workload: str, threads: int) -> Want:
    design = "skybyte-wp" if threads == PLAIN else "skybyte-full"
    return want(workload, design, threads=threads)


def thread_wants(settings: Settings) -> list[Want]:
    """The runs of Figure 15."""
    return [_threads(name, each) for name in settings.workloads for each in (PLAIN, *THREADS)]


def _bandwidth(results: Results, item: Want, *names: str) -> float | None:
    lines_moved, time = results.number(item, "requests", *names), results.time(item)
    return None if lines_moved is None else quotient(lines_moved * LINE, time)


def threads(results: Results) -> polars.DataFrame:
    """Figure 15: throughput and bandwidth, over those of SkyByte-WP with 8 threads."""
    times, split, rows = published("fig15"), published("fig15b"), Rows()
    device = tuple(key for _, name, _, keys in REQUESTS if name != "H-R/W" for key in keys)
    host = REQUESTS[0][3]
    for name in results.settings.workloads:
        start = _threads(name, PLAIN)
        whole = _bandwidth(results, start, *device, *host)
        base = times.value(name, start.design, "exec_time", PLAIN)
        for each in (PLAIN, *THREADS):
            item = _threads(name, each)
            ours = quotient(results.time(start), results.time(item))
            theirs = base / times.value(name, item.design, "exec_time", each)
            rows.add(name, item.design, "throughput", ours, theirs, each)
            for metric, keys in (("ssd_bandwidth", device), ("host_dram_bandwidth", host)):
                theirs = split.value(name, item.design, f"{metric}_normalised", each)
                ours = quotient(_bandwidth(results, item, *keys), whole)
                rows.add(name, item.design, metric, ours, theirs, each)
    return rows.frame()


def draw_threads(frame: polars.DataFrame) -> Figure:
    """Bars for throughput, lines for the bandwidth of the device."""
    from matplotlib.lines import Line2D

    groups = frames.distinct(frame, "workload")
    steps = (PLAIN, *THREADS)
    series = [
        bars.Series(
            float(each),
            "WP, 8 threads" if each == PLAIN else f"Full, {each}",
            str(each),
            ink.LADDER[index],
        )
        for index, each in enumerate(steps)
    ]
    values = frames.cells(frame, "throughput", by_x=True)
    bandwidth = frames.cells(frame, "ssd_bandwidth", by_x=True)
    half = -(-len(groups) // 2) if len(groups) > 4 else len(groups)
    halves = [part for part in (groups[:half], groups[half:]) if part]
    line = Line2D([], [], color="#0072b2", marker="o", markersize=2.5, linewidth=0.9,
                  label="SSD bandwidth")  # fmt: skip
    with ink.style():
        drawn = ink.figure(ink.PAGE, 0.5 + 1.9 * len(halves))
        limit = bars.top_of({**values, **{(g, f"b{x}"): c for (g, x), c in bandwidth.items()}},
                            most=5)  # fmt: skip
        for axes, part in zip(drawn.subplots(len(halves), 1, squeeze=False)[:, 0], halves,
                              strict=True):  # fmt: skip
            middles = bars.grouped(axes, part, series, values, limit=limit)
            for group in part:
                _bandwidth_lines(axes, group, steps, middles, bandwidth)
            axes.set_ylabel("÷ SkyByte-WP, 8 threads")
        bars.legend(drawn, series, twins=True, columns=5, more=(line,))
    return drawn


def _bandwidth_lines(
    axes: Axes,
    group: str,
    steps: Sequence[int],
    middles: Mapping[tuple[str, str | float], float],
    values: bars.Values,
) -> None:
    for which, style in ((1, (0, (3, 2))), (0, "solid")):
        points = [
            (middles[group, float(step)], value)
            for step in steps
            if (value := values.get((group, float(step)), (None, None))[which]) is not None
        ]
        face = "#0072b2" if which == 0 else "white"
        axes.plot([x for x, _ in points], [y for _, y in points], color="#0072b2", marker="o",
                  markersize=2.2, linewidth=0.8, linestyle=style, markerfacecolor=face,
                  markeredgewidth=0.6, clip_on=True)  # fmt: skip


def request_wants(settings: Settings) -> list[Want]:
    """The runs of Figure 16 and Table III."""
    return [want(name, "skybyte-wp") for name in settings.workloads]


def requests(results: Results) -> polars.DataFrame:
    """Figure 16: requests below L3 by where they are served, as shares."""
    paper, rows = published("fig16"), Rows()
    every = tuple(key for _, _, _, keys in REQUESTS for key in keys)
    for item in request_wants(results.settings):
        whole = results.number(item, "requests", *every)
        for metric, _, _, keys in REQUESTS:
            ours = quotient(results.number(item, "requests", *keys), whole)
            theirs = paper.value(item.workload, item.design, metric) / 100
            rows.add(item.workload, item.design, metric, ours, theirs)
    return rows.frame(means=(frames.ARITHMETIC,))


def draw_requests(frame: polars.DataFrame) -> Figure:
    """A bar of four parts per workload."""
    parts = [bars.Series(key, name, "", ink.PARTS[hue]) for key, name, hue, _ in REQUESTS]
    values = frames.parts(frame)
    with ink.style():
        drawn = ink.figure(ink.COLUMN * 1.35, 2.3)
        axes = drawn.subplots()
        groups = frames.distinct(frame, "workload")
        bars.stacked(axes, groups, [("skybyte-wp", "")], parts, values)
        axes.set_ylim(0, 1)
        axes.set_ylabel("Share of requests")
        bars.legend(drawn, parts, twins=True)
    return drawn


def read_latencies(results: Results) -> polars.DataFrame:
    """Table III: mean latency of a flash read, µs."""
    paper, rows = published("table3"), Rows()
    for item in request_wants(results.settings):
        ours = quotient(results.number(item, "flash", "average_read_latency_ps"), 1e6)
        theirs = paper.value(item.workload, item.design, "flash_read_latency_us")
        rows.add(item.workload, item.design, "flash_read_latency_us", ours, theirs)
    return rows.frame()


def draw_read_latencies(frame: polars.DataFrame) -> Figure:
    """The table as bars."""
    series = [bars.Series("skybyte-wp", "SkyByte-WP", "", ink.colour("skybyte-wp"))]
    values = frames.cells(frame, "flash_read_latency_us")
    with ink.style():
        drawn = ink.figure(ink.COLUMN * 1.35, 2.2)
        axes = drawn.subplots()
        bars.grouped(axes, frames.distinct(frame, "workload"), series, values, log=True)
        axes.set_yticks((1, 3, 10, 30, 100), ("1", "3", "10", "30", "100"))
        axes.set_yticks([], minor=True)
        axes.set_ylabel("Flash read (µs)")
        bars.legend(drawn, series, twins=True)
    return drawn
