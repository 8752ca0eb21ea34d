"""Figures of whole captures: what each mechanism is worth, on what that hangs, and the log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from entresol import decisions, worths
from entresol.core import Setup
from entresol.decisions import Decision
from entresol.figures import bars, frames, ink
from entresol.figures.bars import Series
from entresol.figures.frames import GEOMETRIC, Cell, Rows
from entresol.figures.plan import Results, Settings, Want, quotient
from entresol.papers.entresol import runs
from entresol.papers.entresol.runs import BASE, DRAM, FULL, OWN

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIRST, LAST = "first_in", "last_in"
GAIN = "full_over_own"
LOG = "skybyte-w"
OVER_BASE = "over_base"
WARM_UP = "run.warmup=85%"
"""Of a program at scale small, which is warm only then; at the paper's as by default."""
TAKES = {"all": (), "absent": ("ssd.log.takes=absent",)}
COLOURS = ("#33608f", "#d55e00", "#117733")
"""Of the shipped captures."""


# What each mechanism is worth.


@cache
def _decisions() -> tuple[Decision, ...]:
    return decisions.read(runs.NAME)


@cache
def _run(name: str, design: str, on: frozenset[str], fidelity: str) -> Want:
    setup = Setup(runs.DEMO, None, (), (), fidelity)
    chosen = decisions.settings(_decisions(), on, design, setup)
    return runs.whole(name, design, *chosen)


def worth_wants(settings: Settings) -> list[Want]:
    """SkyByte-Full with nothing, with all, with each alone and with all but each; DRAM-Only with
    what it reads of them."""
    return [
        _run(name, design, on, settings.fidelity)
        for name in runs.shipped(settings)
        for on in worths.sets([each.name for each in _decisions()])
        for design in (FULL, DRAM)
    ]


def worth(results: Results) -> polars.DataFrame:
    """Factors of time ÷ DRAM-Only's, for each capture."""
    rows = Rows()
    names = [each.name for each in _decisions()]

    def over_dram(name: str, on: frozenset[str]) -> float | None:
        fidelity = results.settings.fidelity
        return quotient(results.time(_run(name, FULL, on, fidelity)),
                        results.time(_run(name, DRAM, on, fidelity)))  # fmt: skip

    for name in runs.shipped(results.settings):
        found = worths.worths(names, partial(over_dram, name))
        for each in names:
            rows.add(name, FULL, FIRST, _known(found[each].first_in), x=each)
            rows.add(name, FULL, LAST, _known(found[each].last_in), x=each)
    return rows.frame(means=(GEOMETRIC,))


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def draw_worth(frame: polars.DataFrame) -> Figure:
    """(a) first in, on SkyByte-Full; (b) last in."""
    groups = _means_last(frame)
    names = [each.name for each in _decisions()]
    with ink.style():
        drawn = ink.figure(ink.PAGE, 4.2)
        panels = drawn.subplots(2, 1, squeeze=False)[:, 0]
        titles = ("(a) First: factor of SkyByte-Full's time", "(b) Last: all others are on")
        for axes, metric, title in zip(panels, (FIRST, LAST), titles, strict=True):
            _factors(axes, frame, groups, names, metric)
            axes.set_title(title, loc="left")
        _keys(drawn, groups)
    return drawn


def _factors(
    axes: Axes, frame: polars.DataFrame, groups: Sequence[str], names: Sequence[str], metric: str
) -> None:
    """Bars by mechanism: one for each capture, and their mean."""
    bars.grouped(axes, [_below(name) for name in names], _series(groups), _cells(frame, metric),
                 log=True)  # fmt: skip
    axes.axhline(1, color=ink.SOFT, linewidth=0.6)


def _cells(frame: polars.DataFrame, metric: str) -> bars.Values:
    """By what is on the axis and by capture."""
    found: dict[tuple[str, str | float | None], Cell] = {}
    for row in frames.read(frame):
        if row.metric == metric:
            found[_below(str(row.x)), row.workload] = (row.ours, None)
    return found


def _below(name: str) -> str:
    """A name below the axis, on two lines if it has several words."""
    return name.replace("_", " ").replace(" ", "\n", 1)


def _series(groups: Sequence[str]) -> list[Series]:
    colours = dict(zip(runs.SHIPPED, COLOURS, strict=True))
    return [Series(group, group, "", colours.get(group, ink.INK)) for group in groups]


def _keys(drawn: Figure, groups: Sequence[str]) -> None:
    bars.legend(drawn, _series(groups), twins=False)


def _means_last(frame: polars.DataFrame) -> list[str]:
    groups = frames.distinct(frame, "workload")
    return sorted(groups, key=lambda name: name in frames.MEANS)


# On what it hangs.


