"""`run` and `sweep`: the commands of the same names, for notebooks and programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from entresol import study
from entresol.api.design import Design
from entresol.api.results import Results
from entresol.errors import UserError
from entresol.execution import executor
from entresol.execution.executor import Outcome
from entresol.execution.point import Point, points_of
from entresol.execution.progress import Watcher
from entresol.store import location
from entresol.store.result_store import Store
from entresol.study import Study
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
    """Runs captures on designs: `entresol run`. What was run before comes from the store.

    Args:
        traces: A capture, or several: paths; `"A.etr+B.etr"` for programs that run together, which
            are run alone as well; another tool's trace; a workload such as
            `{"workload": "ycsb", "threads": 8}`, captured when it has not been yet.
        designs: Names, values of `entresol.design`, or `"all"`.
        machine: A machine preset: `table2` (the paper's), `small` or `demo`.
        nand: A NAND type; the machine's if left out.
        fidelity: `paper`, `artifact`, or switches joined by commas.
        mode: `detailed`, or `fast`: cores from a filtered stream, quicker and approximate.
        threads: Only so many of the busiest threads of each capture, from 1; all if left out.
        audit: Whether every invariant of the model is checked on the way.
        config: A TOML file of parameters.
        parameters: Parameters by key, as text with its unit, a number or a truth value:
            `{"ssd.dram": "8MiB"}`.
        store: The directory of results; the usual one if left out; `False` looks nothing up and
            keeps nothing.
        jobs: Worker processes, from 1; one per core if left out.
        progress: Whether stderr shows how far it is.

    Returns:
        A result for each capture on each design, in the order of captures and then of reports.

    Raises:
        UserError: Something is wrong with what was given; nothing has run.
        Failed: A run failed, or the store cannot be written.
        KeyboardInterrupt: Ctrl-C; runs that had ended are in the store.
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
    source, grids = _grids("run", given)
    planned = plan.plan(source, grids, Captures(source, _directory(store)))
    has_own = any(isinstance(each, Design) and each.parameters for each in given["design"])
    planned, wanted = (planned, None) if has_own else _as_study(planned)
    outcomes = _outcomes(planned, store, jobs, None, progress, stop_at_failure=True)
    return Results(planned, outcomes, wanted)


def _as_study(planned: plan.Sweep) -> tuple[plan.Sweep, Study]:
    """What `entresol run` runs: programs of a co-run alone as well, designs in order."""
    points = planned.points
    opened = {point.trace.name: point.trace for point in points}
    captures = study.with_parts(list(opened.values()))
    designs = study.choose_designs([point.design for point in points])
    wanted = Study(captures, designs, points[0].setup, points[0].threads, points[0].audit)
    varied = tuple(
        key for key, found in (("trace", captures), ("design", designs)) if len(found) > 1
    )
    rows = tuple(
        plan.Row(each, {key: each.trace.name if key == "trace" else each.design for key in varied})
        for each in points_of(wanted)
    )
    return plan.Sweep(planned.source, varied, rows), wanted


def sweep(
    what: Mapping[str, Any] | Path | str,
    *,
    store: Kept = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    progress: bool = True,
) -> Results:
    """Runs all points of a grid: `entresol sweep`. A point that fails stops no other.

    Args:
        what: The path of a sweep file, or its content: a mapping from keys to a value or a list of
            values, such as
            `{"trace": "sort.etr", "design": ["base-cssd", big], "nand.t_r": ["3us", "30us"]}`,
            where designs may be values of `entresol.design` as well as names.
        store: As in `run`.
        jobs: As in `run`.
        scheduler: The address of a Dask cluster that computes, `tcp://HOST:PORT`.
        progress: As in `run`.

    Returns:
        A result for each point, or the sentence why it has none, in order, the first key varying
        slowest.

    Raises:
        UserError: Something is wrong with what was given; nothing has run.
        Failed: The store cannot be written, or the cluster is gone.
        KeyboardInterrupt: Ctrl-C; points that had ended are in the store.
    """
    if not isinstance(what, Mapping | str | Path):
        raise UserError(f"sweep: {what} is neither a mapping nor the path of a file.")
    source, grids = _grids("sweep", what) if isinstance(what, Mapping) else grid.read(Path(what))
    planned = plan.plan(source, grids, Captures(source, _directory(store)))
    return Results(planned, _outcomes(planned, store, jobs, scheduler, progress))


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


def _grids(name: str, given: Mapping[str, Any]) -> tuple[Source, list[dict[str, list[Any]]]]:
    tables = _tables(given)
    rest = {key: value for key, value in given.items() if key != LISTED}
    documents = [rest | dict(table) for table in tables] if tables is not None else [rest]
    documents = [part for document in documents for part in _by_design(document)]
    text = json.dumps(documents, indent=2, default=str)
    source = Source(name, Path(), text)
    return source, grid.grids({LISTED: documents}, source)


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


def _outcomes(
    planned: plan.Sweep,
    store: Kept,
    jobs: int | None,
    scheduler: str | None,
    progress: bool,
    *,
    stop_at_failure: bool = False,
) -> tuple[Outcome, ...]:
    kept = None if store is False else Store(location.store_directory(_directory(store)))
    labels = planned.labels

    def label(each: Point) -> str:
        return labels[id(each)]

    with Watcher(label) if progress else nullcontext() as watcher:
        watch = None if watcher is None else watcher.watch
        return tuple(
            executor.execute(
                planned.points, kept, jobs, scheduler, watch, stop_at_failure=stop_at_failure
            )
        )
