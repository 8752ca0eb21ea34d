"""The numbers of a paper's text: what they need, and the results that they are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from entresol import worths
from entresol.core import Json
from entresol.errors import UserError
from entresol.figures import causes
from entresol.figures.causes import Cause, Together
from entresol.figures.claims import Claim
from entresol.figures.paper import ARTIFACT, PAPER, Paper, Text
from entresol.figures.plan import Bench, Results, Settings, Want
from entresol.figures.simulate import Plan, Simulation

Asked = TypeVar("Asked", Want, Bench)


@dataclass(frozen=True)
class Evidence:
    """All results that the page is written from."""

    paper: Results
    artifact: Results
    shown: Mapping[Cause, float | None]
    """What the claim of a cause is under the cause's conditions."""

    failures: tuple[str, ...] = ()
    """What did not run, of all conditions."""

    summed: Mapping[Together, float | None] = field(default_factory=dict)
    """What a claim is with several of its causes at work."""
    standing: Mapping[Together, float | None] = field(default_factory=dict)
    """The same with none but those that stand, where `summed` has no such run."""

    def of(self, which: str) -> Results:
        """The results with one of the two fidelities."""
        return self.paper if which == PAPER else self.artifact


class _Notes(Mapping[Asked, Json], Generic[Asked]):
    """Results that are not there, and what was asked of them."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def __getitem__(self, item: Asked) -> Json:
        self.asked.append(item)
        raise KeyError(item)

    def __iter__(self) -> Iterator[Asked]:
        return iter(())

    def __len__(self) -> int:
        return 0


def needed(claim: Claim, settings: Settings) -> tuple[Want, ...]:
    """The runs that a claim is computed from."""
    return needs(claim, settings)[0]


def needs(claim: Claim, settings: Settings) -> tuple[tuple[Want, ...], tuple[Bench, ...]]:
    """The runs, and the loads."""
    runs, loads = _Notes[Want](), _Notes[Bench]()
    claim.ours(Results(settings, runs, benches=loads))
    return tuple(dict.fromkeys(runs.asked)), tuple(dict.fromkeys(loads.asked))


def of_claim(reasons: Sequence[Cause]) -> dict[tuple[str, str], list[Cause]]:
    """By claim and by which of our numbers it is about: its causes."""
    found: dict[tuple[str, str], list[Cause]] = {}
    for cause in reasons:
        found.setdefault((cause.claim, cause.of), []).append(cause)
    return found


def summed(reasons: Sequence[Cause]) -> list[Together]:
    """The runs that say what causes are worth together, first in and last in."""
    found: dict[Together, None] = {}
    for (claim, side), given in of_claim(reasons).items():
        for changes in causes.variants(given):
            sets = worths.sets(changes)
            found |= dict.fromkeys(Together(claim, side, on) for on in sets if on)
    return list(found)


def of(paper: Paper) -> Reproduction:
    """The numbers of a paper's text. Raises `UserError` for a paper that has none."""
    if paper.text is None:
        raise UserError(f"{paper.name}: has no claims; papers/{paper.name}/published/claims.csv "
                        "is where they would be.")  # fmt: skip
    return Reproduction(paper, paper.text)


class Reproduction:
    """The numbers of a paper's text, with what has to be simulated for them."""

    def __init__(self, paper: Paper, text: Text) -> None:
        self.paper = paper
        self.text = text
        self.claims = text.claims()
        self._by_name = {claim.quantity: claim for claim in self.claims}

    def causes(self, content: str | None = None) -> list[Cause]:
        """The causes that people wrote down; of a text of TOML instead of the room's, if given.
        Raises `UserError` for one that is no good."""
        content = self.text.causes() if content is None else content
        return causes.read(self.paper, self.claims, content)

    def _side(self, settings: Settings, name: str) -> Settings:
        told = self.text.fidelity_of(name)
        fidelity, overrides = self.text.conditions(told, settings.overrides)
        return replace(settings, fidelity=fidelity, overrides=overrides)

    def plans(self, settings: Settings, reasons: Sequence[Cause]) -> list[Plan]:
        """What has to be simulated: both fidelities, and what shows the causes, a plan for each
        of the conditions."""
        wants: dict[Settings, dict[Want, None]] = {
            self._side(settings, name): dict.fromkeys(self.text.wants(settings))
            for name in self.text.sides
        }
        benches: dict[Settings, dict[Bench, None]] = {
            conditions: dict.fromkeys(self.text.benches(settings)) for conditions in wants
        }
        return self._plans(self._shown(settings, reasons).values(), wants, benches)

    def _plans(
        self,
        asked: Iterable[tuple[Settings, Claim]],
        wants: dict[Settings, dict[Want, None]],
        benches: dict[Settings, dict[Bench, None]],
    ) -> list[Plan]:
        """What claims are computed from under their conditions, beside what is wanted anyway."""
        for shown, claim in asked:
            runs, loads = needs(claim, shown)
            wants.setdefault(shown, {}).update(dict.fromkeys(runs))
            benches.setdefault(shown, {}).update(dict.fromkeys(loads))
        return [Plan(conditions, tuple(sorted(items)), (), tuple(sorted(benches[conditions])))
                for conditions, items in wants.items()]  # fmt: skip

    def _shown(
        self, settings: Settings, reasons: Sequence[Cause]
    ) -> dict[Cause | Together, tuple[Settings, Claim]]:
        """What has a run: each cause, and those of a claim together; with its conditions."""
        found: dict[Cause | Together, tuple[Settings, Claim]] = {}
        for cause in reasons:
            if (shown := cause.settings(settings, self.text)) is not None:
                found[cause] = shown, self._by_name[cause.claim]
        for each in summed(reasons):
            found[each] = each.settings(settings, self.text), self._by_name[each.claim]
        return found

    def measure(
        self, settings: Settings, asked: Sequence[Together], simulation: Simulation
    ) -> tuple[dict[Together, float | None], tuple[str, ...]]:
        """What claims are with these causes at work together, and what did not run."""
        places = {each: (each.settings(settings, self.text), self._by_name[each.claim])
                  for each in asked}  # fmt: skip
        found = {plan.settings: simulation.run(plan)
                 for plan in self._plans(places.values(), {}, {})}  # fmt: skip
        values = {each: claim.ours(found[of]) for each, (of, claim) in places.items()}
        return values, tuple(why for each in found.values() for why in each.failures.values())

    def gather(
        self, settings: Settings, reasons: Sequence[Cause], simulation: Simulation
    ) -> Evidence:
        """Simulates all of it, or finds it in the store."""
        found = {plan.settings: simulation.run(plan) for plan in self.plans(settings, reasons)}
        nothing = Results(settings, {})
        sides = {name: found[self._side(settings, name)] if name in self.text.sides else nothing
                 for name in (PAPER, ARTIFACT)}  # fmt: skip
        values = {
            each: claim.ours(found[conditions])
            for each, (conditions, claim) in self._shown(settings, reasons).items()
        }
        failures = tuple(why for results in found.values() for why in results.failures.values())
        return Evidence(
            sides[PAPER],
            sides[ARTIFACT],
            {each: value for each, value in values.items() if isinstance(each, Cause)},
            failures,
            {each: value for each, value in values.items() if isinstance(each, Together)},
        )
