"""A device that another process serves (`entresol device serve --shm`), through shared memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
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
class TxLimits:
    """What transactions may be."""

    open: int
    """How many may be open at a time, of all clients together."""
    lines: int
    """Lines of all open transactions that the log keeps: most of one that is all or nothing, and
    most that may be reserved."""


@dataclass(frozen=True)
class PortCosts:
    """What the ports cost beside the device's own work: ps, lines, and bytes per second."""

    line_read_ps: int
    """A load of a line, there and back."""
    line_write_ps: int
    """A posted store of a line, until the device has it."""
    line_reads: int
    """Loads that one command has under way at a time."""
    line_writes: int
    """Stores that one command has under way at a time."""
    block_command_ps: int
    """A block command without its data, there and back; commit, abort and reservation too."""
    read_bandwidth: int
    write_bandwidth: int


@dataclass(frozen=True)
class Shape:
    """What a device is."""

    capacity: int
    """Bytes of the logical space."""
    block: int
    """Bytes of a block: the unit of the block port and of `trim`."""
    line: int
    """Bytes of a line: the unit of the byte port's stores and of conflicts."""
    bytes_survive: bool
    """Whether stores survive a power cut once `persist` or their commit is answered; else they do
    after `flush`."""
    blocks_survive: bool
    """Whether a block write survives a power cut once it is answered; else it does after `flush`,
    or if it is durable."""
    transactions: TxLimits | None
    """None: the device has none."""
    costs: PortCosts
    pmem: int
    """Bytes of battery-backed memory beside the log; 0 on every device of today."""


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
        shape = json.loads(self._shared.shape())
        limits = TxLimits(shape.pop("most_open_transactions"), shape.pop("most_open_lines"))
        costs = PortCosts(**shape.pop("costs"))
        return Shape(**shape, costs=costs, transactions=limits if limits.open else None)

    def read(self, at: int, size: int) -> bytes:
        """Byte port: the newest bytes that any port wrote; zeroes where nothing was.

        **They may be of a transaction that is open, another client's too.**
        """
        return self._shared.read(_whole("offset", at), _whole("size", size), False)

    def read_into(self, at: int, buffer: Bytes) -> Completion:
        """As `read`, into memory that is there: a bytearray, a memoryview of bytes."""
        return Completion(
            *self._shared.read_into(_whole("offset", at), _view("buffer", buffer), False)
        )

    def write(
        self, at: int, data: Bytes, tx: int = NO_TRANSACTION, *, wait: bool = True
    ) -> Completion:
        """Byte port: posted; survives a power cut after `persist`, and of a transaction after its
        commit.

        Where another open transaction has written it waits until that one has ended; without
        `wait` it is refused. A wait that would close a circle of transactions is refused always.
        """
        data, wait = _view("data", data), _flag("wait", wait)
        return Completion(*self._shared.write(_whole("offset", at), data, _tx(tx), wait))

    def write_vectored(
        self,
        parts: Sequence[tuple[int, Bytes]],
        tx: int = NO_TRANSACTION,
        *,
        wait: bool = True,
    ) -> Completion:
        """Byte port: several writes, submitted together in this order; they take one latency. No
        order of those that do not overlap survives a power cut, unless a transaction holds them
        together."""
        checked = [(_whole("offset", at), _view("data", data)) for at, data in parts]
        wait = _flag("wait", wait)
        return Completion(*self._shared.write_vectored(checked, _tx(tx), wait))

    def persist(self) -> Completion:
        """Byte port: waits until all writes answered before survive a power cut. A commit needs
        none."""
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
        data, durable = _view("data", data), _flag("durable", durable)
        return Completion(*self._shared.write_blocks(_whole("offset", at), data, durable))

    def trim(self, at: int, size: int) -> Completion:
        """Block port: forgets whole blocks, which read as zeroes."""
        return Completion(*self._shared.trim(_whole("offset", at), _whole("size", size)))

    def flush(self) -> Completion:
        """Waits until everything answered before survives a power cut."""
        return Completion(*self._shared.flush())

    def drain(self) -> Completion:
        """Brings everything that is logged to flash, but for what transactions have open."""
        return Completion(*self._shared.drain())

    def begin(self, *, lines: int = 0, split: bool = True, wait: bool = True) -> int:
        """Opens a transaction; its name, for `write`, `commit` and `abort`.

        `lines` are reserved in the log, or waited for; then its writes wait for no room, it is all
        or nothing, and it may write no other lines. Without, it takes room as it writes, and is
        committed in parts if there is none left, unless `split` is false: then the write is
        refused. Without `wait` a reservation is refused for which there is no room now.
        """
        split, wait = _flag("split", split), _flag("wait", wait)
        return self._shared.begin(_whole("lines", lines, 32), split, wait)

    def transaction(self, *, lines: int = 0, split: bool = True, wait: bool = True) -> Transaction:
        """As `begin`; a context that aborts the transaction where it is left without `commit`.

            with device.transaction(lines=2) as tx:
                tx.write(0, b"one")
                tx.write(4096, b"two")
                tx.commit()

        Its writes wait for other transactions, or are refused without `wait`.
        """
        return Transaction(self, self.begin(lines=lines, split=split, wait=wait), wait)

    def commit(self, tx: int) -> Ended:
        """Makes all writes of a transaction survive together: once it is answered they survive any
        power cut, with neither `persist` nor `flush`."""
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

    def abandon(self, tx: int) -> None:
        """Aborts a transaction and does not wait for it. One that is not open is none."""
        self._shared.abandon(_tx(tx))

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


class Transaction:
    """A transaction that is aborted where its `with` is left without `commit`."""

    def __init__(self, device: Device, tx: int, wait: bool) -> None:
        self._device, self._wait = device, wait
        self.tx = tx
        """Its name."""
        self._is_open = True

    def write(self, at: int, data: Bytes) -> Completion:
        """Writes under it."""
        return self._device.write(at, data, self.tx, wait=self._wait)

    def write_vectored(self, parts: Sequence[tuple[int, Bytes]]) -> Completion:
        """Several writes under it."""
        return self._device.write_vectored(parts, self.tx, wait=self._wait)

    def commit(self) -> Ended:
        """Makes its writes survive together; commit alone is durable."""
        self._is_open = False
        return self._device.commit(self.tx)

    def abort(self) -> Ended:
        """Takes its writes back."""
        self._is_open = False
        return self._device.abort(self.tx)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._is_open:
            return
        if error is None:
            self.abort()
        else:
            # What went wrong is what is to be told.
            with suppress(DeviceError):
                self._device.abandon(self.tx)


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


def _flag(name: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise DeviceError(f"{name} {value!r}: {_kind(value)} is not true or false")
    return value


def _tx(value: int) -> int:
    return _whole("transaction", value, 32)


__all__ = [
    "Completion",
    "Device",
    "DeviceError",
    "Ended",
    "PortCosts",
    "Shape",
    "Transaction",
    "TxLimits",
    "connect",
]
