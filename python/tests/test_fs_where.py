"""`entresol fs stat`, `map` and `why-fsync`: where bytes are, and where an fsync's time goes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import Entresol, Mounting, one_line
from file_server import without_fuse

from entresol.cli import fs_why
from entresol.figures.parts import Row, draw

WITHOUT = without_fuse()
needs_fuse = pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}")

PAGE = 4096


def mapped(call: Entresol, file: Path) -> Any:
    """What `fs map --json` says."""
    done = call("fs", "map", file, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def sums(where: Any, key: str) -> int:
    """Over all extents."""
    return sum(extent[key] for extent in where["extents"])


@needs_fuse
def test_bytes_are_found_in_the_memories_that_have_them(
    entresol_command: Entresol, mount: Mounting, folder: Path
) -> None:
    mount()
    file = folder / "f"
    fd = os.open(file, os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, os.urandom(16 * PAGE), 0)
    before = mapped(entresol_command, file)
    assert before["host_pages"] == before["host_dirty_pages"] == 16 and before["extents"] == []
    os.fsync(fd)
    synced = mapped(entresol_command, file)
    assert (synced["host_pages"], synced["host_dirty_pages"]) == (16, 0)
    assert sums(synced, "count") == 16 and sums(synced, "log_lines") == 0
    # One line of a page goes by bytes, into the log, and stays there for a while.
    os.pwrite(fd, b"x" * 64, 5 * PAGE)
    os.fsync(fd)
    assert sums(mapped(entresol_command, file), "log_lines") == 1
    told = entresol_command("fs", "stat", file).out
    assert "1 line of 64 B" in told and "16 pages, 0 dirty" in told
    table = entresol_command("fs", "map", file).out
    assert "log lines" in table and "cached" in table and "flash" in table
    os.close(fd)


@needs_fuse
@pytest.mark.parametrize("pace", ["none", "real"])
def test_the_parts_of_an_fsync_make_the_whole(
    entresol_command: Entresol, mount: Mounting, folder: Path, tmp_path: Path, pace: str
) -> None:
    mount("--pace", pace)
    file = folder / "f"
    fd = os.open(file, os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, os.urandom(8 * PAGE), 0)
    done = entresol_command("fs", "why-fsync", file, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    parts = {part["name"]: part["time_ps"] for part in told["parts"]}
    assert list(parts) == ["FUSE", "file system", "link", "waiting", "log", "flash"]
    assert sum(parts.values()) == told["whole_ps"]
    assert parts["FUSE"] > 0 and parts["link"] > 0
    # It was done: nothing is dirty any more, and the next one moves nothing.
    assert mapped(entresol_command, file)["host_dirty_pages"] == 0
    again = entresol_command("fs", "why-fsync", file)
    assert again.code == 0 and "fsync of" in again.out and "FUSE" in again.out
    assert again.out.endswith("The device was asked for nothing: all of it was there already.\n")
    for name in ("why.svg", "why.pdf"):
        os.pwrite(fd, os.urandom(PAGE), 0)
        drawn = entresol_command("fs", "why-fsync", file, "-o", tmp_path / name)
        assert drawn.code == 0 and "FUSE" in drawn.out, drawn.err
    assert (tmp_path / "why.svg").read_text().rstrip().endswith("</svg>")
    assert (tmp_path / "why.pdf").read_bytes().startswith(b"%PDF")
    for name, part in (("why.bmp", "is no picture"), ("no/why.svg", "directory is not there")):
        assert part in one_line(entresol_command("fs", "why-fsync", file, "-o", tmp_path / name))
    os.close(fd)
    refused = entresol_command("fs", "why-fsync", folder / ".entresol" / "stats")
    assert "the server's own" in one_line(refused)


def test_a_picture_has_a_bar_for_each_part_as_long_as_its_time() -> None:
    times = {"FUSE": 30_000_000, "link": 5_000_000, "flash": 65_000_000, "log": 0}
    rows = [Row(name, time, "wall" if name == "FUSE" else "device") for name, time in times.items()]
    (axes,) = draw("fsync of a<b", rows).axes
    lengths = [patch.get_width() for bars in axes.containers for patch in bars]
    assert lengths == [30.0, 5.0, 65.0, 0.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(times)
    notes = [text.get_text().strip() for text in axes.texts]
    assert notes[0].endswith("30\xa0%") and notes[2].endswith("65\xa0%"), notes
    assert axes.get_title(loc="left") == "fsync of a<b"
    assert axes.get_xlim()[1] > 65.0 and axes.yaxis_inverted()
    assert draw("nothing", []).axes[0].get_xlim()[1] > 0


def test_a_name_with_signs_of_formulas_or_no_text_is_drawn(tmp_path: Path) -> None:
    file = Path(os.fsdecode(b"a$b^$\xff"))
    title = f"fsync of {fs_why.shown(file)}"
    assert title == "fsync of a$b^$\ufffd"
    fs_why._draw(tmp_path / "why.svg", title, [fs_why.Part("flash", 5, "")])
    assert (tmp_path / "why.svg").read_text().startswith("<?xml")


def test_the_device_has_what_its_clock_says_whatever_its_operations_add_up_to() -> None:
    account = {"took_ps": 1001, "waiting_ps": 3, "memory_ps": 0, "flash_ps": 5000, "link_ps": 900}
    told = {"server_ns": 10, "device_code_ns": 4, "device": account}
    parts = {part.name: part.time_ps for part in fs_why.split(told, 25_000, is_paced=False)}
    assert parts["FUSE"] == 15_000 and parts["file system"] == 6_000
    assert sum(parts.values()) == 15_000 + 6_000 + 1001
    assert parts["flash"] > parts["link"] > parts["waiting"] == 0 == parts["log"]
    # A server that waits has spent the device's time on the wall.
    paced = {part.name: part.time_ps for part in fs_why.split(told, 25_000, is_paced=True)}
    assert paced["file system"] == 10_000 - 1001 and sum(paced.values()) == 25_000
    idle = dict.fromkeys(account, 0)
    none = fs_why.split({**told, "device": idle}, 25_000, is_paced=False)
    assert [part.name for part in none] == ["FUSE", "file system"]
