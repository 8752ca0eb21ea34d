"""Several clients as a closed loop: what its steps take, and plays of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_databases_replay import COMMITS, THINKS_NS, recording

from entresol import core
from entresol.core import Json
from entresol.databases import clients, replaying
from entresol.databases.clients import Costs, Seen
from entresol.errors import UserError
from entresol.figures import benches, frames
from entresol.figures.plan import Results
from entresol.papers.dax import PAPER, group_commit, runs
from entresol.papers.dax import clients as loads

SETTINGS = PAPER.settings()
COSTS = Costs(receive_ns=4000, request_ns=1000, answer_ns=4000, tool_ns=12_800, tool_request_ns=200)
ROUND = 50.0
"""Microseconds of a server's processor for a round, and those of one that wakes up for it."""
WAKES = 3.0
COUNT = 50
SHARED = COUNT / (2 - 4.0 / 13.0)
"""Requests to a sync that is longer than everything else."""

SLEEPY = Seen(80, 120, SHARED)
"""What programs take that sleep for milliseconds says nothing of their steps."""


def _seen() -> tuple[Seen, Seen, Seen]:
    """What a server and a tool of these costs would be measured to take."""
    one = Seen(13 + WAKES, 9 + ROUND, 1)
    ten = Seen((12.8 + 2 + WAKES) / 10, (8 + 10 + ROUND) / 10, 10)
    return one, ten, Seen(13, 9 + ROUND / 4, 4)


def _row(name: str, clients_: int, pipeline: int, seen: Seen, **more: Any) -> Json:
    case = {"database": "valkey", "variant": "always", "name": name, "clients": clients_,
            "pipeline": pipeline, "operations": 200}  # fmt: skip
    return {"case": case, "type": "hybrid", "flush": "1ms", "operations_per_sync": seen.per_sync,
            "processor_us": {"tool": seen.tool_us, "server": seen.server_us},
            "per_second": {"median": 1.0, "most": 2.0}} | more  # fmt: skip


def _bench() -> Json:
    one, ten, many = _seen()
    plain = Seen(80, 120, 1)
    return {"cases": [_row("always, 1 client", 1, 1, one),
                      _row("always, 1 client, pipeline 10", 1, 10, ten),
                      _row("always, 50 clients", COUNT, 1, many),
                      _row("always, 50 clients", COUNT, 1, SLEEPY, type="default"),
                      _row("always, 1 client", 1, 1, plain, type="default")]}  # fmt: skip


def test_steps_are_found_again_in_what_is_measured_of_them() -> None:
    found = clients.of_bench(_bench())
    assert found is not None
    for name, wanted in vars(COSTS).items():
        assert getattr(found, name) == pytest.approx(wanted, abs=2), name
    for lacking in range(4):
        rows = [row for number, row in enumerate(_bench()["cases"]) if number != lacking]
        assert clients.of_bench({"cases": rows}) is None
    # Nobody shares a sync.
    alone = _bench()
    alone["cases"][2]["operations_per_sync"] = 1
    assert clients.of_bench(alone) is None
    # Benches of before processors were looked at.
    rows = [{key: value for key, value in row.items() if key != "processor_us"}
            for row in _bench()["cases"]]  # fmt: skip
    assert clients.of_bench({"cases": rows}) is None


def test_what_no_step_explains_of_a_turn_is_to_wake_up() -> None:
    turn = THINKS_NS
    few = Costs(1000, 2000, 3000, 4000, 5000)
    found = clients.looped(recording(), 1500, few, 7, 3, 21)
    assert (found.count, found.pipeline, found.requests, found.bytes) == (7, 3, 21, 128)
    assert found.wake_ns == turn - 15_000 - 1500 and found.round_ns == 1500
    assert found.sync_ns == THINKS_NS
    # Steps that were measured to take longer than the whole leave nothing.
    assert clients.looped(recording(), 1500, COSTS, 1, 1, 1).wake_ns == 0
    head, *lines = recording().splitlines()
    silent = [line for line in lines if "fsync" not in line]
    with pytest.raises(UserError, match="a recording of one that writes and syncs"):
        clients.looped("\n".join((head, *silent)), 0, COSTS, 1, 1, 1)


