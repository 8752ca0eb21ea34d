"""Figure 4.1, and what the thesis has not: costs of a flush, upgrades that wait, a policy that
looks ahead, and how much memory each holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from entresol.figures import bars, frames, ink, lines
from entresol.figures.frames import Row, Rows
from entresol.figures.lines import Curve
from entresol.figures.plan import Bench, Results, Settings, quotient
from entresol.papers.dax import by_log, runs
from entresol.papers.dax.runs import (
    ADAPTIVE,
    COLOURS,
    HYBRID,
    MIXED,
    NAMES,
    ORDER_COLOURS,
    ORDERS,
    OSCILLATING,
    PREDICT,
    TITLES,
    WITHOUT,
    Policy,
    published,
)  # fmt: skip

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

FLUSHES = (0.1, 0.2, 0.5, 1.0, 2.0, 3.5)
"""In milliseconds."""
WAITS = (0, 1, 3, 10, 30, 100, 300)
"""In milliseconds."""
GAIN = "over_default"


# What a flush costs.


def _flush(cost: float) -> str:
    return f"{cost:g}ms"


def flush_wants(settings: Settings) -> list[Bench]:
    """Three policies with each cost of a flush."""
    return [runs.bench(name, Policy(kind), _flush(cost))
            for name in runs.databases(settings) for cost in FLUSHES
            for kind in (runs.DEFAULT, HYBRID, PREDICT)]  # fmt: skip


def flushes(results: Results) -> polars.DataFrame:
    """Gain by what a flush costs the drive."""
    rows = Rows()
    for name in runs.databases(results.settings):
        theirs = published("speedups").find(name, HYBRID, "speedup")
        for kind in (HYBRID, PREDICT):
            for cost in FLUSHES:
                ours = runs.gain(results, name, Policy(kind), _flush(cost))
                rows.add(name, kind, GAIN, ours, theirs if kind == HYBRID else None, x=cost)
    return rows.frame(means=())


def draw_flushes(frame: polars.DataFrame) -> Figure:
    """A panel for each database."""
    return _by_x(frame, [HYBRID, PREDICT], COLOURS, NAMES, "Cost of a flush (ms)")


def place_of(row: Row) -> float:
    """Where it is on the axis."""
    assert row.x is not None, "these rows have a place"
    return float(row.x)


def _by_x(
    frame: polars.DataFrame, series: Sequence[str], colours: dict[str, str],
    names: dict[str, str], label: str, *, is_log: bool = False,
) -> Figure:  # fmt: skip
    groups = frames.distinct(frame, "workload")
    with ink.style():
        drawn, places = lines.panels(len(groups), 1.9, ink.PAGE)
        twins = False
        for place, (axes, group) in enumerate(zip(places, groups, strict=True)):
            rows = [row for row in frames.read(frame) if row.workload == group]
            for number, key in enumerate(series):
                mine = [row for row in rows if row.design == key]
                ours = [(place_of(row), row.ours) for row in mine if row.ours is not None]
                theirs = [
                    (place_of(row), row.published) for row in mine if row.published is not None
                ]
                if ours:
                    lines.draw(axes, Curve(names[key], ours, colours[key], mark=number))
                if theirs:
                    twins = True
                    lines.draw(axes, Curve(names[key], theirs, colours[key], True, None))
            axes.set_title(TITLES[group])
            axes.set_xlabel(label)
            if is_log:
                axes.set_xscale("symlog", linthresh=1)
                axes.set_xticks([0, 1, 10, 100], ["0", "1", "10", "100"])
                axes.minorticks_off()
            axes.axhline(1, color=ink.SOFT, linewidth=0.6)
            axes.set_ylim(bottom=0)
            ink.grid(axes)
            if place == 0:
                axes.set_ylabel("Throughput ÷ default")
        keys = [(names[key], colours[key], number) for number, key in enumerate(series)]
        lines.legend(drawn, keys, twins=twins)
    return drawn


# Upgrades that wait.


def _wait(wait: int) -> str:
    return f"{wait}ms"


def wait_wants(settings: Settings) -> list[Bench]:
    """The thesis's policy with upgrades that wait."""
    return [runs.bench(name, policy) for name in runs.databases(settings)
            for policy in (WITHOUT, *_waiting())]  # fmt: skip


