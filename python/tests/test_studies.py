"""Explanations, windows and co-runs of a shipped capture: what they print is what runs give."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Entresol

from entresol.core import Json

DEMO = ("--machine", "demo")
SWITCHES = ("clean_victims_programmed", "no_prefetch", "nand_one_unit_per_channel")


def _answer(entresol_command: Entresol, *words: object) -> Json:
    outcome = entresol_command(*words, "--json")
    assert outcome.code == 0, outcome.err
    answer = json.loads(outcome.out)
    assert isinstance(answer, dict)
    return answer


def test_what_a_design_of_another_room_cannot_do_is_said_with_its_name(
    entresol_command: Entresol, captured: Path
) -> None:
    """Our own design is among all of them, and goes by what the artifact's switches take away."""
    for words in (("run", captured), ("run", captured, "--mode", "fast"), ("sample", captured)):
        outcome = entresol_command(*words, *DEMO, *(["--fidelity", "artifact"]))
        assert outcome.code == 2
        assert "entresol: design entresol: configuration: " in outcome.err, outcome.err
        assert "name designs without it, for example --design skybyte/all" in outcome.err
    outcome = entresol_command("explain-gain", captured, *DEMO, "--design", "entresol")
    assert outcome.code == 2, "no paper has switches for it"
    assert "its paper has no fidelity switches" in outcome.err and "--switch" in outcome.err
    assert "--by mechanisms" in outcome.err


def test_every_configuration_of_an_explanation_equals_a_run_of_its_own(
    entresol_command: Entresol, captured: Path
) -> None:
    chosen = [word for name in SWITCHES for word in ("--switch", name)]
    gain = _answer(entresol_command, "explain-gain", captured, *DEMO, *chosen)
    assert len(gain["configurations"]) == 8
    for item in gain["configurations"]:
        words = item["command"].split()[3:]
        runs = _answer(entresol_command, "run", captured, *words, "--design", "base-cssd")["runs"]
        base, design = runs
        assert base["fidelity"] == design["fidelity"] == sorted(item["on"], key=SWITCHES.index)
        assert (base["config_digest"], base["execution_time_ps"]) == (
            item["reference_digest"],
            item["reference_ps"],
        )
        assert (design["config_digest"], design["execution_time_ps"]) == (
            item["design_digest"],
            item["design_ps"],
        )
    product = gain["speedup_without_micro"] / 1e6
    for share in gain["shares"]:
        product *= share["shapley_micro"] / 1e6
    assert product == pytest.approx(gain["speedup_with_all_micro"] / 1e6, rel=1e-4)


def test_by_mechanism_the_gain_begins_with_base_cssd(
    entresol_command: Entresol, captured: Path
) -> None:
    gain = _answer(entresol_command, "explain-gain", captured, *DEMO, "--by", "mechanisms")
    assert gain["speedup_without_micro"] == 1_000_000
    runs = _answer(entresol_command, "run", captured, *DEMO, "--design", "base-cssd,skybyte-full")[
        "runs"
    ]
    times = [run["execution_time_ps"] for run in runs]
    assert gain["speedup_with_all_micro"] == round(times[0] / times[1] * 1e6)


def test_in_fast_mode_an_explanation_repeats_and_tells_the_error(
    entresol_command: Entresol, captured: Path
) -> None:
    words = ("explain-gain", captured, *DEMO, "--by", "mechanisms", "--mode", "fast")
    gain = _answer(entresol_command, *words)
    assert gain["provenance"]["mode"] == "fast"
    error = gain["provenance"]["mode_error_milli"]
    assert error > 0
    item = gain["configurations"][-1]
    repeated = item["command"].split()[3:]
    assert " --mode fast" in item["command"]
    (run,) = _answer(entresol_command, "run", captured, *repeated)["runs"]
    assert run["mode"] == "fast"
    assert run["execution_time_ps"] == item["design_ps"]
    outcome = entresol_command(*words)
    assert f"within {error / 10:.1f} % of the detailed mode" in " ".join(outcome.out.split())


def test_the_slowest_load_accounts_for_all_of_its_time(
    entresol_command: Entresol, captured: Path
) -> None:
    for rank in ("1", "3"):
        told = _answer(
            entresol_command, "why", captured, *DEMO, "--design", "skybyte-wp", "--rank", rank
        )
        assert sum(part["time_ps"] for part in told["parts"]) == told["latency_ps"] > 0


def test_windows_of_a_capture_are_the_same_in_any_number_of_jobs(
    entresol_command: Entresol, captured: Path
) -> None:
    words = (
        "sample",
        captured,
        *DEMO,
        "--design",
        "base-cssd,skybyte-w",
        "--windows",
        "3",
        "--window",
        "100000",
        "--placements",
        "2",
    )
    one, two = (_answer(entresol_command, *words, "--jobs", jobs) for jobs in ("1", "2"))
    assert one == two
    assert len(one["runs"]) == 2 * 3 * 2
    digests = {(run["design"], run["placement"]): run["config_digest"] for run in one["runs"]}
    assert len(set(digests.values())) == 4, "placement is part of what was run"


def test_programs_that_share_a_machine_slow_each_other_down(
    entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "one.etr", tmp_path / "two.etr"
    shutil.copy(captured, first)
    shutil.copy(captured, second)
    # With slices longer than a program the first would run alone, and the other after it.
    words = ("--design", "base-cssd", "--set", "os.time_slice=10us", "--audit")
    runs = _answer(entresol_command, "run", f"{first}+{second}", *DEMO, *words)["runs"]
    assert [run["trace"] for run in runs] == ["one", "two", "one+two"]
    assert runs[0]["execution_time_ps"] == runs[1]["execution_time_ps"]
    assert runs[2]["instructions"] == 2 * runs[0]["instructions"]
    slowdowns = [program["slowdown_milli"] for program in runs[2]["programs"]]
    assert all(1000 < slowdown < 4000 for slowdown in slowdowns), slowdowns
