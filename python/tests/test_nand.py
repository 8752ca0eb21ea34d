"""The flash alone: what it takes, and presets from latency logs of fio."""

from __future__ import annotations

import json
import random
import tomllib
from pathlib import Path

import pytest
from conftest import Entresol, one_line

from entresol import core
from entresol.core import Json

COUNT = 20_000


def _log(path: Path, times: list[int], direction: int = 0) -> None:
    path.write_text(
        "".join(f"{turn}, {time}, {direction}, 4096, 0, 0\n" for turn, time in enumerate(times))
    )


def _known(draw: random.Random) -> int:
    """Nine of ten near 80 us, the rest exponential from 200 us on: two humps and a tail."""
    if draw.random() < 0.9:
        return round(draw.gauss(80_000, 4_000))
    return round(200_000 + draw.expovariate(1 / 50_000))


def _measured(command: Entresol, *words: object) -> list[Json]:
    out = command("nand", "measure", *words, "--count", COUNT, "--json")
    assert out.code == 0, out.err
    found: list[Json] = json.loads(out.out)
    return found


def test_a_log_of_a_known_distribution_gives_it_back(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    draw = random.Random(7)
    times = sorted(_known(draw) for _ in range(COUNT))
    log, preset = tmp_path / "drive_lat.1.log", tmp_path / "drive.toml"
    _log(log, times)
    assert entresol_command("nand", "fit", log, "-o", preset).code == 0
    (row,) = _measured(entresol_command, "--config", preset, "--depth", 1, "--operation", "read")
    mean = sum(times) / COUNT
    deviation = (sum((time - mean) ** 2 for time in times) / COUNT) ** 0.5
    assert abs(row["mean_ps"] / 1e3 / mean - 1) < 0.01
    assert abs(row["sd_ps"] / 1e3 / deviation - 1) < 0.03
    assert abs(row["p50_ps"] / 1e3 / times[COUNT // 2] - 1) < 0.01
    assert abs(row["p99_ps"] / 1e3 / times[COUNT * 99 // 100] - 1) < 0.03
    # Between the humps is nothing, or hardly anything.
    found = core.nand_measure(None, "read", 1, COUNT, [(preset.name, preset.read_text())])
    between = sum(110_000_000 < time < 195_000_000 for time in found["served_ps"])
    assert between < COUNT // 200


def test_depths_and_directions_are_rows_and_overhead_is_taken_off(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    one, eight, preset = tmp_path / "a.log", tmp_path / "b.log", tmp_path / "x.toml"
    _log(one, [100_000] * 200)
    _log(eight, [300_000] * 200, direction=1)
    words = ("nand", "fit", one, f"{eight}:8", "--overhead", 20_000, "-o", preset)
    assert entresol_command(*words).code == 0
    nand = tomllib.loads(preset.read_text())["nand"]
    assert (nand["t_r"], nand["t_prog"]) == ("80000ns", "280000ns")
    assert nand["empirical"]["program"].startswith("8: 0%=280000ns")
    (row,) = _measured(entresol_command, "--config", preset, "--depth", 1, "--operation", "read")
    assert (row["mean_ps"], row["sd_ps"]) == (100_000_000, 0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has 0 reads or writes"),
        ("1, 5, 0, 4096, 0\n" * 99, "has 99 reads or writes"),
        ("hello\n", "line 1: is no line of a latency log"),
        ("1, 0, 0, 4096, 0\n", "line 1: a request took 0 ns"),
        ("1, 5, 0, 4096, 0\n1, 5, 0, 8192, 0\n", "has requests of 2 sizes"),
        ("\xff", "is not text"),
    ],
)
def test_what_is_no_log_is_said_in_one_sentence(
    entresol_command: Entresol, tmp_path: Path, text: str, why: str
) -> None:
    log, preset = tmp_path / "x.log", tmp_path / "x.toml"
    log.write_text(text, encoding="latin-1")
    said = entresol_command("nand", "fit", log, "-o", preset)
    assert said.code == 2 and why in one_line(said)
    assert not preset.exists()


def test_what_cannot_be_fitted_or_measured_is_said(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    log = tmp_path / "x.log"
    _log(log, [5_000] * 200)
    for words, why in (
        (("fit", tmp_path / "none.log", "-o", tmp_path / "x.toml"), "cannot be read"),
        (("fit", log, log, "-o", tmp_path / "x.toml"), "name each depth once"),
        (("fit", log, "--overhead", 5_000, "-o", tmp_path / "x.toml"), "less than the quickest"),
        (("fit", log, "-o", tmp_path / "x.txt"), "a preset is a .toml"),
        (("measure", "module-c"), "did you mean module-a?"),
        (("measure", "--set", "nand.empirical.read=8"), "nand.empirical.read"),
        (("measure", "--set", "nand.scheduling=split"), "measure fifo or read_priority"),
    ):
        said = entresol_command("nand", *words)
        assert said.code == 2 and why in one_line(said), said.err


def test_modules_are_measured_with_the_deviations_of_table_ii(entresol_command: Entresol) -> None:
    shown = {(row["operation"], row["depth"]): row
             for row in _measured(entresol_command, "module-b")}  # fmt: skip
    for key, published in {("read", 1): 0.89, ("program", 1): 3.19, ("read", 8): 1374.84,
                           ("program", 8): 1107.97}.items():  # fmt: skip
        assert abs(shown[key]["sd_ps"] / 1e6 / published - 1) < 0.1, key
