"""The endurance run: a short one, and one without a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from endurance import ROUNDS, endure, fio_round, flash_report
from kill_lab import Wrong, make_image, serve_command

SMALL = (
    "nand.channels=1",
    "nand.chips_per_channel=2",
    "nand.dies_per_chip=1",
    "nand.blocks_per_plane=32",
    "nand.pages_per_block=64",
    "ftl.over_provisioning=30%",
    "ssd.dram=5MiB",
    "ssd.log.size=1MiB",
)


def test_a_round_of_each_kind_writes_and_compares_the_whole_device(tmp_path: Path) -> None:
    image = tmp_path / "image"
    make_image(image, "cxl", SMALL)
    tally = endure(serve_command(image), 0.0, 1, tmp_path)
    assert set(tally.kinds) == set(ROUNDS)
    assert min(tally.written, tally.read) > 2 * (10 << 20)
    assert not flash_report(image).endswith(" 0 blocks erased"), "GC was at work"


def test_a_round_whose_server_is_gone_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(Wrong, match="fio fails in a round of write, seed 1"):
        fio_round(tmp_path / "nothing", "write", 1 << 20, 1, tmp_path)
