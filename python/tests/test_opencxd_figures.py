"""The figures of OpenCXD from invented results, and what they are made of on the real core."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import synthetic_figures
from conftest import Entresol, one_line

from entresol import in_loop, quantity
from entresol.errors import UserError
from entresol.figures import benches, frames, reproduction, writing
from entresol.figures import claims as text
from entresol.figures.entry import Figure, choose
from entresol.figures.plan import Results
from entresol.figures.reproduction_page import render
from entresol.papers.opencxd import PAPER, claims, compaction, constant, measured, runs

FEW = PAPER.settings(workloads=["srad", "ycsb"])


def _of(name: str) -> Figure:
    (found,) = choose(PAPER.figures, [name])
    return found


@pytest.mark.parametrize("figure", PAPER.figures, ids=lambda figure: figure.name)
def test_every_figure_is_drawn_and_may_lack_everything(figure: Figure) -> None:
    writing.check(PAPER, [figure])
    results = synthetic_figures.results([figure], FEW)
    frame = figure.frame(results)
    assert frame["ours"].drop_nulls().len() > 0
    figure.draw(frame)
    lacking = Results(FEW, {}, failures=dict.fromkeys(results.benches, "no room"))
    drawn = [row for row in frames.read(figure.frame(lacking)) if row.ours is not None]
    assert not drawn
    figure.draw(figure.frame(lacking))


def test_published_numbers_stand_beside_ours() -> None:
    def published(name: str) -> dict[tuple[str, str, str], float]:
        frame = _of(name).frame(Results(FEW, {}))
        return {(row.workload, row.design, row.metric): row.published
                for row in frames.read(frame) if row.published is not None}  # fmt: skip

    assert published("table5")["srad", "check log", "sd_ns"] == 54.57
    assert published("11")["ycsb", "modelled", "most_common_share"] == 0.943
    assert published("10")["srad", "loop", "read_over_modelled"] == 2.4
    assert published("13")["drawn", "channel_parallel", "speedup"] == 8
    assert len(published("table2")) == 6, "by operation and kind, of both depths"


def test_the_flash_has_the_deviations_that_table_ii_has() -> None:
    figure = _of("table2")
    items = figure.benches(FEW)
    found = benches.run(items, FEW, None, 1, lambda _: None)
    results = Results(FEW, {}, benches={item: each for item, each in found.items()
                                        if not isinstance(each, str)})  # fmt: skip
    for row in frames.read(figure.frame(results)):
        if row.design != runs.CONSTANT:
            assert row.ours is not None and row.published is not None
            assert abs(row.ours / row.published - 1) < 0.1, row


@pytest.mark.parametrize("nand", compaction.FLASHES)
def test_compaction_over_all_channels_is_seven_times_as_fast_at_least(nand: str) -> None:
    items = {launch: runs.compaction(launch, 4, nand) for launch in compaction.LAUNCHES}
    found = benches.run(list(items.values()), FEW, None, 1, lambda _: None)
    times = {}
    for launch, item in items.items():
        result = found[item]
        assert not isinstance(result, str), result
        times[launch] = result["flush_ps"]
    assert times["sequential"] > 7 * times["channel_parallel"]


def test_misses_are_shares_that_add_up() -> None:
    cdf = [[50_000_000, 10], [100_000_000, 40], [2_000_000_000, 50]]
    shares = measured.misses({"statistics": {"latency_cdf": cdf}})
    assert [round(share, 3) for _, share in shares] == [0.75, 0.25]
    assert all(edge >= 90 for edge, _ in shares)


def test_the_mean_of_a_table_is_that_of_its_row() -> None:
    table = "1: 0%=10us 100%=20us; 8: 0%=10us 50%=10us 1/2=30us 100%=30us"
    assert runs.mean(table, 1) == 15_000_000
    assert runs.mean(table, 8) == 20_000_000
    deep = runs.mean(runs.setting("nand.empirical")["read"], constant.DEEP)
    item = runs.flash(runs.FLASH, "read", constant.DEEP)
    measured_mean = benches.run([item], FEW, None, 1, lambda _: None)[item]
    assert not isinstance(measured_mean, str)
    overhead = 139_580_000
    assert deep + overhead == pytest.approx(measured_mean["mean_ps"], rel=0.03)


def test_constants_are_compared_by_mean_and_by_shape() -> None:
    single, deep = (constant.want("srad", "base-cssd", end) for end in ("modelled", constant.MEAN))
    assert set(single.overrides) < set(deep.overrides)
    assert [each.partition("=")[0] for each in sorted({*deep.overrides} - {*single.overrides})] == [
        "nand.t_prog",
        "nand.t_r",
    ]


def test_simplessd_knows_no_controller() -> None:
    item = runs.flash(runs.CONSTANT, "read", 1)
    found = benches.run([item], FEW, None, 1, lambda _: None)[item]
    assert not isinstance(found, str) and found["mean_ps"] == 99_720_000


def test_a_ranking_that_changes_is_named() -> None:
    assert constant.rank({"a": 3.0, "b": 1.0}) == {"a": 2, "b": 1}
    assert constant.rank({"a": 3.0, "b": None}) == {"a": None, "b": None}
    figure = _of("constant")
    results = synthetic_figures.results([figure], FEW)
    first, second = constant.DESIGNS[:2]
    for end in constant.ENDS:
        for place, design in enumerate(constant.DESIGNS):
            results.runs[constant.want("srad", design, end)]["execution_time_ps"] = 10 + place
            results.runs[constant.want("ycsb", design, end)]["execution_time_ps"] = 10 + place
    assert "changes in 0 of 6 comparisons." in figure.why(figure.frame(results))
    results.runs[constant.want("srad", first, "loop")]["execution_time_ps"] = 11
    results.runs[constant.want("srad", second, "loop")]["execution_time_ps"] = 10
    said = figure.why(figure.frame(results))
    assert "changes in 1 of 6 comparisons: srad (In the loop" in said


def test_recordings_that_are_not_there_are_said(entresol_command: Entresol, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such directory"):
        in_loop.recorded(tmp_path / "none")
    said = entresol_command("figure", "opencxd", "table5", "--recordings", tmp_path / "none")
    assert said.code == 2 and "no such directory" in one_line(said)


@cache
def _invented() -> Results:
    return synthetic_figures.results([_of("table2"), _of("13"), _of("10")], PAPER.settings())


@pytest.mark.parametrize("claim", claims.claims(), ids=lambda claim: claim.quantity)
def test_every_number_of_the_text_is_computed_or_quoted(claim: text.Claim) -> None:
    ours = claim.ours(_invented())
    assert (ours is None) == (claim.rule.kind == text.QUOTED)
    if claim.rule.kind in (text.SETTING, text.COMPUTED):
        assert ours == pytest.approx(claim.published)
    if claim.rule.kind not in (text.SETTING, text.COMPUTED):
        assert claim.ours(Results(FEW, {})) is None
    if claim.quantity == "average miss over SkyByte's":
        some = synthetic_figures.results([_of("10")], FEW)
        assert claim.ours(some) is None, "a mean of fewer workloads"


def test_numbers_of_the_figures_are_those_of_the_text() -> None:
    by_name = {claim.quantity: claim.published for claim in claims.claims()}
    table = runs.published("table5")
    for workload in measured.SHOWN:
        for work in measured.WORK:
            for metric, name in (("mean_ns", "mean"), ("sd_ns", "deviation")):
                published = table.find(workload, work, metric)
                assert published == by_name[f"{work}, {workload}: {name}"]


def test_the_page_has_one_side_and_says_what_is_measured() -> None:
    study = reproduction.of(PAPER)
    reasons = study.causes()
    plans = study.plans(FEW, reasons)
    assert {plan.settings.fidelity for plan in plans} == {"paper"}
    results = _invented()
    evidence = reproduction.Evidence(results, Results(FEW, {}), dict.fromkeys(reasons, 90.0))
    page = render(study, evidence, reasons, "entresol reproduction opencxd")
    assert "Rows that are *measured on this machine*" in page
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    by_name = {row[1]: row for row in rows}
    assert by_name["check log, srad: mean"][-1].startswith(text.MEASURED)
    assert by_name["simulated cores"][5:7] == ["8.00", quantity.NOTHING], "no artifact"
