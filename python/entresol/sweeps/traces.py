"""The captures of a sweep: files, and workloads that are captured here when they are not yet."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from entresol import core, study, units, workload
from entresol.errors import UserError, did_you_mean
from entresol.study import Capture
from entresol.sweeps.grid import Source, shown
from entresol.terminal import say

WORKLOAD = "workload"


@contextmanager
def located(source: Source, key: str) -> Iterator[None]:
    """Says of errors which file and key they come from."""
    try:
        yield
    except (UserError, core.EntresolError) as error:
        text = str(error).removeprefix("configuration: ")
        raise UserError(f"{source.name}: {key}: {text}") from error


def single(named: Any) -> list[Any]:
    """A value of `trace` as values that stand for one capture each: of a workload all
    combinations of what it lists. Raises `UserError` for what cannot be captured."""
    if not isinstance(named, dict):
        return [str(named)]
    known = [WORKLOAD, *(field.name for field in fields(workload.Wanted) if field.name != "name")]
    for key in named:
        if key not in known:
            hint = did_you_mean(key, known) or f" There are {', '.join(known)}."
            raise UserError(f"unknown key {key} of a workload.{hint}")
    if WORKLOAD not in named:
        raise UserError(f"{shown(named)}: names no workload; write workload = NAME.")
    lists = [value if isinstance(value, list | tuple) else [value] for value in named.values()]
    for key, values in zip(named, lists, strict=True):
        if not values:
            raise UserError(f"{key} of a workload: has no value; name at least one.")
    tables = [dict(zip(named, values, strict=True)) for values in itertools.product(*lists)]
    for table in tables:
        _check_kinds(table)
    return tables


def _check_kinds(table: dict[str, Any]) -> None:
    for key, value in table.items():
        wanted = str if key in (WORKLOAD, "scale") else int
        if key == "footprint" and isinstance(value, str) and units.size(value) is not None:
            continue
        if type(value) is not wanted:
            kind = "text" if wanted is str else "a whole number"
            raise UserError(f"{key} of a workload: {shown(value)} is not {kind}.")
    known = [program.name for program in workload.programs()]
    if table[WORKLOAD] not in known:
        hint = did_you_mean(table[WORKLOAD], known) or f" There are {', '.join(known)}."
        raise UserError(f"unknown workload {table[WORKLOAD]}.{hint}")


@dataclass(frozen=True)
class Captures:
    """Opens what a sweep names; relative paths begin at the directory of its file."""

    source: Source
    store: Path | None
    """Where captures of workloads are kept, if not in the usual place."""

    def open(self, named: Any) -> Capture:
        """The capture of one value of `trace`. Raises `UserError`."""
        with located(self.source, "trace"):
            if isinstance(named, dict):
                return self._workload(named)
            path = self._place(str(named))
            try:
                (capture,) = study.open_captures([path])
            except core.TraceError as error:
                if "--format" not in str(error):
                    raise
                raise UserError(
                    f"{path}: is in no format that its content tells; make a capture of it with "
                    f"entresol trace import {path} -o NAME.etr --format FORMAT."
                ) from error
            return capture

    def _place(self, named: str) -> Path:
        directory = self.source.directory
        if (directory / named).exists():
            return directory / named
        parts = named.split("+")
        return Path("+".join(str(directory / part) if part else "" for part in parts))

    def _workload(self, table: dict[str, Any]) -> Capture:
        values = {("name" if key == WORKLOAD else key): value for key, value in table.items()}
        if isinstance(size := values.get("footprint"), str):
            values["footprint"] = units.size(size)
        wanted = workload.Wanted(**values)
        recording = workload.record(wanted, self.store)
        if recording.made:
            say(f"captured {shown(table)}")
        (capture,) = study.open_captures([recording.path])
        return replace(capture, name="-".join(str(value) for value in table.values()))

    def check_names(self, captures: Sequence[Capture]) -> None:
        """Raises `UserError` if rows could not be told apart by the names of their captures."""
        names = [capture.name for capture in captures]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            text = f"two captures are called {twice}; rename one of them."
            raise UserError(f"{self.source.name}: trace: {text}")
