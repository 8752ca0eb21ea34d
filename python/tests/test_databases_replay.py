"""`entresol bench dax-replay`: recordings of databases, played with other flushes and policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Entresol, one_line

from entresol.databases import pauses, replaying
from entresol.databases.database import BEGIN, END
from entresol.databases.replaying import Policy, Recording
from entresol.errors import UserError
from entresol.papers.dax import runs

COMMITS = 40
THINKS_NS = 20_000
TAKES_NS = 2_000


def recording() -> str:
    """A program that appends and syncs, between the two names that a bench looks up."""
    lines: list[dict[str, Any]] = []

    def add(operation: dict[str, Any], thread: int = 0, **more: Any) -> None:
        begin = len(lines) * (THINKS_NS + TAKES_NS)
        lines.append({"thread": thread, "begin_ns": begin, "end_ns": begin + TAKES_NS,
                      "op": operation, **more})  # fmt: skip

    add({"make": {"parent": 1, "name": "log", "kind": "file", "permissions": 384,
                  "is_opened": True}}, found=40)  # fmt: skip
    add({"lookup": {"parent": 1, "name": BEGIN}}, thread=1, error=2)
    for number in range(COMMITS):
        at = 128 * number
        add({"write": {"ino": 40, "at": at, "size": 128, "direct": False, "sync": False,
                       "sums": f"{number + 1:08x}" * 2}})  # fmt: skip
        add({"fsync": {"ino": 40, "data_only": True}})
    add({"lookup": {"parent": 1, "name": END}}, thread=1, error=2)
    head = {"entresol_recording": 1, "before": 0, "operations": len(lines)}
    return "".join(f"{json.dumps(line)}\n" for line in (head, *lines))


@pytest.fixture(name="bench")
def made_bench(tmp_path: Path) -> Path:
    """What a bench leaves: a recording, and what was measured."""
    folder = tmp_path / "bench"
    folder.mkdir()
    (folder / "rocksdb.rec").write_text(recording())
    case = {"database": "rocksdb", "name": "fillsync"}
    results = {
        "recordings": [{
            "file": "rocksdb.rec", "database": "rocksdb", "case": "fillsync",
            "operations": COMMITS, "fuse_ns": THINKS_NS,
        }],
        "cases": [
            {"case": case, "flush": flush, "type": kind,
             "per_second": {"median": 1.0, "most": most}}
            for flush, kind, most in (
                ("1ms", "default", 390.0), ("1ms", "hybrid", 1.0), ("7ms", "hybrid", 1.0),
            )
        ],
    }  # fmt: skip
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def test_rates_follow_flush_policy_and_fuse() -> None:
    of = Recording("rocksdb", "fillsync", COMMITS, THINKS_NS, recording())
    default = replaying.rate(of, None)
    assert default > replaying.rate(of, None, "3.5ms")
    hybrid = replaying.rate(of, Policy())
    # A few of the commits come before the policy knows.
    assert hybrid > 3 * default
    assert replaying.rate(of, Policy(after=1000)) == pytest.approx(default, rel=0.01)
    assert replaying.rate(of, Policy(after=20)) < hybrid
    assert replaying.rate(of, Policy(), has_fuse=False) > hybrid


def test_a_bench_is_played_and_compared_with_what_it_measured(
    bench: Path, entresol_command: Entresol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "FLUSHES", ("1ms",))
    monkeypatch.setattr(replaying, "ORDERS", (9,))
    monkeypatch.setattr(replaying, "UPGRADES", (60,))
    monkeypatch.setattr(replaying, "DOWNGRADES", (30, 70))
    monkeypatch.setattr(replaying, "AFTERS", (5, 20))
    recordings, found = replaying.read(bench, ("rocksdb",))
    told = replaying.sweep(recordings, found, lambda _: None)
    first, second = told["databases"][0]["predictions"]
    assert (first["type"], first["is_within"]) == ("default", True)
    assert (second["type"], second["is_within"]) == ("hybrid", False)
    page = replaying.page(told, lambda _: 24.47)
    assert "more than 15 %" in page and "| 24.47 |" in page
    # The grids of what missed a run are marked, and those of what was beside none.
    assert "| rocksdb (!) | 9 | 70 | – |" in page and "| rocksdb | 9" not in page
    of = told["databases"][0]
    for predicted, marked in (([first], False), ([], True)):
        once = told | {"databases": [of | {"predictions": predicted}]}
        grids = replaying.page(once, lambda _: 24.47)
        assert ("(!)" in grids, "| rocksdb | 9 | 70 | – |" in grids) == (marked, not marked)
    done = entresol_command("bench", "dax-replay", bench, "--databases", "valkey")
    assert "has no recording of these" in one_line(done)
    assert not (bench / "replay.json").exists()


def test_fuse_takes_no_more_than_the_shortest_pauses() -> None:
    # The first line is no pause, and the marks are of another thread.
    assert pauses.pauses(recording()) == [THINKS_NS + (THINKS_NS + TAKES_NS)] + [THINKS_NS] * (
        2 * COMMITS - 1
    ) + [(2 * COMMITS + 1) * (THINKS_NS + TAKES_NS) - TAKES_NS]
    assert pauses.fuse_ns(recording(), 67_035) == THINKS_NS
    assert pauses.fuse_ns(recording(), 9_000) == 9_000
    head, *lines = recording().splitlines()
    assert pauses.fuse_ns("\n".join((head, *lines[:2])), 9_000) == 9_000, "it has no pause"
    # Operations of one request are not apart.
    made, mark, first, second, *more = (json.loads(line) for line in lines)
    second["begin_ns"] = first["end_ns"] + pauses.APART_NS - 1
    closer = [json.dumps(line) for line in (made, mark, first, second, *more)]
    assert len(pauses.pauses("\n".join((head, *closer)))) == len(pauses.pauses(recording())) - 1


@pytest.mark.parametrize("name", sorted(runs.manifest()))
def test_what_is_taken_off_recordings_is_what_they_allow(name: str) -> None:
    found, said = runs.recorded(name), runs.manifest()[name]
    assert found is not None
    assert said["fuse_ns"] == pauses.fuse_ns(found.text, said["lookup_ns"])


def test_what_is_no_bench_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file or directory; name the directory"):
        replaying.read(tmp_path, ("valkey",))
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(UserError, match="is none of bench dax"):
        replaying.read(tmp_path, ("valkey",))
