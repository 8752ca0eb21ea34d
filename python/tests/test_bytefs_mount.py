"""`entresol mount`: how file systems are mounted, end, are killed and come back."""

from __future__ import annotations

import errno
import json
import mmap
import os
import random
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import Entresol, Mounting, one_line
from file_model import FileModel
from file_server import detach, reach, run, without_fuse
from kill_lab import make_image
from mounted import LOGGED, NO_ID, NOBODY, acl, as_nobody, entresol, fails_with

from entresol import core, mounts
from entresol.cli.mount import usual_cache

WITHOUT = without_fuse()
pytestmark = pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}")

BLOCK = 4096


def test_a_server_keeps_more_pages_on_a_larger_machine() -> None:
    assert usual_cache(1 << 30) == 256 << 20
    assert usual_cache(64 << 30) == 4 << 30


def test_a_full_file_system_says_so_and_lives_on(mount: Mounting, folder: Path) -> None:
    mount()
    (folder / "listed").mkdir()
    who = ((1, 7, NO_ID), (2, 5, NOBODY), (4, 0, NO_ID), (16, 7, NO_ID), (32, 0, NO_ID))
    os.setxattr(folder / "listed", "system.posix_acl_default", acl(*who))
    fd = os.open(folder / "f", os.O_RDWR | os.O_CREAT)
    piece = random.Random(4).randbytes(1 << 20)

    def fill(size: int) -> None:
        while True:
            os.write(fd, piece[:size])

    fails_with(errno.ENOSPC, lambda: fill(1 << 20))
    # Pages that wait hold more blocks than they come to take, until they are written back.
    size = -1
    while os.fstat(fd).st_size > size:
        os.fsync(fd)
        size = os.fstat(fd).st_size
        fails_with(errno.ENOSPC, lambda: fill(BLOCK))
    # A file without the list that it inherits would allow more than that.
    fails_with(errno.ENOSPC, (folder / "listed" / "file").touch)
    fails_with(errno.ENOSPC, (folder / "listed" / "below").mkdir)
    assert list((folder / "listed").iterdir()) == []
    assert size > 50 << 20
    assert os.pread(fd, 1 << 20, (size >> 21) << 20) == piece
    os.ftruncate(fd, 0)
    os.fsync(fd)
    assert os.write(fd, piece) == 1 << 20
    os.close(fd)


