"""Device images from the command line: made, looked at, checked, refused."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Entresol

from entresol import core

SMALL = (
    "--set",
    "nand.channels=2",
    "--set",
    "nand.chips_per_channel=1",
    "--set",
    "nand.dies_per_chip=1",
    "--set",
    "nand.blocks_per_plane=24",
    "--set",
    "nand.pages_per_block=8",
    "--set",
    "ftl.over_provisioning=40%",
    "--set",
    "ssd.log.size=32KiB",
    "--set",
    "ssd.dram=100KiB",
    "--set",
    "ssd.log.tx_log=4KiB",
    "--set",
    "ssd.buffers=8",
    "--set",
    "ftl.gc_buffers=4",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    image = tmp_path_factory.mktemp("device") / "image"
    overrides = [word for word in SMALL if word != "--set"]
    core.device_create(image, "bytefs", overrides=overrides)
    return image


@pytest.fixture
def image(made: Path, tmp_path: Path) -> Path:
    """An image of the test's own."""
    return Path(shutil.copytree(made, tmp_path / "image"))


def test_an_image_is_made_described_and_sound(entresol_command: Entresol, tmp_path: Path) -> None:
    image = tmp_path / "image"
    words = (*SMALL, "--set", "device.block=512B")
    outcome = entresol_command("device", "create", image, *words)
    assert (outcome.code, outcome.out) == (0, f"{image}\n")
    about = json.loads(entresol_command("device", "info", image, "--json").out)
    assert about["capacity_bytes"] == 232 * 4096
    assert about["block_bytes"] == 512
    assert about["configuration"]["nand"]["t_prog"] == "60us"
    assert not about["is_open"]
    checked = entresol_command("device", "fsck", image)
    assert checked.code == 0
    assert "0 problems" in checked.out


def test_a_config_file_and_set_change_a_preset(entresol_command: Entresol, tmp_path: Path) -> None:
    layer = tmp_path / "mine.toml"
    layer.write_text('[nand]\nt_r = "9us"\nt_prog = "90us"\n')
    image = tmp_path / "image"
    words = (*SMALL, "--preset", "cxl", "--config", layer, "--set", "nand.t_prog=91us")
    assert entresol_command("device", "create", image, *words).code == 0
    nand = core.device_info(image)["configuration"]["nand"]
    assert (nand["t_r"], nand["t_prog"]) == ("9us", "91us")


def test_statistics_have_three_forms(entresol_command: Entresol, image: Path) -> None:
    numbers = json.loads(entresol_command("device", "stats", image, "--json").out)
    clock = numbers["clock_ps"]
    assert clock > 0 == numbers["block_port_writes"], "a new device was switched on once"
    text = entresol_command("device", "stats", image, "--prometheus").out
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    latencies = numbers.pop("latencies")
    assert list(latencies) == [
        "byte_read",
        "byte_write",
        "persist",
        "block_read",
        "block_write",
        "flush",
        "trim",
        "commit",
        "abort",
    ]
    assert set(latencies["flush"]) == {
        "requests",
        "mean_ps",
        "p50_ps",
        "p90_ps",
        "p99_ps",
        "p99_9_ps",
        "max_ps",
    }
    assert latencies["flush"]["requests"] == 0 and latencies["flush"]["p99_ps"] is None
    assert len(samples) == len(numbers) + 2 * len(latencies)
    assert f'entresol_device_clock_ps_total{{image="{image}"}} {clock}' in samples
    assert "byte_port_reads" in entresol_command("device", "stats", image).out
    both = entresol_command("device", "stats", image, "--json", "--prometheus")
    assert both.code == 2


