"""What the files of a sweep hold: a row a point, where they come from, and the page.

It depends on the sweep and its results alone: not on what was in the store, how often the sweep
was stopped, or who computed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from entresol import core, report, result_table, units
from entresol.execution.executor import Outcome
from entresol.result_types import SweepSummary
from entresol.sweeps.grid import CHOICES, shown
from entresol.sweeps.plan import Row, Sweep

SCHEMA = 1


def rows(sweep: Sweep, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One row a point: its number, what it varies, its result, and why it has none."""
    kinds = {parameter.key: parameter.kind for parameter in core.parameters()}
    found = [
        {"point": index, **_identity(row), **_varied(row, kinds), **_result(outcome)}
        | {"error": outcome.error}
        for index, (row, outcome) in enumerate(zip(sweep.rows, outcomes, strict=True))
    ]
    for key in sweep.varied:
        # A number that may also be a word, such as "unlimited", is text in all rows.
        if any(isinstance(row.get(key), str) for row in found):
            for row in found:
                row[key] = None if row.get(key) is None else str(row[key])
    return found


def _identity(row: Row) -> dict[str, Any]:
    return {"trace": row.point.trace.name, "design": row.point.design}


def _varied(row: Row, kinds: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    config = None
    for key, value in row.values.items():
        if key in CHOICES:
            # What a result has of its own is the number of threads that took part.
            found[f"{key}_wanted" if key == "threads" else key] = value
            continue
        config = config or _config(row)
        section, _, name = key.rpartition(".")
        text = config[section][name] if config else None if value is None else shown(value)
        found[key] = text
        as_number = None if text is None else units.number(text, kinds[key])
        if as_number is not None:
            found[key + as_number[0]] = as_number[1]
    return found


def _config(row: Row) -> core.Config:
    try:
        return core.effective_config(row.point.setup, row.point.design)
    except core.ConfigError:
        return {}


def _result(outcome: Outcome) -> dict[str, Any]:
    return {} if outcome.result is None else result_table.flatten(outcome.result)


def assemble(sweep: Sweep, outcomes: Sequence[Outcome]) -> SweepSummary:
    """The object of `sweep.json`: where the rows come from, and which have no result."""
    captures = {row.point.trace.name: row.point.trace for row in sweep.rows}
    return {
        "schema": SCHEMA,
        "kind": "sweep",
        "provenance": {
            "entresol": core.version(),
            "sweep": sweep.source.text,
            "sweep_digest": hashlib.sha256(sweep.source.text.encode()).hexdigest(),
            "traces": [
                {
                    "name": capture.name,
                    "digest": capture.info["digest"],
                    "threads": capture.info["threads"],
                    "instructions": capture.info["instructions"],
                }
                for capture in captures.values()
            ],
        },
        "varied": list(sweep.varied),
        "points": [
            {
                "point": index,
                "trace": row.point.trace.name,
                "design": row.point.design,
                "values": dict(row.values),
                "key": outcome.key,
                "error": outcome.error,
            }
            for index, (row, outcome) in enumerate(zip(sweep.rows, outcomes, strict=True))
        ],
        "failures": sum(outcome.error is not None for outcome in outcomes),
    }


def _shown(row: Row, key: str) -> str:
    """The value of a key as the page has it: what a point is compared under is said also where
    it is the default."""
    value, setup = row.values[key], row.point.setup
    known = {"mode": setup.mode, "machine": setup.machine, "fidelity": setup.fidelity}
    return known.get(key, "" if value is None else shown(value))


def page(sweep: Sweep, outcomes: Sequence[Outcome], command: str) -> report.Sweep:
    """The points as the page shows them."""
    points = [
        report.Point(
            _identity(row) | {key: _shown(row, key) for key in row.values},
            outcome.result,
            outcome.error or "",
        )
        for row, outcome in zip(sweep.rows, outcomes, strict=True)
    ]
    title = f"Sweep {Path(sweep.source.name).stem}"
    return report.Sweep(title, points, command, sweep.source.text, core.version())
