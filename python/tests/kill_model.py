"""What may stand in the blocks of a device whose server was killed.

Each block carries its number, the number of the write and the seed of the lab, and bytes that
follow from them: a block that is torn, misplaced or from another life is seen. Writes of one block
never overlap in time, so its versions are in order.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

HEAD = struct.Struct(">QQQ")


@dataclass
class Block:
    """Versions of a block; 0 is what was never written."""

    certain: int = 0
    """The newest that must not be lost."""
    answered: int = 0
    """The newest whose write was answered; what a read sees while the server lives."""
    sent: list[int] = field(default_factory=list)
    """All newer than `certain`, in order: a kill may leave any of them."""


@dataclass
class Tally:
    """What a lab saw."""

    checked: int = 0
    in_doubt: int = 0
    """Checked blocks with a write that nobody had promised."""
    kept: int = 0
    """Of those in doubt: the newest version was there."""


class Model:
    """What was written to a device, what was promised, and what was found."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.seed = seed
        self.version = 0
        self.tally = Tally()
        self._blocks: dict[int, Block] = {}
        self._zeroes = {0}

    def _block(self, number: int) -> Block:
        return self._blocks.setdefault(number, Block())

    def write(self, blocks: Iterable[int], *, zeroes: bool) -> int:
        """A write is about to be sent; the number of its version."""
        self.version += 1
        if zeroes:
            self._zeroes.add(self.version)
        for number in blocks:
            self._block(number).sent.append(self.version)
        return self.version

    def answered(self, blocks: Iterable[int], version: int, *, durable: bool) -> None:
        """A write was answered; whether the device may still lose it."""
        for number in blocks:
            self._block(number).answered = version
            if durable:
                self._promise(number, version)

    def pending(self) -> dict[int, int]:
        """What a flush that is sent now promises once it is answered."""
        dirty = self._blocks.items()
        return {n: block.answered for n, block in dirty if block.answered > block.certain}

    def flushed(self, promised: dict[int, int]) -> None:
        """A flush was answered."""
        for number, version in promised.items():
            self._promise(number, version)

    def _promise(self, number: int, version: int) -> None:
        block = self._block(number)
        block.certain = max(block.certain, version)
        block.sent = [sent for sent in block.sent if sent > block.certain]

    def content(self, number: int, version: int) -> bytes:
        """The bytes of a version of a block."""
        if version in self._zeroes:
            return bytes(self.size)
        head = HEAD.pack(number, version, self.seed)
        return head + hashlib.shake_128(head).digest(self.size - HEAD.size)

    def read(self, number: int, data: bytes) -> str | None:
        """What is wrong with a block read from a living server, nothing of it being under way."""
        block = self._block(number)
        if data == self.content(number, block.answered):
            return None
        return f"{self._is(number, data)}; the last write answered is version {block.answered}"

    def found(self, number: int, data: bytes) -> str | None:
        """Takes a block as a new server shows it after a kill. What is wrong with it, if so."""
        block = self._block(number)
        self.tally.checked += 1
        self.tally.in_doubt += bool(block.sent)
        for version in (*reversed(block.sent), block.certain):
            if data == self.content(number, version):
                self.tally.kept += bool(block.sent) and version == block.sent[-1]
                self._blocks[number] = Block(version, version)
                return None
        promised = f"version {block.certain} was promised"
        newest = block.sent[-1] if block.sent else block.certain
        return f"{self._is(number, data)}; {promised}, {newest} was the last sent"

    def _is(self, number: int, data: bytes) -> str:
        """What some bytes are, as far as one can tell."""
        if data == bytes(self.size):
            return f"block {number} is zeroes"
        where, version, seed = HEAD.unpack_from(data)
        if seed != self.seed or version > self.version:
            return f"block {number} is nothing that was written"
        if data != self.content(where, version):
            return f"block {number} is torn: it starts as version {version} of block {where}"
        return f"block {number} is version {version} of block {where}"

    def numbers(self) -> list[int]:
        """Every block that was written to."""
        return sorted(self._blocks)
