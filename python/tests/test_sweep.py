"""`entresol sweep`: what it takes, what it refuses, and what it leaves however it ends."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import ROOT, Entresol, one_line

from entresol import atomic, core, units, workload
from entresol.core import Progress
from entresol.execution import executor, point, progress
from entresol.store import result_store
from entresol.sweeps import grid, plan, table
from entresol.sweeps.traces import Captures

TRACES = ROOT / "traces"
GRID = f"""
trace = ["{TRACES}/xz.etr", "{TRACES}/sort.etr"]
design = ["base-cssd", "skybyte-full"]
machine = "demo"
threads = 1
ssd.log.size = ["64KiB", "128KiB"]
"""


def _file(place: Path, text: str) -> Path:
    path = place / "grid.toml"
    path.write_text(text)
    return path


def _plan(place: Path, text: str) -> plan.Sweep:
    source, grids = grid.read(_file(place, text))
    return plan.plan(source, grids, Captures(source, None))


def _shape(sweep: plan.Sweep) -> list[tuple[Any, ...]]:
    return [tuple(row.values.values()) for row in sweep.rows]


def test_a_grid_is_all_combinations_the_first_key_slowest(tmp_path: Path) -> None:
    sweep = _plan(tmp_path, GRID)
    assert sweep.varied == ("trace", "design", "ssd.log.size")
    assert _shape(sweep) == [
        (trace, design, log)
        for trace in ("xz", "sort")
        for design in ("base-cssd", "skybyte-full")
        for log in ("64KiB", "128KiB")
    ]
    (setup,) = {row.point.setup for row in sweep.rows if row.values["ssd.log.size"] == "64KiB"}
    assert setup == core.Setup("demo", overrides=("ssd.log.size=64KiB",))
    assert {row.point.threads for row in sweep.rows} == {1}


def test_points_add_to_the_rest_and_replace_it_in_their_order(tmp_path: Path) -> None:
    text = f"""
    trace = "{TRACES}/xz.etr"
    design = "skybyte-w"
    [[points]]
    ssd.log.size = ["64KiB", "128KiB"]
    [[points]]
    design = "dram-only"
    nand = "mlc"
    audit = true
    """
    sweep = _plan(tmp_path, text)
    assert sweep.varied == ("design", "ssd.log.size", "nand", "audit")
    assert _shape(sweep) == [
        ("skybyte-w", "64KiB", None, None),
        ("skybyte-w", "128KiB", None, None),
        ("dram-only", None, "mlc", True),
    ]
    assert sweep.points[2].audit and sweep.points[2].setup.nand == "mlc"


def test_every_choice_of_a_run_can_be_varied(tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text('[nand]\nt_r = "50us"\n')
    (tmp_path / "fast.toml").write_text('[nand]\nt_r = "1us"\n')
    text = f"""
    trace = "{TRACES}/xz.etr"
    design = "base-cssd"
    machine = ["demo", "table2"]
    nand = ["ull", "slc"]
    fidelity = ["paper", "no_prefetch"]
    threads = [1, 2]
    audit = [true, false]
    config = ["slow.toml", "fast.toml"]
    """
    sweep = _plan(tmp_path, text)
    keys = {result_store.key_of(point.inputs_of(each)) for each in sweep.points}
    assert len(sweep.points) == 64 and len(keys) == 64


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[workload.Wanted]:
    """What was asked of the workloads; each capture is a shipped one under another name."""
    asked: list[workload.Wanted] = []

    def record(wanted: workload.Wanted, _store: Path | None) -> workload.Recording:
        asked.append(wanted)
        return workload.Recording(TRACES / "xz.etr", 1, "", False)

    program = workload.Program("ycsb", "", "", "", "", 1, 1, 1, 1)
    monkeypatch.setattr(workload, "programs", lambda: [program])
    monkeypatch.setattr(workload, "record", record)
    return asked


def test_a_workload_stands_for_the_captures_of_all_that_it_lists(
    tmp_path: Path, recorded: list[workload.Wanted]
) -> None:
    text = """
    trace = [{workload = "ycsb", threads = [8, 24], footprint = "1MiB"}]
    design = "dram-only"
    """
    sweep = _plan(tmp_path, text)
    assert recorded == [workload.Wanted("ycsb", threads, footprint=1 << 20) for threads in (8, 24)]
    assert [each.trace.name for each in sweep.points] == ["ycsb-8-1MiB", "ycsb-24-1MiB"]
    assert sweep.varied == ("trace",)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("{workload = 'ycbs'}", "unknown workload ycbs. Did you mean ycsb?"),
        ("{workload = 'ycsb', thread = 8}", "unknown key thread of a workload. Did you mean"),
        ("{threads = 8}", "names no workload"),
        ("{workload = 'ycsb', threads = 'many'}", "threads of a workload: many is not a whole"),
        ("{workload = 'ycsb'}\nssd.log.size = 'x'", "ssd.log.size=x"),
    ],
)
def test_nothing_is_captured_for_a_sweep_that_is_wrong(
    entresol_command: Entresol,
    tmp_path: Path,
    recorded: list[workload.Wanted],
    table: str,
    said: str,
) -> None:
    file = _file(tmp_path, f"trace = {table}")
    assert said in one_line(entresol_command("sweep", file))
    assert recorded == []


def test_all_designs_are_the_default(tmp_path: Path) -> None:
    sweep = _plan(tmp_path, f'trace = "{TRACES}/xz.etr"')
    assert [each.design for each in sweep.points] == [each.name for each in core.designs()]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ssd.log.siz = '1MiB'", "unknown key ssd.log.siz. Did you mean ssd.log.size?"),
        ("[ssd.log]\nsiz = '1MiB'", "unknown key ssd.log.siz. Did you mean ssd.log.size?"),
        ("ssd.write_log = '1MiB'", "ssd.write_log is called ssd.log.size now; write that"),
        ("desing = 'skybyte-w'", "unknown key desing. Did you mean design?"),
        ("[points]\nnand = 'ull'", "points: is a list of tables"),
        ("[[points]]\nssd.x = 1", "unknown key ssd.x"),
        ("design = 'skybite-w'", "design: unknown design skybite-w. Did you mean skybyte-w?"),
        ("machine = 'dema'", "machine: unknown machine dema. Did you mean demo?"),
        ("nand = 'ulll'", "nand: unknown nand ulll. Did you mean ull?"),
        ("mode = 'quick'", "mode: unknown mode quick."),
        ("fidelity = 'no_prefech'", "fidelity: unknown fidelity switch no_prefech"),
        ("trace = 'none.etr'", "trace: "),
        ("trace = 'grid.toml'", "trace: "),
        ("trace = []", "trace: has no value"),
        ("trace = ''", "trace: "),
        ("trace = {workload = 'ycsb', threads = []}", "trace: threads of a workload: has no value"),
        ("trace = {workload = 'ycsb', footprint = 0}", "trace: --footprint 0B: give"),
        ("config = 'none.toml'", "config: "),
        ("threads = 0", "threads: 0 is not a number from 1"),
        ("threads = [1, 99]", "threads: 99 wanted, but xz has 8"),
        ("audit = 1", "audit: 1 is not true or false"),
        ("ssd.log.size = 1.5", "ssd.log.size: 1.5 is not text with a unit"),
        ("ssd.log.size = 'x'", 'ssd.log.size=x: "x" is not a size'),
        ("ssd.dram = true", 'ssd.dram=true: true is not a size such as "64MiB"'),
        ("ssd.cache.policy = true", 'ssd.cache.policy=true: true is not one of "none", "lru", '),
        ("ssd.log.size = ['64KiB', '64KiB']", "ssd.log.size: has 64KiB twice"),
        ("trace = ", "is not TOML"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_file_and_key_before_anything_runs(
    entresol_command: Entresol, tmp_path: Path, own_store: Path, text: str, said: str
) -> None:
    start = "" if text.startswith("trace") else f'trace = "{TRACES}/xz.etr"\n'
    file = _file(tmp_path, start + text)
    message = one_line(entresol_command("sweep", file, "-o", tmp_path / "out"))
    assert f"{file}: {said}" in message
    assert list(own_store.iterdir()) == [] and not (tmp_path / "out").exists()


def test_a_sweep_needs_a_trace(entresol_command: Entresol, tmp_path: Path) -> None:
    assert "trace: is missing" in one_line(entresol_command("sweep", _file(tmp_path, "")))
    assert "cannot be read" in one_line(entresol_command("sweep", tmp_path / "none.toml"))


def test_a_row_a_point_with_its_varied_values_as_text_and_as_numbers(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    outcome = entresol_command("sweep", _file(tmp_path, GRID), "-o", tmp_path / "out")
    assert outcome.code == 0 and "8 points" in outcome.out
    table = pq.read_table(tmp_path / "out" / "results.parquet")
    names = table.column_names[:5]
    assert names == ["point", "trace", "design", "ssd.log.size", "ssd.log.size_bytes"]
    assert table.column("ssd.log.size_bytes").to_pylist() == [64 << 10, 128 << 10] * 4
    assert table.column("error").to_pylist() == [None] * 8
    alone = core.Run(
        TRACES / "sort.etr",
        core.Setup("demo", overrides=("ssd.log.size=128KiB",)),
        "skybyte-full",
        1,
        False,
    ).execute()
    assert table.column("execution_time_ps").to_pylist()[7] == alone["execution_time_ps"]
    summary = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert summary["failures"] == 0 and summary["varied"] == ["trace", "design", "ssd.log.size"]
    assert [each["point"] for each in summary["points"]] == list(range(8))


def test_combinations_that_fail_are_listed_and_the_rest_is_done(
    entresol_command: Entresol, tmp_path: Path, own_store: Path
) -> None:
    text = GRID.replace('"64KiB"', '"8MiB"').replace(f'"{TRACES}/xz.etr", ', "")
    outcome = entresol_command("sweep", _file(tmp_path, text), "-o", tmp_path / "out")
    assert outcome.code == 1
    failed, total = outcome.err.splitlines()[-2:]
    assert "sort · skybyte-full · ssd.log.size=8MiB: " in failed and "has no room" in failed
    assert total == "entresol: 1 of 4 points failed; the others are done."
    table = pq.read_table(tmp_path / "out" / "results.parquet")
    times = table.column("execution_time_ps").to_pylist()
    errors = table.column("error").to_pylist()
    assert [time is None for time in times] == [error is not None for error in errors]
    assert errors.count(None) == 3
    assert len(list(own_store.rglob("*.json"))) == 3


def test_a_repeated_sweep_is_the_same_bytes_and_simulates_nothing(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    file = _file(tmp_path, GRID)
    entresol_command("sweep", file, "-o", tmp_path / "1", "--jobs", "1")
    again = entresol_command("sweep", file, "-o", tmp_path / "2")
    assert "8 of them from the store" in again.out
    entresol_command("sweep", file, "-o", tmp_path / "3", "--store", tmp_path / "other")
    for name in ("results.parquet", "sweep.json", "report.html"):
        texts = {(tmp_path / each / name).read_bytes() for each in ("1", "2", "3")}
        assert len(texts) == 1, name


def test_a_run_uses_what_a_sweep_made(entresol_command: Entresol, tmp_path: Path) -> None:
    entresol_command("sweep", _file(tmp_path, GRID), "-o", tmp_path / "out")
    words = ("--machine", "demo", "--threads", "1", "--set", "ssd.log.size=64KiB", "--json")
    run = entresol_command("run", TRACES / "xz.etr", "--design", "base-cssd", *words)
    assert "from the store" in run.err


def test_a_trace_whose_format_has_to_be_named_is_to_become_a_capture(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_text("no mark\n")
    message = one_line(entresol_command("sweep", _file(tmp_path, "trace = 'plain'")))
    assert f"entresol trace import {tmp_path}/plain -o NAME.etr --format FORMAT" in message


def test_a_full_disk_is_one_sentence_and_what_is_stored_stays(
    entresol_command: Entresol,
    tmp_path: Path,
    own_store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write, written = atomic.write, 0

    def fill(path: Path, content: bytes) -> None:
        nonlocal written
        if written == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, content)
        written += 1

    monkeypatch.setattr(atomic, "write", fill)
    file = _file(tmp_path, GRID)
    outcome = entresol_command("sweep", file, "-o", tmp_path / "out")
    assert outcome.code == 1 and "No space left on device" in outcome.err.splitlines()[-1]
    assert outcome.out == "" and not (tmp_path / "out").exists()
    assert len(list(own_store.rglob("*.json"))) == 3
    monkeypatch.setattr(atomic, "write", write)
    again = entresol_command("sweep", file, "-o", tmp_path / "out")
    assert again.code == 0 and "3 of them from the store" in again.out


def test_values_become_numbers_with_their_unit_in_the_name() -> None:
    assert units.number("1.5us", "time") == ("_ps", 1_500_000)
    assert units.number("64KiB", "size") == ("_bytes", 65536)
    assert units.number("16GB/s", "rate") == ("_bytes_per_s", 16 * 10**9)
    assert units.number("4.8GHz", "frequency") == ("_hz", 4_800_000_000)
    assert units.number("25%", "share") == ("_milli", 250)
    assert units.number("15cycles", "core cycles") == ("_cycles", 15)
    assert units.number("8", "number") == ("", 8)
    assert units.number("unlimited", "rate") is None
    assert units.number("125/1000", "share") is None
    assert units.number("adaptive", "name") is None


def test_a_number_that_is_a_word_somewhere_is_text_in_every_row(tmp_path: Path) -> None:
    text = f'trace = "{TRACES}/xz.etr"\ndesign = "base-cssd"\nftl.placement = [1, 2]\n'
    sweep = _plan(tmp_path, text)
    outcomes = [executor.Outcome(each, None, None, "no") for each in sweep.points]
    assert [row["ftl.placement"] for row in table.rows(sweep, outcomes)] == [1, 2]
    word = replace(sweep.rows[1], point=replace(sweep.points[1], design="unknown"))
    word = replace(word, values={"ftl.placement": "unlimited"})
    mixed = replace(sweep, rows=(sweep.rows[0], word))
    assert [row["ftl.placement"] for row in table.rows(mixed, outcomes)] == ["1", "unlimited"]


def test_the_time_left_counts_what_is_half_done_and_not_what_was_stored(tmp_path: Path) -> None:
    each = _plan(tmp_path, GRID).points[0]
    half = Progress("measured", 50, 100, 0)
    state = executor.Progress(total=10, stored=4, done=1, failed=1, running=((each, half),))
    assert progress.time_left(state, 30.0) == pytest.approx(3.5 * 30 / 1.5)
    assert progress.time_left(executor.Progress(10, 4, 0, 0, ()), 30.0) is None
    assert [progress.span(each) for each in (12, 200, 7500)] == ["12 s", "3 min 20 s", "2 h 05 min"]
