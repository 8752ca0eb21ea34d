"""SQLite under small transactions: each moves an amount to an account and writes down that it did.

As TPC-B without its tellers and branches: one row of a hundred bytes changes, one is appended.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from entresol.databases.mounted_load import Did, MountedLoad
from entresol.databases.parsing import Ran
from entresol.errors import Failed

ACCOUNTS = 10_000
MODES = ("delete", "wal")
"""SQLite's journals: a file for each transaction, or one log."""
TABLES = (
    "create table account (id integer primary key, balance integer not null, filler blob not null)",
    "create table history (id integer primary key, account integer not null, amount integer)",
)
DIFFERING = (
    "select count(*) from account left join"
    " (select account, sum(amount) as moved from history group by account) as moves"
    " on moves.account = account.id where balance != coalesce(moved, 0)"
)
"""Accounts that do not have what was moved to them."""


class Sqlite(MountedLoad):
    """SQLite of Python with one of its journals, each commit of which is synced (FULL)."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self.name = f"sqlite-{mode}"
        self.operations = 2_000

    def require(self) -> None:
        """Python brings it."""

    def version(self) -> tuple[str, str]:
        return "SQLite", sqlite3.sqlite_version

    def prepare(self, folder: Path) -> None:
        with self._open(folder) as base:
            for table in TABLES:
                base.execute(table)
            base.execute("begin")
            rows = ((number,) for number in range(ACCOUNTS))
            base.executemany("insert into account values (?, 0, zeroblob(100))", rows)
            base.execute("commit")

    def run(self, folder: Path, operations: int) -> Did:
        chosen = random.Random(7)
        moves = [
            (chosen.randrange(-99, 100), chosen.randrange(ACCOUNTS)) for _ in range(operations)
        ]
        with self._open(folder) as base:
            begun = time.perf_counter()
            for move in moves:
                base.execute("begin immediate")
                base.execute("update account set balance = balance + ? where id = ?", move)
                base.execute("insert into history (amount, account) values (?, ?)", move)
                base.execute("commit")
            seconds = time.perf_counter() - begun
        return Did(Ran(operations, seconds), operations)

    def verify(self, folder: Path, did: Did) -> None:
        with self._open(folder) as base:
            said = base.execute("pragma integrity_check").fetchone()[0]
            rows = base.execute("select count(*) from history").fetchone()[0]
            differing = base.execute(DIFFERING).fetchone()[0]
        if said != "ok":
            raise Failed(f"{self.name}: integrity_check says {said}.")
        if rows != did.writes:
            raise Failed(f"{self.name}: {rows} of {did.writes} answered transactions are there.")
        if differing:
            raise Failed(f"{self.name}: {differing} accounts have not what was moved to them.")

    @contextmanager
    def _open(self, folder: Path) -> Iterator[sqlite3.Connection]:
        path = folder / f"{self.name}.db"
        try:
            with closing(sqlite3.connect(path, isolation_level=None)) as base:
                mode = base.execute(f"pragma journal_mode = {self._mode}").fetchone()[0]
                if mode != self._mode:
                    raise Failed(f"{self.name}: SQLite keeps the journal mode {mode}.")
                base.execute("pragma synchronous = full")
                yield base
        except sqlite3.Error as error:
            raise Failed(f"{self.name}: SQLite says: {error}.") from None
