"""What a file system of ByteFS's kind could reach at most: contents as they are, free metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.figures import bars, frames, ink
from entresol.figures.frames import Rows
from entresol.figures.plan import Bench, Results, Settings, quotient
from entresol.papers.bytefs import runs
from entresol.papers.bytefs.runs import BYTEFS, EXT4, LOADS, bench

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

METRIC = "normalised_throughput"
WRITES, ALL = "writes of metadata free", "metadata free"
METADATA = {WRITES: "unwritten", ALL: "host"}
"""Bounds, and the parameter `fs.metadata` of each."""


def _bench(load: str, design: str) -> Bench:
    free = METADATA.get(design)
    return bench(load, BYTEFS) if free is None else bench(load, BYTEFS, fs__metadata=free)


def wants(settings: Settings) -> list[Bench]:
    """Ext4-like, ByteFS, and ByteFS with free metadata."""
    names = (BYTEFS, *METADATA)
    loads = runs.loads(settings, LOADS)
    return [
        item for load in loads for item in (bench(load, EXT4), *(_bench(load, n) for n in names))
    ]


def bounds(results: Results) -> polars.DataFrame:
    """Throughput over Ext4-like's."""
    rows = Rows()
    for load in runs.loads(results.settings, LOADS):
        base = runs.throughput(results, bench(load, EXT4))
        for name in (BYTEFS, *METADATA):
            rows.add(
                load, name, METRIC, quotient(runs.throughput(results, _bench(load, name)), base)
            )
    return rows.frame(means=(frames.GEOMETRIC,))


def draw(frame: polars.DataFrame) -> Figure:
    """A group of bars for each load, YCSB's below: what is reached, and the bounds."""
    series = [*runs.series([BYTEFS]), bars.Series(WRITES, WRITES, "W", "#9fd0ea"),
              bars.Series(ALL, ALL, "M", "#33608f")]  # fmt: skip
    values = frames.cells(frame, METRIC)
    parts = runs.in_rows(frames.distinct(frame, "workload"))
    with ink.style():
        drawn = ink.figure(ink.PAGE, 0.5 + 2.05 * len(parts))
        for axes, part in zip(drawn.subplots(len(parts), 1, squeeze=False)[:, 0],
                              parts, strict=True):  # fmt: skip
            limit = bars.top_of(values, most=8) if values else None
            bars.grouped(axes, part, series, values, limit=limit)
            axes.axhline(1, color=ink.SOFT, linewidth=0.6)
            axes.axhline(2, color=ink.SOFT, linewidth=0.6, linestyle=":")
            axes.set_ylabel("Throughput ÷ Ext4-like")
        bars.legend(drawn, series, twins=False)
    return drawn
