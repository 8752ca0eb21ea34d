"""Cost and endurance: the paper's arithmetic, and numbers that can be worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import synthetic
from conftest import Entresol, one_line

from entresol import cost
from entresol.derived import Panel, Run, panels
from entresol.errors import UserError
from entresol.report import economy

RAW = 4 * 2 * 8 * 48 * 32 * 4096
EXPORTED = RAW * 7 // 8
DAY_PS = 86_400 * 10**12


def panel(**times: int) -> Panel:
    """A capture on the synthetic machine, with times of some designs."""
    summary = synthetic.summary(("kv",))
    for run in summary["runs"]:
        name = run["design"].replace("-", "_")
        run["execution_time_ps"] = times.get(name, run["execution_time_ps"])
    return panels(summary)[0]


def find(shown: Panel, design: str) -> Run:
    run = shown.find(design)
    assert run is not None
    return run


def test_the_papers_prices_give_the_papers_ratios() -> None:
    # SkyByte §VI-B: 15.9 times less; 75 % of the performance gives 11.89, printed as 11.8.
    assert round(cost.saving(), 1) == 15.9
    gain = cost.effectiveness(0.75, cost.saving())
    assert gain is not None and math.floor(gain * 10) / 10 == 11.8


def test_a_device_of_a_machine_costs_as_little_as_its_flash() -> None:
    shown = panel(skybyte_full=4 * 10**9, dram_only=3 * 10**9)
    full = find(shown, "skybyte-full")
    price = cost.bill(full)
    assert price.capacity_bytes == EXPORTED
    assert price.device == pytest.approx(EXPORTED / 1e9 * 0.27)
    assert price.saving == pytest.approx(4.28 / 0.27)
    assert cost.performance(shown, full) == 0.75


def test_promoted_pages_and_device_dram_are_on_the_bill_when_they_are_there() -> None:
    shown = panel()
    prices = replace(cost.PAPER, device_dram=2.0)
    plain, full = (cost.bill(find(shown, name), prices) for name in ("base-cssd", "skybyte-full"))
    assert plain.host == 0 and full.host == pytest.approx((4 << 20) / 1e9 * 4.28)
    assert full.device == pytest.approx(EXPORTED / 1e9 * 0.27 + (4 << 20) / 1e9 * 2.0)
    assert full.saving_whole is not None and full.saving is not None
    assert full.saving_whole < full.saving
    ideal = cost.bill(find(shown, "dram-only"), prices)
    assert ideal.saving == ideal.saving_whole == 1


def test_lifetime_is_cycles_of_the_raw_flash_over_all_programs() -> None:
    run = synthetic.run("kv", "skybyte-full")
    run["execution_time_ps"] = DAY_PS // 1000
    run["statistics"]["flash"] |= {"host_program_pages": 3, "program_pages": 4}
    worn = cost.wear(Run(run), replace(cost.PAPER, pe_cycles=1000))
    assert worn is not None
    assert worn.host_bytes_per_day == 3 * 4096 * 1000
    assert worn.flash_bytes_per_day == 4 * 4096 * 1000
    assert worn.drive_writes_per_day == 3 * 4096 * 1000 / EXPORTED
    assert worn.lifetime_days == RAW * 1000 / (4 * 4096 * 1000)


def test_flash_without_a_program_lasts_for_ever_and_unknown_flash_has_no_lifetime() -> None:
    run = synthetic.run("kv", "skybyte-full")
    run["statistics"]["flash"] |= {"host_program_pages": 0, "program_pages": 0}
    worn = cost.wear(Run(run))
    assert worn is not None and worn.lifetime_days == math.inf
    run["config"]["nand"]["t_r"] = "10us"
    worn = cost.wear(Run(run))
    assert worn is not None and worn.rating is None and worn.lifetime_days is None
    assert cost.wear(Run(synthetic.run("kv", "dram-only"))) is None


@pytest.mark.parametrize(("text", "value"), [("4KiB", 4096), ("0B", 0), ("1.5MiB", 3 << 19)])
def test_sizes_are_read_as_the_core_writes_them(text: str, value: int) -> None:
    assert cost.size(text) == value


def test_a_frame_has_a_row_for_each_run() -> None:
    summary: Any = synthetic.summary()
    frame = cost.frame(summary)
    assert frame.height == len(summary["runs"])
    ideal = frame.filter(frame["design"] == "dram-only")
    assert ideal["cost_effectiveness"].to_list() == [1, 1]
    assert ideal["lifetime_days"].to_list() == [None, None]
    assert cost.frame(summary["runs"]).equals(frame)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fash=1", "Did you mean flash"),
        ("flash", "above 0"),
        ("dram=0", "above 0"),
        ("dram=inf", "above 0"),
        ("pe_cycles=many", "above 0"),
        ("dram=1,,flash=2", "no name"),
        ("dram=1,dram=2", "dram is there twice"),
    ],
)
def test_a_price_that_is_none_is_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        cost.parse(text)


def test_prices_are_read_by_name_and_the_rest_is_the_papers() -> None:
    prices = cost.parse("flash=0.1, device_dram=0,pe_cycles=5e3")
    assert prices == cost.Prices(4.28, 0.1, 0.0, 5000)
    assert cost.parse(None) == cost.PAPER


@pytest.mark.usefixtures("fake")
def test_the_command_refuses_a_price_before_anything_runs(
    entresol_command: Entresol, capture_file: Any
) -> None:
    outcome = entresol_command("run", capture_file, "--cost", "dram=cheap")
    assert "dram=cheap" in one_line(outcome)


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (0.5, "12 hours"),
        (3.14, "3.1 days"),
        (700, "700 days"),
        (3652.5, "10 years"),
        (math.inf, "no program"),
        (None, "–"),
    ],
)
def test_a_lifetime_is_said_in_the_unit_that_fits(days: float | None, text: str) -> None:
    assert economy.lifetime(days).text == text.replace(" ", "\u00a0" if days != math.inf else " ")


@pytest.mark.usefixtures("fake")
def test_prices_change_the_report_and_no_result(
    entresol_command: Entresol, capture_file: Any, tmp_path: Any
) -> None:
    words = ("run", capture_file, "--machine", "demo", "--no-store")
    assert entresol_command(*words, "-o", tmp_path / "a").code == 0
    assert entresol_command(*words, "-o", tmp_path / "b", "--cost", "flash=0.5").code == 0
    for name, equal in (
        ("summary.json", True),
        ("results.parquet", True),
        ("report.html", False),
    ):
        made, other = ((tmp_path / place / name).read_bytes() for place in "ab")
        assert (made == other) is equal, name
    page = (tmp_path / "b" / "report.html").read_text(encoding="utf-8")
    assert "SSD at $0.5 per GB." in page and "--cost flash=0.5" in page


def test_a_fast_run_has_no_performance_beside_a_detailed_dram_only() -> None:
    runs = [synthetic.run("kv", name) for name in ("skybyte-full", "dram-only", "skybyte-full")]
    for run, mode, time in zip(runs, ("detailed", "detailed", "fast"), (4, 3, 2), strict=True):
        run |= {"mode": mode, "execution_time_ps": time * 10**9}
    assert cost.frame(runs)["performance"].to_list() == [0.75, 1.0, None]


def test_of_several_dram_only_that_with_the_same_parameters_is_the_reference() -> None:
    def made(design: str, time: int, log: str) -> Any:
        run = synthetic.run("kv", design) | {"execution_time_ps": time * 10**9}
        config = run["config"]
        return run | {"config": config | {"ssd.log": {"size": log}}}

    full = [made("skybyte-full", 8, log) for log in ("1MiB", "2MiB", "4MiB")]
    ideals = [made("dram-only", 4, "1MiB"), made("dram-only", 2, "2MiB")]
    assert cost.frame([*full, *ideals])["performance"].to_list()[:3] == [0.5, 0.25, None]
    # One alone serves all values of a parameter that was not set for it.
    assert cost.frame([*full, ideals[0]])["performance"].to_list()[:3] == [0.5, 0.5, 0.5]
