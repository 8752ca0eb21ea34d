"""What the causes of a difference close of it, in words and as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from entresol import quantity
from entresol.figures.causes import Cause, Change
from entresol.figures.claims import Claim
from entresol.figures.closing import Closing
from entresol.figures.paper import PAPER

BEYOND = 0.05
"""Causes that lead past the published number by less than this part of the way are not told so."""


def factor(value: float) -> str:
    """As ×1.73; a dash for one that is not known."""
    return f"×{quantity.significant(value)}" if math.isfinite(value) else quantity.NOTHING


def left(
    claim: Claim, value: float | None, given: Sequence[Cause], closings: Sequence[Closing]
) -> str:
    """What no cause explains, for a cell; nothing where causes explain enough."""
    if not closings:
        if any(not cause.needs_run for cause in given):
            return "in words"
        return factor(claim.published / value if value else math.nan)
    best = closings[0]
    if best.share is None:
        return "not measured"
    return "" if best.is_enough else factor(best.residual)


def sentence(closings: Sequence[Closing], side: str) -> list[str]:
    """How far the causes lead, and what stays."""
    if not closings:
        return []
    best = closings[0]
    if best.share is None or best.together is None:
        return ["What its causes give together is not known, for it could not be computed."]
    worth = f"worth {factor(best.together / best.ours)} of the {factor(best.needed)} needed"
    several = f"Together they are {worth} and give {quantity.significant(best.together)}"
    told = several if len(best.changes) > 1 else f"This cause is {worth}"
    if best.share < 0:
        told += ", farther away than without"
    elif best.is_beyond and best.share < 1 - BEYOND:
        told += f", beyond the published number by {factor(1 / best.residual)}"
    told += "" if best.share < 0 else f": {100 * best.share:.0f} % of the way"
    ended = "." if best.is_enough else f"; **unexplained: {factor(best.residual)}**."
    others = [f"With {change_text(each, side)} instead it is "
              f"{quantity.significant(other.together)}."
              for other in closings[1:] if other.together is not None
              for each in other.changes if each not in best.changes]  # fmt: skip
    return [told + ended, *others]


def table(closings: Sequence[Closing], side: str) -> list[str]:
    """What each of several causes is worth, in lines; one alone needs none."""
    if not closings or len(closings[0].changes) < 2:
        return []
    best = closings[0]
    rows = [
        f"| {change_text(change, side)} | {factor(best.worths[change].first_in)} "
        f"| {factor(best.worths[change].last_in)} |"
        for change in best.changes
    ]
    all_in = math.nan if best.together is None else best.together / best.ours
    rows.append(f"| together | {factor(all_in)} | |")
    return [f"| of *{side}*, needed {factor(best.needed)} | first in | last in |", "|---|---|---|",
            *rows, ""]  # fmt: skip


def change_text(change: Change, side: str) -> str:
    """What is changed, as options: of the artifact what is taken out of it."""
    words = []
    if change.switches:
        text = ",".join(change.switches)
        words.append(f"--fidelity {text}" if side == PAPER else f"--fidelity …,{text}")
    words += [f"--set {override}" for override in change.overrides]
    return f"`{' '.join(words)}`"
