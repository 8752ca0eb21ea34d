"""`entresol device serve --fuse`: an image as one file, for programs that know files only."""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from conftest import Entresol, Serve
from file_server import reach, run, without_fuse
from kill_lab import make_image
from nbd_client import Client
from small_devices import BUSY

from entresol.device import connect

WITHOUT = without_fuse()
pytestmark = pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}")

BLOCK = 4096
PATIENCE = 300
"""Seconds that a program of others may take: one that hangs fails its test."""
KEEP_SIZE, PUNCH_HOLE, COLLAPSE, ZERO_RANGE = 1, 2, 8, 16


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A device."""
    made = tmp_path / "image"
    make_image(made, "cxl", BUSY)
    return made


def fallocate(fd: int, mode: int, at: int, size: int) -> None:
    """The system call; Python has only the mode without flags."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(fd, mode, ctypes.c_long(at), ctypes.c_long(size)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def fails_with(code: int, call: Callable[[], object]) -> None:
    """The call fails, with this number."""
    with pytest.raises(OSError) as caught:
        call()
    assert caught.value.errno == code, errno.errorcode.get(caught.value.errno or 0)


class Twin:
    """The file and what it must hold."""

    def __init__(self, fd: int, size: int, seed: int) -> None:
        self._fd = fd
        self._random = random.Random(seed)
        self.model = bytearray(size)

    def _range(self) -> tuple[int, int]:
        """Whole blocks, lines, or neither; small and large; often where others were."""
        unit = self._random.choice((1, 1, 64, 512, BLOCK))
        at = self._random.randrange(len(self.model)) // unit * unit
        at = min(at, self._random.randrange(1 << 20) // unit * unit) or at
        size = self._random.choice((1, 3, 8, 40)) * unit + self._random.randrange(unit)
        return at, min(size, len(self.model) - at)

    def act(self) -> None:
        """One of what a program does with a file."""
        at, size = self._range()
        (kind,) = self._random.choices(("write", "read", "zero", "sync"), (50, 35, 12, 3))
        if kind == "write":
            data = self._random.randbytes(size)
            assert os.pwrite(self._fd, data, at) == size
            self.model[at : at + size] = data
        elif kind == "read":
            assert os.pread(self._fd, size, at) == self.model[at : at + size], (at, size)
        elif kind == "zero":
            mode = self._random.choice((PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE, ZERO_RANGE | KEEP_SIZE))
            fallocate(self._fd, mode, at, size)
            self.model[at : at + size] = bytes(size)
        else:
            os.fsync(self._fd)


def content(file: Path) -> bytes:
    """All of it."""
    return file.read_bytes()


def test_the_file_holds_what_a_file_would_hold(serve: Serve) -> None:
    server = serve()
    fd = os.open(server.file, os.O_RDWR)
    twin = Twin(fd, os.fstat(fd).st_size, seed=5)
    for _ in range(1500):
        twin.act()
    os.close(fd)
    assert content(server.file) == twin.model
    said = server.stop()
    assert "for programs of this user; Ctrl-C stops" in said
    assert "through the file; 0 were refused or failed" in said
    assert not server.file.exists(), "unmounted"
    assert content(serve().file) == twin.model, "after an orderly end"


def test_both_ports_show_the_same_bytes_at_once(serve: Serve, tmp_path: Path) -> None:
    server = serve("--nbd", f"unix:{tmp_path / 'nbd'}")
    client = Client(tmp_path / "nbd")
    fd = os.open(server.file, os.O_RDWR)
    for turn in range(50):
        at = turn * BLOCK
        assert client.write(at, bytes([turn]) * BLOCK) == 0
        assert os.pread(fd, BLOCK, at) == bytes([turn]) * BLOCK
        assert os.pwrite(fd, b"file", at + 100) == 4
        assert client.read(at, BLOCK)[98:106] == bytes([turn] * 2) + b"file" + bytes([turn] * 2)
    os.close(fd)
    client.close()
    said = server.stop()
    assert "served 100 requests of 1 client and 100 requests through the file; 0 were" in said


def test_a_write_waits_for_an_open_transaction_but_not_for_ever(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "shm"
    server = serve("--shm", f"unix:{path}")
    fd = os.open(server.file, os.O_RDWR)
    with connect(path) as device, ThreadPoolExecutor() as pool:
        for is_committed in (False, True):
            tx = device.begin()
            device.write(0, b"open", tx)
            write = pool.submit(os.pwrite, fd, b"file" * (BLOCK // 4), 0)
            # Nobody else is kept waiting.
            assert os.pread(fd, 4, BLOCK) == bytes(4)
            assert not write.done()
            if is_committed:
                device.commit(tx)
                assert write.result(PATIENCE) == BLOCK
            else:
                fails_with(errno.EBUSY, partial(write.result, PATIENCE))
                device.abort(tx)
        assert device.read(0, 8) == b"filefile"
    os.close(fd)
    assert "through the file; 1 were refused or failed" in server.stop()


def test_the_file_has_the_size_of_the_device_and_keeps_it(serve: Serve) -> None:
    file = serve().file
    size = file.stat().st_size
    assert [entry.name for entry in file.parent.iterdir()] == ["device"]
    assert size % BLOCK == 0 and size > 30 << 20
    whole = os.statvfs(file)
    assert (whole.f_blocks * whole.f_frsize, whole.f_bfree) == (size, 0)
    fd = os.open(file, os.O_RDWR)
    os.ftruncate(fd, size)
    fails_with(errno.EPERM, lambda: os.ftruncate(fd, size - 1))
    fails_with(errno.EFBIG, lambda: os.ftruncate(fd, size + 1))
    fails_with(errno.EPERM, lambda: os.open(file, os.O_WRONLY | os.O_TRUNC))
    fails_with(errno.EPERM, lambda: (file.parent / "other").touch())
    fails_with(errno.EPERM, file.unlink)
    fails_with(errno.EPERM, lambda: file.rename(file.parent / "other"))
    fails_with(errno.EPERM, lambda: file.chmod(0o644))
    os.utime(fd)
    assert os.pwrite(fd, b"12345678", size - 4) == 4, "what there is room for"
    assert os.pread(fd, 100, size - 4) == b"1234"
    assert os.pread(fd, 100, size + 5) == b""
    fails_with(errno.ENOSPC, lambda: os.pwrite(fd, b"x", size))
    assert os.lseek(fd, 7, os.SEEK_DATA) == 7
    assert os.lseek(fd, 7, os.SEEK_HOLE) == size
    assert os.lseek(fd, 0, os.SEEK_END) == size
    fails_with(errno.ENXIO, lambda: os.lseek(fd, size, os.SEEK_DATA))
    fallocate(fd, 0, 0, size)
    fails_with(errno.EFBIG, lambda: fallocate(fd, 0, 0, size + 1))
    fallocate(fd, PUNCH_HOLE | KEEP_SIZE, size - 4, 1 << 40)
    assert os.pread(fd, 4, size - 4) == bytes(4)
    fails_with(errno.EOPNOTSUPP, lambda: fallocate(fd, COLLAPSE, 0, BLOCK))
    os.close(fd)


def test_a_mapping_of_the_file_is_the_device(serve: Serve) -> None:
    file = serve().file
    fd = os.open(file, os.O_RDWR)
    with mmap.mmap(fd, 1 << 20) as memory:
        memory[5000:5004] = b"mmap"
        memory.flush()
        assert os.pread(fd, 4, 5000) == b"mmap"
    os.close(fd)


def test_many_requests_at_once_are_each_answered_with_their_bytes(
    serve: Serve, tmp_path: Path
) -> None:
    file = serve().file
    fio = (
        "fio",
        "--name=v",
        "--ioengine=libaio",
        f"--filename={file}",
        "--direct=1",
        "--rw=randrw",
        "--bsrange=512-64k",
        "--bs_unaligned=0",
        "--blockalign=512",
        "--iodepth=32",
        "--size=12M",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--randseed=9",
        "--fsync=40",
    )
    done = subprocess.run(
        fio, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0 and "err= 0" in done.stdout, done.stdout + done.stderr


def test_bytes_that_the_flash_lost_are_an_error(serve: Serve, image: Path) -> None:
    server = serve()
    fd = os.open(server.file, os.O_RDWR)
    size = 8 << 20  # More than the caches hold.
    for at in range(0, size, 1 << 20):
        os.pwrite(fd, b"\x07" * (1 << 20), at)
    os.fsync(fd)
    media = image / "media.bin"
    with media.open("r+b") as disk:
        for at in range(0, media.stat().st_size, BLOCK):
            disk.seek(at)
            if disk.read(BLOCK) == b"\x07" * BLOCK:
                disk.seek(at + 100)
                disk.write(b"\x08")
    fails_with(errno.EIO, lambda: os.pread(fd, BLOCK, 0))
    fails_with(errno.EIO, lambda: os.pread(fd, 10, 100))
    assert os.pwrite(fd, b"new" + bytes(BLOCK - 3), 0) == BLOCK
    assert os.pread(fd, 3, 0) == b"new"
    os.close(fd)


def test_what_was_synced_survives_a_kill_and_the_mount_is_mended(
    serve: Serve, folder: Path
) -> None:
    server = serve()
    fd = os.open(server.file, os.O_RDWR)
    data = random.Random(3).randbytes(300_000)
    assert os.pwrite(fd, data, 12_345) == len(data)
    fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 20_000, 50_000)
    os.fdatasync(fd)
    server.kill()
    fails_with(errno.ENOTCONN, lambda: os.pread(fd, 1, 0))
    os.close(fd)
    fails_with(errno.ENOTCONN, lambda: list(folder.iterdir()))
    again = serve()
    assert f"{folder}: a killed server's mount is taken away" in again.said()
    expected = bytearray(data)
    expected[20_000 - 12_345 : 70_000 - 12_345] = bytes(50_000)
    with again.file.open("rb") as file:
        file.seek(12_345)
        assert file.read(len(data)) == expected
    again.stop()


def barriers(image: Path) -> int:
    """Flushes in the life of a device."""
    stats = run(sys.executable, "-m", "entresol", "device", "stats", image, "--json")
    count: int = json.loads(stats)["barriers"]
    return count


def test_each_sync_is_a_flush_of_the_device(serve: Serve, image: Path) -> None:
    before = barriers(image)
    server = serve()
    fd = os.open(server.file, os.O_RDWR)
    os.fsync(fd)
    os.fdatasync(fd)
    os.pwritev(fd, [b"synced by itself"], 0, os.RWF_DSYNC)
    os.close(fd)
    for flag in (os.O_SYNC, os.O_DSYNC):
        fd = os.open(server.file, os.O_RDWR | flag)
        os.pwrite(fd, b"synchronous", 0)
        os.close(fd)
    server.stop()
    assert barriers(image) - before == 5 + 2, "and at the end one of the file, one of the device"


def test_a_server_that_stops_does_not_wait_for_ever_for_open_files(serve: Serve) -> None:
    server = serve()
    fd = os.open(server.file, os.O_RDWR)
    assert os.pwrite(fd, b"kept", 64) == 4
    said = server.stop()
    assert f"{server.file} was still open; whoever has it open gets errors now" in said
    fails_with(errno.ENOTCONN, lambda: os.pread(fd, 1, 0))
    os.close(fd)
    with serve().file.open("rb") as file:
        assert file.read(70)[64:68] == b"kept"


def test_a_server_whose_file_is_unmounted_ends(serve: Serve) -> None:
    server = serve()
    run("umount", server.folder)
    assert "everything acknowledged is in the image" in server.wait()


def test_only_its_user_may_open_the_file_unless_told_otherwise(serve: Serve) -> None:
    if os.geteuid() != 0:
        pytest.skip("FUSE: only root can be somebody else")
    for more, told in (((), "Permission denied"), (("--allow-other",), "b'\\x00'")):
        server = serve(*more)
        reach(server.folder)
        read = f"print(open({str(server.file)!r}, 'rb').read(1))"
        done = subprocess.run(
            ("setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-I", "-S", "-c", read),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert told in done.stdout + done.stderr
        server.stop()


def test_a_directory_that_cannot_be_mounted_at_is_refused_in_one_line(
    entresol_command: Entresol, serve: Serve, image: Path, folder: Path, tmp_path: Path
) -> None:
    def refused(place: Path | str) -> str:
        done = entresol_command("device", "serve", image, "--fuse", place)
        assert done.code == 2 and done.err.count("\n") == 1, done.err
        return done.err

    assert "nothing: No such file or directory (os error 2); name an" in refused(
        tmp_path / "nothing"
    )
    assert "holds files, which would be hidden; name an empty directory" in refused(image)
    assert "is no directory; name an empty directory" in refused(image / "media.bin")
    assert "/proc: is where proc (proc) is mounted" in refused("/proc")
    other = tmp_path / "other"
    make_image(other, "cxl", BUSY)
    serve()
    done = entresol_command("device", "serve", other, "--fuse", folder)
    assert "another server of Entresol is mounted there" in done.err


def test_a_server_without_a_port_is_refused(entresol_command: Entresol, image: Path) -> None:
    done = entresol_command("device", "serve", image)
    assert done.code == 2
    assert "nothing says where to serve; give --nbd ADDRESS" in done.err
