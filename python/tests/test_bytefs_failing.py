"""Mounts that run out of inodes, or whose flash wears out: programs hear it, and the reason is
told."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import Entresol
from file_server import START, without_fuse
from kill_lab import make_image
from mounted import LOGGED, WHITEOUT, Mount, entresol, fails_with, rename

WITHOUT = without_fuse()
pytestmark = pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}")

INODES = 32
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
WITH_LOG = ("ssd.dram=2MiB", "ssd.log.size=512KiB", "ssd.log.tx_log=64KiB")
DYING = (
    "faults.grown_bad=100%",
    "faults.rated_wear=3",
    "faults.program_failure=5%",
    "faults.erase_failure=5%",
    "faults.seed=1",
)
"""Blocks that all go bad within a few erases."""
WORN_OUT = "the flash is worn out and can only be read; copy what is on it to another device"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Mounts that end with the test."""
    with ExitStack() as held:
        yield held


def _mounted(image: Path, stack: ExitStack, *options: str) -> Mount:
    folder = image.with_name("mnt")
    folder.mkdir(exist_ok=True)
    mount = Mount(image, folder, *options)
    stack.callback(mount.clean)
    return mount


def test_without_inodes_nothing_is_made_until_a_file_is_removed(
    tmp_path: Path, stack: ExitStack, entresol_command: Entresol
) -> None:
    image = tmp_path / "ssd"
    make_image(image, "bytefs", LOGGED)
    entresol("mkfs", image, "--inodes", str(INODES))
    mount = _mounted(image, stack)
    folder = mount.folder
    assert (os.statvfs(folder).f_files, os.statvfs(folder).f_ffree) == (INODES, INODES - 1)
    (folder / "directory").mkdir()
    names = [folder / str(number) for number in range(INODES - 2)]
    for name in names:
        name.write_text(name.name)
    assert os.statvfs(folder).f_ffree == 0
    new = folder / "new"
    fails_with(errno.ENOSPC, new.touch)
    fails_with(errno.ENOSPC, new.mkdir)
    fails_with(errno.ENOSPC, lambda: new.symlink_to("0"))
    fails_with(errno.ENOSPC, lambda: os.mkfifo(new))
    fails_with(errno.ENOSPC, lambda: rename(names[0], new, WHITEOUT))
    assert sorted(folder.iterdir()) == sorted((*names, folder / "directory"))
    # What takes no inode is done as ever.
    names[0].write_bytes(b"x" * 100_000)
    os.link(names[0], new)
    new.rename(folder / "directory" / "moved")
    names[1].unlink()
    assert os.statvfs(folder).f_ffree == 1
    new.write_text("anew")
    fails_with(errno.ENOSPC, names[1].touch)
    mount.stop()
    _mounted(image, stack)
    assert new.read_text() == "anew" and names[2].read_text() == "2"
    assert (folder / "directory" / "moved").read_bytes() == b"x" * 100_000
    fails_with(errno.ENOSPC, names[1].touch)
    stack.close()
    told = entresol_command("fsck", image).out
    assert f"0 problems; 2 directories, {INODES - 2} files," in told, told


@pytest.mark.parametrize(
    ("preset", "more", "personality"),
    [("bytefs", WITH_LOG, "bytefs"), ("consumer-tlc", (), "ext4-like")],
)
def test_a_mount_whose_flash_wears_out_can_be_read_and_says_why(
    tmp_path: Path, stack: ExitStack, preset: str, more: tuple[str, ...], personality: str
) -> None:
    image = tmp_path / "ssd"
    make_image(image, preset, (*SMALL, *more, *DYING))
    entresol("mkfs", image, "--personality", personality)
    mount = _mounted(image, stack)
    folder = mount.folder
    stats = folder / ".entresol" / "stats"
    (folder / "kept").write_text("kept")
    entresol("fs", "sync", folder)
    file = os.open(folder / "f", os.O_RDWR | os.O_CREAT)
    held = ExitStack()
    stack.enter_context(held)
    held.callback(os.close, file)
    size = 64 << 10
    wanted: list[bytes] = []
    for number in range(5_000):
        wanted = [*wanted[-1:], bytes([number % 251 + 1]) * size]
        try:
            assert os.pwrite(file, wanted[-1], 0) == size
            os.fsync(file)
        except OSError as error:
            refused = error.errno
            break
        assert number > 0 or json.loads(stats.read_text())["failed"] is None
    # The one during which it happened hears of an error; the others that nothing can be written.
    assert number > 50 and refused == errno.EIO
    fails_with(errno.EROFS, lambda: os.pwrite(file, b"x", 0))
    fails_with(errno.EROFS, lambda: os.fsync(file))
    fails_with(errno.EROFS, (folder / "new").touch)
    fails_with(errno.EROFS, (folder / "kept").unlink)
    told = json.loads(stats.read_text())
    assert told["failed"] == WORN_OUT and told["errors"] > 0
    assert told["device"]["program_failures"] > 0 and told["device"]["retired_blocks"] > 0
    # The last one that was answered is there, or the one behind it.
    assert os.pread(file, size, 0) in wanted and (folder / "kept").read_text() == "kept"
    held.close()
    ended = mount.end()
    assert ended == 1, mount.said()
    assert f"{image}: the file system can only be read: {WORN_OUT}\n" in mount.said()
    again = subprocess.run(
        (sys.executable, "-m", "entresol", "mount", image, folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=START,
    )
    assert again.returncode == 1 and WORN_OUT in again.stderr and "-o ro" in again.stderr
    _mounted(image, stack, "-o", "ro")
    assert (folder / "f").read_bytes() in wanted and (folder / "kept").read_text() == "kept"
