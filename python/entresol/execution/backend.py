"""What runs points: the requests it takes and the events it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from entresol import core
from entresol.core import Json


class Kind(Enum):
    """Whose fault it is that there is no result."""

    REFUSED = "refused"
    """The request itself is wrong."""
    FAILED = "failed"
    """The simulation, or what it runs on."""
    INTERNAL = "internal"
    """Entresol's."""


@dataclass(frozen=True)
class Advanced:
    """A request is so far."""

    ticket: int
    progress: core.Progress


@dataclass(frozen=True)
class Finished:
    """A request has its result."""

    ticket: int
    result: Json


@dataclass(frozen=True)
class Stopped:
    """A request has no result and will have none; a sentence says why."""

    ticket: int
    error: str
    kind: Kind


Event = Advanced | Finished | Stopped


class Backend(Protocol):
    """Takes requests while it has capacity and says what becomes of each."""

    @property
    def capacity(self) -> int:
        """How many requests it takes at a time."""

    @property
    def warm(self) -> frozenset[str]:
        """Paths of captures that free workers have filtered already, if it is known."""

    def submit(self, ticket: int, request: Json) -> None:
        """Takes a request, whose events carry the ticket."""

    def poll(self, seconds: float) -> Sequence[Event]:
        """What happened; waits so long for the first event."""

    def close(self) -> None:
        """Stops whatever still runs."""
