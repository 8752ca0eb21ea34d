"""Files appear whole or not at all, power cuts included.

Each is written under a temporary name, synced, and renamed. `write` does so with content at hand;
`OutputFile` and `OutputDirectory` with what a program writes by name. What a killed command leaves
is hidden, and the next one removes it.
"""

from __future__ import annotations

import atexit
import errno
import os
import shutil
import time
import uuid
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from entresol import locks
from entresol.errors import Failed, UserError

PREFIX = ".entresol-"
TEMPORARY = ".new-"
"""How the names of files begin that `write` has not finished."""
LOCK = ".lock"
FRESH_SECONDS = 60.0


def write(path: Path, content: bytes) -> None:
    """Writes a file, in the place of the one that is there. Raises `OSError`; then nothing has
    changed."""
    temporary = path.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")
    try:
        create(temporary, content)
        move(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def create(path: Path, content: bytes) -> None:
    """Writes a file that must not be there, and syncs it. Raises `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def move(written: Path, path: Path) -> None:
    """Gives what is written and synced its name, in the place of what has it. Raises `OSError`."""
    written.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Brings a file or a directory to the disk. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class OutputDirectory:
    """A directory of results that fills in one step.

    Opening it proves that the directory can be written; `commit` moves the files into it; leaving
    the `with` block without a commit removes every trace of it. Raises `UserError` for a place that
    cannot be written, `Failed` for a disk that is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: list[str] = []
        self._staging = _Staging(path)

    def __enter__(self) -> OutputDirectory:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._staging.remove()
        _explain(self.path, error)

    def file(self, name: str) -> Path:
        """Where to write the file of this name."""
        self._files.append(name)
        return self._staging.path / name

    def write(self, name: str, text: str) -> None:
        """Writes a file of text."""
        self.file(name).write_text(text, encoding="utf-8")

    def commit(self) -> None:
        """Moves all files to their place, each whole."""
        for name in self._files:
            sync(self._staging.path / name)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in self._files:
                (self._staging.path / name).replace(self.path / name)
            sync(self.path)
        except OSError as error:
            raise UserError(f"{self.path}: cannot write the results: {error.strerror}.") from error


class OutputFile:
    """A single file with the same promise, for a program that writes it by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir():
            raise UserError(f"{path}: is a directory; choose another name.")
        parent = path.parent
        if not parent.is_dir():
            raise UserError(f"{parent}: no such directory.")
        self._staging = _Staging(parent)
        self.temporary = self._staging.path / "capture.etr"

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._staging.remove()
        _explain(self.path, error)

    def commit(self) -> None:
        """Gives the file, or the directory that was made in its place, its name."""
        sync(self.temporary)
        try:
            move(self.temporary, self.path)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror}.") from error


def _explain(path: Path, error: BaseException | None) -> None:
    """Raises `Failed` for a disk that is full: the errors of a write name no file."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        why = os.strerror(error.errno)
        raise Failed(
            f"{path}: cannot be written: {why}; nothing of it was, so repeat the command when "
            "there is room."
        ) from error


class _Staging:
    """A hidden directory beside a destination, locked while its process lives."""

    def __init__(self, destination: Path) -> None:
        place = destination
        while not place.exists() and place != place.parent:
            place = place.parent
        if not place.is_dir():
            raise UserError(f"{place}: is not a directory, so no results can be written there.")
        self._held = ExitStack()
        try:
            _remove_litter(place)
            self.path = place / f"{PREFIX}{uuid.uuid4().hex}"
            # Before it is there: an interruption between the two leaves nothing either.
            self._at_exit = atexit.register(partial(_remove_own, self.path, os.getpid()))
            self.path.mkdir(mode=0o700)
            self._held.enter_context(locks.alone_now(self.path / LOCK))
        except OSError as error:
            raise UserError(f"{destination}: cannot be written: {error.strerror}.") from error

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._held.close()
        atexit.unregister(self._at_exit)


def _remove_own(path: Path, process: int) -> None:
    """Removes a directory, unless this is a fork of the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


def _remove_litter(place: Path) -> None:
    """Removes what commands left that were killed, which nobody holds a lock on."""
    for path in place.glob(f"{PREFIX}*"):
        try:
            if time.time() - path.stat().st_mtime < FRESH_SECONDS:
                continue  # Perhaps about to be locked.
        except OSError:
            continue  # Its owner has just removed it.
        with locks.alone_now(path / LOCK) as is_alone:
            if is_alone:
                shutil.rmtree(path, ignore_errors=True)
