"""The page of a sweep: every point, what was varied, what failed, and what it did."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
import synthetic
from test_report import structure

from entresol import core, report
from entresol.derived import Run
from entresol.report import effects, sweep_points, sweep_tables

pytestmark = pytest.mark.usefixtures("fake")
LOGS = ("1MiB", "2MiB", "4MiB")


def sweep(points: list[report.Point]) -> str:
    told = report.Sweep("Logs", points, "entresol sweep logs.toml", 'title = "Logs"', "0.0.0")
    return report.sweep_page(told, core.designs(), core.parameters())


def point(trace: str, design: str, time: int, **varied: str) -> report.Point:
    run: Any = synthetic.run(trace, design) | {"execution_time_ps": time * 10**9}
    places = {key.replace("__", "."): text for key, text in varied.items()}
    return report.Point({"trace": trace, "design": design, **places}, run)


def grid() -> list[report.Point]:
    return [
        point(trace, design, 10 + index, ssd__log__size=log)
        for index, (trace, design, log) in enumerate(
            product(("a", "b"), ("base-cssd", "skybyte-w"), LOGS)
        )
    ]


def done(points: list[report.Point]) -> list[sweep_points.Done]:
    return [
        sweep_points.Done(number, item.varied, Run(item.run))
        for number, item in enumerate(points)
        if item.run is not None
    ]


def test_every_point_is_a_row_and_every_reference_resolves() -> None:
    text = sweep(grid())
    page = structure(text)
    assert len(set(page.ids)) == len(page.ids)
    assert set(page.anchors) | set(page.labels) <= set(page.ids)
    body = text[text.index("<caption>Points<") :]
    rows = re.findall(r"<tr.*?</tr>", body[: body.index("</tbody>")])
    assert len(rows) == 1 + len(grid())
    assert "12 points over trace (2), design (2), ssd.log.size (3)." in text


def test_points_that_failed_are_named_first_with_their_sentence() -> None:
    failed = report.Point(
        {"trace": "a", "design": "skybyte-w", "ssd.log.size": "9GiB"}, None, "it is <too> large."
    )
    text = sweep([*grid(), failed])
    assert "13 points" in text and "1 of them failed" in text
    assert "<b>12</b> (a, skybyte-w, ssd.log.size = 9GiB): it is &lt;too&gt; large." in text
    structure(text)


def test_a_sweep_of_failures_alone_has_a_page() -> None:
    structure(sweep([report.Point({"trace": "a", "design": "base-cssd"}, None, "no.")]))
    structure(sweep([]))


def test_a_sweep_of_one_point_has_a_page() -> None:
    structure(sweep(grid()[:1]))


def test_an_effect_is_a_geometric_mean_over_places_that_have_every_value() -> None:
    points = [
        point("a", "base-cssd", 8, ssd__log__size="1MiB", n="1"),
        point("a", "base-cssd", 2, ssd__log__size="2MiB", n="1"),
        point("a", "base-cssd", 2, ssd__log__size="1MiB", n="2"),
        point("a", "base-cssd", 2, ssd__log__size="2MiB", n="2"),
        point("a", "base-cssd", 99, ssd__log__size="1MiB", n="3"),  # Without its other value.
    ]
    (line,) = effects.effects("ssd.log.size", ("1MiB", "2MiB"), done(points))
    assert line.values == pytest.approx((1, 0.5))  # Means of 4 and 2.


def test_a_value_that_fails_everywhere_leaves_a_gap_and_the_rest_of_the_line() -> None:
    points = [
        point("a", "base-cssd", 8, log="1"),
        point("a", "base-cssd", 8, log="2"),
        point("a", "base-cssd", 8, log="9"),
        point("a", "skybyte-w", 4, log="1"),
        point("a", "skybyte-w", 2, log="2"),
    ]
    lines = {line.design: line.values for line in effects.effects("log", "129", done(points))}
    assert lines["skybyte-w"][:2] == pytest.approx((0.5, 0.25)) and lines["skybyte-w"][2] is None


def test_a_design_without_a_comparable_place_is_named() -> None:
    points = [
        point("a", "base-cssd", 8, log="1", n="1"),
        point("a", "base-cssd", 8, log="2", n="2"),
    ]
    assert "a: no line for base-cssd; no place has a point for every value." in sweep(points)


def test_points_that_fail_alike_are_said_once() -> None:
    failed = [report.Point({"design": "skybyte-w", "n": str(n)}, None, "no room.") for n in "123"]
    text = sweep([*grid(), *failed])
    assert text.count("no room.") == 1 and "<b>12–14</b>: no room." in text
    assert "<li>13: skybyte-w, n = 2</li>" in text


def test_effects_are_relative_to_base_cssd_wherever_it_stands() -> None:
    points = [
        point("a", "skybyte-w", 5, log="1"),
        point("a", "skybyte-w", 4, log="2"),
        point("a", "base-cssd", 10, log="1"),
        point("a", "base-cssd", 10, log="2"),
    ]
    lines = {line.design: line.values for line in effects.effects("log", "12", done(points))}
    assert lines["skybyte-w"] == pytest.approx((0.5, 0.4))


def test_designs_are_compared_where_all_of_them_have_points() -> None:
    times = {"512MiB": 10, "64MiB": 40}
    points = [
        point("a", design, times[dram], ssd__dram=dram, log=log)
        for design, dram, log in product(("base-cssd", "skybyte-w"), times, "12")
    ]
    del points[0]  # Base-CSSD has the slow place whole, and of the fast one a half.
    lines = {line.design: line.values for line in effects.effects("log", "12", done(points))}
    assert lines == {"base-cssd": (1.0, 1.0), "skybyte-w": (1.0, 1.0)}


def test_a_design_that_an_axis_says_nothing_of_is_compared_where_the_rest_is_equal() -> None:
    points = [
        *(point("a", "base-cssd", 10, ssd__dram=dram) for dram in "12"),
        *(point("a", "skybyte-w", time, ssd__dram=dram, log=log)
          for dram in "12" for log, time in (("1", 20), ("2", 5))),
    ]  # fmt: skip
    lines = {line.design: line.values for line in effects.effects("ssd.dram", "12", done(points))}
    assert lines["skybyte-w"] == pytest.approx((1, 1))  # The mean of twice and of half.


def test_the_page_has_performance_beside_dram_only() -> None:
    points = [point("a", "base-cssd", 10, log="1"), point("a", "dram-only", 1, log="1")]
    text = sweep(points)
    costs = text[text.index("<caption>Cost and endurance<") :]
    rows = re.findall(r"<tr.*?</tr>", costs[: costs.index("</tbody>")])
    assert len(rows) == 2, "the heads, and the device"
    assert "10\xa0%" in rows[1]


def test_performance_is_compared_with_dram_only_at_the_same_place() -> None:
    points = [
        point("a", "skybyte-w", 4, threads="8"),
        point("a", "dram-only", 1, threads="8"),
        point("a", "skybyte-w", 4, threads="24"),
        point("a", "dram-only", 2, threads="24"),
    ]
    panels = sweep_points.beside(done(points))
    times = [panel.find("dram-only") for panel in panels]
    assert [run.time_ps // 10**9 for run in times if run] == [1, 1, 2, 2]


def test_warnings_are_said_once_with_their_points() -> None:
    points = [point("a", "skybyte-wp", 1, n=str(number)) for number in range(3)]
    text = sweep_tables.warnings(done([*points, point("a", "base-cssd", 1)]))
    assert "garbage collection never ran: 3 of 4 points (0–2)" in text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([4], "4"), ([1, 2], "1–2"), ([1, 2, 3, 7, 9, 10], "1–3, 7, 9–10")],
)
def test_numbers_in_a_row_are_a_range(numbers: list[int], text: str) -> None:
    assert sweep_tables.ranges(numbers) == text


def test_equal_sweeps_have_equal_pages() -> None:
    assert sweep(grid()) == sweep(grid())


def modes() -> list[report.Point]:
    return [
        point("a", "base-cssd", 10, mode="detailed", log="1"),
        point("a", "base-cssd", 8, mode="detailed", log="2"),
        point("a", "skybyte-w", 4, mode="fast", log="1"),
        point("a", "skybyte-w", 3, mode="fast", log="2"),
    ]


def test_points_of_another_mode_are_no_reference() -> None:
    groups = sweep_points.comparable(done(modes()))
    assert {name: [point.number for point in some] for name, some in groups.items()} == {
        "a, mode = detailed": [0, 1],
        "a, mode = fast": [2, 3],
    }
    text = sweep(modes())
    assert text.count("for each mode by itself") == 2
    body = text[text.index("<caption>Points<") :]
    relative = re.findall(r"<tr.*?</tr>", body[: body.index("</tbody>")])[1:]
    assert ["1.25" in row for row in relative] == [True, False, False, False]
    assert ["1.33" in row for row in relative] == [False, False, True, False]
    assert sum("best" in row for row in relative) == 2
    assert "<b>log</b>" not in text and "a, mode = fast: log" in text


def test_an_effect_compares_designs_of_one_mode() -> None:
    lines = {
        name: effects.effects("log", "12", some)
        for name, some in sweep_points.comparable(done(modes()), "log").items()
    }
    assert [line.values for line in lines["a, mode = detailed"]] == [pytest.approx((1, 0.8))]
    assert [line.values for line in lines["a, mode = fast"]] == [pytest.approx((1, 0.75))]


def test_a_circumstance_is_compared_on_its_own_axis() -> None:
    (some,) = sweep_points.comparable(done(modes()), "mode").values()
    assert len(some) == 4
