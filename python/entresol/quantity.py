"""Numbers as a person writes them, with a no-break space before the unit."""

from __future__ import annotations

import re

_SPANS = ((10**12, "s"), (10**9, "ms"), (10**6, "µs"), (10**3, "ns"))
_COUNTS = ((10**9, 10**9, "G"), (10**6, 10**6, "M"), (10**4, 10**3, "k"))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
NOTHING = "–"
_POINT = re.compile(r"\.(?!\d)")
_ZEROS = re.compile(r"(\.\d*?)0+(?=\D|$)")


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, never in exponent form."""
    if value == 0:
        return "0"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else _leading_zeros(abs(value))
    return f"{value:,.{max(0, digits - whole)}f}"


def span(low: float, high: float) -> str:
    """The two ends of an interval; the closer they are, the more digits. A low end below what its
    digits could hold is nothing."""
    if low <= 0:
        return f"0–{significant(high, 2)}"
    wide = high / low - 1
    digits = 2 + (wide < 0.2) + (wide < 0.02)
    return f"{significant(low, digits)}–{significant(high, digits)}"


def between(value: float, low: float | None, high: float | None) -> str:
    """A ratio and, in brackets, its interval, if it has one."""
    text = significant(value)
    return text if low is None or high is None or low == high else f"{text} ({span(low, high)})"


def _leading_zeros(value: float) -> int:
    zeros = 0
    while value < 1 and zeros > -6:
        value *= 10
        zeros -= 1
    return zeros + 1


def duration(picoseconds: float | None) -> str:
    """`1.23 µs` from picoseconds."""
    if picoseconds is None:
        return NOTHING
    for unit, name in _SPANS:
        if picoseconds >= unit:
            return f"{significant(picoseconds / unit)}\u00a0{name}"
    return "0\u00a0ns" if picoseconds == 0 else f"{picoseconds:.0f}\u00a0ps"


def count(value: float | None) -> str:
    """`12.3 M` from 12,300,000; exact below ten thousand."""
    if value is None:
        return NOTHING
    for least, unit, name in _COUNTS:
        if value >= least:
            return f"{significant(value / unit)}\u00a0{name}"
    return f"{value:,.0f}"


def exact(value: int | None) -> str:
    """`12,300,000`."""
    return NOTHING if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """`1.5 MiB` from bytes."""
    if value is None:
        return NOTHING
    for unit, name in _SIZES:
        if value >= unit:
            return f"{significant(value / unit)}\u00a0{name}"
    return f"{value}\u00a0B"


def times(factor: float | None) -> str:
    """`3.2×`."""
    return NOTHING if factor is None else f"{significant(factor)}×"


def milli(value: int | None) -> str:
    """`1.234` from an integer in thousandths, with three significant digits at least."""
    return NOTHING if value is None else significant(value / 1000)


def micro(value: int | None) -> str:
    """`0.00123` from an integer in millionths, with three significant digits at least."""
    return NOTHING if value is None else significant(value / 1_000_000)


def percent(share: float | None) -> str:
    """`12 %`, one digit more when it is small."""
    if share is None:
        return NOTHING
    return f"{100 * share:.1f}\u00a0%" if 0 < share < 0.0995 else f"{100 * share:.0f}\u00a0%"


def short(text: str) -> str:
    """A number on an axis: `1 µs` instead of `1.00 µs`."""
    return _POINT.sub("", _ZEROS.sub(r"\1", text))
