"""Suites for file systems that others have written, on a mount of ours: `make posix SUITES=DIR`.

Runs what somebody has checked out and built below one directory: pjdfstest, and of xfstests fsx,
fsstress and the quick group of its generic tests. What is not there is skipped, with what is
missing. Each suite has a fresh file system, on which `fsck` must find nothing afterwards. The log
names the commits; failures that posix_exceptions.toml does not explain fail the run.
"""

from __future__ import annotations

import argparse
import os
import platform
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from file_server import detach, run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXCEPTIONS = HERE / "posix_exceptions.toml"
GEOMETRY = ("nand.blocks_per_plane=128",)
"""An eighth of the preset's flash: what several suites write fits on the disk of this machine."""
USERS = ("fsgqa", "fsgqa2")
"""Who xfstests wants to be now and then."""
WAYS = {
    "buffered": ("-S", "1", "-R", "-W"),
    "direct": ("-S", "2", "-Z", "-R", "-W", "-r", "512", "-w", "512"),
    "mmap": ("-S", "3", "-l", "1048576"),
}
"""How fsx reads and writes."""


class Absent(Exception):
    """A suite is not there, with what is missing."""


@dataclass
class Outcome:
    """What came of a suite."""

    name: str
    commit: str
    did: str
    good: bool
    told: str
    seconds: float = 0
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Lab:
    """Where everything is, and how much is to be done."""

    suites: Path
    work: Path
    minutes: float
    operations: int
    tests: Sequence[str]

    def need(self, *paths: str) -> list[Path]:
        """Files of the checkouts, or what is missing."""
        found = [self.suites / path for path in paths]
        for path in found:
            if not path.exists():
                checkout = self.suites / path.relative_to(self.suites).parts[0]
                lacks = "is not checked out" if not checkout.exists() else "is not built"
                raise Absent(f"{checkout} {lacks}: there is no {path}")
        return found

    def commit(self, checkout: str) -> str:
        """Which one it is."""
        git = ("git", "-C", str(self.suites / checkout), "log", "-1", "--format=%h of %cs")
        done = subprocess.run(git, capture_output=True, text=True, check=False)
        return done.stdout.strip() or "of no known commit"

    def make(self, name: str) -> Path:
        """A device with a file system."""
        image = self.work / name
        sets = [word for set_ in GEOMETRY for word in ("--set", set_)]
        entresol("device", "create", image, "--preset", "bytefs", *sets)
        entresol("mkfs", image)
        return image

    @contextmanager
    def mounted(self, name: str) -> Iterator[Path]:
        """A fresh file system, which must be sound in the end; it goes then."""
        image, folder = self.make(name), self.work / f"{name}-mount"
        entresol("mount", image, folder, "--daemon", "-o", "allow_other,dev,suid")
        try:
            yield folder
            entresol("umount", folder)
            check(image)
        finally:
            detach(folder)
        shutil.rmtree(image)


def entresol(*words: str | Path) -> str:
    """Runs a command of ours that must succeed; what it wrote."""
    return run(sys.executable, "-m", "entresol", *words)


def check(image: Path) -> None:
    """Nothing may be wrong with a file system."""
    told = entresol("fsck", image)
    assert ": 0 problems" in told, told


def call(words: Sequence[str | Path], folder: Path, **more: str) -> tuple[int, str]:
    """Runs a suite as long as it takes; its exit code and what it said."""
    command = [str(word) for word in words]
    environment = {**os.environ, **more}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout.decode(errors="replace")


def pjdfstest(lab: Lab) -> list[Outcome]:
    """System calls one by one, from their specification; wants root and `prove`."""
    _, tests = lab.need("pjdfstest/pjdfstest", "pjdfstest/tests")
    if shutil.which("prove") is None:
        raise Absent("no prove (Debian: perl)")
    with lab.mounted("pjdfstest") as folder:
        code, said = call(("prove", "-r", tests), folder)
    counted = re.search(r"Files=(\d+), Tests=(\d+)", said)
    told = f"{counted[2]} tests in {counted[1]} files" if counted else said[-300:]
    failed = re.findall(r"^\S*/tests/(\S+)\s+\(Wstat: (?!0 Tests: \d+ Failed: 0)", said, re.M)
    good = code == 0 and "Result: PASS" in said
    return [Outcome("pjdfstest", lab.commit("pjdfstest"), "prove -r tests", good, told, 0, failed)]


