"""Cost and endurance as a section of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from entresol import cost, quantity, svg
from entresol.cost import Prices
from entresol.derived import Panel, Run
from entresol.report import cells, figures, html, palette
from entresol.report.cells import Cell
from entresol.report.definitions import MAIN
from entresol.report.html import Row, Section

_HEADS = (
    "design",
    "capacity",
    "device $",
    "host DRAM $",
    "all DRAM $",
    "cheaper",
    "performance",
    "cost-effectiveness",
    "with host DRAM",
    "flash writes a day",
    "drive writes a day",
    "lifetime",
)


def section(panels: Sequence[Panel], prices: Prices) -> list[Section]:
    """What the memory costs, what it buys and how long it lasts; nothing if all is DRAM."""
    shown = [panel for panel in panels if panel.devices]
    if not shown:
        return []
    content = (
        html.note(note(shown[0].devices[0], prices))
        + figures.grid(
            [panel for panel in shown if _effects(panel, prices)],
            lambda panel, width, suffix: _picture(panel, width, suffix, prices),
        )
        + "".join(table(panel, prices) for panel in shown)
    )
    return [Section("cost", "Cost and endurance", "", content, "Cost")]


def note(run: Run, prices: Prices) -> str:
    """Where the prices come from, and what the lifetime is worth."""
    source = ", as in SkyByte §VI-B (market prices of summer 2024)" if prices == cost.PAPER else ""
    text = f"DRAM at ${prices.dram:g} and SSD at ${prices.flash:g} per GB{source}. "
    if prices.device_dram:
        text += f"DRAM of the device at ${prices.device_dram:g} per GB. "
    rating = cost.rated(run.json, prices)
    text += (
        "Writes a day and lifetime extrapolate the measured part as if it were repeated day and "
        "night: a window in which the log hardly filled, or garbage collection never ran, says "
        "little about them. "
    )
    if rating is None:
        return text + "How often this flash may be erased is not known: --cost pe_cycles=N says it."
    return text + f"{rating.cells} is taken to last {rating.cycles:,.0f} cycles ({rating.source})."


def table(panel: Panel, prices: Prices) -> str:
    """All numbers of a capture."""
    rows = [Row(run.design, row(panel, run, prices)) for run in panel.runs]
    return html.table(f"{panel.trace}: cost and endurance", _HEADS, rows, MAIN)


def row(panel: Panel, run: Run, prices: Prices) -> tuple[Cell, ...]:
    """The numbers of a run."""
    bill, wear, speed = cost.bill(run, prices), cost.wear(run, prices), cost.performance(panel, run)
    return (
        cells.size(bill.capacity_bytes),
        dollars(bill.device),
        dollars(bill.host) if bill.host else Cell(quantity.NOTHING, value=0),
        dollars(bill.dram_only),
        cells.times(bill.saving),
        share(speed),
        cells.times(cost.effectiveness(speed, bill.saving)),
        cells.times(cost.effectiveness(speed, bill.saving_whole)),
        cells.size(None if wear is None else round(wear.flash_bytes_per_day)),
        cells.ratio(None if wear is None else wear.drive_writes_per_day),
        lifetime(None if wear is None else wear.lifetime_days),
    )


def dollars(value: float) -> Cell:
    """`$32.50`."""
    text = f"${value:,.2f}" if value >= 0.1 else f"${quantity.significant(value, 2)}"
    return Cell(text, value=value)


def share(speed: float | None) -> Cell:
    """`75 %`; small shares keep two digits, since they are what matters of a slow device."""
    if speed is None:
        return Cell(quantity.NOTHING)
    return Cell(f"{quantity.significant(100 * speed, 2)}\u00a0%", value=speed)


def lifetime(days: float | None) -> Cell:
    """Hours, days or years."""
    if days is None:
        return Cell(quantity.NOTHING)
    if math.isinf(days):
        return Cell("no program", value=1e300)
    if days < 2:
        return Cell(f"{quantity.significant(days * 24, 2)}\u00a0hours", value=days)
    if days < 2 * cost.DAYS_PER_YEAR:
        return Cell(f"{quantity.significant(days, 2)}\u00a0days", value=days)
    years = days / cost.DAYS_PER_YEAR
    return Cell(f"{quantity.significant(years, 2)}\u00a0years", value=days)


def _effects(panel: Panel, prices: Prices) -> list[tuple[Run, float]]:
    if len(panel.runs) < 2:
        return []
    found = (
        (run, cost.effectiveness(cost.performance(panel, run), cost.bill(run, prices).saving))
        for run in panel.runs
    )
    return [(run, effect) for run, effect in found if effect is not None]


def _picture(panel: Panel, width: int, suffix: str, prices: Prices) -> str:
    title = "Cost-effectiveness relative to dram-only: longer is better"
    rows = [
        svg.Bar(
            run.design,
            (
                svg.Segment(
                    effect, palette.design(run.design), f"{run.design}: {quantity.times(effect)}"
                ),
            ),
            quantity.times(effect),
        )
        for run, effect in _effects(panel, prices)
    ]
    caption = figures.caption("worth" + suffix, panel, title, rows)
    return svg.bars(caption, rows, width, quantity.times, mark=1.0)
