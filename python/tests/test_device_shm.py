"""`entresol device serve --shm`: a device for other processes, some of which are killed."""

from __future__ import annotations

import multiprocessing
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, Entresol
from kill_lab import Server, serve_command

from entresol.device import Device, DeviceError, connect

BLOCK = 4096
SOON = 60.0


def _reach(server: Server, path: Path) -> Device:
    """A client, as soon as there can be one."""
    deadline = time.monotonic() + SOON
    while True:
        try:
            return connect(path)
        except DeviceError as error:
            if time.monotonic() > deadline:
                raise AssertionError(server.said()) from error
            time.sleep(0.005)


@pytest.fixture
def server(image: Path, socket: Path) -> Iterator[Server]:
    """A process that serves the device."""
    made = Server(serve_command(image, "--shm", "unix:SOCKET"), socket)
    yield made
    made.kill_if_alive()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((".",), "give --nbd ADDRESS, --nvme HOST:PORT, --shm unix:PATH or --fuse DIR"),
        ((".", "--shm", "127.0.0.1:1"), "shared memory needs a unix socket; write unix:PATH"),
        (("nowhere", "--shm", "unix:/tmp/x"), "nowhere is not a device image"),
    ],
)
def test_bad_input_is_one_line(
    entresol_command: Entresol, words: tuple[str, ...], told: str
) -> None:
    done = entresol_command("device", "serve", *words)
    assert done.code == 2
    assert told in done.err and done.err.count("\n") == 1


def test_what_one_connection_writes_another_reads(server: Server, socket: Path) -> None:
    with _reach(server, socket) as device, connect(f"unix:{socket}") as other:
        shape = device.shape
        assert (shape.block, shape.line, shape.pmem) == (BLOCK, 64, 0)
        assert shape.transactions is not None and shape.transactions.lines > 100
        assert shape.bytes_survive and shape.blocks_survive
        assert shape.costs.line_read_ps > 0 and shape.costs.write_bandwidth > 0
        assert device.write(100, b"some bytes").took_ps > 0
        assert device.persist().finished_ps > 0
        assert other.read(98, 14) == b"\0\0some bytes\0\0"
        device.write_blocks(BLOCK, memoryview(bytes([7]) * 2 * BLOCK), durable=True)
        buffer = bytearray(3 * BLOCK)
        other.read_blocks_into(0, buffer)
        assert buffer[BLOCK:] == bytes([7]) * 2 * BLOCK and buffer[100:110] == b"some bytes"
        other.read_into(98, memoryview(buffer)[:4])
        assert buffer[:4] == b"\0\0so"
        device.trim(BLOCK, BLOCK)
        assert other.read_blocks(BLOCK, 2 * BLOCK) == bytes(BLOCK) + bytes([7]) * BLOCK
        device.flush()
        assert device.stats()["block_port"]["to_device_bytes"] == 2 * BLOCK
        assert device.read(shape.capacity, 0) == b""
    server.stop()
    said = server.said()
    assert "through shared memory at unix:" in said and "for programs of this user" in said
    assert (
        "of 2 clients through shared memory; 0 were refused or failed; the device's clock" in said
    )
    assert not socket.exists()


def test_transactions_hold_together(server: Server, socket: Path) -> None:
    device, other = _reach(server, socket), connect(socket)
    tx = device.begin()
    device.write(0, b"one", tx)
    device.write(BLOCK, b"two", tx)
    with pytest.raises(DeviceError, match="byte 0 was written by a transaction that is still open"):
        other.write(0, b"x", wait=False)
    assert device.commit(tx).parts == 1
    with pytest.raises(DeviceError, match=f"transaction {tx} is not open"):
        device.commit(tx)
    tx = device.begin()
    device.write(0, b"ONE", tx)
    assert device.abort(tx).completion.finished_ps > 0
    assert other.read(0, 3) + other.read(BLOCK, 3) == b"onetwo"


def test_a_transaction_that_is_left_is_aborted(server: Server, socket: Path) -> None:
    device, other = _reach(server, socket), connect(socket)
    with device.transaction(lines=2) as tx:
        tx.write_vectored([(0, b"one"), (BLOCK, b"two")])
        with pytest.raises(DeviceError, match="has reserved 2 lines and writes more"):
            tx.write(2 * BLOCK, b"three")
        assert tx.commit().parts == 1
    with device.transaction() as tx:
        tx.write(0, b"ONE")
        # It is seen before it counts.
        assert other.read(0, 3) == b"ONE"
    assert other.read(0, 3) == b"one"
    with pytest.raises(RuntimeError), device.transaction(split=False) as tx:
        tx.write(0, b"ONE")
        raise RuntimeError
    # It waits for the abort, which nobody has waited for.
    other.write(0, b"new")
    assert device.read(0, 3) == b"new"
    shape = device.shape
    assert shape.transactions is not None
    most = shape.transactions.lines
    with pytest.raises(DeviceError, match=f"the log keeps {most} lines of open transactions"):
        device.begin(lines=most + 1)
    refused = pytest.raises(DeviceError, match="open transactions leave no room in the log")
    with device.transaction(lines=most), refused:
        other.begin(lines=1, wait=False)
    device.drain()
    assert other.commit(other.begin(lines=most)).parts == 1


