"""What the tools of databases print, as numbers."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from entresol.errors import Failed

_TPS = re.compile(r"^tps = ([0-9.]+) \(without initial connection time\)$", re.MULTILINE)
_PROCESSED = re.compile(
    r"^number of transactions actually processed: ([0-9]+)(?:/[0-9]+)?$", re.MULTILINE
)
_FAILED = re.compile(r"^number of failed transactions: ([0-9]+)", re.MULTILINE)
_DB_BENCH = re.compile(
    r"^(?P<name>\w+)\s*:\s*[0-9.]+ micros/op [0-9]+ ops/sec "
    r"(?P<seconds>[0-9.]+) seconds (?P<operations>[0-9]+) operations;",
    re.MULTILINE,
)
_FOUND = re.compile(r"\(.*\breads (?P<found>\d+) in (?P<wanted>\d+) found")
_MIXED = re.compile(r"\( Gets:\d+ Puts:(?P<writes>\d+) Seek:\d+,")
_UPDATED = re.compile(r"\( updates:(?P<writes>\d+) found:(?P<found>\d+)\)")
_DONE = re.compile(r"thread \d+: \(\d+,(\d+)\) ops")
_WAL_RECORD = re.compile(r"^(\d+),(\d+),\d+,\d+,", re.MULTILINE)
_KEYS = re.compile(r"^Keys in range: (\d+)$", re.MULTILINE)
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Ran:
    """What a tool says of a run."""

    operations: int
    seconds: float
    processor: Mapping[str, float] = field(default_factory=dict)
    """Seconds of a processor that `tool` and `server` took meanwhile, where that is known."""

    @property
    def per_second(self) -> float:
        """Operations."""
        return self.operations / self.seconds


def redis_benchmark(text: str, operations: int) -> Ran:
    """Of `redis-benchmark --csv` with one test."""
    rows = list(csv.DictReader(text.splitlines()))
    try:
        (row,) = rows
        per_second = float(row["rps"])
    except (KeyError, TypeError, ValueError):
        raise _unknown("redis-benchmark", text) from None
    if per_second <= 0:
        raise _unknown("redis-benchmark", text)
    return Ran(operations, operations / per_second)


def pgbench(text: str) -> Ran:
    """Of pgbench; raises `Failed` if transactions failed."""
    tps, processed, failed = _TPS.search(text), _PROCESSED.search(text), _FAILED.search(text)
    if tps is None or processed is None or float(tps[1]) <= 0:
        raise _unknown("pgbench", text)
    if failed is not None and int(failed[1]):
        raise Failed(f"pgbench: {failed[1]} transactions failed; look at the server's log.")
    return Ran(int(processed[1]), int(processed[1]) / float(tps[1]))


def db_bench(text: str) -> Ran:
    """Of db_bench with one benchmark."""
    found = _DB_BENCH.search(text)
    if found is None or float(found["seconds"]) <= 0:
        raise _unknown("db_bench", text)
    return Ran(int(found["operations"]), float(found["seconds"]))


def db_bench_done(text: str) -> int:
    """The operations that a db_bench with `--stats_interval` said it had done; 0 if none."""
    return max((int(count) for count in _DONE.findall(text)), default=0)


def db_bench_writes(text: str) -> int:
    """What `mixgraph` or `updaterandom` wrote."""
    found = _MIXED.search(text) or _UPDATED.search(text)
    if found is None:
        raise _unknown("db_bench", text)
    return int(found["writes"])


def db_bench_found(text: str) -> tuple[int, int]:
    """How many records `mixgraph` or `updaterandom` looked for, and how many were there."""
    if (updated := _UPDATED.search(text)) is not None:
        return int(updated["writes"]), int(updated["found"])
    if (mixed := _FOUND.search(text)) is None:
        raise _unknown("db_bench", text)
    return int(mixed["wanted"]), int(mixed["found"])


def last_write(text: str) -> int:
    """The number of the last write that `ldb dump_wal` lists, raising as `wal_records`; 0 if it
    lists none."""
    wal_records(text)
    return max((int(row[1]) + int(row[2]) - 1 for row in _WAL_RECORD.finditer(text)), default=0)


def wal_records(text: str) -> int:
    """Writes that `ldb dump_wal` lists. Raises `Failed` if one between them is not there."""
    records = [(int(number), int(count)) for number, count in _WAL_RECORD.findall(text)]
    for (number, count), (following, _) in pairwise(records):
        if number + count != following:
            raise Failed(f"RocksDB's log goes from write {number} to write {following}.")
    return sum(count for _, count in records)


def keys(text: str) -> int:
    """Of `ldb dump --count_only`."""
    found = _KEYS.search(text)
    if found is None:
        raise _unknown("ldb", text)
    return int(found[1])


def version(text: str) -> str:
    """The first number with dots of what a program says of itself."""
    found = _VERSION.search(text)
    return "unknown" if found is None else found[0]


def _unknown(tool: str, text: str) -> Failed:
    said = " ".join(text.split())[-200:] or "nothing"
    return Failed(f"{tool}: says no result, but: {said}")
