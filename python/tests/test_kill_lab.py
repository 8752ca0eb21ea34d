"""Killed servers: what the lab's model allows, a dozen kills, and a device that is found out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kill_lab import MOST_ANSWERS, Lab, Wrong, make_image, serve_command
from kill_model import Model
from small_devices import BUSY

from entresol import core

SIZE = 4096
KILLS = 12


def _promised() -> tuple[Model, int]:
    """A block whose first version was promised, and its number."""
    model = Model(SIZE, seed=3)
    version = model.write([7], zeroes=False)
    model.answered([7], version, durable=True)
    return model, version


def test_a_promised_write_must_be_found() -> None:
    model, version = _promised()
    assert model.found(7, model.content(7, version)) is None
    assert model.found(7, bytes(SIZE)) == (
        "block 7 is zeroes; version 1 was promised, 1 was the last sent"
    )


def test_a_write_that_nobody_promised_may_be_found_or_not() -> None:
    for kept in (False, True):
        model, old = _promised()
        new = model.write([7], zeroes=False)
        model.answered([7], new, durable=False)
        assert model.found(7, model.content(7, new if kept else old)) is None
        other = model.found(7, model.content(7, old if kept else new))
        assert other is not None, "what was found once stays"
        assert (model.tally.checked, model.tally.in_doubt, model.tally.kept) == (2, 1, int(kept))


def test_a_flush_promises_what_was_answered_before_it_was_sent() -> None:
    model, old = _promised()
    new = model.write([7], zeroes=False)
    early = model.pending()
    model.answered([7], new, durable=False)
    late = model.pending()
    model.flushed(early)
    assert model.found(7, model.content(7, old)) is None
    model, old = _promised()
    new = model.write([7], zeroes=False)
    model.answered([7], new, durable=False)
    model.flushed(late)
    assert model.found(7, model.content(7, old)) is not None


def test_what_was_never_written_is_not_to_be_found() -> None:
    model, version = _promised()
    right = model.content(7, version)
    torn = right[:2048] + bytes(2048)
    for data, told in (
        (torn, "is torn"),
        (model.content(8, version), "is version 1 of block 8"),
        (Model(SIZE, seed=4).content(7, version), "is nothing that was written"),
    ):
        problem = model.found(7, data)
        assert problem is not None and told in problem
    trimmed = model.write([7], zeroes=True)
    assert model.found(7, bytes(SIZE)) is None, "a trim is a version like others"
    assert trimmed == 2


def test_a_living_device_shows_the_last_answered_write() -> None:
    model, old = _promised()
    new = model.write([7], zeroes=False)
    assert model.read(7, model.content(7, old)) is None
    model.answered([7], new, durable=False)
    assert model.read(7, model.content(7, new)) is None
    problem = model.read(7, model.content(7, old))
    assert problem is not None and "the last write answered is version 2" in problem


def test_a_dozen_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    image = tmp_path / "image"
    make_image(image, "cxl", BUSY)
    lab = Lab(serve_command(image), seed=11, volatile=False, folder=tmp_path)
    while lab.kills < KILLS or lab.answers < 2 * MOST_ANSWERS:
        lab.live()
    lab.end()
    print(lab.report())
    assert lab.model is not None
    assert lab.model.tally.in_doubt > 0


FLASH = tuple(value for value in BUSY if value.startswith(("nand.", "ftl.")))


def test_a_drive_without_a_battery_keeps_what_was_flushed(tmp_path: Path) -> None:
    image = tmp_path / "image"
    make_image(image, "consumer-tlc", (*FLASH, "ssd.dram=5MiB"))
    lab = Lab(serve_command(image), seed=13, volatile=True, folder=tmp_path)
    while lab.kills < KILLS // 2:
        lab.live()
    lab.end()
    print(lab.report())
    assert lab.model is not None
    assert lab.model.tally.kept < lab.model.tally.in_doubt, "a kill takes something"


def test_blocks_that_fail_take_nothing_with_them(tmp_path: Path) -> None:
    image = tmp_path / "image"
    faults = ("faults.program_failure=1%", "faults.erase_failure=5%", "faults.factory_bad=2%")
    make_image(image, "cxl", (*BUSY, *faults))
    lab = Lab(serve_command(image), seed=14, volatile=False, folder=tmp_path)
    # A life ends after few answers or many: kills alone may write too little for a fault.
    while lab.kills < KILLS // 2 or lab.answers < 8 * MOST_ANSWERS:
        lab.live()
    lab.end()
    print(lab.report())
    numbers = core.device_info(image)["statistics"]
    assert numbers["program_failures"] > 0
    assert numbers["retired_blocks"] > 0 and numbers["media_errors"] == 0


def test_a_device_that_forgets_is_found_out(tmp_path: Path) -> None:
    image, copy = tmp_path / "image", tmp_path / "copy"
    make_image(image, "cxl", BUSY)
    lab = Lab(serve_command(image), seed=12, volatile=False, folder=tmp_path)
    lab.live()
    shutil.copytree(image, copy)

    def go_back() -> None:
        shutil.rmtree(image)
        shutil.copytree(copy, image)

    lab.live(go_back)
    with pytest.raises(Wrong, match="was promised"):
        lab.live()
