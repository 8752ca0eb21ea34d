"""Sweeps on a Dask cluster: two workers on this machine, the same bytes, and workers that die."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Entresol, one_line

import entresol
from entresol import core, study
from entresol.errors import Failed
from entresol.execution.cluster import Cluster
from entresol.execution.executor import Progress, execute
from entresol.execution.point import Point
from entresol.store.result_store import Store

SWEEP = f"""
trace = ["{ROOT}/traces/xz.etr", "{ROOT}/traces/sort.etr"]
design = ["base-cssd", "skybyte-full"]
machine = "demo"
threads = 1
ssd.log.size = ["64KiB", "128KiB", "8MiB"]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes of one thread each."""
    import distributed

    package = str(Path(entresol.__file__).parents[1])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [package, before]))
    make: Any = distributed.LocalCluster
    with make(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as made:
        yield made
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="module")
def captures(beginnings: Path) -> tuple[study.Capture, ...]:
    return study.open_captures([beginnings / "xz.etr", beginnings / "sort.etr"])


def test_a_cluster_gives_the_bytes_that_local_processes_give(
    entresol_command: Entresol, cluster: Any, beginnings: Path, tmp_path: Path
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(SWEEP.replace(f"{ROOT}/traces", str(beginnings)))
    address = cluster.scheduler_address
    there = entresol_command("sweep", file, "-o", tmp_path / "there", "--scheduler", address)
    assert there.code == 1 and "2 of 12 points failed" in there.err, there
    again = entresol_command("sweep", file, "-o", tmp_path / "again", "--scheduler", address)
    assert "10 of them from the store" in again.out
    here = entresol_command("sweep", file, "-o", tmp_path / "here", "--store", tmp_path / "new")
    assert here.code == 1
    for name in ("results.parquet", "sweep.json", "report.html"):
        texts = {(tmp_path / each / name).read_bytes() for each in ("there", "again", "here")}
        assert len(texts) == 1, name


def test_a_capture_that_a_worker_has_not_is_sent(
    cluster: Any, captures: tuple[study.Capture, ...], tmp_path: Path
) -> None:
    hidden = tmp_path / "hidden.etr"
    shutil.copy(captures[0].path, hidden)
    shutil.rmtree(Path(tempfile.gettempdir()) / f"entresol-{os.getuid()}", ignore_errors=True)
    (capture,) = study.open_captures([hidden])
    real = captures[0].path
    # What the workers see at the path is not what the command saw there.
    there = replace(capture, path=_elsewhere(tmp_path, real))
    one = Point(there, "dram-only", core.Setup("demo"), 1)
    store = Store(tmp_path / "store")
    (outcome,) = execute([one], store, scheduler=cluster.scheduler_address)
    assert outcome.error is None and outcome.result is not None
    assert outcome.result["trace"] == "hidden"
    (local,) = execute([replace(one, trace=capture)], None)
    assert local.result == outcome.result


def _elsewhere(place: Path, real: Path) -> Path:
    """A path that means something in this process alone."""
    descriptor = os.open(real, os.O_RDONLY)
    link = place / "mine.etr"
    link.symlink_to(f"/proc/self/fd/{descriptor}")
    return link


def test_a_worker_that_dies_loses_nothing(
    cluster: Any, captures: tuple[study.Capture, ...], tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.done >= 1 and not killed:
            killed.append(next(iter(_workers(cluster))))
            os.kill(killed[0], signal.SIGKILL)

    designs = ("base-cssd", "skybyte-full", "dram-only", "skybyte-w")
    points = [Point(each, name, core.Setup("demo"), 1) for each in captures for name in designs]
    address = cluster.scheduler_address
    outcomes = execute(points, Store(tmp_path), scheduler=address, watch=kill)
    assert killed and [outcome.error for outcome in outcomes] == [None] * len(points)


def _workers(cluster: Any) -> list[int]:
    return [nanny.pid for nanny in cluster.workers.values() if nanny.pid]


def test_an_interruption_is_heeded_and_keeps_what_is_done(
    cluster: Any, captures: tuple[study.Capture, ...], tmp_path: Path
) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.done:
            os.kill(os.getpid(), signal.SIGINT)

    store = Store(tmp_path)
    points = [Point(each, "dram-only", core.Setup("demo"), 1) for each in captures]
    with pytest.raises(KeyboardInterrupt):
        execute(points, store, scheduler=cluster.scheduler_address, watch=interrupt)
    assert len(store.list_keys()) >= 1


def test_a_run_that_nobody_waits_for_is_stopped_on_its_worker(cluster: Any, tmp_path: Path) -> None:
    import distributed

    started, stopped = tmp_path / "started", tmp_path / "stopped"

    def endless() -> None:
        from entresol.execution import cluster as tested

        class Run:
            def cancel(self) -> None:
                stopped.touch()

        tested._stop_when_cancelled(Run(), threading.Event())  # type: ignore[arg-type]
        started.touch()
        for _ in range(600):
            if stopped.exists():
                return
            time.sleep(0.05)

    make: Any = distributed.Client
    with make(cluster.scheduler_address, set_as_default=False) as client:
        future = client.submit(endless, pure=False)
        _wait_for(started)
        time.sleep(1.0)
        assert not stopped.exists()
        client.cancel(future, force=True)
        _wait_for(stopped)


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert path.exists(), path.name


def test_something_else_that_listens_is_no_scheduler_and_nothing_hangs(
    entresol_command: Entresol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entresol.execution.cluster.CONNECT_SECONDS", 1)
    file = tmp_path / "s.toml"
    file.write_text(SWEEP)
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        said = one_line(entresol_command("sweep", file, "--scheduler", address))
    gc.collect()  # What a client of Dask says when it is thrown away.
    assert "no Dask scheduler answers there" in said and time.monotonic() - began < 10


def test_a_scheduler_that_goes_while_workers_are_awaited_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Gone:
        def __init__(self, *_: object, **__: object) -> None: ...

        def wait_for_workers(self, *_: object, **__: object) -> None:
            raise OSError("Timed out trying to connect")

    monkeypatch.setattr("entresol.execution.cluster._check_address", lambda _: None)
    monkeypatch.setattr("distributed.Client", Gone)
    with pytest.raises(Failed, match=r"--scheduler tcp://x:1: is gone"):
        Cluster("tcp://x:1")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x", "tcp://"])
def test_a_scheduler_that_does_not_answer_is_one_sentence(
    entresol_command: Entresol,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
) -> None:
    monkeypatch.setattr("entresol.execution.cluster.CONNECT_SECONDS", 1)
    file = tmp_path / "s.toml"
    file.write_text(SWEEP)
    said = one_line(entresol_command("sweep", file, "--scheduler", address))
    assert f"--scheduler {address}: no Dask scheduler answers there" in said
