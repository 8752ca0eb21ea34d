"""The examples in Python and the sweep, run as their own words say. Those in C and Rust are run by
tests of their crates."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from conftest import ROOT, Entresol
from kill_lab import Server, serve_command

import entresol

EXAMPLES = ROOT / "examples"
SOON = 60.0


def _run(*words: str | Path, cwd: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(Path(entresol.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def server(image: Path, socket: Path) -> Iterator[Server]:
    """A process that serves the device."""
    made = Server(serve_command(image, "--shm", "unix:SOCKET"), socket)
    yield made
    made.kill_if_alive()


def test_every_example_is_in_the_index() -> None:
    index = (EXAMPLES / "README.md").read_text()
    kinds = {".py", ".c", ".rs", ".toml"}
    files = [path for path in EXAMPLES.rglob("*") if path.suffix in kinds]
    missing = [
        path.name for path in files
        if path.name != "Cargo.toml" and f"({path.relative_to(EXAMPLES)})" not in index
    ]  # fmt: skip
    assert len(files) >= 4 and not missing


def test_the_study_leaves_a_table_a_report_and_a_picture(tmp_path: Path) -> None:
    said = _run(EXAMPLES / "python" / "log_size.py", "out", cwd=tmp_path)
    assert "512KiB" in said and said.endswith("out/log-size.svg\n")
    for name in ("results.parquet", "report.html", "log-size.svg"):
        assert (tmp_path / "out" / name).stat().st_size > 1000


def test_the_sweep_has_its_points(entresol_command: Entresol, tmp_path: Path) -> None:
    file = EXAMPLES / "sweeps" / "log_size.toml"
    done = entresol_command("sweep", file, "-o", tmp_path / "out")
    assert done.code == 0, done.err
    rows = pl.read_parquet(tmp_path / "out" / "results.parquet")
    assert rows.height == 2 * 2 * (1 + 2)
    assert set(rows["design"]) == {"base-cssd", "skybyte-w"}


def test_accounts_never_make_or_lose_money(server: Server, socket: Path, tmp_path: Path) -> None:
    deadline = time.monotonic() + SOON
    while not socket.exists():
        assert time.monotonic() < deadline, server.said()
        time.sleep(0.005)
    said = _run(EXAMPLES / "python" / "accounts.py", socket, cwd=tmp_path)
    assert said == "before: 100 and 20\nafter: 70 and 50\naborted: 70 and 50\n"
