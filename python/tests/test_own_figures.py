"""The figures of our own design, from invented results and from the core."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars
import pytest
import synthetic_figures
from conftest import ROOT, Entresol

from entresol import decisions, papers, steady, worths
from entresol.errors import UserError
from entresol.figures import frames, markdown, simulate, tables, writing
from entresol.figures.entry import Figure, choose
from entresol.figures.plan import Results, SteadyWant, Windows
from entresol.papers.entresol import PAPER, costs, mechanisms, runs
from entresol.papers.entresol.runs import BASE, DRAM, FULL, OWN

SETTINGS = PAPER.settings()


def _of(name: str) -> Figure:
    (found,) = choose(PAPER.figures, [name])
    return found


@pytest.mark.parametrize("figure", PAPER.figures, ids=lambda figure: figure.name)
def test_every_figure_is_drawn_and_may_lack_everything(figure: Figure) -> None:
    writing.check(PAPER, [figure])
    at = PAPER.settings("paper") if figure.name == "full-size" else SETTINGS
    frame = figure.frame(synthetic_figures.results([figure], at))
    assert frame["ours"].drop_nulls().len() > 0
    figure.draw(frame)
    lacking = figure.frame(Results(SETTINGS, {}))
    assert [row for row in frames.read(lacking) if row.ours is not None] == []
    figure.draw(lacking)


def test_times_are_over_those_of_our_design_and_debts_are_paid() -> None:
    figure = _of("steady")
    few = replace(SETTINGS, workloads=("sort",))
    results = synthetic_figures.results([figure], few)
    full, own = (results.steady[runs.windows("sort", each)] for each in (FULL, OWN))
    rows = {(row.design, row.metric): row.ours for row in frames.read(figure.frame(results))}
    ratio = steady.over(full, own)
    assert rows[FULL, "time"] == pytest.approx(ratio.time.value)
    assert rows[FULL, "paid"] == pytest.approx(ratio.paid)
    assert (OWN, "time") not in rows and (DRAM, "programs") not in rows
    (window,) = (run["windows"][0]["counts"] for run in own)
    programs = window["program_pages"] * 1e6 / window["instructions"]
    assert rows[OWN, "programs"] == pytest.approx(programs)


def test_what_a_design_owes_more_at_the_end_is_added_to_its_time() -> None:
    def run(design: str, begin: int, end: int) -> dict[str, object]:
        counts = {"time_ps": 1_000, "instructions": 10, "program_pages": 1}
        debts = ({"pay_ps": begin, "host_pay_ps": 0}, {"pay_ps": end, "host_pay_ps": 0})
        debt = dict(zip(("begin", "end"), debts, strict=True))
        return {"design": design, "windows": [{"window": 0, "counts": counts, "debt": debt}]}

    found = steady.over([run(FULL, 0, 0)], [run(OWN, 200, 1_200)])
    assert found.time.value == 1 and found.paid == pytest.approx(0.5)


def test_mechanisms_are_the_decisions_between_skybyte_full_and_ours() -> None:
    wants = mechanisms.worth_wants(replace(SETTINGS, workloads=("xz",)))
    names = [each.name for each in decisions.read("entresol")]
    assert {item.design for item in wants} == {FULL, DRAM}
    of_full = {item.overrides for item in wants if item.design == FULL}
    assert len(of_full) == len(worths.sets(names)) == 2 + 2 * len(names)
    # DRAM-Only reads nothing of them: it runs once.
    assert {item.overrides for item in wants if item.design == DRAM} == {()}


def test_costs_are_of_programs_of_either_scale_and_all_is_each() -> None:
    figure = _of("costs")
    few = replace(SETTINGS, workloads=("sort", "tpcc-full"))
    assert {item.workload for item in figure.steady(few)} == {"sort"}
    at = replace(PAPER.settings("paper"), workloads=few.workloads)
    assert {item.workload for item in figure.steady(at)} == {"tpcc-full"}
    assert {*costs.VARIANTS[costs.ALL]} == {key for keys in costs.FREE.values() for key in keys}
    results = synthetic_figures.results([figure], few)
    rows = {(row.x, row.metric): row.ours for row in frames.read(figure.frame(results))}
    full, own = (results.steady[runs.windows("sort", each)] for each in (FULL, OWN))
    assert rows[costs.REACHED, "time"] == pytest.approx(steady.over(full, own).time.value)
    free = results.steady[runs.windows("sort", OWN, *costs.VARIANTS[costs.ALL])]
    assert rows[costs.ALL, "paid"] == pytest.approx(steady.over(full, free).paid)


def test_full_size_is_of_the_papers_scale_alone() -> None:
    figure = _of("full-size")
    assert figure.steady(SETTINGS) == [] and "--scale paper" in figure.lacks(SETTINGS)
    at = PAPER.settings("paper")
    wants = figure.steady(at)
    assert {item.machine for item in wants} == {"table2"} and figure.lacks(at) == ""
    assert {item.workload for item in wants} == set(runs.FULL_WORK)


def test_captures_are_shipped_or_recorded_and_others_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert runs.capture("xz", 8, "small", tmp_path).resolve() == ROOT / "traces" / "xz.etr"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "TRACES", runs.TRACES[:1])
    with pytest.raises(UserError, match="a checkout has it below traces"):
        runs.capture("xz", 8, "small", tmp_path)
    with pytest.raises(UserError, match="scripts/record-held-out DIR records it"):
        runs.capture("pbzip2", 8, "paper", tmp_path)


def test_a_directory_may_have_a_capture_for_any_threads(tmp_path: Path) -> None:
    (tmp_path / "zstd.etr").touch()
    source = simulate.from_directory(tmp_path)
    assert source("zstd", 7) == tmp_path / "zstd.etr"
    (tmp_path / "zstd-7.etr").touch()
    assert source("zstd", 7) == tmp_path / "zstd-7.etr"
    with pytest.raises(UserError, match="no such capture"):
        source("redis", 2)


def test_windows_of_figures_are_those_of_the_command(
    entresol_command: Entresol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    where = Windows(2, 30_000, 10_000, 75.0)
    wants = [SteadyWant("sort", design, 8, where, "demo") for design in (BASE, OWN)]
    plan = simulate.Plan(SETTINGS, (), (), (), tuple(wants))
    source = simulate.recorded(SETTINGS, tmp_path)
    said: list[str] = []
    results = simulate.Simulation(None, source, say=said.append).run(plan)
    assert said[-1] == "sort has been in the steady state (1 of 1)"
    words = "--machine demo --windows 2 --window 30000 --lead 10000 --from 75 --json"
    done = entresol_command(
        "steady", ROOT / "traces" / "sort.etr", *words.split(), "--store", tmp_path / "s",
        "--design", f"{BASE},{OWN}",
    )  # fmt: skip
    assert done.code == 0, done.err
    (part,) = json.loads(done.out)["traces"]
    assert part["runs"] == [run for item in wants for run in results.steady[item]]
    (sentence, *_) = tables.warnings(results, [], [], PAPER.threads_of, steady=wants)
    assert "not steady where windows begin" in sentence and "sort on entresol" in sentence


def test_windows_that_do_not_fit_are_a_sentence_of_each_design(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    where = Windows(2, 30_000_000, 0, 75.0)
    wants = [SteadyWant("sort", design, 8, where, "demo") for design in (BASE, OWN)]
    plan = simulate.Plan(SETTINGS, (), (), (), tuple(wants))
    source = simulate.recorded(SETTINGS, tmp_path)
    results = simulate.Simulation(None, source).run(plan)
    assert results.steady == {} and set(results.failures) == set(wants)
    assert "do not fit" in results.failures[wants[0]]
    assert tables.settings(results, [], (), wants) == "No window has a result."


def test_held_out_programs_without_their_captures_are_refused(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    words = ("--workloads", "redis", "--store", tmp_path / "s", "-o", tmp_path / "f")
    done = entresol_command("figure", "entresol", "held-out", *words)
    assert done.code == 2 and "record-held-out DIR records it" in done.err
    assert not (tmp_path / "f").exists()


def test_tables_for_documents_have_intervals_and_what_warns() -> None:
    figure = _of("steady")
    few = replace(SETTINGS, workloads=("sort", "xz"))
    results = synthetic_figures.results([figure], few)
    frame = figure.frame(results).with_columns(
        ours=polars.when(polars.col("metric") == "low")
        .then(0.25)
        .when(polars.col("metric") == "high")
        .then(16)
        .otherwise("ours")
    )
    text = markdown.render(PAPER, [figure], results, {"steady": frame}, "entresol figure …")
    tables_ = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
    assert [lines[0].split(" | ")[0] for lines in tables_] == ["| time", "| paid", "| programs"]
    assert tables_[0][0] == "| time | Base-CSSD | SkyByte-CP | SkyByte-Full | DRAM-Only |"
    assert [line.split(" ")[1] for line in tables_[0][2:]] == ["xz", "sort", "geo."]
    assert tables_[0][2].count(" (0.25–16)") == 4 and "–" not in "".join(tables_[1])
    assert "- not steady where windows begin" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 100


def test_tables_for_documents_have_published_numbers_and_what_is_on_an_axis() -> None:
    paper = papers.find("skybyte")
    figures = choose(paper.figures, ["14", "21"])
    few = paper.settings(workloads=["bc"])
    results = synthetic_figures.results(figures, few)
    made = {figure.name: figure.frame(results) for figure in figures}
    text = markdown.render(paper, figures, results, made, "entresol figure …")
    assert "| bc | 1.00 / 1.00 | " in text
    assert "| normalised time | 128 | 256 | 512 | 1024 | 2048 |" in text
    assert "| bc, SkyByte-WP | " in text
