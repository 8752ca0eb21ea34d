"""Recovery from a power cut with a full log (§5.5), accounted by the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.figures import bars, frames, ink
from entresol.figures.benches import RECOVERY
from entresol.figures.frames import Rows
from entresol.figures.plan import Bench, Results, Settings
from entresol.papers.bytefs.runs import BYTEFS

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

FULL = 256
"""MiB of the paper's log, both halves of which are full."""
LOGS = (64, 128, FULL)
PARTS = {"scan": "#9fd0ea", "flush": "#33608f"}


def bench(log: int) -> Bench:
    """A device both halves of whose log are filled, cut off and opened again."""
    return Bench(RECOVERY, BYTEFS, "", (f"run.log={log}MiB",))


def wants(_settings: Settings) -> list[Bench]:
    """All sizes."""
    return [bench(log) for log in LOGS]


def seconds(results: Results, log: int, *parts: str) -> float | None:
    """Accounted time of parts of a recovery."""
    run = results.benches.get(bench(log))
    return None if run is None else sum(float(run[f"{part}_ps"]) for part in parts) / 1e12


def times(results: Results) -> polars.DataFrame:
    """The parts of a recovery, by the size of the log."""
    rows = Rows()
    for log in LOGS:
        for part in PARTS:
            rows.add(RECOVERY, BYTEFS, f"{part}_seconds", seconds(results, log, part), x=log)
    return rows.frame(means=())


def draw(frame: polars.DataFrame) -> Figure:
    """A stack for each size."""
    series = [bars.Series(f"{part}_seconds", part, "", shade) for part, shade in PARTS.items()]
    values = {(row.x, row.metric): row.ours for row in frames.read(frame)}
    with ink.style():
        drawn = ink.figure(ink.COLUMN, 2.2)
        axes = drawn.subplots()
        for place, log in enumerate(LOGS):
            below = 0.0
            for piece in series:
                height = values.get((float(log), str(piece.key))) or 0.0
                axes.bar(place, height, 0.6, bottom=below, color=piece.colour)
                below += height
        axes.set_xticks(range(len(LOGS)), [f"{log} MiB" for log in LOGS])
        axes.set_xlabel("log, both halves full")
        axes.set_ylabel("Accounted seconds")
        bars.legend(drawn, series, twins=False)
    return drawn
