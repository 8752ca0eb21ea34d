"""Tables on a terminal of any width."""

from __future__ import annotations

import io
import re

import pytest
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from entresol.terminal import print_table

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
