"""Figure 13: compaction of the log by size, one page after the other and in batches over all
channels, accounted by the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol.figures import frames, ink, lines
from entresol.figures.benches import COMPACTION
from entresol.figures.frames import Rows
from entresol.figures.plan import Bench, Results, Settings, quotient
from entresol.papers.opencxd.runs import CONSTANT, NAME, compaction, published

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

LOGS = (1, 4, 16, 64)
"""MiB; half of each is full."""
LAUNCHES = {
    "sequential": ("sequential", "#33608f", 0),
    "channel_parallel": ("channel-parallel", "#d55e00", 1),
    "at_once": ("as they find room (ours)", "#2a9264", 2),
}
FLASHES = {CONSTANT: "times constant", "drawn": "times of module (b)"}


def wants(_settings: Settings) -> list[Bench]:
    """All sizes, policies and kinds of flash."""
    return [compaction(launch, log, nand) for nand in FLASHES for launch in LAUNCHES
            for log in LOGS]  # fmt: skip


def times(results: Results) -> polars.DataFrame:
    """Times, and by how much the others are faster than sequential."""
    paper, rows = published("fig13"), Rows()
    best = paper.value(COMPACTION, NAME, "speedup")
    for nand in FLASHES:
        for launch in LAUNCHES:
            for log in LOGS:
                rows.add(nand, launch, "compaction_ms", _ms(results, launch, log, nand), x=log)
    for nand in FLASHES:
        for launch in list(LAUNCHES)[1:]:
            for log in LOGS:
                faster = quotient(_ms(results, "sequential", log, nand),
                                  _ms(results, launch, log, nand))  # fmt: skip
                # Their board has module (b).
                is_theirs = (nand, launch, log) == ("drawn", "channel_parallel", LOGS[-1])
                theirs = best if is_theirs else None
                rows.add(nand, launch, "speedup", faster, theirs, x=log)
    return rows.frame(means=())


def _ms(results: Results, launch: str, log: int, nand: str) -> float | None:
    run = results.benches.get(compaction(launch, log, nand))
    return None if run is None else float(run["flush_ps"]) / 1e9


def draw(frame: polars.DataFrame) -> Figure:
    """A panel of times for each kind of flash, and one of what is gained."""
    found = frames.read(frame)
    with ink.style():
        drawn, panels = lines.panels(3, 2.2, ink.PAGE)
        for axes, nand in zip(panels, FLASHES, strict=False):
            for launch, (_, colour, mark) in LAUNCHES.items():
                points = _points(found, nand, launch, "compaction_ms")
                lines.draw(axes, lines.Curve("", points, colour, mark=mark))
            axes.set_title(FLASHES[nand])
            axes.set_ylabel("Compaction (ms)")
            ink.log_axis(axes)
        gain = panels[2]
        for nand, style in zip(FLASHES, ("-", ":"), strict=True):
            for launch, (_, colour, _mark) in list(LAUNCHES.items())[1:]:
                points = _points(found, nand, launch, "speedup")
                gain.plot([x for x, _ in points], [y for _, y in points], style, color=colour)
        gain.axhline(8, color=ink.INK, linewidth=0.9, linestyle=(0, (3, 2)))
        gain.annotate("published: up to 8", (LOGS[0], 8), xytext=(0, 2),
                      textcoords="offset points", fontsize=6, color=ink.SOFT)  # fmt: skip
        gain.set_title("gain (dotted: of module (b))")
        gain.set_ylabel("Sequential ÷ this")
        gain.set_ylim(bottom=0)
        for axes in panels:
            axes.set_xscale("log", base=2)
            axes.set_xticks(LOGS, [str(log) for log in LOGS])
            axes.minorticks_off()
            axes.set_xlabel("log (MiB)")
            ink.grid(axes)
        lines.legend(drawn, list(LAUNCHES.values()), twins=False)
    return drawn


def _points(
    rows: list[frames.Row], nand: str, launch: str, metric: str
) -> list[tuple[float, float]]:
    return [(float(row.x), row.ours) for row in rows
            if (row.workload, row.design, row.metric) == (nand, launch, metric)
            and row.x is not None and row.ours is not None]  # fmt: skip