def fsx(lab: Lab) -> list[Outcome]:
    """Random operations on one file, each read compared with what was written."""
    (program,) = lab.need("xfstests/ltp/fsx")
    found = []
    with lab.mounted("fsx") as folder:
        for way, options in WAYS.items():
            began = time.monotonic()
            words = ("-q", "-N", str(lab.operations), *options)
            code, said = call((program, "-P", lab.work, *words, way), folder)
            good = code == 0 and "A-OK" in said
            told = said.strip().splitlines()[-1] if said.strip() else "said nothing"
            did = " ".join(("fsx", *words))
            spent = time.monotonic() - began
            found.append(Outcome(f"fsx, {way}", lab.commit("xfstests"), did, good, told, spent))
    return found


def fsstress(lab: Lab) -> list[Outcome]:
    """Many operations of four processes in one tree; judged by their end and by fsck."""
    (program,) = lab.need("xfstests/ltp/fsstress")
    options = ("-p", "4", "-s", "1115", f"--duration={round(lab.minutes * 60)}")
    with lab.mounted("fsstress") as folder:
        code, said = call((program, "-d", folder / "tree", *options), folder)
        count = sum(len(names) + len(dirs) for _, dirs, names in os.walk(folder / "tree"))
    told = f"{count} files and directories left, fsck finds nothing" if code == 0 else said[-300:]
    did = " ".join(("fsstress", *options))
    return [Outcome("fsstress", lab.commit("xfstests"), did, code == 0, told)]


def xfstests(lab: Lab) -> list[Outcome]:
    """The quick group of the generic tests, or those that were named."""
    program, _ = lab.need("xfstests/check", "xfstests/src/lstat64")
    for user in USERS:
        try:
            pwd.getpwnam(user)
        except KeyError:
            raise Absent(f"there is no user {user} on this machine (useradd -m {user})") from None
    places = {name: lab.work / f"xfstests-{name}" for name in ("test", "scratch", "results")}
    for place in places.values():
        place.mkdir()
    images = {name: lab.make(name) for name in ("TEST", "SCRATCH")}
    bin_ = lab.work / "bin"
    bin_.mkdir()
    mount = bin_ / "mount"
    mount.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "posix_mount.py"}" "$@"\n')
    mount.chmod(0o755)
    environment = {
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "FSTYP": "fuse",
        "FUSE_SUBTYP": ".entresol",
        "TEST_DEV": f"entresol:{images['TEST']}",
        "TEST_DIR": str(places["test"]),
        "SCRATCH_DEV": f"entresol:{images['SCRATCH']}",
        "SCRATCH_MNT": str(places["scratch"]),
        "MOUNT_OPTIONS": "-oallow_other,dev,suid",
        "TEST_FS_MOUNT_OPTS": "-oallow_other,dev,suid",
        "RESULT_BASE": str(places["results"]),
    }
    wanted = tuple(lab.tests) or ("-g", "generic/quick")
    try:
        _, said = call((program, "-fuse", *wanted), program.parent, **environment)
    finally:
        for name in ("test", "scratch"):
            detach(places[name])
    for image in images.values():
        settle(image)
        check(image)
        shutil.rmtree(image)

    def named(head: str) -> list[str]:
        lines = re.findall(rf"^{head}: (.*)$", said, re.M)
        return lines[-1].split() if lines else []

    ran, failed, not_run = named("Ran"), named("Failures"), named("Not run")
    known = tomllib.loads(EXCEPTIONS.read_text())["xfstests"]
    new = [test for test in failed if test not in known]
    explained = ", ".join(test for test in failed if test in known) or "none"
    told = (
        f"{len(ran)} ran, {len(failed)} failed (explained: {explained}), "
        f"{len(not_run)} not run since the kernel or FUSE lacks what they test"
        if ran
        else said[-300:]
    )
    did = f"check -fuse {' '.join(wanted)}"
    good = bool(ran) and not new
    return [Outcome("xfstests", lab.commit("xfstests"), did, good, told, 0, new)]