def _beside(played_hybrid: float, played: float) -> Json:
    """A bench whose runs of one client took as long as plays of it."""
    bench = _bench()
    bench["cases"][0]["per_second"]["most"] = played_hybrid
    bench["cases"][4]["per_second"]["most"] = played
    return bench


def test_a_bench_of_several_clients_is_beside_its_loop() -> None:
    one = replaying.Recording("valkey", "always, 1 client", COMMITS, 0, recording())
    rows = replaying.loops(one, _beside(1e9, 1e9))
    assert [(row["case"], row["type"]) for row in rows] == [
        ("always, 1 client, pipeline 10", "hybrid"), ("always, 50 clients", "hybrid"),
        ("always, 50 clients", "default"),
    ]  # fmt: skip
    pipelined, _, several = rows
    assert pipelined["per_sync_predicted"] == 10 and several["clock_ns"] == 0
    assert several["per_sync_predicted"] == pytest.approx(SHARED, abs=5)
    assert not any(row["is_within"] for row in rows)
    # On a clock by which rounds take a millisecond more all do.
    played = 1e9 / replaying.rate(one, None)
    slow = replaying.loops(one, _beside(1e9, 1e9 / (played + 10**6)))[2]
    assert slow["clock_ns"] == pytest.approx(10**6, rel=0.1)
    assert slow["predicted"] < several["predicted"]
    told = {"databases": [{"database": "valkey", "case": "always, 1 client", "flush": [],
                           "policies": [], "predictions": [], "loops": [slow]}]}  # fmt: skip
    page = replaying.page(told, lambda _: 7.29)
    assert "| valkey always, 50 clients | default | 29.5 |" in page
    assert "more than 15 %" in page and "tool 12.8" in page
    assert replaying.loops(one, {"cases": _bench()["cases"][:1]}) == []


def test_a_miss_of_the_loop_is_marked_beyond_fifteen_per_cent() -> None:
    one = replaying.Recording("valkey", "always, 1 client", COMMITS, 0, recording())
    bench = _beside(1e9, 1e9)
    predicted = replaying.loops(one, bench)[2]["predicted"]
    for share, is_within in ((1.14, True), (1.16, False), (0.86, True), (0.84, False)):
        bench["cases"][3]["per_second"]["most"] = predicted / share
        assert replaying.loops(one, bench)[2]["is_within"] == is_within


