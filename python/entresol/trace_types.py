"""Traces of other tools: which formats there are, and how one is read or written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TraceFormat:
    """A format of traces."""

    name: str
    summary: str
    imports: bool
    exports: bool
    recognised: bool
    """Whether content tells it; otherwise it has to be named."""


SLOWDOWN_MILLI = 55_000
"""By how much the tool behind SkyByte's warm-up traces slows a program down, in thousandths."""


@dataclass(frozen=True)
class ForeignReading:
    """How to read a foreign trace."""

    format: str | None = None
    dependencies: str = "none"
    slowdown_milli: int = SLOWDOWN_MILLI


@dataclass(frozen=True)
class ForeignPart:
    """Which part of each thread to write: instructions, or a share such as `25%`."""

    skip: str = "0"
    limit: str | None = None
    thread: int | None = None
    slowdown_milli: int = SLOWDOWN_MILLI
