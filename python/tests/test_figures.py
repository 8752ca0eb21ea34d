"""Figures: what their frames say, what they do without a number, and that all can be drawn."""

from __future__ import annotations

import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import synthetic_figures
from conftest import Entresol, one_line
from matplotlib.figure import Figure as Drawing

from entresol import core, figures
from entresol.atomic import OutputDirectory
from entresol.errors import UserError
from entresol.figures import frames, ink, page, simulate, tables, writing
from entresol.figures.entry import Figure, choose
from entresol.figures.plan import Results, Settings, Want
from entresol.papers.skybyte import PAPER, overall, runs, sizes
from entresol.papers.skybyte.runs import threads_of, want

TWO = PAPER.settings(workloads=["bc", "tpcc"])


def _of(name: str) -> Figure:
    (found,) = choose(PAPER.figures, [name])
    return found


def _timed(times: dict[Want, int]) -> Results:
    runs = {
        item: synthetic_figures.run(item) | {"execution_time_ps": time}
        for item, time in times.items()
    }
    return Results(TWO, runs)


def test_a_frame_holds_ours_published_and_their_ratio() -> None:
    base, full = want("bc", "base-cssd"), want("bc", "skybyte-full")
    frame = _of("14").frame(_timed({base: 4_000, full: 500}))
    wanted = {"workload": "bc", "design": "skybyte-full", "metric": "speedup"}
    (row,) = frame.filter(**wanted).to_dicts()
    assert row["ours"] == 8.0
    published = runs.published("fig14")
    theirs = published.value("bc", "base-cssd", "exec_time")
    theirs /= published.value("bc", "skybyte-full", "exec_time")
    assert row["published"] == pytest.approx(theirs)
    assert row["ratio"] == pytest.approx(8 / theirs)


def test_a_mean_is_over_the_workloads_that_have_both_numbers() -> None:
    rows = frames.Rows()
    rows.add("a", "d", "m", 2.0, 1.0)
    rows.add("b", "d", "m", 8.0, 4.0)
    rows.add("c", "d", "m", 1_000.0, None)
    found = {row.workload: row for row in frames.read(rows.frame())}
    assert found[frames.GEOMETRIC].ours == pytest.approx(4.0)
    assert found[frames.GEOMETRIC].published == pytest.approx(2.0)
    assert found[frames.ARITHMETIC].ours == pytest.approx(5.0)


def test_means_of_parts_add_up() -> None:
    figure = _of("17")
    rows = frames.read(figure.frame(synthetic_figures.results([figure], PAPER.settings())))
    parts = {metric for metric, *_ in overall.AMAT_PARTS}
    of = {
        kind: [
            row
            for row in rows
            if (row.workload, row.design) == (kind, "skybyte-wp") and row.metric in parts
        ]
        for kind in frames.MEANS
    }
    assert of[frames.GEOMETRIC] == []
    assert sum(row.published or 0 for row in of[frames.ARITHMETIC]) == pytest.approx(1, abs=0.01)


def test_an_estimate_counts_walks() -> None:
    wanted = simulate.plan(choose(PAPER.figures, ["5", "16"]), TWO)
    assert wanted.estimate(2).startswith("2 runs and 2 walks of 2 captures; about ")


def test_all_means_of_a_metric_are_over_one_set_of_workloads() -> None:
    rows = frames.Rows()
    for x, published in ((1.0, {"a": 1.0, "b": 4.0, "c": 8.0}), (2.0, {"a": 1.0, "b": 4.0})):
        for name in "abc":
            rows.add(name, "d", "m", 2.0, published.get(name), x)
            rows.add(name, "d", "unpublished", 3.0 if name == "a" else None, None, x)
    made = rows.frame()
    found = {
        (row.x, row.metric): row for row in frames.read(made) if row.workload == frames.GEOMETRIC
    }
    for x in (1.0, 2.0):  # c has a hole at 2, so it counts at neither.
        assert found[x, "m"].published == pytest.approx(2.0)
        assert found[x, "unpublished"].ours is None, "there is no mean of one"
    assert tables.partial_means(made) == [
        "means are over a, b alone, since others lack numbers: m",
        "means do not exist, since others lack numbers: unpublished",
    ]


