"""`mount` as xfstests calls it, for file systems of type `fuse.entresol`; all else is the system's.

`mount -t fuse.entresol -o OPTIONS entresol:IMAGE DIR` mounts an image of ours. A server that was
unmounted a moment ago may still have the image: it is waited for. `remount` is the kernel's alone,
without the helper that `mount` looks for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

KIND = "fuse.entresol"
PATIENCE = 60
"""Seconds that a server may take to write what it has."""
KNOWN = ("allow_other", "dev", "suid", "ro", "writeback")
FAILED = 32
"""What `mount` ends with when nothing was mounted."""


def split(words: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Type, options, and what is neither."""
    kind, options, rest = "", [], []
    left = list(words)
    while left:
        word = left.pop(0)
        if word in ("-t", "-o") and left:
            word += left.pop(0)
        if word.startswith("-t"):
            kind = word[2:].strip()
        elif word.startswith("-o"):
            options += word[2:].strip().split(",")
        else:
            rest.append(word)
    return kind, options, rest


def known(options: Sequence[str]) -> list[str]:
    """Options that the command has; of two that contradict each other the last one counts."""
    kept: list[str] = []
    for option in options:
        if option in KNOWN and option not in kept:
            kept.append(option)
        elif option.removeprefix("no") in kept:
            kept.remove(option.removeprefix("no"))
    return kept


def instead_of_this(*words: str) -> NoReturn:
    """The system's own program."""
    path = next(path for path in ("/bin/mount", "/usr/bin/mount") if os.access(path, os.X_OK))
    os.execv(path, ["mount", *words])


def main() -> int:
    """Mounts; the exit code is that of `mount`."""
    kind, options, rest = split(sys.argv[1:])
    if kind != KIND or len(rest) < 2:
        instead_of_this(*sys.argv[1:])
    if "remount" in options:
        way = "ro" if "ro" in options else "rw"
        instead_of_this("-i", "-o", f"remount,{way}", rest[-1])
    image, folder = rest[-2].removeprefix("entresol:"), rest[-1]
    ours = ",".join(known(options))
    words = [sys.executable, "-m", "entresol", "mount", image, folder, "--daemon"]
    words += ["-o", ours] if ours else []
    deadline = time.monotonic() + PATIENCE
    while True:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        is_held = "is open in another process" in done.stderr
        if done.returncode == 0 or not is_held or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    sys.stderr.write(done.stderr)
    return FAILED if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
