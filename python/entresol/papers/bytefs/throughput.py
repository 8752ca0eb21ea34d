"""Figures 6, 7, 12, 13 and 14: throughput and latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.figures import bars, frames, ink
from entresol.figures.frames import Cell, Rows
from entresol.figures.plan import Bench, Results, Settings, quotient
from entresol.papers.bytefs import runs
from entresol.papers.bytefs.runs import BYTEFS, EXT4, MACRO, MICRO, STEPS, YCSB, bench, published

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

NORMALISED = "normalised_throughput"
FLASHES = {
    "3/80*": ("cxl", {}),
    "3/80": ("", {"nand__t_r": "3us", "nand__t_prog": "80us"}),
    "25/200": ("", {"nand__t_r": "25us", "nand__t_prog": "200us"}),
    "40/60": ("", {}),
    "50/600": ("", {"nand__t_r": "50us", "nand__t_prog": "600us"}),
}
"""Read and program times in us. The paper's text has the first two; the others of its axis are in
the picture alone, and these are ours: SLC, the prototype, TLC. With the star the link is CXL."""
LOGGED = "bytefs"
"""The device with a log."""
LOGS = (64, 128, 256, 512)
"""Sizes of the log in MiB. The paper's text has the first."""
BESIDE = 4
"""MiB of the device's memory beside the log: TxLog and the pages under way."""


def throughputs(results: Results) -> polars.DataFrame:
    """Figure 6: operations per second over Ext4-like's; ByteFS over the others, as the text has
    it."""
    paper, rows = published("fig06"), Rows()
    wanted = runs.loads(results.settings, runs.LOADS)
    for load in wanted:
        for name in runs.systems():
            ours = runs.over(runs.throughput, results, load, name, EXT4)
            rows.add(load, name, NORMALISED, ours, paper.find(load, name, f"over_{EXT4}"))
    for other in (name for name in runs.systems() if name not in (BYTEFS, EXT4)):
        for load in wanted:
            ours = runs.over(runs.throughput, results, load, BYTEFS, other)
            rows.add(load, BYTEFS, f"over_{other}", ours, paper.find(load, BYTEFS, f"over_{other}"))
    frame = rows.frame()
    return frame if not set(MICRO) <= set(wanted) else frame.vstack(_of_micro(results))


def _of_micro(results: Results) -> polars.DataFrame:
    rows = Rows()
    for other in (name for name in runs.systems() if name != BYTEFS):
        every = [runs.over(runs.throughput, results, load, BYTEFS, other) for load in MICRO]
        known = [value for value in every if value is not None]
        mean = frames.mean(frames.ARITHMETIC, known) if len(known) == len(every) else None
        theirs = published("fig06").find("micro", BYTEFS, f"over_{other}")
        rows.add("micro-benchmarks", BYTEFS, f"mean_over_{other}", mean, theirs)
    return rows.frame()


def draw_throughputs(frame: polars.DataFrame) -> Figure:
    """Micro-benchmarks and programs above, YCSB below."""
    known = frame.filter(frame["metric"] == NORMALISED)
    parts = runs.in_rows(frames.distinct(known, "workload"))
    return _rows(known, parts, "Throughput ÷ Ext4-like")


def _rows(frame: polars.DataFrame, parts: list[list[str]], label: str) -> Figure:
    names = frames.distinct(frame, "design")
    values = frames.cells(frame, frames.distinct(frame, "metric")[0])
    with ink.style():
        drawn = ink.figure(ink.PAGE, 0.5 + 2.05 * len(parts))
        for axes, part in zip(drawn.subplots(len(parts), 1, squeeze=False)[:, 0],
                              parts, strict=True):  # fmt: skip
            limit = bars.top_of(values, most=8)
            bars.grouped(axes, part, runs.series(names), values, limit=limit)
            axes.axhline(1, color=ink.SOFT, linewidth=0.6)
            axes.set_ylabel(label)
        bars.legend(drawn, runs.series(names), twins=True, columns=7)
    return drawn


LATENCIES = (
    ("read", "read", "mean"), ("read", "read", "p95"), ("write", "update", "mean"),
    ("write", "update", "p95"), ("write", "insert", "mean"), ("write", "insert", "p95"),
    ("write", "read_modify_write", "mean"), ("write", "read_modify_write", "p95"),
)  # fmt: skip
"""What the figure calls it, our operation, and which number of it."""