def test_a_published_mean_of_the_sizes_of_the_log_has_no_step_from_a_hole() -> None:
    figure = _of("19")
    frame = figure.frame(synthetic_figures.results([figure], PAPER.settings()))
    rows = frames.read(frame)
    assert frames.of_mean(rows)["normalised_time"] == ("bc", "radix", "srad")
    means = [row.published or 0 for row in rows if row.workload == frames.GEOMETRIC]
    assert means[:6] == sorted(means[:6], reverse=True), "as each of the three"


def test_nothing_has_a_geometric_mean_with_a_zero_in_it() -> None:
    assert frames.geometric([1.0, 0.0]) is None
    assert frames.geometric([]) is None
    assert math.isclose(frames.geometric([2.0, 8.0]) or 0, 4.0)


def test_published_numbers_give_the_ratios_of_the_text() -> None:
    # SkyByte VI-B: 1.84 for P and 2.95 for WP, up to 16.35 and at least 1.61 for Full.
    frame = _of("14").frame(Results(PAPER.settings(), {}))
    speedups = {
        (row.workload, row.design): row.published
        for row in frames.read(frame)
        if row.metric == "speedup" and row.workload not in frames.MEANS
    }
    full = [value or 0 for (_, design), value in speedups.items() if design == "skybyte-full"]
    assert round(max(full), 2) == 16.35
    assert round(min(full), 2) == 1.61
    both = [value or 0 for (_, design), value in speedups.items() if design == "skybyte-wp"]
    assert frames.geometric(both) == pytest.approx(2.95, abs=0.01)


