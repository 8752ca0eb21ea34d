"""Numbers for people, and the text of a summary."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest

from entresol import quantity, svg
from entresol.errors import UserError
from entresol.summary import parse, to_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ns"),
        (999, "999 ps"),
        (1_000, "1.00 ns"),
        (1_234_567, "1.23 µs"),
        (49_000, "49.0 ns"),
        (157_000_000_000, "157 ms"),
        (2_500_000_000_000, "2.50 s"),
        (None, "–"),
    ],
)
def test_durations(value: int | None, text: str) -> None:
    assert quantity.duration(value).replace("\u00a0", " ") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (9_999, "9,999"), (10_400, "10.4 k"), (12_300_000, "12.3 M"), (3 * 10**9, "3.00 G")],
)
def test_counts(value: int, text: str) -> None:
    assert quantity.count(value).replace("\u00a0", " ") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.01234, "0.0123"), (1.0, "1.00"), (123.4, "123"), (9.996, "10.00")],
)
def test_significant_digits(value: float, text: str) -> None:
    assert quantity.significant(value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.9, 1.1, "1.00 (0.90–1.1)"), (0.0, 30.0, "1.00 (0–30)"), (None, 2.0, "1.00")],
)
def test_a_ratio_with_its_interval(low: float | None, high: float, text: str) -> None:
    assert quantity.between(1.0, low, high) == text


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("1.00×", "1×"),
        ("1.00 µs", "1 µs"),
        ("0.500", "0.5"),
        ("200 ns", "200 ns"),
        ("0", "0"),
        ("1.25", "1.25"),
    ],
)
def test_axis_labels_are_short(text: str, short: str) -> None:
    assert quantity.short(text.replace(" ", "\u00a0")) == short.replace(" ", "\u00a0")


@pytest.mark.parametrize(
    ("maximum", "wanted", "ticks"),
    [
        (1.0, 5, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (757_000, 4, [0, 200_000, 400_000, 600_000]),
        (3, 3, [0, 1, 2, 3]),
    ],
)
def test_ticks_are_round(maximum: float, wanted: int, ticks: list[float]) -> None:
    assert svg.linear_ticks(maximum, wanted) == pytest.approx(ticks)


def test_each_nine_has_the_same_height() -> None:
    assert [svg.nines(share) for share in (0.9, 0.99, 0.999)] == pytest.approx([1, 2, 3])


def test_summary_text_is_json_with_keys_in_their_order() -> None:
    value = {"b": 1, "a": [[1, 2], [3, 4]], "c": [{"x": None}], "d": [], "e": {}, "f": ['ö"']}
    text = to_text(value)
    assert json.loads(text) == value
    assert list(json.loads(text)) == list(value)
    assert '"a": [[1, 2], [3, 4]]\n' in text.replace(",\n", "\n")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}'])
def test_only_summaries_of_this_schema_are_read(text: str) -> None:
    with pytest.raises(UserError):
        parse(text, "x.json")


def test_a_short_waterfall_has_an_axis_that_can_be_read() -> None:
    for low, high in ((1.0, 1.14), (0.97, 1.02), (1.0, 23.0), (0.2, 900.0)):
        ticks = svg.log_ticks(low, high)
        assert 3 <= len(ticks) <= 9, (low, high, ticks)
        assert all(low * 0.998 <= tick <= high * 1.002 for tick in ticks)
        labels = [f"{tick:g}" for tick in ticks]
        assert all(len(label) <= 5 for label in labels), labels
    assert svg.log_ticks(1.0, 1.0) == [1.0]


def test_labels_of_a_narrow_waterfall_do_not_touch() -> None:
    caption = svg.Caption("x", "x", "x")
    for high in (1.06, 1.3, 9.0):
        picture = svg.waterfall(caption, ("no mechanism", "all"), (1.0, high), [("a", high)], 336)
        places = [float(x) for x in re.findall(r'class="tick" x="([\d.]+)"', picture)]
        assert len(places) >= 2
        assert min(far - near for near, far in pairwise(places)) >= 40
