"""How like the real ones our Ext4-like and F2FS-like are: bytes by class and flushes, side by side.

The same programs (`scripts/e2e-guest/programs.sh`) run by the same busybox on a real file system in
a guest of QEMU, whose disk is a device of ours over NBD, and on a mount of the personality on the
same device. What is compared is what went between host and device while they ran and until
everything was durable.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import likeness_guest as guest
from likeness_classes import CLASSES, DATA, JOURNAL, METADATA, Moved, Wrong, check_whole, count

PERSONALITIES = {"ext4": "ext4-like", "f2fs": "f2fs-like"}
DEVICE = (
    "--preset", "bytefs-cache",
    "--set", "nand.channels=1", "--set", "nand.chips_per_channel=2",
    "--set", "nand.dies_per_chip=2",
    "--set", "ssd.power_loss_protection=none",
)  # fmt: skip
"""2 GiB of the device that the paper's competitors have. Without a battery: a device with one is
asked for no flushes."""
MOST_APART = 0.25
EXPLAINED = 2
START = 60.0
WRITTEN = {METADATA: "metadata written", JOURNAL: "journal written", DATA: "data written"}
QUANTITIES = (*WRITTEN.values(), "flushes")
"""What is judged."""
FEW = {**dict.fromkeys(WRITTEN.values(), 64 << 10), "flushes": 8}
"""Less than this in both is rounding: it is shown and has no ratio."""
_ENTRESOL = (sys.executable, "-m", "entresol")
_PATTERN = 32 << 20


def entresol(*words: str | Path) -> str:
    """Runs a command of ours that must succeed; what it wrote."""
    done = subprocess.run(
        (*_ENTRESOL, *map(str, words)), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise guest.Missing(f"entresol {words[0]} fails: {done.stderr.strip() or done.stdout}")
    return done.stdout


@contextmanager
def served(image: Path, socket: Path) -> Iterator[None]:
    """An image at a socket."""
    process = subprocess.Popen(
        (*_ENTRESOL, "device", "serve", str(image), "--nbd", f"unix:{socket}"),
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + START
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise guest.Missing(f"entresol device serve {image} does not serve.")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(START)


@dataclass(frozen=True)
class Row:
    """One quantity of one program."""

    program: str
    quantity: str
    real: int
    ours: int

    @property
    def ratio(self) -> float | None:
        """Ours by the real one's; none if both are few, or the real one has none."""
        return self.ours / self.real if self.real and not self.is_few else None

    @property
    def is_few(self) -> bool:
        """Whether both are rounding."""
        return max(self.real, self.ours) < FEW[self.quantity]

    @property
    def is_like(self) -> bool:
        """Whether it is within the bound."""
        return self.is_few or (self.ratio is not None and abs(self.ratio - 1) <= MOST_APART)


def programs() -> list[str]:
    """The names of all, in their order."""
    shell = ("sh", "-c", '. "$1" && echo "$PROGRAMS"', "sh", str(guest.SCRIPTS / "programs.sh"))
    return subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split()


def real(results: Path) -> dict[str, Moved]:
    """What the guest's traces say, by program."""
    moved = {}
    device = (results / "device").read_text().strip()
    for name in programs():
        try:
            check_whole((results / f"{name}.stats").read_text())
            blocks = [int(word) for word in (results / f"{name}.journal").read_text().split()]
            with (results / f"{name}.trace").open() as lines:
                moved[name] = count(lines, device, blocks)
        except (Wrong, OSError, ValueError) as error:
            raise Wrong(f"{name}: {error}") from error
    return moved


def _statistics(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / ".entresol" / "stats").read_text())["file_system"]
    return found