@pytest.fixture
def published_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The published files of the room, copied, read anew from here."""
    shutil.copytree(Path(str(runs.published.folder)), tmp_path / "published")
    monkeypatch.setattr(runs.published, "folder", tmp_path / "published")
    monkeypatch.setattr(runs.published, "_read", {})
    return tmp_path / "published"


def test_a_published_row_that_is_gone_is_named(
    published_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = published_copy / "fig18.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("srad,skybyte-wp")))
    with pytest.raises(UserError, match=r"fig18\.csv: has no row srad,skybyte-wp,,flash_page"):
        writing.check(PAPER, [_of("18")])
    path.write_text("workload,design\nbc,base-cssd\n")
    monkeypatch.setattr(runs.published, "_read", {})
    where = r"^papers/skybyte/published/fig18\.csv: line 2 does not have workload, design"
    with pytest.raises(UserError, match=where):
        writing.check(PAPER, [_of("18")])


@pytest.mark.parametrize("name", sorted(runs.published.rows))
def test_a_published_file_that_lost_a_row_is_named(published_copy: Path, name: str) -> None:
    path = published_copy / f"{name}.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(UserError, match=rf"{name}\.csv: has \d+ rows instead of \d+; install"):
        PAPER.check()


def test_the_published_files_that_ship_are_whole() -> None:
    PAPER.check()


def test_a_published_latency_is_the_upper_edge_of_its_bin() -> None:
    edges = {10: 20, 150: 160, 990: 1_000, 1_000: 1_100, 9_900: 10_000, 140_000: 150_000}
    assert {lower: round(runs.upper_edge(lower)) for lower in edges} == edges


@pytest.mark.parametrize("figure", PAPER.figures, ids=lambda figure: figure.name)
def test_every_published_row_that_a_figure_needs_is_there(figure: Figure) -> None:
    writing.check(PAPER, [figure])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["43"],
            "unknown paper or figure 43. There are skybyte 2, 3, 4, 5, 6, 9, 10, 14, 15, 16",
        ),
        (["tabel3"], "Did you mean table3?"),
        (
            ["skybyte", "14", "--workloads", "bfs-dens"],
            "unknown workload bfs-dens. Did you mean bfs-dense?",
        ),
        (["skybyte", "14", "--scale", "huge"], "--scale is small or paper, not huge."),
        (["skybyte", "14", "--fidelity", "poetic"], "poetic"),
        (["skybyte", "14", "--mode", "quick"], "'quick' is not one of 'detailed', 'fast'"),
        (
            ["skybyte", "14", "--scheduler", "foo"],
            "--scheduler foo: no Dask scheduler answers there",
        ),
        (["0"], "unknown paper or figure 0. There are skybyte 2, 3"),
        ([""], "unknown paper or figure ''. There are skybyte 2, 3"),
        (["skybyte", "13"], "unknown figure 13. There are 2, 3"),
        (["skybite", "14"], "unknown paper or figure skybite. Did you mean skybyte? There are sky"),
        (["bytefs", "44"], "unknown figure 44. There are table2, 1, 6"),
        (["skybyte", "14", "--captures", "nowhere"], "nowhere: no such directory."),
    ],
)
def test_a_wrong_word_is_refused_before_anything_is_captured(
    entresol_command: Entresol, tmp_path: Path, words: list[str], message: str
) -> None:
    outcome = entresol_command("figure", *words, "-o", tmp_path / "out")
    assert message in one_line(outcome)
    assert list(tmp_path.iterdir()) == []


def test_names_of_figures_may_be_written_as_in_the_paper() -> None:
    chosen = choose(PAPER.figures, ["fig14,02", "Figure9", "III"])
    assert [figure.name for figure in chosen] == ["2", "9", "14", "table3"]
    assert choose(PAPER.figures, ["all"]) == list(PAPER.figures)


def test_runs_that_figures_share_are_run_once() -> None:
    every = simulate.plan(choose(PAPER.figures, ["all"]), PAPER.settings())
    alone = [simulate.plan([figure], PAPER.settings()).wants for figure in PAPER.figures]
    assert len(set(every.wants)) == len(every.wants) < sum(map(len, alone))
    assert set(simulate.plan([_of("17")], TWO).wants) < set(simulate.plan([_of("14")], TWO).wants)
    assert simulate.plan([_of("14")], TWO).captures == (
        ("bc", 8),
        ("bc", 24),
        ("tpcc", 8),
        ("tpcc", 24),
    )


def test_sizes_follow_the_scale_and_keep_their_ratios() -> None:
    def of(scale: str) -> list[dict[str, float]]:
        wants = sizes.dram_wants(PAPER.settings(scale, workloads=["bc"]))
        return [
            {
                key: float(text.removesuffix("KiB"))
                for key, text in (override.split("=") for override in item.overrides)
            }
            for item in wants
            if item.overrides
        ]

    for small, large in zip(of("small"), of("paper"), strict=True):
        assert small == {key: value / 16 for key, value in large.items()}
        assert small["host.promoted"] == 4 * small["ssd.dram"] == 32 * small["ssd.log.size"]


@pytest.mark.parametrize("scale", list(PAPER.scales))
def test_every_run_of_every_figure_is_a_usable_configuration(scale: str) -> None:
    settings = PAPER.settings(scale, workloads=["bc"])
    for item in simulate.plan(choose(PAPER.figures, ["all"]), settings).wants:
        core.effective_config(simulate.setup_of(item, settings), item.design)


def test_what_did_not_run_is_a_hole_and_a_sentence() -> None:
    figure = _of("14")
    results = synthetic_figures.results([figure], TWO)
    gone = want("bc", "skybyte-w")
    runs = {item: run for item, run in results.runs.items() if item != gone}
    holed = Results(TWO, runs, {}, {gone: "the thread never ends"})
    row = next(
        row
        for row in frames.read(figure.frame(holed))
        if (row.workload, row.design) == ("bc", "skybyte-w")
    )
    assert row.ours is None and row.published is not None
    assert isinstance(figure.draw(figure.frame(holed)), Drawing)
    warned = tables.warnings(holed, figure.wants(TWO), [], threads_of)
    assert "did not run: the thread never ends: bc on skybyte-w" in warned


def test_half_that_did_not_run_are_not_told_as_all() -> None:
    items = [want(name, "skybyte-w") for name in ("bc", "tpcc")]
    done = {items[1]: synthetic_figures.run(items[1])}
    results = Results(TWO, done, {}, {items[0]: "captures/bc-8.etr: no such capture"})
    warned = tables.warnings(results, items, [], threads_of)
    assert "did not run: captures/bc-8.etr: no such capture: bc on skybyte-w" in warned


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [("9", "os.switch_threshold", "2us"), ("10", "os.scheduler", "cfs"),
     ("19", "ssd.log.size", "4096KiB"), ("21", "ssd.dram", "32768KiB")],
)  # fmt: skip
def test_a_point_at_its_default_is_at_it_whatever_is_set_for_all(
    name: str, key: str, value: str
) -> None:
    figure, point = _of(name), f"{key}={value}"
    default = [item for item in figure.wants(TWO) if item.workload == "bc"]
    assert all(point not in item.overrides for item in default)
    for told in (replace(TWO, fidelity="artifact"), replace(TWO, overrides=("os.quantum=1ms",))):
        stated = [item for item in figure.wants(told) if item.workload == "bc"]
        assert len(stated) == len(default)
        assert any(point in item.overrides for item in stated)
        assert all(item.overrides for item in stated), "none leaves its value to what is set"
        figure.frame(synthetic_figures.results([figure], told))


def test_a_log_that_filled_fewer_than_three_times_is_said() -> None:
    item = want("bc", "skybyte-wp")
    run = synthetic_figures.run(item)
    sentence = "the write log filled fewer than three times: bc on skybyte-wp"
    for fills, is_said in ((5, True), (6, False)):
        run["statistics"]["activity"]["log_fills"] = fills
        warned = tables.warnings(Results(TWO, {item: run}), [item], [], threads_of)
        assert (sentence in warned) is is_said


def test_runs_with_unusual_threads_are_told_apart() -> None:
    runs_of = [want("bc", "skybyte-full", threads=threads) for threads in (16, 24)]
    names = [tables.name_of(item, threads_of) for item in runs_of]
    assert names == ["bc on skybyte-full (16 threads)", "bc on skybyte-full"]
    assert tables.name_of(runs_of[0], lambda _design: 0) == "bc on skybyte-full"


def test_of_a_run_with_many_settings_the_first_are_named() -> None:
    few, many = (tuple(f"k.{number}=1" for number in range(count)) for count in (4, 9))
    named = [tables.name_of(Want("bc", "skybyte-w", 8, each), threads_of) for each in (few, many)]
    assert named[0] == "bc on skybyte-w (k.0=1, k.1=1, k.2=1, k.3=1)"
    assert named[1] == "bc on skybyte-w (k.0=1, k.1=1, k.2=1, k.3=1, 5 more settings)"


def test_why_a_figure_differs_is_said_under_the_conditions_that_it_is_about() -> None:
    figure = _of("14")
    for settings, is_said in (
        (PAPER.settings(), True),
        (PAPER.settings(fidelity="artifact"), False),
        (PAPER.settings(scale="paper"), False),
        (PAPER.settings(mode="fast"), False),
        (replace(PAPER.settings(), overrides=("ssd.cache.clean_victims=program",)), False),
        (TWO, False),
    ):
        results = Results(settings, {})
        made = {"14": (figure.frame(results), b'<svg width="10pt">')}
        assert ("Why it differs" in page.render(PAPER, [figure], results, made, "")) is is_said


def test_a_walk_has_the_fidelity_of_the_figure(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[core.Setup] = []

    class Run:
        def __init__(self, _path: Path, setup: core.Setup, *_: object) -> None:
            asked.append(setup)

        def page_locality(self, _shares: tuple[int, ...]) -> core.Json:
            return {"caches": []}

    monkeypatch.setattr(core, "Run", Run)
    settings = PAPER.settings(fidelity="artifact", workloads=["bc"])
    wanted = simulate.plan([_of("5")], settings)
    results = simulate.Simulation(None, lambda _name, _threads: captured).run(wanted)
    assert results.failures == {}
    assert [setup.fidelity for setup in asked] == ["artifact"]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All figures, from results that nobody simulated."""
    place = tmp_path_factory.mktemp("figures")
    figures = choose(PAPER.figures, ["all"])
    results = synthetic_figures.results(figures, PAPER.settings())
    with OutputDirectory(place) as directory:
        writing.write(directory, PAPER, figures, results, "entresol figure all")
    return place


