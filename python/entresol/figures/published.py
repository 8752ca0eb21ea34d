"""The published numbers of a paper, from the files in the folder `published/` of its room."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable

from entresol.errors import UserError

Key = tuple[str, str, str, str]
"""Workload, design, x, metric."""
_COLUMNS = ("workload", "design", "x", "metric", "value")


@dataclass(frozen=True)
class Table:
    """A file of published numbers."""

    where: str
    """Its name in messages."""
    values: Mapping[Key, float]

    def value(self, workload: str, design: str, metric: str, x: float | str = "") -> float:
        """A number that was published. Raises `UserError` that names file and row if it is gone."""
        key = (workload, design, text_of(x), metric)
        if key not in self.values:
            row = ",".join(key)
            raise UserError(f"{self.where}: has no row {row}; install Entresol again.")
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


class Published:
    """All published numbers of a paper: `published("fig14")` is a file of them."""

    def __init__(self, folder: Traversable, where: str, rows: Mapping[str, int]) -> None:
        """`where` names the folder in messages. `rows` says how many rows each file has: some
        files were published incomplete, so that nothing else finds a row that is gone."""
        self.folder = folder
        self.rows = rows
        self._where = where
        self._read: dict[str, Table] = {}

    def __call__(self, name: str) -> Table:
        """The numbers of a file, such as `fig14`. Raises `UserError` for one that is no good."""
        if name not in self._read:
            self._read[name] = self._table(name)
        return self._read[name]

    def _table(self, name: str) -> Table:
        where = self.where(name)
        values: dict[Key, float] = {}
        for number, row in enumerate(self._rows(name), start=2):
            try:
                key = (row["workload"], row["design"], row["x"], row["metric"])
                values[key] = float(row["value"])
            except (KeyError, TypeError, ValueError) as error:
                columns = ", ".join(_COLUMNS)
                raise UserError(f"{where}: line {number} does not have {columns}.") from error
        return Table(where, values)

    def check(self) -> None:
        """Raises `UserError` for a file that has lost or gained rows."""
        for name, count in self.rows.items():
            if (found := len(self(name).values)) != count:
                raise UserError(f"{self.where(name)}: has {found} rows instead of {count}; "
                                "install Entresol again.")  # fmt: skip

    def claims(self) -> list[dict[str, str]]:
        """The numbers of the text, from `claims.csv`: section, quantity, value, unit."""
        return self._rows("claims")

    def where(self, name: str) -> str:
        """A file's name in messages."""
        return f"{self._where}/{name}.csv"

    def _rows(self, name: str) -> list[dict[str, str]]:
        try:
            text = self.folder.joinpath(f"{name}.csv").read_text(encoding="utf-8")
        except OSError as error:
            why = error.strerror or error
            raise UserError(f"{self.where(name)}: cannot be read: {why}.") from error
        return list(csv.DictReader(text.splitlines()))
