"""`entresol mount` by somebody who is not root: mounting and unmounting go through fusermount3."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from file_server import reach, run, without_fuse
from mounted import NOBODY

WITHOUT = without_fuse()
pytestmark = [
    pytest.mark.skipif(WITHOUT is not None, reason=f"FUSE: {WITHOUT}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="all tests of mounts are those of a user then"),
    pytest.mark.skipif(shutil.which("fusermount3") is None, reason="no fusermount3"),
]

LIFE = """
import os, select, signal, subprocess, sys
from entresol import mounts
from pathlib import Path

def entresol(*words):
    command = (sys.executable, "-m", "entresol", *words)
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.returncode, done.stdout + done.stderr)
    return done.returncode

os.chdir(sys.argv[1])
folder = Path("mnt")
entresol("mkfs", "ssd", "--force")
entresol("mount", "ssd", "mnt", "--daemon")
fd = os.open("mnt/f", os.O_CREAT | os.O_WRONLY)
os.write(fd, b"kept")
os.fsync(fd)
print("owner", os.stat("mnt/f").st_uid)
entresol("umount", "mnt")
os.close(fd)
for word in ("mount", "umount"):
    pid = mounts.at(folder.resolve()).stats()["server_pid"]
    end = os.pidfd_open(pid)
    # The kernel remembers the directory's attributes when its server has gone.
    os.stat("mnt")
    os.kill(pid, signal.SIGKILL)
    poll = select.poll(); poll.register(end, select.POLLIN); poll.poll(60_000)
    words = ("mount", "ssd", "mnt", "--daemon") if word == "mount" else ("umount", "mnt")
    entresol(*words)
    if word == "mount":
        print("again", Path("mnt/f").read_text())
print("left", os.path.ismount("mnt"))
entresol("mount", "ssd", "mnt", "--daemon", "-o", "suid")
"""


def test_a_user_mounts_unmounts_and_mends(template: Path, tmp_path: Path) -> None:
    place = tmp_path / "user"
    place.mkdir()
    run("cp", "-r", "--sparse=always", template, place / "ssd")
    run("chown", "-R", f"{NOBODY}:{NOBODY}", place)
    reach(place)
    (tmp_path / "life.py").write_text(LIFE)
    # Here a user may open the kernel's device, as on most machines, whatever this one says; and
    # reach the project, which may be root's alone. Mounting is not among that.
    fuse = tmp_path / "fuse"
    os.mknod(fuse, 0o020666, os.makedev(10, 229))
    fuse.chmod(0o666)
    user = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
    through = "--inh-caps=-all,+dac_override --ambient-caps=-all,+dac_override"
    script = f'mount --bind "$1" /dev/fuse && exec {user} {through} "$2" "$3" "$4"'
    words = ("sh", "-c", script, "sh", fuse, sys.executable, tmp_path / "life.py", place)
    done = subprocess.run(
        ("unshare", "--mount", *map(str, words)),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    told = [line for line in done.stdout.splitlines() if line]
    mended = f"{place}/mnt: a killed server's mount is taken away"
    begins = [
        "0 ssd",
        "bytefs on",
        "0 ssd: mounted at",
        f"owner {NOBODY}",
        "2 entresol: ",
        "0 ssd: mounted at",
        "again kept",
        f"0 {mended}",
        "left False",
        "2 entresol: -o suid: is for root; leave it out.",
    ]
    assert [line[: len(begin)] for line, begin in zip(told, begins, strict=True)] == begins, said
    assert "for programs of this user" in told[2] and "is in use" in told[4], said
