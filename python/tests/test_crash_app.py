"""`entresol crash app`: power cuts under programs, and what their checkers hear of it."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Entresol, one_line
from file_server import without_fuse

from entresol import cloning

WITHOUT = without_fuse()
pytestmark = pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}")

EXAMPLES = Path(__file__).parents[2] / "examples" / "crash"
SMALL = ("--scale", "512")
LOSES = ("run", "--count", "1", "--synchronous", "full")
"""SQLite as its default is: what removes the rollback journal is not synced."""


def words(example: str, *run: str) -> tuple[list[str], str]:
    """The words of a run of an example and of its checker."""
    file = str(EXAMPLES / f"{example}.py")
    return [sys.executable, file, *run, "{}"], f"{sys.executable} '{file}' check {{}}"


def crash(call: Entresol, example: str, run: tuple[str, ...], *more: str | Path) -> Any:
    """What `crash app --json` says, and its exit code."""
    program, check = words(example, *run)
    size = () if "--image" in more else SMALL
    done = call("crash", "app", "--check", check, *size, *more, "--json", "--", *program)
    assert done.code in (0, 1), done.err
    return done.code, json.loads(done.out)


def test_sqlite_is_sound_behind_cuts_by_chance(entresol_command: Entresol) -> None:
    run = ("run", "--count", "2")
    code, told = crash(entresol_command, "sqlite", run, "--cuts", "12", "--samples", "4")
    assert code == 0 and told["failures"] == []
    assert told["cuts_judged"] == 12 and told["cuts_left_out"] == told["cuts"] - 12 > 0
    assert told["device_operations"] >= told["cuts"] - 1
    assert told["states"] > 0 and told["syncs"] >= 2
    assert told["output_bytes"] == len("1\n2\n")


@pytest.mark.parametrize("run", ["append", "rename"])
def test_who_forgets_to_sync_is_found_out_and_who_syncs_is_not(
    entresol_command: Entresol, tmp_path: Path, run: str
) -> None:
    kept = tmp_path / "kept"
    code, told = crash(entresol_command, "naive", (run,), "--keep", kept)
    assert code == 1
    # Before any of it reached the device all of it was said to be done.
    first = told["failures"][0]
    assert first["acknowledged"] == "1\n2\n3\n4\n" and first["synced"] is None
    assert "was said to be done" in first["why"] and "there is ''" in first["why"]
    place = Path(first["kept"])
    assert (place / "acknowledged").read_text() == "1\n2\n3\n4\n"
    assert entresol_command("fsck", place / "image").code == 0
    assert len(list(kept.iterdir())) == len(told["failures"])


def test_who_syncs_is_sound_at_every_cut(entresol_command: Entresol) -> None:
    code, told = crash(entresol_command, "naive", ("append", "--sync"), "--samples", "4")
    assert code == 0 and told["cuts_left_out"] == 0
    # Eight syncs, each of which makes something durable that was not.
    assert told["syncs"] == 8 and told["states"] > 8


def test_a_copy_of_an_image_is_tried_and_the_image_stays(
    entresol_command: Entresol, ssd: Path
) -> None:
    before = [(ssd / name).read_bytes() for name in cloning.FILES]
    code, told = crash(
        entresol_command, "naive", ("append", "--sync"), "--image", ssd, "--cuts", "3"
    )
    assert code == 0 and told["cuts_judged"] == 3 and told["syncs"] == 8
    assert [(ssd / name).read_bytes() for name in cloning.FILES] == before


def test_one_cut_alone_is_that_of_the_whole(entresol_command: Entresol) -> None:
    whole = crash(entresol_command, "sqlite", LOSES, "--samples", "4")[1]["failures"]
    last = whole[-1]
    at = f"{last['operation']}.{last['try']}"
    code, told = crash(entresol_command, "sqlite", LOSES, "--at", at)
    assert code == 1 and told["cuts_judged"] == 1 and told["tries"] == 1
    assert [(f["why"], f["synced"]) for f in told["failures"]] == [(last["why"], last["synced"])]
    assert "was committed, and there are numbers up to" in last["why"]


def test_what_cannot_be_tried_is_one_sentence(entresol_command: Entresol, tmp_path: Path) -> None:
    program, check = words("naive", "append")
    for more, part in (
        (("--check", check, "--", "/bin/true"), "changed nothing in the file system"),
        (("--check", check, "--", "/bin/false"), "ended with exit code 1"),
        (("--check", check, "--", str(tmp_path / "none")), "No such file"),
        (("--check", "'", "--", *program), "close what is quoted"),
        (("--check", "", "--", *program), "names no program"),
        (("--check", check, "--at", "x", "--", *program), "--at x: is no cut"),
        (("--check", check, "--keep", tmp_path, "--", *program), "is there already"),
        (("--check", check, "--image", tmp_path, "--", *program), "--scale: is of a new device"),
        (("--check", check, "--personality", "fat", "--", *program), "fat"),
    ):
        done = entresol_command("crash", "app", *SMALL, *more)
        assert done.code == 2 and part in one_line(done), done.err
    done = entresol_command("crash", "app", *SMALL, "--check", "/bin/false", "--", *program)
    assert done.code == 1 and "without any power cut" in done.err


def test_what_was_found_is_told_when_it_is_interrupted(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    program, _ = words("naive", "append")
    judged = tmp_path / "judged"
    # The first state behind a cut is not sound, and at the next one somebody presses Ctrl-C.
    check = tmp_path / "check"
    check.write_text(
        f"""#!/bin/sh
test -n "$ENTRESOL_OPERATION" || exit 0
test ! -e {judged} || {{ kill -INT $PPID; exit 0; }}
touch {judged}
exit 1
"""
    )
    check.chmod(0o755)
    # Whoever has started the tests in the background has it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = entresol_command("crash", "app", "--check", check, *SMALL, "--", *program)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.code == 130 and done.out == ""
    assert "the check ends with 1" in done.err
    assert "tries: 1 of" in done.err and "are not sound" in done.err
