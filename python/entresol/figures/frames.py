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

    def frame(self, means: Sequence[str] = MEANS, parts: Sequence[str] = ()) -> polars.DataFrame:
        """The frame, with a mean over workloads per design, x and metric for each kind asked for.

        All means of a metric are over the same workloads (`of_mean`). `parts` are metrics that add
        up, which geometric means do not."""
        several = len({row.workload for row in self.rows}) > 1
        kinds = means if several else ()  # One workload is its own mean.
        rows = [
            *self.rows,
            *(
                row
                for kind in kinds
                for row in self._means(kind)
                if kind != GEOMETRIC or row.metric not in parts
            ),
        ]
        return _frame(rows)

    def _means(self, kind: str) -> list[Row]:
        chosen = of_mean(self.rows)
        groups: dict[tuple[str, float | str | None, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.design, row.x, row.metric), []).append(row)
        found: list[Row] = []
        for (design, x, metric), group in groups.items():
            rows = [row for row in group if row.workload in chosen[metric]]
            found.append(Row(kind, design, x, metric, _whole(kind, [row.ours for row in rows]),
                             _whole(kind, [row.published for row in rows])))  # fmt: skip
        return found


def of_mean(rows: Sequence[Row]) -> dict[str, tuple[str, ...]]:
    """The workloads that the means of each metric are over: those that have both numbers wherever
    any has, else those that have ours wherever any has. One set for all designs and x, so that no
    step between two means is one between two sets; none if there are fewer than two."""
    found = {}
    for metric in dict.fromkeys(row.metric for row in rows):
        every = [row for row in rows if row.metric == metric and row.workload not in MEANS]
        both = _complete(every, lambda row: row.ours is not None and row.published is not None)
        found[metric] = both or _complete(every, lambda row: row.ours is not None)
    return found


def _complete(rows: Sequence[Row], is_known: Callable[[Row], bool]) -> tuple[str, ...]:
    points = {(row.design, row.x) for row in rows if is_known(row)}
    lacking = {row.workload for row in rows if (row.design, row.x) in points and not is_known(row)}
    names = dict.fromkeys(row.workload for row in rows if points)
    whole = tuple(name for name in names if name not in lacking)
    return whole if len(whole) > 1 else ()


def _whole(kind: str, values: Sequence[float | None]) -> float | None:
    """The mean, if no value is missing."""
    known = [value for value in values if value is not None]
    return mean(kind, known) if len(known) == len(values) else None


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


def parts(frame: polars.DataFrame) -> dict[tuple[str, str, str], Cell]:
    """Ours and published by (workload, design, metric), for stacks."""
    return {
        (row.workload, row.design, row.metric): (row.ours, row.published) for row in read(frame)
    }
