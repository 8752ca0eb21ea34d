"""`entresol fs crash`: the crash lab of file systems from the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import ROOT, Entresol

PAGE = ROOT / "docs" / "formats" / "fs-crash-script.md"


def _script(directory: Path, text: str) -> Path:
    path = directory / "script.txt"
    path.write_text(text, encoding="utf-8")
    return path


def _documented() -> str:
    (text,) = re.findall(r"^```\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(text)


def test_the_documentations_script_shows_its_bug_and_is_sound_without(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    text = _documented()
    outcome = entresol_command("fs", "crash", "repeat", _script(tmp_path, text))
    assert (outcome.code, outcome.err) == (1, "")
    assert "A is missing" in outcome.out
    sound = _script(tmp_path, text.replace("bug CommitForgotten\n", ""))
    outcome = entresol_command("fs", "crash", "repeat", sound, "--json")
    assert outcome.code == 0
    result = json.loads(outcome.out)
    assert result["finding"] is None
    tally = result["tally"]
    assert tally["sequences"] == 1 and tally["crash_points"] >= tally["states"] > 3


def test_bugs_that_the_page_names_are_those_that_there_are() -> None:
    enum = (ROOT / "crates/fslab/src/crash/bug.rs").read_text()
    body = enum.split("pub enum Bug {")[1].split("\n}")[0]
    names = re.findall(r"^    ([A-Z]\w+)", body, re.MULTILINE)
    assert len(names) == 17
    page = PAGE.read_text()
    assert [name for name in names if f"`{name}`" not in page] == []


def test_a_campaign_is_the_same_with_any_number_of_threads(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    common = ("fs", "crash", "run", "--length", "2", "--two-tasks", "--sequences", "4", "--json")
    more = ("-o", tmp_path / "script")
    answers = [entresol_command(*common, *more, "--threads", threads) for threads in ("1", "2")]
    assert [answer.code for answer in answers] == [0, 0]
    assert answers[0].out == answers[1].out
    result = json.loads(answers[0].out)
    assert result["finding"] is None and result["tally"]["sequences"] + result["impossible"] == 4
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the first line is not `entresol file system crash script 1`"),
        ("entresol file system crash script 1\nbug Big\nsync\n", "`Big` is no bug"),
        ("entresol file system crash script 1\ncrate foo\n", "`crate foo` is no operation"),
    ],
)
def test_what_is_no_script_is_refused_in_one_sentence(
    entresol_command: Entresol, tmp_path: Path, text: str, said: str
) -> None:
    outcome = entresol_command("fs", "crash", "repeat", _script(tmp_path, text))
    assert outcome.code == 2 and said in outcome.err and outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--personality", "bytefz"), "unknown personality bytefz. Did you mean bytefs?"),
        (("--two-tasks",), "--two-tasks needs --length 2"),
        (("-o", "/nowhere/script"), "a script cannot be written there"),
    ],
)
def test_a_campaign_that_cannot_begin_says_why(
    entresol_command: Entresol, words: tuple[str, ...], said: str
) -> None:
    outcome = entresol_command("fs", "crash", "run", *words)
    assert outcome.code == 2 and said in outcome.err and outcome.err.count("\n") == 1
