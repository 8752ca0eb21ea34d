"""What each of several choices is worth: turned on first, and turned on last.

Who asks brings the number that a set of choices gives; what is told are factors of it. Choices
interact, so the two differ: one that is worth nothing alone may be worth much where all others are
on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Choice = TypeVar("Choice", bound=Hashable)


@dataclass(frozen=True)
class Worth:
    """Factors of a number: alone, and when all others are on. Not a number where either run of a
    factor gave none."""

    first_in: float
    last_in: float

    @property
    def weight(self) -> float:
        """The larger of the two, of logarithms; nothing where neither is known."""
        found = [one for one in (self.first_in, self.last_in) if math.isfinite(one) and one > 0]
        return max((abs(math.log(one)) for one in found), default=0.0)


def sets(choices: Sequence[Choice]) -> list[frozenset[Choice]]:
    """What is on in the runs that tell: nothing, all, each alone, all but each."""
    everything = frozenset(choices)
    found = [frozenset[Choice](), everything]
    for each in choices:
        found += [frozenset({each}), everything - {each}]
    return list(dict.fromkeys(found))


def worths(
    choices: Sequence[Choice], value: Callable[[frozenset[Choice]], float | None]
) -> dict[Choice, Worth]:
    """By choice, from the number that each of the `sets` gives."""
    nothing, everything = frozenset[Choice](), frozenset(choices)
    return {
        each: Worth(
            _factor(value(frozenset({each})), value(nothing)),
            _factor(value(everything), value(everything - {each})),
        )
        for each in choices
    }


def _factor(above: float | None, below: float | None) -> float:
    return above / below if above is not None and below else math.nan
