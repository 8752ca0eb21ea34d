"""Files appear whole or not at all.

Everything is written into a hidden directory beside its destination and moved with rename, so that
an interrupted command leaves nothing behind.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from entresol.errors import UserError


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

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._staging, ignore_errors=True)

    def file(self, name: str) -> Path:
        """Where to write the file of this name."""
        self._files.append(name)
        return self._staging / name

    def commit(self) -> None:
        """Moves all files to their place, each whole."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in self._files:
                (self._staging / name).replace(self.path / name)
        except OSError as error:
            raise UserError(f"{self.path}: cannot write the results: {error.strerror}.") from error


def _make_staging(path: Path) -> Path:
    place = path
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise UserError(f"{place}: is not a directory, so no results can be written there.")
    try:
        return Path(tempfile.mkdtemp(prefix=".entresol-", dir=place))
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}.") from error


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
        self.temporary = self._staging / "capture.etr"

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._staging, ignore_errors=True)

    def commit(self) -> None:
        """Gives the file, or the directory that was made in its place, its name."""
        try:
            self.temporary.replace(self.path)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror}.") from error
