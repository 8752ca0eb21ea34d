"""RocksDB: its own benchmark, whose writes go to a log (WAL) and to tables in memory."""

from __future__ import annotations

import errno
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from entresol.databases.cases import ROCKSDB, Case
from entresol.databases.database import (
    BEGIN,
    END,
    ENDS,
    Ask,
    Database,
    Mark,
    end,
    later,
    nothing,
    output,
    program,
)
from entresol.databases.parsing import Ran, db_bench, db_bench_done, keys, version, wal_records
from entresol.errors import Failed

PACKAGE = "rocksdb-tools (Debian)"
KEYS = 1_000_000
"""Of which `fillsync` uses one in a thousand."""
ENDLESS = 10_000_000
TOLD_EVERY = 20
LOOKS_EVERY = 0.002
GONE = (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO)
"""What a mount answers whose server was killed."""


class RocksDb(Database):
    """A process of db_bench for each run."""

    name = ROCKSDB

    def require(self) -> None:
        program("db_bench", PACKAGE)
        program("ldb", PACKAGE)

    def versions(self) -> dict[str, str]:
        return {"db_bench": version(output((program("db_bench", PACKAGE), "--version")))}

    @staticmethod
    def _words(folder: Path, case: Case, operations: int) -> list[str]:
        words = [
            program("db_bench", PACKAGE),
            f"-db={folder / 'rocksdb'}",
            f"-benchmarks={case.variant.partition(',')[0]}",
            f"-threads={case.clients}",
        ]
        if case.variant == "fillseq":
            return [*words, f"-num={operations}"]
        words += [f"-num={KEYS}", f"-writes={operations}"]
        return [*words, "-use_fsync=true"] if "use_fsync" in case.variant else words

    def run(self, folder: Path, case: Case, mark: Mark, ask: Ask) -> tuple[Ran, object]:
        with asking_for_logs(folder, ask):
            mark(BEGIN)
            said = output(self._words(folder, case, case.operations))
            mark(END)
        return db_bench(said), None

    def verify(self, folder: Path, case: Case, ran: Ran, evidence: object) -> None:
        del evidence
        found = _keys(folder) if case.variant == "fillseq" else _records(folder)
        if found != ran.operations:
            raise Failed(f"RocksDB: {found} of {ran.operations} writes are there.")

    def strike(self, folder: Path, case: Case, kill: Callable[[], None], ask: Ask) -> int:
        words = [*self._words(folder, case, ENDLESS), f"-stats_interval={TOLD_EVERY}"]
        log = self.work / "db_bench.log"
        with asking_for_logs(folder, ask), log.open("wb") as file:
            process = subprocess.Popen(words, stdout=file, stderr=file, cwd="/")
            later(kill).join()
            with suppress(subprocess.TimeoutExpired):  # Its next write fails, which ends it.
                process.wait(ENDS)
            end(process, signal.SIGKILL)
        return db_bench_done(log.read_text(errors="replace"))

    def survived(self, folder: Path, case: Case, answered: int) -> int:
        del case
        found = _records(folder)
        if found < answered:
            raise Failed(f"RocksDB: {answered - found} of {answered} answered writes are lost.")
        return found


@contextmanager
def asking_for_logs(folder: Path, ask: Ask) -> Iterator[None]:
    """Asks for each log as soon as db_bench, which opens the database itself, has made it.

    At each look anew: db_bench makes a database, destroys it and makes one again, whose log has the
    name of the first. Raises `Failed` if a log that is there cannot be asked for."""
    is_over = threading.Event()
    failed: list[str] = []

    def look() -> None:
        while not is_over.wait(LOOKS_EVERY):
            try:
                for log in (folder / "rocksdb").glob("*.log"):
                    ask(log)
            except FileNotFoundError:  # It was removed meanwhile.
                continue
            except OSError as error:
                if error.errno not in GONE:
                    failed.append(f"{error.filename}: {error.strerror}")
                return

    if ask is nothing:
        yield
        return
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if failed:
        raise Failed(f"a log of RocksDB cannot be asked for: {failed[0]}")


def _records(folder: Path) -> int:
    """Writes in the logs, each of which has a sum that is looked at."""
    ldb = program("ldb", PACKAGE)
    logs = sorted((folder / "rocksdb").glob("*.log"))
    said = [output((ldb, "dump_wal", f"--walfile={log}", "--header")) for log in logs]
    return wal_records("\n".join(said))


def _keys(folder: Path) -> int:
    ldb = program("ldb", PACKAGE)
    return keys(output((ldb, f"--db={folder / 'rocksdb'}", "dump", "--count_only")))
