"""`entresol fs record` and `fs replay`: a program, recorded on a mount and played."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import Entresol, Mounting, one_line
from file_server import without_fuse

WITHOUT = without_fuse()
pytestmark = pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}")

PROGRAM = """
import os, sys
folder = sys.argv[1]
fd = os.open(folder + "/f", os.O_RDWR | os.O_CREAT)
os.pwrite(fd, bytes(range(256)) * 64, 0)
os.fsync(fd)
for n in range(20):
    os.pwrite(fd, bytes([n] * 64), 64 * n)
    os.fsync(fd)
os.pwrite(fd, bytes(range(256)) * 16, 4096)
os.fsync(fd)
os.mkdir(folder + "/d")
os.rename(folder + "/f", folder + "/d/g")
assert not os.path.exists(folder + "/none")
os.close(fd)
"""


@pytest.fixture(name="recording")
def made_recording(entresol_command: Entresol, tmp_path: Path) -> Path:
    """Of the program."""
    made = tmp_path / "p.rec"
    program = (sys.executable, "-c", PROGRAM, "{}")
    done = entresol_command("fs", "record", "-o", made, "--", *program)
    assert done.code == 0 and done.out == f"{made}\n", done.err
    return made


def operations(recording: Path) -> list[Any]:
    """What a recording has, without its first line."""
    return [json.loads(line) for line in recording.read_text().splitlines()[1:]]


def test_what_a_program_gains_is_told_and_the_same_each_time(
    entresol_command: Entresol, recording: Path
) -> None:
    writes = [entry["op"]["write"] for entry in operations(recording) if "write" in entry["op"]]
    assert [write["size"] for write in writes] == [16384] + [64] * 20 + [4096]
    # What is written with the same bytes has the same sums.
    assert writes[0]["sums"][512:1024] == writes[-1]["sums"]
    command = ("fs", "replay", recording, "--scale", "256", "--json")
    first, second = entresol_command(*command), entresol_command(*command)
    assert first.code == 0 and first.out == second.out, first.err
    results = {result["conditions"]["personality"]: result for result in json.loads(first.out)}
    bytefs, ext4 = results["bytefs"], results["ext4-like"]
    assert ext4["gain_over_ext4_like"] == 1 and bytefs["gain_over_ext4_like"] > 1
    assert bytefs["operations"] == len(operations(recording))
    # 20 changes of one line go by bytes, the page that is written as it was by nothing at all.
    assert bytefs["synced"]["fs_pages_by_bytes"] == 21
    assert ext4["synced"]["fs_pages_by_bytes"] == 0
    assert bytefs["application_written_bytes"] == 16384 + 20 * 64 + 4096
    table = entresol_command("fs", "replay", recording, "--scale", "256").out
    assert "over ext4-like" in table and "1.00" in table


def test_a_mount_is_recorded_with_its_threads_and_what_was_there(
    entresol_command: Entresol, mount: Mounting, folder: Path, tmp_path: Path
) -> None:
    first = mount()
    (folder / "old").write_bytes(b"x" * 5000)
    (folder / "link").symlink_to("old")
    os.setxattr(folder / "old", "user.entresol.dax", b"0B-4KiB")
    first.stop()
    made = tmp_path / "threads.rec"
    second = mount("--record", str(made))

    def work(number: int) -> None:
        fd = os.open(folder / "old", os.O_RDWR)
        os.pwrite(fd, bytes([number]) * 100, 200 * number)
        os.fsync(fd)
        os.close(fd)
        (folder / f"new {number}").write_text("y")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    second.stop()
    header = json.loads(made.read_text().splitlines()[0])
    assert header["before"] == 5, "a file, its size, its contents, its wish, and a link"
    before, found = operations(made)[: header["before"]], operations(made)[header["before"] :]
    wishes = [entry["op"]["set_xattr"] for entry in before if "set_xattr" in entry["op"]]
    assert [wish["value"] for wish in wishes] == ["0B-4KiB"]
    assert len({entry["thread"] for entry in found if "write" in entry["op"]}) == 3
    for more in ((), ("--think",)):
        done = entresol_command("fs", "replay", made, "--scale", "256", *more)
        assert done.code == 0, done.err


def test_what_is_no_recording_is_one_sentence(
    entresol_command: Entresol, recording: Path, tmp_path: Path
) -> None:
    text = recording.read_text()
    lines = text.splitlines(keepends=True)
    for changed, part in (
        ("", "line 1: it is no recording"),
        ("".join(lines[:-1]), "operations follow"),
        (text.replace('"sums":"', '"sums":"zz'), "digits"),
        (text.replace('"write"', '"wriet"'), "it is no operation"),
    ):
        damaged = tmp_path / "damaged.rec"
        damaged.write_text(changed)
        done = entresol_command("fs", "replay", damaged)
        assert done.code == 2 and part in one_line(done), done.err
    done = entresol_command("fs", "replay", tmp_path / "none")
    assert done.code == 2 and "name a recording" in one_line(done)
    done = entresol_command("fs", "replay", recording, "--personality", "ext4")
    assert done.code == 2 and "unknown personality" in one_line(done)


def test_a_program_that_fails_leaves_no_recording(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    made = tmp_path / "p.rec"
    for program, code in ((("/bin/false",), 1), ((str(tmp_path / "none"),), 2)):
        done = entresol_command("fs", "record", "-o", made, "--", *program)
        assert done.code == code and done.err.count("\n") == 1
        assert list(tmp_path.iterdir()) == []


def test_an_interrupted_program_leaves_no_recording(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    made = tmp_path / "p.rec"
    code = "import os, signal, sys, time; open(sys.argv[1] + '/f', 'w').write('x'); "
    code += "os.kill(os.getppid(), signal.SIGINT); time.sleep(60)"
    done = entresol_command("fs", "record", "-o", made, "--", sys.executable, "-c", code, "{}")
    assert (done.code, done.out) == (130, "")
    assert done.err == "entresol: interrupted; nothing was written.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_leaves_a_process_is_told_so(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    made = tmp_path / "p.rec"
    program = ("sh", "-c", "exec 3>{}/file; sleep 3 & exit 0")
    done = entresol_command("fs", "record", "-o", made, "--", *program)
    assert done.code == 2 and not made.exists()
    assert "sh: has left a process that still has files of the recording open" in one_line(done)
