"""What the thesis's chapter 7 leaves open: how soon a policy follows a program that changes, and
for how long counts should last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from entresol.core import Json
from entresol.figures import frames, ink, lines
from entresol.figures.frames import Rows
from entresol.figures.lines import Curve
from entresol.figures.plan import Bench, Results, Settings
from entresol.papers.dax import runs, synthetic
from entresol.papers.dax.runs import (
    ADAPTIVE,
    COLOURS,
    HYBRID,
    MIXED,
    NAMES,
    OSCILLATING,
    PREDICT,
    TITLES,
    WITHOUT,
    Policy,
)  # fmt: skip

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POLICIES = (HYBRID, PREDICT, ADAPTIVE)
DELAYS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""For how long a write-back counts, in seconds; a write counts twice as long."""
WAIT = "10ms"
"""Upgrades of the figure of reactivity wait, so that decision and upgrade are apart."""
STEPS = {
    "decided": ("begins", ("wants-upgrade", "predicted")),
    "upgraded": ("begins", ("upgraded",)),
    "left": ("ends", ("downgraded",)),
}
"""What is timed: from which change of the program to the first of which events."""


def delays(seconds: float) -> tuple[str, str]:
    """Parameters: how long counts last."""
    return (f"fs.dax_write_delay={seconds * 2000:g}ms",
            f"fs.dax_write_back_delay={seconds * 1000:g}ms")  # fmt: skip


# Reactivity.


def _changing(kind: str, seconds: float) -> Bench:
    return runs.bench(OSCILLATING, Policy(kind, wait=WAIT), more=delays(seconds))


def reactivity_wants(settings: Settings) -> list[Bench]:
    """A program that changes, with each policy and each decay."""
    del settings
    return [_changing(kind, seconds) for kind in POLICIES for seconds in DELAYS]


def reactivity(results: Results) -> polars.DataFrame:
    """Seconds from a change of the program to what is decided and done, in the mean of those
    changes that something came of; and of how many."""
    rows = Rows()
    for kind in POLICIES:
        for seconds in DELAYS:
            run = results.benches.get(_changing(kind, seconds))
            kept = runs.decisions(run)
            for step, (change, events) in STEPS.items():
                found = _spans(kept, change, events)
                value = fmean(found) if found else None
                rows.add(OSCILLATING, kind, f"{step}_s", value, x=seconds)
                share = len(found) / synthetic.CYCLES if kept else None
                rows.add(OSCILLATING, kind, f"{step}_share", share, x=seconds)
    return rows.frame(means=())


def changes(kept: list[Json], change: str) -> list[float]:
    """When the program changed, in the play's own seconds: each sync is judged once when it begins,
    and takes its time, so that the play falls behind what was written down."""
    judged = [float(each["at_ps"]) / 1e12 for each in kept if each["event"] == "judged"]
    synced = [number for number in range(synthetic.CYCLES * synthetic.CYCLE)
              if synthetic.is_synced(number)]  # fmt: skip
    first = synthetic.SYNCED if change == "ends" else 0
    ats = zip(synced, judged, strict=False)
    return [at for number, at in ats if number % synthetic.CYCLE == first]


def _spans(kept: list[Json], change: str, events: Sequence[str]) -> list[float]:
    """From each change to the first such event before the next change of that kind."""
    ats = [float(each["at_ps"]) / 1e12 for each in kept if each["event"] in events]
    begins = changes(kept, change)
    found = []
    for begin, end in zip(begins, [*begins[1:], math.inf], strict=False):
        within = [at - begin for at in ats if begin <= at < end]
        if within:
            found.append(within[0])
    return found


def draw_reactivity(frame: polars.DataFrame) -> Figure:
    """A panel for each step, a line for each policy, the decay on the axis."""
    titles = {"decided_s": "synced → upgrade decided", "upgraded_s": "synced → upgraded",
              "left_s": "synced no more → downgraded",
              "upgraded_share": "share upgraded again"}  # fmt: skip
    with ink.style():
        drawn, places = lines.panels(len(titles), 2.0, ink.PAGE)
        for place, (axes, (metric, title)) in enumerate(zip(places, titles.items(), strict=True)):
            _curves(axes, frame, metric)
            axes.set_title(title)
            if place == 0:
                axes.set_ylabel("Time (s), or share of changes")
        _legend(drawn)
    return drawn


