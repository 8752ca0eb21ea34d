"""`entresol device clone`: images with what others hold."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import Entresol, one_line
from file_server import loop, mounted, run, without_loops

from entresol import cloning

# Device DRAM is written whole when it is made: the default's would be 340 MB in each copy.
SMALL = (
    "ssd.dram=12MiB",
    "ssd.log.size=1MiB",
    "nand.channels=1",
    "nand.chips_per_channel=1",
    "nand.dies_per_chip=1",
    "nand.blocks_per_plane=72",
    "nand.pages_per_block=16",
)


@pytest.fixture(name="image")
def made_image(entresol_command: Entresol, tmp_path: Path) -> Path:
    return _made(entresol_command, tmp_path)


def _made(entresol_command: Entresol, folder: Path) -> Path:
    """A small device with a file system."""
    made = folder / "ssd"
    sets = [word for value in SMALL for word in ("--set", value)]
    assert entresol_command("device", "create", made, *sets).code == 0
    assert entresol_command("mkfs", made).code == 0
    return made


def test_a_clone_holds_the_same_and_lives_apart(
    entresol_command: Entresol, image: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new"
    done = entresol_command("device", "clone", image, new)
    assert done.code == 0 and done.out == f"{new}\n"
    assert "shares its blocks" in done.err or "copied: no reflinks here" in done.err
    for name in cloning.FILES:
        assert (new / name).read_bytes() == (image / name).read_bytes()
        # Holes stay holes.
        assert (new / name).stat().st_blocks <= (image / name).stat().st_blocks + 64
    before = [(image / name).read_bytes() for name in cloning.FILES]
    assert entresol_command("mkfs", new, "--force", "--personality", "pmfs-like").code == 0
    assert [(image / name).read_bytes() for name in cloning.FILES] == before
    assert entresol_command("fsck", image).code == entresol_command("fsck", new).code == 0


def test_with_reflinks_a_clone_takes_no_room(entresol_command: Entresol, tmp_path: Path) -> None:
    if why := without_loops("mkfs.xfs"):
        pytest.skip(f"no XFS to clone on: {why}")
    disk = tmp_path / "disk"
    with disk.open("wb") as file:
        file.truncate(512 << 20)
    with ExitStack() as stack:
        device = stack.enter_context(loop(disk))
        run("mkfs.xfs", "-q", "-m", "reflink=1", device)
        folder = stack.enter_context(mounted(device, tmp_path / "xfs"))
        image = _made(entresol_command, folder)
        os.sync()
        before = os.statvfs(folder).f_bfree
        done = entresol_command("device", "clone", image, folder / "new")
        assert done.code == 0 and "shares its blocks" in done.err
        os.sync()
        taken = before - os.statvfs(folder).f_bfree
        held = sum((image / name).stat().st_blocks for name in cloning.FILES) // 8
        assert held > 1000 and taken < held / 20, (held, taken)
        again = ("mkfs", folder / "new", "--force", "--personality", "pmfs-like")
        assert entresol_command(*again).code == 0
        assert entresol_command("fsck", image).code == 0
        assert entresol_command("fsck", folder / "new").code == 0


def test_what_cannot_be_cloned_is_one_sentence(
    entresol_command: Entresol, image: Path, tmp_path: Path
) -> None:
    there = sorted(tmp_path.iterdir())
    for source, target, part in (
        (tmp_path / "none", tmp_path / "new", "none"),
        (image, image, "is there already"),
        (image, tmp_path / "no" / "new", "No such file"),
    ):
        done = entresol_command("device", "clone", source, target)
        assert done.code in (1, 2) and part in done.err and done.err.count("\n") == 1, done.err
    with cloning._alone(image):
        done = entresol_command("device", "clone", image, tmp_path / "new")
    assert done.code == 2 and "is in use" in one_line(done)
    assert sorted(tmp_path.iterdir()) == there


def test_a_snapshot_is_kept_with_its_image_and_cloned_back(
    entresol_command: Entresol, image: Path, tmp_path: Path
) -> None:
    none = entresol_command("device", "snapshot", image)
    assert (none.code, none.out) == (0, "") and "has no snapshots" in none.err
    before = [(image / name).read_bytes() for name in cloning.FILES]
    made = entresol_command("device", "snapshot", image, "first")
    place = image / "snapshots" / "first"
    assert (made.code, made.out) == (0, f"{place}\n")
    assert entresol_command("mkfs", image, "--force", "--personality", "pmfs-like").code == 0
    assert entresol_command("device", "snapshot", image, "second").code == 0
    listed = json.loads(entresol_command("device", "snapshot", image, "--json").out)["snapshots"]
    assert [each["name"] for each in listed] == ["first", "second"]
    assert listed[0]["image"] == str(place) and listed[0]["made"] <= listed[1]["made"]
    table = entresol_command("device", "snapshot", image).out.splitlines()
    assert len(table) == 2 and table[0].endswith(str(place))
    back = tmp_path / "back"
    assert entresol_command("device", "clone", place, back).code == 0
    assert [(back / name).read_bytes() for name in cloning.FILES] == before
    assert not (back / "snapshots").exists()
    assert entresol_command("fsck", image).code == entresol_command("fsck", back).code == 0


def test_a_snapshot_keeps_its_time_and_removes_what_a_killed_one_left(image: Path) -> None:
    left = image / "snapshots" / f".old.unfinished-{2**22 + 1}"
    alive = image / "snapshots" / f".old.unfinished-{os.getppid()}"
    for each in (left, alive):
        each.mkdir(parents=True)
        (each / "media.bin").write_bytes(b"half")
    place, _ = cloning.snapshot(image, "first")
    assert not left.exists() and alive.exists()
    (made,) = [each.made for each in cloning.snapshots(image)]
    os.utime(place, (1, 1))
    cloning.snapshot(place, "inner")
    assert [each.made for each in cloning.snapshots(image)] == [made]
    assert [each.name for each in cloning.snapshots(place)] == ["inner"]


def test_what_is_no_snapshot_is_one_sentence(
    entresol_command: Entresol, image: Path, tmp_path: Path
) -> None:
    assert entresol_command("device", "snapshot", image, "there").code == 0
    for source, name, part in (
        (image, "there", "is there already"),
        (image, "a/b", "is no name"),
        (image, ".hidden", "is no name"),
        (tmp_path / "none", "new", "none"),
    ):
        done = entresol_command("device", "snapshot", source, name)
        assert done.code in (1, 2) and part in one_line(done), done.err
    with cloning._alone(image):
        done = entresol_command("device", "snapshot", image, "busy")
    assert done.code == 2 and "is in use" in one_line(done)
    assert [each.name for each in (image / "snapshots").iterdir()] == ["there"]


def test_holes_are_not_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with source.open("wb") as file:
        file.truncate(64 << 20)
        os.pwrite(file.fileno(), b"begin", 0)
        os.pwrite(file.fileno(), b"middle", 33 << 20)
    with source.open("rb") as old, target.open("wb") as new:
        copied = cloning._copy_data(old.fileno(), new.fileno())
    assert copied < 1 << 20
    assert source.read_bytes() == target.read_bytes()
