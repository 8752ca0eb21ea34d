"""`run` and `sweep`: the commands of the same names, for notebooks and programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from entresol.api.design import Design
from entresol.api.results import Results
from entresol.errors import Failed, UserError
from entresol.execution import executor
from entresol.execution.executor import Point
from entresol.execution.progress import Watcher
from entresol.store import location
from entresol.store.result_store import Store
from entresol.sweeps import grid, plan
from entresol.sweeps.grid import CHOICES, LISTED, Source, Value
from entresol.sweeps.traces import Captures

Trace = str | Path | Mapping[str, Any]
"""A capture, captures joined by `+`, another tool's trace, or a table that names a workload."""

Kept = Path | str | Literal[False] | None
"""A directory; none: the usual one; false: nothing is looked up or kept."""


def run(
    traces: Trace | Sequence[Trace],
    designs: str | Design | Sequence[str | Design] = "all",
    *,
    machine: str = "table2",
    nand: str | None = None,
    fidelity: str = "paper",
    mode: str = "detailed",
    threads: int | None = None,
    audit: bool = False,
    config: Path | str | None = None,
    parameters: Mapping[str, Value] | None = None,
    store: Kept = None,
    jobs: int | None = None,
    progress: bool = True,
) -> Results:
    """Runs captures on designs. What was run before comes from the store.

    Raises `UserError` for what is wrong, before anything runs, and `Failed` if a run fails.
    """
    given: dict[str, Any] = {
        "trace": _listed(traces),
        "design": _listed(designs),
        "machine": machine,
        "fidelity": fidelity,
        "mode": mode,
        "audit": audit,
        **_parameters(parameters or {}),
    }
    optional = {"nand": nand, "threads": threads, "config": config}
    given |= {key: value for key, value in optional.items() if value is not None}
    results = _execute("run", given, store, jobs, None, progress)
    for outcome in results.outcomes:
        if outcome.error is not None:
            raise Failed(f"{outcome.point.trace.name} · {outcome.point.design}: {outcome.error}")
    return results


def sweep(
    what: Mapping[str, Any] | Path | str,
    *,
    store: Kept = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    progress: bool = True,
) -> Results:
    """Runs all points of a grid, or of the file of one; a point that fails stops no other.

    A grid maps keys of a sweep file to a value or a list of values, for example
    `{"trace": "sort.etr", "design": ["base-cssd", big], "nand.t_r": ["3us", "30us"]}`, where
    designs may be values of `entresol.design` as well as names. Raises `UserError` for what is
    wrong, before anything runs.
    """
    if isinstance(what, Mapping):
        return _execute("sweep", what, store, jobs, scheduler, progress)
    if not isinstance(what, str | Path):
        raise UserError(f"sweep: {what} is neither a mapping nor the path of a file.")
    source, grids = grid.read(Path(what))
    return _carry_out(source, grids, store, jobs, scheduler, progress)


def _parameters(given: Mapping[str, Value]) -> Mapping[str, Value]:
    if not isinstance(given, Mapping):
        raise UserError(f"parameters: {given} is no mapping from keys to values.")
    for key in given:
        if key in (*CHOICES, LISTED):
            raise UserError(f"parameters: {key} is no parameter; give it as an argument.")
    return given


def _directory(store: Kept) -> Path | None:
    if store is None or store is False:
        return None
    if not isinstance(store, str | Path):
        raise UserError(f"store: {store} is no directory; leave it out for the usual one.")
    return Path(store)


def _listed(value: Any) -> list[Any]:
    alone = isinstance(value, str | Path | Mapping | Design) or not isinstance(value, Iterable)
    return [value] if alone else list(value)


def _execute(
    name: str,
    given: Mapping[str, Any],
    store: Kept,
    jobs: int | None,
    scheduler: str | None,
    progress: bool,
) -> Results:
    tables = _tables(given)
    rest = {key: value for key, value in given.items() if key != LISTED}
    documents = [rest | dict(table) for table in tables] if tables is not None else [rest]
    documents = [part for document in documents for part in _by_design(document)]
    text = json.dumps(documents, indent=2, default=str)
    source = Source(name, Path(), text)
    grids = grid.grids({LISTED: documents}, source)
    return _carry_out(source, grids, store, jobs, scheduler, progress)


def _tables(given: Mapping[str, Any]) -> Sequence[Mapping[str, Any]] | None:
    tables = given.get(LISTED)
    if tables is None or (
        isinstance(tables, list | tuple) and all(isinstance(each, Mapping) for each in tables)
    ):
        return tables
    raise UserError(f"sweep: {LISTED}: {tables} is no list of mappings.")


def _by_design(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Documents in which designs are names: one for each that has parameters of its own."""
    parts: list[dict[str, Any]] = []
    names: list[str] = []
    for each in _listed(document.get("design", "all")):
        if not isinstance(each, Design) or not each.parameters:
            if not names:
                parts.append({**document, "design": names})
            names.append(each.name if isinstance(each, Design) else each)
            continue
        names = []
        twice = [key for key, _ in each.parameters if key in document]
        if twice:
            raise UserError(f"{each.name}: has a {twice[0]} of its own; leave out the other.")
        parts.append({**document, **dict(each.parameters), "design": [each.name]})
    if not parts:
        raise UserError("design: has no value; name at least one.")
    return parts


def _carry_out(
    source: Source,
    grids: Sequence[Mapping[str, Sequence[Any]]],
    store: Kept,
    jobs: int | None,
    scheduler: str | None,
    progress: bool,
) -> Results:
    directory = _directory(store)
    planned = plan.plan(source, grids, Captures(source, directory))
    kept = None if store is False else Store(location.store_directory(directory))
    labels = {id(row.point): row.label() for row in planned.rows}

    def label(each: Point) -> str:
        return labels[id(each)]

    with Watcher(label) if progress else nullcontext() as watcher:
        watch = None if watcher is None else watcher.watch
        outcomes = executor.execute(planned.points, kept, jobs, scheduler, watch)
    return Results(planned, tuple(outcomes))
