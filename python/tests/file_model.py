"""A file and what it must hold: random operations on both, as fsx does, through every door at once.

`python file_model.py FILE SEED OPERATIONS` runs it by hand.
"""

from __future__ import annotations

import mmap
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

from mounted import KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE, fallocate

MOST = 300_000
"""Bytes of the file, at most."""


class FileModel:
    """One file, open buffered, direct and mapped."""

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._random = random.Random(seed)
        self._bytes = bytearray()
        self._last = "nothing"
        self._open()

    def _open(self) -> None:
        self._plain = os.open(self._path, os.O_RDWR | os.O_CREAT)
        self._direct = os.open(self._path, os.O_RDWR | os.O_DIRECT)

    def close(self) -> None:
        """Lets go of the file."""
        os.close(self._plain)
        os.close(self._direct)

    def run(self, operations: int) -> None:
        """So many operations, and a look at everything at the end."""
        acts: list[tuple[int, Callable[[], None]]] = [
            (30, self._write),
            (30, self._read),
            (8, self._write_mapped),
            (6, self._read_mapped),
            (6, self._truncate),
            (8, self._clear),
            (3, self._allocate),
            (4, self._copy),
            (4, self._sync),
            (1, self._reopen),
        ]
        weights, calls = zip(*acts, strict=True)
        for number in range(operations):
            (act,) = self._random.choices(calls, weights)
            act()
            size = os.fstat(self._plain).st_size
            assert size == len(self._bytes), (number, self._last, size, len(self._bytes))
        self.check(self._path.read_bytes(), 0, len(self._bytes))

    def check(self, found: bytes, at: int, size: int) -> None:
        """What was read is what must be there."""
        expected = self._bytes[at : at + size]
        if found != expected:
            wrong = next(
                (n for n, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b),
                min(len(found), len(expected)),
            )
            raise AssertionError(
                f"byte {at + wrong} of {len(self._bytes)} after {self._last}: "
                f"{found[wrong : wrong + 8]!r}, not {bytes(expected[wrong : wrong + 8])!r}"
            )

    def _range(self) -> tuple[int, int]:
        """Lines, blocks or neither, short and long, often where others were."""
        unit = self._random.choice((1, 1, 64, 512, 4096))
        most = self._random.choice((1, 4, 16)) * unit + self._random.randrange(unit)
        at = self._random.randrange(self._random.choice((5_000, 40_000, MOST))) // unit * unit
        return at, min(max(1, self._random.randrange(most + 1)), MOST - at)

    def _door(self) -> tuple[str, int]:
        return self._random.choice((("buffered", self._plain), ("direct", self._direct)))

    def _put(self, data: bytes, at: int) -> None:
        self._bytes.extend(bytes(max(0, at + len(data) - len(self._bytes))))
        self._bytes[at : at + len(data)] = data

    def _write(self) -> None:
        at, size = self._range()
        name, fd = self._door()
        self._last = f"a {name} write of {size} at {at}"
        data = self._random.randbytes(size)
        assert os.pwrite(fd, data, at) == size, self._last
        self._put(data, at)

    def _read(self) -> None:
        at, size = self._range()
        _, fd = self._door()
        self.check(os.pread(fd, size, at), at, size)

    def _write_mapped(self) -> None:
        if not self._bytes:
            return
        at, size = self._range()
        at = min(at, len(self._bytes) - 1)
        size = min(size, len(self._bytes) - at)
        self._last = f"a store of {size} at {at}"
        data = self._random.randbytes(size)
        with mmap.mmap(self._plain, len(self._bytes)) as memory:
            memory[at : at + size] = data
            if self._random.random() < 0.5:
                memory.flush()
        self._put(data, at)

    def _read_mapped(self) -> None:
        if not self._bytes:
            return
        at, size = self._range()
        with mmap.mmap(self._plain, len(self._bytes), prot=mmap.PROT_READ) as memory:
            self.check(memory[at : at + size], at, size)

    def _truncate(self) -> None:
        size = self._random.randrange(self._random.choice((5_000, 40_000, MOST)))
        self._last = f"a truncation to {size}"
        os.ftruncate(self._plain, size)
        self._bytes = self._bytes[:size] + bytes(max(0, size - len(self._bytes)))

    def _clear(self) -> None:
        at, size = self._range()
        mode = self._random.choice((PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE, ZERO_RANGE | KEEP_SIZE))
        self._last = f"fallocate of mode {mode} of {size} at {at}"
        fallocate(self._plain, mode, at, size)
        if mode == ZERO_RANGE:
            self._put(bytes(size), at)
        else:
            size = max(0, min(size, len(self._bytes) - at))
            self._bytes[at : at + size] = bytes(size)

    def _allocate(self) -> None:
        at, size = self._range()
        mode = self._random.choice((0, KEEP_SIZE))
        self._last = f"fallocate of mode {mode} of {size} at {at}"
        fallocate(self._plain, mode, at, size)
        if mode == 0:
            self._bytes.extend(bytes(max(0, at + size - len(self._bytes))))

    def _copy(self) -> None:
        (source, size), (target, _) = self._range(), self._range()
        size = min(size, len(self._bytes) - source, MOST - target)
        if size <= 0 or abs(source - target) < size:
            return
        self._last = f"a copy of {size} from {source} to {target}"
        assert os.copy_file_range(self._plain, self._plain, size, source, target) == size
        self._put(bytes(self._bytes[source : source + size]), target)

    def _sync(self) -> None:
        _, fd = self._door()
        self._random.choice((os.fsync, os.fdatasync))(fd)

    def _reopen(self) -> None:
        self.close()
        self._open()


if __name__ == "__main__":
    model = FileModel(Path(sys.argv[1]), int(sys.argv[2]))
    model.run(int(sys.argv[3]))
    model.close()
