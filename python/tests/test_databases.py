"""`entresol bench dax`: what it reads of others' programs, and one small run of Valkey."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from conftest import Entresol, one_line
from file_server import without_fuse

from entresol.databases import cases, parsing, result, runs
from entresol.databases.postgresql import check_totals
from entresol.databases.rocksdb import asking_for_logs
from entresol.databases.valkey import Valkey
from entresol.errors import Failed, UserError

CSV = (
    '"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms",'
    '"p99_latency_ms","max_latency_ms"\n'
    '"SET","47961.63","0.204","0.024","0.039","0.079","7.087","16.207"\n'
)
PGBENCH = """pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 10
query mode: simple
number of clients: 1
number of threads: 1
maximum number of tries: 1
duration: 5 s
number of transactions actually processed: 1872
number of failed transactions: 0 (0.000%)
latency average = 2.671 ms
initial connection time = 3.017 ms
tps = 374.365503 (without initial connection time)
"""
DB_BENCH = """Keys:       16 bytes each (+ 0 bytes user-defined timestamp)
Initializing RocksDB Options from the specified file
------------------------------------------------
DB path: [/tmp/mnt/r]
fillsync     :    3092.412 micros/op 323 ops/sec 6.185 seconds 2000 operations;    0.0 MB/s (2 ops)
"""
STATS = """2026/11/24-13:35:34  ... thread 0: (20,20) ops and (9000.0,9000.0) ops/second in (0,0) s
2026/11/24-13:35:34  ... thread 0: (20,40) ops and (9100.0,9050.0) ops/second in (0,0) s
put error: IO error: While fdatasync: mnt/rocksdb/000004.log: Transport endpoint is not connected
"""
WAL = """Sequence,Count,ByteSize,Physical Offset,Key(s)
1,1,131,0,PUT(0) : 0x00000000000002BC3030303030303030
2,2,131,138,PUT(0) : 0x00000000000003C43030303030303030
4,1,131,276,PUT(0) : 0x00000000000001453030303030303030
"""


def test_what_tools_print_becomes_numbers() -> None:
    assert parsing.redis_benchmark(CSV, 1000).per_second == pytest.approx(47961.63)
    assert parsing.pgbench(PGBENCH).operations == 1872
    assert parsing.pgbench(PGBENCH).per_second == pytest.approx(374.365503)
    assert parsing.db_bench(DB_BENCH) == parsing.Ran(2000, 6.185)
    assert parsing.db_bench_done(STATS) == 40
    assert parsing.db_bench_done("put error") == 0
    assert parsing.wal_records(WAL) == 4
    assert parsing.keys("Keys in range: 951\n") == 951
    assert parsing.version("Valkey server v=9.1.2 sha=00000000:1 malloc=libc") == "9.1.2"


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (lambda text: parsing.redis_benchmark(text, 1), "Could not connect", "Could not connect"),
        (parsing.pgbench, "pgbench: error: connection failed", "connection failed"),
        (parsing.pgbench, PGBENCH.replace("transactions: 0", "transactions: 7"), "7 transactions"),
        (parsing.db_bench, "open error: IO error", "open error"),
        (parsing.wal_records, WAL.replace("\n2,2,", "\n2,1,"), "from write 2 to write 4"),
        (parsing.keys, "", "nothing"),
    ],
)
def test_what_tools_print_otherwise_is_an_error(
    read: Callable[[str], object], text: str, said: str
) -> None:
    with pytest.raises(Failed, match=said):
        read(text)


def test_balances_say_whether_transactions_are_there() -> None:
    check_totals("12|-5|-5|-5|-5\n", 12)
    for row, said in (("11|3|3|3|3", "11 are there"), ("12|3|3|4|3", "do not agree"), ("", "no")):
        with pytest.raises(Failed, match=said):
            check_totals(row, 12)


def test_every_case_has_its_published_value_or_says_none() -> None:
    for case in (*cases.quick(), *cases.full()):
        assert result.published(case) is not None, case.name
    swept = [case.name for case in cases.quick() if case.is_swept]
    assert swept == ["always, 1 client", "fdatasync, scale 10", "fillsync"]
    assert len({(case.database, case.name) for case in cases.full()}) == len(cases.full())


def test_unknown_words_are_one_sentence() -> None:
    with pytest.raises(UserError, match=r"there are valkey, postgresql, rocksdb. Did you mean va"):
        cases.chosen("valky", cases.DATABASES, "--databases")
    assert cases.chosen("rocksdb, valkey", cases.DATABASES, "") == ("valkey", "rocksdb")


def look_for(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.001)
    return is_so()


def test_logs_of_rocksdb_are_asked_for_as_they_appear(tmp_path: Path) -> None:
    folder = tmp_path / "rocksdb"
    folder.mkdir()

    def ask(path: Path) -> None:
        path.write_text("asked")

    def is_asked(name: str) -> bool:
        return look_for(lambda: (folder / name).read_text() == "asked")

    with asking_for_logs(tmp_path, ask):
        for name in ("000004.log", "LOG", "000009.log"):
            (folder / name).touch()
        assert is_asked("000004.log")
        assert is_asked("000009.log")
        # db_bench destroys the database that it has made, and makes one with the same names.
        (folder / "000004.log").unlink()
        (folder / "000004.log").touch()
        assert is_asked("000004.log"), "it is another file"
    assert not (folder / "LOG").read_text()


def test_logs_are_looked_for_whatever_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A type that asks for its logs has no more requests beside it than one that does not."""
    looked: dict[str, set[str]] = {"get": set(), "set": set()}

    def get(path: Path, name: str) -> bytes:
        looked["get"].add(path.name + name)
        raise OSError(errno.ENODATA, "there is none", str(path))

    monkeypatch.setattr(os, "getxattr", get)
    monkeypatch.setattr(os, "setxattr", lambda path, *_: looked["set"].add(path.name))
    (tmp_path / "rocksdb").mkdir()
    (tmp_path / "rocksdb" / "000004.log").touch()
    for kind in cases.TYPES:
        looked["get"].clear()
        with asking_for_logs(tmp_path, runs.asks(kind)):
            assert look_for(lambda: len(looked["get"]) == 1), kind
        assert bool(looked["set"]) == (kind == cases.EXPLICIT), kind
        looked["set"].clear()


