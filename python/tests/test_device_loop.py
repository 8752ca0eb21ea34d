"""File systems of the kernel on a device: a loop device over the file that FUSE shows."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from conftest import Serve
from file_server import loop, mounted, run, without_fuse, without_loops
from kill_lab import make_image

ROOM = (
    "nand.channels=2",
    "nand.chips_per_channel=2",
    "nand.dies_per_chip=1",
    "nand.blocks_per_plane=1024",
    "nand.pages_per_block=64",
    "ftl.over_provisioning=20%",
    "ssd.dram=16MiB",
    "ssd.log.size=8MiB",
)
"""XFS wants 300 MiB."""
MAKE = {"ext4": ("mkfs.ext4", "-q"), "xfs": ("mkfs.xfs", "-q")}
CHECK = {"ext4": ("fsck.ext4", "-f", "-n"), "xfs": ("xfs_repair", "-n")}


@pytest.fixture(params=MAKE)
def kind(request: pytest.FixtureRequest) -> str:
    """A file system; skipped, with the reason, where it cannot be had."""
    name: str = request.param
    reason = without_fuse() or without_loops(MAKE[name][0], CHECK[name][0])
    if reason is None and name not in Path("/proc/filesystems").read_text().split():
        reason = f"the kernel has no {name}"
    if reason is not None:
        pytest.skip(f"loop mount of {name}: {reason}")
    return name


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A device with room."""
    made = tmp_path / "image"
    make_image(made, "cxl", ROOM)
    return made


def write_files(top: Path, seed: int) -> dict[str, bytes]:
    """A few directories of files of all sizes, some of which are removed again."""
    draw = random.Random(seed)
    files = {}
    for index in range(60):
        name = f"d{index % 5}/f{seed}-{index}"
        (top / name).parent.mkdir(exist_ok=True)
        files[name] = draw.randbytes(draw.choice((0, 17, 4096, 70_000, 600_000)))
        (top / name).write_bytes(files[name])
    for name in draw.sample(sorted(files), 15):
        (top / name).unlink()
        del files[name]
    return files


def compare(top: Path, files: dict[str, bytes]) -> None:
    """Every file has its bytes."""
    for name, data in files.items():
        assert (top / name).read_bytes() == data, name


def test_a_file_system_of_the_kernel_lives_on_the_device(
    kind: str, serve: Serve, tmp_path: Path
) -> None:
    server = serve()
    with loop(server.file) as device:
        run(*MAKE[kind], device)
        with mounted(device, tmp_path / "top") as top:
            files = write_files(top, 1)
            run("fstrim", top)
        run(*CHECK[kind], device)
    server.stop()
    server = serve()
    with loop(server.file) as device:
        run(*CHECK[kind], device)
        with mounted(device, tmp_path / "top") as top:
            compare(top, files)
    assert " 0 were refused or failed" in server.stop()


def test_what_a_file_system_had_synced_survives_a_killed_device(
    kind: str, serve: Serve, tmp_path: Path
) -> None:
    server = serve()
    with loop(server.file) as device:
        run(*MAKE[kind], device)
        with mounted(device, tmp_path / "top") as top:
            files = write_files(top, 2)
            for name in files:
                fd = os.open(top / name, os.O_RDONLY)
                os.fsync(fd)
                os.close(fd)
            write_files(top / "d0", 3)
            server.kill()
    server = serve()
    with loop(server.file) as device:
        with mounted(device, tmp_path / "top") as top:  # The journal is replayed.
            compare(top, files)
        run(*CHECK[kind], device)
    assert " 0 were refused or failed" in server.stop()
