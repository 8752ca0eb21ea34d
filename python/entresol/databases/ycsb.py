"""RocksDB under loads of db_bench that stand for YCSB's, of which it has none.

The popular records are those of db_bench's `mixgraph`, with the shares and the ranges of keys that
RocksDB's documentation gives for it; what is not like YCSB is in docs/bench-personalities.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from entresol.databases.database import output, program
from entresol.databases.mounted_load import Did, MountedLoad
from entresol.databases.parsing import (
    db_bench,
    db_bench_found,
    db_bench_writes,
    keys,
    last_write,
    version,
)
from entresol.databases.rocksdb import PACKAGE
from entresol.errors import Failed

RECORDS = 20_000
VALUE = 1000
"""Bytes: ten fields of a hundred, as YCSB has them."""
SHAPE = (
    f"-num={RECORDS}", f"-value_size={VALUE}", "-key_size=24", "-compression_type=none", "-seed=7",
    "-write_buffer_size=2097152", "-target_file_size_base=2097152",
    "-max_bytes_for_level_base=8388608",
)  # fmt: skip
"""A thirty-second of RocksDB's own sizes, as the drive is one of the paper's."""
POPULAR = (
    "-keyrange_num=30", "-keyrange_dist_a=14.18", "-keyrange_dist_b=-2.917",
    "-keyrange_dist_c=0.0164", "-keyrange_dist_d=-0.08082",
)  # fmt: skip
"""79 % of all requests are for one thirtieth of the records."""
LENGTHS = (
    f"-value_theta={VALUE}", "-value_sigma=0", "-value_k=0.2",
    "-iter_theta=50", "-iter_sigma=0", "-iter_k=1", "-mix_max_scan_len=51",
)  # fmt: skip
"""Every value has the same size and every scan 50 records: the mean of YCSB's 1 to 100."""
NAME = "rocksdb"


@dataclass(frozen=True)
class Mix:
    """Of all requests."""

    gets: float
    puts: float
    scans: float
    is_skewed: bool = True


MIXES = {
    "a": Mix(0.5, 0.5, 0),
    "b": Mix(0.95, 0.05, 0),
    "c": Mix(1, 0, 0),
    "d": Mix(0.95, 0.05, 0, is_skewed=False),
    "e": Mix(0, 0.05, 0.95),
}
"""Those that are mixed. F is db_bench's `updaterandom`, in which every request reads a record and
writes it."""
LETTERS = (*MIXES, "f")


class Ycsb(MountedLoad):
    """One of the loads, each put of which is synced; all begin with the same records."""

    def __init__(self, letter: str) -> None:
        self._letter = letter
        self.name = f"{NAME}-{letter}"
        # A scan reads fifty records.
        self.operations = 2_000 if letter == "e" else 10_000

    def require(self) -> None:
        program("db_bench", PACKAGE)
        program("ldb", PACKAGE)

    def version(self) -> tuple[str, str]:
        return "RocksDB", version(output((program("db_bench", PACKAGE), "--version")))

    def prepare(self, folder: Path) -> None:
        if not _database(folder).exists():
            _db_bench(folder, "filluniquerandom,waitforcompaction")

    def run(self, folder: Path, operations: int) -> Did:
        said = _db_bench(folder, *self._words(operations), is_new=False)
        wanted, found = db_bench_found(said)
        if found != wanted:
            raise Failed(f"{self.name}: {found} of {wanted} records that were read are there.")
        return Did(db_bench(said), db_bench_writes(said))

    def _words(self, operations: int) -> tuple[str, ...]:
        mix = MIXES.get(self._letter)
        if mix is None:
            return ("updaterandom", f"-writes={operations}", "-sync=true")
        return (
            "mixgraph", f"-reads={operations}", "-sync=true", *LENGTHS,
            *(POPULAR if mix.is_skewed else ()),
            f"-mix_get_ratio={mix.gets}", f"-mix_put_ratio={mix.puts}",
            f"-mix_seek_ratio={mix.scans}",
        )  # fmt: skip

    def verify(self, folder: Path, did: Did) -> None:
        ldb = program("ldb", PACKAGE)
        if did.writes:
            logs = sorted(_database(folder).glob("*.log"))
            said = [output((ldb, "dump_wal", f"--walfile={log}", "--header")) for log in logs]
            found = last_write("\n".join(said)) - RECORDS
            if found != did.writes:
                raise Failed(f"{self.name}: {found} of {did.writes} answered writes are there.")
        there = keys(output((ldb, f"--db={_database(folder)}", "dump", "--count_only")))
        if there != RECORDS:
            raise Failed(f"{self.name}: {there} of {RECORDS} records are there.")
        _db_bench(folder, "verifychecksum", is_new=False)


def _database(folder: Path) -> Path:
    return folder / NAME


def _db_bench(folder: Path, benchmarks: str, *more: str, is_new: bool = True) -> str:
    existing = () if is_new else ("-use_existing_db=true",)
    words = (f"-db={_database(folder)}", f"-benchmarks={benchmarks}", *SHAPE, *existing, *more)
    return output((program("db_bench", PACKAGE), *words))
