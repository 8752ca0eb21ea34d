"""`entresol run`: what it writes, what it prints, and that the order of work does not matter."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from pathlib import Path

import fake_core
import pyarrow.parquet as pq
import pytest
import synthetic
from conftest import Entresol

from entresol.atomic import OutputDirectory

pytestmark = pytest.mark.usefixtures("fake")
FILES = ["report.html", "results.parquet", "summary.json"]


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_run_writes_three_files_and_prints_the_table_and_the_report(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path
) -> None:
    outcome = entresol_command("run", capture_file, "--design", "all", "-o", tmp_path / "out")
    assert outcome.code == 0
    assert _names(tmp_path / "out") == FILES
    assert "skybyte-full" in outcome.out
    assert outcome.out.rstrip().endswith("report.html")
    assert _names(tmp_path) == ["out", "sort.etr"]


def test_results_do_not_depend_on_the_number_of_jobs(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path
) -> None:
    for jobs in ("1", "2", "8"):
        entresol_command("run", capture_file, "--no-store", "--jobs", jobs, "-o", tmp_path / jobs)
    for name in FILES:
        texts = {(tmp_path / jobs / name).read_bytes() for jobs in ("1", "2", "8")}
        assert len(texts) == 1, name


def test_json_is_one_object_on_stdout_and_writes_nothing(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = entresol_command("run", capture_file, "--design", "skybyte-w,base-cssd", "--json")
    summary = json.loads(outcome.out)
    assert [run["design"] for run in summary["runs"]] == ["base-cssd", "skybyte-w"]
    assert summary["schema"] == 1
    assert set(summary["provenance"]) == {"entresol", "machine", "audit", "traces"}
    assert _names(tmp_path) == ["sort.etr"]


def test_designs_may_follow_the_option_as_words(
    entresol_command: Entresol, capture_file: Path
) -> None:
    outcome = entresol_command("run", capture_file, "--design", "base-cssd", "dram-only", "--json")
    assert [run["design"] for run in json.loads(outcome.out)["runs"]] == ["base-cssd", "dram-only"]


def test_the_summary_names_no_path(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path
) -> None:
    entresol_command("run", capture_file, "-o", tmp_path / "out")
    for name in ("summary.json", "report.html"):
        assert str(tmp_path) not in (tmp_path / "out" / name).read_text()


def test_the_summary_file_is_what_json_prints(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path
) -> None:
    outcome = entresol_command("run", capture_file, "--json", "-o", tmp_path / "out")
    assert (tmp_path / "out" / "summary.json").read_text() == outcome.out


def test_parquet_has_a_row_per_run_and_units_in_its_names(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path
) -> None:
    entresol_command("run", capture_file, "-o", tmp_path)
    table = pq.read_table(tmp_path / "results.parquet")
    assert table.num_rows == len(synthetic.DESIGNS)
    for name in (
        "execution_time_ps",
        "amat_paper_ps",
        "flash_written_bytes",
        "flash_write_amplification_milli",
        "threads_finished_ps",
        "config_nand_t_r",
    ):
        assert name in table.column_names
    assert table.column("design").to_pylist() == [entry[0] for entry in synthetic.DESIGNS]


def test_results_replace_earlier_results_and_leave_other_files_alone(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    output.mkdir()
    (output / "notes.txt").write_text("mine")
    (output / "summary.json").write_text("old")
    entresol_command("run", capture_file, "-o", output)
    assert _names(output) == ["notes.txt", *FILES]
    assert json.loads((output / "summary.json").read_text())["schema"] == 1


def test_what_a_killed_command_left_is_removed_unless_somebody_writes_it(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path
) -> None:
    with OutputDirectory(tmp_path / "other") as written:
        left = [tmp_path / ".entresol-old", tmp_path / ".entresol-fresh"]
        for place in left:
            place.mkdir()
            (place / "summary.json").write_text("half")
        for place in (left[0], written.file("x").parent):
            os.utime(place, (0, 0))
        entresol_command("run", capture_file, "-o", tmp_path / "out")
        assert not left[0].exists() and left[1].exists()
        assert written.file("x").parent.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_stops_all_jobs_and_leaves_nothing(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path, number: signal.Signals
) -> None:
    fake_core.hold.clear()

    def interrupt() -> None:
        assert fake_core.started.wait(20)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    started = time.monotonic()
    outcome = entresol_command("run", capture_file, "--jobs", "2", "-o", tmp_path / "out")
    thread.join()
    assert outcome.code == 130
    assert outcome.out == ""
    assert outcome.err == "entresol: interrupted; nothing was written.\n"
    assert time.monotonic() - started < 20
    assert all(run.cancelled.is_set() for run in fake_core.made)
    assert _names(tmp_path) == ["sort.etr"]


def test_a_failed_assertion_of_the_core_is_a_failed_simulation(
    entresol_command: Entresol, capture_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException): ...

    def fail(_run: fake_core.Run) -> str:
        raise PanicException("time went back")

    monkeypatch.setattr(fake_core.Run, "execute", fail)
    words = ("--design", "base-cssd", "--json")
    outcome = entresol_command("run", capture_file, *words)
    assert outcome.code == 1
    assert outcome.err.splitlines()[-1] == (
        "entresol: sort · base-cssd: an invariant is broken: time went back"
    )


def test_a_simulation_that_fails_is_one_line_and_leaves_nothing(
    entresol_command: Entresol,
    capture_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_run: fake_core.Run) -> str:
        raise fake_core.SimulationError("audit: a request\nwas answered twice")

    monkeypatch.setattr(fake_core.Run, "execute", fail)
    words = ("--design", "base-cssd", "-o", tmp_path / "out")
    outcome = entresol_command("run", capture_file, *words)
    assert outcome.code == 1
    said = outcome.err.splitlines()[-1]
    assert said == "entresol: sort · base-cssd: audit: a request was answered twice"
    assert "Traceback" not in outcome.err
    assert _names(tmp_path) == ["sort.etr"]


def test_a_full_disk_below_the_output_is_one_sentence_that_names_it(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # As a write does: without a name.

    monkeypatch.setattr(Path, "write_text", full)
    outcome = entresol_command("run", capture_file, "--design", "base-cssd", "-o", tmp_path / "out")
    said = outcome.err.splitlines()[-1]
    assert outcome.code == 1 and f"{tmp_path / 'out'}: cannot be written: No space" in said
    assert _names(tmp_path) == ["sort.etr"]


def test_an_internal_error_says_how_to_see_where_it_is_and_has_its_own_code(
    entresol_command: Entresol, capture_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_run: fake_core.Run) -> str:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(fake_core.Run, "execute", fail)
    words = ("run", capture_file, "--design", "base-cssd", "--json")
    outcome = entresol_command(*words)
    assert outcome.code == 70 and "Traceback" not in outcome.err
    assert "internal error: ZeroDivisionError: division by zero (test_run.py" in outcome.err
    assert "entresol --debug" in outcome.err

    def wrong(_path: str, _blocks: bool) -> str:
        raise ZeroDivisionError("in the command itself")

    monkeypatch.setattr(fake_core, "trace_info", wrong)
    outcome = entresol_command(*words)
    assert outcome.code == 70 and "Traceback" not in outcome.err
    assert "in the command itself (test_run.py" in outcome.err and "--debug" in outcome.err
    monkeypatch.setenv("ENTRESOL_DEBUG", "")  # What --debug sets ends with the test.
    outcome = entresol_command("--debug", *words)
    assert outcome.code == 70 and "Traceback" in outcome.err and "--debug" not in outcome.err