@pytest.mark.parametrize("columns", ["40", "80"])
def test_no_number_and_no_name_of_a_table_is_cut(
    entresol_command: Entresol, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    latency = dict.fromkeys(("mean_ps", "p50_ps", "p90_ps", "p99_ps", "p99_9_ps", "max_ps"), 14_312)
    kinds = ("byte_read", "byte_write", "block_write")
    numbers = {
        "byte_port_reads": 1_234_567_890_123,
        "condemned_blocks_of_the_flash": 9_876_543_210_987,
        "latencies": {kind: {"requests": 1_234_567_890_123, **latency} for kind in kinds},
    }
    monkeypatch.setattr(core, "device_info", lambda _image: {"statistics": numbers})
    monkeypatch.setenv("COLUMNS", columns)
    out = entresol_command("device", "stats", "image").out
    assert "…" not in out
    for row in ("byte_port_reads +1,234,567,890,123", "blocks_of_the_flash +9,876,543,210,987"):
        assert re.search(row, out), out
    for kind in kinds:
        spans = " +14.3\u00a0ns" * 6
        assert re.search(f"{kind.replace('_', ' ')} +[^ ]+{spans}", out), out


def test_presets_say_where_their_values_come_from(entresol_command: Entresol) -> None:
    presets = {preset.name: preset.about for preset in core.device_presets()}
    assert set(presets) == {
        "bytefs", "bytefs-cache", "skybyte", "cxl", "consumer-tlc", "opencxd",
    }  # fmt: skip
    assert "Table 4" in presets["bytefs"]
    assert "§5.6" in presets["cxl"]
    assert "consumer-tlc" in entresol_command("device", "presets").out
    keys = json.loads(entresol_command("device", "presets", "--keys", "--json").out)
    assert {"device.line_read", "nand.t_r"} <= {entry["key"] for entry in keys}
    assert len(keys) == sum(len(values) for values in core.device_config("bytefs").values())


def _damage(image: Path, file: str, at: int, data: bytes) -> None:
    with (image / file).open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


@pytest.mark.parametrize("command", ["info", "stats", "fsck"])
@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda image: (image / "dram.bin").unlink(), "there is no dram.bin in it"),
        (lambda image: _damage(image, "media.bin", 0, b"ELF"), "this is not a media file"),
        (lambda image: _damage(image, "media.bin", 8, b"\x09"), "version 9"),
        (lambda image: _damage(image, "dram.bin", 100, b"?"), "checksum"),
        (lambda image: _damage(image, "dram.bin", 16, b"??"), "checksum"),
    ],
)
def test_what_is_no_sound_image_is_one_sentence(
    entresol_command: Entresol, image: Path, command: str, spoil: object, sentence: str
) -> None:
    assert callable(spoil)
    spoil(image)
    outcome = entresol_command("device", command, image)
    assert outcome.code == 2
    assert sentence in outcome.err
    assert str(image) in outcome.err
    assert outcome.err.count("\n") == 1


def test_an_interrupted_create_leaves_nothing(
    entresol_command: Entresol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = core.device_create

    def interrupted(image: Path, *rest: Any) -> None:
        create(image, *rest)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(core, "device_create", interrupted)
    outcome = entresol_command("device", "create", tmp_path / "new", *SMALL)
    assert (outcome.code, outcome.out) == (130, "")
    assert outcome.err == "entresol: interrupted; nothing was written.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_cache_beyond_the_memory_there_is_leaves_nothing(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    words = (sys.executable, "-m", "entresol", "device", "create", "new", "--preset", "cxl")
    done = subprocess.run(
        [*words, *SMALL, "--set", "ssd.dram=8GiB"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "new: its data cache is " in done.stderr
    assert done.stderr.count("\n") == 1 and "smaller ssd.dram" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_bad_words_are_one_sentence(entresol_command: Entresol, image: Path) -> None:
    again = entresol_command("device", "create", image)
    assert (again.code, "exists already" in again.err) == (2, True)
    nameless = entresol_command("device", "create", "")
    assert (nameless.code, "names no image" in nameless.err) == (2, True)
    other = image.parent / "other"
    large_log = ("--set", "ssd.log.size=1GiB", "--set", "ssd.dram=2GiB")
    for words, sentence in [
        (("--preset", "optane"), "there are bytefs, bytefs-cache, skybyte"),
        (("--set", "nand.t_r=soon"), "t_r"),
        (("--set", "nand.channels=0"), "nand.channels is 0"),
        (("--set", "cpu.cores=8"), "unknown section cpu; there are device, ssd"),
        (
            ("--set", "nand.page_size=16KiB", "--set", "ftl.mapping_unit=16KiB", *large_log),
            "ssd.log.size (1GiB) has more slots than the log index can name beside the lines of "
            "a page of 16KiB: it must be below 1GiB",
        ),
        (("--config", image / "none.toml"), "none.toml"),
    ]:
        outcome = entresol_command("device", "create", other, *words)
        assert outcome.code == 2, words
        assert sentence in outcome.err, outcome.err
        assert not other.exists()


def test_a_damaged_page_table_is_found(entresol_command: Entresol, image: Path) -> None:
    # The first entry of the mapping, which lies before the blocks at the end of the file.
    size = (image / "dram.bin").stat().st_size
    _damage(image, "dram.bin", size - 4096 - 4096, (77).to_bytes(4, "little"))
    outcome = entresol_command("device", "fsck", image, "--json")
    found = json.loads(outcome.out)
    assert outcome.code == 1
    assert found["problem_count"] == len(found["problems"]) == 2
    assert "no program has begun" in found["problems"][0]
    assert "erased" in found["problems"][1]
