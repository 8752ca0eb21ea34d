"""Three kinds of chart as inline SVG: horizontal bars, stacked bars, and a tail distribution.

A chart is a function from values to text. Colours are names of CSS variables, so that one picture
serves light, dark and print. Every mark has a `<title>`, every picture a title and a description.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from entresol.quantity import short

Across = Callable[[float], float]
"""Where a value is on the horizontal axis."""

_CHARACTER = 6.5
_ROW = 25
_BAR = 15
_AXIS = 24
_LEAST_STEP = 0.4
_NOTE = 10 * _CHARACTER
_LEAST_ROOM = 140
_LABEL = 44
_NINES = (
    (0.0, "0 %"),
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.99999, "99.999 %"),
)


@dataclass(frozen=True)
class Segment:
    """A part of a bar. `colour` is a CSS variable; `title` is what a pointer sees."""

    value: float
    colour: str
    title: str


@dataclass(frozen=True)
class Bar:
    """A row: its label, its parts from left to right, and a note at its end."""

    label: str
    segments: tuple[Segment, ...]
    note: str = ""
    emphasis: bool = False


@dataclass(frozen=True)
class Series:
    """A line: shares (0 to 1) reached at rising values."""

    label: str
    colour: str
    dash: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Caption:
    """What a picture is, for those who do not see it."""

    identity: str
    title: str
    description: str


def bars(
    caption: Caption,
    rows: Sequence[Bar],
    width: int,
    tick: Callable[[float], str],
    maximum: float | None = None,
    mark: float | None = None,
) -> str:
    """Horizontal bars from a common zero, with an optional vertical mark to compare with."""
    top = maximum or max((sum(part.value for part in row.segments) for row in rows), default=0)
    left = _CHARACTER * max((len(row.label) for row in rows), default=0) + 12
    right = _CHARACTER * max((len(row.note) for row in rows), default=0) + 14
    ticks = linear_ticks(top, max(2, int((width - left - right) / 64))) if top else [0.0]
    top = max(top, ticks[-1] if maximum is None and len(ticks) < 3 else 0) or 1.0
    scale = (width - left - right) / top
    height = _ROW * len(rows) + _AXIS
    parts = [axis(left + value * scale, height - _AXIS, tick(value)) for value in ticks]
    if mark is not None and mark <= top:
        parts += _mark(left + mark * scale, rows, left, scale)
    for index, row in enumerate(rows):
        parts.append(_bar(row, left, index * _ROW, scale))
    return picture(caption, width, height, parts)


def _mark(x: float, rows: Sequence[Bar], left: float, scale: float) -> list[str]:
    """A vertical line to compare with, which strikes no note: it leaves out rows whose note is in
    its way."""
    free: list[tuple[int, int]] = []
    for index, row in enumerate(rows):
        start = left + sum(part.value for part in row.segments) * scale + 2
        if row.note and start < x < start + _CHARACTER * len(row.note) + 8:
            continue
        begin = free.pop()[0] if free and free[-1][1] == index else index
        free.append((begin, index + 1))
    return [
        f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{begin * _ROW}" y2="{end * _ROW}"/>'
        for begin, end in free
    ]


def axis(x: float, height: float, label: str, anchor: str = "middle") -> str:
    """A line of the grid, and what it stands for below it."""
    return (
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>'
        f'<text class="tick" x="{x:.1f}" y="{height + 16}" text-anchor="{anchor}">'
        f"{escape(short(label))}</text>"
    )


def _bar(row: Bar, left: float, y: float, scale: float) -> str:
    name = "label strong" if row.emphasis else "label"
    middle = y + _ROW / 2
    parts = [
        f'<text class="{name}" x="{left - 8:.1f}" y="{middle + 4}" text-anchor="end">'
        f"{escape(row.label)}</text>"
    ]
    x = left
    for part in row.segments:
        length = part.value * scale
        if length > 0:
            parts.append(
                f'<rect class="bar" x="{x:.2f}" y="{middle - _BAR / 2}" height="{_BAR}"'
                f' width="{max(length, 0.6):.2f}" fill="var(--{part.colour})">'
                f"<title>{escape(part.title)}</title></rect>"
            )
        x += length
    if row.note:
        parts.append(
            f'<text class="note{" strong" if row.emphasis else ""}" x="{x + 6:.1f}"'
            f' y="{middle + 4}">{escape(row.note)}</text>'
        )
    return f"<g>{''.join(parts)}</g>"


def tail(
    caption: Caption, lines: Sequence[Series], width: int, tick: Callable[[float], str]
) -> str:
    """Cumulative distributions: values on a logarithmic axis, shares on an axis of nines, where
    each further 9 takes the same height, so that the tail can be read."""
    points = [point for line in lines for point in line.points if point[0] > 0]
    if not points:
        return ""
    low = math.floor(math.log10(min(value for value, _ in points)) * 2) / 2
    high = math.ceil(math.log10(max(value for value, _ in points)) * 2) / 2
    finest = max((share for _, share in points if share < 1), default=0.9)
    top = min(max(2.0, nines(finest)), 5.0)
    left, height, right = 62.0, 300.0, 14.0

    def across(value: float) -> float:
        return left + (math.log10(max(value, 10**low)) - low) / (high - low) * (
            width - left - right
        )

    def up(share: float) -> float:
        return 8 + (1 - min(nines(share), top) / top) * (height - 8)

    parts = [
        _tail_rule(left, width - right, up(share), name)
        for share, name in _NINES
        if nines(share) <= top
    ]
    stride = math.ceil(52 * (high - low) / (width - left - right))
    for decade in range(math.ceil(low), math.floor(high) + 1, stride):
        parts.append(axis(across(10.0**decade), height, tick(10.0**decade)))
    for line in lines:
        parts.append(_line(line, across, up))
    return picture(caption, width, height + _AXIS, parts)


def _tail_rule(left: float, right: float, y: float, name: str) -> str:
    return (
        f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{name}</text>'
    )


def _line(line: Series, across: Across, up: Callable[[float], float]) -> str:
    steps: list[str] = []
    previous = up(0.0)
    for value, share in line.points:
        x, y = across(value), up(share)
        if steps and previous - y < _LEAST_STEP and share < 1:
            continue
        steps.append(f"{'L' if steps else 'M'}{x:.1f} {previous:.1f}V{y:.1f}")
        previous = y
    dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
    return (
        f'<path class="line" d="{"".join(steps)}" stroke="var(--{line.colour})"{dash}>'
        f"<title>{escape(line.label)}</title></path>"
    )


def nines(share: float) -> float:
    """0.9 is 1, 0.99 is 2, 0.999 is 3."""
    return -math.log10(max(1 - share, 1e-9))


def linear_ticks(maximum: float, wanted: int) -> list[float]:
    """Round values from 0 up to `maximum`, about so many."""
    rough = maximum / max(wanted, 1)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough)
    return [index * step for index in range(int(maximum / step * (1 + 1e-9)) + 1)]


def picture(caption: Caption, width: float, height: float, parts: Sequence[str]) -> str:
    """An SVG with a title and a description."""
    name = escape(caption.identity)
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-labelledby="{name}-t {name}-d"><title id="{name}-t">{escape(caption.title)}</title>'
        f'<desc id="{name}-d">{escape(caption.description)}</desc>{"".join(parts)}</svg>'
    )


def waterfall(
    caption: Caption,
    names: tuple[str, str],
    ends: tuple[float, float],
    steps: Sequence[tuple[str, float]],
    width: int,
) -> str:
    """From one value to another by factors, on a logarithmic axis: a bar from where the last one
    ended to where this one leads, gains in one colour, losses in another."""
    rows: list[tuple[str, float, float, str, str]] = [
        (names[0], 1.0, ends[0], "c-host_dram_ps", f"{ends[0]:.2f}×")
    ]
    at = ends[0]
    for name, value in steps:
        colour = "c-ssd_dram_ps" if value >= 1 else "c-flash_ps"
        rows.append((name, at, at * value, colour, f"×{value:.3f}"))
        at *= value
    rows.append((names[1], 1.0, ends[1], "c-host_dram_ps", f"{ends[1]:.2f}×"))
    low = min(min(start, end) for _, start, end, *_ in rows)
    high = max(max(start, end) for _, start, end, *_ in rows)
    left = _CHARACTER * max(len(name) for name, *_ in rows) + 12
    # Where names leave the bars too little room, each stands above its bar.
    above = width - left - _NOTE < _LEAST_ROOM
    left, row = (2.0, 2 * _ROW - 8) if above else (left, _ROW)
    span = math.log(high / low) or 1.0
    room = width - left - _NOTE

    def across(value: float) -> float:
        return left + math.log(value / low) / span * room

    height = row * len(rows)
    parts = [
        axis(across(value), height, f"{value:g}×", "start" if above and value == low else "middle")
        for value in apart(log_ticks(low, high), across)
    ]
    for index, (name, start, end, colour, note) in enumerate(rows):
        middle = (index + 1) * row - _ROW / 2
        x, far = sorted((across(start), across(end)))
        strong = " strong" if index in (0, len(rows) - 1) else ""
        place = (
            f'x="{left}" y="{middle - 12}"'
            if above
            else f'x="{left - 8:.1f}" y="{middle + 4}" text-anchor="end"'
        )
        parts.append(
            f'<text class="label{strong}" {place}>{escape(name)}</text>'
            f'<rect class="bar" x="{x:.2f}" y="{middle - _BAR / 2}" height="{_BAR}" '
            f'width="{max(far - x, 0.8):.2f}" fill="var(--{colour})">'
            f"<title>{escape(name)}: {note}</title></rect>"
            f'<text class="note{strong}" x="{far + 6:.1f}" y="{middle + 4}">{note}</text>'
        )
    return picture(caption, width, height + _AXIS, parts)


def apart(values: Sequence[float], across: Across) -> list[float]:
    """Those of rising values whose labels do not touch, from the first on."""
    kept = list(values[:1])
    for value in values[1:]:
        if across(value) - across(kept[-1]) >= _LABEL:
            kept.append(value)
    return kept


def log_ticks(low: float, high: float) -> list[float]:
    """Round values between two, evenly on a logarithmic axis, about eight of them."""
    fine = [
        10.0**decade * step
        for decade in range(-4, 7)
        for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    ]
    inside = [value for value in fine if low * 0.999 <= value <= high * 1.001]
    if len(inside) < 4 and high - low > 1e-6:
        # So short a stretch is nearly linear.
        steps = linear_ticks(high - low, 6)
        step = steps[1] if len(steps) > 1 else high - low
        first = math.ceil(low / step - 1e-9)
        return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]
    stride = max(1, math.ceil(len(inside) / 8))
    return inside[::stride]
