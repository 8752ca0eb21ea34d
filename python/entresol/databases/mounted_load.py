"""What a program does on a mount, and whether everything is there behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from entresol.databases.parsing import Ran


@dataclass(frozen=True)
class Did:
    """What came of a run of it."""

    ran: Ran
    writes: int
    """That were answered, so that they must be found again."""


class MountedLoad(ABC):
    """A load of a database on a mount."""

    name: str
    operations: int
    """Of a run."""

    @abstractmethod
    def require(self) -> None:
        """Raises `UserError` if a program is not there."""

    @abstractmethod
    def version(self) -> tuple[str, str]:
        """Of which program, and which."""

    @abstractmethod
    def prepare(self, folder: Path) -> None:
        """Makes what a run begins with, unless it is there."""

    @abstractmethod
    def run(self, folder: Path, operations: int) -> Did:
        """Does so many operations, one after the other. Raises `Failed` if one goes wrong."""

    @abstractmethod
    def verify(self, folder: Path, did: Did) -> None:
        """Raises `Failed` if, in a new mount, not everything is there."""
