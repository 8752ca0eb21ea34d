"""What each of several choices is worth, when they act together: first in, last in, Shapley.

A choice is on or off; `value` gives the logarithm of the speedup for every set of choices that are
on. In logarithms worths add up, and a worth of zero is a factor of one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

from entresol import estimate
from entresol.estimate import Estimate

Choices = frozenset[str]
EXACT = 4
"""Up to so many choices every order is tried."""


@dataclass(frozen=True)
class Share:
    """What one choice is worth: alone, as the last one, and on average over orders."""

    name: str
    first_in: float
    last_in: float
    shapley: Estimate


@dataclass(frozen=True)
class Gain:
    """The values without and with all choices, and the shares of what lies between."""

    nothing: float
    everything: float
    shares: tuple[Share, ...]

    @property
    def remainder(self) -> float:
        """What all together give beyond the sum of what each gives alone: interaction."""
        alone = math.fsum(share.first_in for share in self.shares)
        return self.everything - self.nothing - alone


def orders(names: Sequence[str], count: int, seed: int) -> list[list[tuple[str, ...]]]:
    """Orders in which the choices come in, in groups that are independent of each other.

    Few choices come in every order, in one group. Others in `count` random ones, each with its
    reverse in a group: what comes early in one comes late in the other, so their mean strays less.
    """
    if len(names) <= EXACT:
        return [list(permutations(names))]
    source = random.Random(seed)
    groups = []
    for _ in range(count):
        order = tuple(source.sample(list(names), len(names)))
        groups.append([order, order[::-1]])
    return groups


def needed(names: Sequence[str], groups: Sequence[Sequence[tuple[str, ...]]]) -> list[Choices]:
    """Every set of choices whose value is asked for, once."""
    everything = frozenset(names)
    sets = [frozenset(), everything]
    for name in names:
        sets += [frozenset({name}), everything - {name}]
    for group in groups:
        for order in group:
            sets += [frozenset(order[:place]) for place in range(len(order))]
    return list(dict.fromkeys(sets))


def shares(
    names: Sequence[str],
    groups: Sequence[Sequence[tuple[str, ...]]],
    value: Callable[[Choices], float],
) -> Gain:
    """What each choice is worth."""
    everything = frozenset(names)
    nothing, all_in = value(frozenset()), value(everything)
    found = []
    for name in names:
        means = [
            math.fsum(_marginal(name, order, value) for order in group) / len(group)
            for group in groups
        ]
        exact = len(names) <= EXACT
        shapley = Estimate(means[0], 0.0) if exact else estimate.mean(means)
        first, last = value(frozenset({name})) - nothing, all_in - value(everything - {name})
        found.append(Share(name, first, last, shapley))
    return Gain(nothing, all_in, tuple(found))


def _marginal(name: str, order: tuple[str, ...], value: Callable[[Choices], float]) -> float:
    place = order.index(name)
    return value(frozenset(order[: place + 1])) - value(frozenset(order[:place]))
