"""Causes of one claim at work together: what each is worth, what they close, what stays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest
import synthetic_figures

from entresol import papers, quantity, worths
from entresol.errors import UserError
from entresol.figures import causes, closing, reproduction, standing
from entresol.figures.causes import Cause, Change, Together
from entresol.figures.plan import Results, Settings
from entresol.figures.reproduction import Evidence
from entresol.figures.reproduction_page import render
from entresol.figures.simulate import Plan, Simulation
from entresol.figures.standing import confirmed
from entresol.papers.skybyte import PAPER
from entresol.papers.skybyte.claims import claims, wants

TWO = PAPER.settings(workloads=["bc", "tpcc"])
SKYBYTE = reproduction.of(PAPER)
NAME = "speedup of Full over Base (average)"
CLAIM = next(claim for claim in claims() if claim.quantity == NAME)
CLEAN = Cause(NAME, "paper", "Clean victims: {value}.", "clean_victims_programmed")
STORES = Cause(NAME, "paper", "Stores: {value}.", "store_misses_are_writes")
BOTH = frozenset({CLEAN.change, STORES.change})


def _results(settings: Settings) -> Results:
    return Results(settings, {item: synthetic_figures.run(item) for item in wants(settings)})


def _evidence(values: Mapping[frozenset[Change], float | None], *given: Cause) -> Evidence:
    """Ours is what the invented runs give; the values are shares of the way from there to the
    published number, of logarithms."""
    paper = _results(TWO)
    ours = CLAIM.ours(paper)
    assert ours is not None and CLAIM.differs(ours)

    def at(share: float | None) -> float | None:
        return None if share is None else ours * (CLAIM.published / ours) ** share

    shown = {cause: at(values.get(frozenset({cause.change}))) for cause in given}
    summed = {Together(NAME, "paper", on): at(share) for on, share in values.items()}
    return Evidence(paper, Results(TWO, {}), shown, (), summed)


def _page(evidence: Evidence, *given: Cause) -> str:
    return render(SKYBYTE, evidence, list(given), "entresol reproduction")


def _row(page: str) -> list[str]:
    return next(line.split(" | ") for line in page.splitlines() if f"| {NAME} |" in line)


def _alone(share: float, cause: Cause) -> dict[frozenset[Change], float | None]:
    return {frozenset({cause.change}): share}


def test_what_is_on_is_nothing_all_each_alone_and_all_but_each() -> None:
    assert worths.sets(["a", "b", "c"]) == [
        frozenset(text) for text in ("", "abc", "a", "bc", "b", "ac", "c", "ab")
    ]
    assert worths.sets(["a"]) == [frozenset(), frozenset("a")]
    values = {frozenset(): 2.0, frozenset("a"): 3.0, frozenset("b"): 2.0, frozenset("ab"): 8.0}
    found = worths.worths(["a", "b"], lambda on: values.get(on))
    assert (found["a"].first_in, found["a"].last_in) == (1.5, 4.0)
    assert math.isclose(found["b"].weight, math.log(8 / 3))
    nothing = {frozenset[str](): 2.0}
    assert math.isnan(worths.worths(["a"], lambda on: nothing.get(on))["a"].first_in)


def test_a_claim_asks_for_its_causes_together_and_for_all_but_each() -> None:
    third = replace(CLEAN, fidelity="paper", overrides=("ssd.dram=256MiB",))
    taken_out = replace(STORES, fidelity="artifact,-store_misses_are_writes")
    plans = SKYBYTE.plans(TWO, [CLEAN, STORES, third, taken_out])
    found = [(plan.settings.fidelity, plan.settings.overrides) for plan in plans[2:]]
    clean, stores, dram = (
        "clean_victims_programmed",
        "store_misses_are_writes",
        ("ssd.dram=256MiB",),
    )
    assert found == [
        (clean, ()),
        (stores, ()),
        ("paper", dram),
        ("artifact,-write_back_echo,-store_misses_are_writes", ()),
        (f"{clean},{stores}", dram),
        (stores, dram),
        (clean, dram),
        (f"{clean},{stores}", ()),
    ]
    assert len(plans[2].wants) == 4, "the runs of the claim alone"


def test_of_the_artifact_causes_are_taken_out_together() -> None:
    out = [Cause(NAME, "artifact", "x", "artifact,-split_program_timeline"),
           Cause(NAME, "artifact", "x", "artifact", ("ssd.dram=256MiB",))]  # fmt: skip
    (changes,) = causes.variants(out)
    conditions = Together(NAME, "artifact", frozenset(changes)).settings(TWO, SKYBYTE.text)
    assert conditions.fidelity == "artifact,-write_back_echo,-split_program_timeline"
    assert conditions.overrides == ("ssd.dram=256MiB",)


def test_factors_and_what_is_left_are_printed() -> None:
    values = {**_alone(0.3, CLEAN), **_alone(0.1, STORES), BOTH: 0.5}
    evidence = _evidence(values, CLEAN, STORES)
    (found,) = closing.of(CLAIM, "paper", [CLEAN, STORES], evidence)
    needed = found.needed
    assert math.isclose(found.worths[CLEAN.change].first_in, needed**0.3)
    assert math.isclose(found.worths[CLEAN.change].last_in, needed**0.4)
    assert math.isclose(found.worths[STORES.change].last_in, needed**0.2)
    assert found.share == pytest.approx(0.5) and not found.is_enough
    assert math.isclose(found.residual, needed**0.5)

    page = _page(evidence, CLEAN, STORES)
    text = " ".join(page.split())
    assert ": 50 % of the way; **unexplained: ×" in text
    assert "| `--fidelity store_misses_are_writes` | ×" in page
    assert "| together | ×" in page
    assert _row(page)[7].startswith("paper ×")


def test_what_closes_four_fifths_leaves_nothing_unexplained() -> None:
    values = {**_alone(0.5, CLEAN), **_alone(0.3, STORES), BOTH: 0.81}
    page = _page(_evidence(values, CLEAN, STORES), CLEAN, STORES)
    assert _row(page)[7] == "–"
    assert "81 % of the way." in " ".join(page.split())
    values[BOTH] = 0.79
    page = _page(_evidence(values, CLEAN, STORES), CLEAN, STORES)
    assert _row(page)[7].startswith("paper ×")


def test_causes_that_lead_too_far_are_told() -> None:
    values = {**_alone(0.9, CLEAN), **_alone(0.8, STORES), BOTH: 1.1}
    text = " ".join(_page(_evidence(values, CLEAN, STORES), CLEAN, STORES).split())
    assert ", beyond the published number by ×" in text and "90 % of the way." in text
    values[BOTH] = 1.7
    page = _page(_evidence(values, CLEAN, STORES), CLEAN, STORES)
    assert _row(page)[7].startswith("paper ×"), "a way that ends beyond is not explained"
    values[BOTH] = -0.5
    text = " ".join(_page(_evidence(values, CLEAN, STORES), CLEAN, STORES).split())
    assert ", farther away than without; **unexplained" in text


def test_a_cause_alone_needs_no_table() -> None:
    page = " ".join(_page(_evidence(_alone(0.5, CLEAN), CLEAN), CLEAN).split())
    assert "This cause is worth ×" in page and "| together |" not in page


def test_what_did_not_run_and_what_has_only_words_are_not_called_explained() -> None:
    values = {**_alone(0.5, CLEAN), **_alone(0.3, STORES), BOTH: None}
    page = _page(_evidence(values, CLEAN, STORES), CLEAN, STORES)
    assert _row(page)[7] == "paper not measured"
    assert "What its causes give together is not known" in " ".join(page.split())
    assert _row(_page(_evidence({}), Cause(NAME, "paper", "So.")))[7] == "paper in words"
    assert _row(_page(_evidence({})))[7].startswith("paper ×")


def test_a_cause_that_is_worth_something_beside_the_others_only_stands() -> None:
    values = {**_alone(0.3, CLEAN), **_alone(0.0, STORES), BOTH: 0.5}
    assert confirmed(CLAIM, STORES, _evidence(values, CLEAN, STORES))
    values[BOTH] = 0.35
    assert not confirmed(CLAIM, STORES, _evidence(values, CLEAN, STORES))


def test_of_alternatives_one_at_a_time_is_at_work() -> None:
    one = Cause(NAME, "paper", "x", None, ("ssd.dram=64MiB",), alternative="size")
    other = replace(one, overrides=("ssd.dram=256MiB",))
    sizes = [CLEAN, one, other]
    assert causes.variants(sizes) == [
        (CLEAN.change, one.change), (CLEAN.change, other.change),
    ]  # fmt: skip
    values = {
        **_alone(0.3, CLEAN), **_alone(0.1, one), **_alone(0.4, other),
        frozenset({CLEAN.change, one.change}): 0.4, frozenset({CLEAN.change, other.change}): 0.9,
    }  # fmt: skip
    evidence = _evidence(values, *sizes)
    nearest, farther = closing.of(CLAIM, "paper", sizes, evidence)
    assert other.change in nearest.changes and one.change in farther.changes
    text = " ".join(_page(evidence, *sizes).split())
    assert "With `--set ssd.dram=64MiB` instead it is" in text


def _two(first: str, second: str, more: str = "") -> str:
    head = f'[[cause]]\nclaim = "{NAME}"\nof = "paper"\nsays = "x"\n'
    return f"{head}{first}\n{head}{second}\n{more}"


SIZE, OTHER_SIZE = 'set = ["ssd.dram=64MiB"]', 'set = ["ssd.dram=256MiB"]'
POLICY = 'set = ["ssd.cache.clean_victims=dropped"]'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_two(SIZE, OTHER_SIZE), "causes 1 and 2 set ssd.dram to 64MiB and to 256MiB, and cannot"),
        (_two('fidelity = "clean_victims_programmed"', POLICY), "set ssd.cache.clean_victims to"),
        (_two('fidelity = "artifact,-clean_victims_programmed"', POLICY), "cannot be at work tog"),
        (_two('fidelity = "no_such_switch"', SIZE), "no_such_switch: is no switch"),
        (
            _two(SIZE, SIZE).replace('"paper"', '"artifact"') + 'fidelity = "no_tlb"',
            "takes switches out of it",
        ),
    ],
)
def test_causes_that_contradict_each_other_are_refused(content: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        SKYBYTE.causes(content)


@pytest.mark.parametrize(
    "content",
    [
        _two(SIZE, SIZE),
        _two(f'{SIZE}\nscale = "small"', f'{OTHER_SIZE}\nscale = "paper"'),
        _two(f'{SIZE}\nalternative = "size"', f'{OTHER_SIZE}\nalternative = "size"'),
    ],
)
def test_causes_that_cannot_meet_do_not_contradict(content: str) -> None:
    assert len(SKYBYTE.causes(content)) == 2


def test_settings_of_two_personalities_do_not_contradict() -> None:
    study = reproduction.of(papers.with_claims("bytefs"))
    claim = study.claims[0].quantity
    head = f'[[cause]]\nclaim = "{claim}"\nof = "paper"\nsays = "x"\n'

    def both(first: str, second: str) -> str:
        return f'{head}set = ["{first}"]\n{head}set = ["{second}"]\n'

    assert study.causes(both("ext4-like:nand.t_prog=1us", "f2fs-like:nand.t_prog=2us"))
    with pytest.raises(UserError, match="cannot be at work together"):
        study.causes(both("ext4-like:nand.t_prog=1us", "nand.t_prog=2us"))


@pytest.mark.parametrize("room", ["skybyte", "bytefs", "dax", "opencxd"])
def test_causes_that_ship_can_be_at_work_together(room: str) -> None:
    study = reproduction.of(papers.with_claims(room))
    reasons = study.causes()
    for given in reproduction.of_claim(reasons).values():
        shown = [cause for cause in given if cause.needs_run]
        assert bool(causes.variants(given)) == bool(shown)


def test_a_cause_that_does_not_stand_is_at_work_in_nothing_that_is_explained() -> None:
    values = {**_alone(0.4, CLEAN), **_alone(-0.5, STORES), BOTH: 0.1}
    page = _page(_evidence(values, CLEAN, STORES), CLEAN, STORES)
    needed = CLAIM.published / (CLAIM.ours(_results(TWO)) or 0)
    assert _row(page)[7] == f"paper ×{quantity.significant(needed**0.6)}"
    assert "40 % of the way" in " ".join(page.split())
    assert "| of *paper*" not in page, "one alone needs no table"


def test_where_no_cause_stands_all_of_the_way_is_unexplained() -> None:
    page = _page(_evidence(_alone(-0.5, STORES), STORES), STORES)
    needed = CLAIM.published / (CLAIM.ours(_results(TWO)) or 0)
    assert _row(page)[7] == f"paper ×{quantity.significant(needed)}"
    said = " ".join(page.split())
    assert "**Unexplained.** Not the cause:" in said and "This cause is worth" not in said


class _Everywhere:
    """Runs whatever is asked for, and keeps what that was."""

    def __init__(self) -> None:
        self.asked: list[Settings] = []

    def run(self, plan: Plan) -> Results:
        self.asked.append(plan.settings)
        return _results(plan.settings)


def test_those_that_stand_are_measured_together() -> None:
    more = [replace(STORES, fidelity=name) for name in ("no_prefetch", "no_tlb")]
    given = [CLEAN, STORES, *more]
    values = {
        **_alone(0.4, CLEAN), **_alone(0.2, STORES), **_alone(-0.2, more[0]),
        **_alone(-0.3, more[1]),
    }  # fmt: skip
    evidence, everywhere = _evidence(values, *given), _Everywhere()
    simulation = cast(Simulation, everywhere)
    found = standing.completed(SKYBYTE, TWO, evidence, given, simulation)
    assert list(found.standing) == [Together(NAME, "paper", BOTH)]
    (asked,) = everywhere.asked
    assert set(asked.fidelity.split(",")) == {CLEAN.fidelity, STORES.fidelity}
    ours = closing.of(CLAIM, "paper", standing.of(CLAIM, "paper", found, given), found)
    assert ours[0].together == CLAIM.ours(_results(TWO))
