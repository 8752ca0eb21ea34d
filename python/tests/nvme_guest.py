"""A stock Linux in a guest of QEMU as the host of our NVMe/TCP target.

Debian's kernel with its own `nvme-tcp` and nvme-cli discovers and connects, makes an ext4, writes,
reads back, disconnects and connects anew with digests, discards, and stores and loads a line by
passthrough, of nvme-cli and of our own back end. `make e2e` runs it on a device of ours;
`scripts/setup e2e` brings what is needed.

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
TOOLS = ("mkfs.ext4", "nvme")
SIZES = ("--preset", "cxl", "--set", "nand.channels=1", "--set", "nand.chips_per_channel=2",
         "--set", "nand.dies_per_chip=1")  # fmt: skip
MINUTES = {"kvm": 3, "tcg": 20}
STEPS = ("found", "connected", "written", "disconnected", "passthrough", "back end, Ioctl",
         "back end, Uring", "refused", "complete")  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]
LINE = "nvme_line"


def pack(folder: Path) -> Path:
    """The guest's initial file system."""
    guest.PACKAGES["nvme"] = "nvme-cli"
    return guest.pack_tree(folder, MODULES, (*TOOLS, str(line())), {"init": "nvme-init"})


def line() -> Path:
    """Our back end for NVMe devices as a program: it is built if it is not there."""
    command = ("cargo", "build", "--quiet", "-p", "entresol-inloop", "--example", LINE)
    subprocess.run(command, check=True, cwd=ROOT)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "debug" / "examples" / LINE


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """A device of ours at a port."""
    entresol = (sys.executable, "-m", "entresol", "device")
    image = folder / "image"
    subprocess.run((*entresol, "create", str(image), *SIZES), check=True, stdout=subprocess.DEVNULL)
    log = folder / "served"
    with log.open("w") as out:
        command = (*entresol, "serve", str(image), "--nvme", "127.0.0.1:0")
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 60
        while (found := re.search(r"at 127\.0\.0\.1:(\d+)", log.read_text())) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise Missing(f"the device is not served: {log.read_text()}")
            time.sleep(0.05)
        yield int(found[1])
    finally:
        process.terminate()
        process.wait(60)
        print(log.read_text(), end="")


def run(port: int, folder: Path) -> str:
    """Runs the guest; what it said, if it came to its end."""
    why = guest.why_no_fast_guest()
    accelerator = "kvm" if why is None else "tcg"
    if why is not None:
        print(f"nvme: the guest is emulated: {why}", flush=True)
    command = (
        *guest.machine(accelerator, f"nvme.port={port}"), "-initrd", str(pack(folder)),
        "-netdev", "user,id=net", "-device", "e1000,netdev=net",
    )  # fmt: skip
    said = guest.said(command, 60 * MINUTES[accelerator], "nvme: complete")
    for step in STEPS:
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
                said = run(options.port, folder)
            else:
                with served(folder) as port:
                    said = run(port, folder)
        except Missing as missing:
            print(f"nvme: {missing}", file=sys.stderr)
            return 1
        print("\n".join(line for line in said.splitlines() if line.startswith("nvme: ")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
