"""What each switch, and any other change, is worth for numbers of a paper's text.

Who looks for the causes of a difference asks this first: every candidate is turned on alone and
taken out of all, and the claim is measured. A run that reads nothing of what a switch sets is that
without the switch, and is made once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

from entresol import core, worths
from entresol.core import Json, Setup
from entresol.errors import UserError
from entresol.figures import causes, reproduction
from entresol.figures.causes import Change, Together
from entresol.figures.claims import Claim
from entresol.figures.closing import Closing
from entresol.figures.paper import ARTIFACT, PAPER, Text
from entresol.figures.plan import Bench, Results, Settings, SteadyWant, Walk, Want
from entresol.figures.reproduction import Reproduction
from entresol.figures.simulate import Plan, Simulation


@dataclass(frozen=True)
class Ranked:
    """The candidates for a claim, those first that lead furthest to the published number's side."""

    closing: Closing
    order: tuple[Change, ...]

    def shares(self, change: Change) -> tuple[float, float]:
        """First in and last in: of the way to the published number, of logarithms; below 0 away
        from it."""
        worth = self.closing.worths[change]
        return _share(worth.first_in, self.closing), _share(worth.last_in, self.closing)


def candidates(
    study: Reproduction, switches: Sequence[str], sets: Sequence[str]
) -> tuple[Change, ...]:
    """The switches of these lists, or else all of the paper's; and parameters, those that belong
    together in one text. `NAME+NAME`, with `KEY=VALUE` among them or not, is one candidate, and
    its switches are no candidates of their own. Raises `UserError`, and `ConfigError` for an
    unknown switch.
    """
    text = study.text
    listed = ",".join(switches).split(",") if switches else []
    groups = [_group(text, each.split("+")) for each in listed if "+" in each]
    grouped = {name for group in groups for name in group.switches}
    alone = [each for each in listed if "+" not in each]
    names = _names(text, ",".join(alone)) if alone else [] if listed else _all(study)
    changes = [Change((name,)) for name in names if name not in grouped] + groups
    changes += [Change((), tuple(sorted(each.split()))) for each in sets]
    if not changes:
        raise UserError(f"{study.paper.name}: has no switches; name candidates with --set "
                        "KEY=VALUE.")  # fmt: skip
    for one, other in combinations(dict.fromkeys(changes), 2):
        if (found := causes.contradiction(one, other, causes.sets_of(text))) is not None:
            words = " and ".join(" ".join((*each.switches, *each.overrides))
                                 for each in (one, other))  # fmt: skip
            raise UserError(f"{words} {found}, and cannot be on together; leave one out.")
    return tuple(dict.fromkeys(changes))


def _all(study: Reproduction) -> list[str]:
    if ARTIFACT not in study.text.sides:
        return []
    return _names(study.text, study.text.fidelity_of(ARTIFACT))


def _group(text: Text, words: Sequence[str]) -> Change:
    """Switches and parameters that are turned on together."""
    sets = tuple(sorted(each for each in words if "=" in each))
    switches = [each for each in words if "=" not in each]
    return Change(tuple(sorted(_names(text, ",".join(switches)))) if switches else (), sets)


def _names(text: Text, fidelity: str) -> list[str]:
    if not text.switches:
        return core.fidelity_names(fidelity)
    return text.chosen(fidelity)


def rank(
    study: Reproduction,
    settings: Settings,
    claims: Sequence[Claim],
    changes: Sequence[Change],
    simulation: Simulation,
) -> tuple[list[Ranked], list[str]]:
    """Simulates all of it; each claim that has a number, and what did not run."""
    sets = worths.sets(changes)
    conditions = {on: Together("", PAPER, on).settings(settings, study.text) for on in sets}
    found = _simulated(study, claims, list(conditions.values()), simulation)
    failures = [why for results in found.values() for why in results.failures.values()]
    ranked = []
    for claim in claims:
        values = {on: claim.ours(found[conditions[on]]) for on in sets}
        ours = values[frozenset()]
        if ours is not None:
            worth = worths.worths(changes, values.get)
            together = values[frozenset(changes)]
            ranked.append(_ordered(Closing(claim, ours, tuple(changes), worth, together)))
    return ranked, list(dict.fromkeys(failures))


def _ordered(closing: Closing) -> Ranked:
    def place(change: Change) -> tuple[float, float]:
        worth = closing.worths[change]
        shares = [_share(each, closing) for each in (worth.first_in, worth.last_in)]
        known = [share for share in shares if math.isfinite(share)]
        return (-max(known, default=-math.inf), -worth.weight)

    return Ranked(closing, tuple(sorted(closing.changes, key=place)))


def _share(factor: float, closing: Closing) -> float:
    needed = closing.needed
    if not (math.isfinite(factor) and factor > 0 and math.isfinite(needed) and needed > 0):
        return math.nan
    return math.log(factor) / math.log(needed) if needed != 1 else math.nan


def _simulated(
    study: Reproduction,
    claims: Sequence[Claim],
    conditions: Sequence[Settings],
    simulation: Simulation,
) -> Mapping[Settings, Results]:
    """By conditions, all that the claims are computed from."""
    places: dict[Settings, dict[Want, Settings]] = {}
    wants: dict[Settings, dict[Want, None]] = {of: {} for of in conditions}
    loads: dict[Settings, dict[Bench, None]] = {of: {} for of in conditions}
    for of in conditions:
        needed = [reproduction.needs(claim, of) for claim in claims]
        places[of] = {want: _read_of(want, of, study.text) for runs, _ in needed for want in runs}
        for want, fewer in places[of].items():
            wants.setdefault(fewer, {})[want] = None
        loads[of] |= dict.fromkeys(load for _, benches in needed for load in benches)
    found = {
        of: simulation.run(Plan(of, tuple(sorted(runs)), (), tuple(sorted(loads.get(of, {})))))
        for of, runs in wants.items()
    }
    return {of: _gathered(of, places[of], found) for of in places}


def _gathered(
    of: Settings, places: Mapping[Want, Settings], found: Mapping[Settings, Results]
) -> Results:
    runs: dict[Want, Json] = {}
    failures: dict[Want | SteadyWant | Walk | Bench, str] = dict(found[of].failures)
    for want, at in places.items():
        if want in found[at].runs:
            runs[want] = found[at].runs[want]
        elif want in found[at].failures:
            failures[want] = found[at].failures[want]
    return Results(of, runs, {}, failures, found[of].benches)


def _read_of(want: Want, of: Settings, text: Text) -> Settings:
    """These conditions without the switches of which the run's design reads nothing."""
    if text.switches or want.device:
        return of
    names = core.fidelity_names(of.fidelity)
    unread = _unread(of.machine, want.nand, want.design, of.fidelity, of.overrides, want.overrides)
    read = [name for name in names if not _sets()[name] <= unread]
    return replace(of, fidelity=",".join(read) or PAPER)


@cache
def _sets() -> dict[str, frozenset[str]]:
    return {each.name: frozenset(key for key, _ in each.sets)
            for each in core.fidelity_switches()}  # fmt: skip


@cache
def _unread(
    machine: str,
    nand: str,
    design: str,
    fidelity: str,
    overrides: tuple[str, ...],
    wanted: tuple[str, ...],
) -> frozenset[str]:
    """What these switches set and a design does not read beside all of them."""
    chosen = set(core.fidelity_names(fidelity))
    given = [f"{key}={value}" for each in core.fidelity_switches() if each.name in chosen
             for key, value in each.sets]  # fmt: skip
    setup = Setup(machine, nand or None, (), (*given, *overrides, *wanted))
    return frozenset(core.unread_keys(setup, design))
