"""What the shortcuts of ByteFS's artifact are worth: throughput under each, and under all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.figures import frames, ink
from entresol.figures.frames import Rows
from entresol.figures.plan import Bench, Results, Settings, quotient
from entresol.papers.bytefs import runs, switches
from entresol.papers.bytefs.runs import BYTEFS, EXT4, MACRO, MICRO

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

LOADS = (*MICRO, *MACRO)
METRIC = "over_ext4-like"


def _sets() -> dict[str, tuple[str, ...]]:
    names = tuple(switches.switches())
    return {"paper": (), **{name: (name,) for name in names}, "artifact": names}


def _bench(load: str, personality: str, names: tuple[str, ...]) -> Bench:
    return Bench(load, personality, "", switches.of(personality, names))


def wants(settings: Settings) -> list[Bench]:
    """ByteFS and Ext4-like under each switch alone, and under all."""
    return [_bench(load, name, names) for load in runs.loads(settings, LOADS)
            for names in _sets().values() for name in (EXT4, BYTEFS)]  # fmt: skip


def worth(results: Results) -> polars.DataFrame:
    """ByteFS's throughput over Ext4-like's, with each switch and with all."""
    rows = Rows()
    for load in runs.loads(results.settings, LOADS):
        for called, names in _sets().items():
            mine, theirs = (runs.throughput(results, _bench(load, name, names))
                            for name in (BYTEFS, EXT4))  # fmt: skip
            rows.add(load, BYTEFS, METRIC, quotient(mine, theirs), x=called)
    return rows.frame()


def draw(frame: polars.DataFrame) -> Figure:
    """A row for each switch, a column for each load, the ratio in it; redder where ByteFS is
    further ahead than as the paper says, bluer where less."""
    import numpy as np
    from matplotlib.colors import TwoSlopeNorm

    loads = [name for name in frames.distinct(frame, "workload") if name not in frames.MEANS]
    names = list(_sets())
    cells = frames.cells(frame, METRIC, by_x=True)
    known = {(load, name): cells.get((load, name), (None, None))[0]
             for load in loads for name in names}  # fmt: skip
    shades = np.zeros((len(names), max(len(loads), 1)))
    for column, load in enumerate(loads):
        base = known[load, names[0]]
        for row, name in enumerate(names):
            value = known[load, name]
            if base and value:
                shades[row, column] = np.log2(value / base)
    with ink.style():
        drawn = ink.figure(ink.PAGE, 0.8 + 0.22 * len(names))
        axes = drawn.subplots()
        axes.imshow(shades, cmap="RdBu_r", norm=TwoSlopeNorm(0, -2, 2), aspect="auto")
        for (load, name), value in known.items():
            text = "–" if value is None else f"{value:.2f}"
            at = (loads.index(load), names.index(name))
            is_dark = abs(shades[at[1], at[0]]) > DARK
            axes.text(*at, text, ha="center", va="center", color="white" if is_dark else ink.INK)
        axes.set_xticks(range(len(loads)), loads)
        axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
        axes.tick_params(length=0)
        axes.xaxis.tick_top()
        axes.grid(visible=False)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
    return drawn


DARK = 1.2
"""Doublings from which a cell is dark."""
