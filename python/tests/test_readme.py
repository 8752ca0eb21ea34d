"""The README's commands, run as they are written, on the beginnings of the captures they name."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, beginnings: Path) -> Path:
    """A directory that looks like a built tree to the commands."""
    place = tmp_path_factory.mktemp("readme")
    (place / ".venv").symlink_to(Path(sys.executable).parent.parent)
    (place / "traces").symlink_to(beginnings)
    return place


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = [line.split()[1] for line in COMMANDS if line.startswith("make ")]
    assert targets == ["demo", "test"]
    for target in re.findall(r"`make (\w+)`", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_the_commands_work_in_their_order(place: Path) -> None:
    for named in re.findall(r"traces/\S+", " ".join(COMMANDS)):
        assert (ROOT / named).is_file(), f"{named} is shipped"
    commands = [line for line in COMMANDS if not line.startswith("make ")]
    assert len(commands) == 9
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=place, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, (command, done.stderr)
    assert (place / "xz" / "report.html").exists()
    assert (place / "cost" / "report.html").exists()


def _rows(text: str) -> list[list[str]]:
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip("* ") for cell in row] for row in rows]


def test_its_numbers_are_those_of_the_reproduction() -> None:
    reproduction = (ROOT / "docs" / "reproduction.md").read_text()
    measured = {row[1]: row for row in _rows(reproduction) if len(row) > 6}
    # A cause runs over lines and stands below its claim.
    below = dict(
        section.split("\n", 1) for section in reproduction.split("\n### ")[1:] if "\n" in section
    )
    found = README.split("## What it found")[1].split("\n## ")[0]
    rows = [row for row in _rows(found) if len(row) == 5][1:]
    assert len(rows) >= 6
    for claim, published, paper, artifact, cause in rows:
        told = measured[claim]
        assert [published, paper, artifact] == [told[3], told[5], told[6]], claim
        number = cause.rsplit(": ", 1)[1]
        causes = " ".join(below[claim].split()).split("*artifact*")[0]
        # The main one is what alone brings ours nearest to the published number.
        alone = [float(found) for found in re.findall(r"it is (\d+\.?\d*)\.", causes)]
        nearest = min(alone, key=lambda value: abs(math.log(value / float(published))))
        assert float(number) == nearest, (claim, number, alone)
    for number in re.findall(r"\d+\.\d+", found.split("\n\n|")[0]):
        assert any(number in row for row in ([*rows[0][:4], rows[0][4].rsplit(": ", 1)[1]],))


def test_it_is_read_at_a_sitting() -> None:
    assert len(README.splitlines()) <= 120
