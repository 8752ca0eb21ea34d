"""`entresol assumptions`: values that are ours, halved and doubled."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from conftest import Entresol

from entresol import assumptions, core
from entresol.assumptions import Change, Moved
from entresol.derived import Run
from entresol.result_types import RunResult
from entresol.study import Capture, Study


@pytest.mark.parametrize(
    ("value", "half", "double"),
    [
        ("64", "32", "128"),
        ("7", "3", "14"),
        ("1", None, "2"),
        ("0", None, None),
        ("0ps", None, None),
        ("40cycles", "20cycles", "80cycles"),
        ("1us", "500ns", "2us"),
        ("2.4GB/s", "1.2GB/s", "4.8GB/s"),
        ("2.5GB/s", "1250MB/s", "5GB/s"),
        ("3GHz", "1500MHz", "6GHz"),
        ("1MiB", "512KiB", "2MiB"),
        ("10%", "5%", "20%"),
        ("5%", "2.5%", "10%"),
        ("12.5%", "6.25%", "25%"),
        ("125/1000", "125/2000", "250/1000"),
        ("1/9", "1/18", "2/9"),
        ("0/1", None, None),
        ("unlimited", None, None),
    ],
)
def test_values_are_halved_and_doubled_with_their_units(
    value: str, half: str | None, double: str | None
) -> None:
    assert assumptions.scaled(value, False) == half
    assert assumptions.scaled(value, True) == double


def test_what_is_left_out_is_said() -> None:
    setup = core.Setup("demo", overrides=("ftl.gc_pages=1",))
    path = Path("x.etr")
    wanted = Study((Capture("x", path, {}, path),), ("base-cssd",), setup, None, False)
    statistics = {"activity": {"gc_invocations": 1}, "os": {}}
    found: Any = {"design": "base-cssd", "statistics": statistics}
    plan = assumptions.plan(wanted, Run(found))
    said = {each.change.key: each for each in plan.refused if "half of" in each.change.changed}
    assert said["ftl.gc_pages"].change.changed == "half of 1"
    assert "no smaller number" in said["ftl.gc_pages"].why
    tried = {change.changed for change in plan.changes if change.key == "ftl.over_provisioning"}
    refused = {e.change.changed for e in plan.refused if e.change.key == "ftl.over_provisioning"}
    assert len(tried | refused) == 2, "it is halved and doubled, or why not is said"


def _moved(key: str, time: float, speedup: float) -> Moved:
    return Moved(Change(key, "16", "32", True), time, speedup)


def _times(base: int, design: int) -> list[RunResult]:
    names = {"base-cssd": base, "skybyte-p": design}
    results = [{"design": name, "execution_time_ps": time} for name, time in names.items()]
    return cast(list[RunResult], results)


def test_what_overturns_the_headline_is_said_first() -> None:
    first = _times(100, 80)
    still = _moved("ssd.buffers", 1.1, 0.9)
    assert "1.25 times as fast" in assumptions.headline(first, [still])
    turned = replace(still, speedup=0.5)
    said = assumptions.headline(first, [turned, still])
    assert said.startswith("ssd.buffers, whose value is ours, decides") and "at 32" in said


def test_changes_are_sorted_by_what_they_move() -> None:
    changes = [Change(key, "16", "32", True) for key in ("a", "b", "c")]
    plan = assumptions.Plan(tuple(changes), (), ())
    results = [*_times(100, 81), *_times(100, 40), *_times(50, 80)]
    moved = assumptions.moved(plan, _times(100, 80), results)
    assert [each.change.key for each in moved] == ["b", "c", "a"]
    assert (moved[0].time, moved[0].speedup) == (0.5, 2.0)
    assert moved[1].speedup == 0.5


def test_what_moves_the_speedup_towards_one_is_taken_farther() -> None:
    path = Path("x.etr")
    wanted = Study((Capture("x", path, {}, path),), ("skybyte-p",), core.Setup("demo"), None, False)
    last = [
        Moved(Change("cpu.l3_latency", "40cycles", "80cycles", True), 1.1, 0.98),
        Moved(Change("cpu.l3_latency", "40cycles", "20cycles", False), 0.9, 1.02),
        Moved(Change("cpu.l2_latency", "10cycles", "20cycles", True), 1.1, 0.995),
        Moved(Change("ssd.promotion.threshold", "2", "1", False), 1.0, 1.0),
        Moved(Change("ssd.promotion.threshold", "2", "4", True), 1.0, 1.0),
        Moved(Change("ssd.promotion.threshold", "2", "600000", True), 1.0, 1.0),
    ]
    plan = assumptions.farther(wanted, _times(100, 80), last)
    assert [(each.key, each.changed) for each in plan.changes] == [
        ("cpu.l3_latency", "160cycles"),
        ("ssd.promotion.threshold", "8"),
    ]
    (refused,) = plan.refused
    assert (refused.change.changed, len(plan.points)) == ("1200000", 4)
    slower = assumptions.farther(wanted, _times(100, 120), last)
    assert ("cpu.l3_latency", "10cycles") in [(e.key, e.changed) for e in slower.changes]


def test_what_overturns_far_off_is_said_if_nothing_nearer_does() -> None:
    first = _times(100, 80)
    far = Moved(Change("ssd.buffers", "16", "256", True), 2.0, 0.5)
    assert "decides" in assumptions.headline(first, [_moved("a.b", 1.1, 0.9)], [far])
    near = _moved("a.b", 1.1, 0.6)
    assert assumptions.headline(first, [near], [far]).startswith("a.b, whose value is ours")
    still = replace(far, speedup=0.9)
    assert "taken farther" in assumptions.headline(first, [], [still])


def test_what_the_paper_leaves_open_is_turned_on_where_it_changes_something() -> None:
    path = Path("x.etr")

    def tried(design: str, *settings: str) -> set[str]:
        setup = core.Setup("demo", overrides=settings)
        wanted = Study((Capture("x", path, {}, path),), (design,), setup, None, False)
        plan = assumptions.opened(wanted, design)
        assert len(plan.points) == 2 * len(plan.changes) and not plan.refused
        return {change.key for change in plan.changes}

    assert {"reads_first", "late_promotion", "stores_own"} <= tried("skybyte-p")
    assert "both_halves" not in tried("skybyte-p"), "no log to compact"
    assert "late_promotion" not in tried("skybyte-w"), "nothing is promoted"
    on = ("nand.scheduling=read_priority", "nand.suspend=true")
    assert "reads_first" not in tried("skybyte-w", *on), "it is on"
    assert "reads_first" in tried("entresol"), "Base-CSSD does not have it"


def test_what_the_paper_leaves_open_is_said_beside_what_is_ours() -> None:
    first = _times(100, 80)
    on = Change("reads_first", "off", "on", True, ("a.b=1",), "reads go first")
    turned = Moved(on, 0.7, 0.5)
    said = assumptions.headline(first, [_moved("c.d", 1.1, 0.9)], (), [turned])
    assert said.startswith("reads_first, which the paper leaves open, decides: skybyte-p is faster")
    assert "not where reads go first (0.625)" in said and "halved or doubled" in said
    said = assumptions.headline(first, [_moved("c.d", 1.1, 0.6)], (), [turned])
    assert said.startswith("c.d, whose value is ours, decides") and "open, also decides" in said
    still = replace(turned, speedup=0.9)
    assert "open" not in assumptions.headline(first, [_moved("c.d", 1.1, 0.9)], (), [still])


def test_a_mechanism_that_did_not_act_moves_nothing() -> None:
    activity = {"promotions": 0, "log_fills": 3}
    found: Any = {"statistics": {"activity": activity}}
    run = Run(found)
    assert not assumptions.acted(run, "ssd.promotion.fetch_uses")
    assert assumptions.acted(run, "ssd.promotion.threshold"), "half of it may wake promotion"
    assert assumptions.acted(run, "ssd.compaction.batch")
    assert assumptions.acted(run, "nand.channel_bandwidth")


def test_the_planted_bus_is_found(entresol_command: Entresol, captured: Path) -> None:
    """Channels so slow that a page takes 80 us, whose speed no paper gives."""
    planted = ("--set", "nand.channel_bandwidth=50MB/s")
    words = ("--machine", "demo", "--design", "skybyte-w", "--mode", "fast", "--threads", "2")
    outcome = entresol_command("assumptions", captured, *words, *planted, "--json")
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    first = told["moved"][0]
    assert (first["parameter"], first["changed"]) == ("nand.channel_bandwidth", "25MB/s")
    assert first["time_micro"] > 1_500_000
    named = {each["parameter"] for each in told["moved"]}
    assert "ssd.promotion.threshold" not in named and "tpp.fault_cost" not in named


def test_a_threshold_of_ours_that_decides_is_in_the_first_sentence(
    entresol_command: Entresol, captured: Path
) -> None:
    """Pages that are worth their move to the host with 16 accesses before it, and not with 32."""
    words = ("--machine", "demo", "--design", "skybyte-p", "--mode", "fast", "--threads", "2")
    sizes = ("--set", "ssd.dram=512KiB", "--set", "ssd.log.size=16KiB")
    outcome = entresol_command("assumptions", captured, *words, *sizes)
    assert outcome.code == 0, outcome.err
    first = " ".join(outcome.out[: outcome.out.index("┏")].split())
    assert first.startswith("ssd.promotion.threshold, whose value is ours, decides: skybyte-p is")
    assert "at 16, and not at 32" in first


def test_explain_gain_names_the_loads_that_wait_for_all_sources(
    entresol_command: Entresol, captured: Path
) -> None:
    """One of three by which the reference simulator differs, where it decides and the other two are
    worth nothing."""
    others = ("warmup_counts_forgotten", "warmup_residue_counted")
    switches = ",".join(("loads_wait_for_all_sources", *others))
    words = ("--machine", "demo", "--design", "skybyte-p", "--switch", switches)
    sizes = ("ssd.promotion.threshold=32", "run.warmup=50%", "ssd.dram=1MiB")
    sets = [word for size in sizes for word in ("--set", size)]
    outcome = entresol_command("explain-gain", captured, *words, *sets)
    assert outcome.code == 0, outcome.err
    screen = "\n".join(outcome.out.splitlines()[:24])
    assert "Most of what lies between: loads wait for every source" in " ".join(screen.split())
    told = json.loads(entresol_command("explain-gain", captured, *words, *sets, "--json").out)
    worth = {share["name"]: share["shapley_micro"] for share in told["shares"]}
    assert worth["loads_wait_for_all_sources"] < 900_000
    assert all(950_000 < worth[name] < 1_050_000 for name in others)


def test_explain_gain_shares_out_our_own_design(entresol_command: Entresol, captured: Path) -> None:
    """Its three large mechanisms: what they are worth together is what lies between without and
    with all, and a mechanism in a run of which all others are on is the last in."""
    words = ("--machine", "demo", "--design", "entresol", "--by", "mechanisms", "--mode", "fast")
    outcome = entresol_command("explain-gain", captured, *words, "--json")
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    names = {"write_log", "migration", "context_switch"}
    assert {share["name"] for share in told["shares"]} == names
    between = told["speedup_with_all_micro"] / told["speedup_without_micro"]
    assert math.prod(share["shapley_micro"] / 1e6 for share in told["shares"]) == pytest.approx(
        between, rel=1e-4
    )
    times = {
        frozenset(each["on"]): each["reference_ps"] / each["design_ps"]
        for each in told["configurations"]
    }
    for share in told["shares"]:
        last = times[frozenset(names)] / times[frozenset(names - {share["name"]})]
        assert share["last_in_micro"] / 1e6 == pytest.approx(last, rel=1e-4)
