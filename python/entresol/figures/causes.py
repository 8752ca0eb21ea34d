"""Why numbers come out differently: what people wrote down in a room's `causes.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from entresol import core
from entresol.core import Json
from entresol.errors import UserError
from entresol.figures.claims import Claim
from entresol.figures.paper import ARTIFACT, PAPER, Paper, Text
from entresol.figures.plan import Settings

_FIELDS = {"claim", "of", "says", "fidelity", "set", "scale", "alternative"}


@dataclass(frozen=True, order=True)
class Change:
    """What a cause does to the conditions that our number is measured under."""

    switches: tuple[str, ...] = ()
    """`NAME` turns one on, `-NAME` off."""
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Together:
    """Changes at work at one time, and the claim that is measured meanwhile."""

    claim: str
    of: str
    changes: frozenset[Change]

    def settings(self, settings: Settings, text: Text) -> Settings:
        """The conditions of the run."""
        names = sorted({name for each in self.changes for name in each.switches})
        overrides = {each for change in self.changes for each in change.overrides}
        side = [ARTIFACT] if self.of == ARTIFACT else []
        fidelity = ",".join([*side, *names]) or PAPER
        return _conditions(settings, text, fidelity, tuple(overrides))


def _conditions(
    settings: Settings, text: Text, fidelity: str, overrides: tuple[str, ...]
) -> Settings:
    told, parameters = text.conditions(text.fidelity_of(fidelity), tuple(sorted(overrides)))
    return replace(settings, fidelity=told, overrides=parameters)


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
    alternative: str | None = None
    """Of causes of a claim with one name here, one at a time is at work."""

    @property
    def needs_run(self) -> bool:
        """Whether a run shows it; else words have to do."""
        return self.fidelity is not None or bool(self.overrides)

    @property
    def is_taken_out(self) -> bool:
        """Whether its run is the artifact's without it, to explain the paper's number."""
        return self.of == PAPER and (self.fidelity or "").startswith(f"{ARTIFACT},-")

    @property
    def change(self) -> Change:
        """What it does on top of the conditions that it is about. Two causes with one change, one
        put into the paper's and one taken out of the artifact's, are one and the same."""
        names = (self.fidelity or self.of).split(",")
        if self.is_taken_out:
            names = [name.removeprefix("-") for name in names]
        side = ARTIFACT if self.is_taken_out else self.of
        switches = sorted(name for name in names if name != side)
        return Change(tuple(switches), tuple(sorted(self.overrides)))

    def settings(self, settings: Settings, text: Text) -> Settings | None:
        """The conditions of the run that shows it; none if words have to do."""
        if not self.needs_run:
            return None
        return _conditions(settings, text, self.fidelity or self.of, self.overrides)


def variants(reasons: Sequence[Cause]) -> list[tuple[Change, ...]]:
    """What can be at work together of the causes of a claim: of alternatives one each, else all.
    In the order of the file, each change once."""
    groups: dict[str, dict[Change, None]] = {}
    order: dict[Change, None] = {}
    for cause in reasons:
        if cause.needs_run:
            order[cause.change] = None
            if cause.alternative is not None:
                groups.setdefault(cause.alternative, {})[cause.change] = None
    several = {change for group in groups.values() for change in group}
    found = []
    for chosen in product(*groups.values()):
        found.append(tuple(each for each in order if each not in several or each in chosen))
    return [each for each in dict.fromkeys(found) if each]


def where(paper: Paper) -> str:
    """The file's name in messages."""
    return f"papers/{paper.name}/causes.toml"


def read(paper: Paper, claims: Sequence[Claim], content: str) -> list[Cause]:
    """The causes in a text of TOML. Raises `UserError` for one that is no good, and for two of a
    claim that cannot be at work together."""
    try:
        entries = tomllib.loads(content).get("cause", [])
    except ValueError as error:
        raise UserError(f"{where(paper)}: is not TOML: {error}.") from error
    known = {claim.quantity for claim in claims}
    sets = sets_of(paper.text)
    found = [(number, cause) for number, entry in enumerate(entries, start=1)
             for cause in _causes(f"{where(paper)}: cause {number}", entry, known)]  # fmt: skip
    for number, cause in found:
        _check_switches(f"{where(paper)}: cause {number}", cause, sets)
    for one, other in combinations(found, 2):
        _check_pair(where(paper), one, other, sets)
    return [cause for _, cause in found]


