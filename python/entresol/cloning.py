"""Copies of images that share their bytes with the original where the host's file system can."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from entresol import core
from entresol.errors import Failed, UserError

FILES = ("media.bin", "dram.bin")
SNAPSHOTS = "snapshots"
"""Where an image has clones of itself: a directory in its own."""
_MADE = "made"
"""A file of a snapshot: the time when it was made. Its directory's changes with what is in it."""
_FICLONE = 0x40049409
"""The request of ioctl_ficlone(2), the same on all of Linux but alpha, mips, parisc, ppc, sparc."""
_PIECE = 1 << 20
_CANNOT = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS)


@dataclass(frozen=True)
class Cloned:
    """What was done."""

    shares: bool
    """Both have the same blocks of the host's disk until one of them is changed."""
    bytes: int
    """That were copied: holes are not, and nothing is of what is shared."""


def clone(image: Path, new: Path, *, made: float | None = None) -> Cloned:
    """Makes an image with what another holds, which nobody may be using meanwhile.

    Made under another name and renamed: there is a whole image or none. A snapshot keeps when it
    was `made`.
    """
    core.device_info(image)
    if new.exists() or new.is_symlink():
        raise UserError(f"{new}: is there already; name a place where nothing is.")
    unfinished = new.with_name(f".{new.name}.unfinished-{os.getpid()}")
    try:
        unfinished.mkdir()
        with _alone(image):
            copied = [_copy(image / name, unfinished / name) for name in FILES]
        if made is not None:
            (unfinished / _MADE).write_text(f"{made}\n")
        unfinished.rename(new)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise Failed(f"{new}: {error.strerror}.") from None
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    sizes = [size for size in copied if size is not None]
    return Cloned(shares=not sizes, bytes=sum(sizes))


@dataclass(frozen=True)
class Snapshot:
    """A clone that an image keeps of itself."""

    name: str
    image: Path
    """Where it is: an image as any other, to be cloned."""
    made: float
    """When, in seconds of the Unix epoch."""


def snapshot(image: Path, name: str) -> tuple[Path, Cloned]:
    """Clones an image to a place in its own directory, and says which."""
    if not name or name.startswith(".") or "/" in name:
        raise UserError(f"{name!r}: is no name of a snapshot; give one without a / or a dot ahead.")
    core.device_info(image)
    place = image / SNAPSHOTS
    try:
        place.mkdir(exist_ok=True)
        _remove_unfinished(place)
        return place / name, clone(image, place / name, made=time.time())
    except OSError as error:
        raise Failed(f"{place}: {error.strerror}.") from None
    finally:
        with suppress(OSError):  # Others are in it.
            place.rmdir()


def _remove_unfinished(place: Path) -> None:
    """Removes what copies have left that were killed: nobody goes on with them."""
    for left in place.glob(".*.unfinished-*"):
        number = left.name.rpartition("-")[2]
        if number.isdecimal() and not _lives(int(number)):
            shutil.rmtree(left, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # It is somebody else's.
        return True
    return True


def _made(snapshot: Path) -> float:
    """When it was made; of one that does not say, when its directory was changed."""
    try:
        return float((snapshot / _MADE).read_text())
    except (OSError, ValueError):
        return snapshot.stat().st_mtime


def snapshots(image: Path) -> list[Snapshot]:
    """Those of an image, the oldest first."""
    core.device_info(image)
    place = image / SNAPSHOTS
    names = [entry.name for entry in place.iterdir()] if place.is_dir() else []
    found = [
        Snapshot(name, place / name, _made(place / name))
        for name in names
        if not name.startswith(".")
    ]
    return sorted(found, key=lambda each: (each.made, each.name))


@contextmanager
def _alone(image: Path) -> Iterator[None]:
    """Holds the lock that a device has of its image: its two files are of one moment."""
    file = os.open(image / FILES[0], os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(
            f"{image}: is in use, so its files are of no one moment; end what uses it first."
        ) from None
    else:
        yield
    finally:
        os.close(file)


def _copy(source: Path, target: Path) -> int | None:
    """Bytes that were copied; none of a file whose blocks are shared."""
    with source.open("rb") as old, target.open("wb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            return _copy_data(old.fileno(), new.fileno())
    return None


def _copy_data(old: int, new: int) -> int:
    """Copies what is no hole."""
    end = os.fstat(old).st_size
    os.ftruncate(new, end)
    at = copied = 0
    while at < end:
        try:
            at = os.lseek(old, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # A hole up to the end.
                break
            raise
        hole = os.lseek(old, at, os.SEEK_HOLE)
        while at < hole:
            piece = os.pread(old, min(_PIECE, hole - at), at)
            if not piece:
                raise OSError(errno.EIO, "the file became shorter")
            # A full disk may take a part of it before it says so.
            written = os.pwrite(new, piece, at)
            at += written
            copied += written
    return copied