def test_what_was_synced_survives_a_kill_and_the_mount_is_mended(
    mount: Mounting, folder: Path
) -> None:
    first = mount()
    data = random.Random(5).randbytes(300_000)
    (folder / "d").mkdir()
    fd = os.open(folder / "d" / "f", os.O_RDWR | os.O_CREAT)
    os.write(fd, data)
    os.fsync(fd)
    synced = os.open(folder / "s", os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
    os.write(synced, b"by itself")
    direct = os.open(folder / "o", os.O_WRONLY | os.O_CREAT | os.O_DIRECT | os.O_SYNC)
    memory = mmap.mmap(-1, BLOCK)
    memory.write(b"o" * BLOCK)
    os.write(direct, memory)
    (folder / "renamed").write_text("moved")
    (folder / "renamed").rename(folder / "d" / "g")
    (folder / "last").write_text("unsynced by itself")
    mounts.at(folder).sync()
    first.kill()
    fails_with(errno.ENOTCONN, lambda: os.fsync(fd))
    for one in (fd, synced, direct):
        os.close(one)
    fails_with(errno.ENOTCONN, lambda: list(folder.iterdir()))
    again = mount()
    assert f"{folder}: a killed server's mount is taken away" in again.said()
    assert (folder / "d" / "f").read_bytes() == data
    assert (folder / "s").read_bytes() == b"by itself"
    assert (folder / "o").read_bytes() == b"o" * BLOCK
    assert (folder / "d" / "g").read_text() == "moved"
    assert (folder / "last").read_text() == "unsynced by itself"


def test_everything_is_there_after_an_orderly_end(mount: Mounting, folder: Path) -> None:
    first = mount()
    (folder / "f").write_text("kept")
    said = first.stop()
    assert "0 failed" in said and "everything written is in the image" in said
    assert list(folder.iterdir()) == []
    mount("-o", "ro")
    assert (folder / "f").read_text() == "kept"
    fails_with(errno.EROFS, (folder / "g").touch)


def test_what_nobody_synced_is_written_back_in_time(mount: Mounting, folder: Path) -> None:
    first = mount()
    (folder / "f").write_text("x" * 5_000)
    stats = folder / ".entresol" / "stats"
    deadline = time.monotonic() + 60
    while json.loads(stats.read_text())["file_system"]["dirty_pages"] > 0:
        assert time.monotonic() < deadline, "the server's clock writes nothing back"
        time.sleep(0.1)
    # The page is on the device; what says where it is follows at once.
    time.sleep(3)
    first.kill()
    detach(folder)
    mount()
    assert (folder / "f").read_text() == "x" * 5_000


def test_what_is_written_in_order_goes_while_more_comes(mount: Mounting, folder: Path) -> None:
    server = mount()
    fd = os.open(folder / "f", os.O_RDWR | os.O_CREAT)
    pieces = [bytes([number]) * (1 << 20) for number in range(1, 17)]
    for piece in pieces:
        os.write(fd, piece)
    stats = folder / ".entresol" / "stats"
    # Of two pieces one stays; before the clock writes back anything they are four seconds old.
    deadline = time.monotonic() + 3
    while (dirty := json.loads(stats.read_text())["file_system"]["dirty_pages"]) >= 512:
        assert time.monotonic() < deadline, f"{dirty} pages wait for a sync"
        time.sleep(0.01)
    os.fdatasync(fd)
    server.kill()
    os.close(fd)
    detach(folder)
    mount()
    assert (folder / "f").read_bytes() == b"".join(pieces)


def test_an_end_while_it_says_where_it_is_is_an_end_as_later(
    ssd: Path, folder: Path, tmp_path: Path
) -> None:
    made = tmp_path / "mount.rec"
    options = {"threads": 2, "record": str(made), "cache_bytes": None}

    def interrupted(_told: object) -> None:
        (folder / "f").write_text("acknowledged")
        raise KeyboardInterrupt

    served = core.fs_mount(ssd, folder, options, interrupted, lambda _reason: None)
    assert served["errors"] == 0 and not served["is_open"]
    assert '"create"' in made.read_text() or '"make"' in made.read_text()
    made.unlink()

    def fails(_told: object) -> None:
        raise OSError("nobody reads it")

    with pytest.raises(OSError, match="nobody reads it"):
        core.fs_mount(ssd, folder, options, fails, lambda _reason: None)
    assert not made.exists(), "nobody has asked for what there would be"
    assert not core.fs_check(ssd, repair=False)["was_recovered"]


def test_the_kernel_may_gather_writes(mount: Mounting, folder: Path) -> None:
    first = mount("-o", "writeback")
    assert json.loads((folder / ".entresol" / "stats").read_text())["writeback"]
    fd = os.open(folder / "f", os.O_RDWR | os.O_CREAT)
    for number in range(2_000):
        os.pwrite(fd, number.to_bytes(8, "little"), number * 8)
    os.fsync(fd)
    written = json.loads((folder / ".entresol" / "stats").read_text())["requests"]
    assert written < 500, "they were gathered"
    first.kill()
    fails_with(errno.ENOTCONN, lambda: os.close(fd))
    detach(folder)
    mount()
    found = (folder / "f").read_bytes()
    assert found == b"".join(number.to_bytes(8, "little") for number in range(2_000))


def test_random_operations_are_right_where_the_kernel_gathers_writes(
    entresol_command: Entresol, mount: Mounting, ssd: Path, folder: Path
) -> None:
    first = mount("-o", "writeback", "--threads", "3")
    models = [FileModel(folder / str(seed), seed) for seed in (21, 22, 23)]
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(model.run, 1000) for model in models]:
            done.result()
    for model in models:
        model.close()
    first.stop()
    assert "0 problems" in entresol_command("fsck", ssd).out


