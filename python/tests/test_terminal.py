"""Tables on a terminal of any width."""

from __future__ import annotations

import io
import re

import pytest
import synthetic
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from entresol import quantity
from entresol.derived import Run
from entresol.terminal import print_results, print_table

LONG = "a text of several words that is longer than the terminal is wide"
NAME = "a-name-without-a-place-to-fold-it-that-is-longer-too"
PROSE = "what is said about it"


def _printed(width: int, frame: box.Box | None) -> list[str]:
    table = Table(box=frame, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("value", justify="right")
    table.add_column("about", overflow="fold")
    table.add_row(Text(NAME), Text(LONG), Text(PROSE))
    table.add_row(Text("short"), Text("7"), Text("little"))
    console = Console(width=width, file=io.StringIO())
    print_table(console, table)
    assert console.width == width
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("frame", [None, box.ASCII], ids=["bare", "framed"])
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_long_text_in_a_column_of_numbers_has_its_column_and_leaves_the_others_theirs(
    width: int, frame: box.Box | None
) -> None:
    lines = _printed(width, frame)
    (row,) = (line for line in lines if NAME in line)
    (short,) = (line for line in lines if "short" in line)
    end = row.index(LONG) + len(LONG)
    assert short.index("7") + 1 == end
    told = " ".join(re.sub(r"[|+-]", " ", line[end:]) for line in lines[lines.index(row) :])
    assert " ".join(told.split()) == f"{PROSE} little"
    assert len({len(line.rstrip()) for line in lines}) == 1 or frame is None


def test_what_holds_a_design_up_and_what_it_could_not_show_are_on_the_first_screen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    summary = synthetic.summary(("synthetic-sort",))
    print_results(summary)
    said = capsys.readouterr().out
    head, *lines = [line for line in said.splitlines() if "design" in line or "skybyte" in line]
    titles = re.split(r"\s{2,}|[│┃]", head)
    assert [title.strip() for title in titles if "AMAT" in title] == ["AMAT", "AMAT, all"]
    (run,) = (run for run in summary["runs"] if run["design"] == "skybyte-full")
    row = next(line for line in lines if "skybyte-full" in line)
    for name in ("paper_ps", "all_ps"):
        assert quantity.duration(run["statistics"]["amat"][name]) in row
    assert f"skybyte-full · {Run(run).bottleneck}" in said
    assert "garbage collection never ran (skybyte-wp)" in said
