"""Programs of others that torment a file system, for seconds; `make posix` does so for hours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import posix_mount
import posix_suites
import pytest
from file_server import without_fuse
from posix_suites import Absent, Lab, Outcome

WITHOUT = without_fuse()
needs_fuse = pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}")

FSX = Path(sys.executable).parent / "fsx"
"""The crate fsx, which `scripts/setup test` installs."""
OPERATIONS = 4_000
MIXED = """
[weights]
close_open = 1
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 3
punch_hole = 5
sendfile = 3
posix_fadvise = 2
copy_file_range = 5
mapread = {mapped}
mapwrite = {mapped}
read = 10
write = 10
"""


@needs_fuse
@pytest.mark.parametrize("mapped", [0, 10])
def test_random_operations_of_fsx_are_right(here: Path, tmp_path: Path, mapped: int) -> None:
    config = tmp_path / "fsx.toml"
    config.write_text(MIXED.format(mapped=mapped))
    words = (FSX, "-f", config, "-S", "15", "-N", OPERATIONS, "-P", tmp_path, here / "file")
    done = subprocess.run(
        tuple(map(str, words)), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All operations completed A-OK!" in done.stdout


@needs_fuse
@pytest.mark.skipif(shutil.which("stress-ng") is None, reason="no stress-ng")
def test_stressors_of_many_system_calls_find_nothing_wrong(here: Path, tmp_path: Path) -> None:
    # Each ends with its amount of work. An option for the amount is of the stressor before it.
    amounts = {
        "access": 50,
        "aio": 500,
        "chmod": 100,
        "fallocate": 30,
        "fcntl": 500,
        "flock": 500,
        "getdent": 500,
        "hdd": 50,
        "lockf": 500,
        "open": 500,
        "rename": 500,
        "seek": 200,
        "splice": 500,
        "utime": 500,
        "xattr": 1,
    }
    work = [
        word
        for name, count in amounts.items()
        for word in (f"--{name}", "1", f"--{name}-ops", str(count))
    ]
    sizes = ("--hdd-bytes", "2M", "--fallocate-bytes", "2M", "--seek-size", "1M")
    more = ("--verify", "--metrics-brief", "--timeout", "200")
    words = ("stress-ng", "--temp-path", str(here), *work, *sizes, *more)
    # It leaves files in its working directory too.
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "successful run completed" in said, said
    assert "finished prematurely" not in said and "aborted" not in said, said
    for name, count in amounts.items():
        # Not more by much: one that goes on past its amount would go on for ever.
        (finished,) = re.findall(rf"metrc: \[\d+\] {name} +(\d+) ", said)
        assert count <= int(finished) <= 2 * count, said
    assert list(here.iterdir()) == []


@needs_fuse
@pytest.mark.skipif(find_spec("test.test_os") is None, reason="no tests of Python's own")
def test_pythons_own_tests_of_files_pass(here: Path) -> None:
    words = (sys.executable, "-m", "test", "--tempdir", str(here))
    said = _run(here, *words, "test_os", "test_shutil", "test_mmap")
    assert "Result: SUCCESS" in said or "All 3 tests OK" in said, said


@needs_fuse
@pytest.mark.skipif(shutil.which("fio") is None, reason="no fio")
@pytest.mark.parametrize(
    "how",
    [
        ("--rw=randwrite", "--bs=4k"),
        ("--rw=randwrite", "--bs=512", "--direct=1", "--size=1m"),
        ("--rw=randwrite", "--bs=3000", "--fdatasync=8"),
        ("--rw=randwrite", "--bs=4k", "--ioengine=mmap"),
    ],
)
def test_fio_reads_what_it_has_written(here: Path, how: tuple[str, ...]) -> None:
    job = ("--name=job", "--directory=.", "--size=8m", "--numjobs=2", "--randseed=7", *how)
    said = _run(here, "fio", *job, "--verify=crc32c", "--do_verify=1", "--verify_fatal=1")
    assert said.count("err= 0") == 2, said


MADE = '#include <stdio.h>\nint part(void);\nint main(void) { printf("%d\\n", part()); }\n'
RULES = "all: main.o part.o\n\t$(CC) -o program main.o part.o\n"


@needs_fuse
@pytest.mark.skipif(
    not all(map(shutil.which, ("git", "cc", "make"))), reason="not all of git, cc and make"
)
def test_a_program_is_cloned_and_built(here: Path) -> None:
    origin, clone = here / "origin", here / "clone"
    origin.mkdir()
    files = {"main.c": MADE, "part.c": "int part(void) { return 42; }\n", "Makefile": RULES}
    for name, text in files.items():
        (origin / name).write_text(text)
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
    _run(origin, "git", "init", "--quiet")
    _run(origin, "git", "add", ".")
    _run(origin, "git", *who, "commit", "--quiet", "--message=all")
    _run(here, "git", "clone", "--quiet", "--no-hardlinks", origin, clone)
    _run(clone, "make", "--silent")
    assert _run(clone, clone / "program") == "42\n"
    _run(clone, "git", "fsck", "--strict")
    assert _run(clone, "git", "status", "--porcelain", "--untracked-files=no") == ""


def _run(place: Path, *words: str | Path) -> str:
    """What a command says that must succeed."""
    done = subprocess.run(
        tuple(map(str, words)),
        cwd=place,
        env={**os.environ, "TMPDIR": str(place), "HOME": str(place)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_suites_that_are_not_there_are_skipped_with_what_is_missing(tmp_path: Path) -> None:
    lab = Lab(tmp_path, tmp_path, 1, 1, ())
    for suite in posix_suites.SUITES.values():
        with pytest.raises(Absent, match=r"is not checked out: there is no /"):
            suite(lab)
    for checkout in ("pjdfstest", "xfstests"):
        (tmp_path / checkout).mkdir()
    for suite in posix_suites.SUITES.values():
        with pytest.raises(Absent, match=r"is not built: there is no /"):
            suite(lab)


def test_the_log_names_commits_failures_and_what_was_skipped() -> None:
    good = Outcome("fsx, mmap", "abc of 2026-01-01", "fsx -N 9", True, "A-OK", 3.2)
    bad = Outcome("xfstests", "def of 2026-01-01", "check", False, "9 | 1", 60, ["generic/001"])
    page = posix_suites.log([good, bad], ["pjdfstest: /s/pjdfstest is not checked out"])
    assert "| fsx, mmap | abc of 2026-01-01 | `fsx -N 9` | passed: A-OK | 3 s |" in page
    assert "| **failed**: 9 \\| 1; failed: generic/001 | 60 s |" in page
    assert "- pjdfstest: /s/pjdfstest is not checked out" in page


def test_what_xfstests_asks_of_mount_is_understood() -> None:
    asked = ["-t", "fuse.entresol", "-oallow_other,dev", "-o", "ro", "entresol:/a b", "/mnt"]
    kind, options, rest = posix_mount.split(asked)
    assert (kind, options) == ("fuse.entresol", ["allow_other", "dev", "ro"])
    assert rest == ["entresol:/a b", "/mnt"]
    asked = ["allow_other", "suid", "rw", "nosuid", "ro", "suid", "dev", "nodev"]
    assert posix_mount.known(asked) == ["allow_other", "ro", "suid"], "the last one counts"