def test_several_threads_hear_the_kernel(mount: Mounting, folder: Path) -> None:
    mount("--threads", "4")
    script = (
        "import os, sys\n"
        "for n in range(150):\n"
        "    name = f'{sys.argv[1]}/{sys.argv[2]}-{n}'\n"
        "    with open(name, 'wb') as f:\n"
        "        f.write(name.encode() * 50); f.flush(); os.fdatasync(f.fileno())\n"
        "    os.rename(name, name + '-done')\n"
    )
    writers = [
        subprocess.Popen((sys.executable, "-c", script, folder, str(number))) for number in range(6)
    ]
    assert [writer.wait(60) for writer in writers] == [0] * 6
    found = list(folder.iterdir())
    assert len(found) == 900
    for file in found:
        assert file.read_text() == str(file).removesuffix("-done") * 50


def test_with_the_devices_pace_a_sync_keeps_nobody_waiting(mount: Mounting, folder: Path) -> None:
    first = mount("--pace", "real")
    data = random.Random(8).randbytes(8 << 20)
    syncs = threading.Event()

    def sync() -> None:
        with (folder / "f").open("wb", buffering=0) as file:
            for _ in range(3):
                file.seek(0)
                file.write(data)
                syncs.set()
                os.fsync(file.fileno())
                syncs.clear()

    syncing = threading.Thread(target=sync)
    syncing.start()
    # Answers that began and ended within a sync: who had to wait for it has none.
    count = 0
    while syncing.is_alive():
        began_within = syncs.is_set()
        (folder / ".entresol" / "stats").read_text()
        count += began_within and syncs.is_set()
    syncing.join()
    assert count > 0
    assert (folder / "f").read_bytes() == data
    assert "which it lagged by" in first.stop()


def test_the_server_tells_what_it_does(
    entresol_command: Entresol, mount: Mounting, folder: Path, ssd: Path
) -> None:
    mount()
    special = folder / ".entresol"
    assert sorted(entry.name for entry in special.iterdir()) == [
        "dax",
        "fsync",
        "map",
        "stats",
        "sync",
    ]
    assert special not in folder.iterdir(), "whoever copies a tree does not meet it"
    told = json.loads((special / "stats").read_text())
    assert told["image"] == str(ssd) and told["failed"] is None
    (folder / "f").write_bytes(bytes([7]) * 5 * BLOCK)
    assert entresol_command("fs", "sync", folder).code == 0
    later = json.loads((special / "stats").read_text())
    assert later["requests"] > told["requests"]
    assert later["file_system"]["written_bytes"] - told["file_system"]["written_bytes"] == 5 * BLOCK
    moved = [later["device"][f"{port}_port_writes"] for port in ("byte", "block")]
    assert min(moved) > 0
    where = json.loads(entresol_command("fs", "map", folder / "f", "--json").out)
    assert where["size_bytes"] == 5 * BLOCK
    assert sum(extent["count"] for extent in where["extents"]) == 5
    assert "20,480 B" in entresol_command("fs", "stat", folder / "f").out
    assert "20,480" in entresol_command("fs", "map", folder / "f").out
    (folder / "g").write_bytes(b"x")
    assert "until a sync or the clock: 1 page." in entresol_command("fs", "map", folder / "g").out
    fails_with(errno.EPERM, lambda: (special / "new").touch())
    fails_with(errno.EEXIST, special.mkdir)
    fails_with(errno.EPERM, lambda: special.rename(folder / "x"))
    fails_with(errno.EROFS, lambda: (special / "stats").write_text(""))
    fails_with(errno.ENOENT, lambda: (special / "map" / "4000").read_text())


def test_a_server_in_the_background_ends_with_umount(
    entresol_command: Entresol, ssd: Path, folder: Path
) -> None:
    folder.rmdir()  # It is made anew.
    said = entresol("mount", ssd, folder, "--daemon")
    assert said.startswith(f"{ssd}: mounted at {folder}") and "entresol umount" in said
    (folder / "f").write_text("kept")
    held = (folder / "f").open()
    told = one_line(entresol_command("umount", folder))
    assert f"{folder}: is in use; close what is open in it" in told
    held.close()
    assert entresol_command("umount", folder).code == 0
    assert list(folder.iterdir()) == []
    assert json.loads(entresol_command("device", "info", ssd, "--json").out)["is_open"] is False
    assert "0 problems; 1 directory, 1 file," in entresol_command("fsck", ssd).out
    entresol("mount", ssd, folder, "--daemon")
    assert (folder / "f").read_text() == "kept"
    run("umount", folder)


