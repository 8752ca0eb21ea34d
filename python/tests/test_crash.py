"""`entresol device crash`: the lab from the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import ROOT, Entresol

HEAD = "entresol crash script 1\n"
FAILING = HEAD + "bug mapped_before_programmed\nwrite_page 3\n"


def _script(directory: Path, text: str) -> Path:
    path = directory / "a.crash"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_script_that_fails_says_where_and_what_and_exits_with_one(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    script = _script(tmp_path, FAILING)
    outcome = entresol_command("device", "crash", "repeat", script)
    assert (outcome.code, outcome.err) == (1, "")
    assert "in step 0 (write_page 3), after the cut before 0" in outcome.out
    assert "is mapped to P0, where nothing is" in outcome.out
    as_json = entresol_command("device", "crash", "repeat", script, "--json")
    assert as_json.code == 1
    assert json.loads(as_json.out)["finding"]["step"] == 0


def test_the_documentations_script_shows_its_bug(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    text = (ROOT / "docs" / "formats" / "crash-script.md").read_text()
    script, shown = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    outcome = entresol_command("device", "crash", "repeat", _script(tmp_path, script))
    assert outcome.code == 1
    assert shown in outcome.out


@pytest.mark.parametrize("cut", ["cut before 9 9 pending", "cut within 0 99 torn"])
def test_a_cut_that_never_comes_is_no_pass(
    entresol_command: Entresol, tmp_path: Path, cut: str
) -> None:
    script = _script(tmp_path, f"{FAILING}{cut}\n")
    outcome = entresol_command("device", "crash", "repeat", script)
    assert outcome.code == 1
    assert "never comes to the cut" in outcome.err and outcome.err.count("\n") == 1
    as_json = entresol_command("device", "crash", "repeat", script, "--json")
    assert (as_json.code, json.loads(as_json.out)["script"]["cut_is_missing"]) == (1, True)
    again = _script(tmp_path, f"{FAILING}cut before 0 2 pending\ncut_again before 0 99 pending\n")
    assert entresol_command("device", "crash", "repeat", again).code == 1


def test_a_run_that_could_not_write_its_script_does_not_begin(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    for place in (tmp_path, tmp_path / "none" / "a.crash"):
        outcome = entresol_command("device", "crash", "run", "--points", "1", "-o", place)
        assert (outcome.code, outcome.out) == (2, "")
        assert f"{place}: a script cannot be written there" in outcome.err


def test_a_script_of_a_sound_firmware_counts_its_crash_points(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    text = HEAD + "write 3 2\nwrite_page 3\nread_page 3\nsettle\npower_cut torn\nread_page 3\n"
    outcome = entresol_command("device", "crash", "repeat", _script(tmp_path, text), "--json")
    assert outcome.code == 0
    result = json.loads(outcome.out)
    assert result["finding"] is None
    assert result["tally"]["crash_points"] > 10


def test_steps_that_cannot_be_done_are_said_with_the_line_of_the_first(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    text = HEAD + "# a typo: the die is idle\nwrite 3 2\nfail 1\nsettle\nfinish 1\n"
    script = _script(tmp_path, text)
    outcome = entresol_command("device", "crash", "repeat", script)
    assert outcome.code == 0
    assert outcome.out.splitlines()[1] == "2 of 4 steps could not be done, the first in line 4"
    result = json.loads(entresol_command("device", "crash", "repeat", script, "--json").out)
    assert result["script"] == {
        "steps": 4,
        "passed_over": 2,
        "first_line": 4,
        "cut_is_missing": False,
    }
    sound = _script(tmp_path, HEAD + "write 3 2\nsettle\n")
    assert "could not" not in entresol_command("device", "crash", "repeat", sound).out


def test_a_campaign_judges_as_many_points_as_asked(entresol_command: Entresol) -> None:
    outcome = entresol_command("device", "crash", "run", "--points", "2000", "--json")
    assert outcome.code == 0, outcome.out
    result = json.loads(outcome.out)
    assert result["failure"] is None
    assert result["tally"]["crash_points"] >= 2000
    assert result["tally"]["device_states"] > 1000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1 is"),
        (HEAD + "frobnicate\n", 'line 2: "frobnicate" is not a step'),
        (HEAD + "device blocks=0\n", "the device cannot be: blocks is 0; it must be"),
        (HEAD + "bug all\n", "is not a bug"),
    ],
)
def test_what_is_no_script_is_one_line_and_exit_code_two(
    entresol_command: Entresol, tmp_path: Path, text: str, reason: str
) -> None:
    script = _script(tmp_path, text)
    outcome = entresol_command("device", "crash", "repeat", script)
    assert (outcome.code, outcome.out) == (2, "")
    assert reason in outcome.err
    assert str(script) in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_files_that_cannot_be_read_are_named(entresol_command: Entresol, tmp_path: Path) -> None:
    for path, reason in [(tmp_path, "is a directory"), (tmp_path / "no", "no such crash script")]:
        outcome = entresol_command("device", "crash", "repeat", path)
        assert (outcome.code, reason in outcome.err) == (2, True), outcome.err
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "is not text" in entresol_command("device", "crash", "repeat", binary).err
