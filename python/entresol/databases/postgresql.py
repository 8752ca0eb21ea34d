"""PostgreSQL: transactions of pgbench, each durable once its part of the log (WAL) is.

The server refuses to run as root; root runs it as another user.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from entresol.databases.cases import POSTGRESQL, Case
from entresol.databases.database import (
    BEGIN,
    END,
    SET_UP,
    START,
    Ask,
    Database,
    Mark,
    as_user,
    end,
    last_words,
    later,
    output,
)
from entresol.databases.parsing import Ran, pgbench, version
from entresol.errors import Failed, UserError

INSTALLED = Path("/usr/lib/postgresql")
"""Where Debian has the programs of each version."""
SETTINGS = {
    "fdatasync": ("wal_sync_method=fdatasync",),
    "fsync": ("wal_sync_method=fsync",),
    "fsync=off": ("fsync=off",),
}
NAME = "bench"
NOBODYS = ("postgres", "nobody")
_TOTALS = """select (select count(*) from pgbench_history),
 (select coalesce(sum(delta), 0) from pgbench_history),
 (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers),
 (select sum(bbalance) from pgbench_branches)"""


class PostgreSql(Database):
    """A cluster for each scale, made once, of which each run has a copy."""

    name = POSTGRESQL
    prepares = True

    def __init__(self, work: Path) -> None:
        super().__init__(work)
        self._user = _somebody() if os.geteuid() == 0 else None
        self._sockets = work / "sockets"

    def require(self) -> None:
        _programs()

    def versions(self) -> dict[str, str]:
        return {"server": version(output((_programs() / "postgres", "--version")))}

    def _cluster(self, folder: Path, scale: int) -> Path:
        return folder / f"postgresql-{scale}"

    def prepare(self, folder: Path, cases: Sequence[Case]) -> None:
        """Clusters are made once, beside the drives: each drive gets copies."""
        for scale in sorted({case.scale for case in cases}):
            made = self._cluster(self.work, scale)
            if not made.exists():
                self._make(made, scale)
            output(("cp", "-a", made, self._cluster(folder, scale)))

    def _make(self, data: Path, scale: int) -> None:
        data.mkdir(mode=0o700)
        self._give(data)
        self._output("initdb", "-D", data, "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        with self._server(data, ("fsync=off",)) as server:
            self._output("createdb", *server.words, NAME)
            self._output("pgbench", *server.words, "-i", "-q", "-s", str(scale), NAME)

    def _give(self, path: Path) -> None:
        if self._user is not None:
            shutil.chown(path, self._user)

    def _output(self, name: str, *words: str | Path) -> str:
        return output((_programs() / name, *words), user=self._user)

    @contextmanager
    def _server(self, data: Path, settings: Sequence[str]) -> Iterator[_Server]:
        """Starts one, and ends it in order."""
        server = self._started(data, settings)
        try:
            yield server
        except BaseException:
            server.stop(signal.SIGQUIT)
            raise
        server.stop(signal.SIGINT)

    def _started(self, data: Path, settings: Sequence[str]) -> _Server:
        self._sockets.mkdir(exist_ok=True)
        self._give(self._sockets)
        server = _Server(data, self._sockets, self.work / "postgresql.log", settings, self._user)
        deadline = time.monotonic() + START
        while True:
            try:
                self._output("pg_isready", "-q", *server.words)
            except Failed:
                if server.has_ended() or time.monotonic() > deadline:
                    server.stop(signal.SIGQUIT)
                    raise Failed(
                        f"postgres does not start; it says: {last_words(server.log)}"
                    ) from None
                time.sleep(0.05)
            else:
                return server

    def _ask_for_logs(self, folder: Path, case: Case, ask: Ask) -> None:
        # Those that there are: new ones are old ones under another name, mostly.
        for log in (self._cluster(folder, case.scale) / "pg_wal").iterdir():
            if log.is_file():
                ask(log)

    def run(self, folder: Path, case: Case, mark: Mark, ask: Ask) -> tuple[Ran, object]:
        self._ask_for_logs(folder, case, ask)
        server = self._started(self._cluster(folder, case.scale), SETTINGS[case.variant])
        try:
            mark(BEGIN)
            said = self._output(
                "pgbench", *server.words, "-n", "-T", str(case.operations), "-c",
                str(case.clients), "-j", "1", NAME,
            )  # fmt: skip
            mark(END)
        finally:
            # As a crash of the server would, so that what is found later comes from its log.
            server.stop(signal.SIGQUIT)
        return pgbench(said), None

    def verify(self, folder: Path, case: Case, ran: Ran, evidence: object) -> None:
        del evidence
        with self._server(self._cluster(folder, case.scale), ("fsync=off",)) as server:
            row = self._output("psql", *server.words, "-XqtA", "-c", _TOTALS, NAME)
        check_totals(row, ran.operations)

    def strike(self, folder: Path, case: Case, kill: Callable[[], None], ask: Ask) -> int:
        self._ask_for_logs(folder, case, ask)
        server = self._started(self._cluster(folder, case.scale), SETTINGS[case.variant])
        words = ("psql", *server.words, "-XqtA", NAME)
        self._output(*words, "-c", "create table answered (n integer primary key)")
        timer = later(kill)
        client = subprocess.Popen(
            [str(_programs() / words[0]), *words[1:]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
            text=True, **as_user(self._user),
        )  # fmt: skip
        assert client.stdin is not None and client.stdout is not None, "they are pipes"
        threading.Thread(target=_insert_on, args=(client.stdin,), daemon=True).start()
        answered = sum(1 for line in client.stdout if line.strip().isdecimal())
        timer.join()
        client.wait(START)
        server.stop(signal.SIGQUIT)
        return answered

    def survived(self, folder: Path, case: Case, answered: int) -> int:
        with self._server(self._cluster(folder, case.scale), ("fsync=off",)) as server:
            words = ("psql", *server.words, "-XqtA", NAME)
            asked = "select count(*), coalesce(max(n), -1) from answered"
            row = self._output(*words, "-c", asked).strip()
        count, last = (int(word) for word in row.split("|"))
        if count < answered or last + 1 != count:
            raise Failed(f"PostgreSQL: {answered} commits were answered, {count} are there.")
        return count


def check_totals(row: str, processed: int) -> None:
    """What TPC-B keeps: balances of accounts, tellers and branches are what history adds up to,
    which has as many rows as transactions were answered. Raises `Failed`."""
    if not re.fullmatch(r"-?\d+(\|-?\d+){4}", row.strip()):
        raise Failed(f"PostgreSQL: says no balances, but: {row.strip()[:200]}")
    count, *totals = (int(word) for word in row.strip().split("|"))
    if count != processed:
        raise Failed(f"PostgreSQL: {processed} transactions were answered, {count} are there.")
    if len(set(totals)) != 1:
        raise Failed(f"PostgreSQL: the balances do not agree: {', '.join(map(str, totals))}.")


def _insert_on(to: IO[str]) -> None:
    """Inserts numbers, each a transaction, until nobody listens."""
    number = 0
    try:
        while True:
            to.write(f"insert into answered values ({number}) returning n;\n")
            to.flush()
            number += 1
    except OSError:
        return


class _Server:
    """A process of the server, and how its tools reach it."""

    def __init__(
        self, data: Path, sockets: Path, log: Path, settings: Sequence[str], user: str | None
    ) -> None:
        self.log = log
        self.words = ("-h", str(sockets), *(("-U", user) if user is not None else ()))
        words = [f"unix_socket_directories={sockets}", "listen_addresses=", *settings]
        command = [str(_programs() / "postgres"), "-D", str(data)]
        command += [part for word in words for part in ("-c", word)]
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd="/",
                **as_user(user),
            )  # fmt: skip

    def has_ended(self) -> bool:
        """Whether it runs no more."""
        return self._process.poll() is not None

    def stop(self, number: int) -> None:
        """Ends it: in order (SIGINT), or at once (SIGQUIT)."""
        end(self._process, number)


def _programs() -> Path:
    """The folder of the newest version's programs."""
    wanted = ("postgres", "initdb", "pgbench", "psql", "createdb", "pg_isready")
    folders = [path / "bin" for path in INSTALLED.glob("*") if path.name.isdecimal()]
    folders = [folder for folder in folders if all((folder / name).exists() for name in wanted)]
    if folders:
        return max(folders, key=lambda folder: int(folder.parent.name))
    if all(shutil.which(name) for name in wanted):
        return Path(str(shutil.which("postgres"))).resolve().parent
    raise UserError(f"postgres and pgbench are not there: they are in postgresql; {SET_UP}.")


def _somebody() -> str:
    """A user without rights."""
    for name in NOBODYS:
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    raise UserError(f"PostgreSQL refuses root, and {' and '.join(NOBODYS)} are no users here.")
