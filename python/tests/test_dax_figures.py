"""The figures of transparent DAX from invented results, and the recordings that they play."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from entresol import core
from entresol.core import Json
from entresol.databases.database import BEGIN, END
from entresol.errors import UserError
from entresol.figures import benches, frames, reproduction, writing
from entresol.figures.entry import Figure, choose
from entresol.figures.plan import Bench, Results
from entresol.papers.dax import PAPER, adapting, beyond, measured, runs, synthetic
from entresol.papers.dax.runs import Policy

SETTINGS = PAPER.settings()


def _of(name: str) -> Figure:
    (found,) = choose(PAPER.figures, [name])
    return found


def _played(item: Bench) -> Json:
    """An invented play: with DAX ten times as fast."""
    has_dax = "fs.dax=auto" in item.overrides
    kept = [{"at_ps": 10**12 * at, "event": event, "ratio_percent": 70}
            for at, event in enumerate(("judged", "wants-upgrade", "wants-downgrade"))]  # fmt: skip
    return {
        "part": {
            "virtual_time_ps": 10**11 if has_dax else 10**12,
            "sync_mean_ps": 2 * 10**6,
            "syncs": 100,
        },
        "virtual_time_ps": 10**12,
        "measured": {"dax_frames_in_use": 256, "device_flash_programmed_pages": 30},
        "synced": {"device_flash_programmed_pages": 50},
        "latencies": {"fsync": {"operations": 1000, "mean_ps": 10**6}},
        "decisions": {"kept": kept, "lost": 0},
    }


def _results(figure: Figure, **more: Any) -> Results:
    settings = replace(SETTINGS, **more)
    return Results(settings, {}, benches={item: _played(item) for item in figure.benches(settings)})


@pytest.mark.parametrize("figure", PAPER.figures, ids=lambda figure: figure.name)
def test_every_figure_is_drawn_and_may_lack_everything(figure: Figure) -> None:
    writing.check(PAPER, [figure])
    results = _results(figure)
    frame = figure.frame(results)
    is_measured = bool(figure.lacks(SETTINGS))
    assert (frame["ours"].drop_nulls().len() > 0) != is_measured
    figure.draw(frame)
    figure.why(frame)
    lacking = Results(SETTINGS, {}, failures=dict.fromkeys(results.benches, "no room"))
    empty = figure.frame(lacking)
    assert empty["ours"].drop_nulls().len() == 0
    figure.draw(empty)
    figure.why(empty)


def test_bars_leave_no_room_for_what_was_not_published() -> None:
    figure = _of("unchanged")
    (axes,) = figure.draw(figure.frame(_results(figure))).axes
    # Of six databases each policy, the thesis's number beside the first, and ByteFS's log without
    # DAX and with it.
    assert len(axes.patches) == 6 * 6
    assert not [text for text in axes.texts if text.get_text() == "·"]


def test_every_number_of_the_text_is_computed_from_what_is_asked_for() -> None:
    study = reproduction.of(PAPER)
    plays = study.text.benches(SETTINGS)
    results = Results(SETTINGS, {}, benches={item: _played(item) for item in plays})
    ours = {claim.quantity: claim.ours(results) for claim in study.claims}
    assert None not in ours.values(), ours
    assert ours["RocksDB: speedup"] == pytest.approx(10)
    assert ours["PostgreSQL: share of the rate with fsync=off"] == pytest.approx(
        1000 * runs.manifest()["postgresql"]["operations"]
        / runs.manifest()["postgresql-off"]["operations"]
    )  # fmt: skip
    few = Results(SETTINGS, {}, benches={item: _played(item) for item in plays[:1]})
    assert not any(claim.ours(few) for claim in study.claims if claim.rule.kind != "a setting")


def test_each_cause_has_a_run_or_says_that_none_can_be() -> None:
    study = reproduction.of(PAPER)
    reasons = study.causes()
    assert {cause.claim for cause in reasons if not cause.needs_run} == {
        "PostgreSQL: share of the rate with fsync=off"
    }
    plans = study.plans(SETTINGS, reasons)
    assert plans[0].settings.overrides == () != plans[1].settings.overrides
    for plan in plans:
        assert plan.benches and not plan.wants
        # What a cause sets is not set by the plays themselves, which would win.
        keys = {text.partition("=")[0] for text in plan.settings.overrides}
        for item in plan.benches:
            assert not keys & {text.partition("=")[0] for text in item.overrides}


def test_a_gain_is_over_a_run_without_dax() -> None:
    cells = frames.cells(_of("flush").frame(_results(_of("flush"))), beyond.GAIN)
    ours, published = cells["rocksdb", "hybrid"]
    assert ours == pytest.approx(10) and published == 24.47


def test_what_the_log_still_owes_is_counted_and_times_are_of_what_is_measured() -> None:
    cells = frames.cells(_of("log").frame(_results(_of("log"))), "programs")
    assert cells["rocksdb", "log"][0] == 5, "50 pages of 1,000 syncs"
    cells = frames.cells(_of("log").frame(_results(_of("log"))), "owed")
    assert cells["rocksdb", "log"][0] == 2
    cells = frames.cells(_of("log").frame(_results(_of("log"))), "sync_us")
    assert cells["rocksdb", "log"][0] == 2


def test_names_of_figures_have_no_dots_in_files() -> None:
    assert (_of("6.10").stem, _of("Figure 6.1").stem) == ("fig06-10", "fig06-01")


def test_labels_of_a_figure_leave_out_what_all_have() -> None:
    many = [f"{mode}, 1 client, pipeline 10" for mode in ("always", "everysec", "no")]
    assert measured.labels(many) == ["always", "everysec", "no"]
    few = ["fillsync", "fillsync, use_fsync", "fillseq"]
    assert measured.labels(few) == few


def test_rates_are_those_of_a_bench(tmp_path: Path) -> None:
    row = {
        "case": {"database": "rocksdb", "name": "fillsync"}, "flush": "1ms", "type": "hybrid",
        "per_second": {"median": 5000},
    }  # fmt: skip
    plain = row | {"type": "default", "per_second": {"median": 250}}
    (tmp_path / "results.json").write_text(json.dumps({"cases": [row, plain]}))
    figure = _of("6.11")
    assert "--measured" in figure.lacks(SETTINGS)
    measured = replace(SETTINGS, measured=str(tmp_path))
    assert figure.lacks(measured) == ""
    cells = frames.cells(figure.frame(Results(measured, {})), "over_default")
    assert cells["fillsync", "hybrid"] == (20, 24.47)
    nowhere = replace(SETTINGS, measured=str(tmp_path / "none"))
    with pytest.raises(UserError, match="none: No such file") as error:
        figure.frame(Results(nowhere, {}))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", sorted(runs.manifest()))
def test_a_recording_has_what_is_measured(name: str) -> None:
    found = runs.recorded(name)
    assert found is not None
    operations = [json.loads(line).get("op", {}) for line in found.text.splitlines()]
    assert {BEGIN, END} <= {op["lookup"]["name"] for op in operations if "lookup" in op}
    packed = Path(runs.__file__).parent / "recordings" / f"{name}.rec.xz"
    assert packed.stat().st_size < 300_000
    assert found.operations > 0 and found.fuse_ns > 0


def test_every_recording_that_figures_play_is_there() -> None:
    for figure in PAPER.figures:
        for item in figure.benches(SETTINGS):
            assert runs.recorded(item.workload) is not None, item.workload


def test_rocksdb_gains_and_most_with_large_ranges() -> None:
    policies = [Policy(order=0), Policy(order=4), Policy()]
    ahead = [Policy(runs.PREDICT, order=4), Policy(runs.PREDICT)]
    late = Policy(wait="100ms", order=0)
    items = [runs.bench("rocksdb", of) for of in (runs.WITHOUT, *policies, *ahead, late)]
    found = benches.run(items, SETTINGS, None, 1, lambda _sentence: None)
    results = Results(SETTINGS, {}, benches={
        item: result for item, result in found.items() if not isinstance(result, str)
    })  # fmt: skip
    page, some, most = (runs.gain(results, "rocksdb", of) or 0 for of in policies)
    assert 1 < page < some < most
    small, large = (runs.gain(results, "rocksdb", of) or 0 for of in ahead)
    assert small > 1.1 * some and large > 0.98 * most
    # An append stream has left the page when it is upgraded.
    assert runs.gain(results, "rocksdb", late) == pytest.approx(1, abs=0.02)


def test_what_is_asked_of_a_recording_in_vain_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"run\.fuse") as error:
        benches.conditions(runs.bench("rocksdb", more=["run.fuse=maybe"]), SETTINGS)
    assert "\n" not in str(error.value)
    for name in ("valkey-clients-0", "valkey-shared-30", "none"):
        item = runs.bench("valkey", more=[f"run.recording={name}"])
        with pytest.raises(UserError, match=r"run\.recording") as error:
            benches.run([item], SETTINGS, None, 1, print)
        assert "\n" not in str(error.value)


def test_reactions_are_timed_from_the_changes_of_the_play() -> None:
    """Each sync takes its time, and what was written down knows nothing of that."""
    kept: list[Json] = []
    now = 0.0

    def tell(event: str, after: float) -> None:
        kept.append({"at_ps": int((now + after) * 1e12), "event": event})

    for number in range(synthetic.CYCLES * synthetic.CYCLE):
        now += 0.05
        if synthetic.is_synced(number):
            tell("judged", 0)
            if number % synthetic.CYCLE == 0:
                tell("wants-upgrade", 0.3)
            if number % synthetic.CYCLE == synthetic.SYNCED:
                tell("downgraded", 2)
            now += 0.0025
    ends = adapting.changes(kept, "ends")
    assert len(ends) == synthetic.CYCLES and ends[-1] - ends[0] == pytest.approx(91.6, abs=0.1)
    (item, *_) = adapting.reactivity_wants(SETTINGS)
    played = {"decisions": {"kept": sorted(kept, key=lambda each: int(each["at_ps"])), "lost": 0}}
    frame = adapting.reactivity(Results(SETTINGS, {}, benches={item: played}))
    steps = {row.metric: row.ours for row in frames.read(frame) if row.ours is not None}
    assert steps["decided_s"] == pytest.approx(0.3) and steps["left_s"] == pytest.approx(2)


def test_thresholds_that_adapt_take_a_range_back_and_fixed_ones_do_not() -> None:
    wanted = adapting.reactivity_wants(SETTINGS)
    items = [item for item in wanted if set(adapting.delays(10.0)) <= set(item.overrides)
             and "fs.dax_policy=predict" not in item.overrides]  # fmt: skip
    assert len(items) == 2
    found = benches.run(items, SETTINGS, None, 1, print)
    played = {item: each for item, each in found.items() if not isinstance(each, str)}
    assert len(played) == len(items), found
    frame = adapting.reactivity(Results(SETTINGS, {}, benches=played))
    ours = {(row.design, row.metric): row.ours for row in frames.read(frame) if row.x == 10.0}
    # A stream that is synced steadily tends to M = 50 %, which is not above U = 60 %.
    assert ours["hybrid", "upgraded_share"] == 1 / synthetic.CYCLES
    assert ours["adaptive", "upgraded_share"] == 1
    decided, upgraded = (ours["adaptive", f"{step}_s"] for step in ("decided", "upgraded"))
    assert decided is not None and upgraded is not None
    # An upgrade waits for 10 ms, and begins behind the next sync.
    assert 0.01 < upgraded - decided < 0.2
    assert 0 < decided < 10


def test_ranges_that_nobody_writes_leave_with_the_policy_that_looks_ahead() -> None:
    short = ("fs.dax_write_delay=1s", "fs.dax_write_back_delay=1s")
    text = synthetic.mixed(12)
    held = {}
    for kind in (runs.HYBRID, runs.PREDICT):
        item = runs.bench("mixed-12", Policy(kind, order=4), more=short)
        played = core.fs_replay("mixed", text, item.personality, device=item.device, scale=1,
                                overrides=item.overrides, thinks=True)  # fmt: skip
        held[kind] = played["measured"]["dax_frames_in_use"]
        assert (played["measured"]["dax_let_go"] > 0) == (kind == runs.PREDICT)
    assert 2 * held[runs.PREDICT] < held[runs.HYBRID], held
