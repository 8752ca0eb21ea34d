"""`entresol causes`: which switches a number of a text hangs on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
import synthetic_figures
from conftest import Entresol, one_line

from entresol import core, papers
from entresol.errors import UserError
from entresol.figures import ranking, reproduction
from entresol.figures.causes import Change
from entresol.figures.plan import Results
from entresol.figures.simulate import Plan, Simulation
from entresol.papers.skybyte import PAPER

ONE = PAPER.settings(workloads=["bc"])
SKYBYTE = reproduction.of(PAPER)
CLAIM = next(each for each in SKYBYTE.claims if each.quantity == "slowdown CXL-SSD vs DRAM (max)")
HELPS, HARMS, IDLE = "no_buffer_hits", "no_prefetch", "promotion_on_7th_hit"


class _Invented:
    """Base-CSSD takes twice its time with one switch, half with another, nine times with both."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []

    def run(self, plan: Plan) -> Results:
        self.plans.append(plan)
        on = set(core.fidelity_names(plan.settings.fidelity))
        factor = {(True, True): 9.0, (True, False): 2.0, (False, True): 0.5, (False, False): 1.0}
        runs = {}
        for want in plan.wants:
            is_base = want.design == "base-cssd"
            time = 8000 * factor[HELPS in on, HARMS in on] if is_base else 1000
            runs[want] = synthetic_figures.run(want) | {"execution_time_ps": round(time)}
        return Results(plan.settings, runs)


def test_candidates_are_ranked_by_how_far_they_lead() -> None:
    changes = ranking.candidates(SKYBYTE, [HARMS, HELPS, IDLE], [])
    invented = _Invented()
    simulation = cast(Simulation, invented)
    (ranked,), failures = ranking.rank(SKYBYTE, ONE, [CLAIM], changes, simulation)
    assert not failures
    assert [change.switches[0] for change in ranked.order] == [HELPS, HARMS, IDLE]
    helps, harms = (ranked.closing.worths[Change((name,))] for name in (HELPS, HARMS))
    assert (helps.first_in, helps.last_in) == (2.0, 18.0)
    assert (harms.first_in, harms.last_in) == (0.5, 4.5)
    first, last = ranked.shares(Change((HARMS,)))
    assert first < 0 < last, "alone it leads away, beside the other near"


def test_a_run_that_reads_nothing_of_a_switch_is_made_once() -> None:
    changes = ranking.candidates(SKYBYTE, [HELPS, HARMS, IDLE], [])
    invented = _Invented()
    ranking.rank(SKYBYTE, ONE, [CLAIM], changes, cast(Simulation, invented))
    made = [(want.design, plan.settings.fidelity) for plan in invented.plans for want in plan.wants]
    assert len(set(made)) == len(made)
    assert [of for design, of in made if design == "dram-only"] == ["paper"]
    of_base = {of for design, of in made if design == "base-cssd"}
    assert of_base == {"paper", HELPS, HARMS, f"{HELPS},{HARMS}"}, "no page of it migrates"


def test_candidates_are_all_switches_or_those_that_are_named() -> None:
    everything = ranking.candidates(SKYBYTE, [], [])
    echo = Change(("write_back_echo",))
    assert echo not in everything and len(everything) == len(core.fidelity_names("artifact")) - 1
    (named,) = ranking.candidates(reproduction.of(papers.with_claims("bytefs")), ["no_link"], [])
    assert named.switches == ("no_link",)
    pair = ranking.candidates(SKYBYTE, ["no_tlb"], ["ssd.dram=1GiB ssd.log.size=8MiB"])
    assert pair[1].overrides == ("ssd.dram=1GiB", "ssd.log.size=8MiB")
    with pytest.raises(UserError, match="has no switches"):
        ranking.candidates(reproduction.of(papers.with_claims("opencxd")), [], [])


def test_joined_candidates_are_turned_on_together() -> None:
    sets = "run.other_pages=clean"
    (both,) = ranking.candidates(SKYBYTE, [f"no_tlb+no_prefetch+{sets}"], [])
    assert both == Change(("no_prefetch", "no_tlb"), (sets,))
    found = ranking.candidates(
        SKYBYTE, ["no_tlb,no_prefetch,round_robin", "no_tlb+no_prefetch"], []
    )
    assert found == (Change(("round_robin",)), Change(("no_prefetch", "no_tlb")))
    rest = ranking.candidates(SKYBYTE, ["artifact,-write_back_echo", "no_tlb+no_prefetch"], [])
    assert len(rest) == len(ranking.candidates(SKYBYTE, [], [])) - 1
    with pytest.raises(core.ConfigError, match="no_such"):
        ranking.candidates(SKYBYTE, ["no_tlb+no_such"], [])


def test_candidates_that_cannot_be_on_together_are_refused() -> None:
    dax = reproduction.of(papers.with_claims("dax"))
    with pytest.raises(UserError, match=r"set fs\.dax_wait to 30ms and to 1ms, and cannot"):
        ranking.candidates(dax, [], ["fs.dax_wait=1ms"])


def test_the_command_ranks_on_a_capture(
    entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    place = tmp_path / "captures"
    place.mkdir()
    (place / "bc-8.etr").symlink_to(captured)
    words = ["causes", "skybyte", "P over Base", "--switch", "no_tlb", "--set", "ssd.dram=16MiB",
             "--workloads", "bc", "--captures", place, "--mode", "fast"]  # fmt: skip
    ended = entresol_command(*words, "--json")
    assert ended.code == 0, ended.err
    (found,) = json.loads(ended.out)["claims"]
    assert {each["name"] for each in found["candidates"]} == {
        "--fidelity no_tlb", "--set ssd.dram=16MiB",
    }  # fmt: skip
    assert all(each["first_in_micro"] > 0 for each in found["candidates"])
    printed = entresol_command(*words)
    assert "P over Base: ours" in printed.out and "all together" in printed.out


def test_a_claim_that_is_none_is_one_sentence(entresol_command: Entresol) -> None:
    said = entresol_command("causes", "skybyte", "W over Bas")
    assert said.code == 2 and "Did you mean W over Base" in one_line(said)
    said = entresol_command("causes", "skybyte", "--switch", "no_such")
    assert said.code == 2 and "no_such" in one_line(said)
