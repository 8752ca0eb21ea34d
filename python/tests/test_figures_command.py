"""The command `entresol figure`: what it makes, and what is left when something stops it."""

from __future__ import annotations

import errno
import os
import signal
import threading
from pathlib import Path

import pytest
from conftest import Entresol

from entresol import core
from entresol.errors import Stopped
from entresol.execution import executor
from entresol.figures import ink, simulate
from entresol.figures.entry import choose
from entresol.papers.skybyte import PAPER
from entresol.store.result_store import Store

TWO = PAPER.settings(workloads=["bc,tpcc"])


def test_the_command_makes_a_figure_from_captures(
    entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    place = tmp_path / "captures"
    place.mkdir()
    (place / "radix-8.etr").symlink_to(captured)
    words = ["figure", "table3", "--workloads", "radix,ycsb", "--captures", place]
    outcome = entresol_command(*words, "-o", tmp_path / "out")
    assert outcome.code == 1  # A capture is missing: the rest is there, and it is said.
    assert "ycsb-8.etr: no such capture" in outcome.err
    assert "2 runs of 2 captures; about" in outcome.err
    numbers = (tmp_path / "out" / "table3.csv").read_text().splitlines()
    assert float(numbers[1].split(",")[4]) > 0
    assert numbers[2].startswith("ycsb,skybyte-wp,,flash_read_latency_us,,3.3")
    assert "did not run" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_full_disk_is_one_sentence_that_says_what_is_kept(
    entresol_command: Entresol,
    captured: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_kept: bool,
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ink, "save", full)
    (tmp_path / "radix-8.etr").symlink_to(captured)
    words = ["figure", "table3", "--workloads", "radix", "--captures", tmp_path]
    outcome = entresol_command(*words, *([] if is_kept else ["--no-store"]), "-o", tmp_path / "out")
    last = outcome.err.splitlines()[-1]
    assert outcome.code == 1 and "out: cannot be written: No space left on device" in last
    assert ("the runs are in the store" in last) is is_kept
    assert not (tmp_path / "out").exists()


def test_an_interrupted_command_says_that_the_store_keeps_what_had_ended(
    entresol_command: Entresol, captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> list[executor.Outcome]:
        raise KeyboardInterrupt

    monkeypatch.setattr(executor, "execute", interrupted)
    (tmp_path / "radix-8.etr").symlink_to(captured)
    words = ["figure", "table3", "--workloads", "radix", "--captures", tmp_path]
    outcome = entresol_command(*words, "-o", tmp_path / "out")
    assert outcome.code == 130
    assert outcome.err.splitlines()[-1].startswith(
        "entresol: interrupted; the store keeps the captures and runs"
    )
    assert not (tmp_path / "out").exists()


def test_an_interruption_while_capturing_says_so_too(tmp_path: Path) -> None:
    def interrupted(_name: str, _threads: int) -> Path:
        raise KeyboardInterrupt

    wanted = simulate.plan(choose(PAPER.figures, ["table3"]), TWO)
    with pytest.raises(Stopped, match="the store keeps the captures"):
        simulate.Simulation(Store(tmp_path), interrupted).run(wanted)


def test_a_walk_ends_soon_after_ctrl_c(
    captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    at_work: list[threading.Thread] = []

    class Run:
        def __init__(self, *_: object) -> None: ...

        def page_locality(self, _shares: tuple[int, ...]) -> core.Json:
            # The core does not return to the interpreter before it ends, so the main thread would
            # hear of the signal then.
            at_work.append(threading.current_thread())
            os.kill(os.getpid(), signal.SIGINT)
            assert go_on.wait(60), "the walk was waited for"
            return {"caches": []}

    monkeypatch.setattr(core, "Run", Run)
    wanted = simulate.plan(choose(PAPER.figures, ["5"]), PAPER.settings(workloads=["bc"]))
    kept = Store(tmp_path)
    try:
        with pytest.raises(Stopped, match="the store keeps"):
            simulate.Simulation(kept, lambda _name, _threads: captured).run(wanted)
    finally:
        go_on.set()
    assert at_work and threading.main_thread() not in at_work
