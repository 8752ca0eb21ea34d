"""A served device under fio for a while: every byte that was written is read back and compared.

Rounds of fio with its NBD engine, sequential and random in turn, each with `--verify=crc32c`, until
the time is over. A device of 1 GiB of flash is written many times over, so that compaction and GC
are at work. With `--kills` the server is killed and started again at random instead: that is the
kill lab (`kill_lab.py`), whose client knows what was acknowledged; fio ends with its server.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kill_lab import Lab, Server, Wrong, make_image, serve_command

from entresol import quantity
from entresol.core import Json

ROUNDS = ("write", "randwrite", "rw", "randrw")
ROOM = (
    "nand.channels=4",
    "nand.chips_per_channel=2",
    "nand.dies_per_chip=1",
    "nand.blocks_per_plane=256",
    "nand.pages_per_block=128",
    "ftl.over_provisioning=25%",
    "ssd.dram=32MiB",
    "ssd.log.size=16MiB",
)
"""1 GiB of flash under a log and a cache that are much smaller."""


@dataclass
class Tally:
    """What fio did."""

    rounds: int = 0
    requests: int = 0
    written: int = 0
    read: int = 0
    kinds: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, job: Json) -> None:
        """A round that went well."""
        self.rounds += 1
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self.requests += sum(job[way]["total_ios"] for way in ("read", "write"))
        self.written += job["write"]["io_bytes"]
        self.read += job["read"]["io_bytes"]

    def report(self) -> str:
        """One line."""
        kinds = ", ".join(f"{count} of {kind}" for kind, count in sorted(self.kinds.items()))
        return (
            f"{self.rounds} rounds ({kinds}): {self.requests:,} requests, "
            f"{quantity.size(self.written)} written, {quantity.size(self.read)} read and compared, "
            "0 errors"
        )


def fio_round(socket: Path, kind: str, size: int, seed: int, folder: Path) -> Json:
    """Writes so many bytes in this manner and reads them back; fio's account of it."""
    out = folder / "fio.json"
    command = (
        "fio",
        "--name=endurance",
        "--ioengine=nbd",
        f"--uri=nbd+unix:///?socket={socket}",
        f"--rw={kind}",
        "--bsrange=4k-64k",
        "--iodepth=16",
        f"--size={size}",
        "--fsync=64",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_backlog=1024",
        f"--randseed={seed}",
        "--output-format=json",
        f"--output={out}",
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    text = out.read_text() if out.exists() else ""
    if done.returncode or "{" not in text:
        raise Wrong(f"fio fails in a round of {kind}, seed {seed}: {done.stderr.strip()} {text}")
    job: Json = json.loads(text[text.index("{") :])["jobs"][0]
    if job["error"]:
        raise Wrong(f"fio fails with error {job['error']} in a round of {kind}, seed {seed}")
    return job


def endure(command: Sequence[str], seconds: float, seed: int, folder: Path) -> Tally:
    """Rounds of all kinds until the time is over, each kind at least once."""
    socket = folder / "nbd"
    server = Server(command, socket)
    try:
        client = server.connect()
        size = client.size
        client.close()
        tally = Tally()
        end = time.monotonic() + seconds
        while tally.rounds < len(ROUNDS) or time.monotonic() < end:
            kind = ROUNDS[tally.rounds % len(ROUNDS)]
            tally.add(kind, fio_round(socket, kind, size, seed + tally.rounds, folder))
            print(tally.report(), flush=True)
    except BaseException:
        server.kill_if_alive()
        raise
    server.stop()
    return tally


def flash_report(image: Path) -> str:
    """What the flash did meanwhile."""
    command = (sys.executable, "-m", "entresol", "device", "stats", str(image), "--json")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    stats: Json = json.loads(done.stdout)
    programmed, erased = stats["flash_programmed_pages"], stats["flash_erased_blocks"]
    return f"{programmed:,} pages programmed, {erased:,} blocks erased"


def kills(command: Sequence[str], seconds: float, seed: int, folder: Path) -> str:
    """Lives of a server until the time is over; what was seen."""
    lab = Lab(command, seed, volatile=False, folder=folder)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        lab.live()
        if lab.kills % 50 == 0:
            print(lab.report(), flush=True)
    lab.end()
    return lab.report()


def main() -> int:
    """`make endurance MINUTES=N`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--kills", action="store_true", help="kill the server again and again")
    parser.add_argument("--preset", default="cxl")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    options = parser.parse_args()
    print(f"endurance: preset {options.preset}, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="entresol-endurance-") as made:
        folder = Path(made)
        image = folder / "image"
        command, seconds = serve_command(image), options.minutes * 60
        try:
            make_image(image, options.preset, [*ROOM, *options.overrides])
            run = kills if options.kills else endure
            done = run(command, seconds, options.seed, folder)
        except Wrong as error:
            print(f"endurance: {error}", file=sys.stderr)
            return 1
        print(f"{done if isinstance(done, str) else done.report()}; {flash_report(image)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