def _causes(here: str, entry: Json, known: set[str]) -> list[Cause]:
    """A cause of each of the claims that an entry names."""
    if unknown := set(entry) - _FIELDS:
        raise UserError(f"{here}: {', '.join(sorted(unknown))}: is no field of a cause.")
    named = entry.get("claim")
    claims: list[str] = named if isinstance(named, list) else [str(named)]
    for claim in claims:
        if claim not in known:
            raise UserError(f"{here}: {claim}: is no claim of claims.csv.")
    if entry.get("of") not in (PAPER, ARTIFACT) or not entry.get("says"):
        raise UserError(f"{here}: needs `of` (paper or artifact) and `says`.")
    return [Cause(claim, entry["of"], entry["says"], entry.get("fidelity"),
                  tuple(entry.get("set", ())), entry.get("scale"), entry.get("alternative"))
            for claim in claims]  # fmt: skip


def sets_of(text: Text | None) -> Mapping[str, tuple[str, ...]]:
    """By switch, what it sets, as `key=value`."""
    if text is not None and text.switches:
        return text.switches
    return {each.name: tuple(f"{key}={value}" for key, value in each.sets)
            for each in core.fidelity_switches()}  # fmt: skip


def _check_switches(here: str, cause: Cause, sets: Mapping[str, tuple[str, ...]]) -> None:
    names = [name.removeprefix("-") for name in cause.change.switches]
    for name in names:
        if name not in (ARTIFACT, PAPER) and name not in sets:
            raise UserError(f"{here}: {name}: is no switch of this paper.")
    first, *others = (cause.fidelity or ARTIFACT).split(",")
    is_out = first == ARTIFACT and all(name.startswith("-") for name in others)
    if cause.of == ARTIFACT and not is_out:
        raise UserError(
            f"{here}: {cause.fidelity}: a cause of artifact takes switches out of it; "
            "write artifact,-NAME."
        )


def _check_pair(
    file: str,
    one: tuple[int, Cause],
    other: tuple[int, Cause],
    sets: Mapping[str, tuple[str, ...]],
) -> None:
    """Two causes of a claim that set a parameter to different values contradict each other."""
    (first, cause), (second, against) = one, other
    is_apart = cause.alternative is not None and cause.alternative == against.alternative
    if (cause.claim, cause.of) != (against.claim, against.of) or is_apart:
        return
    if cause.scale and against.scale and cause.scale != against.scale:
        return
    if (found := contradiction(cause.change, against.change, sets)) is not None:
        raise UserError(
            f"{file}: {cause.claim}, of {cause.of}: causes {first} and {second} {found}, and "
            "cannot be at work together; leave one out, or give both one name as `alternative`."
        )


def contradiction(one: Change, other: Change, sets: Mapping[str, tuple[str, ...]]) -> str | None:
    """What two changes set to different values, in words; none if both can be at work."""
    mine, theirs = (dict(_assignments(each, sets)) for each in (one, other))
    for key, value in mine.items():
        for another, text in theirs.items():
            if _is_same_place(key, another) and text != value:
                return f"set {key} to {value} and to {text}"
    return None


def _assignments(change: Change, sets: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """What a change sets; a switch that is turned off sets its parameters to what it does not."""
    for name in change.switches:
        for text in sets.get(name.removeprefix("-"), ()):
            key, _, value = text.partition("=")
            yield key, f"not {value}" if name.startswith("-") else value
    for text in change.overrides:
        key, _, value = text.partition("=")
        yield key.strip(), value.strip()


def _is_same_place(one: str, other: str) -> bool:
    """Whether two keys, maybe each of a personality, are a parameter of one run."""
    mine, theirs = one.rpartition(":"), other.rpartition(":")
    return mine[2] == theirs[2] and (mine[0] == theirs[0] or "" in (mine[0], theirs[0]))
