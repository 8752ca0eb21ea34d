"""Files appear whole or not at all.

Everything is written into a hidden directory beside its destination and moved with rename, so that
an interrupted command leaves nothing behind. What a command leaves that is killed, the next one
removes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

from entresol.errors import Failed, UserError

PREFIX = ".entresol-"
FRESH_SECONDS = 60.0


class OutputDirectory:
    """A directory of results that fills in one step.

    Opening it proves that the directory can be written; `commit` moves the files into it; leaving
    the `with` block without a commit removes every trace of it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: list[str] = []
        self._staging = _make_staging(path)

    def __enter__(self) -> OutputDirectory:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._staging.remove()
        _explain(self.path, error)

    def file(self, name: str) -> Path:
        """Where to write the file of this name."""
        self._files.append(name)
        return self._staging.path / name

    def commit(self) -> None:
        """Moves all files to their place, each whole."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in self._files:
                (self._staging.path / name).replace(self.path / name)
        except OSError as error:
            raise UserError(f"{self.path}: cannot write the results: {error.strerror}.") from error


def _explain(path: Path, error: BaseException | None) -> None:
    """Raises `Failed` for a disk that is full: the errors of a write name no file."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        why = os.strerror(error.errno)
        raise Failed(
            f"{path}: cannot be written: {why}; nothing of it was, so repeat the command when "
            "there is room."
        ) from error


def _make_staging(path: Path) -> _Staging:
    place = path
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise UserError(f"{place}: is not a directory, so no results can be written there.")
    try:
        _remove_litter(place)
        return _Staging(Path(tempfile.mkdtemp(prefix=PREFIX, dir=place)))
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}.") from error


class _Staging:
    """A hidden directory, locked while its process lives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = _lock(path)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)


def _remove_litter(place: Path) -> None:
    """Removes what commands left that were killed, which nobody holds a lock on."""
    for path in place.glob(f"{PREFIX}*"):
        try:
            if time.time() - path.stat().st_mtime < FRESH_SECONDS:
                continue  # Perhaps about to be locked.
        except OSError:
            continue  # Its owner has just removed it.
        if (lock := _lock(path)) is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _lock(path: Path) -> int | None:
    """A lock that ends with this process; none if another has it, or there are no locks here."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


class OutputFile:
    """A single file with the same promise, for a program that writes it by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir():
            raise UserError(f"{path}: is a directory; choose another name.")
        parent = path.parent
        if not parent.is_dir():
            raise UserError(f"{parent}: no such directory.")
        self._staging = _make_staging(parent)
        self.temporary = self._staging.path / "capture.etr"

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._staging.remove()
        _explain(self.path, error)

    def commit(self) -> None:
        """Gives the file, or the directory that was made in its place, its name."""
        try:
            self.temporary.replace(self.path)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror}.") from error