def _waiting() -> list[Policy]:
    return [Policy(order=order, wait=_wait(wait)) for order in ORDERS for wait in WAITS]


def waits(results: Results) -> polars.DataFrame:
    """Gain by how long an upgrade waits, for each G."""
    rows = Rows()
    for name in runs.databases(results.settings):
        for policy in _waiting():
            theirs = published("speedups").find(name, HYBRID, "by_order", policy.order)
            rows.add(name, f"G = {policy.order}", GAIN, runs.gain(results, name, policy), theirs,
                     x=float(policy.wait.removesuffix("ms")))  # fmt: skip
    return rows.frame(means=())


def draw_waits(frame: polars.DataFrame) -> Figure:
    """A panel for each database, a line for each G."""
    keys = [f"G = {order}" for order in ORDERS]
    colours = {f"G = {order}": ORDER_COLOURS[order] for order in ORDERS}
    return _by_x(frame, keys, colours, {key: key for key in keys}, "Upgrade waits (ms)",
                 is_log=True)  # fmt: skip


# Three policies.

POLICIES = (HYBRID, PREDICT, ADAPTIVE)


def policy_wants(settings: Settings) -> list[Bench]:
    """Each policy with each G, at once and with upgrades that wait."""
    return [runs.bench(name, policy) for name in runs.databases(settings)
            for policy in (WITHOUT, *_both())]  # fmt: skip


WAITING = "10ms"


def _both() -> list[Policy]:
    return [Policy(kind, order=order, wait=wait) for wait in ("", WAITING) for order in ORDERS
            for kind in POLICIES]  # fmt: skip


def policies(results: Results) -> polars.DataFrame:
    """Gain of each policy by G."""
    rows = Rows()
    for policy in _both():
        for name in runs.databases(results.settings):
            metric = f"{GAIN}_waits_{policy.wait}" if policy.wait else GAIN
            rows.add(f"{TITLES[name]}, G = {policy.order}", policy.kind, metric,
                     runs.gain(results, name, policy))  # fmt: skip
    return rows.frame(means=())


def draw_policies(frame: polars.DataFrame) -> Figure:
    """Upgrades at once above, upgrades that wait below."""
    parts = [("at once", GAIN), (f"waits {WAITING}", f"{GAIN}_waits_{WAITING}")]
    groups = frames.distinct(frame, "workload")
    titles = [title for title in TITLES.values() if any(group.startswith(f"{title}, G")
                                                        for group in groups)]  # fmt: skip
    series = [bars.Series(kind, NAMES[kind], "", COLOURS[kind]) for kind in POLICIES]
    with ink.style():
        drawn = ink.figure(ink.PAGE, 4.2)
        grid = drawn.subplots(len(parts), max(len(titles), 1), squeeze=False)
        for row, (said, metric) in enumerate(parts):
            values = frames.cells(frame.filter(frame["metric"] == metric), metric)
            for column, title in enumerate(titles):
                axes = grid[row][column]
                mine: dict[tuple[str, str | float | None], frames.Cell] = {}
                for order in ORDERS:
                    for kind in POLICIES:
                        cell = values.get((f"{title}, G = {order}", kind), (None, None))
                        mine[f"G = {order}", kind] = cell
                bars.grouped(axes, [f"G = {order}" for order in ORDERS], series, mine)
                axes.axhline(1, color=ink.SOFT, linewidth=0.6)
                if row == 0:
                    axes.set_title(title)
                if column == 0:
                    axes.set_ylabel(f"Throughput ÷ default\n{said}")
        bars.legend(drawn, series, twins=False)
    return drawn