def test_umount_says_that_an_image_was_removed(
    entresol_command: Entresol, ssd: Path, folder: Path, tmp_path: Path
) -> None:
    entresol("mount", ssd, folder, "--daemon")
    (folder / "f").write_text("still there")
    moved = ssd.rename(tmp_path / "moved")
    assert mounts.at(folder).stats()["removed"] is None, "it has another name"
    moved.rename(ssd)
    (ssd / "dram.bin").unlink()
    told = one_line(entresol_command("umount", folder), 1)
    assert f"{folder}: {ssd}/dram.bin was removed, so everything" in told
    assert (folder / "f").read_text() == "still there"
    told = one_line(entresol_command("umount", folder, "--lazy"), 1)
    assert "is unmounted, and everything in the file system is lost" in told
    assert not folder.is_mount()


def test_umount_says_that_a_recording_could_not_be_written(
    entresol_command: Entresol, ssd: Path, folder: Path, tmp_path: Path
) -> None:
    place = tmp_path / "records"
    place.mkdir()
    entresol("mount", ssd, folder, "--daemon", "--record", place / "record")
    place.rmdir()
    told = one_line(entresol_command("umount", folder), 1)
    assert f"its recording could not be written to {place}/record" in told
    assert not folder.is_mount()


def test_the_mount_table_says_which_image_it_is(mount: Mounting, ssd: Path, folder: Path) -> None:
    mount()
    assert run("findmnt", "--noheadings", "--output", "SOURCE", folder) == f"entresol:{ssd}\n"


def test_umount_knows_a_killed_server_whatever_the_kernel_remembers(
    entresol_command: Entresol, mount: Mounting, folder: Path
) -> None:
    server = mount()
    assert folder.stat().st_ino == 1
    server.kill()
    assert folder.stat().st_ino == 1, "the kernel answers by itself"
    for command, place in (("stat", folder / "f"), ("map", folder), ("sync", folder)):
        asked = one_line(entresol_command("fs", command, place))
        assert f"{place}: its server was killed; mount the image there anew" in asked
    told = entresol_command("umount", folder)
    assert told.out == f"{folder}: a killed server's mount is taken away\n", told.err
    assert not folder.is_mount()


