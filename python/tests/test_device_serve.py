"""`entresol device serve`: an image's block port over NBD, for a small client and for fio."""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Entresol
from kill_lab import Server, serve_command
from nbd_client import FUA, TRIM, Client

from entresol import core

EINVAL, ENOSPC = 22, 28
Start = Callable[..., Server]


@pytest.fixture
def start(socket: Path) -> Iterator[Start]:
    """Starts servers, of which none is left behind."""
    servers: list[Server] = []

    def start(*command: str) -> Server:
        servers.append(Server(command, socket))
        return servers[-1]

    yield start
    for server in servers:
        server.kill_if_alive()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nowhere", "--nbd", "unix:/tmp/x"), "nowhere is not a device image"),
        ((".", "--nbd", "unix:/tmp/x"), ". is not a device image"),
        ((".", "--nbd", "unix:a", "--shm", "unix:a"), "two ports need two sockets"),
        ((".", "--nbd", "10809"), "10809: is no address; write unix:PATH or HOST:PORT"),
        ((".", "--nbd", "0.0.0.0:10809"), "or say --allow-remote"),
        ((".", "--nbd", f"unix:/{'x' * 200}"), "longer than the 107 bytes"),
        (
            (".", "--nbd", "unix:x", "--pace", "slow"),
            "'slow' is not one of 'none', 'real'",
        ),
    ],
)
def test_bad_input_is_one_line(
    entresol_command: Entresol, words: tuple[str, ...], told: str
) -> None:
    done = entresol_command("device", "serve", *words)
    assert done.code == 2
    assert told in done.err and done.err.count("\n") == 1


def test_an_address_that_is_taken_is_refused_and_the_file_left_alone(
    entresol_command: Entresol, image: Path, socket: Path
) -> None:
    socket.write_text("a file")
    done = entresol_command("device", "serve", str(image), "--nbd", f"unix:{socket}")
    assert done.code == 2
    assert "is there already and no socket" in done.err
    assert socket.read_text() == "a file"


def test_an_image_has_one_server(entresol_command: Entresol, image: Path, socket: Path) -> None:
    server = Server(serve_command(image), socket)
    server.connect().close()
    second = entresol_command("device", "serve", str(image), "--nbd", f"unix:{socket}2")
    assert second.code == 2
    assert str(image) in second.err and second.err.count("\n") == 1
    server.connect().close()
    server.stop()


def test_what_was_written_is_there_after_an_orderly_end(image: Path, socket: Path) -> None:
    server = Server(serve_command(image), socket)
    client = server.connect()
    last = client.size - client.block
    assert client.block == 4096 and client.size % client.block == 0
    assert client.write(0, b"a" * 4096) == 0
    assert client.write(last, b"z" * 4096, flags=FUA) == 0
    assert client.command(TRIM, 0, 4096) == 0
    assert client.write(8192, b"b" * 65536) == 0
    assert client.write(512, b"c" * 4096) == EINVAL
    assert client.write(last, b"c" * 8192) == ENOSPC
    client.close()
    server.stop()
    said = server.said()
    assert "for programs of this user on this machine; Ctrl-C stops" in said
    assert "served 4 requests of 1 client; 2 were refused or failed" in said
    server = Server(serve_command(image), socket)
    client = server.connect()
    assert client.read(0, 4096) == bytes(4096)
    assert client.read(8192, 65536) == b"b" * 65536
    assert client.read(last, 4096) == b"z" * 4096
    client.close()
    server.stop()
    assert not socket.exists()


def test_a_terminal_that_closes_is_an_orderly_end(
    entresol_command: Entresol, image: Path, start: Start
) -> None:
    # The tests themselves may run without heed of it.
    server = start("env", "--default-signal=HUP", *serve_command(image))
    client = server.connect()
    assert client.write(0, b"h" * 4096) == 0
    client.close()
    assert server.end_with(signal.SIGHUP) == 0
    assert "served 1 request of 1 client" in server.said()
    assert "closed in order" in entresol_command("device", "fsck", str(image)).out


def test_who_asks_to_outlive_the_terminal_does(image: Path, start: Start) -> None:
    server = start("nohup", *serve_command(image))
    client = server.connect()
    assert server.ignores(signal.SIGHUP)
    server.signal(signal.SIGHUP)
    assert client.write(0, b"h" * 4096) == 0
    client.close()
    server.stop()