# What gains nothing, and what it gains where metadata are durable by bytes, too.

BY_BYTES = ("log-default", "log")
"""Drives of `by_log`."""
COST = 1.0
"""Of a flush, in milliseconds."""
UNCHANGED = {
    "valkey-everysec": "Valkey everysec", "valkey-no": "Valkey no",
    "postgresql-fsync": "PostgreSQL fsync", "postgresql-off": "PostgreSQL fsync=off",
    "rocksdb-use_fsync": "RocksDB use_fsync", "rocksdb-fillseq": "RocksDB fillseq",
}  # fmt: skip


def unchanged_wants(settings: Settings) -> list[Bench]:
    """Databases that do not call fdatasync."""
    names = _unchanged(settings)
    return [
        *(runs.bench(name, Policy(kind)) for name in names for kind in (runs.DEFAULT, *POLICIES)),
        *(by_log.bench(name, drive, COST) for name in names for drive in ("default", *BY_BYTES)),
    ]


def _unchanged(settings: Settings) -> list[str]:
    return [name for name in UNCHANGED if name.partition("-")[0] in settings.workloads]


def unchanged(results: Results) -> polars.DataFrame:
    """Gain of each policy; and of ByteFS with a log, whose metadata go by bytes, without DAX and
    with it, over the same default."""
    rows = Rows()
    for name in _unchanged(results.settings):
        theirs = published("speedups").find(name.replace("off", "fsync=off").replace("-", " ", 1),
                                            HYBRID, "speedup")  # fmt: skip
        for kind in POLICIES:
            rows.add(UNCHANGED[name], kind, GAIN, runs.gain(results, name, Policy(kind)),
                     theirs if kind == HYBRID else None)  # fmt: skip
        plain = runs.rate(results, by_log.bench(name, "default", COST))
        for drive in BY_BYTES:
            rate = runs.rate(results, by_log.bench(name, drive, COST))
            rows.add(UNCHANGED[name], drive, GAIN, quotient(rate, plain))
    return rows.frame(means=())


def draw_unchanged(frame: polars.DataFrame) -> Figure:
    """A group for each database."""
    series = [bars.Series(kind, NAMES[kind], "", COLOURS[kind]) for kind in POLICIES]
    for drive in BY_BYTES:
        of = by_log.VARIANTS[drive]
        series.append(bars.Series(drive, of.title, "", of.colour))
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.2)
        axes = drawn.subplots()
        bars.grouped(axes, frames.distinct(frame, "workload"), series, frames.cells(frame, GAIN))
        axes.set_yscale("log")
        axes.set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
        axes.minorticks_off()
        axes.set_ylim(0.5, 60)
        axes.axhline(1, color=ink.SOFT, linewidth=0.6)
        axes.set_ylabel("Throughput ÷ default")
        bars.legend(drawn, series, twins=True)
    return drawn


# Memory that is held.

SECONDS = (5, 10, 20, 30, 45, 60, 90)
HOLDERS = {
    "thesis's, G = 9": (Policy(), COLOURS[HYBRID]),
    "thesis's, G = 4": (Policy(order=4), "#f4a940"),
    "looks ahead, G = 9": (Policy(PREDICT), COLOURS[PREDICT]),
    "looks ahead, G = 4": (Policy(PREDICT, order=4), "#62b9e2"),
    "adapts, G = 9": (Policy(ADAPTIVE), COLOURS[ADAPTIVE]),
    "adapts, G = 4": (Policy(ADAPTIVE, order=4), "#c9a6dd"),
}


def memory_wants(settings: Settings) -> list[Bench]:
    """The mixed load for so many seconds."""
    del settings
    return [runs.bench(f"{MIXED}-{seconds}", policy) for seconds in SECONDS
            for policy in (WITHOUT, *(policy for policy, _ in HOLDERS.values()))]  # fmt: skip


