"""Parts of a whole as bars from a common zero, in two colours: of two clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from entresol import quantity
from entresol.figures import ink

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PICOS = 1e6
"""In a microsecond, of the axis."""
_ROW = 0.24
_AROUND = 0.85
"""Inches of a row, and of title, axis and legend."""
_NOTE_ROOM = 1.22
"""The axis goes on behind the longest bar, for what stands there."""


@dataclass(frozen=True)
class Row:
    """A part: its name, its time, and which clock has measured it."""

    name: str
    time_ps: int
    clock: str


def draw(title: str, rows: Sequence[Row]) -> Figure:
    """A bar for each part, from the top on, with its time and its share of the whole."""
    whole = sum(row.time_ps for row in rows) or 1
    clocks = list(dict.fromkeys(row.clock for row in rows))
    colours = dict(zip(clocks, (ink.PARTS["host"], ink.PARTS["flash"]), strict=False))
    with ink.style():
        drawn = ink.figure(ink.PAGE * 0.72, _AROUND + _ROW * len(rows))
        axes = drawn.subplots()
        for clock in clocks:
            places = [place for place, row in enumerate(rows) if row.clock == clock]
            times = [rows[place].time_ps / _PICOS for place in places]
            axes.barh(
                places, times, height=0.62, color=colours[clock], label=clock, linewidth=0, zorder=2
            )
        for place, row in enumerate(rows):
            note = f" {quantity.duration(row.time_ps)} · {quantity.percent(row.time_ps / whole)}"
            axes.text(
                row.time_ps / _PICOS, place, note, va="center", fontsize=7, color=ink.SOFT,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6}, zorder=1.5,
            )  # fmt: skip
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.invert_yaxis()
        longest = max((row.time_ps for row in rows), default=0) / _PICOS
        axes.set_xlim(0, (longest or 1) * _NOTE_ROOM)
        axes.set_xlabel("µs")
        axes.tick_params(axis="y", length=0)
        axes.grid(True, axis="x", which="major")
        # A title is what it says: names of files have no formulas.
        axes.set_title(title, loc="left", parse_math=False)
        if len(clocks) > 1:
            drawn.legend(loc="outside lower center", ncols=len(clocks))
    return drawn