def settle(image: Path) -> None:
    """Waits until the server of a file system that was unmounted has let its image go."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        words = (sys.executable, "-m", "entresol", "device", "info", str(image))
        if subprocess.run(words, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.2)


SUITES: dict[str, Callable[[Lab], list[Outcome]]] = {
    "pjdfstest": pjdfstest,
    "fsx": fsx,
    "fsstress": fsstress,
    "xfstests": xfstests,
}


def row(outcome: Outcome) -> str:
    """A line of the log's table."""
    verdict = "passed" if outcome.good else "**failed**"
    failed = f"; failed: {', '.join(outcome.failures)}" if outcome.failures else ""
    cells = (
        outcome.name,
        outcome.commit,
        f"`{outcome.did}`",
        f"{verdict}: {outcome.told}{failed}".replace("|", "\\|").replace("\n", " "),
        f"{outcome.seconds:.0f} s",
    )
    return f"| {' | '.join(cells)} |"


def log(outcomes: Sequence[Outcome], skipped: Sequence[str]) -> str:
    """The log, as a page."""
    git = ("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10")
    ours = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    lines = [
        "# Log of the POSIX suites",
        "",
        f"`make posix`, {time.strftime('%Y-%m-%d')}, Entresol {ours or 'of no known commit'}, "
        f"Linux {platform.release()}. [What they are and why some fail](posix.md).",
        "",
        "| suite | its commit | what was run | result | time |",
        "|---|---|---|---|---|",
        *map(row, outcomes),
    ]
    if skipped:
        lines += ["", "Skipped:", "", *(f"- {why}" for why in skipped)]
    return "\n".join(lines) + "\n"


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="scripts/posix", description=__doc__)
    parser.add_argument("--suites", type=Path, required=True, help="directory of the checkouts")
    parser.add_argument("--only", action="append", choices=SUITES, help="this one; repeatable")
    parser.add_argument("--minutes", type=float, default=30, help="of fsstress (30)")
    parser.add_argument("--operations", type=int, default=1_000_000, help="of fsx, each way")
    parser.add_argument("--work", type=Path, help="where images are, several GiB; else TMPDIR")
    parser.add_argument("--log", type=Path, help="also writes the log to this file")
    parser.add_argument("tests", nargs="*", help="tests of xfstests instead of the quick group")
    return parser.parse_args()


def main() -> int:
    """Runs the suites that are there; 1 if one fails, 2 if none is there."""
    told = arguments()
    if os.geteuid() != 0:
        print("posix: skipped: pjdfstest and xfstests change users, which only root can")
        return 2
    outcomes: list[Outcome] = []
    skipped: list[str] = []
    for name in told.only or SUITES:
        with tempfile.TemporaryDirectory(dir=told.work, prefix=f"posix-{name}-") as work:
            # Other users go through it.
            Path(work).chmod(0o755)
            suites = told.suites.resolve()
            lab = Lab(suites, Path(work), told.minutes, told.operations, told.tests)
            began = time.monotonic()
            try:
                found = SUITES[name](lab)
            except Absent as why:
                skipped.append(f"{name}: {why}")
                print(f"posix: {name}: skipped: {why}", flush=True)
                continue
            for outcome in found:
                outcome.seconds = outcome.seconds or time.monotonic() - began
                print(f"posix: {row(outcome)}", flush=True)
            outcomes += found
    page = log(outcomes, skipped)
    if told.log is not None and outcomes:
        before = told.log.with_name(f".{told.log.name}.new")
        before.write_text(page, encoding="utf-8")
        before.replace(told.log)
    if not outcomes:
        print(f"posix: no suite is in {told.suites}")
        return 2
    return 0 if all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
