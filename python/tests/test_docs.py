"""The commands of the documentation, run as they are written, page by page, on little work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from file_server import detach, without_fuse

import entresol

PAGES = {"sweeps": 2, "tour": 9, "howto/mount": 4}
"""Pages, and how many blocks of commands each has."""
RECORDED = ("--limit 10000000 ", "--limit 1000000 ")
"""What the tour records, and what the test does: every command reads it, and none needs more."""


def _blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_in_their_order(
    page: str, tmp_path: Path, beginnings: Path
) -> None:
    if page == "howto/mount" and (without := without_fuse()) is not None:
        pytest.skip(f"FUSE: {without}")
    command = tmp_path / ".venv" / "bin" / "entresol"
    command.parent.mkdir(parents=True)
    package = Path(entresol.__file__).parents[1]
    command.write_text(f'#!/bin/sh\nPYTHONPATH={package} exec {sys.executable} -m entresol "$@"\n')
    command.chmod(0o755)
    (tmp_path / "traces").symlink_to(beginnings)
    blocks = _blocks(page, "sh")
    assert len(blocks) == PAGES[page]
    assert any(RECORDED[0] in block for block in blocks) == (page == "tour")
    blocks = [block.replace(*RECORDED) for block in blocks]
    environment = os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}"}
    try:
        for block in blocks:
            done = subprocess.run(
                ["bash", "-e", "-c", block],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode == 0, (block, done.stderr)
    finally:
        for mounted in ("mnt", "again"):
            detach(tmp_path / mounted)


def test_the_python_of_the_documentation_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beginnings: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces").symlink_to(beginnings)
    # What needs a served device is run by test_device_shm.
    blocks = [block for block in _blocks("python", "python") if "entresol.device" not in block]
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    # What the page says that `write` leaves, of a run and of a sweep.
    for directory, record in (("xz", "summary.json"), ("log", "sweep.json")):
        left = {path.name for path in (tmp_path / directory).iterdir()}
        assert left == {record, "results.parquet", "report.html"}


def test_the_index_of_the_bench_log_is_what_the_log_has() -> None:
    index, *sections = (ROOT / "docs" / "bench-log.md").read_text().split("\n## ")
    headings = [section.splitlines()[0] for section in sections]
    anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert re.findall(r"^\| \d.*\(#(\S+)\) \| .", index, flags=re.MULTILINE) == anchors
    days = [heading[:10] for heading in headings]
    assert days == sorted(days)
