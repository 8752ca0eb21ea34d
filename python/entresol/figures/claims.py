"""A number in a paper's text: what was published, and how it is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from entresol.errors import UserError
from entresol.figures.plan import Results
from entresol.figures.published import Published

SIMULATED, COMPUTED, SETTING, QUOTED = "simulated", "computed", "a setting", "quoted"
MEASURED = "measured on this machine"
"""Another machine, or the same one beside other work, gives another number."""
FAR = 0.25
"""A difference beyond this asks for its cause."""


def _unknown() -> None:
    return None


@dataclass(frozen=True)
class Rule:
    """How a number of the text is computed."""

    kind: str
    """`SIMULATED`, `MEASURED`, `COMPUTED`, `SETTING` or `QUOTED`."""
    how: str
    """Which mean of what; or where a number that is no simulation comes from."""
    ours: Callable[[Results], float | None]
    """From our runs; `None` if these runs have nothing to compute it from."""
    theirs: Callable[[], float | None] = _unknown
    """From the published files; `None` if they do not have it."""


@dataclass(frozen=True)
class Claim:
    """A number of the text and how it is computed."""

    section: str
    quantity: str
    published: float
    unit: str
    rule: Rule

    def differs(self, ours: float | None, far: float = FAR) -> bool:
        """Whether ours is more than that share away; a bound is kept or not."""
        if ours is None or self.rule.kind in (SETTING, QUOTED):
            return False
        if "at least" in self.quantity:
            return ours < self.published * (1 - far)
        if self.published == 0:
            return ours != 0
        return not 1 - far <= ours / self.published <= 1 + far

    def ours(self, results: Results) -> float | None:
        """What our runs give."""
        return self.rule.ours(results)

    def theirs(self) -> float | None:
        """What the published data themselves give; `None` for what is no simulation."""
        value = self.rule.theirs() if self.rule.kind == SIMULATED else None
        return value if value is not None and math.isfinite(value) else None


def read(published: Published, rules: Mapping[str, Rule]) -> list[Claim]:
    """All numbers of a text, in the order of `claims.csv`, each with its rule.

    Raises `UserError` for a row without a rule and for a rule without a row.
    """
    rows, where = published.claims(), published.where("claims")
    for quantity in rules.keys() - {row["quantity"] for row in rows}:
        raise UserError(f"{where}: has no row {quantity}; install Entresol again.")
    for row in rows:
        if row["quantity"] not in rules:
            raise UserError(f"{where}: {row['quantity']}: is not a claim that is known.")
    return [Claim(row["section"], row["quantity"], float(row["value"]), row["unit"],
                  rules[row["quantity"]]) for row in rows]  # fmt: skip