def test_every_figure_has_its_picture_its_numbers_and_a_place_on_the_page(drawn: Path) -> None:
    content = (drawn / "index.html").read_text(encoding="utf-8")
    for figure in PAPER.figures:
        for suffix in ("svg", "pdf", "csv"):
            assert (drawn / f"{figure.stem}.{suffix}").stat().st_size > 300
        assert f'<section id="{figure.stem}">' in content and f'href="#{figure.stem}"' in content
        numbers = (drawn / f"{figure.stem}.csv").read_text().splitlines()
        assert numbers[0] == "workload,design,x,metric,ours,published,ratio"
    outside = re.findall(r'(?:src|href)="((?!#|data:)[^"]+)"', content)
    files = {path.name for path in drawn.iterdir()}
    assert set(outside) <= files, "the page refers to nothing but its own files"


def test_equal_results_are_equal_bytes(drawn: Path, tmp_path: Path) -> None:
    figures = choose(PAPER.figures, ["2", "16"])
    results = synthetic_figures.results(figures, PAPER.settings())
    with OutputDirectory(tmp_path / "again") as directory:
        writing.write(directory, PAPER, figures, results, "entresol figure 2 16")
    for figure in figures:
        for suffix in ("svg", "pdf", "csv"):
            name = f"{figure.stem}.{suffix}"
            assert (tmp_path / "again" / name).read_bytes() == (drawn / name).read_bytes(), name


