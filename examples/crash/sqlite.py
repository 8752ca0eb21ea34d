"""A program of SQLite's and its checker, for `entresol crash app`.

    entresol crash app --check 'python3 examples/crash/sqlite.py check {}' -- \\
        python3 examples/crash/sqlite.py run {}

`run DIRECTORY` commits numbers one after the other and says on its output which ones are committed.
`check DIRECTORY` is called for what a power cut has left: the file ENTRESOL_ACKNOWLEDGED has what
`run` had said until then.

With `--synchronous full`, SQLite's default, the cut right behind a commit takes that commit back:
the rollback journal's removal is not synced, as SQLite's documentation of `synchronous` says.
`extra`, which is left out here, syncs the directory too, and everything that was said stays.
"""

import argparse
import os
import sqlite3
import sys
from pathlib import Path

NAME = "numbers.db"


def run(directory: Path, count: int, synchronous: str) -> None:
    """Commits the numbers from 1 on."""
    base = sqlite3.connect(directory / NAME, isolation_level=None)
    base.execute(f"pragma synchronous = {synchronous}")
    base.execute("create table numbers (number integer primary key, square integer)")
    for number in range(1, count + 1):
        base.execute("begin immediate")
        base.execute("insert into numbers values (?, ?)", (number, number * number))
        base.execute("commit")
        print(number, flush=True)
    base.close()


def check(directory: Path) -> str | None:
    """What is wrong, if something is."""
    acknowledged = Path(os.environ["ENTRESOL_ACKNOWLEDGED"]).read_text().split()
    least = int(acknowledged[-1]) if acknowledged else 0
    found: list[int] = []
    if (directory / NAME).exists():
        base = sqlite3.connect(directory / NAME)
        (answer,) = base.execute("pragma integrity_check").fetchone()
        if answer != "ok":
            return f"integrity_check says: {answer}"
        if base.execute("select * from sqlite_master").fetchall():
            found = [n for (n,) in base.execute("select number from numbers order by number")]
        base.close()
    if found != list(range(1, len(found) + 1)):
        return f"there are {found}"
    if not least <= len(found) <= least + 1:
        return f"{least} was committed, and there are numbers up to {len(found)}"
    return None


def main() -> None:
    """Reads the words."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("run", "check"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--synchronous", choices=("normal", "full", "extra"), default="extra")
    told = parser.parse_args()
    if told.what == "run":
        run(told.directory, told.count, told.synchronous)
    elif (wrong := check(told.directory)) is not None:
        sys.exit(wrong)


main()
