"""A device that another process serves (`entresol device serve --shm`), through shared memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from operator import index
from pathlib import Path
from types import TracebackType
from typing import SupportsIndex

from entresol import core
from entresol.core import DeviceError, Json

Bytes = bytes | bytearray | memoryview
"""What holds bytes."""

NO_TRANSACTION = 0
"""The name under which what is written is committed at once."""


@dataclass(frozen=True)
class Shape:
    """What a device is."""

    capacity: int
    """Bytes of the logical space."""
    block: int
    """Bytes of a block: the unit of the block port and of `trim`."""
    has_transactions: bool


@dataclass(frozen=True)
class Completion:
    """When something was done, in picoseconds on the device's clock."""

    submitted_ps: int
    finished_ps: int

    @property
    def took_ps(self) -> int:
        """From being asked to the host's knowing."""
        return self.finished_ps - self.submitted_ps


@dataclass(frozen=True)
class Ended:
    """The end of a transaction."""

    completion: Completion
    parts: int
    """1 if it was all or nothing; else it did not fit into the log, and each part was."""


class Device:
    """A connection to a device. Several threads may use it; a call lets others run while it waits.

    Every method raises `DeviceError` with a sentence if the device refuses, if its server has gone,
    or if this process is a fork of the one that connected: each process connects by itself.
    """

    def __init__(self, shared: core.SharedDevice) -> None:
        self._shared = shared

    @property
    def shape(self) -> Shape:
        """What the device is."""
        return Shape(*self._shared.shape())

    def read(self, at: int, size: int) -> bytes:
        """Byte port: the newest bytes that any port wrote; zeroes where nothing was."""
        return self._shared.read(_whole("offset", at), _whole("size", size), False)

    def read_into(self, at: int, buffer: Bytes) -> Completion:
        """As `read`, into memory that is there: a bytearray, a memoryview of bytes."""
        return Completion(
            *self._shared.read_into(_whole("offset", at), _view("buffer", buffer), False)
        )

    def write(self, at: int, data: Bytes, tx: int = NO_TRANSACTION) -> Completion:
        """Byte port: posted; survives a power cut after `persist`, and of a transaction after its
        commit."""
        return Completion(*self._shared.write(_whole("offset", at), _view("data", data), _tx(tx)))

    def persist(self) -> Completion:
        """Byte port: waits until all writes answered before survive a power cut."""
        return Completion(*self._shared.persist())

    def read_blocks(self, at: int, size: int) -> bytes:
        """Block port: whole blocks."""
        return self._shared.read(_whole("offset", at), _whole("size", size), True)

    def read_blocks_into(self, at: int, buffer: Bytes) -> Completion:
        """As `read_blocks`, into memory that is there."""
        return Completion(
            *self._shared.read_into(_whole("offset", at), _view("buffer", buffer), True)
        )

    def write_blocks(self, at: int, data: Bytes, *, durable: bool = False) -> Completion:
        """Block port: whole blocks, each atomic; `durable` answers when they survive a power cut
        (FUA)."""
        if not isinstance(durable, bool):
            raise DeviceError(f"durable {durable!r}: {_kind(durable)} is not true or false")
        data = _view("data", data)
        return Completion(*self._shared.write_blocks(_whole("offset", at), data, durable))

    def trim(self, at: int, size: int) -> Completion:
        """Block port: forgets whole blocks, which read as zeroes."""
        return Completion(*self._shared.trim(_whole("offset", at), _whole("size", size)))

    def flush(self) -> Completion:
        """Waits until everything answered before survives a power cut."""
        return Completion(*self._shared.flush())

    def begin(self) -> int:
        """Opens a transaction; its name, for `write`, `commit` and `abort`."""
        return self._shared.begin()

    def commit(self, tx: int) -> Ended:
        """Makes all writes of a transaction survive together."""
        times, parts = self._shared.commit(_tx(tx))
        return Ended(Completion(*times), parts)

    def abort(self, tx: int) -> Ended:
        """Takes back all writes of a transaction."""
        times, parts = self._shared.abort(_tx(tx))
        return Ended(Completion(*times), parts)

    def stats(self) -> Json:
        """What the device has done since it was made: clock, traffic by port, flash."""
        stats = json.loads(self._shared.stats())
        assert isinstance(stats, dict), "the core promises an object"
        return stats

    def close(self) -> None:
        """Ends the connection; transactions that are open are aborted."""
        self._shared.close()

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def connect(
    path: Path | str, *, data_bytes: int | None = None, spin_us: int | None = None
) -> Device:
    """Connects to the device that is served at a unix socket.

    `data_bytes` (256 KiB to 16 MiB, usually 4 MiB) is how much may be under way; `spin_us` how long
    a call looks for its answer before it sleeps. Raises `DeviceError`.
    """
    if not isinstance(path, str | Path):
        raise DeviceError(f"path {path!r}: {_kind(path)} is no path of a unix socket")
    text = str(path).removeprefix("unix:")
    data = None if data_bytes is None else _whole("data_bytes", data_bytes)
    spin = None if spin_us is None else _whole("spin_us", spin_us)
    return Device(core.SharedDevice(Path(text), data, spin))


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"


def _whole(name: str, value: SupportsIndex, bits: int = 64) -> int:
    try:
        value = index(value)
    except TypeError:
        raise DeviceError(f"{name} {value!r}: {_kind(value)} is no whole number") from None
    if not 0 <= value < 2**bits:
        raise DeviceError(f"{name} {value}: must be 0 or more and fit into {bits} bits")
    return value


def _view(name: str, value: Bytes) -> memoryview:
    """The bytes of what holds some, whatever they mean there: an array of numbers has bytes too."""
    try:
        return memoryview(value).cast("B")
    except TypeError:
        sentence = f"{name}: {_kind(value)} does not hold bytes in a row; give bytes or a bytearray"
        raise DeviceError(sentence) from None


def _tx(value: int) -> int:
    return _whole("transaction", value, 32)


__all__ = ["Completion", "Device", "DeviceError", "Ended", "Shape", "connect"]
