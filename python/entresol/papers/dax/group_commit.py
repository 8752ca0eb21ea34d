"""Figure clients: group commit as a closed loop, for each number of clients of Valkey."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.databases.cases import CLIENTS, PIPELINES
from entresol.figures import frames, ink, lines
from entresol.figures.frames import Rows
from entresol.figures.lines import Curve
from entresol.figures.plan import Bench, Results, Settings, quotient
from entresol.papers.dax import clients, runs
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
LOADS = {1: VALKEY, 10: PIPELINED}
"""The recordings of the thesis's two pipelines."""
TITLES = {1: "one request each", 10: "ten requests each"}
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
            for kind, policy in POLICIES.items():
                run = results.benches.get(runs.bench(load, policy))
                of = runs.recorded(load)
                shared = None
                if run is not None and of is not None:
                    shared = quotient(float(of.operations), float(run["part"]["syncs"]))
                rows.add(name, kind, SHARED, shared, x=float(count))
    return rows.frame(means=())


def draw(frame: polars.DataFrame) -> Figure:
    """Gain above, requests to a sync below; a column for each pipeline."""
    names = [name for name in LOADS.values() if name in frames.distinct(frame, "workload")]
    titles = {LOADS[pipeline]: title for pipeline, title in TITLES.items()}
    with ink.style():
        drawn = ink.figure(ink.COLUMN * 1.4, 3.8)
        grid = drawn.subplots(2, max(len(names), 1), squeeze=False)
        for column, name in enumerate(names):
            gain, shared = grid[0][column], grid[1][column]
            _curves(gain, frame, name, OVER)
            _curves(shared, frame, name, SHARED)
            gain.set_title(titles[name])
            shared.set_xlabel("Clients")
            if column == 0:
                gain.set_ylabel("Throughput ÷ default")
                shared.set_ylabel("Requests to a sync")
        keys = [("without DAX", COLOURS[DEFAULT], 0), (NAMES[HYBRID], COLOURS[HYBRID], 1)]
        lines.legend(drawn, keys, twins=True)
    return drawn


def _curves(axes: Axes, frame: polars.DataFrame, name: str, metric: str) -> None:
    rows = [row for row in frames.read(frame)
            if row.workload == name and row.metric == metric and row.x is not None]  # fmt: skip
    for mark, kind in enumerate((DEFAULT, HYBRID)):
        mine = [row for row in rows if row.design == kind]
        ours = [(float(row.x or 0), row.ours) for row in mine if row.ours is not None]
        theirs = [(float(row.x or 0), row.published) for row in mine if row.published is not None]
        if ours:
            lines.draw(axes, Curve(NAMES.get(kind, kind), ours, COLOURS[kind], mark=mark))
        if theirs:
            lines.draw(axes, Curve(kind, theirs, COLOURS[kind], published=True, mark=None))
    axes.set_xscale("log")
    axes.set_xticks(list(CLIENTS), [str(count) for count in CLIENTS])
    axes.minorticks_off()
    if metric == OVER:
        axes.axhline(1, color=ink.SOFT, linewidth=0.6)
    axes.set_ylim(bottom=0)
    ink.grid(axes)
