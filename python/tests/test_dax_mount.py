"""`entresol mount -o dax=auto`: files that are synced often, on a real mount."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import Entresol, one_line
from file_server import without_fuse
from kill_lab import make_image
from mounted import Mount

from entresol.core import Json
from entresol.mounts import FileSystem

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


@pytest.fixture
def safe_log(tmp_path: Path, entresol_command: Entresol) -> Path:
    """A device of which the log alone survives a power cut, and ByteFS on it."""
    image = tmp_path / "logged"
    sets = ("nand.blocks_per_plane=64", "ssd.log.size=4MiB", "ssd.log.tx_log=64KiB",
            "ssd.dram=8MiB", "ssd.power_loss_protection=log", "ssd.flush_cost=1ms")  # fmt: skip
    make_image(image, "bytefs", sets)
    assert entresol_command("mkfs", image).code == 0
    return image


def test_syncs_become_lines_of_the_log_and_survive_a_kill(
    safe_log: Path, tmp_path: Path, entresol_command: Entresol
) -> None:
    folder = tmp_path / "mnt"
    folder.mkdir()
    with ExitStack() as stack:
        first = Mount(safe_log, folder, "-o", "dax=auto")
        stack.callback(first.clean)
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        records = [bytes([65 + number % 26]) * 3000 for number in range(300)]
        for number, record in enumerate(records):
            os.write(log, record)
            # Both kinds: times go with the batch.
            (os.fsync if number % 3 else os.fdatasync)(log)
        told = json.loads((folder / ".entresol" / "dax").read_text())
        assert told["at"] == "log" and told["memory"]["frames"] == 0
        assert 290 < told["counters"]["light_syncs"] <= 300
        shown = entresol_command("dax", "top", folder, "--once")
        assert "memory: the device's log" in shown.out
        refused = entresol_command("dax", "set", folder, "reserve=10")
        assert "dax_at=log has none" in one_line(refused)
        first.kill()
        os.close(log)
        stack.callback(Mount(safe_log, folder).clean)
        assert (folder / "log").read_bytes() == b"".join(records)


def test_a_place_that_cannot_be_is_one_line(
    safe_log: Path, drive: Path, tmp_path: Path, entresol_command: Entresol
) -> None:
    folder = tmp_path / "mnt"
    folder.mkdir()
    for image, options, said in (
        (drive, "dax=auto,dax_at=log", "--personality bytefs"),
        (safe_log, "dax=auto,dax_at=window", "device.pmem=64MiB"),
        (safe_log, "dax=auto,dax_reserve=5", "dax_reserve keeps frames of the window"),
        (safe_log, "dax_at=log", "add dax=auto"),
        (safe_log, "dax=auto,dax_at=lag", "Did you mean dax_at=log?"),
        (safe_log, "data=journal", "leave data=journal out"),
    ):
        refused = entresol_command("mount", image, folder, "-o", options)
        assert said in one_line(refused), options


def test_bad_options_are_one_line(drive: Path, tmp_path: Path, entresol_command: Entresol) -> None:
    folder, plain = tmp_path / "mnt", tmp_path / "plain"
    folder.mkdir()
    wrong = entresol_command("mount", drive, folder, "-o", "dax=auto,dax_upgrade=20")
    assert "ranges would go back and forth" in one_line(wrong)
    make_image(plain, "consumer-tlc", ("nand.blocks_per_plane=32",))
    assert entresol_command("mkfs", plain, "--personality", "ext4-like").code == 0
    never = entresol_command("mount", drive, folder, "-o", "dax=auto,dax_upgrade=900")
    assert "the ratio is at most 600 %" in one_line(never)
    alone = entresol_command("mount", drive, folder, "-o", "dax_policy=predict")
    assert "add dax=auto" in one_line(alone)
    without = entresol_command("mount", plain, folder, "-o", "dax=auto")
    assert "device.pmem=64MiB" in one_line(without)
    for option, said in (
        ("dax_upgrad=50", "Did you mean dax_upgrade=N?"),
        ("dax_after=4294967296", "at most 9 digits"),
    ):
        bad = entresol_command("mount", drive, folder, "-o", f"dax=auto,{option}")
        assert said in one_line(bad)
    trace = tmp_path / "none" / "trace.csv"
    nowhere = entresol_command("mount", drive, folder, "-o", "dax=auto", "--dax-trace", trace)
    assert f"{trace.parent} is no directory" in one_line(nowhere)
    there = entresol_command("mount", drive, folder, "-o", "dax=auto", "--dax-trace", __file__)
    assert "is there already" in one_line(there)


def _dax(folder: Path) -> Json:
    told: Json = json.loads((folder / ".entresol" / "dax").read_text())
    return told


def test_programs_ask_look_and_set_while_it_is_mounted(
    drive: Path, tmp_path: Path, entresol_command: Entresol
) -> None:
    folder, trace = tmp_path / "mnt", tmp_path / "decisions.csv"
    folder.mkdir()
    options = ("-o", "dax=auto,dax_policy=predict,dax_reserve=10", "--dax-trace", str(trace))
    mount = Mount(drive, folder, *options)
    with ExitStack() as stack:
        stack.callback(mount.clean)
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.setxattr(folder / "log", "user.entresol.dax", b"0-64KiB")
        with pytest.raises(OSError, match="Invalid argument"):
            os.setxattr(folder / "log", "user.entresol.dax", b"everything")
        os.fsync(log)
        for _ in range(20):
            os.write(log, b"x" * RECORD)
            os.fdatasync(log)
        told = _dax(folder)
        assert told["settings"]["policy"] == "predict" and told["settings"]["reserve"] == 10
        assert told["counters"]["light_syncs"] == 20
        assert told["memory"]["of_explicit"] == 1
        file = next(file for file in told["files"] if file["explicit_pages"])
        assert file["inode"] == os.fstat(log).st_ino and file["explicit_pages"] == [[0, 16]]
        assert file["ranges"][0]["write_backs"] == 20
        # Set by hand, and by the command.
        (folder / ".entresol" / "dax").write_text("upgrade=70 after=4\n")
        done = entresol_command("dax", "set", folder, "downgrade=20")
        assert done.code == 0 and "upgrade=70 downgrade=20 after=4" in done.out
        for wrong, why in (("upgrade=900", "at most 500 %"), ("order=3", "-o dax_order=")):
            assert why in one_line(entresol_command("dax", "set", folder, wrong))
        shown = entresol_command("dax", "top", folder, "--once")
        assert shown.code == 0, shown.err
        plain = shown.out.replace("\u00a0", " ")
        assert "20 by stores alone" in plain and "mapped explicitly: 0 B to 64.0 KiB" in plain
        as_json = entresol_command("dax", "top", folder, "--json")
        assert json.loads(as_json.out)["settings"]["upgrade"] == 70
        # Thresholds that follow: eight syncs of another file wait, which F has kept out.
        done = entresol_command("dax", "set", folder, "policy=adaptive", "after=20")
        assert done.code == 0, done.err
        with (folder / "table").open("wb", buffering=0) as table:
            for _ in range(10):
                table.write(b"x")
                os.fdatasync(table.fileno())
        assert _dax(folder)["thresholds"]["after"] == 10 and _dax(folder)["settings"]["after"] == 20
        shown = entresol_command("dax", "top", folder, "--once")
        words = " ".join(shown.out.replace("\u00a0", " ").split())
        assert "after 10 writes (set to 70/20/20)" in words
        os.close(log)
        mount.stop()
    lines = trace.read_text().splitlines()
    assert lines[0].startswith("time_us,inode,first_page,pages,event,")
    judged = [line.split(",") for line in lines[1:] if ",judged," in line]
    assert len(judged) >= 20 and judged[19][4:7] == ["judged", "20", "20"]


def test_what_is_refused_is_told_with_its_reason(
    drive: Path, tmp_path: Path, entresol_command: Entresol
) -> None:
    """The kernel hands on EINVAL alone: the reason is in `.entresol/dax` and in `dax top`."""
    folder = tmp_path / "mnt"
    folder.mkdir()
    with ExitStack() as stack:
        stack.callback(Mount(drive, folder, "-o", "dax=auto").clean)
        log, control = folder / "log", folder / ".entresol" / "dax"
        log.touch()
        assert _dax(folder)["refused"] == []
        for value in (b"everything", b"everything", b"8MiB-2MiB"):
            with pytest.raises(OSError, match="Invalid argument"):
                os.setxattr(log, "user.entresol.dax", value)
        # A file with a buffer would write twice.
        with control.open("wb", buffering=0) as file:
            for words in (b"upgrade=50 upgrade=900", b"upgrade"):
                with pytest.raises(OSError, match="Invalid argument"):
                    file.write(words)
        told = _dax(folder)
        assert told["settings"]["upgrade"] == 50, "what was before it"
        inode = log.stat().st_ino
        for each, (of, times, asked, why) in zip(told["refused"], (
            (inode, 2, "everything", "`0B-2MiB,8MiB-10MiB`"), (inode, 1, "8MiB-2MiB", "`all`"),
            (None, 1, "upgrade=900", "at most 600 %"), (None, 1, "upgrade", "as in upgrade=60"),
        ), strict=True):  # fmt: skip
            assert (each["inode"], each["times"], each["asked"]) == (of, times, asked)
            assert why in each["why"] and each["first_page"] is None
        shown = entresol_command("dax", "top", folder, "--once")
        said = " ".join(shown.out.replace("\u00a0", " ").split())
        assert f"refused, 2 times: everything of inode {inode}: the request makes no sense" in said
        assert "refused: upgrade=900: the upgrade threshold is 900 %" in said


@pytest.mark.parametrize("options", [("-o", "dax=explicit"), ()])
def test_a_command_asks_for_a_file_and_says_why_it_is_refused(
    drive: Path, tmp_path: Path, entresol_command: Entresol, options: tuple[str, ...]
) -> None:
    folder = tmp_path / "mnt"
    folder.mkdir()
    with ExitStack() as stack:
        stack.callback(Mount(drive, folder, *options).clean)
        log = folder / "log"
        log.touch()
        asked = entresol_command("dax", "map", log, "0-64KiB,1MiB-2MiB")
        assert asked.code == 0, asked.err
        assert os.getxattr(log, "user.entresol.dax") == b"0-64KiB,1MiB-2MiB"
        if options:
            (file,) = _dax(folder)["files"]
            assert file["explicit_pages"] == [[0, 16], [256, 512]]
        said = one_line(entresol_command("dax", "map", log, "2MiB-1MiB"))
        assert said.startswith(f"entresol: {log}: ") and "ranges of bytes as in" in said
        assert os.getxattr(log, "user.entresol.dax") == b"0-64KiB,1MiB-2MiB"
        for _ in range(2):
            assert entresol_command("dax", "map", log, "none").code == 0
        assert os.listxattr(log) == []
        missing = one_line(entresol_command("dax", "map", folder / "none", "all"))
        assert "No such file" in missing
    outside = one_line(entresol_command("dax", "map", tmp_path, "all"))
    assert "in no mounted file system of Entresol" in outside


def test_why_a_value_is_refused_is_not_why_a_move_of_the_file_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(inode: int, asked: str, why: str) -> dict[str, object]:
        return {"inode": inode, "asked": asked, "why": why}

    long = ",".join(["8MiB-2MiB"] * 20)
    told = {
        "refused": [
            refused(7, "everything", "it makes no sense"),
            refused(7, f"{long[:64]}…", "it is long"),
            refused(8, "everything", "another file"),
            refused(7, "reclaim", "the device takes no writes"),
        ]
    }
    monkeypatch.setattr(FileSystem, "dax", lambda _self: told)
    there = FileSystem(Path("mnt"))
    assert there.refusal(7, "everything") == "it makes no sense"
    assert there.refusal(7, long) == "it is long"
    assert there.refusal(7, "8MiB-2MiB") is None


def test_the_flag_of_linux_is_the_attribute(drive: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mnt"
    folder.mkdir()
    with ExitStack() as stack:
        stack.callback(Mount(drive, folder, "-o", "dax=explicit").clean)
        file = os.open(folder / "log", os.O_RDWR | os.O_CREAT)
        stack.callback(os.close, file)
        if _flags(file) is None:
            pytest.skip("this kernel does not pass flags of files on to FUSE")
        fcntl.ioctl(file, SET_FLAGS, struct.pack("L", DAX_FLAG))
        assert os.getxattr(folder / "log", "user.entresol.dax") == b"all"
        assert _flags(file) == DAX_FLAG
        fcntl.ioctl(file, SET_FLAGS, struct.pack("L", 0))
        assert os.listxattr(folder / "log") == []
        # Made in a directory that has it, as ext4 and XFS have it; what is moved keeps its own.
        (folder / "dir").mkdir()
        os.setxattr(folder / "dir", "user.entresol.dax", b"all")
        (folder / "dir" / "inner").mkdir()
        (folder / "dir" / "inner" / "file").touch()
        (folder / "dir" / "link").symlink_to("file")
        (folder / "log").rename(folder / "dir" / "log")
        attributes = {
            path.name: os.listxattr(path, follow_symlinks=False)
            for path in (folder / "dir").rglob("*")
        }
        wish = ["user.entresol.dax"]
        assert attributes == {"inner": wish, "file": wish, "link": [], "log": []}
        (folder / "part").mkdir()
        os.setxattr(folder / "part", "user.entresol.dax", b"0-4KiB")
        (folder / "part" / "file").touch()
        assert os.listxattr(folder / "part" / "file") == [], "ranges are the directory's own"


GET_FLAGS, SET_FLAGS, DAX_FLAG = 0x80086601, 0x40086602, 0x02000000


def _flags(file: int) -> int | None:
    try:
        told = fcntl.ioctl(file, GET_FLAGS, struct.pack("L", 0))
    except OSError as error:
        if error.errno == errno.ENOTTY:
            return None
        raise
    return int(struct.unpack("L", told)[0]) & 0xFFFFFFFF
