"""`entresol bench personalities`: what it reads and judges, and small runs on mounts."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from conftest import Entresol, one_line
from file_server import without_fuse

from entresol import core
from entresol.databases import parsing, personalities
from entresol.databases.mounted_load import Did
from entresol.databases.parsing import Ran
from entresol.databases.personalities import Outcome, Plan, Run, Step, loads, steps
from entresol.databases.sqlite import Sqlite
from entresol.databases.ycsb import Ycsb
from entresol.errors import Failed, UserError

MIXED = (
    "mixgraph     :     466.404 micros/op 2144 ops/sec 4.664 seconds 10000 operations;   99.2 MB/s "
    "( Gets:0 Puts:515 Seek:9485, reads 9485 in 9485 found, avg size: 998.1 value, 50.0 scan)\n"
)
UPDATED = (
    "updaterandom :     278.877 micros/op 3585 ops/sec 0.279 seconds 1000 operations;    7.0 MB/s "
    "( updates:1000 found:997)\n"
)
WAL = """Sequence,Count,ByteSize,Physical Offset,Key(s)
19999,1,1040,827305,PUT(0) : 0x0000000000000BAE
20000,2,1040,828352,PUT(0) : 0x0000000000003CB0
"""
WITHOUT = without_fuse()


def test_what_db_bench_prints_becomes_numbers() -> None:
    assert parsing.db_bench(MIXED) == Ran(10_000, 4.664)
    assert (parsing.db_bench_writes(MIXED), parsing.db_bench_found(MIXED)) == (515, (9485, 9485))
    assert (parsing.db_bench_writes(UPDATED), parsing.db_bench_found(UPDATED)) == (
        1000,
        (1000, 997),
    )
    assert parsing.last_write(WAL) == 20_001
    assert parsing.last_write("") == 0
    for read in (parsing.db_bench_writes, parsing.db_bench_found):
        with pytest.raises(Failed, match="open error"):
            read("open error: IO error")


def test_rounds_go_by_turns_and_the_last_is_not_paced() -> None:
    plan = Plan(loads()[:2], ("bytefs", "ext4-like"), 2)
    found = [(step.round, step.load.name, step.personality, step.is_paced) for step in steps(plan)]
    assert found[:4] == [
        (0, "rocksdb-a", "bytefs", True), (0, "rocksdb-a", "ext4-like", True),
        (0, "rocksdb-b", "bytefs", True), (0, "rocksdb-b", "ext4-like", True),
    ]  # fmt: skip
    assert found[4:6] == [
        (1, "rocksdb-a", "ext4-like", True), (1, "rocksdb-a", "bytefs", True),
    ]  # fmt: skip
    assert [is_paced for *_, is_paced in found] == [True] * 8 + [False] * 4


def ran(personality: str, turn: int, per_second: float, *, is_paced: bool = True) -> Run:
    """A run of a thousand operations."""
    moved = {
        "to_device_bytes": (turn + 1) << 20, "to_host_bytes": 0, "programmed_pages": 7,
        "read_pages": 0,
    }  # fmt: skip
    return Run(
        "sqlite-wal", personality, turn, is_paced, 1000, 1000, 1000 / per_second, 5 * 10**9, moved,
        {},
    )  # fmt: skip


def test_ratios_are_of_runs_of_one_round() -> None:
    plan = Plan((Sqlite("wal"),), ("bytefs", "ext4-like"), 3)
    machine = {"processors": 2, "processor": "P", "load_at_begin": 0.1, "load_at_end": 0.2,
               "seconds": 90.0, "took": {"measure": 60.4}}  # fmt: skip
    outcome = Outcome(machine, {"SQLite": "3.40.1"}, [
        *(ran("ext4-like", turn, rate) for turn, rate in enumerate((100, 200, 50))),
        *(ran("bytefs", turn, rate) for turn, rate in enumerate((300, 400, 100))),
        ran("bytefs", 3, 9000, is_paced=False), ran("ext4-like", 3, 8000, is_paced=False),
    ])  # fmt: skip
    found = json.loads(json.dumps(personalities.summary(plan, outcome)))
    bytefs, base = found["rows"]
    assert bytefs["over_base"] == {"median": 2, "least": 2, "most": 3}
    assert base["over_base"] == {"median": 1, "least": 1, "most": 1}
    assert bytefs["device_ps_each"] == 5 * 10**6
    page = personalities.page(found)
    assert (
        "| sqlite-wal | bytefs | 300 | 100 to 400 | 2.00 | 2.00 to 3.00 | 2.00 | 9,000 | 5.0 | 2.0 "
        "| 0.0 | 7 |\n"
    ) in page
    assert "| sqlite-wal | ext4-like | 100 | 50 to 200 |  |  |  | 8,000 |" in page


def test_what_fsck_finds_ends_the_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(Sqlite("wal"), "bytefs", 0, is_paced=True)
    problems: list[dict[str, str]] = []
    monkeypatch.setattr(core, "fs_check", lambda *_, **__: {"problems": problems})
    personalities.check_file_system(step, tmp_path)
    problems.append({"what": "inode 7 has no name"})
    with pytest.raises(Failed, match=r"sqlite-wal, bytefs: fsck finds: inode 7 .* \(1 in all\)"):
        personalities.check_file_system(step, tmp_path)


def test_transactions_that_are_missing_or_torn_are_told(tmp_path: Path) -> None:
    load = Sqlite("delete")
    load.prepare(tmp_path)
    did = load.run(tmp_path, 20)
    load.verify(tmp_path, did)
    with pytest.raises(Failed, match="20 of 21 answered transactions are there"):
        load.verify(tmp_path, Did(did.ran, 21))
    with sqlite3.connect(tmp_path / "sqlite-delete.db") as base:
        base.execute("update account set balance = balance + 1 where id in (3, 4)")
    with pytest.raises(Failed, match="2 accounts have not what was moved to them"):
        load.verify(tmp_path, did)
    (tmp_path / "sqlite-delete.db").write_bytes(b"no database" * 1000)
    with pytest.raises(Failed, match="SQLite says: file is not a database"):
        load.verify(tmp_path, did)


def test_writes_of_rocksdb_that_are_missing_are_told(tmp_path: Path) -> None:
    load = need_rocksdb("f")
    load.prepare(tmp_path)
    did = load.run(tmp_path, 20)
    assert did.writes == 20
    with pytest.raises(Failed, match="20 of 21 answered writes are there"):
        load.verify(tmp_path, Did(did.ran, 21))
    load.verify(tmp_path, did)
    for table in (tmp_path / "rocksdb").glob("*.sst"):
        table.write_bytes(bytes(table.stat().st_size))
    with pytest.raises(Failed, match=r"ldb|db_bench"):
        load.verify(tmp_path, Did(did.ran, 0))


def need_rocksdb(letter: str) -> Ycsb:
    """One of its loads; skips the test where its programs are not."""
    load = Ycsb(letter)
    try:
        load.require()
    except UserError as error:
        pytest.skip(str(error))
    return load


def test_bad_input_is_one_line(
    entresol_command: Entresol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for words, said in (
        (("--personalities", "ext3"), "there are bytefs"),
        (("--loads", "rocksdb-x"), "there are rocksdb-a"),
        (("--work", tmp_path / "none"), "is no directory"),
        ((), "db_bench is not there: it is in rocksdb-tools (Debian); run scripts/setup databases"),
    ):
        done = entresol_command("bench", "personalities", *words, "-o", tmp_path / "out")
        assert said in one_line(done)
    assert not (tmp_path / "out").exists()


def small_run(command: Entresol, folder: Path, loads: str) -> dict[str, dict[str, float]]:
    """Of ByteFS beside ext4-like, with pace and without; what each load's ByteFS has moved."""
    done = command(
        "bench", "personalities", "--personalities", "bytefs", "--loads", loads, "--rounds", "1",
        "--operations", "100", "--work", folder, "-o", folder / "out",
    )  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads((folder / "out" / "results.json").read_text())
    assert (folder / "out" / "table.md").read_text() == done.out
    rows = found["rows"]
    assert [row["personality"] for row in rows] == ["bytefs", "ext4-like"] * (len(rows) // 2)
    assert len(found["runs"]) == 2 * len(rows)
    for row in rows:
        assert row["operations"] == 100 and row["device_ps_each"] > 0, row
    ours, base = ({row["load"]: row["moved"] for row in rows[which::2]} for which in (0, 1))
    for load, moved in ours.items():
        assert moved["to_device_bytes"] < base[load]["to_device_bytes"], load
    return ours


def test_a_small_run_of_sqlite(entresol_command: Entresol, tmp_path: Path) -> None:
    if WITHOUT is not None:
        pytest.skip(f"FUSE: {WITHOUT}")
    moved = small_run(entresol_command, tmp_path, "sqlite-delete,sqlite-wal")
    # A transaction changes at least one page of the log or of a journal.
    assert all(each["to_device_bytes"] > 100 * 4096 for each in moved.values()), moved


def test_a_small_run_of_rocksdb(entresol_command: Entresol, tmp_path: Path) -> None:
    if WITHOUT is not None:
        pytest.skip(f"FUSE: {WITHOUT}")
    need_rocksdb("a")
    moved = small_run(entresol_command, tmp_path, "rocksdb-a")
    # About half of its requests write a value of a thousand bytes.
    assert moved["rocksdb-a"]["to_device_bytes"] > 30_000
