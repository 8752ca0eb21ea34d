"""What the bench asks of a database, and how its programs are run."""

from __future__ import annotations

import os
import pwd
import resource
import shutil
import socket
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from entresol.databases.cases import Case
from entresol.databases.parsing import Ran
from entresol.errors import Failed, UserError

SET_UP = "run scripts/setup databases"
LONGEST = 900.0
"""Seconds that a program may take."""
START = 60.0
ENDS = 20.0
STRIKE_AFTER = 1.0
"""Seconds of work before the server of the mount is killed."""

Mark = Callable[[str], None]
Ask = Callable[[Path], None]
"""Asks for a file of a log to be in persistent memory, if the run is of type `explicit`."""
BEGIN, END = "entresol-bench-begins", "entresol-bench-ends"
"""The names that are looked up where what is measured begins and ends."""


def nothing(path: Path) -> None:
    """Asks for nothing."""
    del path


class Database(ABC):
    """One that runs on a mount, with its own tool for benchmarks."""

    name: str
    prepares = False
    """Whether runs begin with something else than an empty file system."""

    def __init__(self, work: Path) -> None:
        """`work` is for what is not on the mount."""
        self.work = work

    @abstractmethod
    def require(self) -> None:
        """Raises `UserError` if a program is not there."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Of the server and of the tool."""

    def prepare(self, folder: Path, cases: Sequence[Case]) -> None:
        """Makes what all runs begin with, in an empty file system: nothing, mostly."""
        del folder, cases

    @abstractmethod
    def run(self, folder: Path, case: Case, mark: Mark, ask: Ask) -> tuple[Ran, object]:
        """Starts it, measures, and ends it; what is to be found again."""

    @abstractmethod
    def verify(self, folder: Path, case: Case, ran: Ran, evidence: object) -> None:
        """Raises `Failed` if, in a new mount, not everything is there."""

    @abstractmethod
    def strike(self, folder: Path, case: Case, kill: Callable[[], None], ask: Ask) -> int:
        """Writes until the mount's server is killed; how many writes were answered."""

    @abstractmethod
    def survived(self, folder: Path, case: Case, answered: int) -> int:
        """Raises `Failed` if an answered write is not there; how many writes are."""


def program(name: str, package: str) -> str:
    """Where a program is."""
    found = shutil.which(name)
    if found is None:
        raise UserError(f"{name} is not there: it is in {package}; {SET_UP}.")
    return found


def output(words: Sequence[str | Path], *, user: str | None = None, mixed: bool = False) -> str:
    """What a program that must succeed writes; with `mixed` also to stderr."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False,
        errors="replace", timeout=LONGEST, cwd="/", **as_user(user),
    )  # fmt: skip
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        raise Failed(f"{Path(words[0]).name}: exit code {done.returncode}: {said}")
    return done.stdout + (done.stderr if mixed else "")


class ChildWatch:
    """What programs take of a processor that end meanwhile."""

    def __init__(self) -> None:
        self._before = _children()

    def seconds(self) -> float:
        """Since the beginning."""
        return _children() - self._before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def last_words(log: Path) -> str:
    """The end of what a server wrote: the file goes when the bench ends."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return " ".join(text.split())[-300:] or "nothing"


def as_user(user: str | None) -> dict[str, Any]:
    """For a process of somebody else."""
    if user is None:
        return {}
    entry = pwd.getpwnam(user)
    environment = os.environ | {"HOME": "/", "LC_ALL": "C"}
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [], "env": environment}


def free_port() -> int:
    """A port of this machine at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def later(work: Callable[[], None]) -> threading.Timer:
    """Does it after some seconds of a database's work."""
    timer = threading.Timer(STRIKE_AFTER, work)
    timer.start()
    return timer


def end(process: subprocess.Popen[bytes], number: int) -> None:
    """Ends a server with a signal, and with force if that does not."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        process.wait(ENDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(ENDS)
