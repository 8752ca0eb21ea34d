"""The lab of killed mounts, two lives long, and that it sees what is lost."""

from __future__ import annotations

import random
from pathlib import Path

import mount_kill_lab
import pytest
from file_server import without_fuse
from kill_lab import Wrong
from mount_kill_lab import Worker, is_between

WITHOUT = without_fuse()


@pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}")
def test_two_kills_under_load_lose_nothing(tmp_path: Path) -> None:
    assert mount_kill_lab.run(2, 3, "bytefs", tmp_path) > 0


def test_what_was_synced_and_is_not_there_is_a_finding(tmp_path: Path) -> None:
    def worker(synced: bytes | None, there: bytes | None, *under_way: str | bytes) -> Worker:
        directory = tmp_path / f"{random.random()}"
        directory.mkdir()
        made = Worker(0, directory, random.Random(1))
        if synced is not None:
            made.sure["f"] = synced
        if there is not None:
            (directory / "f").write_bytes(there)
        if under_way:
            kind, data = under_way
            made.under_way = (str(kind), "f", bytes(data) if isinstance(data, bytes) else b"")
        return made

    worker(b"1", b"1").check()
    worker(b"1", b"12", "append", b"23").check()
    worker(b"1", None, "remove", b"").check()
    for lost in (
        worker(b"1", None),
        worker(None, b"1"),
        worker(b"1", b"2"),
        worker(b"12", b"1", "append", b"3"),
        worker(b"1", b"13", "append", b"23"),
        worker(b"1", b"", "replace", b"2"),
    ):
        with pytest.raises(Wrong, match="were synced and"):
            lost.check()


def test_an_overwrite_that_is_cut_leaves_old_or_new_lines() -> None:
    old, new = b"a" * 200, b"b" * 130
    after = new + old[130:]
    assert is_between("overwrite", old, new, old) and is_between("overwrite", old, new, after)
    assert is_between("overwrite", old, new, b"b" * 64 + old[64:])
    assert not is_between("overwrite", old, new, b"b" * 32 + old[32:])
    assert not is_between("overwrite", old, new, after[:-1])
