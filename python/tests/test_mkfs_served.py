"""`entresol mkfs` on a device that another process serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Entresol, one_line
from kill_lab import Server, make_image, serve_command
from mounted import LOGGED

from entresol.device import connect


@pytest.fixture(name="device")
def made_device(tmp_path: Path) -> Path:
    """One with a log, on which nothing is."""
    made = tmp_path / "device"
    make_image(made, "bytefs", LOGGED)
    return made


@pytest.fixture(name="memory")
def shared_memory(tmp_path: Path) -> Path:
    """Where its server listens beside NBD."""
    return tmp_path / "memory"


@pytest.fixture(name="server")
def begun_server(device: Path, socket: Path, memory: Path) -> Iterator[Server]:
    """It, through shared memory and NBD."""
    command = serve_command(device, "--nbd", "unix:SOCKET", "--shm", f"unix:{memory}")
    made = Server(command, socket)
    made.connect().close()
    yield made
    made.kill_if_alive()


def test_a_served_device_gets_a_file_system(
    entresol_command: Entresol, server: Server, device: Path, memory: Path
) -> None:
    place = f"unix:{memory}"
    made = entresol_command("mkfs", place, "--inodes", "200")
    assert (made.code, made.out) == (0, f"{place}\n") and "not served any more" in made.err
    again = entresol_command("mkfs", place)
    assert again.code != 0 and "is not empty, and what is on it would be lost" in one_line(again)
    assert entresol_command("mkfs", place, "--force", "--personality", "pmfs-like").code == 0
    for command, done in (("mount", "mounted"), ("fsck", "checked")):
        words = (place, memory.parent / "mnt") if command == "mount" else (place,)
        refused = entresol_command(command, *words)
        assert refused.code == 2 and f"what is served is not {done}" in one_line(refused)
    # Others are served as before.
    with connect(memory) as client:
        assert client.read(0, 8) == b"ENTRBYFS"
    server.stop()
    found = entresol_command("fsck", device)
    assert found.code == 0 and "0 problems; 1 directory, 0 files" in found.out


def test_what_lacks_bytes_or_transactions_is_refused_in_one_sentence(
    entresol_command: Entresol, server: Server, socket: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    for place, part in (
        (f"unix:{socket}", "for NBD carries neither bytes nor transactions"),
        ("127.0.0.1:10809", "takes blocks alone"),
        (file, "is no device image, which is a directory"),
        (f"unix:{tmp_path}/nobody", "no device can be reached there"),
        ("unix:", "unix:PATH"),
    ):
        refused = entresol_command("mkfs", place)
        assert refused.code == 2 and part in one_line(refused), refused.err
    server.stop()
    plain = tmp_path / "plain"
    make_image(plain, "bytefs-cache", LOGGED[:6])
    other = Server(
        serve_command(plain, "--shm", f"unix:{tmp_path}/p", "--nbd", "unix:SOCKET"), socket
    )
    try:
        other.connect().close()
        refused = entresol_command("mkfs", f"unix:{tmp_path}/p")
        assert "needs transactions of the device, and it has none" in one_line(refused)
        other.stop()
    finally:
        other.kill_if_alive()
