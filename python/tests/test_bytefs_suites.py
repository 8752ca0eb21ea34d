"""Programs of others that torment a file system, for seconds; `make posix` does so for hours."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
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
