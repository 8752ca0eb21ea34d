"""`docs/reproduction.md`: each number of the text beside ours, and why they differ."""

from __future__ import annotations

import math
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources

from entresol import quantity
from entresol.core import Json
from entresol.errors import UserError
from entresol.figures.plan import ECHO, Results, Settings, Want
from entresol.figures.simulate import Plan, Simulation
from entresol.papers.skybyte import claims as text
from entresol.papers.skybyte.claims import Claim

PAPER, ARTIFACT = "paper", "artifact"
NEARER = 0.1
"""By how much of the way, as a ratio, a cause has to bring our number to the published one."""
_FIELDS = {"claim", "of", "says", "fidelity", "set", "scale"}


def fidelity_at(scale: str, text: str) -> str:
    """A fidelity at a scale: at scale small the artifact's is without `ECHO`."""
    if scale != "small" or not text.startswith(ARTIFACT):
        return text
    return f"{ARTIFACT},-{ECHO}{text.removeprefix(ARTIFACT)}"


@dataclass(frozen=True)
class Cause:
    """Why a claim comes out differently, in a person's words, and the run that shows it."""

    claim: str
    of: str
    """Which of our numbers it is about: paper or artifact fidelity."""
    says: str
    """`{value}` is the claim under `fidelity` and `overrides`; `{paper}`, `{artifact}` and
    `{published}` are its other numbers."""
    fidelity: str | None = None
    overrides: tuple[str, ...] = ()
    scale: str | None = None
    """The scale at which it is one; none for all."""

    def settings(self, settings: Settings) -> Settings | None:
        """The conditions of the run that shows it; none if words have to do."""
        if self.fidelity is None and not self.overrides:
            return None
        fidelity = fidelity_at(settings.scale, self.fidelity or self.of)
        return replace(settings, fidelity=fidelity, overrides=self.overrides)


def causes(content: str | None = None) -> list[Cause]:
    """The causes that people wrote down. Raises `UserError` for a file that is no good."""
    where = "papers/skybyte/causes.toml"
    if content is None:
        place = resources.files("entresol.papers.skybyte").joinpath("causes.toml")
        content = place.read_text(encoding="utf-8")
    try:
        entries = tomllib.loads(content).get("cause", [])
    except ValueError as error:
        raise UserError(f"{where}: is not TOML: {error}.") from error
    known = {claim.quantity for claim in text.claims()}
    return [_cause(where, number, entry, known) for number, entry in enumerate(entries, start=1)]


def _cause(where: str, number: int, entry: Json, known: set[str]) -> Cause:
    here = f"{where}: cause {number}"
    if unknown := set(entry) - _FIELDS:
        raise UserError(f"{here}: {', '.join(sorted(unknown))}: is no field of a cause.")
    if entry.get("claim") not in known:
        raise UserError(f"{here}: {entry.get('claim')}: is no claim of claims.csv.")
    if entry.get("of") not in (PAPER, ARTIFACT) or not entry.get("says"):
        raise UserError(f"{here}: needs `of` (paper or artifact) and `says`.")
    overrides = tuple(entry.get("set", ()))
    return Cause(entry["claim"], entry["of"], entry["says"], entry.get("fidelity"), overrides,
                 entry.get("scale"))  # fmt: skip


@dataclass(frozen=True)
class Evidence:
    """All results that the page is written from."""

    paper: Results
    artifact: Results
    shown: Mapping[Cause, float | None]
    """What the claim of a cause is under the cause's conditions."""

    failures: tuple[str, ...] = ()
    """What did not run, of all conditions."""

    def of(self, which: str) -> Results:
        """The results with one of the two fidelities."""
        return self.paper if which == PAPER else self.artifact


class _Notes(Mapping[Want, Json]):
    """Results that are not there, and what was asked of them."""

    def __init__(self) -> None:
        self.asked: list[Want] = []

    def __getitem__(self, item: Want) -> Json:
        self.asked.append(item)
        raise KeyError(item)

    def __iter__(self) -> Iterator[Want]:
        return iter(())

    def __len__(self) -> int:
        return 0


