"""Which of the causes that people name for a difference stand: those whose runs show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from entresol.figures import closing, reproduction
from entresol.figures.causes import Cause
from entresol.figures.claims import Claim
from entresol.figures.paper import ARTIFACT
from entresol.figures.plan import Settings
from entresol.figures.reproduction import Evidence, Reproduction
from entresol.figures.simulate import Simulation

NEARER = 0.1
"""By how much of the way, as a ratio, a cause has to bring our number to the published one: at
work alone, or beside the others that are named."""


def given(claim: Claim, which: str, evidence: Evidence, reasons: Sequence[Cause]) -> list[Cause]:
    """The causes that people name for one of our two numbers of a claim, at this scale."""
    scale = evidence.paper.settings.scale
    return [cause for cause in reasons
            if (cause.claim, cause.of) == (claim.quantity, which)
            and cause.scale in (None, scale)]  # fmt: skip


def of(claim: Claim, which: str, evidence: Evidence, reasons: Sequence[Cause]) -> list[Cause]:
    """Those of them that stand."""
    named = given(claim, which, evidence, reasons)
    return [cause for cause in named if confirmed(claim, cause, evidence)]


def completed(
    study: Reproduction,
    settings: Settings,
    evidence: Evidence,
    reasons: Sequence[Cause],
    simulation: Simulation,
) -> Evidence:
    """The evidence with what the causes that stand give together: what does not stand is at work in
    none of it."""
    good = [cause for claim in study.claims for which in study.text.sides
            if claim.differs(claim.ours(evidence.of(which)))
            for cause in of(claim, which, evidence, reasons)]  # fmt: skip
    asked = [each for each in reproduction.summed(good) if each not in evidence.summed]
    values, failures = study.measure(settings, asked, simulation)
    return replace(evidence, standing=values, failures=(*evidence.failures, *failures))


def confirmed(claim: Claim, cause: Cause, evidence: Evidence) -> bool:
    """Whether the run that shows a cause does show it: with the cause at work our number is nearer
    to the published one, alone or beside the others. Taking a decision out of the artifact has to
    move the artifact's away, if that decision is to explain the paper's."""
    if not cause.needs_run:
        return True
    start = claim.ours(evidence.of(ARTIFACT if cause.is_taken_out else cause.of))
    before = closing.distance(start, claim)
    after = closing.distance(evidence.shown.get(cause), claim)
    if before is None or after is None:
        return False
    if cause.is_taken_out:  # And to the side on which the paper's is.
        return abs(after) > abs(before) * (1 + NEARER) and _is_beside(after, claim, evidence)
    return abs(after) < abs(before) * (1 - NEARER) or _brings_nearer(claim, cause, evidence, before)


def _brings_nearer(claim: Claim, cause: Cause, evidence: Evidence, before: float) -> bool:
    """Whether a cause does so beside the others, by as much of the whole way."""
    for on, value in evidence.summed.items():
        if (on.claim, on.of) != (cause.claim, cause.of) or cause.change not in on.changes:
            continue
        without = evidence.summed.get(replace(on, changes=on.changes - {cause.change}))
        near, far = closing.distance(value, claim), closing.distance(without, claim)
        if near is not None and far is not None and abs(far) - abs(near) > NEARER * abs(before):
            return True
    return False


def _is_beside(distance: float, claim: Claim, evidence: Evidence) -> bool:
    paper = closing.distance(claim.ours(evidence.paper), claim)
    return paper is not None and (distance > 0) == (paper > 0)