@pytest.mark.parametrize(
    ("number", "is_told"), [(errno.ENOTSUP, True), (errno.ENOTCONN, False), (errno.ENOENT, False)]
)
def test_a_log_that_cannot_be_asked_for_is_told(tmp_path: Path, number: int, is_told: bool) -> None:
    (tmp_path / "rocksdb").mkdir()
    (tmp_path / "rocksdb" / "000004.log").touch()
    is_called = threading.Event()

    def ask(path: Path) -> None:
        is_called.set()
        raise OSError(number, "it does not", str(path))

    with (
        pytest.raises(Failed, match=r"000004.log: it does not") if is_told else nullcontext(),
        asking_for_logs(tmp_path, ask),
    ):
        assert is_called.wait(10)


def ran(kind: str, repeat: int, per_second: float, *, is_paced: bool = True) -> runs.Run:
    """A run of a thousand operations."""
    case = cases.quick()[0]
    seconds = 1000 / per_second
    return runs.Run(case, kind, "1ms", repeat, is_paced, 1000, seconds, 10**9, 500, {}, {},
                    {"tool": 10.0 + repeat, "server": 5.0})  # fmt: skip


def test_a_log_that_was_asked_for_in_vain_is_told() -> None:
    always = next(case for case in cases.quick() if case.name == "always, 1 client")
    no = next(case for case in cases.quick() if case.variant == "no")
    step = runs.Step(always, cases.EXPLICIT, "1ms", 0)
    runs.check_struck(always, cases.HYBRID, 1)
    runs.check_struck(always, cases.DEFAULT, 0)
    runs.check_struck(no, cases.HYBRID, 0)
    with pytest.raises(Failed, match="no sync was light before the kill"):
        runs.check_struck(always, cases.HYBRID, 0)
    runs.check_asked(step, {"light_syncs": 9})
    runs.check_asked(runs.Step(always, cases.HYBRID, "1ms", 0), {"light_syncs": 0})
    runs.check_asked(runs.Step(no, cases.EXPLICIT, "1ms", 0), {"light_syncs": 0})
    with pytest.raises(Failed, match="valkey always, 1 client, explicit: no sync was light"):
        runs.check_asked(step, {"light_syncs": 0})
    kill = {"light_syncs": 5, "recovered_pages": 0}
    runs.check_recovered([kill | {"light_syncs": 0}])
    runs.check_recovered([kill, kill | {"recovered_pages": 1}])
    with pytest.raises(Failed, match="2 mounts were killed behind 10 light syncs, and no page"):
        runs.check_recovered([kill, kill])


