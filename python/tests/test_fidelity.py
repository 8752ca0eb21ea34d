"""Fidelity switches from the command line to the result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Entresol

from entresol import core

SETUP = core.Setup("demo", fidelity="artifact,-no_prefetch")


def test_switches_lie_between_design_and_file() -> None:
    assert core.effective_config(SETUP, "base-cssd")["nand"]["parallelism"] == "channel"
    assert core.effective_config(SETUP, "base-cssd")["ssd.prefetch"]["pages"] == "1"
    over = core.Setup(
        "demo", None, (("my.toml", '[nand]\nparallelism = "die"'),), (), SETUP.fidelity
    )
    assert core.effective_config(over, "base-cssd")["nand"]["parallelism"] == "die"


def test_no_switch_changes_nothing() -> None:
    paper = core.effective_config(core.Setup("demo"), "skybyte-full")
    assert paper == core.effective_config(core.Setup("demo", fidelity="paper"), "skybyte-full")
    assert paper != core.effective_config(SETUP, "skybyte-full")


def test_an_unknown_switch_names_the_nearest() -> None:
    with pytest.raises(core.ConfigError, match="did you mean no_prefetch"):
        core.fidelity_names("no_prefech")


@pytest.mark.usefixtures("fake")
def test_a_run_says_which_switches_were_on_and_how_to_repeat_it(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path
) -> None:
    outcome = entresol_command("run", capture_file, "--fidelity", "no_prefetch", "-o", tmp_path)
    assert outcome.code == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert {tuple(run["fidelity"]) for run in summary["runs"]} == {("no_prefetch",)}
    assert "--fidelity no_prefetch" in (tmp_path / "report.html").read_text()
    unknown = entresol_command("run", capture_file, "--fidelity", "no_prefech", "--json")
    assert (unknown.code, unknown.out) == (2, "")


def test_config_show_names_the_switches(entresol_command: Entresol) -> None:
    shown = entresol_command("config", "show", "--fidelity", "no_prefetch").out
    assert shown.startswith("# fidelity switches: no_prefetch\n")
    as_json = entresol_command("config", "show", "--fidelity", "no_prefetch", "--json").out
    assert json.loads(as_json)["fidelity"] == ["no_prefetch"]


def test_switches_are_listed_and_explained(entresol_command: Entresol) -> None:
    listed = json.loads(entresol_command("fidelity", "list", "--json").out)
    for entry in listed:
        assert entry["name"] in entresol_command("fidelity", "list").out
        explained = entresol_command("fidelity", "explain", entry["name"]).out
        assert entry["sets"][0][0] in explained
        assert entry["source"] in explained
    unknown = entresol_command("fidelity", "explain", "nothing")
    assert unknown.code == 2
