"""File systems of ours that are mounted, and system calls that Python has not, for tests."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from file_server import START, detach, run

LOGGED = (
    "nand.channels=2",
    "nand.chips_per_channel=2",
    "nand.dies_per_chip=1",
    "nand.blocks_per_plane=128",
    "nand.pages_per_block=64",
    "ssd.dram=12MiB",
    "ssd.log.size=8MiB",
    "ssd.log.tx_log=256KiB",
)
"""The device of ByteFS with 128 MiB of flash and a log in proportion."""
KEEP_SIZE, PUNCH_HOLE, COLLAPSE, ZERO_RANGE = 1, 2, 8, 16
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
NOBODY = 65534
"""A user without rights."""
_AT_FDCWD = -100
_libc = ctypes.CDLL(None, use_errno=True)


def fallocate(fd: int, mode: int, at: int, size: int) -> None:
    """The system call; Python has only the mode without flags."""
    if _libc.fallocate(fd, mode, ctypes.c_long(at), ctypes.c_long(size)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def rename(old: Path, new: Path, flags: int) -> None:
    """The system call with flags."""
    names = os.fsencode(old), os.fsencode(new)
    if _libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


class _Handle(ctypes.Structure):
    """The kernel's `struct file_handle`."""

    _fields_ = (("size", ctypes.c_uint), ("kind", ctypes.c_int), ("bytes", ctypes.c_ubyte * 128))


def handle_of(path: Path) -> _Handle:
    """What stands for a file, whatever its name: `name_to_handle_at`."""
    handle, mount = _Handle(size=128), ctypes.c_int()
    named = (_AT_FDCWD, os.fsencode(path), ctypes.byref(handle), ctypes.byref(mount), 0)
    if _libc.name_to_handle_at(*named) != 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    return handle


def open_handle(root: Path, handle: _Handle) -> int:
    """Opens it for reading; `root` is of the same file system."""
    mount = os.open(root, os.O_RDONLY)
    fd = int(_libc.open_by_handle_at(mount, ctypes.byref(handle), os.O_RDONLY))
    code = ctypes.get_errno()
    os.close(mount)
    if fd < 0:
        raise OSError(code, "open_by_handle_at")
    return fd


class Mount:
    """A server in the foreground, and the directory at which it has mounted."""

    def __init__(self, image: Path, folder: Path, *more: str) -> None:
        self.folder = folder
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        command = ("mount", str(image), str(folder), *more)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "entresol", *command], stdout=self._log, stderr=self._log
        )
        deadline = time.monotonic() + START
        while "Ctrl-C unmounts it" not in self.said():
            assert self._process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.01)

    def said(self) -> str:
        """Everything it wrote."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def kill(self) -> None:
        """Ends it as a power cut would. The mount stays."""
        self._process.kill()
        assert self._process.wait(START) == -signal.SIGKILL, self.said()

    def stop(self) -> str:
        """Ends it as a user would; what it said."""
        if self._process.poll() is None:
            self._process.terminate()
        return self.wait()

    def wait(self) -> str:
        """Waits for its end; what it said."""
        assert self._process.wait(START) == 0, self.said()
        return self.said()

    def end(self) -> int:
        """Ends it as a user would; its exit code."""
        self._process.terminate()
        return self._process.wait(START)

    def clean(self) -> None:
        """Leaves nothing behind, whatever the test did."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(START)
        detach(self.folder)


def entresol(*words: str | Path) -> str:
    """Runs a command of ours that must succeed; what it wrote."""
    return run(sys.executable, "-m", "entresol", *words)


NO_ID = 2**32 - 1
"""Of an entry of an access list that is about nobody by number."""


def acl(*entries: tuple[int, int, int]) -> bytes:
    """An access list as an attribute holds it: of each entry its tag, what it allows, whom."""
    packed = (
        tag.to_bytes(2, "little") + may.to_bytes(2, "little") + who.to_bytes(4, "little")
        for tag, may, who in entries
    )
    return (2).to_bytes(4, "little") + b"".join(packed)


def fails_with(code: int, call: Callable[[], object]) -> None:
    """The call fails, with this number."""
    with pytest.raises(OSError) as caught:
        call()
    assert caught.value.errno == code, errno.errorcode.get(caught.value.errno or 0)


def as_nobody(script: str, *arguments: Path) -> str:
    """What a Python script says that somebody else runs."""
    who = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    python = (sys.executable, "-I", "-S", "-c", script)
    done = subprocess.run(
        (*who, *python, *map(str, arguments)),
        capture_output=True,
        text=True,
        check=False,
        timeout=START,
    )
    return done.stdout + done.stderr