@dataclass(frozen=True)
class Variation:
    """What is different from machine demo in both designs."""

    name: str
    overrides: tuple[str, ...] = ()
    nand: str = ""
    first: int = 0


VARIATIONS = (
    Variation("as it is"),
    Variation("log 256 KiB", ("ssd.log.size=256KiB",)),
    Variation("log 1 MiB", ("ssd.log.size=1MiB",)),
    Variation("DRAM 2 MiB", ("ssd.dram=2MiB",)),
    Variation("DRAM 8 MiB", ("ssd.dram=8MiB",)),
    Variation("promoted 1 MiB", ("host.promoted=1MiB",)),
    Variation("promoted 16 MiB", ("host.promoted=16MiB",)),
    Variation("SLC", nand="slc"),
    Variation("MLC", nand="mlc"),
    Variation("2 threads", first=2),
    Variation("4 threads", first=4),
    Variation("link 160 ns", ("link.protocol_latency=160ns",)),
    Variation("no suspension", ("nand.suspend=false",)),
)  # fmt: skip


def _varied(name: str, design: str, item: Variation) -> Want:
    return runs.whole(name, design, *item.overrides, nand=item.nand, first=item.first)


def sensitivity_wants(settings: Settings) -> list[Want]:
    """Both designs, however varied."""
    return [_varied(name, design, item) for name in runs.shipped(settings)
            for item in VARIATIONS for design in (FULL, OWN)]  # fmt: skip


def sensitivity(results: Results) -> polars.DataFrame:
    """SkyByte-Full's time ÷ ours, varied alike."""
    rows = Rows()
    for name in runs.shipped(results.settings):
        for item in VARIATIONS:
            full, own = (results.time(_varied(name, design, item)) for design in (FULL, OWN))
            rows.add(name, FULL, GAIN, quotient(full, own), x=item.name)
    return rows.frame(means=(GEOMETRIC,))


def draw_sensitivity(frame: polars.DataFrame) -> Figure:
    """Bars by variation: one for each capture, and their mean."""
    groups, names = _means_last(frame), [item.name for item in VARIATIONS]
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.6)
        axes = drawn.subplots()
        bars.grouped(axes, [_below(name) for name in names], _series(groups),
                     _cells(frame, GAIN), log=True)  # fmt: skip
        axes.axhline(1, color=ink.SOFT, linewidth=0.6)
        axes.set_ylabel("SkyByte-Full ÷ ours")
        _keys(drawn, groups)
    return drawn


# A log that costs nothing where it saves nothing.


def _logged(settings: Settings, name: str, design: str, takes: str) -> Want:
    warm_up = (WARM_UP,) if settings.scale == "small" else ()
    overrides = tuple(sorted((*warm_up, *(TAKES[takes] if design == LOG else ()))))
    return Want(name, design, runs.TABLE_I_THREADS, overrides)


def log_wants(settings: Settings) -> list[Want]:
    """SkyByte-W with a log of all writes and of those of absent pages, and Base-CSSD."""
    names = [name for name in runs.TABLE_I if name in settings.workloads]
    return [_logged(settings, name, *which) for name in names
            for which in ((BASE, "all"), (LOG, "all"), (LOG, "absent"))]  # fmt: skip


def log(results: Results) -> polars.DataFrame:
    """Time ÷ Base-CSSD's, and pages programmed."""
    rows, settings = Rows(), results.settings
    for name in (name for name in runs.TABLE_I if name in settings.workloads):
        base = _logged(settings, name, BASE, "all")
        logged = {takes: _logged(settings, name, LOG, takes) for takes in TAKES}
        for takes, item in logged.items():
            over_base = quotient(results.time(item), results.time(base))
            rows.add(name, LOG, OVER_BASE, over_base, x=takes)
        for label, item in {"base": base, **logged}.items():
            pages = results.number(item, "flash", "program_pages")
            rows.add(name, LOG, "pages", pages, x=label)
    return rows.frame(means=(GEOMETRIC,), parts=("pages",))


def draw_log(frame: polars.DataFrame) -> Figure:
    """Bars by program: a log of all writes, and one of those of absent pages."""
    groups = frames.distinct(frame, "workload")
    series = [Series("all", "all writes", "", COLOURS[1]),
              Series("absent", "those of absent pages", "", COLOURS[2])]  # fmt: skip
    rows = frame.filter(frame["metric"] == OVER_BASE)
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.4)
        axes = drawn.subplots()
        bars.grouped(axes, groups, series, frames.cells(rows, OVER_BASE, by_x=True), log=True)
        axes.axhline(1, color=ink.SOFT, linewidth=0.6)
        axes.set_ylabel("SkyByte-W ÷ Base-CSSD")
        bars.legend(drawn, series, twins=False)
    return drawn
