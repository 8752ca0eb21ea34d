"""Windows and their estimates, and programs that run together."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import ROOT, Entresol, one_line

from entresol import core, estimate, quantity, sampling, study

fake = pytest.mark.usefixtures("fake")


def test_the_error_of_a_mean_is_students() -> None:
    # 1, 2, 3, 6: mean 3, standard deviation sqrt(14/3), t(3) = 3.182.
    found = estimate.mean([1.0, 2.0, 3.0, 6.0])
    assert found.value == 3.0
    assert found.half_width == pytest.approx(3.182 * math.sqrt(14 / 3) / 2)


def test_one_sample_has_no_interval() -> None:
    assert estimate.mean([5.0]) == estimate.Estimate(5.0, None)


def test_a_ratio_of_proportional_samples_has_no_error() -> None:
    pairs = [(2.0, 1.0), (6.0, 3.0), (14.0, 7.0)]
    found = estimate.jackknife(
        pairs, lambda rest: sum(a for a, _ in rest) / sum(b for _, b in rest)
    )
    assert found.value == 2.0
    assert found.half_width == pytest.approx(0.0)


def test_a_ratio_has_an_interval_of_logarithms() -> None:
    # Without one of 1, 2, 4, their geometric mean is 2^1.5, 2 and 2^0.5.
    def middle(rest: Sequence[float]) -> float:
        return math.exp(math.fsum(map(math.log, rest)) / len(rest))

    by = math.exp(4.303 * math.log(2) / math.sqrt(3))
    found = estimate.jackknife_factor([1.0, 2.0, 4.0], middle)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2 / by, 2 * by))
    found = estimate.jackknife_factor([1.0, 2.0, 4.0], middle, of_repetition=True)
    assert found.high == pytest.approx(2 * by ** math.sqrt(2))
    assert estimate.jackknife_factor([1.0], middle).low is None
    # A design that needed no time in all windows but one has no ratio without that one.
    assert estimate.jackknife_factor([0.0, 1.0], math.fsum).high is None


def test_the_closer_the_ends_the_more_digits() -> None:
    spans = [quantity.span(*ends) for ends in ((0.31, 8.2), (1.031, 1.062), (0.9912, 1.0049))]
    assert spans == ["0.31–8.2", "1.03–1.06", "0.9912–1.005"]


def _thread(thread: int, instructions: int, executed: int, active: int) -> dict[str, int]:
    return {
        "thread": thread,
        "instructions": instructions,
        "executed": executed,
        "active_ps": active,
    }


def test_the_pace_is_that_of_the_slowest_thread_over_all_windows() -> None:
    # Thread 0: 1,000 instructions at 300 ps for 200 executed. Thread 1: 3,000 at 800 ps for
    # 200, 12,000 ps in all, which over 4,000 instructions are 3 ps each.
    windows: list[Any] = [
        [{"pace": [_thread(0, 1000, 100, 100), _thread(1, 3000, 100, 300)]}],
        [{"pace": [_thread(0, 1000, 100, 200), _thread(1, 3000, 100, 500)]}],
    ]
    assert sampling.pace(windows) == pytest.approx(3.0)


def test_a_thread_that_did_nothing_in_the_windows_is_left_out() -> None:
    windows: list[Any] = [[{"pace": [_thread(0, 100, 10, 50), _thread(1, 100, 0, 0)]}]]
    assert sampling.pace(windows) == pytest.approx(100 * 5 / 200)


@pytest.mark.parametrize(
    "words",
    [("sample", "--seeds", "2"), ("steady", "--seeds", "2"), ("steady", "--seed", "7")],
)
def test_seeds_that_nothing_draws_from_are_refused(
    entresol_command: Entresol, captured: Path, words: tuple[str, ...]
) -> None:
    command, *options = words
    windows = [
        *("--windows", "1", "--window", "4000"),
        *("--machine", "demo", "--design", "skybyte-full"),
    ]
    refused = entresol_command(command, captured, *windows, *options)
    assert refused.code == 2 and "with os.scheduler = cfs nothing is drawn" in refused.err
    assert "--placements" in refused.err and not refused.out
    if command == "sample":
        random = ("--set", "os.scheduler=random", "--json")
        drawn = json.loads(entresol_command(command, captured, *windows, *options, *random).out)
        times = {run["execution_time_ps"] for run in drawn["runs"]}
        assert len(drawn["runs"]) == 2 == len(times), "each seed is a run of its own"


@fake
def test_sample_gives_every_window_and_the_estimates(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path
) -> None:
    words = ["--windows", "4", "--window", "1000", "--seeds", "2", "--placements", "3"]
    words += ["--set", "os.scheduler=random"]
    outcome = entresol_command(
        "sample", capture_file, "--design", "base-cssd,skybyte-w", *words, "-o", tmp_path / "out"
    )
    assert outcome.code == 0, outcome.err
    assert "± " in outcome.out and "4 windows of 1,000 instructions" in outcome.out
    written = json.loads((tmp_path / "out" / "samples.json").read_text())
    assert len(written["runs"]) == 2 * 4 * 2 * 3
    assert pq.read_table(tmp_path / "out" / "samples.parquet").num_rows == 48
    base, log = written["estimates"]
    assert (base["design"], base["speedup_milli"]) == ("base-cssd", 1000)
    assert log["speedup_low_milli"] == log["speedup_milli"] == log["speedup_high_milli"] > 1000
    # Seeds 1 and 2 are 10 to 11 apart in pace, each three times: deviation 0.5477 over 10.5.
    assert base["spread_milli"] == 52


@fake
def test_windows_that_do_not_fit_are_refused(
    entresol_command: Entresol, capture_file: Path
) -> None:
    outcome = entresol_command("sample", capture_file, "--windows", "15")
    assert outcome.code == 2 and "do not fit" in outcome.err


@fake
def test_a_co_run_is_run_with_each_program_alone(
    entresol_command: Entresol, capture_file: Path
) -> None:
    other = capture_file.with_name("xz.etr")
    shutil.copy(capture_file, other)
    outcome = entresol_command("run", f"{capture_file}+{other}", "--design", "base-cssd", "--json")
    assert outcome.code == 0, outcome.err
    runs = json.loads(outcome.out)["runs"]
    assert [run["trace"] for run in runs] == ["sort", "xz", "sort+xz"]
    alone = {run["trace"]: run["execution_time_ps"] for run in runs[:2]}
    for program in runs[2]["programs"]:
        assert program["alone_ps"] == alone[program["trace"]]
        expected = program["execution_time_ps"] * 1000 // program["alone_ps"]
        assert program["slowdown_milli"] == expected
    assert all("slowdown_milli" not in run["programs"][0] for run in runs[:2])


@pytest.mark.parametrize("command", ["sample", "steady"])
def test_what_the_command_varies_is_not_set(
    entresol_command: Entresol, captured: Path, tmp_path: Path, command: str
) -> None:
    file = tmp_path / "more.toml"
    file.write_text("[ftl]\nplacement = 3\n")
    for words, key, option in (
        (("--set", "run.seed=7"), "run.seed", "--seeds"),
        (("--config", file), "ftl.placement", "--placements"),
    ):
        done = entresol_command(command, captured, "--machine", "demo", *words)
        assert done.code == 2 and one_line(done).startswith(f"entresol: {key}: this command")
        assert option in done.err
    # A report's file of all parameters names it as it is without anybody's wish.
    file.write_text("[ftl]\nplacement = 0\n")
    on = ("--machine", "demo", "--design", "base-cssd", "--set", "ssd.log.size=256KiB")
    late = ("--from", "50") if command == "steady" else ()
    done = entresol_command(command, captured, *on, "--config", file, "--window", "90000000", *late)
    assert "base-cssd: set, and not read by this design: ssd.log.size" in done.err


def test_a_mean_over_all_accesses_is_weighted_by_all_of_them() -> None:
    def window(paper: int, every: int, paper_ps: int, all_ps: int) -> Any:
        amat = {"paper_accesses": paper, "paper_ps": paper_ps,
                "all_accesses": every, "all_ps": all_ps}  # fmt: skip
        statistics = {"amat": amat, "flash": {"program_pages": 0}}
        return {"trace": "t", "design": "d", "window": paper, "seed": 1, "placement": 0,
                "pace": [_thread(0, 100, 10, 50)], "instructions": 100, "execution_time_ps": 50,
                "statistics": statistics, "warnings": []}  # fmt: skip

    (row,) = sampling.rows([window(0, 10, 0, 400), window(10, 30, 7, 800)])
    assert (row.amat_ps, row.amat_all_ps) == (7.0, 700.0)


def test_a_co_run_is_repeated_by_its_programs() -> None:
    both = "+".join(str(ROOT / "traces" / name) for name in ("sort.etr", "xz.etr"))
    wanted = study.study_of([both], ["base-cssd"], core.Setup("demo"), None, False)
    assert study.command(wanted).split()[2:5] == ["sort.etr", "xz.etr", "sort.etr+xz.etr"]
