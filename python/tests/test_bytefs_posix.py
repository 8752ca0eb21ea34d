"""What programs see of a file system that is mounted: POSIX, call by call."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from file_model import FileModel
from file_server import run, without_fuse
from mounted import (
    COLLAPSE,
    EXCHANGE,
    KEEP_SIZE,
    NO_ID,
    NOBODY,
    NOREPLACE,
    PUNCH_HOLE,
    WHITEOUT,
    ZERO_RANGE,
    acl,
    as_nobody,
    fails_with,
    fallocate,
    handle_of,
    open_handle,
    rename,
)

WITHOUT = without_fuse()
pytestmark = pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}")

BLOCK = 4096
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


def test_a_renamed_file_replaces_what_had_its_name(here: Path) -> None:
    (here / "a").write_text("a")
    (here / "b").write_text("b")
    held = os.open(here / "b", os.O_RDONLY)
    (here / "a").rename(here / "b")
    assert (here / "b").read_text() == "a" and not (here / "a").exists()
    assert os.read(held, 9) == b"b" and os.fstat(held).st_nlink == 0
    os.close(held)


def test_rename_refuses_or_exchanges_if_told_to(here: Path) -> None:
    (here / "a").write_text("a")
    (here / "d").mkdir()
    (here / "d" / "inner").write_text("inner")
    fails_with(errno.EEXIST, lambda: rename(here / "a", here / "d", NOREPLACE))
    rename(here / "a", here / "d", EXCHANGE)
    assert (here / "d").read_text() == "a"
    assert (here / "a" / "inner").read_text() == "inner"
    fails_with(errno.ENOENT, lambda: rename(here / "a", here / "none", EXCHANGE))
    rename(here / "a", here / "new", NOREPLACE)
    assert [entry.name for entry in (here / "new").iterdir()] == ["inner"]


def is_whiteout(path: Path) -> bool:
    """Whether it is what an overlay takes for a name that was removed."""
    told = path.lstat()
    return stat.S_ISCHR(told.st_mode) and (told.st_rdev, stat.S_IMODE(told.st_mode)) == (0, 0)


def test_rename_leaves_a_whiteout_if_told_to(here: Path) -> None:
    (here / "a").write_text("a")
    (here / "d").mkdir()
    # The kernel keeps what it knows of names: it must not take the old one for free.
    rename(here / "a", here / "d" / "a", WHITEOUT)
    assert is_whiteout(here / "a") and (here / "d" / "a").read_text() == "a"
    fails_with(errno.EEXIST, (here / "a").mkdir)
    fails_with(errno.EEXIST, lambda: rename(here / "d", here / "a", WHITEOUT | NOREPLACE))
    fails_with(errno.EINVAL, lambda: rename(here / "d", here / "a", WHITEOUT | EXCHANGE))
    rename(here / "d", here / "e", WHITEOUT | NOREPLACE)
    assert is_whiteout(here / "d") and here.stat().st_nlink == 3
    rename(here / "e" / "a", here / "a", WHITEOUT)
    assert (here / "a").read_text() == "a" and is_whiteout(here / "e" / "a")
    (here / "e" / "a").unlink()
    (here / "e").rmdir()
    assert sorted(entry.name for entry in here.iterdir()) == ["a", "d"]


@only_root
def test_everybody_may_leave_a_whiteout_in_a_directory_of_theirs(here: Path) -> None:
    """As on Ext4: no right to make devices is asked for since Linux 5.8."""
    os.chown(here, NOBODY, NOBODY)
    script = (
        "import ctypes, os, sys\n"
        "os.chdir(sys.argv[1])\n"
        "open('a', 'w').close()\n"
        "print(ctypes.CDLL(None).renameat2(-100, b'a', -100, b'b', 4))\n"
    )
    assert as_nobody(script, here) == "0\n"
    assert is_whiteout(here / "a") and (here / "a").lstat().st_uid == NOBODY


def test_a_directory_is_not_moved_into_itself_nor_over_a_full_one(here: Path) -> None:
    (here / "a" / "b").mkdir(parents=True)
    (here / "c").mkdir()
    fails_with(errno.EINVAL, lambda: (here / "a").rename(here / "a" / "b" / "a"))
    fails_with(errno.ENOTEMPTY, lambda: (here / "c").rename(here / "a"))
    assert here.stat().st_nlink == 4
    (here / "c").rename(here / "a" / "b")
    assert (here.stat().st_nlink, (here / "a").stat().st_nlink) == (3, 3)
    fails_with(errno.ENOTEMPTY, (here / "a").rmdir)


def test_an_unlinked_file_lives_as_long_as_it_is_open(here: Path) -> None:
    fd = os.open(here / "f", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x" * 10_000)
    (here / "f").unlink()
    assert list(here.iterdir()) == []
    os.pwrite(fd, b"yes", 9_000)
    assert os.pread(fd, 5, 8_999) == b"xyesx"
    assert (os.fstat(fd).st_nlink, os.fstat(fd).st_size) == (0, 10_000)
    os.close(fd)
    (here / "f").write_text("another")
    assert (here / "f").read_text() == "another"


def test_a_removed_directory_that_is_open_is_empty(here: Path) -> None:
    (here / "d").mkdir()
    fd = os.open(here / "d", os.O_RDONLY | os.O_DIRECTORY)
    (here / "d").rmdir()
    assert os.listdir(fd) == []  # noqa: PTH208 -- a path would not find it.
    fails_with(errno.ENOENT, lambda: os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


def test_names_of_one_file_share_everything(here: Path) -> None:
    (here / "a").write_text("first")
    os.link(here / "a", here / "b")
    (here / "b").write_text("second")
    assert (here / "a").read_text() == "second"
    assert (here / "a").stat().st_nlink == 2 and (here / "a").samefile(here / "b")
    (here / "a").unlink()
    assert (here / "b").stat().st_nlink == 1
    fails_with(errno.EPERM, lambda: os.link(here, here / "loop"))


@pytest.mark.parametrize("size", [1, 59, 60, 61, 300, 4000, 4095])
def test_symbolic_links_of_every_length(here: Path, size: int) -> None:
    target = "t" * size
    (here / "link").symlink_to(target)
    assert str((here / "link").readlink()) == target
    assert (here / "link").lstat().st_size == size
    (here / "link").unlink()


def test_every_kind_of_file_can_be_made(here: Path) -> None:
    os.mkfifo(here / "pipe", 0o640)
    assert stat.filemode((here / "pipe").stat().st_mode) == "prw-r-----"
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(here)
        server.bind("socket")
    os.chdir("/")
    assert stat.S_ISSOCK((here / "socket").stat().st_mode)
    if os.geteuid() == 0:
        os.mknod(here / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        assert (here / "null").stat().st_rdev == os.makedev(1, 3)
        os.mknod(here / "disk", stat.S_IFBLK | 0o600, os.makedev(300, 70_000))
        assert (here / "disk").stat().st_rdev == os.makedev(300, 70_000)


def test_attributes_come_and_go_with_their_sizes(here: Path) -> None:
    file = here / "f"
    file.touch()
    assert os.listxattr(file) == []
    fails_with(errno.ENODATA, lambda: os.getxattr(file, "user.none"))
    os.setxattr(file, "user.one", b"1", os.XATTR_CREATE)
    fails_with(errno.EEXIST, lambda: os.setxattr(file, "user.one", b"2", os.XATTR_CREATE))
    fails_with(errno.ENODATA, lambda: os.setxattr(file, "user.two", b"2", os.XATTR_REPLACE))
    long = random.Random(1).randbytes(2000)
    os.setxattr(file, "user.long", long)
    os.setxattr(file, "user.empty", b"")
    assert sorted(os.listxattr(file)) == ["user.empty", "user.long", "user.one"]
    assert os.getxattr(file, "user.long") == long and os.getxattr(file, "user.empty") == b""
    os.removexattr(file, "user.long")
    fails_with(errno.ENODATA, lambda: os.removexattr(file, "user.long"))
    fails_with(errno.EOPNOTSUPP, lambda: os.setxattr(file, "system.other", b""))
    fails_with(errno.ENOSPC, lambda: os.setxattr(file, "user.huge", bytes(60_000)))
    assert sorted(os.listxattr(file)) == ["user.empty", "user.one"]


@only_root
def test_names_of_trusted_attributes_are_shown_to_root_alone(here: Path) -> None:
    file = here / "f"
    file.touch(0o666)
    here.chmod(0o755)
    for name in ("trusted.a", "user.b", "security.c"):
        os.setxattr(file, name, b"value")
    assert sorted(os.listxattr(file)) == ["security.c", "trusted.a", "user.b"]
    script = "import os, sys; print(sorted(os.listxattr(sys.argv[1])))"
    assert as_nobody(script, file) == "['security.c', 'user.b']\n"
    script = "import os, sys; os.getxattr(sys.argv[1], 'trusted.a')"
    assert "No data available" in as_nobody(script, file), "as on Ext4: it is not there for them"


def test_holes_are_found_and_read_as_zeroes(here: Path) -> None:
    fd = os.open(here / "f", os.O_RDWR | os.O_CREAT)
    far = 1 << 40
    os.pwrite(fd, b"x" * BLOCK, 16 * BLOCK)
    os.pwrite(fd, b"end", far)
    os.fsync(fd)
    assert os.fstat(fd).st_size == far + 3
    assert os.fstat(fd).st_blocks == 2 * BLOCK // 512
    found = [
        os.lseek(fd, at, how)
        for at, how in (
            (0, os.SEEK_DATA),
            (0, os.SEEK_HOLE),
            (16 * BLOCK + 7, os.SEEK_DATA),
            (16 * BLOCK, os.SEEK_HOLE),
            (17 * BLOCK, os.SEEK_DATA),
            (far + 1, os.SEEK_HOLE),
        )
    ]
    assert found == [16 * BLOCK, 0, 16 * BLOCK + 7, 17 * BLOCK, far, far + 3]
    fails_with(errno.ENXIO, lambda: os.lseek(fd, far + 3, os.SEEK_DATA))
    assert os.pread(fd, 100, 1 << 39) == bytes(100)
    os.close(fd)


def test_fallocate_gives_takes_and_clears(here: Path) -> None:
    fd = os.open(here / "f", os.O_RDWR | os.O_CREAT)
    fallocate(fd, 0, 0, 10 * BLOCK)
    assert os.fstat(fd).st_size == 10 * BLOCK == os.fstat(fd).st_blocks * 512
    fallocate(fd, KEEP_SIZE, 10 * BLOCK, BLOCK)
    assert os.fstat(fd).st_size == 10 * BLOCK
    assert os.pread(fd, 10 * BLOCK, 0) == bytes(10 * BLOCK)
    data = random.Random(2).randbytes(10 * BLOCK)
    model = bytearray(data)
    os.pwrite(fd, data, 0)
    fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 5000, 12_000)
    model[5000:17_000] = bytes(12_000)
    fallocate(fd, ZERO_RANGE, 30_000, 3_000)
    model[30_000:33_000] = bytes(3_000)
    assert os.pread(fd, 20 * BLOCK, 0) == model
    os.fsync(fd)
    assert os.lseek(fd, 4 * BLOCK - 1, os.SEEK_DATA) == 4 * BLOCK
    fallocate(fd, ZERO_RANGE, 10 * BLOCK, 100)
    assert os.fstat(fd).st_size == 10 * BLOCK + 100
    fails_with(errno.EOPNOTSUPP, lambda: fallocate(fd, COLLAPSE, 0, BLOCK))
    os.close(fd)


def test_truncation_cuts_and_grows_with_zeroes(here: Path) -> None:
    file = here / "f"
    file.write_bytes(b"x" * 10_000)
    os.truncate(file, 5_000)
    os.truncate(file, 9_000)
    assert file.read_bytes() == b"x" * 5_000 + bytes(4_000)
    with file.open("wb"):
        pass
    assert file.stat().st_size == 0 == file.stat().st_blocks


@pytest.mark.parametrize("unit", [1, 64, 512, BLOCK])
def test_direct_and_buffered_writes_see_each_other(here: Path, unit: int) -> None:
    rand = random.Random(unit)
    direct = os.open(here / "f", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    buffered = os.open(here / "f", os.O_RDWR)
    model = bytearray()
    for _ in range(150):
        fd = rand.choice((direct, buffered))
        at = rand.randrange(40 * BLOCK) // unit * unit
        size = rand.choice((1, 3, 9)) * unit
        if rand.random() < 0.5:
            data = rand.randbytes(size)
            memory = mmap.mmap(-1, size)
            memory.write(data)
            assert os.pwrite(fd, memory, at) == size
            model.extend(bytes(max(0, at + size - len(model))))
            model[at : at + size] = data
        else:
            assert os.pread(fd, size, at) == model[at : at + size], (at, size)
    os.close(direct)
    os.close(buffered)
    assert (here / "f").read_bytes() == model


@pytest.mark.parametrize("seed", [1, 2])
def test_random_operations_through_every_door_leave_what_they_must(here: Path, seed: int) -> None:
    model = FileModel(here / "f", seed)
    model.run(1500)
    model.close()


def test_a_mapping_is_the_file(here: Path) -> None:
    file = here / "f"
    file.write_bytes(b"." * 3 * BLOCK)
    fd = os.open(file, os.O_RDWR)
    with mmap.mmap(fd, 3 * BLOCK) as memory:
        memory[BLOCK : BLOCK + 4] = b"mmap"
        memory.flush()
        assert os.pread(fd, 6, BLOCK - 1) == b".mmap."
        os.pwrite(fd, b"pwrite", 100)
        assert memory[99:107] == b".pwrite."
    os.close(fd)
    expected = bytearray(b"." * 3 * BLOCK)
    expected[BLOCK : BLOCK + 4], expected[100:106] = b"mmap", b"pwrite"
    assert file.read_bytes() == expected


def test_times_are_those_that_were_set_or_when_it_happened(here: Path) -> None:
    file = here / "f"
    before = time.time_ns()
    file.write_text("x")
    made = file.stat()
    assert before - 10**9 < made.st_mtime_ns <= time.time_ns()
    for then in (1_234_567_890_123_456_789, 0, -1, -1_500_000_000, -3 * 10**9):
        os.utime(file, ns=(then, then + 5))
        assert (file.stat().st_atime_ns, file.stat().st_mtime_ns) == (then, then + 5)
    assert file.stat().st_ctime_ns >= made.st_ctime_ns
    run("touch", "-a", "-d", "2001-01-01 UTC", file)
    assert file.stat().st_atime == 978_307_200 and file.stat().st_mtime_ns == -3 * 10**9 + 5
    inner = here.stat().st_mtime_ns
    time.sleep(0.01)
    file.unlink()
    assert here.stat().st_mtime_ns > inner


def test_permissions_are_checked_and_the_umask_counts(here: Path) -> None:
    before = os.umask(0o027)
    try:
        (here / "f").touch()
        (here / "d").mkdir()
    finally:
        os.umask(before)
    assert (here / "f").stat().st_mode & 0o7777 == 0o640
    assert (here / "d").stat().st_mode & 0o7777 == 0o750
    (here / "d").chmod(0o1777)
    assert (here / "d").stat().st_mode & 0o7777 == 0o1777


@only_root
def test_others_may_do_what_permissions_say(here: Path) -> None:
    (here / "secret").write_text("x")
    (here / "secret").chmod(0o600)
    script = "import sys; print(open(sys.argv[1]).read())"
    assert "Permission denied" in as_nobody(script, here / "secret")
    (here / "secret").chmod(0o604)
    assert as_nobody(script, here / "secret") == "x\n"
    # In a sticky directory only owners remove.
    here.chmod(0o1777)
    script = "import os, sys; os.unlink(sys.argv[1])"
    assert "Operation not permitted" in as_nobody(script, here / "secret")
    os.chown(here / "secret", NOBODY, NOBODY)
    assert as_nobody(script, here / "secret") == ""
    # What is made in a directory with set-group-ID has its group.
    os.chown(here, 0, 4242)
    here.chmod(0o2777)
    (here / "d").mkdir()
    (here / "f").touch()
    assert (here / "d").stat().st_gid == (here / "f").stat().st_gid == 4242
    assert (here / "d").stat().st_mode & 0o2000


@only_root
def test_privileges_go_when_others_write_or_the_owner_changes(here: Path) -> None:
    file = here / "f"
    file.write_text("0123456789")

    def after(script: str) -> int:
        os.chown(file, NOBODY, NOBODY)
        file.chmod(0o6777)
        assert as_nobody(f"import os, sys; f = sys.argv[1]; {script}", file) == ""
        return file.stat().st_mode & 0o7777

    assert after("os.pwrite(os.open(f, os.O_WRONLY), b'x', 0)") == 0o777
    past = "os.pwrite(os.open(f, os.O_WRONLY | os.O_DIRECT), mmap.mmap(-1, 4096), 0)"
    assert after(f"import mmap; {past}") == 0o777
    assert after("os.truncate(f, 5)") == 0o777
    assert after("os.posix_fallocate(os.open(f, os.O_RDWR), 0, 20)") == 0o777
    assert after("os.open(f, os.O_RDONLY)") == 0o6777
    # The group's bit stays where the group cannot execute, unless others than the group change it.
    for group, left in ((NOBODY, 0o2767), (4242, 0o767)):
        os.chown(file, NOBODY, group)
        file.chmod(0o6767)
        script = "import os, sys; os.posix_fallocate(os.open(sys.argv[1], os.O_RDWR), 0, 20)"
        assert as_nobody(script, file) == ""
        assert file.stat().st_mode & 0o7777 == left
    file.chmod(0o6777)
    os.chown(file, 0, 0)
    assert file.stat().st_mode & 0o7777 == 0o777
    file.chmod(0o6777)
    file.write_text("root may")
    assert file.stat().st_mode & 0o7777 == 0o6777


@only_root
def test_access_lists_are_checked_inherited_and_agree_with_permissions(here: Path) -> None:
    none = NO_ID
    for_nobody = acl((1, 6, none), (2, 4, NOBODY), (4, 0, none), (16, 4, none), (32, 0, none))
    file = here / "f"
    file.write_text("x")
    file.chmod(0o600)
    here.chmod(0o755)
    script = "import sys; print(open(sys.argv[1]).read())"
    assert "Permission denied" in as_nobody(script, file)
    os.setxattr(file, "system.posix_acl_access", for_nobody)
    assert as_nobody(script, file) == "x\n"
    assert file.stat().st_mode & 0o777 == 0o640, "the group's permissions are the mask"
    file.chmod(0o600)
    assert "Permission denied" in as_nobody(script, file)
    # What a directory gives counts instead of the umask.
    default = acl((1, 7, none), (2, 5, NOBODY), (4, 5, none), (16, 7, none), (32, 0, none))
    os.setxattr(here, "system.posix_acl_default", default)
    before = os.umask(0o077)
    try:
        (here / "g").write_text("g")
        (here / "d").mkdir()
    finally:
        os.umask(before)
    assert (here / "g").stat().st_mode & 0o777 == 0o660
    assert as_nobody(script, here / "g") == "g\n"
    assert os.getxattr(here / "d", "system.posix_acl_default") == default
    minimal = acl((1, 6, none), (4, 4, none), (32, 4, none))
    os.setxattr(here / "g", "system.posix_acl_access", minimal)
    assert (here / "g").stat().st_mode & 0o777 == 0o644
    assert "system.posix_acl_access" not in os.listxattr(here / "g")


@only_root
def test_a_handle_finds_its_file_when_the_kernel_has_forgotten_it(here: Path) -> None:
    (here / "f").write_text("found")
    handle = handle_of(here / "f")
    Path("/proc/sys/vm/drop_caches").write_text("2")
    fd = open_handle(here, handle)
    assert os.read(fd, 9) == b"found"
    os.close(fd)
    (here / "f").unlink()
    fails_with(errno.ESTALE, lambda: open_handle(here, handle))


def test_locks_exclude_each_other(here: Path) -> None:
    (here / "f").touch()
    with (here / "f").open("r+") as one:
        fcntl.lockf(one, fcntl.LOCK_EX)
        script = (
            "import fcntl, sys; f = open(sys.argv[1], 'r+');"
            "fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"
        )
        other = subprocess.run((sys.executable, "-c", script, here / "f"), capture_output=True)
        assert b"BlockingIOError" in other.stderr


def test_a_large_directory_is_listed_once_each(here: Path) -> None:
    names = {f"{'long-' * (number % 7)}{number}" for number in range(2_000)}
    for name in names:
        (here / name).touch()
    assert sorted(entry.name for entry in here.iterdir()) == sorted(names)
    with os.scandir(here) as entries:
        found = [(entry.name, entry.stat().st_ino) for entry in entries]
    assert len({number for _, number in found}) == 2_000 and {name for name, _ in found} == names
    # Names that go while they are listed do not make others come twice or stay away.
    kept = {name for name in names if name.endswith("3")}
    seen = []
    with os.scandir(here) as entries:
        for entry in entries:
            seen.append(entry.name)
            if entry.name not in kept:
                (here / entry.name).unlink()
    assert sorted(seen) == sorted(names)
    assert {entry.name for entry in here.iterdir()} == kept


def test_names_have_limits(here: Path) -> None:
    (here / ("n" * 255)).touch()
    assert [entry.name for entry in here.iterdir()] == ["n" * 255]
    fails_with(errno.ENAMETOOLONG, lambda: (here / ("n" * 256)).touch())
    odd = os.fsencode(here) + b"/\xff\x01\n "
    os.close(os.open(odd, os.O_CREAT | os.O_WRONLY))
    assert odd in [os.fsencode(entry) for entry in here.iterdir()]
    Path(os.fsdecode(odd)).unlink()


def test_bytes_are_copied_within_the_server(here: Path) -> None:
    data = random.Random(3).randbytes(300_000)
    (here / "a").write_bytes(data)
    source, target = os.open(here / "a", os.O_RDONLY), os.open(here / "b", os.O_RDWR | os.O_CREAT)
    assert os.copy_file_range(source, target, 200_000, 1_000, 5) == 200_000
    os.close(source)
    assert os.pread(target, 300_000, 0) == bytes(5) + data[1_000:201_000]
    os.close(target)


def test_append_adds_at_the_end(here: Path) -> None:
    files = [(here / "f").open("ab", buffering=0) for _ in range(2)]
    for number in range(100):
        files[number % 2].write(f"{number},".encode())
    for file in files:
        file.close()
    assert (here / "f").read_text() == "".join(f"{number}," for number in range(100))


def test_free_room_is_told_and_comes_back(here: Path) -> None:
    before = os.statvfs(here)
    assert (before.f_frsize, before.f_namemax) == (BLOCK, 255)
    (here / "f").write_bytes(bytes(range(256)) * 4096)
    os.fsync(os.open(here / "f", os.O_RDONLY))
    full = os.statvfs(here)
    assert before.f_bfree - full.f_bfree >= 256 and before.f_ffree - full.f_ffree == 1
    (here / "f").unlink()


def test_a_program_of_many_requests_finds_its_bytes(here: Path, tmp_path: Path) -> None:
    # A file for each of fio's two jobs. It takes one file for both where its working directory
    # has anything named as the job that is no file, and then each finds what the other wrote.
    fio = (
        "fio",
        "--name=v",
        f"--directory={here}",
        "--rw=randrw",
        "--size=4M",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--randseed=9",
        "--fsync=20",
        "--numjobs=2",
        "--group_reporting",
    )
    ways = (
        ("--ioengine=psync", "--bsrange=64-64k", "--bs_unaligned=1"),
        ("--ioengine=mmap", "--bsrange=4k-64k"),
        ("--ioengine=libaio", "--iodepth=8", "--direct=1", "--bsrange=512-64k"),
    )
    for way in ways:
        done = subprocess.run(
            (*fio, *way), capture_output=True, text=True, cwd=tmp_path, check=False, timeout=60
        )
        assert done.returncode == 0 and "err= 0" in done.stdout, done.stdout + done.stderr
        assert sorted(name.name for name in here.iterdir()) == ["v.0.0", "v.1.0"]
