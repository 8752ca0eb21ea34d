"""A small NVMe/TCP host, written from the standard and not from our target: one controller, one
I/O queue, commands that go out when asked and answers in the order they come."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

FLUSH, WRITE, READ, DATASET = 0x00, 0x01, 0x02, 0x09
IDENTIFY, GET_LOG_PAGE, SET_FEATURES = 0x06, 0x02, 0x09
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
HEAD = struct.Struct("<BBBBI")
COMPLETION = struct.Struct("<QHHHH")
FUA = 1 << 30


@dataclass(frozen=True)
class Answer:
    """What became of a command."""

    command: int
    status: int
    value: int
    data: bytes


class Queue:
    """A connection. Every socket error is an OSError."""

    def __init__(self, address: tuple[str, int], timeout: float = 30.0) -> None:
        self._socket = socket.create_connection(address, timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._next = 0
        self._data: dict[int, bytes] = {}
        self._writes: dict[int, bytes] = {}
        # ICReq, and ICResp.
        self._socket.sendall(HEAD.pack(0, 0, 128, 0, 128) + bytes(120))
        kind, _, _ = self._pdu()
        if kind != 1:
            raise ConnectionError(f"no NVMe/TCP controller: PDU {kind}")

    def _take(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._socket.recv(count - len(parts))
            if not part:
                raise ConnectionResetError("the controller hung up")
            parts += part
        return bytes(parts)

    def _pdu(self) -> tuple[int, bytes, bytes]:
        """Kind, header and data."""
        head = self._take(HEAD.size)
        kind, flags, length, offset, size = HEAD.unpack(head)
        if flags & 0b11:
            raise ConnectionError("a digest that was not asked for")
        header = head + self._take(length - len(head))
        data = self._take(size - length)
        return kind, header, data[offset - length :] if offset else data

    def send(
        self,
        opcode: int,
        *,
        namespace: int = 1,
        dwords: dict[int, int] | None = None,
        data: bytes = b"",
        giving: int = 0,
    ) -> int:
        """Sends a command and returns its name. Data above 8 KiB are sent when asked for."""
        self._next = (self._next + 1) & 0xFFFF
        entry = bytearray(64)
        in_capsule = 0 < len(data) <= 8192
        struct.pack_into("<BBHI", entry, 0, opcode, 0x40, self._next, namespace)
        struct.pack_into("<I", entry, 32, len(data) or giving)
        entry[39] = 0x01 if in_capsule else 0x5A
        for dword, value in (dwords or {}).items():
            struct.pack_into("<I", entry, 4 * dword, value)
        body = data if in_capsule else b""
        head = HEAD.pack(4, 0, 72, 72 if body else 0, 72 + len(body))
        if data and not in_capsule:
            self._writes[self._next] = data
        self._socket.sendall(head + bytes(entry) + body)
        return self._next

    def receive(self) -> Answer:
        """The next answer."""
        while True:
            kind, header, data = self._pdu()
            if kind == 5:
                value, _, _, command, status = COMPLETION.unpack_from(header, 8)
                self._writes.pop(command, None)
                return Answer(command, status >> 1, value, self._data.pop(command, b""))
            if kind == 7:
                (command,) = struct.unpack_from("<H", header, 8)
                if header[1] & 0b1000:
                    return Answer(command, 0, 0, data)
                self._data[command] = data
            elif kind == 9:
                command, tag, offset, size = struct.unpack_from("<HHII", header, 8)
                part = self._writes[command][offset : offset + size]
                head = HEAD.pack(6, 0b100, 24, 24, 24 + size)
                fields = struct.pack("<HHIII", command, tag, offset, size, 0)
                self._socket.sendall(head + fields + part)
            else:
                raise ConnectionError(f"the controller ends the connection: {header.hex()}")

    def ask(
        self,
        opcode: int,
        *,
        namespace: int = 1,
        dwords: dict[int, int] | None = None,
        data: bytes = b"",
        giving: int = 0,
    ) -> Answer:
        """Sends a command and waits, with nothing else under way."""
        self.send(opcode, namespace=namespace, dwords=dwords, data=data, giving=giving)
        return self.receive()

    def connect(self, subsystem: str, controller: int, queue: int, *, counts: bool) -> int:
        """Becomes a queue of a controller, whose number it returns."""
        data = bytearray(1024)
        struct.pack_into("<16sH", data, 0, b"entresol python.", controller)
        struct.pack_into("256s", data, 256, subsystem.encode())
        struct.pack_into("256s", data, 512, b"nqn.2026-11.local.entresol:python")
        size, attributes = 127, 0 if counts else 4
        dwords = {10: queue << 16, 11: attributes << 16 | size}
        answer = self.ask(0x7F, namespace=1, dwords=dwords, data=bytes(data))
        if answer.status:
            raise ConnectionError(f"the connect failed with status {answer.status:#x}")
        return answer.value & 0xFFFF

    def property(self, offset: int) -> int:
        """A register of 4 bytes."""
        return self.ask(0x7F, namespace=4, dwords={11: offset}).value

    def enable(self) -> None:
        """Sets CC and waits until CSTS says ready."""
        self.ask(0x7F, namespace=0, dwords={11: 0x14, 12: 0x00460001})
        if self.property(0x1C) != 1:
            raise ConnectionError("the controller does not become ready")

    def close(self) -> None:
        """Goes without a word."""
        self._socket.close()


def discover(address: tuple[str, int]) -> list[dict[str, str | int]]:
    """What the discovery controller tells of."""
    admin = Queue(address)
    admin.connect(DISCOVERY, 0xFFFF, 0, counts=True)
    admin.enable()
    page = admin.ask(GET_LOG_PAGE, namespace=0, dwords={10: 0x70 | (767 << 16)}, giving=3072).data
    (count,) = struct.unpack_from("<Q", page, 8)
    admin.close()
    return [_entry(page[at : at + 1024]) for at in range(1024, 1024 * (count + 1), 1024)]


def _entry(entry: bytes) -> dict[str, str | int]:
    def text(at: int, size: int) -> str:
        return entry[at : at + size].rstrip(b" \0").decode()

    return {
        "transport": entry[0],
        "kind": entry[2],
        "port": text(32, 32),
        "name": text(256, 256),
        "address": text(512, 256),
    }


class Client:
    """A controller with one I/O queue."""

    def __init__(self, address: tuple[str, int], *, counts: bool = False) -> None:
        found = [entry for entry in discover(address) if entry["kind"] == 2]
        self.name = str(found[0]["name"])
        self.admin = Queue(address)
        controller = self.admin.connect(self.name, 0xFFFF, 0, counts=True)
        self.admin.enable()
        self.queues = self.admin.ask(SET_FEATURES, namespace=0, dwords={10: 7, 11: 0}).value
        self.io = Queue(address)
        self.io.connect(self.name, controller, 1, counts=counts)
        namespace = self.admin.ask(IDENTIFY, giving=4096).data
        (self.blocks,) = struct.unpack_from("<Q", namespace, 0)
        self.block = 1 << namespace[130]

    def _range(self, first: int, count: int, flags: int = 0) -> dict[int, int]:
        return {10: first & 0xFFFFFFFF, 11: first >> 32, 12: flags | (count - 1)}

    def send_read(self, first: int, count: int) -> int:
        """Asks for blocks; the name of the command."""
        return self.io.send(READ, dwords=self._range(first, count), giving=count * self.block)

    def send_write(self, first: int, data: bytes, *, flags: int = 0) -> int:
        """Sends blocks; the name of the command."""
        dwords = self._range(first, len(data) // self.block, flags)
        return self.io.send(WRITE, dwords=dwords, data=data)

    def read(self, first: int, count: int) -> bytes:
        """Reads, with nothing else under way."""
        self.send_read(first, count)
        answer = self.io.receive()
        if answer.status:
            raise OSError(f"reading {count} blocks at {first}: status {answer.status:#x}")
        return answer.data

    def write(self, first: int, data: bytes, *, flags: int = 0) -> int:
        """Writes, with nothing else under way. Returns the status, or 0."""
        self.send_write(first, data, flags=flags)
        return self.io.receive().status

    def flush(self) -> int:
        """Flushes, with nothing else under way. Returns the status, or 0."""
        return self.io.ask(FLUSH).status

    def close(self) -> None:
        """Goes: the controller ends with it."""
        self.io.close()
        self.admin.close()
