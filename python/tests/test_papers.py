"""Papers and their rooms: what they hold, how they are named, and why their figures differ."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
import synthetic_figures
from conftest import Entresol, one_line

from entresol import core, papers
from entresol.api.design import design as es_design
from entresol.errors import UserError
from entresol.figures import frames, ink
from entresol.figures.entry import Figure, choose
from entresol.figures.paper import Paper
from entresol.figures.plan import Results
from entresol.papers.skybyte import PAPER, reasons
from entresol.papers.skybyte.runs import want


def _of(name: str) -> Figure:
    (found,) = choose(PAPER.figures, [name])
    return found


@pytest.mark.parametrize("figure", PAPER.figures, ids=lambda figure: figure.name)
def test_every_figure_beside_published_values_says_why_it_differs(figure: Figure) -> None:
    results = synthetic_figures.results([figure], PAPER.settings())
    said = figure.why(figure.frame(results))
    assert bool(said) == (figure.name not in ("5", "6"))
    assert "–" not in said, "every number of the sentence is in the frame or was published"
    empty = figure.why(figure.frame(Results(PAPER.settings(), {})))
    assert bool(empty) == bool(said), "there are sentences without results too"


def test_no_sentence_on_a_difference_holds_a_measured_number() -> None:
    """Numbers come from the frame and the published files, so none stands in the source."""
    tree = ast.parse(Path(reasons.__file__).read_text(encoding="utf-8"))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    names = r"Figures? [0-9]+( and [0-9]+)?|fig[0-9]+|table3|skybyte-full-24|24 threads"
    for text in texts:
        if isinstance(text, str):
            assert not re.search(r"[0-9]", re.sub(names, "", text)), text


def test_the_numbers_of_a_sentence_are_those_of_the_frame() -> None:
    figure = _of("16")
    results = synthetic_figures.results([figure], PAPER.settings())
    requests = results.runs[want("dlrm", "skybyte-wp")]["statistics"]["requests"]
    for name in requests:
        requests[name] = 0
    requests["ssd_misses"], requests["host_reads"] = 37, 63
    assert "it is 37, " in figure.why(figure.frame(results))


@pytest.mark.parametrize(
    ("words", "name", "rest"),
    [(["skybyte", "14", "18"], "skybyte", ["14", "18"]), (["14,18"], "skybyte", ["14,18"]),
     (["8,9"], "bytefs", ["8,9"]), (["bytefs", "all"], "bytefs", ["all"]),
     (["skybyte"], "skybyte", [])],
)  # fmt: skip
def test_a_paper_may_be_left_out_where_one_has_the_figures(
    words: list[str], name: str, rest: list[str]
) -> None:
    paper, names = papers.of_words(words)
    assert (paper.name, names) == (name, rest)


def test_a_figure_that_two_papers_have_asks_which(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Paper("other", "Other", figures=(replace(_of("14"), title="Something else"),))
    monkeypatch.setattr(papers, "every", lambda: [other, PAPER])
    with pytest.raises(UserError, match=r"^14: other and skybyte have it; say entresol figure o"):
        papers.of_words(["14"])
    assert papers.of_words(["18"]) == (PAPER, ["18"])
    with pytest.raises(UserError, match=r"13\. There are other 14, or all; skybyte 2, "):
        papers.of_words(["13"])
    own = Paper("own", "Our own")
    monkeypatch.setattr(papers, "every", lambda: [own, PAPER])
    assert papers.of_words(["14"]) == (PAPER, ["14"]), "a room without figures is no choice"
    monkeypatch.setattr(papers, "names", lambda: ("own", "skybyte"))
    monkeypatch.setattr(papers, "find", {"own": own, "skybyte": PAPER}.__getitem__)
    with pytest.raises(UserError, match=r"^own: has no figures\.$"):
        papers.of_words(["own", "14"])
    assert papers.of_words(["own"]) == (own, [])


def test_papers_and_their_figures_are_listed(entresol_command: Entresol) -> None:
    listed = entresol_command("figure")
    assert listed.code == 0
    assert listed.out.startswith("skybyte: SkyByte\n  2       DRAM and CXL-SSD\n")
    assert "\nbytefs: ByteFS\n  table2  I/O amplification" in listed.out
    assert entresol_command("figure", "--list").out == listed.out
    for words in (["skybyte"], ["skybyte", "--list"]):
        assert listed.out.startswith(entresol_command("figure", *words).out)


def test_designs_look_alike_in_every_figure() -> None:
    assert {design.name for design in core.designs()} == set(papers.looks())
    for design in core.designs():
        assert ink.label(design.name) == design.paper_name
    assert ink.label("skybyte-full-24") == "SkyByte-Full-24"
    assert (ink.label("mine"), ink.code("mine"), ink.colour("mine")) == ("mine", "MINE", ink.OTHER)
    assert len({look.colour for look in papers.looks().values()}) == len(papers.looks())


def test_designs_and_switches_may_be_named_with_their_paper(
    entresol_command: Entresol, capture_file: Path
) -> None:
    assert papers.designs(["skybyte/skybyte-w", "dram-only"]) == ["skybyte-w", "dram-only"]
    assert papers.designs(["skybyte/all"]) == [
        design.name for design in core.designs() if design.name != "entresol"
    ]
    assert es_design("skybyte/skybyte-w").name == "skybyte-w"
    shown = entresol_command("config", "show", "--design", "skybyte/skybyte-w").out
    assert shown == entresol_command("config", "show", "--design", "skybyte-w").out
    explained = entresol_command("fidelity", "explain", "skybyte/no_prefetch").out
    assert explained == entresol_command("fidelity", "explain", "no_prefetch").out
    for word, message in (
        ("skybite/skybyte-w", "unknown paper skybite. Did you mean skybyte?"),
        ("skybyte/w", "skybyte/w: the paper has no such name among its designs."),
    ):
        refused = entresol_command("run", capture_file, "--design", word)
        assert refused.code == 2 and message in one_line(refused)
    several = entresol_command("config", "show", "--design", "skybyte/all")
    assert one_line(several) == "entresol: config show takes one design.\n"


def test_every_room_is_registered_and_has_what_it_names() -> None:
    place = Path(papers.__file__).parent
    folders = {path.parent.name for path in place.glob("*/paper.toml")}
    assert folders == set(papers.names())
    switches = [switch.name for switch in core.fidelity_switches()]
    assert switches == [
        name for room in papers.names() for name in papers.manifest(room)["switches"]
    ]
    for paper in papers.every():
        assert paper.title == papers.manifest(paper.name)["title"]
    assert papers.artifact("skybyte") == "artifact"
    assert papers.artifact("other") == "other/artifact"


def test_the_machinery_imports_nothing_of_a_room() -> None:
    for path in Path(frames.__file__).parent.glob("*.py"):
        for name in papers.names():
            assert f"papers.{name}" not in path.read_text(encoding="utf-8"), path
