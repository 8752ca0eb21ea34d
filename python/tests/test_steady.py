"""The steady state: marks, debts, and the command from a capture to its file."""

from __future__ import annotations

import json
import math
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Entresol

from entresol import core, steadiness, steady
from entresol.steadiness import PARTS


def _way(**grows: int) -> dict[str, Any]:
    """A pass in which each count grows evenly, to what is said."""
    looks = []
    for part in range(0, PARTS + 1, PARTS // 8):
        look = {"part": part}
        for name in (
            "cache_fills",
            "log_fills",
            "erased_blocks",
            "promotions",
            "demotions",
            "first_touches",
            "page_fetches",
            "reads",
            "writes",
        ):
            look[name] = grows.get(name, 0) * part // PARTS
        looks.append(look)
    machine = {
        "frames": 100,
        "half_lines": 64,
        "dies": 10,
        "host_pages": 1_000,
        "device_dram_bytes": 400 * 4096,
    }
    return {
        "trace": "t",
        "design": "d",
        "instructions": 1_000_000,
        "machine": machine,
        "pass": looks,
    }


STEADY = {
    "cache_fills": 800,
    "log_fills": 16,
    "erased_blocks": 40,
    "promotions": 500,
    "demotions": 450,
    "first_touches": 4_000,
    "page_fetches": 40_000,
    "reads": 70_000,
    "writes": 30_000,
}


def test_a_design_is_steady_from_where_its_last_mark_is_met() -> None:
    # 3 turnovers are 300 of 800 fills, 6 of 16 halves as many eighths, 10 of 40 erases fewer.
    way = _way(**STEADY)
    assert steadiness.steady_from(way) == PARTS * 3 // 8
    found = steadiness.at(way, PARTS // 2)
    assert found.is_steady and not found.unmet
    assert found.touched == pytest.approx(2_000 / 400)
    assert found.first_touches == pytest.approx(0.1)
    assert steadiness.missing(way, PARTS // 2) is None


def test_windows_begin_where_all_are_steady_at_once() -> None:
    # The first has both marks from 3/8 on, and from 5/8 to 6/8 more promotions than demotions.
    early, late = _way(**STEADY), _way(**(STEADY | {"cache_fills": 480}))
    assert steadiness.begin_of([early, late]) == steadiness.steady_from(late) == PARTS * 5 // 8
    for look in early["pass"]:
        if look["part"] == PARTS * 5 // 8:
            look["demotions"] += 100
    assert steadiness.steady_from(early) == PARTS * 3 // 8
    assert steadiness.begin_of([early, late]) == PARTS * 6 // 8


@pytest.mark.parametrize(
    ("changed", "words", "times"),
    [
        ({"cache_fills": 200}, "1.50 of 3 turnovers of the data cache", "2.0 times as long"),
        ({"log_fills": 4}, "3.00 of 6 fills of log halves", "2.0 times as long"),
        ({"erased_blocks": 12}, "0.900 of 1 erases a die", "1.1 times as long"),
        (
            {"erased_blocks": 0},
            "0 of 1 erases a die",
            "how much erases a die need, of which it has none",
        ),
        ({"demotions": 300}, "125 promotions against 75 demotions", "is not known"),
    ],
)
def test_what_is_missing_is_one_sentence(changed: dict[str, int], words: str, times: str) -> None:
    way = _way(**(STEADY | changed))
    assert steadiness.steady_from(way) is None
    begin = steadiness.begin_of([way, _way(**STEADY)])
    assert begin == steadiness.LATEST
    sentence = steadiness.missing(way, begin)
    assert sentence is not None and words in sentence and times in sentence, sentence


def test_a_capture_that_is_far_too_short_is_told_how_much_is_missing() -> None:
    """What has not begun is no reason not to say what is known: of a short capture most has not."""
    way = _way(**(STEADY | {"cache_fills": 30, "log_fills": 0, "erased_blocks": 0}))
    sentence = steadiness.missing(way, steadiness.LATEST)
    assert sentence is not None and "0.220 of 3 turnovers" in sentence
    assert "at least 13 times as long, some 13.3\u00a0M instructions" in sentence, sentence
    assert "fills of log halves and erases a die need, of which it has none" in sentence, sentence


def test_data_that_fit_are_not_told_to_wait() -> None:
    """Pages that all fit in the data cache turn nothing over, however long the capture is."""
    way = _way(**(STEADY | {"cache_fills": 90, "first_touches": 80}))
    sentence = steadiness.missing(way, steadiness.LATEST)
    assert sentence is not None and "0.670 of 3 turnovers" in sentence
    assert "all 80 pages that it touches fit in the 100 of the data cache" in sentence, sentence
    assert "with more data, or set less ssd.dram" in sentence and "times as long" not in sentence


def test_windows_that_begin_early_are_sent_later() -> None:
    way = _way(**(STEADY | {"erased_blocks": 24}))
    for look in way["pass"]:
        # Erases begin in the middle: 12 of the 10 wanted by six eighths.
        look["erased_blocks"] = max(0, look["erased_blocks"] - 12) * 2
    sentence = steadiness.missing(way, PARTS // 8)
    assert sentence is not None and "0 of 1 erases a die" in sentence
    assert "never" not in sentence and "from 75 % of the program on: --from 75." in sentence
    for look in way["pass"]:
        look["erased_blocks"] //= 2
    sentence = steadiness.missing(way, PARTS // 8)
    assert sentence is not None and "never" not in sentence
    assert "1.1 times as long" in sentence, sentence


def test_only_marks_that_are_not_met_say_how_much_longer() -> None:
    # 3.1 turnovers at three quarters, 3.4 at the end.
    way = _way(**(STEADY | {"demotions": 300}))
    for look in way["pass"]:
        before = 310 * look["part"] / steadiness.LATEST
        look["cache_fills"] = before if look["part"] <= steadiness.LATEST else 340
    sentence = steadiness.missing(way, steadiness.LATEST)
    assert sentence is not None and "turnovers" not in sentence
    assert "125 promotions against 75" in sentence and "is not known" in sentence, sentence
    # 0.95 of 1 erase a die, 1.27 at the end: nine tenths of the turnovers' factor.
    for look in way["pass"]:
        look["erased_blocks"] = 12.7 * look["part"] / PARTS
    sentence = steadiness.missing(way, steadiness.LATEST)
    assert sentence is not None and "0.952 of 1 erases" in sentence
    assert "1.0 times as long" in sentence, sentence


def test_few_promotions_are_balanced_whatever_their_share() -> None:
    way = _way(**(STEADY | {"promotions": 8, "demotions": 0}))
    assert steadiness.steady_from(way) is not None


def test_a_program_that_stops_writing_is_in_another_phase() -> None:
    way = _way(**STEADY)
    for look in way["pass"]:
        look["writes"] = min(look["writes"], 15_000)
    found = steadiness.at(way, PARTS // 2)
    assert not found.is_one_phase and not found.is_steady
    assert found.unmet == [
        "another phase: 30\u00a0% of all requests were writes before, 0\u00a0% are"
    ]
    # From an earlier part on there is writing on both sides.
    assert steadiness.at(way, PARTS // 4).write_shares == pytest.approx((0.3, 7_500 / 60_000))


def _run(design: str, times: list[int], owed: tuple[int, int]) -> dict[str, Any]:
    """Windows of one thread of a thousand instructions, with what is owed at both ends."""

    def debt(pay: int) -> dict[str, int]:
        return {
            "frame_bytes": pay,
            "buffer_bytes": 0,
            "log_bytes": 0,
            "host_bytes": 0,
            "program_pages": pay,
            "host_program_pages": 0,
            "pay_ps": pay,
            "host_pay_ps": 0,
        }

    windows = [
        {
            "window": index,
            "pace": [{"thread": 0, "instructions": 9, "executed": 1_000, "active_ps": time}],
            "counts": {
                "time_ps": time,
                "instructions": 1_000,
                "program_pages": 5,
                "reads": 10,
                "read_ps": 1_000,
                "all_reads": 10,
                "all_read_ps": 5_000,
            },
            "debt": {"begin": debt(owed[0]), "end": debt(owed[1])},
        }
        for index, time in enumerate(times)
    ]
    return {"design": design, "windows": windows}


def test_a_design_that_is_faster_because_it_owes_more_is_marked() -> None:
    runs = [
        _run("base-cssd", [1_000, 1_010, 990], (0, 0)),
        _run("skybyte-w", [900, 909, 891], (0, 200)),
        _run("skybyte-full", [500, 505, 495], (100, 100)),
    ]
    base, log, full = steady.rows(runs)
    assert (base.ratio.value, base.owes_to) == (1.0, ())
    assert log.ratio.value == pytest.approx(0.9)
    assert log.paid_ratio == pytest.approx(1.1)
    assert log.owes_to == ("base-cssd",)
    assert full.paid_ratio == pytest.approx(0.5) and full.owes_to == ()
    assert log.json()["is_marked"] and not full.json()["is_marked"]
    assert log.json()["debt"]["pay_ps"] == [0, 200]


def test_a_design_that_owes_nothing_is_not_marked_for_what_others_pay() -> None:
    runs = [
        _run("base-cssd", [1_000, 1_010, 990], (0, 0)),
        _run("skybyte-full", [500, 505, 495], (900, 700)),
        _run("dram-only", [490, 495, 485], (0, 0)),
    ]
    assert [row.owes_to for row in steady.rows(runs)] == [(), (), ()]


def test_a_debt_within_the_interval_is_not_marked() -> None:
    runs = [
        _run("base-cssd", [1_000, 1_200, 800], (0, 0)),
        _run("skybyte-w", [700, 900, 800], (0, 10)),
    ]
    log = steady.rows(runs)[1]
    assert log.paid_ratio > log.ratio.value and log.owes_to == ()


def test_a_capture_to_its_windows_and_again_from_the_store(
    entresol_command: Entresol, tmp_path: Path
) -> None:
    words = ["steady", ROOT / "traces" / "sort.etr", "--machine", "demo", "--store", tmp_path / "s"]
    words += ["--design", "base-cssd,skybyte-w", "--windows", "3", "--window", "20000"]
    first = entresol_command(*words, "-o", tmp_path / "one")
    assert first.code == 0, first.err
    assert "time ÷ base-cssd" in first.out and "erases a die" in first.out
    # Fetched ahead are pages that nobody had touched, too, so it is no share.
    assert "first touches ÷ fetches" in first.out
    written = json.loads((tmp_path / "one" / "steady.json").read_text())
    (trace,) = written["traces"]
    assert [row["design"] for row in trace["estimates"]] == ["base-cssd", "skybyte-w"]
    assert trace["estimates"][0]["ratio_micro"] == 1_000_000
    assert all(len(run["windows"]) == 3 for run in trace["runs"])
    assert all(run["pass"][-1]["part"] == PARTS for run in trace["runs"])
    assert len(trace["missing"]) == 2 - sum(row["is_steady"] for row in trace["marks"])
    kept = sorted((tmp_path / "s").rglob("*.json")) + sorted((tmp_path / "s").rglob("*.misses"))
    # What is made anew is another file under the same name.
    before = [path.stat().st_ino for path in kept]
    assert len(kept) == 5
    again = entresol_command(*words, "-o", tmp_path / "two")
    assert again.code == 0, again.err
    assert (tmp_path / "two" / "steady.json").read_bytes() == (
        tmp_path / "one" / "steady.json"
    ).read_bytes()
    assert [path.stat().st_ino for path in kept] == before


def test_what_has_no_steady_state_is_refused(entresol_command: Entresol, tmp_path: Path) -> None:
    trace = ROOT / "traces" / "sort.etr"
    common = ["--machine", "demo", "--store", tmp_path]
    for designs in ("skybyte-ct", "base-cssd,skybyte-ct"):
        outcome = entresol_command("steady", trace, "--design", designs, *common)
        assert outcome.code == 2 and "samples pages" in outcome.err
    for place in ((), ("--from", "50")):
        outcome = entresol_command(
            "steady", trace, "--design", "base-cssd", "--window", "90000000", *place, *common
        )
        assert outcome.code == 2 and "do not fit" in outcome.err
        assert "left out" not in outcome.err
    outcome = entresol_command(
        "steady", trace, "--design", "all", "--window", "90000000", "--from", "50", *common
    )
    assert outcome.code == 2 and "left out: skybyte-ct, skybyte-wct, whose" in outcome.err
    assert not list(tmp_path.rglob("*.misses")), "before a pass is paid for"


def _tuned() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "steady-tuned"))


def test_a_sweep_sets_what_the_tuned_design_reads() -> None:
    sweep = _tuned()["SWEEP"]
    assert sweep["programs"] == (("ftl.program_to=idle_die",),)
    entries = [entry for group in sweep.values() for entry in group]
    plain = core.effective_config(core.Setup("demo"), "skybyte-full")
    for entry in entries:
        setup = core.Setup("demo", overrides=entry)
        assert core.effective_config(setup, "skybyte-full") != plain, entry
        assert core.unread_keys(setup, "skybyte-full") == [], entry


def test_of_each_group_the_best_stays_if_it_helps_once_debts_are_paid(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = _tuned()
    worth = {"ftl.program_to=idle_die": 0.8, "ssd.cache.policy=two_q": 0.9, "os.switch": 1.1}

    def measure(_: list[str], design: str, settings: tuple[str, ...] = ()) -> Any:
        factor = math.prod(f for s in settings for name, f in worth.items() if s.startswith(name))
        time = 500.0 if design == "entresol" else 1_000 * factor
        return tuned["Measured"](time, 1.0, time)

    scope = tuned["main"].__globals__
    monkeypatch.setitem(scope, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["steady-tuned", "a.etr", "--from", "50"])
    assert tuned["main"]() == 0
    told = capsys.readouterr().out
    assert "best of skybyte-full: ssd.cache.policy=two_q ftl.program_to=idle_die\n" in told
    assert "skybyte-full ÷ entresol: 2.000, paid 2.000; best ÷ entresol: 1.440" in told


def test_one_setting_for_all_programs_is_the_best_by_their_mean(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = _tuned()
    worth = {
        "a": {"ssd.cache.policy=two_q": 0.5, "ftl.program_to": 1.2},
        "b": {"ssd.cache.policy=two_q": 1.6, "ftl.program_to": 0.8},
        "c": {"ssd.cache.policy=two_q": 4.0},
    }

    def measure(words: list[str], design: str, settings: tuple[str, ...] = ()) -> Any:
        of = worth[Path(words[0]).stem]
        factor = math.prod(f for s in settings for name, f in of.items() if s.startswith(name))
        time = 500.0 if design == "entresol" else 1_000 * factor
        return tuned["Measured"](time, 1.0, time)

    monkeypatch.setitem(tuned["main"].__globals__, "measure", measure)
    words = ["a.etr", "--from", "50", "--program", "b.etr --from 50", "--also", "c.etr --from 50"]
    monkeypatch.setattr(sys, "argv", ["steady-tuned", *words])
    assert tuned["main"]() == 0
    told = capsys.readouterr().out
    # 0.5 x 1.6 is a gain, and 1.2 x 0.8 is one; c is not asked.
    assert "best of skybyte-full: ssd.cache.policy=two_q ftl.program_to=idle_die\n" in told
    assert "a: skybyte-full ÷ entresol: 2.000, paid 2.000; best ÷ entresol: 1.200" in told
    assert "c: skybyte-full ÷ entresol: 2.000, paid 2.000; best ÷ entresol: 8.000" in told
    assert "all: skybyte-full ÷ entresol: 2.000" in told


def test_the_best_of_a_sweep_is_judged_on_placements_that_had_no_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = _tuned()

    def steady(words: list[str], design: str, settings: tuple[str, ...]) -> dict[str, Any]:
        is_lucky = "ssd.cache.policy=clock" in settings
        times = [1_000 if design == "entresol" else 1_500 if is_lucky else 2_000]
        more = int(words[words.index("--placements") + 1]) - 1 if "--placements" in words else 0
        times += [1_000 if design == "entresol" else 3_000] * more
        owed = {"pay_ps": 500, "host_pay_ps": 500}
        runs = [
            {
                "windows": [
                    {
                        "counts": {"time_ps": time, "instructions": 1_000},
                        "debt": {"begin": dict.fromkeys(owed, 0), "end": owed},
                    }
                ]
            }
            for time in times
        ]
        row = {"instruction_fs": times[0], "instruction_half_width_fs": 1}
        return {"runs": runs, "estimates": [{**row, "debt": {"pay_ps": (0, 1_000)}}]}

    monkeypatch.setitem(tuned["main"].__globals__, "steady", steady)
    monkeypatch.setattr(sys, "argv", ["steady-tuned", "a.etr", "--from", "50", "--judge", "3"])
    assert tuned["main"]() == 0
    told = capsys.readouterr().out.splitlines()
    assert "best of skybyte-full: ssd.cache.policy=clock" in told
    assert told[-3].endswith("best ÷ entresol: 1.500, paid 1.250"), "where it was chosen"
    assert told[-2] == "on 3 placements more"
    assert told[-1].endswith("best ÷ entresol: 3.000, paid 2.000"), "where it was not"