@pytest.mark.parametrize("name", ["9", "14", "16", "17", "22", "table3"])
def test_nothing_is_cut_off_at_the_edge(name: str) -> None:
    figure = _of(name)
    results = synthetic_figures.results([figure], PAPER.settings())
    with ink.style():
        made = figure.draw(figure.frame(results))
        made.draw_without_rendering()
        box, (width, height) = made.get_tightbbox(), made.get_size_inches()
    assert min(box.x0, box.y0) > -0.03, box
    assert box.x1 < width + 0.03 and box.y1 < height + 0.03, (box, width, height)


def test_a_figure_is_a_function_from_results_to_axes() -> None:
    results = synthetic_figures.results([_of("16")], TWO)
    axes = figures.axes("16", results)
    assert axes.get_ylabel() == "Share of requests"
    assert len(axes.patches) >= 2 * 3 * 4


def test_a_ratio_to_nothing_is_said_to_be_none() -> None:
    figure = _of("18")
    results = synthetic_figures.results([figure], TWO)
    results.runs[want("bc", "base-cssd")]["statistics"]["flash"]["program_pages"] = 0
    frame = figure.frame(results)
    (sentence,) = tables.without_ratio(frame, results)
    assert sentence.endswith("no ratio of ours: bc")
    assert isinstance(figure.draw(frame), Drawing)


def test_one_workload_is_its_own_mean() -> None:
    alone = PAPER.settings(workloads=["bc"])
    figure = _of("14")
    frame = figure.frame(synthetic_figures.results([figure], alone))
    assert set(frame["workload"]) == {"bc"}
    figure.draw(frame)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["18", "20", "21"])
