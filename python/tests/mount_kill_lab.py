"""The lab of killed mounts: `kill -9` of a mounted file system under load, again and again.

A life: the file system is mounted, every file is compared with what its worker knows, then several
workers append, overwrite, replace and remove files, each with an fsync behind it, until the server
is killed at a random moment. `fsck` must find nothing, and what an fsync was answered for must be
there in the next life; of an operation under way, some or all or nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from file_server import detach
from kill_lab import Wrong, make_image
from mounted import LOGGED, Mount, entresol

WORKERS = 4
FILES = 6
"""Names of a worker."""
MOST = 20_000
"""Bytes of one write."""
LARGEST = 200_000
"""Bytes of a file from which it is replaced and not appended to."""
LARGE = (5 << 19, 3 << 20)
"""Bytes of some new files: so much in order goes to the device before its sync."""
LARGE_ONE_IN = 16
LONGEST = 0.4
"""Seconds of load before a kill, at most."""


@dataclass
class Worker:
    """One that changes files in a directory of its own, and what must be in them."""

    number: int
    directory: Path
    random: random.Random
    sure: dict[str, bytes] = field(default_factory=dict)
    """What an fsync was answered for."""
    under_way: tuple[str, str, bytes] | None = None
    """An operation that was not answered yet: what it does, to which file, with which bytes."""
    done: int = 0
    failed: BaseException | None = None

    def work(self) -> None:
        """Until the server is gone."""
        try:
            while True:
                self._step()
        except OSError:
            # Whoever is killed answers with one error or another.
            return
        except BaseException as error:
            self.failed = error

    def _step(self) -> None:
        name = f"file {self.random.randrange(FILES)}"
        data = self.random.randbytes(self.random.randrange(1, MOST))
        old = self.sure.get(name)
        kinds = ["replace"] if old is None or len(old) > LARGEST else ["append", "overwrite"]
        kind = self.random.choice([*kinds, "replace", "remove"] if old is not None else kinds)
        if kind == "overwrite" and old is not None:
            data = data[: max(1, len(old))]
        if kind == "replace" and self.random.randrange(LARGE_ONE_IN) == 0:
            data = self.random.randbytes(self.random.randrange(*LARGE))
        self.under_way = (kind, name, data)
        match kind:
            case "append":
                self._write(name, data, os.O_APPEND)
                self.sure[name] = (old or b"") + data
            case "overwrite":
                self._write(name, data, os.O_DSYNC if self.random.randrange(2) else 0)
                self.sure[name] = data + (old or b"")[len(data) :]
            case "replace":
                self._write("new", data, os.O_CREAT | os.O_TRUNC)
                (self.directory / "new").rename(self.directory / name)
                self._sync_directory()
                self.sure[name] = data
            case _:
                (self.directory / name).unlink()
                self._sync_directory()
                del self.sure[name]
        self.under_way = None
        self.done += 1

    def _write(self, name: str, data: bytes, flags: int) -> None:
        file = os.open(self.directory / name, os.O_WRONLY | flags, 0o644)
        try:
            written = 0
            while written < len(data):
                written += os.write(file, data[written:])
            if not flags & os.O_DSYNC:
                os.fsync(file)
        finally:
            os.close(file)

    def _sync_directory(self) -> None:
        directory = os.open(self.directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def check(self) -> None:
        """Looks for what was lost, and takes what is there for what is known from now on."""
        self.directory.mkdir(exist_ok=True)
        found = {path.name: path.read_bytes() for path in self.directory.iterdir()}
        found.pop("new", None)
        kind, changed, data = self.under_way or ("nothing", "", b"")
        for name in {*self.sure, *found}:
            old, new = self.sure.get(name), found.get(name)
            if old == new or (name == changed and is_between(kind, old, data, new)):
                continue
            raise Wrong(
                f"{self.directory / name}: {sizes(old)} were synced and {sizes(new)} are there; "
                f"under way: {kind} of {changed or 'no file'} with {sizes(data)}"
            )
        self.sure, self.under_way = found, None


def sizes(content: bytes | None) -> str:
    """What is said of contents."""
    return "no file" if content is None else f"{len(content):,} B ({content[:8].hex()}…)"


def is_between(kind: str, old: bytes | None, data: bytes, new: bytes | None) -> bool:
    """Whether a kill within an operation on a file may leave this."""
    match kind:
        case "append":
            whole = (old or b"") + data
            return new is not None and whole.startswith(new) and len(new) >= len(old or b"")
        case "overwrite":
            before = old or b""
            if new is None or len(new) != len(before):
                return False
            after = data + before[len(data) :]
            # Of each line of 64 bytes the old or the new.
            cuts = range(0, len(new), 64)
            return all(
                new[at : at + 64] in (before[at : at + 64], after[at : at + 64]) for at in cuts
            )
        case "replace":
            return new == data
        case "remove":
            return new is None
    return False


def life(image: Path, folder: Path, workers: Sequence[Worker], pause: float) -> None:
    """One mount, from what the last one left to its end."""
    mount = Mount(image, folder)
    try:
        for worker in workers:
            worker.check()
        threads = [threading.Thread(target=worker.work, daemon=True) for worker in workers]
        before = sum(worker.done for worker in workers)
        for thread in threads:
            thread.start()
        time.sleep(pause)
        # On a busy machine nothing may have been answered yet.
        deadline = time.monotonic() + 60
        while sum(worker.done for worker in workers) == before and time.monotonic() < deadline:
            time.sleep(0.01)
        mount.kill()
        for thread in threads:
            thread.join(60)
            if thread.is_alive():
                raise Wrong("a program that used the mount hangs after its server was killed")
    finally:
        mount.clean()
    for worker in workers:
        if worker.failed is not None:
            raise worker.failed
    told = entresol("fsck", image)
    if ": 0 problems" not in told:
        raise Wrong(f"fsck finds something: {told.strip()}")


def run(kills: int, seed: int, personality: str, place: Path) -> int:
    """So many lives; how many operations were answered."""
    image, folder = place / "image", place / "mount"
    folder.mkdir()
    has_log = personality in ("bytefs", "bytefs-log")
    sets = LOGGED if has_log else [key for key in LOGGED if not key.startswith("ssd.")]
    make_image(image, "bytefs" if has_log else "bytefs-cache", sets)
    entresol("mkfs", image, "--personality", personality)
    draw = random.Random(seed)
    workers = [
        Worker(number, folder / f"worker {number}", random.Random(f"{seed} {number}"))
        for number in range(WORKERS)
    ]
    try:
        for number in range(1, kills + 1):
            life(image, folder, workers, draw.random() * LONGEST)
            if number % 100 == 0:
                print(f"mount-killlab: {number:,} of {kills:,}", file=sys.stderr, flush=True)
        # What the last one left.
        mount = Mount(image, folder)
        for worker in workers:
            worker.check()
        mount.stop()
    finally:
        detach(folder)
    return sum(worker.done for worker in workers)


def main() -> int:
    """`make mount-killlab KILLS=N`."""
    parser = argparse.ArgumentParser(prog="scripts/mount-killlab", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--personality", default="bytefs")
    told = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="entresol-mount-killlab-"))
    try:
        done = run(told.kills, told.seed, told.personality, place)
    except (Wrong, AssertionError, subprocess.SubprocessError) as why:
        print(f"mount-killlab: {why}\nthe image is in {place}", file=sys.stderr)
        return 1
    shutil.rmtree(place)
    print(f"{told.kills:,} kills, {done:,} operations answered, nothing lost, fsck finds nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