def test_what_the_kernel_gathers_is_no_hole(mount: Mounting, folder: Path) -> None:
    mount("-o", "writeback")
    fd = os.open(folder / "f", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x" * 65536)
    assert os.lseek(fd, 0, os.SEEK_DATA) == 0
    assert os.lseek(fd, 0, os.SEEK_HOLE) == 65536
    os.close(fd)


CAPABILITY = bytes.fromhex("0100000200200000000000000000000000000000")
"""`cap_net_raw+ep`, as a file has it."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives capabilities")
def test_capabilities_of_a_file_go_when_root_changes_it(mount: Mounting, folder: Path) -> None:
    """Of root's changes the kernel takes them away by itself; of others' the file system does."""
    mount("-o", "suid")
    file = folder / "f"
    file.write_bytes(b"x" * 5000)
    changes: dict[str, Callable[[int], object]] = {
        "write": lambda fd: os.pwrite(fd, b"y", 0),
        "truncate": lambda fd: os.ftruncate(fd, 100),
        "fallocate": lambda fd: os.posix_fallocate(fd, 0, 8192),
    }
    for name, change in changes.items():
        os.setxattr(file, "security.capability", CAPABILITY)
        fd = os.open(file, os.O_RDWR)
        change(fd)
        os.close(fd)
        assert "security.capability" not in os.listxattr(file), name


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices and trusts them")
def test_device_files_and_set_id_bits_count_if_root_says_so(mount: Mounting, folder: Path) -> None:
    first = mount("-o", "allow_other")
    reach(folder)
    os.mknod(folder / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    shutil.copy(shutil.which("id") or "/usr/bin/id", folder / "id")
    (folder / "id").chmod(0o4755)
    script = "import subprocess, sys; subprocess.run((sys.argv[1], '-u'))"
    fails_with(errno.EACCES, lambda: os.open(folder / "null", os.O_WRONLY))
    assert as_nobody(script, folder / "id") == f"{NOBODY}\n"
    first.stop()
    mount("-o", "allow_other,dev,suid")
    fd = os.open(folder / "null", os.O_WRONLY)
    assert os.write(fd, b"away") == 4
    os.close(fd)
    assert as_nobody(script, folder / "id") == "0\n"


def test_what_cannot_be_mounted_is_refused_in_one_line(
    entresol_command: Entresol, mount: Mounting, ssd: Path, folder: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    make_image(empty, "bytefs", LOGGED)
    told = one_line(entresol_command("mount", empty, folder))
    assert f"{empty}: the device has no file system of Entresol; make one" in told
    other = tmp_path / "other"
    other.mkdir()
    mount()
    assert "another server of Entresol is mounted there" in one_line(
        entresol_command("mount", empty, folder)
    )
    for words in (("mount", ssd, other), ("mkfs", ssd), ("fsck", ssd)):
        assert "is open in another process; stop that one" in one_line(entresol_command(*words))
    assert "is no directory; name an empty directory" in one_line(
        entresol_command("mount", empty, ssd / "media.bin")
    )
    assert "holds files" in one_line(entresol_command("mount", empty, ssd))
    assert f"{empty}: the device has no" in one_line(
        entresol_command("mount", empty, tmp_path / "new")
    )
    assert not (tmp_path / "new").exists()
    assert "-o sync: is no option" in one_line(
        entresol_command("mount", ssd, other, "-o", "ro,sync")
    )
    assert "no file system of Entresol is mounted" in one_line(entresol_command("umount", other))
    gone = one_line(entresol_command("umount", other / "gone"))
    assert "No such file or directory; name the directory of a mount." in gone
    assert "is in no mounted file system" in one_line(entresol_command("fs", "stat", ssd))


def test_a_file_system_is_not_made_over_another_by_accident(
    entresol_command: Entresol, ssd: Path
) -> None:
    assert "is not empty, and what is on it would be lost" in one_line(
        entresol_command("mkfs", ssd)
    )
    assert "is no personality of the file system; choose one of bytefs" in one_line(
        entresol_command("mkfs", ssd, "--personality", "zfs", "--force")
    )
    made = entresol_command("mkfs", ssd, "--force", "--inodes", "100")
    assert (made.code, made.out) == (0, f"{ssd}\n")


@pytest.mark.parametrize(
    "personality",
    ["bytefs-log", "bytefs-dual", "ext4-like", "pmfs-like", "f2fs-like", "nova-like"],
)
def test_every_personality_keeps_what_was_synced(
    entresol_command: Entresol, mount: Mounting, ssd: Path, folder: Path, personality: str
) -> None:
    made = entresol_command("mkfs", ssd, "--force", "--personality", personality)
    assert made.out == f"{ssd}\n", made.err
    first = mount()
    data = random.Random(6).randbytes(100_000)
    for number in range(50):
        (folder / f"{number}").write_bytes(data[number:])
    with (folder / "7").open("r+b") as file:
        file.seek(5_000)
        file.write(b"changed")
        file.flush()
        os.fsync(file.fileno())
    mounts.at(folder).sync()
    first.kill()
    detach(folder)
    assert "0 problems" in entresol_command("fsck", ssd).out
    mount()
    assert len(list(folder.iterdir())) == 50
    changed = bytearray(data[7:])
    changed[5_000:5_007] = b"changed"
    assert (folder / "7").read_bytes() == changed
    assert (folder / "49").read_bytes() == data[49:]


def test_doctor_says_what_there_is(entresol_command: Entresol) -> None:
    told = json.loads(entresol_command("doctor", "--json").out)
    found = {finding["name"]: finding for finding in told["findings"]}
    assert set(found) == {"FUSE", "loop devices", "io_uring", "KVM"}
    assert found["FUSE"]["is_there"], "these tests run"
    assert "FUSE" in entresol_command("doctor").out