def test_errors_are_sentences(server: Server, socket: Path, tmp_path: Path) -> None:
    device = _reach(server, socket)
    capacity = device.shape.capacity
    with pytest.raises(DeviceError, match="reach beyond the device's"):
        device.read(capacity, 1)
    with pytest.raises(DeviceError, match="reach beyond the device's"):
        device.read(0, 1 << 60)
    with pytest.raises(DeviceError, match="are not whole blocks of 4KiB"):
        device.write_blocks(0, b"short")
    with pytest.raises(BufferError, match="read-only"):
        device.read_into(0, b"abc")
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: device.read(-1, 8), "offset -1: must be 0 or more"),
        (lambda: device.read(0, -8), "size -8: must be 0 or more"),
        (lambda: device.write(1 << 64, b"abc"), "offset 18446744073709551616: must be 0 or more"),
        (lambda: device.trim(-BLOCK, BLOCK), f"offset -{BLOCK}: must be 0 or more"),
        (lambda: device.commit(-1), "transaction -1: must be 0 or more and fit into 32 bits"),
        (lambda: device.read("0", 8), "offset '0': a value of type str is no whole number"),  # type: ignore[arg-type]
        (lambda: device.trim(0, 1.5), "size 1.5: a value of type float is no whole number"),  # type: ignore[arg-type]
        (lambda: device.write(0, "abc"), "data: a value of type str does not hold bytes in a row"),  # type: ignore[arg-type]
        (lambda: device.write(0, memoryview(b"abcd")[::2]), "data: a value of type memoryview"),
        (lambda: device.read_into(0, 8), "buffer: a value of type int does not hold bytes"),  # type: ignore[arg-type]
        (lambda: device.write_blocks(0, b"", durable=1), "durable 1: a value of type int is not"),  # type: ignore[arg-type]
        (lambda: device.write(0, b"", wait=None), "wait None: a value of type NoneType is not"),  # type: ignore[arg-type]
        (lambda: device.begin(lines=-1), "lines -1: must be 0 or more and fit into 32 bits"),
        (lambda: device.commit(None), "transaction None: a value of type NoneType is no"),  # type: ignore[arg-type]
        (lambda: connect(5), "path 5: a value of type int is no path of a unix socket"),  # type: ignore[arg-type]
        (lambda: connect(socket, spin_us=1.5), "spin_us 1.5: a value of type float is no"),  # type: ignore[arg-type]
        (lambda: connect(socket, spin_us=-5), "spin_us -5: must be 0 or more"),
    ]
    for call, sentence in refused:
        with pytest.raises(DeviceError, match=sentence):
            call()
    device.close()
    with pytest.raises(DeviceError, match="the connection is closed; connect anew"):
        device.flush()
    with pytest.raises(DeviceError, match="no device can be reached there"):
        connect(tmp_path / "nowhere")
    with pytest.raises(DeviceError, match="is not between 256KiB and 16MiB"):
        connect(socket, data_bytes=1)


def test_a_fork_is_told_to_connect_anew(server: Server, socket: Path) -> None:
    device = _reach(server, socket)
    for block in range(2):
        device.write_blocks(block * BLOCK, bytes([7 + block]) * BLOCK, durable=True)
    fork = multiprocessing.get_context("fork")
    said: multiprocessing.Queue[list[str]] = fork.Queue()

    def child() -> None:
        sentences = set()
        for _ in range(1000):
            with pytest.raises(DeviceError) as refused:
                device.read(BLOCK, 8)
            sentences.add(str(refused.value))
        device.close()
        with connect(socket) as own:
            assert own.read(BLOCK, 8) == b"\x08" * 8
        said.put(list(sentences))

    process = fork.Process(target=child, daemon=True)
    process.start()
    try:
        for _ in range(1000):
            assert device.read(0, 8) == b"\x07" * 8
        [sentence] = said.get(timeout=SOON)
        process.join(SOON)
    finally:
        process.kill()
    assert process.exitcode == 0
    assert "was made before this process was forked" in sentence
    assert device.read(BLOCK, 8) == b"\x08" * 8


