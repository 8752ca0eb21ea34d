"""What choices are worth: shares of games whose answer is known."""

from __future__ import annotations

import math

import pytest

from entresol.gain import shapley
from entresol.gain.shapley import Choices

WORTH = {"a": 0.5, "b": -0.25, "c": 0.125, "d": 0.0, "e": 1.0, "f": 2.0}


def additive(on: Choices) -> float:
    return math.fsum(WORTH[name] for name in on)


def both_needed(on: Choices) -> float:
    """One, if a and b are both on: each is worth half of it."""
    return 1.0 if {"a", "b"} <= on else 0.0


@pytest.mark.parametrize("names", ["abc", "abcdef"])
def test_of_an_additive_game_every_order_gives_the_same(names: str) -> None:
    gain = shapley.shares(names, shapley.orders(names, 3, 1), additive)
    for share in gain.shares:
        worth = WORTH[share.name]
        assert share.first_in == pytest.approx(worth)
        assert share.last_in == pytest.approx(worth)
        assert share.shapley.value == pytest.approx(worth)
        assert share.shapley.half_width == pytest.approx(0.0)
    assert gain.remainder == pytest.approx(0.0)


def test_few_choices_are_tried_in_every_order() -> None:
    gain = shapley.shares("abc", shapley.orders("abc", 1, 1), both_needed)
    by_name = {share.name: share for share in gain.shares}
    assert [by_name[name].shapley.value for name in "abc"] == pytest.approx([0.5, 0.5, 0.0])
    assert by_name["a"].first_in == 0.0 and by_name["a"].last_in == 1.0
    assert gain.remainder == 1.0


def test_a_pair_of_reverse_orders_shares_what_two_give_together() -> None:
    gain = shapley.shares("abcdef", shapley.orders("abcdef", 1, 7), both_needed)
    by_name = {share.name: share for share in gain.shares}
    assert by_name["a"].shapley.value == by_name["b"].shapley.value == 0.5
    assert by_name["a"].shapley.half_width is None, "one pair says nothing of its error"


def test_shares_add_up_to_the_whole_in_any_number_of_orders() -> None:
    def odd(on: Choices) -> float:
        return math.sin(len(on)) + (2.0 if "c" in on else 0.0) * len(on)

    gain = shapley.shares("abcdef", shapley.orders("abcdef", 4, 3), odd)
    total = math.fsum(share.shapley.value for share in gain.shares)
    assert total == pytest.approx(gain.everything - gain.nothing)


def test_orders_are_those_of_the_seed_and_every_needed_set_is_named_once() -> None:
    first, again = shapley.orders("abcdef", 2, 5), shapley.orders("abcdef", 2, 5)
    assert first == again != shapley.orders("abcdef", 2, 6)
    needed = shapley.needed("abcdef", first)
    assert len(needed) == len(set(needed))
    asked: set[Choices] = set()

    def note(on: Choices) -> float:
        asked.add(on)
        return 0.0

    shapley.shares("abcdef", first, note)
    assert asked == set(needed)