def needed(claim: Claim, settings: Settings) -> tuple[Want, ...]:
    """The runs that a claim is computed from."""
    notes = _Notes()
    text.ours(claim, Results(settings, notes))
    return tuple(dict.fromkeys(notes.asked))


def _side(settings: Settings, name: str) -> Settings:
    return replace(settings, fidelity=fidelity_at(settings.scale, name))


def plans(settings: Settings, reasons: Sequence[Cause]) -> list[Plan]:
    """What has to be simulated: both fidelities, and what shows the causes, a plan for each of the
    conditions."""
    by_name = {claim.quantity: claim for claim in text.claims()}
    wants: dict[Settings, dict[Want, None]] = {
        _side(settings, name): dict.fromkeys(text.wants(settings)) for name in (PAPER, ARTIFACT)
    }
    for cause in reasons:
        if (shown := cause.settings(settings)) is not None:
            runs = needed(by_name[cause.claim], shown)
            wants.setdefault(shown, {}).update(dict.fromkeys(runs))
    return [Plan(conditions, tuple(sorted(items)), ()) for conditions, items in wants.items()]


def gather(settings: Settings, reasons: Sequence[Cause], simulation: Simulation) -> Evidence:
    """Simulates all of it, or finds it in the store."""
    by_name = {claim.quantity: claim for claim in text.claims()}
    found = {plan.settings: simulation.run(plan) for plan in plans(settings, reasons)}
    sides = {name: found[_side(settings, name)] for name in (PAPER, ARTIFACT)}
    shown = {
        cause: text.ours(by_name[cause.claim], found[conditions])
        for cause in reasons
        if (conditions := cause.settings(settings)) is not None
    }
    failures = tuple(why for results in found.values() for why in results.failures.values())
    return Evidence(sides[PAPER], sides[ARTIFACT], shown, failures)


def render(evidence: Evidence, reasons: Sequence[Cause], command: str) -> str:
    """The page."""
    every = text.claims()
    rows = [_row(claim, evidence) for claim in every]
    far = [_far(claim, evidence, reasons) for claim in every]
    differences = [block for block in far if block]
    of = evidence.paper.settings
    missing = evidence.failures
    failed = f"\n{len(missing)} runs failed, the first: {missing[0]}.\n" if missing else ""
    return "\n".join([
        "# Reproduction", "",
        f"Written by `{command}`; not to be edited.",
        f"Machine `{of.machine}`, mode `{of.mode}`, {len(of.workloads)} of 7 workloads:",
        f"{', '.join(of.workloads)}; 24 threads with switching, 8 without.", failed,
        "*Published*: the text of the SkyByte paper. *Their data*: the same from the artifact's",
        "files, where they hold it. *Paper* and *artifact*: ours with that",
        "[fidelity](fidelity.md)." + _without_echo(of.scale),
        "Threads interleave anew in every capture that is made: on captures made again the numbers",
        "are a new result, near these and not equal to them ([workloads](workloads.md#captures)).",
        "A dash: not published, or these runs have nothing to compute it from.",
        "A number in bold is more than 25 % away from the published one; its causes are below.", "",
        "| § | claim | unit | published | their data | paper | artifact | how |",
        "|---|---|---|---|---|---|---|---|", *rows, "",
        "## Why they differ", "",
        "A cause is a person's sentence; its numbers are measured by the command: the claim",
        "itself, under the switches or parameters named. It stands only if they show it: our",
        "number is nearer to the published one with the cause at work, by a tenth of the way",
        "(of logarithms) or more.", "",
        *(differences or ["Nothing differs by more than 25 %.", ""]),
    ])  # fmt: skip


def _without_echo(scale: str) -> str:
    if scale != "small":
        return ""
    return (f" At this scale *artifact* is without `{ECHO}`,\nwhich feeds itself where L3 is "
            "small ([figures](figures.md)).")  # fmt: skip


