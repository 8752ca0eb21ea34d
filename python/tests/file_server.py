"""A server of an image as a file, and loop devices over it, for tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

START = 60.0


class FileServer:
    """A process that shows an image as `folder/device`."""

    def __init__(self, image: Path, folder: Path, *more: str) -> None:
        self.folder = folder
        self.file = folder / "device"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        serve = ("device", "serve", str(image), "--fuse", str(folder), *more)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "entresol", *serve], stdout=self._log, stderr=self._log
        )
        deadline = time.monotonic() + START
        while "Ctrl-C stops" not in self.said():
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
        assert self._process.wait(START) == 0, self.said()
        return self.said()

    def wait(self) -> str:
        """Waits for its end; what it said."""
        assert self._process.wait(START) == 0, self.said()
        return self.said()

    def clean(self) -> None:
        """Leaves nothing behind, whatever the test did."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(START)
        detach(self.folder)


def detach(folder: Path) -> None:
    """Takes a mount away, if there is one."""
    subprocess.run(("umount", "-l", str(folder)), capture_output=True, check=False)


def run(*command: str | Path) -> str:
    """Runs a program that must succeed; what it wrote."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def reach(folder: Path) -> None:
    """Lets everybody through to a directory of a test."""
    everybody = Path(tempfile.gettempdir())
    for parent in folder.parents:
        if parent == everybody:
            return
        parent.chmod(0o755)


def without_fuse() -> str | None:
    """Why there can be no mounts here, if there cannot."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "no /dev/fuse that this user may open"
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        return "neither root nor fusermount3"
    return None


def without_loops(*programs: str) -> str | None:
    """Why there can be no file systems over loop devices, if there cannot."""
    if os.geteuid() != 0:
        return "loop devices are root's"
    if not os.access("/dev/loop-control", os.R_OK | os.W_OK):
        return "no /dev/loop-control"
    missing = [name for name in ("losetup", "mount", *programs) if shutil.which(name) is None]
    return f"no {', '.join(missing)}" if missing else None


@contextmanager
def loop(file: Path) -> Iterator[str]:
    """A loop device over a file, without the host's page cache between."""
    attach = ("losetup", "--find", "--show", "--direct-io=on", "--sector-size", "4096", file)
    device = run(*attach).strip()
    try:
        assert run("losetup", "--noheadings", "--output", "DIO", device).strip() == "1"
        yield device
    finally:
        run("losetup", "--detach", device)


@contextmanager
def mounted(device: str, folder: Path, options: Sequence[str] = ()) -> Iterator[Path]:
    """A file system that is mounted."""
    folder.mkdir(exist_ok=True)
    run("mount", *options, device, folder)
    try:
        yield folder
    finally:
        run("umount", folder)
