"""The page of `entresol assumptions`: bars and numbers of what decides."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import cast

import pytest
from conftest import Entresol

from entresol import assumptions, core, svg, svg_factors
from entresol.assumptions import Answer, Change, Moved, Refused
from entresol.report import assumptions_page
from entresol.result_types import Assumptions, RunResult
from entresol.study import Capture, Study

WORDS = ("--machine", "demo", "--design", "skybyte-w", "--mode", "fast", "--threads", "2")


def _moved(key: str, changed: str, is_doubled: bool, time: float, speedup: float) -> Moved:
    return Moved(Change(key, "16", changed, is_doubled), time, speedup)


def _answer(*far: Moved) -> Answer:
    first = [{"design": "base-cssd", "execution_time_ps": 125}]
    first.append({"design": "skybyte-w", "execution_time_ps": 100})
    on = Change("reads_first", "off", "on", True, ("a.b=1", "a.c=2"), "reads go <first>")
    moved = [
        _moved("ssd.large", "8", False, 1.25, 0.612),
        _moved("ssd.small", "32", True, 1.02, 0.985),
        _moved("ssd.timed", "32", True, 1.31, 1.0),
        _moved("ssd.large", "32", True, 1.0, 1.0004),
        _moved("ssd.still", "32", True, 1.0, 1.0),
    ]
    refused = Refused(Change("ssd.one", "1", "half of 1", False), "there is no <smaller> number")
    return Answer(cast(list[RunResult], first), moved, far, [Moved(on, 1.4, 0.712)], [refused])


def _result(answer: Answer) -> Assumptions:
    path = Path("place/x.etr")
    capture = Capture("x", path, {"digest": "d"}, path)
    setup = core.Setup("demo", overrides=("ssd.dram=1MiB",), mode="fast")
    wanted = Study((capture,), ("skybyte-w",), setup, 2, False)
    return assumptions.assemble(wanted, answer, ["read <this> first"], ["--format", "macsim"])


def _text(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def _section(page: str, name: str) -> str:
    return page.partition(f'<section id="{name}"')[2].partition("</section>")[0]


def _rows(section: str) -> list[list[str]]:
    rows = re.findall(r"<tr[^>]*>(<th scope=\"row\">.*?)</tr>", section, re.DOTALL)
    return [[_text(each) for each in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", r)] for r in rows]


def test_the_page_says_first_what_overturns_and_then_what_to_read_with_care() -> None:
    result = _result(_answer())
    page = assumptions_page.render(result)
    assert result["headline"].startswith("ssd.large, whose value is ours, decides")
    lead = page.partition('<p class="lead">')[2]
    assert unescape(lead).startswith(result["headline"])
    assert lead.index("read &lt;this&gt; first") < lead.index("<svg")
    assert "reads go &lt;first&gt;" in page and "no &lt;smaller&gt;" in page
    assert "src=" not in page and "http" not in page.replace("http://www.w3.org", "")


def test_bars_are_sorted_by_what_they_move_halved_and_doubled_side_by_side() -> None:
    page = assumptions_page.render(_result(_answer()))
    picture = _section(page, "moves").partition("<svg")[2].partition("</svg>")[0]
    labels = re.findall(r'<text class="(label[^"]*)"[^>]*>([^<]*)', picture)
    assert labels == [
        ("label strong", "ssd.large = 16"),
        ("label strong", "reads_first (open)"),
        ("label", "ssd.small = 16"),
        ("label", "ssd.timed = 16"),
    ]
    bars = re.findall(r'<rect[^>]*width="([\d.]+)"[^>]*--([\w-]+)\)[^>]*><title>([^<]*)', picture)
    assert [(colour, title.partition(":")[0]) for _, colour, title in bars] == [
        ("c-link_ps", "ssd.large 16 → 8"),
        ("c-host_dram_ps", "ssd.large 16 → 32"),
        ("c-index_ps", "reads_first off → on"),
        ("c-host_dram_ps", "ssd.small 16 → 32"),
        ("c-host_dram_ps", "ssd.timed 16 → 32"),
    ]
    widths = [float(width) for width, *_ in bars]
    assert widths[0] > widths[2] > widths[3] > widths[1] and widths[4] < 1
    notes = re.findall(r'<text class="(note[^"]*)"[^>]*>([^<]*)', picture)
    assert [text for kind, text in notes if "strong" in kind] == ["8: ×0.612 ⇄", "on: ×0.712 ⇄"]
    assert picture.count('class="mark"') == 1, "where both are equally fast"


def test_every_bar_is_a_row_of_the_table_and_nothing_that_was_tried_is_lost() -> None:
    page = assumptions_page.render(_result(_answer()))
    rows = _rows(_section(page, "numbers"))
    assert rows == [
        ["ssd.large", "16", "8", "halved", "1.250", "0.612", "0.765×", "yes ⇄"],
        ["reads_first", "off", "on", "left open, turned on", "1.400", "0.712", "0.890×", "yes ⇄"],
        ["ssd.timed", "16", "32", "doubled", "1.310", "1.000", "1.25×", "no"],
        ["ssd.small", "16", "32", "doubled", "1.020", "0.985", "1.23×", "no"],
        ["ssd.large", "16", "32", "doubled", "1.000", "1.000", "1.25×", "no"],
    ]
    assert _rows(_section(page, "open")) == [["reads_first", "reads go <first>", "a.b=1 a.c=2"]]
    assert _rows(_section(page, "still")) == [["ssd.still", "16", "32"]]
    assert _rows(_section(page, "not-tried")) == [
        ["ssd.one", "half of 1", "there is no <smaller> number"]
    ]
    assert "Taken farther" not in page
    assert _text(_section(page, "repeat")) == (
        'aria-labelledby="repeat-h"> To repeat it entresol assumptions x.etr --design skybyte-w '
        "--machine demo --threads 2 --mode fast --set ssd.dram=1MiB --format macsim"
    )


def test_what_overturns_far_off_has_a_bar_beside_its_halves() -> None:
    near = _moved("ssd.large", "32", True, 1.0, 0.95)
    answer = _answer(_moved("ssd.large", "64", True, 1.5, 0.9), near)
    answer = Answer(answer.first, [near], [_moved("ssd.large", "64", True, 1.5, 0.7)], (), ())
    result = _result(answer)
    page = assumptions_page.render(result)
    assert [[each.changed for each in group] for group in assumptions_page.moving(result)] == [
        ["32", "64"]
    ]
    assert [row[2:4] for row in _rows(_section(page, "farther"))] == [["64", "doubled again"]]
    assert "64: ×0.700 ⇄" in page


def test_long_lists_are_pictures_with_one_axis_that_fit_on_paper() -> None:
    answer = _answer()
    several = [_moved(f"ssd.n{n:02}", "32", True, 1.0, 1 - 0.01 * n) for n in range(25, 0, -1)]
    page = assumptions_page.render(_result(Answer(answer.first, several, (), (), ())))
    section = _section(page, "moves")
    wide = re.findall(r'<div class="w940">(.*?)</div>', section, re.DOTALL)
    labels = [re.findall(r'class="label[^"]*"[^>]*>([^<]*)', each) for each in wide]
    assert [len(each) for each in labels] == [10, 10, 5]
    shown = [label for each in labels for label in each]
    assert shown == [f"{each.change.key} = 16" for each in several]
    axes = {tuple(re.findall(r'class="tick" x="([\d.]+)"', each)) for each in wide}
    assert len(axes) == 1, "lengths of one picture are those of another"
    heights = re.findall(r'viewBox="0 0 535 (\d+)"', section)
    assert len(heights) == 3 and max(map(int, heights)) < 800


def test_where_nothing_moves_the_page_says_so() -> None:
    answer = _answer()
    quiet = Answer(answer.first, [answer.moved[-1]], (), (), ())
    page = assumptions_page.render(_result(quiet))
    assert "Nothing that was tried moves" in page and "<svg viewBox" not in page
    assert _rows(_section(page, "still")) == [["ssd.still", "16", "32"]]


@pytest.mark.parametrize("width", [940, 336])
def test_equal_factors_have_equal_bars_to_both_sides_of_one(width: int) -> None:
    group = svg_factors.Group(
        "name", tuple(svg_factors.Factor(each, "c", f"{each}", "") for each in (0.5, 2.0, 4.0))
    )
    caption = svg.Caption("i", "t", "d")
    drawn = svg_factors.factors(caption, [group], width, 3.0)
    bars = re.findall(r'<rect[^>]*x="([\d.]+)"[^>]*width="([\d.]+)"', drawn)
    (less, half), (more, double), (_, fourth) = [(float(x), float(w)) for x, w in bars]
    assert half == pytest.approx(double, abs=0.1) and fourth == pytest.approx(2 * half, abs=0.1)
    assert less + half == pytest.approx(more, abs=0.1)
    assert ">×1<" in drawn and drawn.count('class="mark"') == 1
    assert 'class="mark"' not in svg_factors.factors(caption, [group], width, 5.0)


def test_the_files_are_written_beside_what_is_there_and_hold_what_json_prints(
    entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    target.mkdir()
    for name in ("other.txt", "assumptions.html"):
        (target / name).write_text("of before")
    outcome = entresol_command("assumptions", captured, *WORDS, "--json", "-o", target)
    assert outcome.code == 0, outcome.err
    assert (target / "assumptions.json").read_text() == outcome.out
    names = {"other.txt", "assumptions.html", "assumptions.json"}
    assert {each.name for each in target.iterdir()} == names, "nothing of another name is left"
    assert (target / "other.txt").read_text() == "of before"
    page = (target / "assumptions.html").read_text()
    result: Assumptions = json.loads(outcome.out)
    assert page == assumptions_page.render(result)
    said = entresol_command("assumptions", captured, *WORDS, "-o", target)
    assert said.out.rstrip().endswith(f"report: {target / 'assumptions.html'}")
    assert (target / "assumptions.html").read_text() == page
    rows = {(row[0], row[2], *row[4:6]) for row in _rows(_section(page, "numbers"))}
    cells = [tuple(line.strip("│ ").split("│")) for line in said.out.splitlines() if "│" in line]
    printed = {(key.strip(), to.strip(), time.strip(), speed.strip())
               for key, _, to, time, speed in cells}  # fmt: skip
    assert printed and printed <= rows


def test_a_place_that_is_no_directory_is_refused_before_anything_runs(
    entresol_command: Entresol, captured: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    outcome = entresol_command("assumptions", captured, *WORDS, "-o", tmp_path / "file")
    assert outcome.code == 2 and "is not a directory" in outcome.err, outcome.err
    assert "MIPS" not in outcome.err and (tmp_path / "file").read_text() == ""


def test_base_cssd_is_not_compared_with_itself(entresol_command: Entresol, captured: Path) -> None:
    outcome = entresol_command("assumptions", captured, "--design", "base-cssd")
    assert outcome.code == 2 and "--design" in outcome.err, outcome.err
    assert "MIPS" not in outcome.err and outcome.out == ""
