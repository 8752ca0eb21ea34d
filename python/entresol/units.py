"""Numbers with units as text, read in one place: parameters, options, and cells of tables.

Parameters themselves are read by the core; this is for what Python does with their text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from entresol.errors import UserError

TIMES = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
"""In picoseconds."""
SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
"""In bytes."""
DECIMAL_SIZES = {"kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SPANS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
"""Of a person's time, in seconds."""
_RATES = {f"{prefix}B/s": 1000**power for power, prefix in enumerate(("", "k", "M", "G", "T"))}
_FREQUENCIES = {f"{prefix}Hz": 1000**power for power, prefix in enumerate(("", "k", "M", "G"))}
_KINDS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "number": ("", {"": 1}),
    "time": ("_ps", TIMES),
    "size": ("_bytes", SIZES),
    "rate": ("_bytes_per_s", _RATES),
    "frequency": ("_hz", _FREQUENCIES),
    "core cycles": ("_cycles", {"cycles": 1}),
    "share": ("_milli", {"%": 10}),
}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z/%]*)")
_SHOWN = re.compile(r"[×$]?([\d,]+(?:\.\d+)?)(?:/(\d+))?\s*(\D*)")
_SCALES: Mapping[str, float] = {
    **{"": 1, "%": 0.01, "×": 1, "k": 1e3, "M": 1e6, "G": 1e9},
    **SIZES,
    **TIMES,
    "µs": TIMES["us"],
    **_RATES,
    **_FREQUENCIES,
}
LONGEST_PS = 10**18
"""No run lasts so long: 11 days."""


def _value(text: str, units: Mapping[str, int]) -> int | None:
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[2] not in units:
        return None
    value = Decimal(match[1]) * units[match[2]]
    return int(value) if value == int(value) else None


def number(text: str, kind: str) -> tuple[str, int] | None:
    """The value of a parameter of a kind (`Parameter.kind`): the ending of its column, which says
    the unit, and the number; none if it is no number."""
    ending, units = _KINDS.get(kind, ("", {}))
    value = _value(text, units)
    return None if value is None else (ending, value)


def size(text: str) -> int | None:
    """The bytes of `512MiB` or `1 GB`; none if it is no size."""
    return _value(text, SIZES | DECIMAL_SIZES)


def size_of(text: str, option: str) -> int:
    """The bytes that an option says. Raises `UserError` if it is no size."""
    found = size(text)
    if found is None:
        raise UserError(f"{option} {text}: is no size such as 512MiB.")
    return found


def share_of(text: str, option: str) -> str:
    """A share above nothing and of at most all, as an option says it. Raises `UserError` if it is
    none."""
    try:
        share = Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share <= 1:
        raise UserError(f"{option} {text}: write a share of all, for example 1/8 or 25%.")
    return f"{share.numerator}/{share.denominator}"


def picoseconds_of(text: str, option: str) -> int:
    """The simulated time that an option says, as `1.5us`. Raises `UserError` if it is none, or
    longer than any run."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[2] not in TIMES:
        raise UserError(f"{option} {text}: write a time with its unit, for example 200us.")
    found = round(Decimal(match[1]) * TIMES[match[2]])
    if found > LONGEST_PS:
        raise UserError(f"{option} {text}: is too long; no run lasts {LONGEST_PS // 10**12} s.")
    return found


def seconds_of(text: str, option: str) -> float:
    """The seconds of a span such as `30d` that an option says. Raises `UserError` if it is none."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[2] not in SPANS or "." in match[1]:
        raise UserError(f"{option} {text}: is no span of time such as 12h, 30d or 8w.")
    return float(int(match[1]) * SPANS[match[2]])


def magnitude(text: str) -> float | None:
    """`8MiB`, `12.5%`, `1/8` and `1.23 µs` as numbers that compare with their like; none for a
    word."""
    found = _SHOWN.fullmatch(text)
    if found is None or found[3] not in _SCALES:
        return None
    whole, part = float(found[1].replace(",", "") or 0), float(found[2] or 1)
    return whole / part * _SCALES[found[3]] if part else None