def _curves(axes: Axes, frame: polars.DataFrame, metric: str) -> None:
    most = 0.0
    for number, kind in enumerate(POLICIES):
        points = [(float(row.x), row.ours) for row in frames.read(frame)
                  if row.design == kind and row.metric == metric
                  and row.x is not None and row.ours is not None]  # fmt: skip
        if points:
            most = max(most, *(value for _, value in points))
            lines.draw(axes, Curve(NAMES[kind], points, COLOURS[kind], mark=number))
    _axis(axes, most)


def _axis(axes: Axes, most: float) -> None:
    axes.set_xscale("log")
    axes.set_xticks(list(DELAYS), [f"{each:g}" for each in DELAYS])
    axes.minorticks_off()
    axes.set_xlabel("A write-back counts for (s)")
    axes.set_ylim(0, 1.08 * (most or 1.0))
    ink.grid(axes)


def _legend(drawn: Figure) -> None:
    keys = [(NAMES[kind], COLOURS[kind], number) for number, kind in enumerate(POLICIES)]
    lines.legend(drawn, keys, twins=False)


# Decay.

ORDER = 4
LENGTH = 60
"""Seconds of the mixed load."""


def decay_wants(settings: Settings) -> list[Bench]:
    """Databases with small ranges, and the mixed load, with each decay."""
    databases = [runs.bench(name, policy, more=more) for name in runs.databases(settings)
                 for policy, more in _decays()]  # fmt: skip
    mixed = [_mixed(kind, seconds) for kind in POLICIES for seconds in DELAYS]
    return [*databases, *mixed]


def _decays() -> list[tuple[Policy, tuple[str, ...]]]:
    swept = [(Policy(kind, order=ORDER), delays(seconds)) for kind in POLICIES
             for seconds in DELAYS]  # fmt: skip
    return [(WITHOUT, ()), *swept]


def _mixed(kind: str, seconds: float) -> Bench:
    return runs.bench(f"{MIXED}-{LENGTH}", Policy(kind, order=ORDER), more=delays(seconds))


def decay(results: Results) -> polars.DataFrame:
    """Gain of each database; of the mixed load the memory held and what a sync takes."""
    rows = Rows()
    for name in runs.databases(results.settings):
        for kind in POLICIES:
            for seconds in DELAYS:
                ours = runs.gain(results, name, Policy(kind, order=ORDER), more=delays(seconds))
                rows.add(name, kind, "over_default", ours, x=seconds)
    for kind in POLICIES:
        for seconds in DELAYS:
            run = results.benches.get(_mixed(kind, seconds))
            held = None if run is None else run["measured"].get("dax_frames_in_use", 0) / 256
            rows.add(MIXED, kind, "held_MiB", held, x=seconds)
            took = None if run is None else run["latencies"]["fsync"]["mean_ps"] / 1e6
            rows.add(MIXED, kind, "sync_us", took, x=seconds)
    return rows.frame(means=())


def draw_decay(frame: polars.DataFrame) -> Figure:
    """A panel for each database, then memory and syncs of the mixed load."""
    groups = [name for name in TITLES if name in frames.distinct(frame, "workload")]
    with ink.style():
        drawn = ink.figure(ink.PAGE, 4.0)
        grid = drawn.subplots(2, 3, squeeze=False)
        places = [axes for row in grid for axes in row]
        for axes in places[len(groups) + 2 :]:
            axes.set_visible(False)
        for place, (axes, group) in enumerate(zip(places, groups, strict=False)):
            _curves(axes, frame.filter(frame["workload"] == group), "over_default")
            axes.set_title(TITLES[group])
            if place % 3 == 0:
                axes.set_ylabel("Throughput ÷ default")
        labels = (("held_MiB", "Memory held (MiB)"), ("sync_us", "Mean time of a sync (us)"))
        for axes, (metric, label) in zip(places[len(groups) :], labels, strict=False):
            _curves(axes, frame.filter(frame["workload"] == MIXED), metric)
            axes.set_title("log and table")
            axes.set_ylabel(label)
        _legend(drawn)
    return drawn
