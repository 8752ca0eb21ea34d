"""Memory that the machine has to give, and runs that take it beside each other."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from entresol.errors import UserError

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
GIB = 1 << 30


def available() -> int | None:
    """Bytes that a program can have without others being swapped out; none if nobody tells."""
    found = re.search(r"^MemAvailable: +(\d+) kB$", _text(MEMINFO), re.MULTILINE)
    room = [] if found is None else [int(found[1]) * 1024]
    most, used = _text(CGROUP / "memory.max"), _text(CGROUP / "memory.current")
    if most.strip().isdecimal() and used.strip().isdecimal():
        room.append(max(int(most) - int(used), 0))
    return min(room, default=None)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def require(needed: int, what: str, room: int | None) -> None:
    """Raises `UserError` if so much memory is not there."""
    if room is not None and needed > room:
        raise UserError(
            f"{what} needs about {needed / GIB:.1f} GiB of memory and this machine has "
            f"{room / GIB:.1f} to give: choose a smaller scale, or a machine with more."
        )


class Budget:
    """Memory that runs share: each begins when there is room for it, or when it is alone."""

    def __init__(self, room: int | None) -> None:
        self._room = room
        self._taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, needed: int) -> Iterator[None]:
        """Waits until there is room, and has it until it ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._fits(needed))
            self._taken += needed
        try:
            yield
        finally:
            with self._changed:
                self._taken -= needed
                self._changed.notify_all()

    def _fits(self, needed: int) -> bool:
        return self._room is None or self._taken == 0 or self._taken + needed <= self._room
