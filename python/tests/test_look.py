"""`explain-gain`, `timeline` and `why` on made-up runs."""

from __future__ import annotations

import json
from pathlib import Path

import fake_core
import pytest
from conftest import Entresol

from entresol.inspection import slow_load, timeline

pytestmark = pytest.mark.usefixtures("fake")


def test_explain_gain_shares_out_the_switches_and_repeats_each_configuration(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path
) -> None:
    outcome = entresol_command("explain-gain", capture_file, "-o", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    assert "no_prefetch" in outcome.out and outcome.out.rstrip().endswith("gain.html")
    written = json.loads((tmp_path / "out" / "gain.json").read_text())
    assert [share["name"] for share in written["shares"]] == ["no_prefetch"]
    assert [item["on"] for item in written["configurations"]] == [[], ["no_prefetch"]]
    assert written["configurations"][1]["command"] == (
        "entresol run sort.etr --design skybyte-full --machine table2 --fidelity no_prefetch"
    )
    page = (tmp_path / "out" / "gain.html").read_text()
    assert page.count("<svg") == 3 and "No prefetcher" in page
    for head in ("first in", "last in", "Shapley", "95 % interval", "speedup", "interaction"):
        assert f">{head}</dt>" in page, head
    assert "over every order" in page and ">exact<" in page
    assert "skybyte-full on" not in page[page.index("<h1>") : page.index("</h1>")]


def test_explain_gain_wants_one_design_and_a_known_switch(
    entresol_command: Entresol, capture_file: Path
) -> None:
    outcome = entresol_command("explain-gain", capture_file, "--design", "all")
    assert outcome.code == 2 and "one design" in outcome.err
    outcome = entresol_command("explain-gain", capture_file, "--switch", "no_prefech")
    assert outcome.code == 2 and "did you mean no_prefetch" in outcome.err
    outcome = entresol_command("explain-gain", capture_file, "--by", "magic")
    assert outcome.code == 2 and "'switches', 'mechanisms'" in outcome.err


def test_a_timeline_is_a_file_of_trace_events(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path
) -> None:
    target = tmp_path / "t.json"
    outcome = entresol_command(
        "timeline", capture_file, "--from", "1.5us", "--for", "2ms", "-o", target
    )
    assert outcome.code == 0, outcome.err
    events = json.loads(target.read_text())["traceEvents"]
    kinds = [event["ph"] for event in events]
    assert kinds.count("b") == kinds.count("e") > 0 and "X" in kinds
    assert fake_core.made[-1].span == (1_500_000, 2_001_500_000)
    read = next(event for event in events if event["ph"] == "b")
    assert (read["ts"], read["args"]["flash_us"]) == (1.0, 3.0)


def test_a_stretch_behind_the_end_is_refused(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path
) -> None:
    outcome = entresol_command("timeline", capture_file, "--from", "9s", "-o", tmp_path / "t.json")
    assert outcome.code == 2 and "--from 9s: the run ends after" in outcome.err
    assert not (tmp_path / "t.json").exists()


def test_a_configuration_is_repeated_with_every_option_that_made_it(
    entresol_command: Entresol, capture_file: Path
) -> None:
    options = ("--threads", "2", "--set", "ssd.log.size=1 MiB", "--dependencies", "chain")
    gain = json.loads(entresol_command("explain-gain", capture_file, *options, "--json").out)
    assert gain["configurations"][0]["command"] == (
        "entresol run sort.etr --design skybyte-full --machine table2 --threads 2 "
        "--set 'ssd.log.size=1 MiB' --dependencies chain"
    )


def test_a_time_needs_a_unit(
    entresol_command: Entresol, capture_file: Path, tmp_path: Path
) -> None:
    outcome = entresol_command("timeline", capture_file, "--from", "15", "-o", tmp_path / "t.json")
    assert outcome.code == 2 and "--from 15: write a time with its unit" in outcome.err
    assert not (tmp_path / "t.json").exists()


def test_why_tells_the_parts_of_the_slowest_load(
    entresol_command: Entresol, capture_file: Path
) -> None:
    outcome = entresol_command("why", capture_file)
    assert outcome.code == 0, outcome.err
    assert "line 3 of page 2, asked for by core 1" in outcome.out
    told = json.loads(entresol_command("why", capture_file, "--json").out)
    assert sum(part["time_ps"] for part in told["parts"]) == told["latency_ps"] == 9_000_000
    flash = next(part for part in told["parts"] if part["name"] == "flash")
    # The die took the read up 1 us after it was submitted and needed 2 us.
    assert "1.00\u00a0µs behind other operations, 2.00\u00a0µs to read" in flash["note"]
    assert [operation["kind"] for operation in told["die_operations"]] == ["program", "read"]


def test_why_of_a_rank_that_no_load_has(entresol_command: Entresol, capture_file: Path) -> None:
    outcome = entresol_command("why", capture_file, "--rank", "2")
    assert outcome.code == 2 and "only 1 reads came from the device" in outcome.err


def test_other_dies_and_other_times_are_not_part_of_a_story() -> None:
    recorded = json.loads(fake_core.RECORDED)
    told = slow_load.tell(recorded["slowest"][0], recorded)
    assert all(operation["die"] == 5 for operation in told.operations)


def test_a_page_that_came_as_a_whole_has_no_line() -> None:
    recorded = json.loads(fake_core.RECORDED)
    access = recorded["slowest"][0] | {"is_page": True, "core": None}
    told = slow_load.tell(access, recorded)
    assert told.headline.startswith("page 2 as a whole: 9.00")
    recorded["accesses"] = [access]
    events = json.loads(timeline.text(recorded, "one page"))["traceEvents"]
    read = next(event for event in events if event["ph"] == "b")
    assert read["args"]["page"] == 2 and "line" not in read["args"]
