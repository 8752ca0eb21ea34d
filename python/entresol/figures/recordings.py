"""Recordings of programs that a room ships or makes, which its figures play in virtual time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Clients:
    """Clients of one server that syncs once for all whose requests have come: the core's
    `Clients`, in nanoseconds."""

    count: int
    pipeline: int
    """Requests that a client sends at once."""
    requests: int
    """Of all."""
    bytes: int
    """Of a request in the server's log."""
    receive_ns: int
    request_ns: int
    answer_ns: int
    round_ns: int
    wake_ns: int
    sync_ns: int
    tool_ns: int
    tool_request_ns: int


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
    clients: Clients | None = None
    """Whose requests are played instead of what was recorded between the names."""
    decides: bool = False
    """Whether results have what transparent DAX judged and decided."""
