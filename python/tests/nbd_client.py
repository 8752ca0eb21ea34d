"""A small NBD client: requests go out when asked, answers are taken in the order they come."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from pathlib import Path

READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 2, 3, 4, 6
FUA, NO_HOLE = 1, 2
OPTION_GO, REPLY_ACK, REPLY_INFO = 7, 1, 3
INFO_EXPORT, INFO_BLOCK_SIZE = 0, 3
REQUEST = struct.Struct(">IHHQQI")
REPLY = struct.Struct(">IIQ")
OPTION_REPLY = struct.Struct(">QIII")


@dataclass(frozen=True)
class Answer:
    """What became of a request."""

    cookie: int
    error: int
    data: bytes


class Client:
    """A connection past its handshake. Every socket error is an OSError."""

    def __init__(self, address: Path | tuple[str, int], timeout: float = 30.0) -> None:
        if isinstance(address, Path):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(timeout)
            self._socket.connect(str(address))
        else:
            self._socket = socket.create_connection(address, timeout)
        self._reads: dict[int, int] = {}
        self._cookie = 0
        self.size = 0
        self.block = 1
        try:
            self._handshake()
        except BaseException:
            self._socket.close()
            raise

    def _handshake(self) -> None:
        greeting = self._take(18)
        if greeting[:16] != b"NBDMAGICIHAVEOPT":
            raise ConnectionError(f"no NBD server: {greeting!r}")
        data = struct.pack(">IHH", 0, 1, INFO_BLOCK_SIZE)
        self._socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", OPTION_GO, len(data)) + data)
        while True:
            _, _, kind, length = OPTION_REPLY.unpack(self._take(OPTION_REPLY.size))
            data = self._take(length)
            if kind == REPLY_ACK:
                return
            if kind != REPLY_INFO:
                raise ConnectionError(f"refused: {data.decode(errors='replace')}")
            if data[:2] == struct.pack(">H", INFO_EXPORT):
                (self.size,) = struct.unpack_from(">Q", data, 2)
            elif data[:2] == struct.pack(">H", INFO_BLOCK_SIZE):
                (self.block,) = struct.unpack_from(">I", data, 2)

    def _take(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._socket.recv(count - len(parts))
            if not part:
                raise ConnectionResetError("the server hung up")
            parts += part
        return bytes(parts)

    def send(self, kind: int, at: int, size: int, *, flags: int = 0, data: bytes = b"") -> int:
        """Sends a request and returns its cookie."""
        self._cookie += 1
        if kind == READ:
            self._reads[self._cookie] = size
        head = REQUEST.pack(0x25609513, flags, kind, self._cookie, at, size)
        self._socket.sendall(head + data)
        return self._cookie

    def receive(self) -> Answer:
        """The next answer."""
        magic, error, cookie = REPLY.unpack(self._take(REPLY.size))
        if magic != 0x67446698:
            raise ConnectionError(f"no answer of NBD: {magic:#x}")
        size = self._reads.pop(cookie, 0)
        return Answer(cookie, error, self._take(size) if error == 0 else b"")

    def _ask(self, kind: int, at: int, size: int, flags: int = 0, data: bytes = b"") -> Answer:
        self.send(kind, at, size, flags=flags, data=data)
        return self.receive()

    def read(self, at: int, size: int) -> bytes:
        """Reads, with nothing else under way."""
        answer = self._ask(READ, at, size)
        if answer.error:
            raise OSError(answer.error, f"reading {size} bytes at {at}")
        return answer.data

    def write(self, at: int, data: bytes, *, flags: int = 0) -> int:
        """Writes, with nothing else under way. Returns the error, or 0."""
        return self._ask(WRITE, at, len(data), flags, data).error

    def command(self, kind: int, at: int, size: int, *, flags: int = 0) -> int:
        """A command without data, with nothing else under way. Returns the error, or 0."""
        return self._ask(kind, at, size, flags).error

    def flush(self) -> int:
        """Flushes, with nothing else under way. Returns the error, or 0."""
        return self._ask(FLUSH, 0, 0).error

    def close(self) -> None:
        """Takes leave."""
        try:
            self._socket.sendall(REQUEST.pack(0x25609513, 0, DISCONNECT, 0, 0, 0))
        finally:
            self._socket.close()

    def abandon(self) -> None:
        """Goes without a word."""
        self._socket.close()
