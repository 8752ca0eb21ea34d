"""A chart of lines over named values, as inline SVG: what a parameter does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from entresol import svg
from entresol.quantity import short

_HEIGHT = 220.0
_TOP = 8.0
_CHARACTER = 6.6


@dataclass(frozen=True)
class Trend:
    """A line: a value for each place on the axis, `None` where there is none."""

    label: str
    colour: str
    dash: str
    values: tuple[float | None, ...]


def trend(
    caption: svg.Caption,
    places: Sequence[str],
    lines: Sequence[Trend],
    width: int,
    tick: Callable[[float], str],
) -> str:
    """Lines from zero up over evenly spaced places."""
    highest = (
        max((value for line in lines for value in line.values if value is not None), default=0.0)
        or 1.0
    )
    ticks = svg.linear_ticks(highest * 1.02, 5)
    if ticks[-1] < highest:
        ticks.append(ticks[-1] + ticks[1])
    names = [short(tick(value)) for value in ticks]
    left = _CHARACTER * max(map(len, names)) + 14
    right = max(14.0, _CHARACTER * len(places[-1]) / 2 + 4)
    step = (width - left - right) / max(len(places) - 1, 1)

    def across(index: int) -> float:
        return left + (index * step if len(places) > 1 else (width - left - right) / 2)

    def up(value: float) -> float:
        return _TOP + (1 - value / ticks[-1]) * (_HEIGHT - _TOP)

    parts = [
        _rule(left, width - right, up(value), name)
        for value, name in zip(ticks, names, strict=True)
    ]
    stride = _stride(places, step)
    parts += [
        f'<text class="tick" x="{across(index):.1f}" y="{_HEIGHT + 17:.0f}" text-anchor="middle">'
        f"{escape(place)}</text>"
        for index, place in enumerate(places)
        if index % stride == 0
    ]
    for line in lines:
        points = [
            (across(index), up(value), value)
            for index, value in enumerate(line.values)
            if value is not None
        ]
        parts.append(_line(line, points, places, tick))
    return svg.picture(caption, width, _HEIGHT + 24, parts)


def _stride(places: Sequence[str], step: float) -> int:
    # Labels that would touch are left out evenly; every point is in the table below.
    widest = _CHARACTER * max(map(len, places)) + 10
    return max(1, math.ceil(widest / step)) if len(places) > 1 else 1


def _rule(left: float, right: float, y: float, name: str) -> str:
    return (
        f'<line class="grid" x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">'
        f"{escape(name)}</text>"
    )


def _line(
    line: Trend,
    points: Sequence[tuple[float, float, float]],
    places: Sequence[str],
    tick: Callable[[float], str],
) -> str:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in points)
    dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
    shown = [place for place, value in zip(places, line.values, strict=True) if value is not None]
    dots = "".join(
        f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="var(--{line.colour})">'
        f"<title>{escape(f'{line.label}, {place}: {tick(value)}')}</title></circle>"
        for (x, y, value), place in zip(points, shown, strict=True)
    )
    return (
        f'<path class="line" d="M{path}" stroke="var(--{line.colour})"{dash}>'
        f"<title>{escape(line.label)}</title></path>{dots}"
        if points
        else ""
    )