@pytest.mark.parametrize("gone", [None, "media.bin", "dram.bin"])
def test_an_image_that_was_removed_is_no_good_end(
    image: Path, start: Start, gone: str | None
) -> None:
    server = start(*serve_command(image))
    client = server.connect()
    assert client.write(0, b"r" * 4096) == 0
    client.close()
    if gone is None:
        shutil.rmtree(image)
    else:
        (image / gone).unlink()
    assert server.end_with(signal.SIGTERM) == 1
    last = server.said().splitlines()[-1]
    assert f"{image / (gone or 'media.bin')} was removed while the device worked" in last
    assert "acknowledged" not in server.said()


def test_a_port_that_the_system_chooses_is_told_and_served(image: Path, socket: Path) -> None:
    server = Server(serve_command(image, "--nbd", "127.0.0.1:0"), socket)
    deadline = time.monotonic() + 60
    while (found := re.search(r"at 127\.0\.0\.1:(\d+), for all programs", server.said())) is None:
        assert time.monotonic() < deadline, server.said()
        time.sleep(0.01)
    client = Client(("127.0.0.1", int(found[1])))
    assert client.write(4096, b"t" * 4096) == 0
    assert client.read(4096, 4096) == b"t" * 4096
    client.close()
    server.stop()


@pytest.mark.parametrize("pattern", ["randwrite", "write", "randrw"])
def test_fio_finds_every_byte_it_wrote(
    image: Path, socket: Path, tmp_path: Path, pattern: str
) -> None:
    server = Server(serve_command(image), socket)
    server.connect().close()
    fio = (
        "fio",
        "--name=verify",
        "--ioengine=nbd",
        f"--uri=nbd+unix:///?socket={socket}",
        f"--rw={pattern}",
        "--bsrange=4k-64k",
        "--iodepth=16",
        "--size=12M",
        "--fsync=50",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--randseed=7",
    )
    done = subprocess.run(
        fio, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
    )
    server.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "err= 0" in done.stdout


@pytest.mark.skipif(shutil.which("qemu-io") is None, reason="qemu's client: no qemu-io")
def test_qemu_reads_what_it_wrote_copies_an_image_and_finds_it_the_same(
    image: Path, socket: Path, tmp_path: Path
) -> None:
    server = Server(serve_command(image), socket)
    client = server.connect()
    size = client.size
    client.close()
    uri = f"nbd+unix:///?socket={socket}"

    def qemu(*command: str, code: int = 0) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    steps = (
        "write -P 0xab 0 64k",
        "write -f -P 0xcd 64k 8k",
        "flush",
        "read -P 0xab 0 64k",
        "read -P 0xcd 64k 8k",
        "discard 4k 4k",
        "read -P 0 4k 4k",
        "write -z 16k 8k",
        "read -P 0 16k 8k",
        "write -P 0x11 512 512",
        "read -P 0x11 512 512",
        "read -P 0xab 0 512",
        "aio_write -P 0x77 1M 1M",
        "aio_write -P 0x78 2M 1M",
        "aio_flush",
        "read -P 0x77 1M 1M",
    )
    said = qemu("qemu-io", "-f", "raw", uri, *(word for step in steps for word in ("-c", step)))
    assert "failed" not in said, said
    wrong = qemu("qemu-io", "-f", "raw", uri, "-c", "read -P 0x79 2M 4k", code=1)
    assert "verification failed" in wrong, "qemu-io compares"
    file = tmp_path / "raw"
    file.write_bytes(random.Random(7).randbytes(3 << 20) + bytes(size - (3 << 20)))
    qemu("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", str(file), uri)
    assert "Images are identical" in qemu("qemu-img", "compare", "-f", "raw", str(file), uri)
    server.stop()


def test_an_end_while_it_says_where_it_serves_is_an_end_as_later(image: Path) -> None:
    ports = {
        "nbd": f"unix:{image.parent / 'nbd'}",
        "nvme": None,
        "shm": None,
        "fuse": None,
        "allow_remote": False,
        "allow_other": False,
        "real_pace": False,
    }

    def interrupted(_told: object) -> None:
        raise KeyboardInterrupt

    served = core.device_serve(image, ports, interrupted, lambda _reason: None)
    assert served["nbd"]["errors"] == 0

    def fails(_told: object) -> None:
        raise OSError("nobody reads it")

    with pytest.raises(OSError, match="nobody reads it"):
        core.device_serve(image, ports, fails, lambda _reason: None)