def test_runs_at_rest_are_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the bench log of 2026-11-27, and what docs/bench-dax.md says of them."""
    monkeypatch.setattr(replaying, "costs_of", lambda _bench: loads.costs())
    rest = ((1, 1, 1500, 384, 10_490), (1, 10, 15_000, 3808, 81_967), (50, 1, 20_000, 8772, 75_472))
    rows = []
    for count, pipeline, operations, *rates in rest:
        for kind, rate in zip(("default", "hybrid"), rates, strict=True):
            row = _row(f"{count}, {pipeline}", count, pipeline, Seen(1, 1, 30), type=kind)
            row["case"]["operations"] = operations
            rows.append(row | {"per_second": {"median": rate, "most": rate}})
    of = runs.recorded("valkey")
    assert of is not None
    one = replaying.Recording("valkey", "always, 1 client", of.operations, of.fuse_ns, of.text)
    found = {(row["case"], row["type"]): row for row in replaying.loops(one, {"cases": rows})}
    missed = {key: round(100 * row["missed_by"]) for key, row in found.items()}
    assert missed == {("1, 10", "default"): 0, ("1, 10", "hybrid"): 7,
                      ("50, 1", "default"): 9, ("50, 1", "hybrid"): 18}  # fmt: skip
    assert found["50, 1", "default"]["per_sync_predicted"] == pytest.approx(26.1, rel=0.05)


def _played(names: list[str]) -> Results:
    items = [runs.bench(name, policy) for name in names
             for policy in (runs.WITHOUT, runs.THESIS)]  # fmt: skip
    found = benches.run(items, SETTINGS, None, 1, print)
    played = {item: each for item, each in found.items() if not isinstance(each, str)}
    assert len(played) == len(items), found
    return Results(SETTINGS, {}, benches=played)


def test_one_client_of_the_loop_is_the_one_that_was_recorded() -> None:
    results = _played(["valkey", loads.load(1)])
    for policy in (runs.WITHOUT, runs.THESIS):
        recorded, looped = (runs.rate(results, runs.bench(name, policy)) or 0
                            for name in ("valkey", loads.load(1)))  # fmt: skip
        assert looped == pytest.approx(recorded, rel=0.03)
    syncs = results.benches[runs.bench(loads.load(1))]["part"]["syncs"]
    assert syncs == runs.manifest()["valkey"]["operations"]


def test_fifty_clients_share_as_many_syncs_as_those_that_ran() -> None:
    results = _played([loads.load(50), loads.load(50, 10)])
    frame = group_commit.group_commit(results)
    ours = {(row.workload, row.design, row.metric): row.ours for row in frames.read(frame)
            if row.x == 50.0}  # fmt: skip
    # 20,000 in 766 (bench log).
    assert ours["valkey", "default", "requests_per_sync"] == pytest.approx(26.1, rel=0.05)
    gain, pipelined = (ours[name, "hybrid", "over_default"] for name in ("valkey", "valkey-10"))
    assert gain is not None and pipelined is not None
    # What the thesis has, whose clients are not told.
    assert gain == pytest.approx(7.29, rel=0.25)
    assert pipelined == pytest.approx(4.62, rel=0.25)


def test_a_figure_of_clients_says_what_it_misses(tmp_path: Path) -> None:
    items = group_commit.wants(SETTINGS)
    played = {item: {"part": {"virtual_time_ps": 10**11 if "fs.dax=auto" in item.overrides
                              else 10**12, "syncs": 10}} for item in items}  # fmt: skip
    frame = group_commit.group_commit(Results(SETTINGS, {}, benches=played))
    assert "Marked (!): it is beside no runs" in group_commit.why(frame)
    rows = [_row("always, 8 clients", 8, 1, Seen(1, 1, 1))]
    for gain, said in ((8.8, "within 15 %"), (8.6, "one request each, 8: +16%")):
        rows[0]["over_default"] = {"median": gain}
        folder = tmp_path / str(gain)
        folder.mkdir()
        (folder / "results.json").write_text(json.dumps({"cases": rows}))
        settings = replace(SETTINGS, measured=str(folder))
        frame = group_commit.group_commit(Results(settings, {}, benches=played))
        assert said in group_commit.why(frame)
        group_commit.draw(frame)


@pytest.mark.parametrize("name", [
    "valkey-clients-0", "valkey-clients-", "valkey-clients-1001", "valkey-clients-2-pipeline-0",
    "valkey-clients-2-pipeline-1001", "valkey-clients-many",
])  # fmt: skip
def test_clients_that_cannot_be_are_one_sentence(name: str) -> None:
    item = runs.bench("valkey", more=[f"run.recording={name}"])
    with pytest.raises(UserError, match=r"run\.recording is") as error:
        benches.run([item], SETTINGS, None, 1, print)
    assert "\n" not in str(error.value)


def test_the_core_refuses_clients_that_cannot_be() -> None:
    of = vars(clients.looped(recording(), 0, COSTS, 1, 1, 1))
    for key, value, said in (
        ("count", 0, "count is 0"), ("pipeline", 1001, "pipeline is 1001"),
        ("wake_ns", 10**10, "wake_ns is 10000000000"),
    ):  # fmt: skip
        with pytest.raises(core.ConfigError, match=said):
            core.fs_replay("x", recording(), "ext4-like", clients=of | {key: value})
    with pytest.raises(core.ConfigError, match="of which there are none"):
        core.fs_replay("x", recording(), "ext4-like", clients=of)


def test_lost_decisions_are_not_taken_for_all() -> None:
    kept = [{"at_ps": 1, "event": "judged", "ratio_percent": 50}]
    assert runs.decisions({"decisions": {"kept": kept, "lost": 0}}) == kept
    assert runs.decisions(None) == []
    with pytest.raises(AssertionError, match="3 decisions of a play are lost"):
        runs.decisions(json.loads(json.dumps({"decisions": {"kept": kept, "lost": 3}})))
