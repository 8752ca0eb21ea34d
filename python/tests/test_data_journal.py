"""`entresol mount -o data=journal`: behind a kill a write is there as a whole, or not at all."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from conftest import Entresol, Mounting, one_line
from file_server import without_fuse

WITHOUT = without_fuse()
needs_fuse = pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}")

SIZE = 400 << 10
ROUNDS = 3


def _overwrite(file: Path, written: list[int]) -> None:
    """Writes the whole file with one byte, and the next, until the server is killed."""
    fd = os.open(file, os.O_RDWR)
    try:
        while True:
            byte = (written[-1] + 1) % 256
            os.pwrite(fd, bytes([byte]) * SIZE, 0)
            os.fsync(fd)
            written.append(byte)
    except OSError:  # It was.
        os.close(fd)


@needs_fuse
def test_a_write_is_whole_behind_a_kill(
    entresol_command: Entresol, mount: Mounting, ssd: Path, folder: Path
) -> None:
    made = entresol_command("mkfs", ssd, "--force", "--journal", "4MiB")
    assert made.code == 0, made.err
    server = mount("-o", "data=journal")
    file = folder / "f"
    file.write_bytes(bytes(SIZE))
    file.chmod(0o600)
    written = [0]
    for _ in range(ROUNDS):
        known = len(written)
        writer = threading.Thread(target=_overwrite, args=(file, written))
        writer.start()
        while len(written) < known + 3:
            assert writer.is_alive(), server.said()
            time.sleep(0.001)
        server.kill()
        writer.join()
        server = mount("-o", "data=journal")
        found = file.read_bytes()
        assert len(found) == SIZE and len(set(found)) == 1, "a write is torn"
        assert found[0] in (written[-1], (written[-1] + 1) % 256), "what was synced is lost"
        written.append(found[0])
    server.stop()
    assert "0 problems" in entresol_command("fsck", ssd).out
    # The mode is the mount's: the next one may do without.
    server = mount("-o", "data=ordered")
    assert set(file.read_bytes()) == {written[-1]}
    server.stop()


def test_what_cannot_be_is_one_sentence(
    entresol_command: Entresol, ssd: Path, tmp_path: Path
) -> None:
    place = tmp_path / "mnt"
    for options, part in (
        ("data=journal", "make it anew with --journal 4MiB"),
        ("data=whole", "-o data=whole: is no option"),
        ("writeback,data=journal", "would take writes apart"),
    ):
        refused = entresol_command("mount", ssd, place, "-o", options)
        assert refused.code == 2 and part in one_line(refused), refused.err
    assert not place.exists()
    other = ("--personality", "bytefs-dual")
    assert entresol_command("mkfs", ssd, "--force", *other).code == 0
    refused = entresol_command("mount", ssd, place, "-o", "data=journal")
    assert "bytefs-dual uses none" in one_line(refused)
    much = entresol_command("mkfs", ssd, "--force", "--journal", "1TiB")
    assert "--journal is 1TiB" in one_line(much)
