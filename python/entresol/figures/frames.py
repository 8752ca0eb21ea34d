"""Tidy frames: one row per drawn value, ours beside the published one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from entresol.figures.plan import quotient

if TYPE_CHECKING:
    import polars

GEOMETRIC = "geo. mean"
ARITHMETIC = "arith. mean"
MEANS = (GEOMETRIC, ARITHMETIC)


@dataclass(frozen=True)
class Row:
    """A value: of what, at which point, ours, and what was published."""

    workload: str
    design: str
    x: float | str | None
    metric: str
    ours: float | None
    published: float | None


@dataclass
class Rows:
    """Rows in the order in which they are drawn."""

    rows: list[Row] = field(default_factory=list)

    def add(
        self,
        workload: str,
        design: str,
        metric: str,
        ours: float | None,
        published: float | None = None,
        x: float | str | None = None,
    ) -> None:
        """Adds a value."""
        self.rows.append(Row(workload, design, x, metric, ours, published))

    def frame(self, means: Sequence[str] = MEANS) -> polars.DataFrame:
        """The frame, with a mean over workloads per design, x and metric for each kind asked for.

        A published mean is over the workloads that have both numbers, so that it is compared with
        ours of the same workloads."""
        several = len({row.workload for row in self.rows}) > 1
        kinds = means if several else ()  # One workload is its own mean.
        rows = [*self.rows, *(row for kind in kinds for row in self._means(kind))]
        return _frame(rows)

    def _means(self, kind: str) -> list[Row]:
        groups: dict[tuple[str, float | str | None, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.design, row.x, row.metric), []).append(row)
        found: list[Row] = []
        for (design, x, metric), group in groups.items():
            both = [row for row in group if row.ours is not None and row.published is not None]
            ours = mean(kind, [row.ours for row in (both or group) if row.ours is not None])
            theirs = mean(kind, [row.published for row in both if row.published is not None])
            found.append(Row(kind, design, x, metric, ours, theirs))
        return found


def mean(kind: str, values: Sequence[float]) -> float | None:
    """A mean; none of nothing, and no geometric mean where a value is not positive."""
    if not values:
        return None
    return geometric(values) if kind == GEOMETRIC else sum(values) / len(values)


def geometric(values: Sequence[float]) -> float | None:
    """The geometric mean; none where a value is not positive."""
    if not values or min(values) <= 0:
        return None
    return math.exp(sum(map(math.log, values)) / len(values))


def _frame(rows: Sequence[Row]) -> polars.DataFrame:
    import polars as pl

    text = any(isinstance(row.x, str) for row in rows)
    schema = {
        "workload": pl.String, "design": pl.String, "x": pl.String if text else pl.Float64,
        "metric": pl.String, "ours": pl.Float64, "published": pl.Float64, "ratio": pl.Float64,
    }  # fmt: skip
    columns: dict[str, Callable[[Row], object]] = {
        "workload": lambda row: row.workload,
        "design": lambda row: row.design,
        "x": lambda row: row.x if isinstance(row.x, str) or row.x is None else float(row.x),
        "metric": lambda row: row.metric,
        "ours": lambda row: row.ours,
        "published": lambda row: row.published,
        "ratio": lambda row: quotient(row.ours, row.published),
    }
    data = {name: [value(row) for row in rows] for name, value in columns.items()}
    return pl.DataFrame(data, schema=schema)


def read(frame: polars.DataFrame) -> list[Row]:
    """The rows of a frame."""
    wanted = frame.select("workload", "design", "x", "metric", "ours", "published")
    return [Row(*values) for values in wanted.iter_rows()]


def distinct(frame: polars.DataFrame, column: str) -> list[str]:
    """The values of a column, in order of appearance."""
    return list(dict.fromkeys(frame[column].to_list()))


Cell = tuple[float | None, float | None]
"""Ours and published."""


def cells(
    frame: polars.DataFrame, metric: str, *, by_x: bool = False
) -> dict[tuple[str, str | float | None], Cell]:
    """Ours and published by (workload, design), or by (workload, x)."""
    return {
        (row.workload, row.x if by_x else row.design): (row.ours, row.published)
        for row in read(frame)
        if row.metric == metric
    }
