"""What `run` and `sweep` give: frames, comparisons, and files."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entresol import quantity, result_files, result_table, study, summary
from entresol.atomic import OutputDirectory
from entresol.errors import UserError
from entresol.execution.executor import Outcome
from entresol.result_types import RunResult
from entresol.study import Study
from entresol.sweeps import table
from entresol.sweeps.grid import shown
from entresol.sweeps.plan import Row, Sweep

if TYPE_CHECKING:
    import pandas
    import polars

SHOWN = 50
"""Rows of the table in a notebook."""


@dataclass(frozen=True, repr=False)
class Results:
    """Points and what became of each, in order."""

    plan: Sweep
    outcomes: tuple[Outcome, ...]
    study: Study | None = None
    """What `run` ran, where designs are those that the command knows."""

    def __len__(self) -> int:
        return len(self.outcomes)

    def __iter__(self) -> Iterator[RunResult]:
        """The results that there are, as `entresol run --json` has them."""
        found = [outcome.result for outcome in self.outcomes if outcome.result is not None]
        return iter(found if self.study is None else summary.assemble(self.study, found)["runs"])

    @property
    def failures(self) -> dict[str, str]:
        """Points that failed, by what a person calls them, and why; empty if none did."""
        return {
            row.label(): outcome.error
            for row, outcome in self._pairs()
            if outcome.error is not None
        }

    @property
    def varied(self) -> tuple[str, ...]:
        """The keys in which points differ."""
        return self.plan.varied

    def frame(self) -> polars.DataFrame:
        """One row a point, in order: the columns of `results.parquet` of a sweep.

        The unit of a number is in the name of its column: `_ps`, `_bytes`, `_milli` (thousandths).
        A point without a result has none in its row, and the sentence in `error`.
        """
        import polars

        frame = polars.from_arrow(self._table())
        assert isinstance(frame, polars.DataFrame), "a table becomes a frame"
        return frame

    def to_pandas(self) -> pandas.DataFrame:
        """As `frame`, for pandas. Raises `UserError` without the package."""
        if importlib.util.find_spec("pandas") is None:
            raise UserError("to_pandas needs the package pandas; install entresol[pandas].")
        frame: pandas.DataFrame = self._table().to_pandas()
        return frame

    def _table(self) -> Any:
        return result_table.table(table.rows(self.plan, self.outcomes))

    def compare(self, reference: str = "base-cssd") -> polars.DataFrame:
        """Execution times over those of a design on the same trace with the same choices.

        Columns: trace, design, what else varies, `time_ps`, `normalised` (below 1 is faster),
        `speedup`. A reference for which a parameter was not set serves all values of it,
        but none on another machine or in another mode. Raises
        `UserError` if the design was not run.
        """
        import polars

        if all(row.point.design != reference for row in self.plan.rows):
            raise UserError(f"{reference}: was not run, so nothing can be compared with it.")
        rows = []
        for row, outcome in self._pairs():
            time = _time(outcome)
            base = self._reference(row, reference)
            rows.append(
                {
                    "trace": row.point.trace.name,
                    "design": row.point.design,
                    **self._others(row),
                    "time_ps": time,
                    "normalised": time / base if time and base else None,
                    "speedup": base / time if time and base else None,
                }
            )
        return polars.DataFrame(rows, infer_schema_length=None)

    def _others(self, row: Row) -> dict[str, Any]:
        return {key: value for key, value in row.values.items() if key not in ("trace", "design")}

    def _reference(self, row: Row, design: str) -> int | None:
        mine = self._others(row)
        fits = [
            outcome
            for other, outcome in self._pairs()
            if other.point.design == design
            and other.point.trace.name == row.point.trace.name
            and _circumstances(other) == _circumstances(row)
            and all(value in (None, mine[key]) for key, value in self._others(other).items())
        ]
        return _time(fits[0]) if len(fits) == 1 else None

    def _pairs(self) -> list[tuple[Row, Outcome]]:
        return list(zip(self.plan.rows, self.outcomes, strict=True))

    def write(self, directory: Path | str) -> Path:
        """Writes the files of the command of the same name; where they are.

        Of `run`: `summary.json`, `results.parquet`, `report.html`. Of `sweep`, and of a run of
        designs with parameters of their own, which no command takes: `results.parquet`,
        `sweep.json`, `report.html`. Raises `UserError` if the directory cannot be written, `Failed`
        if the disk is full.
        """
        with OutputDirectory(Path(directory)) as output:
            if self.study is None:
                name = self.plan.source.name
                result_files.write_sweep(output, self.plan, self.outcomes, name)
            else:
                runs = [outcome.result for outcome in self.outcomes if outcome.result is not None]
                whole = summary.assemble(self.study, runs)
                result_files.write_run(output, self.study, whole, study.command(self.study))
        return Path(directory)

    def __repr__(self) -> str:
        failed = len(self.failures)
        words = [f"{len(self)} {'point' if len(self) == 1 else 'points'}"]
        words += [f"over {', '.join(self.varied)}"] if self.varied else []
        return f"<Results: {' '.join(words)}{f', {failed} failed' if failed else ''}>"

    def _repr_html_(self) -> str:
        keys = [key for key in self.varied if key not in ("trace", "design")]
        head = ["trace", "design", *keys, "time", "AMAT, all", "flash programs"]
        rows = "".join(self._row(row, outcome, keys) for row, outcome in self._pairs()[:SHOWN])
        more = len(self) - SHOWN
        tail = f"<p>and {more} more: <code>.frame()</code></p>" if more > 0 else ""
        titles = "".join(f"<th>{escape(title)}</th>" for title in head)
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>{tail}"

    def _row(self, row: Row, outcome: Outcome, keys: list[str]) -> str:
        words = [row.point.trace.name, row.point.design]
        words += ["" if row.values[key] is None else shown(row.values[key]) for key in keys]
        cells = "".join(f"<td style='text-align:left'>{escape(word)}</td>" for word in words)
        if outcome.result is None:
            return f"<tr>{cells}<td colspan=3>{escape(outcome.error or '')}</td></tr>"
        statistics = outcome.result["statistics"]
        numbers = [
            quantity.duration(outcome.result["execution_time_ps"]),
            quantity.duration(statistics["amat"]["all_ps"]),
            quantity.exact(statistics["flash"]["program_pages"]),
        ]
        cells += "".join(f"<td style='text-align:right'>{number}</td>" for number in numbers)
        return f"<tr>{cells}</tr>"


def _circumstances(row: Row) -> tuple[object, ...]:
    """What has to be the same in both, whether it was set or is the default."""
    setup = row.point.setup
    return setup.mode, setup.machine, setup.nand, setup.fidelity, row.point.threads


def _time(outcome: Outcome) -> int | None:
    return None if outcome.result is None else int(outcome.result["execution_time_ps"])
