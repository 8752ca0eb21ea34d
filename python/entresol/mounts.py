"""Mounted file systems of ours, as who uses them finds them: `.entresol` in the root of each."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entresol.core import Json
from entresol.errors import Failed, UserError

FOLDER = ".entresol"
SHOWN = 64
"""Characters that a server keeps of a value that it has refused."""
DIRECTORY = "the directory of a mount"
KILLED = "its server was killed; mount the image there anew, or take the mount away with umount."


@dataclass(frozen=True)
class FileSystem:
    """One that is mounted."""

    root: Path

    def stats(self) -> Json:
        """What it and its device have done."""
        return _read(self.root / FOLDER / "stats")

    def dax(self) -> Json:
        """What is in persistent memory, and why. Raises `UserError` if it was mounted without."""
        path = self.root / FOLDER / "dax"
        try:
            value: Any = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise Failed(f"{path}: {error.strerror}.") from None
        if value is None:
            raise UserError(f"{self.root}: dax is off; mount it with -o dax=auto.")
        assert isinstance(value, dict), "the server promises an object"
        return value

    def set_dax(self, words: Sequence[str]) -> None:
        """Changes settings, `key=value` each. Raises `UserError` if one is refused."""
        file = os.open(self.root / FOLDER / "dax", os.O_RDWR)
        try:
            os.write(file, " ".join(words).encode())
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise Failed(f"{self.root}: {error.strerror}.") from None
            why = os.pread(file, 4096, 0).decode()
            raise UserError(f"{why}.") from None
        finally:
            os.close(file)

    def refusal(self, number: int, value: str) -> str | None:
        """Why a value of an inode's attribute was refused. A mount without dax keeps no reason."""
        try:
            refused = self.dax()["refused"]
        except UserError:
            return "neither all nor ranges of bytes as in 0-2MiB,8MiB-10MiB"
        shown = value if len(value) <= SHOWN else f"{value[:SHOWN]}…"
        # Moves of the file's ranges that failed meanwhile are in the list too.
        mine = [
            each["why"] for each in refused if (each["inode"], each["asked"]) == (number, shown)
        ]
        return str(mine[-1]) if mine else None

    def map(self, number: int) -> Json:
        """Where an inode's bytes are."""
        return _read(self.root / FOLDER / "map" / str(number))

    def told_sync(self, number: int) -> tuple[Json, int]:
        """Has an inode survive a power cut; what the server says of that, and the nanoseconds that
        the system call took."""
        file = os.open(self.root / FOLDER / "fsync" / str(number), os.O_RDONLY)
        try:
            begun = time.perf_counter_ns()
            os.fsync(file)
            took = time.perf_counter_ns() - begun
            told: Any = json.loads(os.read(file, 4096))
        except OSError as error:
            raise Failed(f"{self.root}: inode {number}: {error.strerror}.") from None
        finally:
            os.close(file)
        assert isinstance(told, dict), "the server promises an object"
        return told, took

    def sync(self) -> None:
        """Has everything survive a power cut."""
        file = os.open(self.root / FOLDER / "sync", os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def is_dead(path: Path) -> bool:
    """Whether a killed server left a mount here."""
    # Not its attributes: the kernel keeps them longer than a server lives.
    try:
        os.statvfs(path)
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


def at(path: Path) -> FileSystem:
    """The file system that is mounted at a directory. Raises `UserError` if none of ours is."""
    found = FileSystem(path)
    if not path.is_mount() or not (path / FOLDER / "stats").is_file():
        raise UserError(f"{path}: no file system of Entresol is mounted there; name its directory.")
    return found


def around(path: Path) -> FileSystem:
    """The file system that a file is in. Raises `UserError` if it is none of ours, or has no
    server any more."""
    if is_dead(path):
        raise UserError(f"{path}: {KILLED}")
    for parent in (path, *path.parents):
        if parent.is_mount():
            if (parent / FOLDER / "stats").is_file():
                return FileSystem(parent)
            break
    raise UserError(f"{path}: is in no mounted file system of Entresol; name a file in one.")


def absolute(named: Path, wanted: str = "a file of a mount") -> Path:
    """A path without links in the directories that lead to it; its last part may be one. Raises
    `UserError` if it is not there, which says what is `wanted`."""
    whole = Path(os.path.abspath(named))  # noqa: PTH100 -- `absolute` keeps `..`.
    try:
        found = whole.parent.resolve(strict=True) / whole.name
        found.lstat()
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            raise UserError(f"{named}: {KILLED}") from None
        raise UserError(f"{named}: {error.strerror}; name {wanted}.") from None
    return found


def _read(path: Path) -> Json:
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}.") from None
    assert isinstance(value, dict), "the server promises an object"
    return value


class Busy(UserError):
    """Somebody has a file of the mount open."""


def unmount(place: Path, *, lazy: bool) -> None:
    """Takes a mount away, as the user who has made it; `Busy` if it is in use."""
    if os.geteuid() == 0:
        words = ["umount", *(["-l"] if lazy else []), "--", str(place)]
    else:
        if shutil.which("fusermount3") is None:
            raise Failed(f"{place}: only root unmounts without fusermount3; install fuse3.")
        words = ["fusermount3", "-u", *(["-z"] if lazy else []), "--", str(place)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    if "busy" in done.stderr.lower():
        raise Busy(f"{place}: is in use; close what is open in it, or give --lazy.")
    raise Failed(f"{place}: cannot be unmounted: {done.stderr.strip()}")
