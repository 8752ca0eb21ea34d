"""Cells of tables: a number as a person writes it, and the number itself to sort by."""

from __future__ import annotations

from dataclasses import dataclass

from entresol import quantity


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