def latencies(results: Results) -> polars.DataFrame:
    """Figure 7: mean and 95th percentile over Ext4-like's."""
    paper, rows = published("fig07"), Rows()
    for load in runs.loads(results.settings, YCSB):
        for called, kind, what in LATENCIES:
            for name in runs.systems():
                ours = runs.latency(results, bench(load, name), kind, what)
                base = runs.latency(results, bench(load, EXT4), kind, what)
                if ours is not None or not results.benches:
                    rows.add(load, name, f"normalised_{kind}_{what}", quotient(ours, base))
            others = (name for name in runs.systems() if name not in (BYTEFS, EXT4))
            for other in others:
                theirs = runs.latency(results, bench(load, other), kind, what)
                mine = runs.latency(results, bench(load, BYTEFS), kind, what)
                was = paper.find(load, BYTEFS, f"{called}_{what}_over_{other}")
                if mine is not None or was is not None:
                    rows.add(load, BYTEFS, f"{kind}_{what}_below_{other}", quotient(theirs, mine),
                             was)  # fmt: skip
    return rows.frame(means=())


def draw_latencies(frame: polars.DataFrame) -> Figure:
    """Reads above, updates below; each mean and tail."""
    shown = [("normalised_read_mean", "Read, mean"), ("normalised_read_p95", "Read, 95 %"),
             ("normalised_update_mean", "Update, mean"),
             ("normalised_update_p95", "Update, 95 %")]  # fmt: skip
    names = runs.systems()
    with ink.style():
        drawn = ink.figure(ink.PAGE, 4.4)
        for axes, (metric, title) in zip(drawn.subplots(2, 2).flat, shown, strict=True):
            part = frame.filter(frame["metric"] == metric)
            values = frames.cells(part, metric)
            bars.grouped(axes, frames.distinct(part, "workload"), runs.series(names), values,
                         limit=bars.top_of(values, most=4) if values else None)  # fmt: skip
            axes.set_title(title, loc="left")
            axes.set_ylabel("÷ Ext4-like")
        bars.legend(drawn, runs.series(names), twins=False, columns=6)
    return drawn


def step_wants(settings: Settings) -> list[Bench]:
    """The runs of Figure 12."""
    return [bench(load, name) for load in runs.loads(settings, MACRO) for name in (EXT4, *STEPS)]


def steps(results: Results) -> polars.DataFrame:
    """Figure 12: throughput of the design steps over Ext4-like's."""
    rows = Rows()
    for load in runs.loads(results.settings, MACRO):
        for name in (EXT4, *STEPS):
            ours = runs.over(runs.throughput, results, load, name, EXT4)
            rows.add(load, name, NORMALISED, ours)
    return rows.frame()


def logged_wants(settings: Settings) -> list[Bench]:
    """Everybody on the device with a log."""
    names = (*runs.systems(), *(name for name in STEPS if name != BYTEFS))
    return [bench(load, name, LOGGED) for load in runs.loads(settings, (*MICRO, *MACRO))
            for name in names]  # fmt: skip


def logged(results: Results) -> polars.DataFrame:
    """Throughput of every personality on the device with a log, over Ext4-like's there."""
    rows = Rows()
    for item in logged_wants(results.settings):
        base = runs.throughput(results, bench(item.workload, EXT4, LOGGED))
        ours = quotient(runs.throughput(results, item), base)
        rows.add(item.workload, item.personality, NORMALISED, ours)
    return rows.frame()


USED = "100%"
"""A file that filled the drive was overwritten once at random, and removed."""


def used_wants(settings: Settings) -> list[Bench]:
    """Everybody on a drive that has been in use."""
    return [bench(load, name, fs__aged=USED) for load in runs.loads(settings, runs.LOADS)
            for name in runs.systems()]  # fmt: skip


def used(results: Results) -> polars.DataFrame:
    """Throughput on a drive that has been in use, over Ext4-like's there."""
    rows = Rows()
    for item in used_wants(results.settings):
        base = runs.throughput(results, bench(item.workload, EXT4, fs__aged=USED))
        ours = quotient(runs.throughput(results, item), base)
        rows.add(item.workload, item.personality, NORMALISED, ours)
    return rows.frame(means=(frames.GEOMETRIC,))


