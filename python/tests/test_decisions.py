"""`entresol decisions`: what named settings are worth, first in and last in."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import cast

import pytest
from conftest import Entresol

from entresol import core, decisions, papers, study
from entresol.core import ConfigError
from entresol.decisions import Decision
from entresol.errors import UserError
from entresol.result_types import RunResult

TRACES = Path(__file__).resolve().parents[2] / "traces"
TWO = (
    Decision("fast_flash", "reads take half", ("nand.t_r=1500ns",)),
    Decision("slow_cores", "cores take twice", ("cpu.clock=2GHz",)),
)


def _wanted(*designs: str) -> study.Study:
    setup = study.setup_of("demo", None, None, None, "paper", "fast")
    traces = [str(TRACES / "xz.etr")]
    return study.study_of(traces, list(designs), setup, None, False)


def test_what_dram_only_does_not_read_is_run_once() -> None:
    found = decisions.plan(_wanted("skybyte-w"), TWO)
    of = [point.design for point in found.points.values()]
    # Nothing, all, and each of two alone, which are all but the other.
    assert of.count("skybyte-w") == 4
    assert of.count("dram-only") == 2, "with both clocks"


def test_worths_are_factors_of_the_time_over_dram_only() -> None:
    found = decisions.plan(_wanted("skybyte-w"), TWO)

    def result(key: str) -> RunResult:
        point = found.points[key]
        on = set(point.setup.overrides)
        time = 1000 if point.design == "dram-only" else 8000
        if "nand.t_r=1500ns" in on:
            time //= 2
        if "cpu.clock=2GHz" in on:
            time *= 2
        return cast(RunResult, {"execution_time_ps": time})

    answer = decisions.answer(found, {key: result(key) for key in found.points})
    fast, slow = (answer.worths[each.name, "skybyte-w"] for each in TWO)
    assert math.isclose(fast.first_in, 0.5) and math.isclose(fast.last_in, 0.5)
    assert math.isclose(slow.first_in, 1.0) and math.isclose(slow.last_in, 1.0)
    assert math.isclose(answer.without["skybyte-w"], 8.0)
    assert math.isclose(answer.with_all["skybyte-w"], 4.0)
    assert [each.name for each in decisions.by_weight(answer)] == ["fast_flash", "slow_cores"]


@pytest.mark.parametrize("room", ["skybyte", "entresol"])
def test_the_decisions_of_a_room_are_settings_of_this_version(room: str) -> None:
    found = decisions.plan(_wanted("skybyte-full"), decisions.read(room))
    assert len(found.sets()) == 2 * len(found.decisions) + 2


def test_the_design_of_our_own_is_skybyte_full_with_all_of_its_decisions() -> None:
    wanted = _wanted("skybyte-full")
    found = decisions.plan(wanted, decisions.read("entresol"))
    everything = found.setup(found.sets()[1], "skybyte-full")
    config = core.effective_config
    assert config(everything, "skybyte-full") == config(wanted.setup, "entresol")


def test_a_file_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    for text in ("[[decision]]\nname = 1", "decision = 3", "x = ["):
        place = tmp_path / "mine.toml"
        place.write_text(text)
        with pytest.raises(UserError):
            decisions.read(str(place))
    with pytest.raises(UserError, match="neither a paper"):
        decisions.read(str(tmp_path / "nothing.toml"))
    assert "bytefs" in papers.names()
    with pytest.raises(UserError, match=r"has no decisions\.toml"):
        decisions.read("bytefs")
    place.write_text('[[decision]]\nname = "a"\ntitle = "b"\nset = ["no.key=1"]\n')
    with pytest.raises(ConfigError):
        decisions.plan(_wanted("skybyte-w"), decisions.read(str(place)))


def test_the_command_prints_factors(
    tmp_path: Path, beginnings: Path, entresol_command: Entresol
) -> None:
    place = tmp_path / "mine.toml"
    place.write_text('[[decision]]\nname = "a"\ntitle = "b"\nset = ["nand.t_r=6us"]\n')
    words = [
        "decisions",
        str(beginnings / "xz.etr"),
        "--of",
        str(place),
        "--design",
        "skybyte-full",
    ]
    ended = entresol_command(*words, "--machine", "demo", "--mode", "fast", "--json", "--no-store")
    (one,) = json.loads(ended.out)["decisions"]
    worth = one["worth"]["skybyte-full"]
    assert worth["first_in_micro"] == worth["last_in_micro"] > 1_000_000
