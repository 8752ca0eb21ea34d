"""A stock Linux in a guest of QEMU as the host of our NVMe/TCP target.

Debian's kernel with its own `nvme-tcp` and nvme-cli discovers and connects, makes an ext4, writes,
reads back, disconnects and connects anew with digests, discards, stores and loads a line by
passthrough, of nvme-cli and of our own back end, runs a capture with it as the device, has fio
verify what it writes, and writes while the target is killed and started anew. `make e2e` runs it
on a device of ours; `scripts/setup e2e` brings what is needed.

Usage: python python/tests/nvme_guest.py [--port PORT]   (PORT: of a target that is served already)
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import likeness_guest as guest
from likeness_guest import Missing

MODULES = ("crc32c_generic", "e1000", "nvme_tcp", "ext4")
TOOLS = ("mkfs.ext4", "nvme", "fio")
SIZES = ("--preset", "cxl", "--set", "nand.channels=1", "--set", "nand.chips_per_channel=2",
         "--set", "nand.dies_per_chip=1")  # fmt: skip
MINUTES = {"kvm": 3, "tcg": 20}
STEPS = ("found", "connected", "written", "disconnected", "passthrough", "back end, Ioctl",
         "back end, Uring", "refused", "run on it", "mounted is refused",
         "verified by fio", "reads of 4 KiB at random, depth 32")  # fmt: skip
GIVEN_UP = "nvme: an error behind"
DEATH = ("under load", "an error behind", "nothing lost of")
DIES_AT = "nvme: kept 30"
ENTRESOL = (sys.executable, "-m", "entresol", "device")
ROOT = Path(__file__).resolve().parents[2]
LINE = "nvme_line"
CAPTURE = "capture.etr"
SHAPE = ("threads=4", "instructions=20000", "hot=1", "cold=8", "cold_share=300")


def pack(folder: Path) -> Path:
    """The guest's initial file system."""
    guest.PACKAGES.update(nvme="nvme-cli", fio="fio")
    line, bench = programs()
    capture = folder / CAPTURE
    command = (str(bench), "write", str(capture), *SHAPE)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    words = {"init": "nvme-init", CAPTURE: str(capture)}
    return guest.pack_tree(folder, MODULES, (*TOOLS, str(line), str(bench)), words)


def programs() -> tuple[Path, Path]:
    """Our back end for NVMe devices as a program, and the bench: built if they are not there."""
    for what in (("-p", "entresol-inloop", "--example", LINE), ("-p", "bench")):
        subprocess.run(("cargo", "build", "--quiet", *what), check=True, cwd=ROOT)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "debug" / "examples" / LINE, target / "debug" / "bench"


class Target:
    """A device of ours at a port, which is killed once under load and started anew."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "served"
        self._image = folder / "image"
        command = (*ENTRESOL, "create", str(self._image), *SIZES)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self.port = 0
        self._has_died = False
        self._start()

    def _start(self) -> None:
        """At the port of before, if there was one."""
        with self._log.open("w") as out:
            command = (*ENTRESOL, "serve", str(self._image), "--nvme", f"127.0.0.1:{self.port}")
            self._process = subprocess.Popen(command, stdout=out, stderr=out)
        deadline = time.monotonic() + 60
        while (found := re.search(r"at 127\.0\.0\.1:(\d+)", self._log.read_text())) is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Missing(f"the device is not served: {self._log.read_text()}")
            time.sleep(0.05)
        self.port = int(found[1])

    def watch(self, words: str) -> None:
        """Dies once the guest has been answered some writes, and is there again once the guest has
        given it up: before that, the guest would go on as if nothing had been."""
        if not self._has_died and DIES_AT in words:
            self._has_died = True
            self._process.kill()
            self._process.wait()
        elif self._process.returncode is not None and GIVEN_UP in words:
            self._start()

    def end(self) -> None:
        """In good order; prints what it has to say."""
        self._process.terminate()
        self._process.wait(60)
        print(self._log.read_text(), end="")


@contextmanager
def served(folder: Path) -> Iterator[Target]:
    """A target for as long as it is wanted."""
    target = Target(folder)
    try:
        yield target
    finally:
        target.end()


def run(port: int, folder: Path, target: Target | None) -> str:
    """Runs the guest; what it said, if it came to its end."""
    why = guest.why_no_fast_guest()
    accelerator = "kvm" if why is None else "tcg"
    if why is not None:
        print(f"nvme: the guest is emulated: {why}", flush=True)
    command = (
        *guest.machine(accelerator, f"nvme.port={port}{' nvme.dies' if target else ''}"),
        "-initrd", str(pack(folder)),
        "-netdev", "user,id=net", "-device", "e1000,netdev=net",
    )  # fmt: skip
    watch = target.watch if target else lambda _: None
    said = guest.said(command, 60 * MINUTES[accelerator], "nvme: complete", watch)
    for step in (*STEPS, *(DEATH if target else ()), "complete"):
        if f"nvme: {step}" not in said:
            raise Missing(f"the guest did not get to `{step}`; {guest.last(said)}")
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            if options.port is not None:
                said = run(options.port, folder, None)
            else:
                with served(folder) as target:
                    said = run(target.port, folder, target)
        except Missing as missing:
            print(f"nvme: {missing}", file=sys.stderr)
            return 1
        print("\n".join(line for line in said.splitlines() if line.startswith("nvme: ")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
