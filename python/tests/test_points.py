"""Points: computed once, isolated from each other, and kept whatever happens to the rest."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT, Entresol

from entresol import core, study
from entresol.digest import file_digest
from entresol.errors import UserError
from entresol.execution import backend, executor, point, worker
from entresol.execution.executor import Progress, execute
from entresol.execution.point import Point
from entresol.store import result_store
from entresol.store.result_store import Store

SETUP = core.Setup("demo")


@pytest.fixture(scope="module")
def captures() -> tuple[study.Capture, ...]:
    return study.open_captures([ROOT / "traces" / "xz.etr", ROOT / "traces" / "sort.etr"])


@pytest.fixture
def kept(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def _points(captures: tuple[study.Capture, ...]) -> list[Point]:
    names = ("dram-only", "base-cssd")
    return [Point(capture, name, SETUP, 1) for capture in captures for name in names]


def test_results_are_those_of_a_run_in_the_order_of_points(
    captures: tuple[study.Capture, ...], kept: Store
) -> None:
    points = _points(captures)
    first = execute([*points, points[0]], kept, jobs=2)
    assert [outcome.point for outcome in first] == [*points, points[0]]
    alone = core.Run(captures[0].path, SETUP, "base-cssd", 1, False).execute()
    assert first[1].result == alone and list(first[1].result or {}) == list(alone)
    assert len(kept.list_keys()) == 4 and not any(outcome.was_stored for outcome in first)
    again = execute(points, kept, jobs=1)
    assert [outcome.result for outcome in again] == [outcome.result for outcome in first[:4]]
    assert all(outcome.was_stored for outcome in again)


def test_a_result_carries_the_name_that_the_capture_has_now(
    captures: tuple[study.Capture, ...], kept: Store, tmp_path: Path
) -> None:
    one = _points(captures)[0]
    execute([one], kept)
    copy = tmp_path / "renamed.etr"
    copy.write_bytes(captures[0].path.read_bytes())
    (renamed,) = study.open_captures([copy])
    (outcome,) = execute([replace(one, trace=renamed)], kept)
    assert outcome.was_stored and outcome.result is not None
    assert outcome.result["trace"] == "renamed"
    assert [program["trace"] for program in outcome.result["programs"]] == ["renamed"]


def test_every_choice_but_a_name_is_an_input(captures: tuple[study.Capture, ...]) -> None:
    one = Point(captures[0], "skybyte-full", SETUP, 1)
    others = [
        replace(one, design="skybyte-w"),
        replace(one, trace=captures[1]),
        replace(one, threads=None),
        replace(one, audit=True),
        replace(one, setup=replace(SETUP, nand="mlc")),
        replace(one, setup=replace(SETUP, machine="table2")),
        replace(one, setup=replace(SETUP, fidelity="no_prefetch")),
        replace(one, setup=replace(SETUP, overrides=("ssd.log.size=128KiB",))),
        replace(one, setup=replace(SETUP, files=(("f", 'ssd.log.size = "64KiB"'),))),
    ]
    keys = [result_store.key_of(point.inputs_of(each)) for each in [one, *others]]
    assert len(set(keys)) == len(keys)
    same = replace(one, setup=replace(SETUP, files=(("f", 'ssd.log.size = "128KiB"'),)))
    assert result_store.key_of(point.inputs_of(same)) == keys[8]


def test_a_point_that_fails_says_why_and_the_others_go_on(
    captures: tuple[study.Capture, ...], kept: Store
) -> None:
    good = _points(captures)[0]
    wrong = replace(good, setup=replace(SETUP, overrides=("ssd.nothing=1",)))
    many = replace(good, threads=99)
    outcomes = execute([wrong, many, good], kept, jobs=1)
    assert [outcome.result is None for outcome in outcomes] == [True, True, False]
    assert "unknown key ssd.nothing" in (outcomes[0].error or "")
    assert "99" in (outcomes[1].error or "") and "\n" not in (outcomes[1].error or "")
    assert len(kept.list_keys()) == 1


def test_a_worker_refuses_another_capture_and_another_core_than_is_meant(
    captures: tuple[study.Capture, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.etr"
    copy.write_bytes(captures[0].path.read_bytes())
    (capture,) = study.open_captures([copy])
    digests = point.captures_of(capture)
    request = worker.request_of(Point(capture, "dram-only", SETUP, 1), digests)
    assert worker.simulate(request)["design"] == "dram-only"
    copy.write_bytes(captures[1].path.read_bytes())
    with pytest.raises(UserError, match="has changed since the command began"):
        worker.simulate(request)
    copy.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        worker.simulate(request)
    monkeypatch.setattr(core, "library", lambda: captures[0].path)
    with pytest.raises(UserError, match="is another build"):
        worker.simulate(request)


def test_a_core_that_was_rebuilt_meanwhile_is_not_taken_for_the_one_that_runs(
    captures: tuple[study.Capture, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "core.so"
    library.write_bytes(b"what runs")
    monkeypatch.setattr(core, "library", lambda: library)
    one = Point(captures[0], "dram-only", SETUP, 1)
    loaded = worker.request_of(one, [])["core"]
    library.write_bytes(b"another build")
    again = worker.request_of(one, [])["core"]
    assert again == loaded != file_digest(library)
    with pytest.raises(UserError, match="is another build"):
        worker.simulate({"core": file_digest(library)})


def test_damage_is_said_once_and_mended(
    captures: tuple[study.Capture, ...], tmp_path: Path
) -> None:
    said: list[str] = []
    kept = Store(tmp_path / "store", said.append)
    one = _points(captures)[0]
    (first,) = execute([one], kept, jobs=1)
    kept.path(first.key or "").write_bytes(b"damaged")
    (again,) = execute([one], kept, jobs=1)
    assert len(said) == 1 and again.result == first.result and not again.was_stored
    assert execute([one], kept)[0].was_stored


def test_a_run_refuses_a_capture_that_changes_while_it_is_planned(
    captures: tuple[study.Capture, ...],
    kept: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = tmp_path / "copy.etr"
    copy.write_bytes(captures[0].path.read_bytes())
    wanted = study.Study(study.open_captures([copy]), ("dram-only",), SETUP, 1, False)

    def change(*_: object) -> None:
        copy.write_bytes(captures[1].path.read_bytes())

    monkeypatch.setattr(Store, "find", change)
    with pytest.raises(UserError, match="has changed"):
        execute(point.points_of(wanted), kept, jobs=1, stop_at_failure=True)


def _victim(progress: Progress) -> None:
    # The workers are this process's only children.
    task = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    for child in task.read_text().split():
        command = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"entresol.execution.worker" in command and progress.running:
            os.kill(int(child), signal.SIGKILL)


def test_a_worker_that_dies_once_is_replaced(
    captures: tuple[study.Capture, ...], kept: Store
) -> None:
    killed: list[int] = []

    def kill_first(progress: Progress) -> None:
        if progress.running and not killed:
            killed.append(1)
            _victim(progress)

    one = Point(captures[1], "skybyte-full", SETUP, 2)
    outcomes = execute([one, *_points(captures)], kept, jobs=2, watch=kill_first)
    assert killed and all(outcome.error is None for outcome in outcomes)


def test_a_point_whose_workers_die_is_given_up_with_a_sentence(
    captures: tuple[study.Capture, ...], kept: Store
) -> None:
    done = execute(_points(captures)[:1], kept)
    long = Point(captures[1], "skybyte-full", core.Setup("table2"), None)
    outcomes = execute([done[0].point, long], kept, jobs=1, watch=_victim)
    assert outcomes[0].result is not None
    assert "SIGKILL" in (outcomes[1].error or "")


def test_an_interruption_keeps_what_is_done(
    captures: tuple[study.Capture, ...], kept: Store
) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.done == 1:
            os.kill(os.getpid(), signal.SIGINT)

    long = Point(captures[1], "skybyte-full", core.Setup("table2"), None)
    with pytest.raises(KeyboardInterrupt):
        execute([_points(captures)[0], long], kept, jobs=1, watch=interrupt)
    assert len(kept.list_keys()) == 1
    assert not list(kept.root.rglob(".new-*"))


def test_a_run_repeated_is_the_same_bytes_from_the_store(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    words = (
        "run",
        ROOT / "traces" / "xz.etr",
        "--machine",
        "demo",
        "--threads",
        "1",
        "--design",
        "dram-only,base-cssd",
        "-o",
    )
    first = entresol_command(*words, tmp_path / "first")
    assert "from the store" not in first.err
    second = entresol_command(*words, tmp_path / "second")
    assert second.err.count("from the store") == 2
    anew = entresol_command(*words, tmp_path / "anew", "--no-store")
    assert "from the store" not in anew.err
    for name in ("summary.json", "results.parquet", "report.html"):
        texts = {(tmp_path / each / name).read_bytes() for each in ("first", "second", "anew")}
        assert len(texts) == 1, name


def test_a_run_goes_on_when_its_result_cannot_be_kept(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    outcome = entresol_command(
        "run",
        ROOT / "traces" / "xz.etr",
        "--machine",
        "demo",
        "--threads",
        "1",
        "--design",
        "dram-only,base-cssd",
        "--store",
        tmp_path / "file",
        "--json",
    )
    assert outcome.code == 0 and '"execution_time_ps"' in outcome.out
    assert outcome.err.count("cannot be stored") == 1


class _OneWorker:
    """Takes one request at a time, has filtered what it had last, and answers at once."""

    capacity = 1

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.warm: frozenset[str] = frozenset()
        self._events: list[backend.Event] = []

    def submit(self, ticket: int, request: core.Json) -> None:
        self.asked.append(Path(request["trace"]).stem + " " + request["design"])
        self.warm = frozenset([request["trace"]])
        self._events = [backend.Stopped(ticket, "asked", backend.Kind.FAILED)]

    def poll(self, _seconds: float) -> list[backend.Event]:
        events, self._events = self._events, []
        return events

    def close(self) -> None: ...


@pytest.mark.parametrize("mode", ["fast", "detailed"])
def test_in_fast_mode_a_worker_goes_on_with_the_capture_that_it_has_filtered(
    captures: tuple[study.Capture, ...], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    one = _OneWorker()
    monkeypatch.setattr(executor, "Processes", lambda _count: one)
    setup = replace(SETUP, mode=mode)
    names = ("dram-only", "base-cssd")
    points = [Point(capture, name, setup, 1) for name in names for capture in captures]
    execute(points, None, jobs=1)
    in_order = ["xz dram-only", "sort dram-only", "xz base-cssd", "sort base-cssd"]
    by_capture = ["xz dram-only", "xz base-cssd", "sort dram-only", "sort base-cssd"]
    assert one.asked == (by_capture if mode == "fast" else in_order)