def test_nbd_and_shared_memory_show_the_same_device(
    image: Path, socket: Path, tmp_path: Path
) -> None:
    path = tmp_path / "both"
    server = Server(serve_command(image, "--shm", f"unix:{path}", "--nbd", "unix:SOCKET"), socket)
    block = server.connect()
    with connect(path) as device:
        assert block.write(0, b"n" * BLOCK) == 0
        assert device.read(10, 3) == b"nnn"
        device.write(BLOCK - 1, b"ss")
        assert block.read(0, 2 * BLOCK) == b"n" * (BLOCK - 1) + b"ss" + bytes(BLOCK - 1)
    block.close()
    server.stop()
    said = server.said()
    assert f"at unix:{socket}" in said and f"through shared memory at unix:{path}" in said
    assert "of 1 client and " in said


CLIENT = """
import sys
from entresol.device import connect
device = connect(sys.argv[1])
tx = device.begin()
device.write(0, b"lost", tx)
print("ready", flush=True)
number = 0
while True:
    number += 1
    data = number.to_bytes(8, "little") * 3000
    device.write(65536, data)
    device.write_blocks(131072, data[:4096] * 5)
    device.read(65536, len(data))
"""


def test_a_killed_client_hurts_nobody(server: Server, socket: Path) -> None:
    device = _reach(server, socket)
    device.write(0, b"kept")
    device.persist()
    for _ in range(5):
        command = [sys.executable, "-c", CLIENT, str(socket)]
        client = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert client.stdout is not None and client.stdout.readline() == b"ready\n"
        with pytest.raises(DeviceError, match="still open"):
            device.write(0, b"late", wait=False)
        time.sleep(0.05)
        client.kill()
        assert client.wait() == -signal.SIGKILL
        client.stdout.close()
        # It waits until the client's transaction is aborted.
        device.write(0, b"kept")
        assert device.read(0, 4) == b"kept"
        line = device.read(65536, 24000)
        assert len({line[at : at + 8] for at in range(0, 24000, 8)}) <= 2
    server.stop()


def test_a_killed_server_is_one_clear_error_and_the_image_is_whole(
    image: Path, server: Server, socket: Path
) -> None:
    device = _reach(server, socket)
    device.write(0, b"durable")
    device.persist()
    told: list[str] = []

    def work() -> None:
        try:
            while True:
                device.write(BLOCK, b"under way")
        except DeviceError as error:
            told.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    server.kill()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    assert len(told) == 2
    for text in told:
        assert text == (
            "the device has stopped: its server has gone without a word; what it acknowledged is "
            "in the image: serve that again and connect anew"
        )
    with pytest.raises(DeviceError, match="has gone without a word"):
        device.stats()
    again = Server(serve_command(image, "--shm", "unix:SOCKET"), socket)
    with _reach(again, socket) as device:
        assert device.read(0, 7) == b"durable"
        assert device.read(BLOCK, 9) in (b"under way", bytes(9))
    again.stop()


def test_an_orderly_end_is_told_as_such(server: Server, socket: Path) -> None:
    device = _reach(server, socket)
    device.write(0, b"x")
    server.stop()
    with pytest.raises(DeviceError, match="the server has stopped; what it acknowledged is in"):
        device.persist()


def test_other_threads_go_on_while_a_call_waits(image: Path, socket: Path) -> None:
    """The device waits for flash; the interpreter does not."""
    server = Server(serve_command(image, "--shm", "unix:SOCKET", "--pace", "real"), socket)
    device = _reach(server, socket)
    device.write_blocks(0, bytes(1 << 20))
    turns = 0
    read = []

    def read_all() -> None:
        for _ in range(20):
            read.append(len(device.read_blocks(0, 1 << 20)))

    thread = threading.Thread(target=read_all)
    thread.start()
    while thread.is_alive():
        turns += 1
        time.sleep(0)
    assert read == [1 << 20] * 20
    assert turns > 20
    device.close()
    server.stop()


def test_the_python_of_the_documentation_writes_both_or_none(server: Server, socket: Path) -> None:
    text = (ROOT / "docs" / "python.md").read_text()
    (block,) = re.findall(
        r"^```python\n(from entresol\.device .*?)^```", text, re.MULTILINE | re.DOTALL
    )
    with _reach(server, socket) as device:
        exec(block.replace("SOCKET", str(socket)), {})
        assert device.read(0, 4) == b"both"
        assert device.read(4096, 7) == b"or none"