def draw_steps(frame: polars.DataFrame) -> Figure:
    """As Figure 6."""
    return _rows(frame, [frames.distinct(frame, "workload")], "Throughput ÷ Ext4-like")


def _on_flash(load: str, name: str, flash: str) -> Bench:
    preset, sizes = FLASHES[flash]
    if preset and not name.startswith("bytefs"):
        # The CXL link, without a log.
        link = {"device__line_read": "55ns", "device__line_write": "27.5ns",
                "device__line_reads": "10", "nand__t_r": "3us", "nand__t_prog": "80us"}  # fmt: skip
        return bench(load, name, "", **link)
    return bench(load, name, preset, **sizes)


def flash_wants(settings: Settings) -> list[Bench]:
    """The runs of Figure 13."""
    return [_on_flash(load, name, flash) for load in runs.loads(settings, MACRO)
            for flash in FLASHES for name in runs.systems()]  # fmt: skip


def flashes(results: Results) -> polars.DataFrame:
    """Figure 13: throughput with kinds of flash, over Ext4-like's with that of Table 4."""
    rows = Rows()
    for load in runs.loads(results.settings, MACRO):
        base = runs.throughput(results, bench(load, EXT4))
        for flash in FLASHES:
            for name in runs.systems():
                ours = runs.throughput(results, _on_flash(load, name, flash))
                rows.add(load, name, NORMALISED, quotient(ours, base), x=flash)
    return rows.frame()


def draw_flashes(frame: polars.DataFrame) -> Figure:
    """A panel for each load, a group of bars for each kind of flash."""
    groups = [name for name in frames.distinct(frame, "workload") if name not in frames.MEANS]
    names = frames.distinct(frame, "design")
    with ink.style():
        drawn = ink.figure(ink.PAGE, 0.4 + 1.6 * max(len(groups), 1))
        for axes, load in zip(drawn.subplots(max(len(groups), 1), 1, squeeze=False)[:, 0],
                              groups or [""], strict=True):  # fmt: skip
            part = [row for row in frames.read(frame) if row.workload == load]
            values: dict[tuple[str, str | float | None], Cell] = {
                (str(row.x), row.design): (row.ours, row.published) for row in part
            }
            bars.grouped(axes, list(FLASHES), runs.series(names), values)
            axes.set_title(load, loc="left")
            axes.set_ylabel("÷ Ext4-like 40/60")
        bars.legend(drawn, runs.series(names), twins=False, columns=6)
    return drawn


def _with_log(load: str, log: int) -> Bench:
    return bench(load, BYTEFS, "", ssd__dram=f"{log + BESIDE}MiB", ssd__log__size=f"{log}MiB")


def log_wants(settings: Settings) -> list[Bench]:
    """The runs of Figure 14."""
    return [_with_log(load, log) for load in runs.loads(settings, MACRO) for log in LOGS]


def logs(results: Results) -> polars.DataFrame:
    """Figure 14: throughput with sizes of the log, over that with 64 MiB."""
    rows = Rows()
    for load in runs.loads(results.settings, MACRO):
        base = runs.throughput(results, _with_log(load, LOGS[0]))
        for log in LOGS:
            ours = runs.throughput(results, _with_log(load, log))
            rows.add(load, BYTEFS, NORMALISED, quotient(ours, base), x=float(log))
    return rows.frame()


def draw_logs(frame: polars.DataFrame) -> Figure:
    """A group of bars for each load, a bar for each size."""
    groups = [name for name in frames.distinct(frame, "workload") if name not in frames.MEANS]
    sizes = [bars.Series(float(log), f"{log} MiB", str(log), shade)
             for log, shade in zip(LOGS, ink.LADDER, strict=False)]  # fmt: skip
    values = frames.cells(frame, NORMALISED, by_x=True)
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.4)
        axes = drawn.subplots()
        bars.grouped(axes, groups, sizes, values)
        axes.axhline(1, color=ink.SOFT, linewidth=0.6)
        axes.set_ylabel("Throughput ÷ 64 MiB")
        bars.legend(drawn, sizes, twins=False)
    return drawn
