"""`entresol device serve --nvme`: an image as an NVMe/TCP target, for a small host of our own."""

from __future__ import annotations

import random
import re
import socket as sockets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Entresol
from kill_lab import Server, serve_command
from nvme_client import FUA, Client, Queue, discover

Address = tuple[str, int]
Start = Callable[..., tuple[Server, Address]]
BLOCK = 4096


@pytest.fixture
def start(image: Path, socket: Path) -> Iterator[Start]:
    """Starts servers of the image at a port that the system chooses; none is left behind."""
    servers: list[Server] = []

    def start(*more: str) -> tuple[Server, Address]:
        servers.append(Server(serve_command(image, "--nvme", "127.0.0.1:0", *more), socket))
        return servers[-1], ("127.0.0.1", _port(servers[-1]))

    yield start
    for server in servers:
        server.kill_if_alive()


def _port(server: Server) -> int:
    deadline = time.monotonic() + 60
    while (found := re.search(r"NVMe/TCP at 127\.0\.0\.1:(\d+)", server.said())) is None:
        assert time.monotonic() < deadline, server.said()
        time.sleep(0.01)
    return int(found[1])


def _block(number: int) -> bytes:
    return number.to_bytes(8, "little") * (BLOCK // 8)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--nvme", "4420"), "4420: is no address; write unix:PATH or HOST:PORT"),
        (("--nvme", "0.0.0.0:4420"), "or say --allow-remote"),
        (("--nvme", "unix:x"), "--nvme unix:x: NVMe/TCP needs a port; write HOST:PORT"),
        (("--nvme", "127.0.0.1:99999"), "there is no port 99999"),
        (
            ("--nbd", "127.0.0.1:9", "--nvme", "127.0.0.1:9"),
            "--nbd 127.0.0.1:9 --nvme 127.0.0.1:9: two ports need two sockets",
        ),
    ],
)
def test_bad_input_is_one_line(
    entresol_command: Entresol, words: tuple[str, ...], told: str
) -> None:
    done = entresol_command("device", "serve", ".", *words)
    assert done.code == 2
    assert told in done.err and done.err.count("\n") == 1


def test_a_port_in_use_is_refused(entresol_command: Entresol, image: Path) -> None:
    with sockets.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        done = entresol_command("device", "serve", str(image), "--nvme", place)
    assert done.code == 2
    assert f"{place}: cannot listen there" in done.err and done.err.count("\n") == 1


def test_what_was_written_is_there_after_an_orderly_end(start: Start) -> None:
    server, address = start()
    kinds = [(found["kind"], found["address"], found["port"]) for found in discover(address)]
    assert kinds == [(3, "127.0.0.1", str(address[1])), (2, "127.0.0.1", str(address[1]))]
    client = Client(address)
    last = client.blocks - 1
    assert client.block == BLOCK and client.name == "nqn.2026-11.local.entresol:image"
    assert client.write(0, b"a" * BLOCK) == 0
    assert client.write(last, b"z" * BLOCK, flags=FUA) == 0
    assert client.write(2, b"b" * 16 * BLOCK) == 0
    # Beyond the end.
    assert client.write(last, b"c" * 2 * BLOCK) == 0x4080
    client.close()
    server.stop()
    said = server.said()
    assert "for all programs on this machine, as nqn.2026-11.local.entresol:image;" in said
    assert "served 3 commands of 3 controllers over NVMe/TCP; 1 were refused or failed" in said
    _, address = start()
    client = Client(address, counts=True)
    assert client.read(0, 1) == b"a" * BLOCK
    assert client.read(2, 16) == b"b" * 16 * BLOCK
    assert client.read(last, 1) == b"z" * BLOCK
    client.close()


def test_commands_of_two_hosts_are_under_way_together(start: Start) -> None:
    _, address = start()
    hosts = [Client(address), Client(address, counts=True)]
    for index, host in enumerate(hosts):
        sent = {host.send_write(2 * block + index, _block(block)) for block in range(32)}
        assert {host.io.receive().command for _ in range(32)} == sent
    for index, host in enumerate(hosts):
        other = 1 - index
        names = {host.send_read(2 * block + other, 1): block for block in range(32)}
        for _ in range(32):
            answer = host.io.receive()
            assert answer.status == 0 and answer.data == _block(names[answer.command])
    for host in hosts:
        host.close()


def test_one_device_has_nbd_and_nvme_at_a_time(start: Start) -> None:
    server, address = start("--nbd", "unix:SOCKET")
    over_nbd, over_nvme = server.connect(), Client(address)
    assert over_nbd.write(BLOCK, _block(1)) == 0
    assert over_nvme.read(1, 1) == _block(1)
    assert over_nvme.write(2, _block(2)) == 0
    assert over_nbd.read(2 * BLOCK, BLOCK) == _block(2)
    over_nbd.close()
    over_nvme.close()
    server.stop()
    assert re.search(r"served \d requests of 1 client and \d commands of \d contr", server.said())


def test_a_killed_target_has_what_it_acknowledged(start: Start) -> None:
    """`kill -9` with 16 writes under way: what was answered and durable is there, of the others
    the old or the new."""
    chosen = random.Random(1)
    held: dict[int, set[bytes]] = {block: {bytes(BLOCK)} for block in range(24)}
    version = 0
    for _ in range(3):
        server, address = start()
        client = Client(address)
        for block, kept in held.items():
            found = client.read(block, 1)
            assert found in kept, f"block {block}"
            held[block] = {found}
        under_way: dict[int, tuple[int, bytes]] = {}
        for _ in range(chosen.randrange(40, 200)):
            while len(under_way) >= 16 or len(under_way) == len(held):
                answer = client.io.receive()
                block, data = under_way.pop(answer.command)
                assert answer.status == 0
                held[block] = {data}
            busy = {block for block, _ in under_way.values()}
            block = chosen.choice([block for block in held if block not in busy])
            version += 1
            held[block].add(_block(version))
            under_way[client.send_write(block, _block(version), flags=FUA)] = (
                block,
                _block(version),
            )
        server.kill()
        # What was on its way to us was answered, too.
        with pytest.raises(OSError):
            while True:
                answer = client.io.receive()
                block, data = under_way.pop(answer.command)
                assert answer.status == 0
                held[block] = {data}
        client.close()


def test_a_host_that_stalls_or_floods_harms_no_other(start: Start) -> None:
    server, address = start()
    stalled, flooding, honest = Client(address), Client(address), Client(address)
    # A write whose data never come, and reads whose data nobody takes.
    stalled.io.send(1, dwords={10: 0, 12: 15}, giving=16 * BLOCK)
    for _ in range(100):
        flooding.send_read(0, 256)
    # PDUs of no kind.
    broken = Queue(address)
    broken._socket.sendall(b"\xff" * 4096)
    assert honest.write(5, _block(5), flags=FUA) == 0
    assert honest.read(5, 1) == _block(5)
    # A status, a field, and the header that is wrong.
    kind, header, _ = broken._pdu()
    assert kind == 3 and header[8:10] == b"\x01\x00"
    for client in (stalled, flooding, honest):
        client.close()
    server.stop()
