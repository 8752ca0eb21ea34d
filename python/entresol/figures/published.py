"""The published numbers, from the files in `published/`."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from entresol.errors import UserError

Key = tuple[str, str, str, str]
"""Workload, design, x, metric."""
_COLUMNS = ("workload", "design", "x", "metric", "value")


@dataclass(frozen=True)
class Published:
    """A file of published numbers."""

    name: str
    values: Mapping[Key, float]

    def value(self, workload: str, design: str, metric: str, x: float | str = "") -> float:
        """A number that was published. Raises `UserError` that names file and row if it is gone."""
        key = (workload, design, text_of(x), metric)
        if key not in self.values:
            row = ",".join(key)
            raise UserError(
                f"papers/skybyte/published/{self.name}.csv: has no row {row}; "
                "install Entresol again."
            )
        return self.values[key]

    def find(self, workload: str, design: str, metric: str, x: float | str = "") -> float | None:
        """A number that may not have been published."""
        return self.values.get((workload, design, text_of(x), metric))

    def curve(self, workload: str, design: str, metric: str) -> list[tuple[float, float]]:
        """All points of a curve, in order of x."""
        return sorted(
            (float(x), value)
            for (of, by, x, what), value in self.values.items()
            if (of, by, what) == (workload, design, metric)
        )


def text_of(x: float | str) -> str:
    """How the files write a value of what is varied."""
    return x if isinstance(x, str) else f"{x:g}" if x < 1e6 else str(int(x))


def directory() -> Traversable:
    """Where the files are."""
    return resources.files("entresol.papers.skybyte").joinpath("published")


@cache
def published(name: str) -> Published:
    """The numbers of a figure, such as `fig14`. Raises `UserError` for a file that is no good."""
    where = f"papers/skybyte/published/{name}.csv"
    values: dict[Key, float] = {}
    for number, row in enumerate(_rows(name, where), start=2):
        try:
            key = (row["workload"], row["design"], row["x"], row["metric"])
            values[key] = float(row["value"])
        except (KeyError, TypeError, ValueError) as error:
            columns = ", ".join(_COLUMNS)
            raise UserError(f"{where}: line {number} does not have {columns}.") from error
    return Published(name, values)


ROWS = {"fig02": 14, "fig03": 142, "fig04": 14, "fig09": 39, "fig14": 56, "fig15": 42,
        "fig15b": 84, "fig16": 28, "fig17": 252, "fig18": 49, "fig19": 50, "fig20": 50,
        "fig21": 33, "table3": 7}  # fmt: skip
"""How many rows each file has. Some were never complete, so no other test finds one gone."""


def check() -> None:
    """Raises `UserError` for a file that has lost or gained rows."""
    for name, count in ROWS.items():
        if (found := len(published(name).values)) != count:
            raise UserError(
                f"papers/skybyte/published/{name}.csv: has {found} rows instead of {count}; "
                "install Entresol again."
            )


def upper_edge(lower: float) -> float:
    """Where a bin of the artifact's latencies ends: ten of them up to 100 ns, then ninety to a
    decade. A published share is of the accesses up to and with the bin."""
    return lower + max(10.0, 10.0 ** (math.floor(math.log10(lower)) - 1)) if lower else 10.0


def claims() -> list[dict[str, str]]:
    """The numbers of the text: section, quantity, value, unit."""
    return _rows("claims", "papers/skybyte/published/claims.csv")


def _rows(name: str, where: str) -> list[dict[str, str]]:
    try:
        text = directory().joinpath(f"{name}.csv").read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{where}: cannot be read: {error.strerror}.") from error
    return list(csv.DictReader(text.splitlines()))
