"""Images, directories and devices that a user may not read or write: one sentence each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from file_server import reach, run
from mounted import NOBODY

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user"),
    pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="there is no FUSE"),
]


def refusal(*words: str | Path) -> str:
    """What is told to somebody without rights, on one line, with a code that says so."""
    # Who may read everything reaches the project, wherever it is; writing is not among that.
    user = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
    reads = "--inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search"
    command = (*user.split(), *reads.split(), sys.executable, "-m", "entresol", *map(str, words))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in (1, 2), done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    return line.removeprefix("entresol: ")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory of theirs, in which everything is the user's."""
    made = tmp_path / "of a user"
    made.mkdir()
    os.chown(made, NOBODY, NOBODY)
    reach(made)
    return made


def bytes_of(image: Path) -> list[tuple[str, int, bytes]]:
    """The names, ages and beginnings of an image's files."""
    files = sorted(image.iterdir())
    return [(file.name, file.stat().st_mtime_ns, file.read_bytes()[:100_000]) for file in files]


@pytest.mark.parametrize("file", ["media.bin", "dram.bin"])
@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_an_image_that_may_not_be_written_is_left_alone(
    template: Path, place: Path, file: str, mode: int
) -> None:
    image = place / "ssd"
    run("cp", "-r", "--sparse=always", template, image)
    run("chown", "-R", f"{NOBODY}:{NOBODY}", image)
    (image / file).chmod(mode)
    before = bytes_of(image)
    names = sorted(place.iterdir())
    told = f"{image / file}: cannot open it: Permission denied (os error 13); run as who may"
    for command in (("mkfs", image, "--force"), ("fsck", image), ("fsck", image, "--repair")):
        assert refusal(*command).startswith(told), command
    assert bytes_of(image) == before
    assert sorted(place.iterdir()) == names


def test_an_image_that_is_somebody_elses_is_not_replaced(template: Path, place: Path) -> None:
    image = place.parent / "roots"
    run("cp", "-r", "--sparse=always", template, image)
    told = refusal("mkfs", image, "--force")
    assert told.startswith(f"{image}/media.bin: cannot open it: Permission denied"), told
    image.chmod(0)
    assert refusal("fsck", image).endswith("is not readable.")
    told = refusal("device", "create", place.parent / "new", "--preset", "bytefs")
    assert told.startswith(f"{place.parent}/new: cannot make the directory: Permission"), told
    assert told.endswith("; run as who may read and write it, or name another place")
    assert not (place.parent / "new").exists()


def test_what_may_not_be_mounted_says_why(template: Path, place: Path) -> None:
    image = place / "ssd"
    run("cp", "-r", "--sparse=always", template, image)
    run("chown", "-R", f"{NOBODY}:{NOBODY}", image)
    theirs = place.parent / "theirs"
    theirs.mkdir()
    told = refusal("mount", image, theirs / "new")
    wanted = f"{theirs}/new: cannot be made: Permission denied; name one where you may write."
    assert told == wanted
    told = refusal("mount", image, place / "mnt", "--record", theirs / "record")
    assert told.endswith("nothing of yours can be made there; name another place."), told
    told = refusal("fs", "record", "-o", theirs / "record", "--", "true")
    assert told.endswith("a recording cannot be written there; name another with -o."), told
    if not may_others_open_fuse():
        told = refusal("mount", image, place / "mnt")
        assert told.startswith("/dev/fuse: Permission denied") and "ask who runs" in told
        assert not (place / "mnt").exists()
    elif shutil.which("fusermount3"):
        told = refusal("mount", image, theirs)
        assert told.endswith("; name a directory that you may write to"), told
    assert list(theirs.iterdir()) == []


def may_others_open_fuse() -> bool:
    """Whether users may mount on this machine."""
    return Path("/dev/fuse").stat().st_mode & 0o6 == 0o6
