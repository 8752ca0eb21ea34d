"""The drive below a database: an image with a file system, copies of it, and mounts of those."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from entresol import cloning, core, mounts
from entresol.__main__ import entry
from entresol.core import Json
from entresol.errors import Failed, UserError
from entresol.mounts import Busy, unmount

PRESET, PERSONALITY = "consumer-tlc", "ext4-like"
SIZE = "nand.blocks_per_plane=72"
"""4 GiB: the preset's dies and times, and room for the largest of the databases."""
PMEM = "64MiB"
FREE = 6 << 30
"""Bytes that images and their copies may take, with some to spare."""
PATIENCE = 120.0
LOOKUPS = 501
ATTRIBUTE = "user.entresol.dax"


def require(work: Path, room: int = FREE) -> None:
    """Raises `UserError` where nothing can be mounted, or nothing be kept."""
    if not Path("/dev/fuse").exists():
        raise UserError("/dev/fuse is not there: databases need a mount; see entresol doctor.")
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        raise UserError("fusermount3 is not there: others than root mount with it; install fuse3.")
    free = shutil.disk_usage(work).free
    if free < room:
        raise UserError(
            f"{work}: has {free >> 20} MiB free, and copies of drives take up to {room >> 20} MiB; "
            "make room, or name another directory with --work."
        )


def make(image: Path, flush: str) -> None:
    """Makes a drive with persistent memory, whose flush costs so much, and a file system on it."""
    settings = (SIZE, f"device.pmem={PMEM}", f"ssd.flush_cost={flush}")
    core.device_create(image, PRESET, (), settings)
    make_file_system(image, PERSONALITY)


def make_file_system(image: Path, personality: str) -> None:
    """Makes an empty one on a drive."""
    core.fs_make(image, {
        "personality": personality, "inodes": 65_536, "uuid": uuid.uuid4().hex,
        "now_ns": time.time_ns(), "uid": os.getuid(), "gid": os.getgid(), "force": False,
    })  # fmt: skip


def ask_for(path: Path) -> None:
    """Asks for a file to be in the drive's persistent memory, unless it was asked for."""
    try:
        os.getxattr(path, ATTRIBUTE)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        os.setxattr(path, ATTRIBUTE, b"all")


def look_at(path: Path) -> None:
    """Looks whether a file was asked for, as `ask_for`, and asks for nothing: what is compared with
    a run that asks for its files has as many requests of that kind beside it."""
    try:
        os.getxattr(path, ATTRIBUTE)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise


@dataclass(frozen=True)
class Mounted:
    """A file system of ours, and the process that serves it."""

    folder: Path
    server: ForkServerProcess

    def stats(self) -> Json:
        """What it and its device have done."""
        return mounts.at(self.folder).stats()

    def kill(self) -> None:
        """Ends the server as a power cut would. The mount stays, and answers errors."""
        self.server.kill()
        self.server.join(PATIENCE)

    def fuse_ns(self) -> int:
        """What FUSE takes of an operation: of lookups of names that are not there, one of the
        quicker ones, for what else a machine does only adds."""
        spans = []
        for number in range(LOOKUPS):
            path = str(self.folder / f"none-{number}")
            begun = time.perf_counter_ns()
            os.path.lexists(path)
            spans.append(time.perf_counter_ns() - begun)
        return sorted(spans)[LOOKUPS // 10]

    def mark(self, name: str) -> None:
        """Looks up a name that is not there: a recording then says when that was."""
        (self.folder / name).exists()


@contextmanager
def mounted(
    image: Path, folder: Path, dax: str, *, is_paced: bool, record: Path | None = None
) -> Iterator[Mounted]:
    """Mounts an image; unmounts it at the end, also if its server was killed."""
    folder.mkdir(exist_ok=True)
    options = [dax, *(["allow_other"] if os.geteuid() == 0 else [])]
    words: list[str | Path] = ["mount", image, folder, "--pace", "real" if is_paced else "none"]
    words += ["-o", ",".join(options)]
    if record is not None:
        words += ["--record", record]
    log = image.with_suffix(".log")
    log.write_bytes(b"")
    _SERVERS.set_forkserver_preload(["entresol.cli.main", "entresol.cli.mount"])
    ours, theirs = _SERVERS.Pipe(duplex=False)
    server = _SERVERS.Process(target=_serve, args=([str(word) for word in words], log, theirs))
    server.start()
    theirs.close()
    with os.fdopen(os.dup(ours.fileno())) as says:
        ours.close()
        if not says.readline():  # It says where it has mounted.
            server.join(PATIENCE)
            said = log.read_text(errors="replace").strip().removeprefix("entresol: ")
            raise Failed(said or f"{folder}: cannot be mounted.")
        try:
            yield Mounted(folder, server)
        finally:
            _end(folder, server)


_SERVERS = multiprocessing.get_context("forkserver")
"""Where servers come from: a process that has loaded the command once. To load it for each of some
hundred mounts would be a seventh of the bench."""


def _serve(words: list[str], log: Path, says: Connection) -> None:
    """The command with these words, as a shell would run it."""
    os.dup2(says.fileno(), sys.stdout.fileno())
    with log.open("wb") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    says.close()
    sys.argv = ["entresol", *words]
    entry()


def _end(folder: Path, server: ForkServerProcess) -> None:
    """Takes a mount away whatever its state is."""
    deadline = time.monotonic() + PATIENCE / 2
    while True:
        try:
            unmount(folder, lazy=not server.is_alive() or time.monotonic() > deadline)
            break
        except Busy:  # A process of a database may still end.
            time.sleep(0.05)
    server.join(PATIENCE)
    if server.is_alive():
        server.kill()
        server.join(PATIENCE)


def copy(image: Path, to: Path) -> None:
    """A copy that a run may change."""
    shutil.rmtree(to, ignore_errors=True)
    cloning.clone(image, to)
