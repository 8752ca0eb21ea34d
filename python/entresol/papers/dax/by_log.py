"""The device's log as the persistent memory, beside a window of as many battery-backed bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from entresol.core import Json
from entresol.databases.drive import PERSONALITY, PMEM, PRESET, SIZE
from entresol.figures import frames, ink, lines
from entresol.figures.frames import Rows
from entresol.figures.lines import Curve
from entresol.figures.plan import Bench, Results, Settings, quotient
from entresol.papers.dax import runs
from entresol.papers.dax.runs import THESIS, TITLES, WITHOUT, Policy

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

FLUSHES = (0.1, 1.0, 3.5)
"""In milliseconds."""
LINE, HEADER = 64, 16
LOG_MIB, TX_LOG_MIB = 49, 2
"""As much as the window, or a little less: lines, what says of each whose it is, and commits."""
CACHE_MIB = 64
"""DRAM of the preset, which is the data cache of all."""


def battery_backed() -> int:
    """Bytes of the log that a battery keeps."""
    return (LOG_MIB << 20) // LINE * (LINE + HEADER) + (TX_LOG_MIB << 20)


LOG = (
    f"ssd.log.size={LOG_MIB}MiB", f"ssd.log.tx_log={TX_LOG_MIB}MiB", "ssd.log.index=skip_list",
    "ssd.log.lookup=89ns", "ssd.log.seal_at=85%",
    f"ssd.dram={CACHE_MIB + LOG_MIB + TX_LOG_MIB}MiB", "ssd.power_loss_protection=log",
)  # fmt: skip
"""Index, its lookup and when a half is sealed as in the preset `bytefs`."""


@dataclass(frozen=True)
class Variant:
    """A drive, the file system on it, and who decides."""

    title: str
    colour: str
    personality: str
    memory: tuple[str, ...]
    policy: Policy


VARIANTS = {
    "default": Variant("ext4-like", "#8c8c8c", PERSONALITY, (), WITHOUT),
    "window": Variant("ext4-like, window", "#d55e00", PERSONALITY, (f"device.pmem={PMEM}",),
                      THESIS),
    "log-default": Variant("bytefs", "#62b9e2", "bytefs", LOG, WITHOUT),
    "log": Variant("bytefs, log", "#33608f", "bytefs", LOG, THESIS),
}  # fmt: skip
METRICS = {
    "over_default": "Throughput ÷ default",
    "sync_us": "Mean time of a sync (us)",
    "programs": "Flash pages programmed\nper 100 syncs",
}


def bench(load: str, name: str, cost: float) -> Bench:
    """A recording on one of the drives, whose flush costs so many milliseconds."""
    of = VARIANTS[name]
    drive = (SIZE, *of.memory, f"ssd.flush_cost={cost:g}ms")
    return Bench(load, of.personality, PRESET, (*drive, *of.policy.overrides()))


def wants(settings: Settings) -> list[Bench]:
    """Each database on each drive with each cost of a flush."""
    return [bench(load, name, cost) for load in runs.databases(settings)
            for name in VARIANTS for cost in FLUSHES]  # fmt: skip


def log(results: Results) -> polars.DataFrame:
    """Throughput over that of the default, what a sync takes, and programs, by cost of a flush;
    and what of these programs was owed at the end."""
    rows = Rows()
    for load in runs.databases(results.settings):
        for name in VARIANTS:
            for cost in FLUSHES:
                item = bench(load, name, cost)
                plain = runs.rate(results, bench(load, "default", cost))
                gain = quotient(runs.rate(results, item), plain)
                rows.add(load, name, "over_default", gain, x=cost)
                run = results.benches.get(item)
                rows.add(load, name, "sync_us", _sync(run), x=cost)
                rows.add(load, name, "programs", _programs(run, is_owed=False), x=cost)
                rows.add(load, name, "owed", _programs(run, is_owed=True), x=cost)
    return rows.frame(means=())


def _sync(run: Json | None) -> float | None:
    """Between the marks, as the throughput."""
    return None if run is None else float(run["part"]["sync_mean_ps"]) / 1e6


def _programs(run: Json | None, *, is_owed: bool) -> float | None:
    """Of the whole play, for as many syncs of it. At its end host and device hold what was not
    programmed yet, a log more than a window: it is brought to flash and counted. Or that alone."""
    if run is None:
        return None
    pages = "device_flash_programmed_pages"
    measured, synced = (float(run[part].get(pages, 0)) for part in ("measured", "synced"))
    counted = synced - measured if is_owed else synced
    return 100 * counted / float(run["latencies"]["fsync"]["operations"])


def draw(frame: polars.DataFrame) -> Figure:
    """A column for each database, a row for each metric, the cost of a flush on the axis."""
    groups = [name for name in TITLES if name in frames.distinct(frame, "workload")]
    with ink.style():
        drawn = ink.figure(ink.PAGE, 5.4)
        grid = drawn.subplots(len(METRICS), max(len(groups), 1), squeeze=False)
        for row, (metric, label) in enumerate(METRICS.items()):
            for column, group in enumerate(groups):
                axes = grid[row][column]
                for mark, (name, of) in enumerate(VARIANTS.items()):
                    points = [(float(each.x), float(each.ours)) for each in frames.read(frame)
                              if (each.workload, each.design, each.metric) == (group, name, metric)
                              and each.x is not None and each.ours is not None]  # fmt: skip
                    if points:
                        lines.draw(axes, Curve(of.title, points, of.colour, mark=mark))
                axes.set_xscale("log")
                if metric != "programs":
                    axes.set_yscale("log")
                axes.set_xticks(list(FLUSHES), [f"{cost:g}" for cost in FLUSHES])
                axes.minorticks_off()
                ink.grid(axes)
                if row == 0:
                    axes.set_title(TITLES[group])
                if row == len(METRICS) - 1:
                    axes.set_xlabel("A flush costs (ms)")
                    axes.set_ylim(bottom=0)
                if column == 0:
                    axes.set_ylabel(label)
        keys = [(of.title, of.colour, mark) for mark, of in enumerate(VARIANTS.values())]
        lines.legend(drawn, keys, twins=False)
    return drawn
