"""Recordings of programs that a room ships or makes, which its figures play in virtual time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recorded:
    """A recording, and how it is played: with the program's own time between operations."""

    text: str
    """As `entresol fs record` writes it."""
    operations: int
    """Of the program, between the two names."""
    fuse_ns: int = 0
    """What FUSE took of each operation of the file system when it was recorded, and no more than
    the program's own pauses allow. It is taken off the program's time, unless a run has
    `run.fuse=kept`."""
    between: tuple[str, str] | None = None
    """Names between whose lookups lies what is measured."""
    cores: int = 12
    decides: bool = False
    """Whether results have what transparent DAX judged and decided."""
