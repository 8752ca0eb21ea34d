"""`entresol mount -o dax=auto`: files that are synced often, on a real mount."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import Entresol, one_line
from file_server import without_fuse
from kill_lab import make_image
from mounted import Mount

WITHOUT = without_fuse()
pytestmark = pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}")

RECORD = 200


@pytest.fixture
def drive(tmp_path: Path, entresol_command: Entresol) -> Path:
    """A drive without a battery, with persistent memory, and the likeness of Ext4 on it."""
    image = tmp_path / "ssd"
    make_image(image, "consumer-tlc", ("nand.blocks_per_plane=32", "device.pmem=1MiB"))
    made = entresol_command("mkfs", image, "--personality", "ext4-like")
    assert made.code == 0, made.err
    return image


def test_syncs_become_stores_and_survive_a_kill(drive: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mnt"
    folder.mkdir()
    with ExitStack() as stack:
        first = Mount(drive, folder, "-o", "dax=auto")
        stack.callback(first.clean)
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        records = [bytes([65 + number % 26]) * RECORD for number in range(300)]
        for record in records:
            os.write(log, record)
            os.fdatasync(log)
        dax = json.loads((folder / ".entresol" / "stats").read_text())["dax"]
        assert dax["upgrades"] == 1 and 250 < dax["light_syncs"] < 300
        first.kill()
        os.close(log)
        # What is in persistent memory comes to its file whatever the options are.
        stack.callback(Mount(drive, folder).clean)
        assert (folder / "log").read_bytes() == b"".join(records)


def test_bad_options_are_one_line(drive: Path, tmp_path: Path, entresol_command: Entresol) -> None:
    folder, plain = tmp_path / "mnt", tmp_path / "plain"
    folder.mkdir()
    wrong = entresol_command("mount", drive, folder, "-o", "dax=auto,dax_upgrade=20")
    assert "ranges would go back and forth" in one_line(wrong)
    make_image(plain, "consumer-tlc", ("nand.blocks_per_plane=32",))
    assert entresol_command("mkfs", plain, "--personality", "ext4-like").code == 0
    without = entresol_command("mount", plain, folder, "-o", "dax=auto")
    assert "device.pmem=64MiB" in one_line(without)
