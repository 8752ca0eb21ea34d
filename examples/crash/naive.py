"""Programs that forget to sync, and their checker, for `entresol crash app`.

    entresol crash app --check 'python3 examples/crash/naive.py check {}' -- \\
        python3 examples/crash/naive.py append {}

`append` adds lines to a file, `rename` replaces a file by a newer one; both say on their output
what is done, and are found out: a power cut takes it back. With `--sync` they wait until the file,
and the directory that names it, survive, and are sound.
"""

import argparse
import os
import sys
from pathlib import Path

COUNT = 4


def synced(path: Path) -> None:
    """Waits until a file or a directory survives a power cut."""
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


def append(directory: Path, sync: bool) -> None:
    """Adds lines to a file."""
    with (directory / "log").open("a") as log:
        for number in range(1, COUNT + 1):
            log.write(f"{number}\n")
            log.flush()
            if sync:
                os.fsync(log.fileno())
                synced(directory)
            print(number, flush=True)


def rename(directory: Path, sync: bool) -> None:
    """Replaces a file by a newer one."""
    for number in range(1, COUNT + 1):
        new = directory / "new"
        new.write_text("".join(f"{n}\n" for n in range(1, number + 1)))
        if sync:
            synced(new)
        new.rename(directory / "log")
        if sync:
            synced(directory)
        print(number, flush=True)


def check(directory: Path) -> str | None:
    """What is wrong, if something is."""
    acknowledged = Path(os.environ["ENTRESOL_ACKNOWLEDGED"]).read_text().split()
    log = directory / "log"
    found = log.read_text().split() if log.exists() else []
    if found[: len(acknowledged)] != acknowledged:
        return f"{' '.join(acknowledged)} was said to be done, and there is {' '.join(found)!r}"
    return None


def main() -> None:
    """Reads the words."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("append", "rename", "check"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--sync", action="store_true")
    told = parser.parse_args()
    if told.what == "check":
        if (wrong := check(told.directory)) is not None:
            sys.exit(wrong)
    else:
        {"append": append, "rename": rename}[told.what](told.directory, told.sync)


main()
