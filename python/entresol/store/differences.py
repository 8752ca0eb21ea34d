"""Two results: which inputs differ, and which numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from entresol.core import Json
from entresol.store.result_store import Entry


@dataclass(frozen=True)
class Change:
    """A value by its path, in one and in the other; none where it is not there."""

    name: str
    one: Any
    other: Any

    @property
    def factor(self) -> float | None:
        """The other over the one, if both are numbers and neither is zero."""
        both = (self.one, self.other)
        if all(isinstance(value, int) and value > 0 for value in both):
            return float(self.other) / float(self.one)
        return None

    @property
    def weight(self) -> float:
        """How much it is, for sorting: infinite where something is zero or missing."""
        return math.inf if self.factor is None else abs(math.log(self.factor))

    def as_json(self) -> Json:
        """As `--json` says it."""
        return {"name": self.name, "one": self.one, "other": self.other}


def inputs(one: Entry, other: Entry) -> list[Change]:
    """Inputs that differ, in their order."""
    return _changes(one.inputs, other.inputs)


def numbers(one: Entry, other: Entry) -> list[Change]:
    """Numbers of the results that differ, in their order. What configurations say is an input."""
    return _changes(_part(one), _part(other))


_LEFT_OUT = ("trace", "config", "config_digest", "programs", "design", "fidelity", "mode")


def _part(entry: Entry) -> Json:
    return {key: value for key, value in entry.result.items() if key not in _LEFT_OUT}


def numbers_of(entry: Entry) -> list[Change]:
    """All numbers of a result, each as what differs from nothing."""
    return _changes({}, _part(entry))


def _changes(one: Json, other: Json) -> list[Change]:
    left, right = dict(_leaves(one)), dict(_leaves(other))
    return [
        Change(name, left.get(name), right.get(name))
        for name in dict.fromkeys([*left, *right])
        if left.get(name) != right.get(name)
    ]


def _leaves(value: Json, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _leaves(inner, f"{prefix}{key}.")
        else:
            yield prefix + key, inner
