"""Figures in the steady state: programs on which parameters were chosen, and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from entresol import steady
from entresol.core import Json
from entresol.figures import bars, frames, ink
from entresol.figures.frames import GEOMETRIC, Rows
from entresol.figures.plan import Results, Settings, SteadyWant
from entresol.papers.entresol import runs
from entresol.papers.entresol.runs import BASE, CP, DRAM, FULL, OWN, Program

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

DESIGNS = (BASE, CP, FULL, OWN, DRAM)
SHOWN = (BASE, CP, FULL, DRAM)
TIME, LOW, HIGH, PAID, PROGRAMS = "time", "low", "high", "paid", "programs"


def wants(
    among: Mapping[str, Program], scale: str | None = None
) -> Callable[[Settings], list[SteadyWant]]:
    """The windows of a figure, which may be of one scale alone."""

    def wanted(settings: Settings) -> list[SteadyWant]:
        if scale not in (None, settings.scale):
            return []
        return runs.steady(tuple(among), settings, DESIGNS)

    return wanted


def lacks(settings: Settings) -> str:
    """Of a figure at full size: that it has nothing at another one."""
    if settings.scale == "paper":
        return ""
    return "it has programs at the paper's sizes alone: give --scale paper, hours and 16 GB."


def of(among: Mapping[str, Program]) -> Callable[[Results], polars.DataFrame]:
    """The frame of a figure."""
    return partial(times, tuple(among))


def times(among: Sequence[str], results: Results) -> polars.DataFrame:
    """Time ÷ our design's, as measured with its interval and with debts paid; programs of
    flash pages for a million instructions."""
    rows = Rows()
    for name in (name for name in among if name in results.settings.workloads):
        own = results.steady.get(runs.windows(name, OWN), ())
        for design in DESIGNS:
            found = results.steady.get(runs.windows(name, design), ())
            if design != OWN:
                _compare(rows, name, design, found, own)
            if design != DRAM:
                rows.add(name, design, PROGRAMS, steady.programs(found) if found else None)
    return rows.frame(means=(GEOMETRIC,), parts=(LOW, HIGH, PROGRAMS))


def _compare(
    rows: Rows, name: str, design: str, found: Sequence[Json], own: Sequence[Json]
) -> None:
    ratio = steady.over(found, own) if found and own else None
    rows.add(name, design, TIME, None if ratio is None else ratio.time.value)
    rows.add(name, design, LOW, None if ratio is None else ratio.time.low)
    rows.add(name, design, HIGH, None if ratio is None else ratio.time.high)
    rows.add(name, design, PAID, None if ratio is None else ratio.paid)


def draw(frame: polars.DataFrame) -> Figure:
    """(a) as measured, (b) with debts paid, (c) programs of flash pages."""
    groups = frames.distinct(frame, "workload")
    names = [group for group in groups if group not in frames.MEANS]
    panels = (
        (TIME, "(a) Time ÷ ours, as measured", groups, SHOWN),
        (PAID, "(b) Time ÷ ours, debts paid", groups, SHOWN),
        (PROGRAMS, "(c) Flash pages programmed for a million instructions", names, DESIGNS[:-1]),
    )
    with ink.style():
        drawn = ink.figure(ink.PAGE, 6.6)
        places = drawn.subplots(len(panels), 1, squeeze=False)[:, 0]
        for axes, (metric, title, shown, designs) in zip(places, panels, strict=True):
            series = bars.of_designs(designs)
            bars.grouped(axes, shown, series, frames.cells(frame, metric), log=True)
            axes.set_title(title, loc="left")
            if metric != PROGRAMS:
                axes.axhline(1, color=ink.SOFT, linewidth=0.6)
        bars.legend(drawn, bars.of_designs(DESIGNS), twins=False)
    return drawn
