"""A chart of factors as inline SVG: bars to both sides of 1, those of one thing side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from entresol import svg

_CHARACTER = 6.8
_STRONG = 7.4
_ROW = 17
_BAR = 11
_GAP = 10
_AXIS = 24
_LEAST_ROOM = 300
_LABEL = 44
_HALO = 'paint-order="stroke" stroke="var(--card)" stroke-width="4"'
"""Keeps lines off the letters that stand on them."""


@dataclass(frozen=True)
class Factor:
    """A bar from 1 to a value. `note` stands at the right, `title` is what a pointer sees."""

    value: float
    colour: str
    note: str
    title: str
    emphasis: bool = False


@dataclass(frozen=True)
class Group:
    """What several factors are of."""

    label: str
    factors: tuple[Factor, ...]

    @property
    def emphasis(self) -> bool:
        """Whether one of them has it."""
        return any(each.emphasis for each in self.factors)


def factors(
    caption: svg.Caption,
    groups: Sequence[Group],
    width: int,
    mark: float,
    among: Sequence[Group] = (),
) -> str:
    """Bars on a logarithmic axis, so that equal factors have equal lengths both ways. The vertical
    mark is left out where no bar comes so far. The axis is that of all of `among`, of which this
    picture may be a part."""
    everything = among or groups
    every = [each for group in everything for each in group.factors]
    low = min(1.0, *(each.value for each in every))
    high = max(1.0, *(each.value for each in every))
    left = max(len(g.label) * (_STRONG if g.emphasis else _CHARACTER) for g in everything) + 12
    right = max(len(e.note) * (_STRONG if e.emphasis else _CHARACTER) for e in every) + 16
    # Where names leave the bars too little room, each stands above its bars.
    above = width - left - right < _LEAST_ROOM
    left = 22.0 if above else left
    head = _ROW if above else 0
    span = math.log(high / low) or 1.0

    def across(value: float) -> float:
        return left + math.log(value / low) / span * (width - left - right)

    height = sum(head + _ROW * len(group.factors) + _GAP for group in groups)
    parts = [svg.axis(across(each), height, f"×{each:g}") for each in _ticks(low, high, across)]
    one = f'x1="{across(1):.1f}" x2="{across(1):.1f}" y1="0" y2="{height}"'
    parts.append(f'<line {one} stroke="var(--faint)"/>')
    if low <= mark <= high:
        x = f"{across(mark):.1f}"
        parts.append(f'<line class="mark" x1="{x}" x2="{x}" y1="0" y2="{height}"/>')
    y = _GAP / 2
    for group in groups:
        parts.append(_name(group, y, left, above))
        y += head
        for each in group.factors:
            parts.append(_factor(each, y + _ROW / 2, across, width - right + 12))
            y += _ROW
        y += _GAP
    return svg.picture(caption, width, height + _AXIS, parts)


def _ticks(low: float, high: float, across: svg.Across) -> list[float]:
    """Round values, 1 always among them, whose labels do not touch."""
    found = svg.apart(svg.log_ticks(low, high), across)
    return [1.0, *(each for each in found if abs(across(each) - across(1)) >= _LABEL)]


def _name(group: Group, y: float, left: float, above: bool) -> str:
    strong = " strong" if group.emphasis else ""
    middle = y + _ROW * (1 if above else len(group.factors)) / 2 + 4
    place = (
        f'x="2" y="{middle}" {_HALO}'
        if above
        else f'x="{left - 8:.1f}" y="{middle}" text-anchor="end"'
    )
    return f'<text class="label{strong}" {place}>{escape(group.label)}</text>'


def _factor(each: Factor, middle: float, across: svg.Across, note: float) -> str:
    start, end = sorted((across(1), across(each.value)))
    strong = " strong" if each.emphasis else ""
    return (
        f'<rect class="bar" x="{start:.2f}" y="{middle - _BAR / 2}" height="{_BAR}" '
        f'width="{max(end - start, 0.8):.2f}" fill="var(--{each.colour})">'
        f"<title>{escape(each.title)}</title></rect>"
        f'<text class="note{strong}" x="{note:.1f}" y="{middle + 4}">{escape(each.note)}</text>'
    )