def memory(results: Results) -> polars.DataFrame:
    """Frames in use, in mebibytes, and what a sync takes in the mean."""
    rows = Rows()
    for seconds in SECONDS:
        load = f"{MIXED}-{seconds}"
        of = {"default": WITHOUT} | {name: policy for name, (policy, _) in HOLDERS.items()}
        for name, policy in of.items():
            run = results.benches.get(runs.bench(load, policy))
            held = None if run is None else run["measured"].get("dax_frames_in_use", 0) / 256
            rows.add(MIXED, name, "held_MiB", held, x=float(seconds))
            took = None if run is None else run["latencies"]["fsync"]["mean_ps"] / 1e6
            rows.add(MIXED, name, "sync_us", took, x=float(seconds))
    return rows.frame(means=())


def draw_memory(frame: polars.DataFrame) -> Figure:
    """Memory on the left, what a sync takes on the right."""
    with ink.style():
        drawn, places = lines.panels(2, 2.2, ink.PAGE)
        labels = ("Device memory held (MiB)", "Mean time of a sync (us)")
        for axes, metric, label in zip(places, ("held_MiB", "sync_us"), labels, strict=True):
            for number, (name, (_, colour)) in enumerate(HOLDERS.items()):
                points = [(float(row.x), row.ours) for row in frames.read(frame)
                          if row.design == name and row.metric == metric
                          and row.x is not None and row.ours is not None]  # fmt: skip
                if points:
                    lines.draw(axes, Curve(name, points, colour, mark=number))
            axes.set_xlabel("Length of the load (s)")
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
            ink.grid(axes)
        keys = [(name, colour, number) for number, (name, (_, colour))
                in enumerate(HOLDERS.items())]  # fmt: skip
        lines.legend(drawn, keys, twins=False)
    return drawn


# Figure 4.1.

NARROW = ("fs.dax_write_delay=4s", "fs.dax_write_back_delay=3s")


def decision_wants(settings: Settings) -> list[Bench]:
    """One run."""
    del settings
    return [_decided()]


def _decided() -> Bench:
    return runs.bench(OSCILLATING, Policy(), more=NARROW)


def decisions(results: Results) -> polars.DataFrame:
    """The ratio by time, and what was decided."""
    rows = Rows()
    run = results.benches.get(_decided())
    for each in runs.decisions(run):
        if each["ratio_percent"] is None or each["event"] not in EVENTS:
            continue
        rows.add(OSCILLATING, each["event"], "ratio_percent", float(each["ratio_percent"]),
                 x=each["at_ps"] / 1e12)  # fmt: skip
    return rows.frame(means=())


EVENTS = {"judged": "#33608f", "wants-upgrade": "#2a9264", "wants-downgrade": "#d55e00"}


def draw_decisions(frame: polars.DataFrame) -> Figure:
    """The ratio as a line; upgrades and downgrades as crosses; U and D."""
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.2)
        axes = drawn.subplots()
        rows = frames.read(frame)
        for name, colour in EVENTS.items():
            known = [row for row in rows if row.design == name and row.ours is not None]
            points = [(place_of(row), min(row.ours or 0.0, 130.0)) for row in known]
            xs, ys = [x for x, _ in points], [y for _, y in points]
            if name == "judged":
                axes.plot(xs, ys, color=colour, linewidth=0.9, label="M")
            else:
                label = name.replace("wants-", "") + " is decided"
                axes.plot(xs, ys, "x", color=colour, markersize=7, markeredgewidth=1.6, label=label)
        axes.axhline(60, color="#2a9264", linewidth=0.8, label="U")
        axes.axhline(30, color="#d55e00", linewidth=0.8, label="D")
        axes.set_ylim(0, 130)
        axes.set_xlabel("Time (s)")
        axes.set_ylabel("Write-backs ÷ writes (%)")
        drawn.legend(loc="outside upper center", ncols=5)
    return drawn