def test_ratios_are_of_runs_of_one_turn() -> None:
    plan = runs.Plan(cases.quick()[:1], ("default", "hybrid"), "1ms", (), 3, 1)
    outcome = runs.Outcome(
        runs=[
            *(ran("default", turn, rate) for turn, rate in enumerate((100, 200, 50))),
            *(ran("hybrid", turn, rate) for turn, rate in enumerate((700, 1000, 400))),
            ran("hybrid", 3, 9000, is_paced=False),
        ],
        kills=[
            {
                "database": "valkey", "type": "hybrid", "answered": 7, "found": 8,
                "light_syncs": 6, "recovered_pages": 2,
            }
        ],
        versions={"valkey": {"server": "9.1.2"}},
        machine={"processors": 2, "processor": "P", "load_at_begin": 0.1, "load_at_end": 0.2,
                 "seconds": 90.0, "took": {"measure": 60.4, "verify": 9.6}},
    )  # fmt: skip
    found = result.summary(plan, outcome)
    default, hybrid = found["cases"]
    assert default["per_second"] == {"median": 100, "least": 50, "most": 200}
    assert hybrid["over_default"] == {"median": 7, "least": 5, "most": 8}
    assert hybrid["published_over_default"] == 7.29
    assert hybrid["device_ps_each"] == 10**6
    assert default["operations_per_sync"] == 2
    assert default["processor_us"] == {"tool": 11, "server": 5}
    page = result.page(json.loads(json.dumps(found)))
    assert "| hybrid | 700 | 400 to 1,000 | 7.00 | 5.00 to 8.00 | 7.29 | 1.0 | 0 |" in page
    assert "| valkey | hybrid | 7 | 8 | 6 | 2 |" in page
    assert "by what it did: measure 60, verify 10." in page


def test_bad_input_is_one_line(entresol_command: Entresol, tmp_path: Path) -> None:
    for words, said in (
        (("--databases", "oracle"), "there are valkey, postgresql, rocksdb"),
        (("--types", "fast"), "there are default, hybrid"),
        (("--cases", "nothing"), "no case's name begins so"),
        (("--flush", "soon"), "no span of time"),
        (("--work", tmp_path / "none"), "is no directory"),
    ):
        done = entresol_command("bench", "dax", "--quick", *words, "-o", tmp_path / "out")
        assert said in one_line(done)
    assert not (tmp_path / "out").exists()


def test_a_small_run_of_valkey(entresol_command: Entresol, tmp_path: Path) -> None:
    """Paced and not, the data found again, and a kill of the mount in the middle."""
    if WITHOUT is not None:
        pytest.skip(f"FUSE: {WITHOUT}")
    try:
        Valkey(tmp_path).require()
    except UserError as error:
        pytest.skip(str(error))
    done = entresol_command(
        "bench", "dax", "--quick", "--databases", "valkey", "--cases", "always, 1 client",
        "--types", "hybrid", "--sweep", "", "--repeats", "1", "--operations", "300", "--no-record",
        "--work", tmp_path, "-o", tmp_path / "out",
    )  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    (hybrid,), (kill,) = found["cases"], found["kills"]
    assert hybrid["light_syncs"] > 250
    assert hybrid["operations_per_sync"] == pytest.approx(1, abs=0.05)
    # A command in memory takes microseconds, with its calls of the kernel.
    assert 1 < hybrid["processor_us"]["tool"] < 1000 > hybrid["processor_us"]["server"] > 1
    # A usual sync of this drive takes more than 2 ms of its time.
    assert 0 < hybrid["device_ps_each"] < 200 * 10**6
    assert kill["found"] >= kill["answered"] > 0 and kill["type"] == "hybrid"
    assert kill["light_syncs"] > 0 and kill["recovered_pages"] > 0


WITHOUT = without_fuse()
