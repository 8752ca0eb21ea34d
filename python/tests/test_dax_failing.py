"""Transparent DAX on mounts whose device fails while ranges move, or has too little memory: files
stay right, and the reason is told."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import Entresol
from file_server import without_fuse
from kill_lab import make_image
from mounted import Mount, entresol

from entresol.core import Json

WITHOUT = without_fuse()
pytestmark = pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}")

ATTRIBUTE = "user.entresol.dax"
PAGE, PAGES = 4096, 64
SMALL = (
    "nand.channels=2",
    "nand.chips_per_channel=1",
    "nand.dies_per_chip=1",
    "nand.blocks_per_plane=64",
    "nand.pages_per_block=16",
    "ftl.over_provisioning=40%",
    "ftl.gc_buffers=4",
    "ssd.buffers=8",
    "ssd.cache.mshr_count=4",
)
DYING = (
    "device.pmem=512KiB",
    "faults.grown_bad=100%",
    "faults.rated_wear=3",
    "faults.program_failure=5%",
    "faults.erase_failure=5%",
    "faults.seed=1",
)
"""Blocks that all go bad within a few erases."""
WORN_OUT = "the flash is worn out and can only be read"


def _mounted(image: Path, more: tuple[str, ...], options: str, stack: ExitStack) -> Mount:
    make_image(image, "consumer-tlc", (*SMALL, *more))
    entresol("mkfs", image, "--personality", "ext4-like")
    folder = image.with_name("mnt")
    folder.mkdir()
    mount = Mount(image, folder, "-o", options)
    stack.callback(mount.clean)
    return mount


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Mounts that end with the test."""
    with ExitStack() as held:
        yield held


def _dax(folder: Path) -> Json:
    told: Json = json.loads((folder / ".entresol" / "dax").read_text())
    return told


def _bytes(number: int, pages: int = PAGES) -> bytes:
    return bytes([number % 251 + 1]) * (pages * PAGE)


def _shown(command: Entresol, folder: Path) -> str:
    shown = command("dax", "top", folder, "--once")
    assert shown.code == 0, shown.err
    return " ".join(shown.out.replace("\u00a0", " ").split())


def _downgraded(file: int, number: int) -> bytes:
    """Has the policy upgrade the range that a new file begins with, put all its pages into the
    window and downgrade it again; what the last sync was answered for."""
    for _ in range(2):
        os.pwrite(file, b"x", 0)
        os.fdatasync(file)
    os.pwrite(file, _bytes(number), 0)
    os.fdatasync(file)
    for later in (1, 2, 3):
        os.pwrite(file, _bytes(number + later), 0)
    # A light one, and the last: behind it the range is moved to flash.
    os.fdatasync(file)
    return _bytes(number + 3)


def test_flash_that_wears_out_while_a_range_is_downgraded(
    tmp_path: Path, stack: ExitStack, entresol_command: Entresol
) -> None:
    options = "dax=auto,dax_upgrade=60,dax_downgrade=60,dax_after=1,dax_order=6"
    mount = _mounted(tmp_path / "ssd", DYING, options, stack)
    folder = mount.folder
    for number in range(1000):
        with (folder / "log").open("wb+", buffering=0) as log:
            inode, wanted = os.fstat(log.fileno()).st_ino, _downgraded(log.fileno(), number)
            if (refused := _dax(folder)["refused"]) != []:
                break
            (folder / "log").unlink()
    told = _dax(folder)
    assert told["counters"]["failures"] == 1 and told["counters"]["downgrades"] == number > 5
    (moved,) = refused
    assert (moved["inode"], moved["first_page"], moved["pages"]) == (inode, 0, PAGES)
    assert moved["asked"] == "downgrade" and WORN_OUT in moved["why"]
    assert f"refused: downgrade of inode {inode}, 0 B to 256 KiB: " in _shown(
        entresol_command, folder
    )
    stats = json.loads((folder / ".entresol" / "stats").read_text())
    assert WORN_OUT in stats["failed"]
    # What was answered for is there, and nothing more is taken.
    assert (folder / "log").read_bytes() == wanted
    with (
        (folder / "log").open("rb+", buffering=0) as log,
        pytest.raises(OSError, match="Read-only"),
    ):
        log.write(b"y")
    # Nor can it be unmounted in order: what was synced is recovered in memory.
    mount.kill()
    entresol("umount", folder)
    image = tmp_path / "ssd"
    refused = entresol_command("mount", image, folder)
    assert refused.code != 0 and WORN_OUT in refused.err and "-o ro" in refused.err
    for _ in range(2):
        read_only = Mount(image, folder, "-o", "ro")
        stack.callback(read_only.clean)
        assert (folder / "log").read_bytes() == wanted
        with pytest.raises(OSError, match="Read-only"):
            (folder / "other").touch()
        read_only.stop()
    checked = entresol_command("fsck", image)
    assert checked.code == 0 and "recovered in memory" in checked.out


def test_flash_that_wears_out_while_a_program_takes_its_wish_back(
    tmp_path: Path, stack: ExitStack
) -> None:
    mount = _mounted(tmp_path / "ssd", DYING, "dax=explicit", stack)
    log = os.open(mount.folder / "log", os.O_RDWR | os.O_CREAT)
    stack.callback(os.close, log)
    with pytest.raises(OSError, match="Input/output error"):
        for number in range(1000):
            os.setxattr(log, ATTRIBUTE, b"all")
            os.fdatasync(log)
            os.pwrite(log, _bytes(number), 0)
            os.fdatasync(log)
            os.removexattr(log, ATTRIBUTE)
    told = _dax(mount.folder)
    assert told["counters"]["light_syncs"] == number + 1 > 5
    (moved,) = told["refused"]
    assert (moved["inode"], moved["asked"]) == (os.fstat(log).st_ino, "downgrade")
    assert moved["first_page"] == 0 and WORN_OUT in moved["why"]
    assert os.pread(log, PAGES * PAGE, 0) == _bytes(number)


def test_a_sync_without_room_is_right_and_the_reason_is_told(
    tmp_path: Path, stack: ExitStack, entresol_command: Entresol
) -> None:
    mount = _mounted(tmp_path / "ssd", ("device.pmem=64KiB",), "dax=explicit", stack)
    log = os.open(mount.folder / "log", os.O_RDWR | os.O_CREAT)
    os.setxattr(log, ATTRIBUTE, b"all")
    os.fdatasync(log)
    os.pwrite(log, _bytes(1), 0)
    os.fdatasync(log)
    told = _dax(mount.folder)
    assert told["counters"]["light_syncs"] == 0 and told["counters"]["syncs_without_room"] == 1
    why = f"a sync of inode {os.fstat(log).st_ino} needs 64 frames and 14 are free, of which 0"
    assert told["lacked"]["why"].startswith(why) and told["lacked"]["kept"] == 0
    assert why in _shown(entresol_command, mount.folder)
    os.close(log)
    mount.kill()
    stack.callback(Mount(tmp_path / "ssd", mount.folder).clean)
    assert (mount.folder / "log").read_bytes() == _bytes(1)