def _part(name: str, folder: Path, pattern: Path) -> None:
    script = 'everything() { sync "$MOUNT/.entresol/sync"; }; cd "$MOUNT" && "$2" && everything'
    busybox = guest.find("busybox")
    # Applets of busybox, as in the guest, whatever else is in the path.
    text = f'. "$1"; {script}'
    command = (busybox, "sh", "-c", text, "sh", str(guest.SCRIPTS / "programs.sh"), name)
    tools = pattern.parent / "tools"
    done = subprocess.run(
        command,
        env={"PATH": str(tools), "PATTERN": str(pattern), "MOUNT": str(folder)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise guest.Missing(f"{name} fails on {folder}: {done.stderr.strip()}")


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[None]:
    """A file system of ours, by a server in the background."""
    entresol("mount", image, folder, "--daemon")
    try:
        yield
    finally:
        entresol("umount", folder)


def ours(personality: str, work: Path) -> dict[str, Moved]:
    """What our personality says that it has moved, by program."""
    folder, pattern, image = work / "mnt", work / "pattern", work / personality
    folder.mkdir(exist_ok=True)
    line = b"0123456789abcde\n"
    pattern.write_bytes(line * (_PATTERN // len(line)))
    tools = work / "tools"
    tools.mkdir(exist_ok=True)
    subprocess.run((guest.find("busybox"), "--install", "-s", str(tools)), check=True)
    entresol("device", "create", image, *DEVICE)
    moved = {}
    for name in programs():
        entresol("mkfs", image, "--personality", personality, "--force")
        with mounted(image, folder):
            _part(f"prepare_{name}", folder, pattern)
        with mounted(image, folder):
            before = _statistics(folder)
            _part(f"run_{name}", folder, pattern)
            after = _statistics(folder)
        moved[name] = _difference(before, after)
    shutil.rmtree(image)
    return moved


def _difference(before: dict[str, Any], after: dict[str, Any]) -> Moved:
    def by_class(*names: str) -> dict[str, int]:
        return {
            kind: sum(after[kind][name] - before[kind][name] for name in names) for kind in CLASSES
        }

    written = by_class("bytes_written", "blocks_written")
    return Moved(
        written=written, read=by_class("blocks_read"), flushes=after["flushes"] - before["flushes"]
    )


def rows(of_real: dict[str, Moved], of_ours: dict[str, Moved]) -> list[Row]:
    """Every quantity of every program, and of all together."""
    found = []
    for name in of_real:
        here, there = of_real[name], of_ours[name]
        for kind, title in WRITTEN.items():
            found.append(Row(name, title, here.written[kind], there.written[kind]))
        found.append(Row(name, "flushes", here.flushes, there.flushes))
    for title in QUANTITIES:
        same = [row for row in found if row.quantity == title]
        found.append(Row("all", title, sum(r.real for r in same), sum(r.ours for r in same)))
    return found


def _amount(row: Row, value: int) -> str:
    return f"{value:,}" if row.quantity == "flushes" else f"{value / 1024:,.0f}"


def table(found: Iterable[Row]) -> list[str]:
    """Lines of Markdown."""
    lines = ["| program | KiB, or flushes | real | ours | ours / real |", "|---|---|--:|--:|--:|"]
    for row in found:
        ratio = f"{row.ratio:.2f}" if row.ratio is not None else "few" if row.is_few else "none"
        mark = "" if row.is_like else " *"
        numbers = f"{_amount(row, row.real)} | {_amount(row, row.ours)}"
        lines.append(f"| {row.program} | {row.quantity} | {numbers} | {ratio}{mark} |")
    return lines


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/e2e", description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="ext4|f2fs", help="both, if left out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all numbers, too")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keeps the guest's traces there")
    return parser.parse_args(words)


def compare(kind: str, work: Path, accelerator: str) -> tuple[guest.Machine, list[Row]]:
    """Runs both sides."""
    image, socket, results = work / "image", work / "socket", work / f"{kind}-results"
    entresol("device", "create", image, *DEVICE)
    with served(image, socket):
        machine = guest.run(kind, socket, work / "initrd", results, accelerator)
    shutil.rmtree(image)
    return machine, rows(real(results), ours(PERSONALITIES[kind], work))


def run(options: argparse.Namespace) -> int:
    """Says how like they are; 1 if too little."""
    kinds = options.kinds or list(PERSONALITIES)
    for kind in kinds:
        if kind not in PERSONALITIES:
            raise guest.Missing(f"there is no {kind} here; there are {', '.join(PERSONALITIES)}.")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise guest.Missing("/dev/fuse cannot be used; entresol doctor says what is missing.")
    why = guest.why_no_fast_guest()
    if why is not None:
        print(f"e2e: no KVM ({why}); the guest runs on QEMU's TCG, which takes longer", flush=True)
    accelerator = "tcg" if why else "kvm"
    good, kept = True, {}
    with tempfile.TemporaryDirectory(prefix="entresol-e2e-") as folder:
        work = Path(folder)
        guest.pack(work)
        for kind in kinds:
            machine, found = compare(kind, work, accelerator)
            print(f"\n{kind} of Linux {machine.kernel} and our {PERSONALITIES[kind]} "
                  f"(guest: {machine.seconds:.0f} s with {machine.accelerator})\n")  # fmt: skip
            print("\n".join(table(found)))
            apart = [row.quantity for row in found if row.program == "all" and not row.is_like]
            print(f"\nmore than {MOST_APART:.0%} apart over all programs: "
                  f"{', '.join(apart) or 'nothing'}", flush=True)  # fmt: skip
            good = good and len(apart) <= EXPLAINED
            kept[kind] = [vars(row) | {"ratio": row.ratio} for row in found]
            if options.keep is not None:
                shutil.copytree(work / f"{kind}-results", options.keep / kind, dirs_exist_ok=True)
    if options.json is not None:
        text = json.dumps(kept, indent=1) + "\n"
        part = options.json.with_suffix(".part")
        part.write_text(text)
        part.replace(options.json)
    return 0 if good else 1


def main() -> int:
    # Told to end, it ends guest and server, and unmounts, as it does at Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return run(parse(None))
    except (guest.Missing, Wrong) as error:
        print(f"e2e: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
