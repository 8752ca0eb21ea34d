"""What the shortcuts of ByteFS's artifact are worth: throughput under each, and under all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.figures import bars, frames, ink
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
    """A group of bars for each load, a bar for each switch."""
    groups = [name for name in frames.distinct(frame, "workload") if name not in frames.MEANS]
    names = list(_sets())
    series = [bars.Series(name, name.replace("_", " "), str(number or ""), shade)
              for number, (name, shade) in enumerate(zip(names, SHADES, strict=True))]  # fmt: skip
    values = frames.cells(frame, METRIC, by_x=True)
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.6)
        axes = drawn.subplots()
        bars.grouped(axes, groups, series, values,
                     limit=bars.top_of(values, most=12) if values else None)  # fmt: skip
        axes.axhline(1, color=ink.SOFT, linewidth=0.6)
        axes.set_ylabel("Throughput ÷ Ext4-like")
        bars.legend(drawn, series, twins=False, columns=4)
    return drawn


SHADES = ("#33608f", "#d55e00", "#62b9e2", "#9fd0ea", "#2a9264", "#e6c04a", "#fde3b4", "#9a3f86")
