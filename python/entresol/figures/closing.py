"""How far the causes of a difference explain it: together, and each first in and last in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from entresol import worths
from entresol.figures import causes
from entresol.figures.causes import Cause, Change, Together
from entresol.figures.claims import Claim
from entresol.figures.reproduction import Evidence
from entresol.worths import Worth

ENOUGH = 0.8
"""The share of the way that named causes have to close together; what is left is unexplained
otherwise."""


def distance(value: float | None, claim: Claim) -> float | None:
    """From the published number to ours, of logarithms: below it negative; none beyond a bound."""
    if not value or value * claim.published <= 0:
        return None
    found = math.log(value / claim.published)
    return min(found, 0.0) if "at least" in claim.quantity else found


@dataclass(frozen=True)
class Closing:
    """What the causes of a claim, all of which can be at work together, close of its difference."""

    claim: Claim
    ours: float
    changes: tuple[Change, ...]
    worths: Mapping[Change, Worth]
    together: float | None
    """The claim with all of them at work; none if that did not run."""

    @property
    def needed(self) -> float:
        """The factor from ours to the published number."""
        return self.claim.published / self.ours if self.ours else math.nan

    @property
    def share(self) -> float | None:
        """Of the way, of logarithms: 1 where they lead to the published number, less on either
        side of it; none where that cannot be said."""
        before, after = distance(self.ours, self.claim), distance(self.together, self.claim)
        return None if not before or after is None else 1 - abs(after) / abs(before)

    @property
    def is_beyond(self) -> bool:
        """Whether they lead past the published number."""
        before, after = distance(self.ours, self.claim), distance(self.together, self.claim)
        return bool(before and after) and (before or 0) * (after or 0) < 0

    @property
    def is_enough(self) -> bool:
        """Whether they explain the difference."""
        return self.share is not None and self.share >= ENOUGH

    @property
    def residual(self) -> float:
        """The factor that is left: from what they give together to the published number."""
        return self.claim.published / self.together if self.together else math.nan


def of(claim: Claim, side: str, given: Sequence[Cause], evidence: Evidence) -> list[Closing]:
    """Of each set of causes that can be at work together, the one that closes most first; none
    where no cause has a run or ours is no number."""
    ours = claim.ours(evidence.of(side))
    if ours is None:
        return []

    def value(on: frozenset[Change]) -> float | None:
        asked = Together(claim.quantity, side, on)
        return evidence.summed.get(asked, evidence.standing.get(asked)) if on else ours

    found = [
        Closing(claim, ours, changes, worths.worths(changes, value), value(frozenset(changes)))
        for changes in causes.variants(given)
    ]
    return sorted(found, key=_order)


def _order(closing: Closing) -> float:
    return math.inf if closing.share is None else -closing.share
