"""The figures of ByteFS from invented results, and the loads behind them on the real core."""

from __future__ import annotations

import json
from pathlib import Path

import polars
import pytest
import synthetic_figures
from conftest import Entresol, one_line

from entresol import core
from entresol.figures import frames, simulate, writing
from entresol.figures.entry import Figure, choose
from entresol.figures.plan import Bench, Results, Scale
from entresol.papers.bytefs import PAPER, runs

FEW = PAPER.settings(workloads=["create", "varmail", "oltp", "ycsb-a"])


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
    assert figure.frame(lacking)["ours"].drop_nulls().len() == 0


def test_throughput_is_over_the_one_by_blocks() -> None:
    figure = _of("6")
    results = synthetic_figures.results([figure], FEW)
    for item, result in results.benches.items():
        result["operations_per_second"] = 6.0 if item.personality == "bytefs" else 2.0
    cells = frames.cells(figure.frame(results), "normalised_throughput")
    assert cells["create", "bytefs"] == (3.0, 6.0)
    assert cells["varmail", "ext4-like"] == (1.0, None)


def test_amplification_is_of_both_directions() -> None:
    figure = _of("table2")
    results = synthetic_figures.results([figure], FEW)
    result = results.benches[runs.bench("varmail", "ext4-like")]
    result["application_written_bytes"], result["application_read_bytes"] = 100, 50
    result["synced"].update(
        metadata_written_by_bytes=0, metadata_written_by_blocks=100, journal_written_by_bytes=0,
        journal_written_by_blocks=200, data_written_by_bytes=0, data_written_by_blocks=100,
        metadata_read_by_blocks=25, data_read_by_blocks=50,
    )  # fmt: skip
    frame = figure.frame(results)
    assert frames.cells(frame, "write_amplification")["varmail", "ext4-like"] == (4.0, 3.85)
    assert frames.cells(frame, "read_amplification")["varmail", "ext4-like"] == (1.5, 1.21)


def test_runs_that_figures_share_are_made_once() -> None:
    both = simulate.plan(choose(PAPER.figures, ["8", "10"]), PAPER.settings())
    alone = simulate.plan(choose(PAPER.figures, ["8"]), PAPER.settings())
    assert both.benches == alone.benches and len(both.benches) == 4 * len(runs.systems())
    assert not both.captures


def test_a_figure_is_made_of_loads_that_run(
    entresol_command: Entresol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(runs.SCALES, "small", Scale("", shrink=1024))
    words = ("figure", "bytefs", "8", "--workloads", "mkdir", "--store", tmp_path / "store")
    first = entresol_command(*words, "-o", tmp_path / "first")
    assert first.code == 0, first.err
    second = entresol_command(*words, "-o", tmp_path / "second")
    assert second.code == 0, second.err
    csv = [(tmp_path / name / "fig08.csv").read_bytes() for name in ("first", "second")]
    assert csv[0] == csv[1]
    frame = polars.read_csv(tmp_path / "first" / "fig08.csv")
    assert frame["ours"].drop_nulls().len() > 0


def test_the_same_load_gives_the_same_json(entresol_command: Entresol) -> None:
    words = ("fs", "bench", "mkdir", "--scale", "1024", "--cores", "2", "--json")
    first, second = entresol_command(*words), entresol_command(*words)
    assert first.code == 0 and first.out == second.out
    (result,) = json.loads(first.out)
    assert result["latencies"]["mkdir"]["operations"] == result["operations"] > 0
    assert result["conditions"]["personality"] == "bytefs"
    table = entresol_command("fs", "bench", "mkdir", "--scale", "1024", "--personality", "all")
    assert table.code == 0
    assert all(name in table.out for name in core.fs_personalities())


def test_what_cannot_be_is_one_sentence(entresol_command: Entresol, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('title = "mine"\ncolour = "red"\n')
    for words, part in (
        (("nothing",), "there is no load nothing; did you mean"),
        ((mine,), f"{mine}: line 2: unknown field `colour`"),
        ((tmp_path / "absent.toml",), "absent.toml: cannot be read: No such file"),
        (("mkdir", "--scale", "3"), "--scale is 3; it must be a power of two"),
        (("mkdir", "--personality", "ext5-like"), "Did you mean ext4-like?"),
        (("mkdir", "--cache", "much"), "--cache: "),
        (("mkdir", "--set", "nand.colour=3"), "unknown key nand.colour"),
    ):
        refused = entresol_command("fs", "bench", *words)
        assert refused.code == 2 and part in one_line(refused), refused.err


def test_loads_are_listed(entresol_command: Entresol) -> None:
    listed = entresol_command("fs", "bench", "--list").out
    assert [line.split()[0] for line in listed.splitlines()] == [
        load.name for load in core.fs_loads()
    ]
    assert Bench("varmail", "bytefs") in simulate.plan([_of("6")], PAPER.settings()).benches
