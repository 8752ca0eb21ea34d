"""Figures 6.1, 6.3, 6.5, 6.6, 6.8, 6.9 and 6.10: U, D, F and G."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from entresol.figures import frames, ink, lines
from entresol.figures.frames import Rows
from entresol.figures.lines import Curve
from entresol.figures.plan import Bench, Results, Settings
from entresol.papers.dax import runs
from entresol.papers.dax.runs import ORDER_COLOURS, ORDERS, TITLES, WITHOUT, Policy, published

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

UPGRADES, DOWNGRADES = (40, 60, 80), (10, 30, 50, 70)
AFTERS = (1, 3, 5, 7, 10, 20)
OVER = "over_default"


def _order(order: int) -> str:
    return f"G = {order}"


def _thresholds() -> list[Policy]:
    """All but those in which ranges would go back and forth."""
    return [
        Policy(upgrade=up, downgrade=down, order=order)
        for down in DOWNGRADES for order in ORDERS for up in UPGRADES if up >= down
    ]  # fmt: skip


def threshold_wants(database: str) -> Callable[[Settings], list[Bench]]:
    """The runs of a figure of U and D."""

    def wanted(settings: Settings) -> list[Bench]:
        return [
            runs.bench(name, policy)
            for name in runs.databases(settings, [database])
            for policy in (WITHOUT, *_thresholds())
        ]

    return wanted


def thresholds(database: str, results: Results) -> polars.DataFrame:
    """Gain by U, for each D and G."""
    rows = Rows()
    for name in runs.databases(results.settings, [database]):
        for policy in _thresholds():
            theirs = None
            if policy.upgrade == runs.THESIS.upgrade:
                theirs = _published(name, policy)
            rows.add(
                name, _order(policy.order), f"D_{policy.downgrade}",
                runs.gain(results, name, policy), theirs, x=float(policy.upgrade),
            )  # fmt: skip
    return rows.frame()


def _published(name: str, policy: Policy) -> float | None:
    found = published("speedups")
    if policy.downgrade == runs.THESIS.downgrade:
        return found.find(name, runs.HYBRID, "by_order", policy.order)
    if policy.order == 4:
        return found.find(name, runs.HYBRID, "by_downgrade", policy.downgrade)
    return 1.0 if policy.order == 0 and found.find(name, runs.HYBRID, "by_order", 0) else None


def draw_thresholds(frame: polars.DataFrame) -> Figure:
    """A panel for each D, a line for each G, U on the axis."""
    panels = [(f"D = {down} %", frame.filter(frame["metric"] == f"D_{down}"))
              for down in DOWNGRADES]  # fmt: skip
    return _panels(panels, "U (%)", UPGRADES)


def after_wants(among: Sequence[str]) -> Callable[[Settings], list[Bench]]:
    """The runs of a figure of F."""

    def wanted(settings: Settings) -> list[Bench]:
        return [
            runs.bench(name, policy)
            for name in runs.databases(settings, among)
            for policy in (WITHOUT, *_afters())
        ]

    return wanted


def _afters() -> list[Policy]:
    return [Policy(after=after, order=order) for order in ORDERS for after in AFTERS]


def afters(among: Sequence[str], results: Results) -> polars.DataFrame:
    """Gain by F, for each G."""
    rows = Rows()
    for name in runs.databases(results.settings, among):
        for policy in _afters():
            theirs = None
            if policy.order == runs.THESIS.order:
                theirs = published("speedups").find(name, runs.HYBRID, "by_after", policy.after)
            rows.add(name, _order(policy.order), OVER, runs.gain(results, name, policy), theirs,
                     x=float(policy.after))  # fmt: skip
    return rows.frame(means=())


def draw_afters(frame: polars.DataFrame) -> Figure:
    """A panel for each database, a line for each G, F on the axis."""
    panels = [(TITLES[name], frame.filter(frame["workload"] == name))
              for name in frames.distinct(frame, "workload")]  # fmt: skip
    return _panels(panels, "F (writes)", AFTERS)


def _panels(
    panels: Sequence[tuple[str, polars.DataFrame]], label: str, ticks: Sequence[int]
) -> Figure:
    known = [row for _, part in panels for row in frames.read(part)]
    every = [value for row in known for value in (row.ours, row.published) if value is not None]
    with ink.style():
        width = ink.PAGE if len(panels) > 2 else ink.COLUMN * 1.3
        drawn, places = lines.panels(len(panels), 1.9, width)
        for place, (axes, (title, part)) in enumerate(zip(places, panels, strict=True)):
            rows = frames.read(part)
            for number, order in enumerate(ORDERS):
                mine = [row for row in rows if row.design == _order(order)]
                for is_published in (False, True):
                    points = [
                        (float(row.x), value) for row in mine if row.x is not None
                        and (value := row.published if is_published else row.ours) is not None
                    ]  # fmt: skip
                    if points:
                        curve = Curve(_order(order), points, ORDER_COLOURS[order], is_published,
                                      number)  # fmt: skip
                        lines.draw(axes, curve)
            axes.set_title(title)
            axes.set_xlabel(label)
            axes.set_xticks(list(ticks))
            margin = (ticks[-1] - ticks[0]) / 20
            axes.set_xlim(ticks[0] - margin, ticks[-1] + margin)
            axes.axhline(1, color=ink.SOFT, linewidth=0.6)
            axes.set_ylim(0, max(every, default=1.0) * 1.1)
            ink.grid(axes)
            if place == 0:
                axes.set_ylabel("Throughput ÷ default")
        keys = [(_order(order), ORDER_COLOURS[order], number)
                for number, order in enumerate(ORDERS)]  # fmt: skip
        lines.legend(drawn, keys, twins=any(row.published is not None for row in known))
    return drawn


def of_thresholds(database: str) -> Callable[[Results], polars.DataFrame]:
    """The frame of a figure of U and D."""
    return partial(thresholds, database)


def of_afters(*among: str) -> Callable[[Results], polars.DataFrame]:
    """The frame of a figure of F."""
    return partial(afters, among)
