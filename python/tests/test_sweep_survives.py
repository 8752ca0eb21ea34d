"""Sweeps that are killed, sweeps that meet, and workers whose parent is gone."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import entresol

KILLS = 20
POINTS = 18
SWEEP = """
trace = ["xz.etr", "sort.etr"]
design = ["base-cssd", "skybyte-full", "dram-only"]
machine = "demo"
threads = 1
ssd.log.size = ["64KiB", "96KiB", "128KiB"]
"""


class _Place:
    """A directory with a sweep, and the command on it."""

    def __init__(self, directory: Path, captures: Path) -> None:
        self.directory = directory
        self.seconds = 0.0
        """How long the sweep takes on this machine, today."""
        (directory / "s.toml").write_text(SWEEP)
        for name in ("xz.etr", "sort.etr"):
            (directory / name).symlink_to(captures / name)

    def start(self, store: str, output: str) -> subprocess.Popen[str]:
        package = str(Path(entresol.__file__).parents[1])
        words = ["sweep", "s.toml", "-o", output, "--store", f"{store}-store", "--jobs", "2"]
        return subprocess.Popen(
            [sys.executable, "-m", "entresol", *words],
            cwd=self.directory,
            env=os.environ | {"PYTHONPATH": package},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> str:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "damaged" not in err
        return out

    def bytes(self, output: str) -> list[bytes]:
        names = ("results.parquet", "sweep.json", "report.html")
        return [(self.directory / output / name).read_bytes() for name in names]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, beginnings: Path) -> _Place:
    """With the result of a sweep that nothing happens to."""
    place = _Place(tmp_path_factory.mktemp("survives"), beginnings)
    began = time.monotonic()
    place.finish(place.start("undisturbed", "undisturbed"))
    place.seconds = time.monotonic() - began
    return place


def _stored(place: _Place, store: str) -> int:
    return len(list((place.directory / f"{store}-store").rglob("*.json")))


def test_a_sweep_killed_at_twenty_instants_gives_the_same_bytes(place: _Place) -> None:
    seed = 20  # Another gives other instants; the result has to be the same.
    instants = random.Random(seed)
    seen = []
    for number in range(KILLS):
        process = place.start("killed", "killed")
        if number % 2:  # After another result, however long the start takes on this machine.
            before = _stored(place, "killed")
            while process.poll() is None and _stored(place, "killed") == before:
                time.sleep(0.002)
            time.sleep(instants.uniform(0, 0.05))
        else:
            time.sleep(instants.uniform(0.02, 0.22) * place.seconds)
        with suppress(ProcessLookupError):  # It was through.
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        seen.append(_stored(place, "killed"))
    out = place.finish(place.start("killed", "killed"))
    assert f"{seen[-1]} of them from the store" in out
    assert place.bytes("killed") == place.bytes("undisturbed")
    assert seen == sorted(seen)
    assert any(0 < each < POINTS for each in seen), "the kills met a sweep at work"


def test_a_sweep_killed_while_it_writes_gives_the_same_bytes(place: _Place) -> None:
    # Everything is stored, so that the files are all that is left to do.
    for delay in range(5):
        process = place.start("undisturbed", "late")
        time.sleep(0.4 + delay * 0.1)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    place.finish(place.start("undisturbed", "late"))
    assert place.bytes("late") == place.bytes("undisturbed")


def test_two_sweeps_at_once_share_the_work(place: _Place) -> None:
    both = [place.start("shared", output) for output in ("one", "two")]
    for process in both:
        place.finish(process)
    assert place.bytes("one") == place.bytes("two") == place.bytes("undisturbed")


def _children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(word) for word in text.split()]


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_workers_do_not_outlive_their_parent(place: _Place) -> None:
    process = place.start("orphans", "orphans")
    deadline = time.monotonic() + 30
    while len(workers := _children(process.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(workers) == 2
    process.kill()
    process.wait()  # Not for the end of its output, which workers that live would hold open.
    while any(map(_is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = [worker for worker in workers if _is_running(worker)]
    for worker in left:
        os.kill(worker, signal.SIGKILL)
    process.communicate()
    assert left == []


def test_ctrl_c_says_how_far_it_was_and_the_store_keeps_it(place: _Place) -> None:
    process = place.start("stopped", "stopped")
    deadline = time.monotonic() + 30
    while _stored(place, "stopped") < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    kept = _stored(place, "stopped")
    assert f"interrupted; {kept} of {POINTS} points are in the store" in err.splitlines()[-1]
    assert not (place.directory / "stopped" / "results.parquet").exists()
