"""The numbers of the text: computed, compared, and explained or said to be unexplained."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import synthetic_figures
from conftest import Entresol

from entresol import core
from entresol.errors import UserError
from entresol.figures import claims as text
from entresol.figures import reproduction
from entresol.figures.causes import Cause
from entresol.figures.claims import Claim
from entresol.figures.plan import Results, Settings
from entresol.figures.reproduction import Evidence, Reproduction
from entresol.figures.reproduction_page import render
from entresol.figures.standing import confirmed
from entresol.papers.skybyte import PAPER, runs, switching
from entresol.papers.skybyte.claims import claims, wants
from entresol.papers.skybyte.runs import want

TWO = PAPER.settings(workloads=["bc", "tpcc"])
SKYBYTE = reproduction.of(PAPER)
FULL = "speedup of Full over Base (average)"


def _claim(quantity: str) -> Claim:
    return next(claim for claim in claims() if claim.quantity == quantity)


def _results(settings: Settings) -> Results:
    return Results(settings, {item: synthetic_figures.run(item) for item in wants(settings)})


def _evidence(shown: dict[Cause, float | None] | None = None) -> Evidence:
    return Evidence(_results(TWO), _results(replace(TWO, fidelity="artifact")), shown or {})


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.quantity)
def test_every_claim_has_a_number_or_is_quoted(claim: Claim) -> None:
    ours = claim.ours(_results(TWO))
    assert (ours is None) == (claim.rule.kind == text.QUOTED)
    assert ours is None or math.isfinite(ours)


@pytest.mark.parametrize(
    "claim",
    [each for each in claims() if each.rule.kind == text.SETTING],
    ids=lambda claim: claim.quantity,
)
def test_a_setting_is_what_the_paper_says(claim: Claim) -> None:
    assert claim.ours(Results(TWO, {})) == claim.published


@pytest.mark.parametrize(
    ("quantity", "near"),
    [
        ("speedup of Full over Base (max)", 0.001),
        ("speedup of Full over Base (min)", 0.003),
        ("AMAT reduction", 0.005),
        ("P over Base", 0.03),
        ("W over Base", 0.02),
        ("WP over Base", 0.001),
        ("CP over Base", 0.002),
        ("Full over CP", 0.001),
        ("Full over WP", 0.001),
        ("fraction of ideal performance", 0.01),
        ("slowdown of Full relative to DRAM-Only", 0.005),
        (FULL, 0.03),
        ("slowdown CXL-SSD vs DRAM (min)", 0.003),
    ],
)
def test_the_published_data_give_the_claims_of_the_text(quantity: str, near: float) -> None:
    claim = _claim(quantity)
    assert claim.theirs() == pytest.approx(claim.published, rel=near)


def test_computed_claims_follow_from_what_they_are_computed_from() -> None:
    assert round(_claim("cost ratio DRAM-only / SkyByte").ours(Results(TWO, {})) or 0, 1) == 15.9
    worst = [claim for claim in claims() if "worst case" in claim.quantity]
    assert [claim.ours(Results(TWO, {})) for claim in worst] == [272, 32]


def test_a_claim_is_computed_by_hand() -> None:
    times = {
        ("bc", "base-cssd"): 8_000,
        ("bc", "skybyte-full"): 1_000,
        ("tpcc", "base-cssd"): 3_000,
        ("tpcc", "skybyte-full"): 1_500,
    }
    runs = {
        want(*key): synthetic_figures.run(want(*key)) | {"execution_time_ps": time}
        for key, time in times.items()
    }
    assert _claim(FULL).ours(Results(TWO, runs)) == 5.0
    assert _claim("speedup of Full over Base (max)").ours(Results(TWO, runs)) == 8.0


def test_a_claim_says_which_runs_it_needs() -> None:
    assert set(reproduction.needed(_claim("Full over WP"), TWO)) == {
        want(name, design) for name in TWO.workloads for design in ("skybyte-wp", "skybyte-full")
    }


def test_a_claim_that_is_gone_from_its_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row for row in runs.published.claims() if row["quantity"] != "W over Base"]
    monkeypatch.setattr(runs.published, "claims", lambda: rows)
    with pytest.raises(UserError, match=r"claims\.csv: has no row W over Base"):
        claims()


def test_a_megabyte_of_the_index_is_that_of_its_worst_case() -> None:
    item = want("bc", "skybyte-w")
    run = synthetic_figures.run(item)
    run["statistics"]["activity"]["index_peak_bytes"] = 2 << 20
    alone = PAPER.settings(workloads=["bc"])
    claim = _claim("write-log index memory, average")
    assert claim.ours(Results(alone, {item: run})) == 2 * 16


def test_a_difference_without_a_cause_is_printed_as_unexplained() -> None:
    page = render(SKYBYTE, _evidence(), [], "entresol reproduction")
    ours = _claim(FULL).ours(_results(TWO))
    assert _claim(FULL).differs(ours)
    assert f"### {FULL}" in page
    assert "**Unexplained.**" in page
    assert page.count("\n| ") == len(claims()) + 1


CLEAN = Cause(FULL, "paper", "Clean victims make {value} of {paper}.", "clean_victims_programmed")


def test_a_cause_has_the_number_that_the_command_measured() -> None:
    ours = _claim(FULL).ours(_results(TWO))
    assert ours is not None and ours > 6.11
    made = render(SKYBYTE, _evidence({CLEAN: 7.25}), [CLEAN], "entresol reproduction")
    page = " ".join(made.split())
    assert "Clean victims make 7.25 of " in page
    assert "(`--fidelity clean_victims_programmed`)" in page


def test_a_cause_that_its_run_does_not_show_is_none() -> None:
    farther = (_claim(FULL).ours(_results(TWO)) or 0) * 1.5
    made = render(SKYBYTE, _evidence({CLEAN: farther}), [CLEAN], "entresol reproduction")
    page = " ".join(made.split())
    assert "Clean victims make" not in page
    assert "**Unexplained.** Not the cause: `--fidelity clean_victims_programmed` gives" in page


def test_what_is_taken_out_of_the_artifact_has_to_move_it_away() -> None:
    claim, evidence = _claim(FULL), _evidence()
    taken = replace(CLEAN, fidelity="artifact,-clean_victims_programmed")
    ours = claim.ours(evidence.artifact) or 0
    for value, is_shown in (
        (ours * 2, True),
        (ours, False),
        (claim.published, False),
        (claim.published / 100, False),
    ):
        shown = replace(evidence, shown={taken: value})
        assert confirmed(claim, taken, shown) is is_shown


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[[cause]]\nclaim = "6.11"\nof = "paper"\nsays = "x"', "6.11: is no claim"),
        (f'[[cause]]\nclaim = "{FULL}"\nsays = "x"', "needs `of`"),
        (f'[[cause]]\nclaim = "{FULL}"\nof = "paper"\nsays = "x"\nwhy = 1', "why: is no field"),
        ("[[cause]", "is not TOML"),
    ],
)
def test_a_wrong_cause_is_one_sentence(content: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        SKYBYTE.causes(content)


def test_a_cause_with_a_number_that_does_not_exist_is_one_sentence() -> None:
    cause = Cause(FULL, "paper", "It is {gain}.", None, ())
    with pytest.raises(UserError, match="cannot be filled in"):
        render(SKYBYTE, _evidence(), [cause], "entresol reproduction")


def test_the_causes_that_ship_are_sound() -> None:
    page = render(SKYBYTE, _evidence(), SKYBYTE.causes(), "entresol reproduction")
    assert page.startswith("# Reproduction")


def test_the_command_writes_the_page(
    entresol_command: Entresol, captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reproduction, "causes", lambda _: [])
    place = tmp_path / "captures"
    place.mkdir()
    for threads in (4, 8, 24):
        (place / f"bc-{threads}.etr").symlink_to(captured)
    words = [
        "reproduction",
        "skybyte",
        "--workloads",
        "bc",
        "--captures",
        place,
        "-o",
        tmp_path / "page.md",
    ]
    outcome = entresol_command(*words)
    assert outcome.code == 0, outcome.err
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    written = (
        "Written by `entresol reproduction skybyte --scale small --workloads bc --captures DIR`"
    )
    assert written in page
    assert "| VI-B | P over Base | x | 1.84 | 1.80 | " in page


def test_the_artifact_is_without_the_echo() -> None:
    cause = Cause(FULL, "paper", "So.", "artifact,-clean_victims_programmed")
    conditions = [plan.settings.fidelity for plan in SKYBYTE.plans(TWO, [cause])]
    assert conditions == [
        "paper",
        "artifact,-write_back_echo",
        "artifact,-write_back_echo,-clean_victims_programmed",
        "clean_victims_programmed",
    ]
    page = render(SKYBYTE, _evidence(), [], "entresol reproduction")
    assert "without `write_back_echo`" in page


def test_the_page_says_that_captures_made_again_give_a_new_result() -> None:
    page = render(SKYBYTE, _evidence(), [], "entresol reproduction")
    assert "on captures made again the numbers\nare a new result" in page


def test_a_run_that_failed_is_on_the_page_and_in_the_exit_code(
    entresol_command: Entresol, captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reproduction, "causes", lambda _: [])
    assert PAPER.text is not None
    fewer = replace(PAPER.text, wants=switching.request_wants)
    monkeypatch.setattr(reproduction, "of", lambda paper: Reproduction(paper, fewer))
    place = tmp_path / "captures"
    place.mkdir()
    (place / "bc-8.etr").symlink_to(captured)
    words = ["reproduction", "skybyte", "--workloads", "bc,tpcc", "--captures", place]
    outcome = entresol_command(*words, "-o", tmp_path / "page.md")
    assert outcome.code == 1
    assert "tpcc-8.etr: no such capture" in outcome.err.splitlines()[-1]
    assert "2 runs failed, the first:" in (tmp_path / "page.md").read_text(encoding="utf-8")


def test_settings_of_the_index_are_read_from_the_firmware(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = core.LogIndex(first_table_entries=8, fullest_milli=500, page_bytes=16, entry_bytes=4)
    monkeypatch.setattr(core, "log_index", lambda: other)
    found = [
        _claim(quantity).ours(Results(TWO, {}))
        for quantity in (
            "second-level table load-factor limit",
            "second-level table initial entries",
            "write-log index memory, worst case with resizing",
        )
    ]
    assert found == [0.5, 8, 48]
