"""Figure clients: group commit as a closed loop, for each number of clients of Valkey."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.databases.cases import CLIENTS, PIPELINES
from entresol.databases.replaying import WITHIN
from entresol.figures import frames, ink, lines
from entresol.figures.frames import Rows
from entresol.figures.lines import Curve
from entresol.figures.plan import Bench, Results, Settings, quotient
from entresol.papers.dax import clients, measured, runs
from entresol.papers.dax.runs import (
    COLOURS,
    DEFAULT,
    HYBRID,
    NAMES,
    PIPELINED,
    THESIS,
    VALKEY,
    WITHOUT,
    published,
)  # fmt: skip

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OVER, SHARED = "over_default", "requests_per_sync"
CLOCK = "clock"
"""Runs of `entresol bench dax`."""
CLOCK_COLOUR = "#8c8c8c"
LOADS = {1: VALKEY, 10: PIPELINED}
"""The recordings of the thesis's two pipelines."""
TITLES = {1: "one request each", 10: "ten requests each"}
TITLES_OF = {LOADS[pipeline]: title for pipeline, title in TITLES.items()}
POLICIES = {DEFAULT: WITHOUT, HYBRID: THESIS}


def _pipelines(settings: Settings) -> list[int]:
    return [each for each in PIPELINES if LOADS[each] in settings.workloads]


def wants(settings: Settings) -> list[Bench]:
    """Each number of clients with each pipeline, without DAX and with it."""
    return [runs.bench(clients.load(count, pipeline), policy)
            for pipeline in _pipelines(settings) for count in CLIENTS
            for policy in POLICIES.values()]  # fmt: skip


def group_commit(results: Results) -> polars.DataFrame:
    """Gain, and requests that share a sync, by how many clients there are."""
    rows = Rows()
    for pipeline in _pipelines(results.settings):
        name = LOADS[pipeline]
        theirs = published("speedups").find(name, HYBRID, "speedup")
        for count in CLIENTS:
            load = clients.load(count, pipeline)
            rows.add(name, HYBRID, OVER, runs.gain(results, load), theirs, x=float(count))
            clock = measured.clients_gain(results.settings.measured, count, pipeline)
            rows.add(name, CLOCK, OVER, clock, x=float(count))
            for kind, policy in POLICIES.items():
                run = results.benches.get(runs.bench(load, policy))
                of = runs.recorded(load)
                shared = None
                if run is not None and of is not None:
                    shared = quotient(float(of.operations), float(run["part"]["syncs"]))
                rows.add(name, kind, SHARED, shared, x=float(count))
    return rows.frame(means=())


def why(frame: polars.DataFrame) -> str:
    """Whether runs on the clock bear it out."""
    values = {(row.workload, row.design, row.x): row.ours for row in frames.read(frame)
              if row.metric == OVER}  # fmt: skip
    beside = {(name, x): (values.get((name, HYBRID, x)), clock)
              for (name, design, x), clock in values.items() if design == CLOCK}  # fmt: skip
    missed, known = [], 0
    for (name, x), (ours, clock) in beside.items():
        if ours is None or clock is None:
            continue
        known += 1
        if abs(ours / clock - 1) > WITHIN:
            missed.append(f"{TITLES_OF[name]}, {x:g}: {ours / clock - 1:+.0%}")
    if not known:
        return (
            "Marked (!): it is beside no runs on the clock, which --measured DIR gives; what is "
            "known of them is in docs/bench-dax.md."
        )
    if missed:
        return f"Marked (!): gains miss runs on the clock by more than 15 %: {'; '.join(missed)}."
    return "Gains are within 15 % of runs on the clock."


def draw(frame: polars.DataFrame) -> Figure:
    """Gain above, requests to a sync below; a column for each pipeline."""
    names = [name for name in LOADS.values() if name in frames.distinct(frame, "workload")]
    with ink.style():
        drawn = ink.figure(ink.COLUMN * 1.4, 3.8)
        grid = drawn.subplots(2, max(len(names), 1), squeeze=False)
        for column, name in enumerate(names):
            gain, shared = grid[0][column], grid[1][column]
            _curves(gain, frame, name, OVER)
            _curves(shared, frame, name, SHARED)
            gain.set_title(TITLES_OF[name])
            shared.set_xlabel("Clients")
            if column == 0:
                gain.set_ylabel("Throughput ÷ default")
                shared.set_ylabel("Requests to a sync")
        has_clock = any(row.design == CLOCK and row.ours is not None for row in frames.read(frame))
        keys = [("without DAX", COLOURS[DEFAULT], 0), (NAMES[HYBRID], COLOURS[HYBRID], 1)]
        keys += [("runs on the clock", CLOCK_COLOUR, 2)] if has_clock else []
        lines.legend(drawn, keys, twins=True)
    return drawn


def _curves(axes: Axes, frame: polars.DataFrame, name: str, metric: str) -> None:
    rows = [row for row in frames.read(frame)
            if row.workload == name and row.metric == metric and row.x is not None]  # fmt: skip
    colours = COLOURS | {CLOCK: CLOCK_COLOUR}
    for mark, kind in enumerate((DEFAULT, HYBRID, CLOCK)):
        mine = [row for row in rows if row.design == kind]
        ours = [(float(row.x or 0), row.ours) for row in mine if row.ours is not None]
        theirs = [(float(row.x or 0), row.published) for row in mine if row.published is not None]
        if ours:
            lines.draw(axes, Curve(NAMES.get(kind, kind), ours, colours[kind], mark=mark))
        if theirs:
            lines.draw(axes, Curve(kind, theirs, colours[kind], published=True, mark=None))
    axes.set_xscale("log")
    axes.set_xticks(list(CLIENTS), [str(count) for count in CLIENTS])
    axes.minorticks_off()
    if metric == OVER:
        axes.axhline(1, color=ink.SOFT, linewidth=0.6)
    axes.set_ylim(bottom=0)
    ink.grid(axes)