def _row(claim: Claim, evidence: Evidence) -> str:
    cells = [claim.section, claim.quantity, claim.unit, f"{claim.published:g}",
             _number(text.theirs(claim))]  # fmt: skip
    for which in (PAPER, ARTIFACT):
        value = text.ours(claim, evidence.of(which))
        cells.append(f"**{_number(value)}**" if claim.differs(value) else _number(value))
    return f"| {' | '.join([*cells, f'{claim.kind}: {claim.how}'])} |"


def _number(value: float | None) -> str:
    return quantity.NOTHING if value is None else quantity.significant(value)


def _far(claim: Claim, evidence: Evidence, reasons: Sequence[Cause]) -> str:
    lines = []
    for which in (PAPER, ARTIFACT):
        value = text.ours(claim, evidence.of(which))
        if claim.differs(value):
            why = _why(claim, which, evidence, reasons)
            head = f"{_number(value)} instead of {claim.published:g}"
            lines.append(_wrapped(f"- *{which}*, {head}: {why}"))
    return "\n".join([f"### {claim.quantity}", "", *lines, ""]) if lines else ""


def _wrapped(item: str) -> str:
    return textwrap.fill(item, 100, subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


def _why(claim: Claim, which: str, evidence: Evidence, reasons: Sequence[Cause]) -> str:
    given = [cause for cause in reasons
             if (cause.claim, cause.of) == (claim.quantity, which)
             and cause.scale in (None, evidence.paper.settings.scale)]  # fmt: skip
    good = [cause for cause in given if confirmed(claim, cause, evidence)]
    if good:
        return " ".join(_sentence(claim, cause, evidence) for cause in good)
    tried = [
        f"{_conditions(cause, evidence)} gives {_number(evidence.shown.get(cause))}"
        for cause in given
    ]
    looked = f" Not the cause: {'; '.join(tried)}." if tried else ""
    return f"**Unexplained.**{looked}"


def confirmed(claim: Claim, cause: Cause, evidence: Evidence) -> bool:
    """Whether the run that shows a cause does show it: with the cause at work our number is nearer
    to the published one. Taking a decision out of the artifact has to move the artifact's away,
    if that decision is to explain the paper's."""
    if cause.settings(evidence.paper.settings) is None:
        return True
    is_taken_out = cause.of == PAPER and (cause.fidelity or "").startswith(f"{ARTIFACT},-")
    start = text.ours(claim, evidence.of(ARTIFACT if is_taken_out else cause.of))
    before, after = _distance(start, claim), _distance(evidence.shown.get(cause), claim)
    if before is None or after is None:
        return False
    if is_taken_out:  # And to the side on which the paper's is.
        return abs(after) > abs(before) * (1 + NEARER) and _is_beside(after, claim, evidence)
    return abs(after) < abs(before) * (1 - NEARER)


def _distance(value: float | None, claim: Claim) -> float | None:
    """From the published number to ours, of logarithms: below it negative."""
    return None if not value else math.log(value / claim.published)


def _is_beside(distance: float, claim: Claim, evidence: Evidence) -> bool:
    paper = _distance(text.ours(claim, evidence.paper), claim)
    return paper is not None and (distance > 0) == (paper > 0)


def _conditions(cause: Cause, evidence: Evidence) -> str:
    scale = evidence.paper.settings.scale
    words = [f"--fidelity {fidelity_at(scale, cause.fidelity or cause.of)}"]
    words += [f"--set {override}" for override in cause.overrides]
    return f"`{' '.join(words)}`"


def _sentence(claim: Claim, cause: Cause, evidence: Evidence) -> str:
    numbers = {
        "published": f"{claim.published:g}",
        "paper": _number(text.ours(claim, evidence.paper)),
        "artifact": _number(text.ours(claim, evidence.artifact)),
        "value": _number(evidence.shown.get(cause)),
    }
    try:
        said = cause.says.format(**numbers)
    except (KeyError, IndexError, ValueError) as error:
        raise UserError(f"papers/skybyte/causes.toml: {claim.quantity}: {error}: cannot be filled "
                        f"in; there are {', '.join(numbers)}.") from error  # fmt: skip
    if cause.settings(evidence.paper.settings) is None:
        return said
    return f"{said} ({_conditions(cause, evidence)})"
