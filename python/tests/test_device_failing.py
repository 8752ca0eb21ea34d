"""Devices whose flash fails: errors at every port where bytes are lost, and reports of it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from random import Random

import pytest
from conftest import Entresol, Serve, one_line
from file_server import without_fuse
from kill_lab import Server, Wrong, make_image, serve_command
from nbd_client import Client
from small_devices import SMALL

from entresol.device import DeviceError, connect

BLOCK = 4096
BLOCKS = 2048
LOSES = ("faults.raw_errors=1700", "faults.retry_steps=0", "faults.factory_bad=2%")
"""Flash that loses about one page in a hundred as it is written."""


DYING = (
    "nand.channels=2",
    "nand.chips_per_channel=1",
    "nand.dies_per_chip=1",
    "nand.blocks_per_plane=24",
    "nand.pages_per_block=8",
    "ftl.over_provisioning=40%",
    "ftl.gc_buffers=4",
    "ssd.buffers=8",
    "ssd.cache.mshr_count=4",
    "ssd.dram=64KiB",
    "faults.grown_bad=100%",
    "faults.rated_wear=3",
    "faults.program_failure=5%",
    "faults.erase_failure=5%",
    "faults.seed=1",
)
"""A device without a battery whose blocks all go bad within a few erases."""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A device whose flash loses pages."""
    made = tmp_path / "image"
    make_image(made, "bytefs", (*SMALL, "ssd.log.tx_log=64KiB", "ssd.dram=6MiB", *LOSES))
    return made


def _block(number: int) -> bytes:
    return number.to_bytes(4, "little") * (BLOCK // 4)


def _write(client: Client) -> None:
    for first in range(0, BLOCKS, 16):
        data = b"".join(_block(number) for number in range(first, first + 16))
        assert client.write(first * BLOCK, data) == 0
    assert client.flush() == 0


def _lost(client: Client) -> set[int]:
    """The blocks that cannot be read; what can be is right."""
    lost = set()
    for number in range(BLOCKS):
        try:
            assert client.read(number * BLOCK, BLOCK) == _block(number)
        except OSError as error:
            assert error.errno == errno.EIO
            lost.add(number)
    return lost


def test_lost_blocks_are_errors_over_nbd_and_the_byte_port_and_are_reported(
    entresol_command: Entresol, image: Path, socket: Path
) -> None:
    memory = Path(f"{socket}-shm")
    server = Server(serve_command(image, "--nbd", "unix:SOCKET", "--shm", f"unix:{memory}"), socket)
    client = server.connect()
    _write(client)
    lost = _lost(client)
    assert 5 < len(lost) < 100
    first = min(lost)
    with connect(memory) as device:
        with pytest.raises(DeviceError, match=f"has lost the block at byte {first * BLOCK};"):
            device.read(first * BLOCK + 64, 8)
        device.write(first * BLOCK + 64, b"anew" * 16)
        device.persist()
        assert device.read(first * BLOCK + 64, 64) == b"anew" * 16
    assert client.write(first * BLOCK, _block(first)) == 0
    assert _lost(client) | {first} == lost
    client.close()
    server.stop()
    numbers = json.loads(entresol_command("device", "stats", image, "--json").out)
    assert numbers["media_errors"] > len(lost)
    assert numbers["retired_blocks"] == numbers["factory_bad_blocks"] > 0
    prometheus = entresol_command("device", "stats", image, "--prometheus").out
    assert f'entresol_device_media_errors_total{{image="{image}"}}' in prometheus
    assert f'entresol_device_factory_bad_blocks{{image="{image}"}}' in prometheus
    told = entresol_command("device", "info", image).out
    assert "good: " in told and "of the spare room left" in told and "[faults]" in told


def test_a_server_that_cannot_bring_to_flash_what_it_accepted_says_so_at_its_end(
    tmp_path: Path, socket: Path
) -> None:
    made = tmp_path / "image"
    make_image(made, "consumer-tlc", DYING)
    server = Server(serve_command(made), socket)
    client = server.connect()
    random = Random(7)
    pieces = (random.randrange(192) * BLOCK for _ in range(999))
    assert any(client.write(at, _block(1) * 32) for at in pieces)
    client.close()
    with pytest.raises(Wrong, match="does not end well") as ended:
        server.stop()
    assert (
        f"entresol: {made}: what was written since the last flush could not be brought to flash "
        "and may be lost: the flash is worn out and can only be read; copy what is on it to "
        "another device"
    ) in str(ended.value)


def test_the_check_names_lost_blocks(entresol_command: Entresol, image: Path, socket: Path) -> None:
    server = Server(serve_command(image), socket)
    client = server.connect()
    _write(client)
    lost = _lost(client)
    client.close()
    server.stop()
    checked = entresol_command("device", "fsck", image)
    assert checked.code == 1
    for number in lost:
        assert f"the block at byte {number * BLOCK} is lost: " in checked.out
    assert f"0 problems; {BLOCKS:,} pages on flash" in checked.out
    assert f"{len(lost)} pages lost" in checked.out
    found = json.loads(entresol_command("device", "fsck", image, "--json").out)
    assert (found["problem_count"], found["lost_pages"]) == (0, len(lost))
    assert found["retired_blocks"] > 0


@pytest.mark.skipif(without_fuse() is not None, reason=f"FUSE: {without_fuse()}")
def test_lost_blocks_are_errors_of_the_file(serve: Serve, tmp_path: Path) -> None:
    server = serve("--nbd", f"unix:{tmp_path / 'nbd'}")
    client = Client(tmp_path / "nbd")
    _write(client)
    lost = min(_lost(client))
    client.close()
    fd = os.open(server.file, os.O_RDONLY)
    assert os.pread(fd, 4, (lost + 1) * BLOCK) == _block(lost + 1)[:4]
    with pytest.raises(OSError) as caught:
        os.pread(fd, BLOCK, lost * BLOCK)
    assert caught.value.errno == errno.EIO
    os.close(fd)


def test_bad_faults_are_one_sentence(entresol_command: Entresol, tmp_path: Path) -> None:
    made = tmp_path / "made"
    for word, sentence in [
        ("faults.program_failure=200%", "faults.program_failure is 200%; it must be at most 100%"),
        ("faults.retry_steps=65", "faults.retry_steps is 65; it must be 0 to 64"),
        ("faults.program_failures=1%", "unknown key faults.program_failures"),
        ("faults.day=1ms", "faults.day is 1ms; it must be 10ms to 86400s"),
        ("faults.factory_bad=50%", "blocks bad, which leaves no room for the exported pages"),
    ]:
        refused = entresol_command("device", "create", made, "--set", word)
        assert sentence in one_line(refused)
        assert not made.exists()


def test_faults_are_documented_with_their_units(entresol_command: Entresol) -> None:
    keys = json.loads(entresol_command("device", "presets", "--keys", "--json").out)
    faults = {entry["key"]: entry for entry in keys if entry["key"].startswith("faults.")}
    assert len(faults) == 13
    assert all(entry["doc"] and entry["range"] and entry["source"] for entry in faults.values())