def test_a_figure_without_any_number_can_be_drawn(name: str) -> None:
    figure = _of(name)
    figure.draw(figure.frame(Results(TWO, {})))


@pytest.mark.parametrize(
    ("settings", "is_said"),
    [
        (PAPER.settings(fidelity="artifact"), True),
        (PAPER.settings(fidelity="artifact,-write_back_echo"), False),
        (PAPER.settings(scale="paper", fidelity="artifact"), True),
        (PAPER.settings(), False),
    ],
)
def test_a_page_whose_artifact_feeds_itself_says_so(settings: Settings, is_said: bool) -> None:
    figure = _of("14")
    results = Results(settings, {})
    made = {"14": (figure.frame(results), b'<svg width="10pt">')}
    shown = page.render(PAPER, [figure], results, made, "")
    assert ("write_back_echo is on, which feeds itself" in shown) is is_said
    assert "captures made again give other numbers" in shown


def test_what_is_set_in_all_runs_is_in_the_command_and_under_the_tables(
    entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    (captures / "bc-8.etr").symlink_to(captured)
    words = ("figure", "skybyte", "16", "--workloads", "bc", "--captures", captures)
    more = ("--set", "ssd.dram=40MiB", "--store", tmp_path / "s")
    done = entresol_command(*words, *more, "-o", tmp_path / "f")
    assert done.code == 0, done.err
    text = (tmp_path / "f" / "tables.md").read_text()
    assert "--set ssd.dram=40MiB" in text.split("\n\n")[1]
    assert "with ssd.dram=40MiB" in " ".join(text.split())
    wrong = entresol_command(*words, "--set", "ssd.drum=1MiB", "-o", tmp_path / "g")
    assert wrong.code != 0 and "did you mean ssd.dram?" in wrong.err
    assert not (tmp_path / "g").exists()


def test_a_panel_without_a_curve_of_ours_says_that_nothing_is_written() -> None:
    figure = _of("20")
    results = synthetic_figures.results([figure], TWO)
    for item, run in results.runs.items():
        if item.workload == "bc":
            run["statistics"]["flash"]["program_pages"] = 0
    drawn = figure.draw(figure.frame(results))
    said = {axes.get_title(): [text.get_text() for text in axes.texts] for axes in drawn.axes}
    assert said["bc"] == ["Entresol writes nothing"]
    assert said["tpcc"] == [""]
    for run in results.runs.values():
        run["statistics"]["flash"]["program_pages"] = 0
    titles = [axes.get_title() for axes in figure.draw(figure.frame(results)).axes]
    assert titles == ["bc", "tpcc"]  # A mean of nothing has no panel.


def test_a_figure_that_agrees_is_not_said_to_differ() -> None:
    figure = replace(_of("10"), why=lambda _frame: "No: all is well.")
    results = Results(PAPER.settings(), {})
    made = {"10": (figure.frame(results), b'<svg width="10pt">')}
    shown = page.render(PAPER, [figure], results, made, "")
    assert "Does it differ?" in shown and "Why it differs" not in shown


def test_warnings_that_differ_in_numbers_alone_are_one() -> None:
    pages = {
        "bc": "all 12 pages fit in the 64 of it.",
        "tpcc": "all 1,300 pages fit in the 2 of it.",
    }
    runs = {
        want(name, "base-cssd"): synthetic_figures.run(want(name, "base-cssd"))
        | {"warnings": [pages[name], f"nothing of {name} ran"]}
        for name in ("bc", "tpcc")
    }
    found = tables.warnings(Results(TWO, runs), list(runs), [], threads_of)
    assert found == [
        "all … pages fit in the … of it: bc on base-cssd; tpcc on base-cssd",
        "nothing of bc ran: bc on base-cssd",
        "nothing of tpcc ran: tpcc on base-cssd",
    ]
    (alone, _) = tables.warnings(Results(TWO, runs), list(runs)[:1], [], threads_of)
    assert alone == "all 12 pages fit in the 64 of it: bc on base-cssd"
