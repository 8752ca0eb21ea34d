"""The README's commands, run as they are written."""

from __future__ import annotations

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
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that looks like a built tree to the commands."""
    place = tmp_path_factory.mktemp("readme")
    (place / ".venv").symlink_to(Path(sys.executable).parent.parent)
    return place


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = [line.split()[1] for line in COMMANDS if line.startswith("make ")]
    assert targets == ["demo", "test", "figures", "reproduction"]
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_the_commands_work_in_their_order(place: Path) -> None:
    commands = [line for line in COMMANDS if not line.startswith("make ")]
    assert len(commands) == 22
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=place, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, (command, done.stderr)
    assert (place / "results" / "report.html").exists()


def test_it_is_shorter_than_two_hundred_lines() -> None:
    assert len(README.splitlines()) < 200
