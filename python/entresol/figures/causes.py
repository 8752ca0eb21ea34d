"""Why numbers come out differently: what people wrote down in a room's `causes.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from entresol.core import Json
from entresol.errors import UserError
from entresol.figures.claims import Claim
from entresol.figures.paper import ARTIFACT, PAPER, Paper, Text
from entresol.figures.plan import Settings

_FIELDS = {"claim", "of", "says", "fidelity", "set", "scale"}


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

    @property
    def needs_run(self) -> bool:
        """Whether a run shows it; else words have to do."""
        return self.fidelity is not None or bool(self.overrides)

    def settings(self, settings: Settings, text: Text) -> Settings | None:
        """The conditions of the run that shows it; none if words have to do."""
        if not self.needs_run:
            return None
        fidelity = text.fidelity_at(settings.scale, self.fidelity or self.of)
        fidelity, overrides = text.conditions(fidelity, self.overrides)
        return replace(settings, fidelity=fidelity, overrides=overrides)


def where(paper: Paper) -> str:
    """The file's name in messages."""
    return f"papers/{paper.name}/causes.toml"


def read(paper: Paper, claims: Sequence[Claim], content: str) -> list[Cause]:
    """The causes in a text of TOML. Raises `UserError` for one that is no good."""
    try:
        entries = tomllib.loads(content).get("cause", [])
    except ValueError as error:
        raise UserError(f"{where(paper)}: is not TOML: {error}.") from error
    known = {claim.quantity for claim in claims}
    return [cause for number, entry in enumerate(entries, start=1)
            for cause in _causes(f"{where(paper)}: cause {number}", entry, known)]  # fmt: skip


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
                  tuple(entry.get("set", ())), entry.get("scale")) for claim in claims]  # fmt: skip
