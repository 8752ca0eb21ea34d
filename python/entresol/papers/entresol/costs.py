"""What is left to gain: our design as it is, and with what its mechanisms cost taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entresol import steady
from entresol.figures import bars, frames, ink
from entresol.figures.bars import Series
from entresol.figures.frames import GEOMETRIC, Rows
from entresol.figures.plan import Results, Settings, SteadyWant
from entresol.papers.entresol import runs
from entresol.papers.entresol.runs import CHOSEN_ON, FULL, FULL_SIZE, OWN

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

TIME, PAID = "time", "paid"
REACHED, ALL = "as it is", "all"
FREE = {
    "programs": ("nand.t_prog=1ns", "nand.t_bers=1ns", "ssd.compaction.page_cost=0ns",
                 "ftl.gc_page_cost=0ns"),
    "moves": ("host.interrupt_latency=0ns", "host.handler_cost=0ns", "host.page_table_cost=0ns",
              "host.shootdown_cost=0ns", "host.batched_cost=0ns"),
    "switches": ("os.switch_cost=0ns",),
    "lookups": ("ssd.cache.lookup=0ns", "ssd.log.lookup=0ns"),
    "channels": ("nand.channel_bandwidth=unlimited",),
}  # fmt: skip
"""By what costs nothing: programs and erases, moves of pages between device and host, switches of
threads, lookups of the firmware, the way of pages from the register."""
VARIANTS: dict[str, tuple[str, ...]] = {
    REACHED: (),
    **FREE,
    ALL: tuple(each for keys in FREE.values() for each in keys),
}
COLOURS = ("#117733", "#33608f", "#d55e00", "#8c6bb1", "#b8860b", "#7f7f7f", "#222222")


def _among(settings: Settings) -> list[str]:
    programs = FULL_SIZE if settings.scale == "paper" else CHOSEN_ON
    return [name for name in programs if name in settings.workloads]


def wants(settings: Settings) -> list[SteadyWant]:
    """Windows of SkyByte-Full, and of ours with each cost taken away and with all."""
    return [
        window
        for name in _among(settings)
        for window in (
            runs.windows(name, FULL),
            *(runs.windows(name, OWN, *free) for free in VARIANTS.values()),
        )
    ]


def costs(results: Results) -> polars.DataFrame:
    """SkyByte-Full's time ÷ ours, as measured and with debts paid."""
    rows = Rows()
    for name in _among(results.settings):
        full = results.steady.get(runs.windows(name, FULL), ())
        for what, free in VARIANTS.items():
            own = results.steady.get(runs.windows(name, OWN, *free), ())
            ratio = steady.over(full, own) if full and own else None
            rows.add(name, OWN, TIME, None if ratio is None else ratio.time.value, x=what)
            rows.add(name, OWN, PAID, None if ratio is None else ratio.paid, x=what)
    return rows.frame(means=(GEOMETRIC,))


def draw(frame: polars.DataFrame) -> Figure:
    """Bars by program: as it is, without each cost, without all."""
    groups = frames.distinct(frame, "workload")
    series = [Series(name, name, "", colour)
              for name, colour in zip(VARIANTS, COLOURS, strict=True)]  # fmt: skip
    with ink.style():
        drawn = ink.figure(ink.PAGE, 4.4)
        places = drawn.subplots(2, 1, squeeze=False)[:, 0]
        titles = ("(a) SkyByte-Full ÷ ours, as measured", "(b) SkyByte-Full ÷ ours, debts paid")
        for axes, metric, title in zip(places, (TIME, PAID), titles, strict=True):
            rows = frame.filter(frame["metric"] == metric)
            bars.grouped(axes, groups, series, frames.cells(rows, metric, by_x=True), log=True)
            axes.axhline(1, color=ink.SOFT, linewidth=0.6)
            axes.set_title(title, loc="left")
        bars.legend(drawn, series, twins=False, columns=len(series))
    return drawn
