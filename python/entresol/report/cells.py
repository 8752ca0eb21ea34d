"""Cells of tables: a number as a person writes it, and the number itself to sort by."""

from __future__ import annotations

import re
from dataclasses import dataclass

from entresol import quantity

_QUANTITY = re.compile(r"[×$]?([\d,]+(?:\.\d+)?)(?:/(\d+))?\s*(\D*)")
_SCALES = {
    "": 1.0,
    "%": 0.01,
    "×": 1.0,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "B": 1.0,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
    "ps": 1.0,
    "ns": 1e3,
    "us": 1e6,
    "µs": 1e6,
    "ms": 1e9,
    "s": 1e12,
    "kB/s": 1e3,
    "MB/s": 1e6,
    "GB/s": 1e9,
    "Hz": 1.0,
    "kHz": 1e3,
    "MHz": 1e6,
    "GHz": 1e9,
}


@dataclass(frozen=True)
class Cell:
    """A value in a table. `alarm` marks a zero that means a mechanism was not exercised; `prose`
    is text that may break into lines; `value` is what it is sorted by; if `None`, what the
    text says."""

    text: str
    alarm: bool = False
    prose: bool = False
    value: float | None = None


def duration(picoseconds: float | None) -> Cell:
    """`1.23 µs`."""
    return Cell(quantity.duration(picoseconds), value=picoseconds)


def exact(value: int | None) -> Cell:
    """`12,300,000`."""
    return Cell(quantity.exact(value), value=value)


def size(value: int | None) -> Cell:
    """`1.5 MiB`."""
    return Cell(quantity.size(value), value=value)


def milli(value: int | None) -> Cell:
    """`1.23` from thousandths."""
    return Cell(quantity.milli(value), value=value)


def micro(value: int | None) -> Cell:
    """`0.00123` from millionths."""
    return Cell(quantity.micro(value), value=value)


def ratio(value: float | None) -> Cell:
    """`0.123`."""
    return Cell(quantity.NOTHING if value is None else quantity.significant(value), value=value)


def times(factor: float | None) -> Cell:
    """`3.2×`."""
    return Cell(quantity.times(factor), value=factor)


def percent(share: float | None) -> Cell:
    """`12 %`."""
    return Cell(quantity.percent(share), value=share)


def magnitude(text: str) -> float | None:
    """`8MiB`, `12.5%` and `1.23 µs` as numbers that compare with their like; `None` for a word."""
    found = _QUANTITY.fullmatch(text)
    if found is None or found[3] not in _SCALES:
        return None
    whole, part = float(found[1].replace(",", "") or 0), float(found[2] or 1)
    return whole / part * _SCALES[found[3]] if part else None
