"""The points of a sweep, all checked before the first of them runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entresol import core, study
from entresol.core import Setup
from entresol.errors import UserError, did_you_mean
from entresol.point import Point
from entresol.study import Capture
from entresol.sweep import grid
from entresol.sweep.grid import CHOICES, Choice, Source, shown

MACHINE = "table2"
MODES = ("detailed", "fast")


@dataclass(frozen=True)
class Row:
    """A point, and what it has for each key that varies; none where it has the default."""

    point: Point
    values: Mapping[str, grid.Value | None]

    def label(self) -> str:
        """The point as a person reads it."""
        given = (f"{key}={shown(value)}" for key, value in self.values.items()
                 if key not in ("trace", "design") and value is not None)  # fmt: skip
        return " · ".join([self.point.trace.name, self.point.design, *given])


@dataclass(frozen=True)
class Sweep:
    """Everything that a sweep runs."""

    source: Source
    varied: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def points(self) -> list[Point]:
        """The points in order."""
        return [row.point for row in self.rows]


def plan(source: Source, grids: Sequence[Mapping[str, Sequence[Any]]]) -> Sweep:
    """Checks a sweep and says what it runs. Raises `UserError` naming file and key.

    A combination that is wrong although each of its values is right elsewhere stays in: it fails
    alone when the sweep runs.
    """
    opened = _Opened(source)
    expanded = [_expand(each, opened, source) for each in grids]
    choices = [choice for each in expanded for choice in grid.combinations(each)]
    varied = _varied(choices)
    rows = [_row(dict(choice), varied) for choice in choices]
    _check(rows, choices, source)
    return Sweep(source, varied, tuple(rows))


def _expand(given: Mapping[str, Sequence[Any]], opened: _Opened, source: Source) -> dict[str, Any]:
    """A grid in which every value is known and stands for one thing."""
    full: dict[str, Any] = {"trace": (), "design": ("all",)} | dict(given)
    if not full["trace"]:
        raise UserError(f"{source.name}: trace: is missing; name at least one capture.")
    full["trace"] = tuple(capture for each in full["trace"] for capture in opened.traces(each))
    known: dict[str, Callable[[], list[str]]] = {
        "machine": lambda: [machine.name for machine in core.machines()],
        "nand": lambda: [nand.name for nand in core.nand_types()],
        "mode": lambda: list(MODES),
    }
    for key in full.keys() & known.keys():
        for name in full[key]:
            _check_known(name, known[key](), key, source)
    designs = [design.name for design in core.designs()]
    for name in full["design"]:
        _check_known(name, [*designs, "all"], "design", source)
    if "all" in full["design"]:
        full["design"] = tuple(designs)
    for text in full.get("fidelity", ()):
        with _Located(source, "fidelity"):
            core.fidelity_names(text)
    if "config" in full:
        full["config"] = tuple(opened.config(Path(each)) for each in full["config"])
    return full


def _check_known(name: str, known: Sequence[str], key: str, source: Source) -> None:
    if name not in known:
        hint = did_you_mean(name, known) or f" Choose from {', '.join(known)}."
        raise UserError(f"{source.name}: {key}: unknown {key} {name}.{hint}")


class _Located:
    """Says of errors which file and key they come from."""

    def __init__(self, source: Source, key: str) -> None:
        self._where = f"{source.name}: {key}"

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, UserError | core.EntresolError):
            text = str(error).removeprefix("configuration: ")
            raise UserError(f"{self._where}: {text}") from error


class _Opened:
    """Files that a sweep names, each opened once; relative paths begin at the sweep's file."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._captures: dict[str, tuple[Capture, ...]] = {}

    def traces(self, named: Any) -> tuple[Capture, ...]:
        """The captures that a value of `trace` stands for."""
        name = str(named)
        if name not in self._captures:
            self._captures[name] = self._open(named)
            self._check_names()
        return self._captures[name]

    def _open(self, named: Any) -> tuple[Capture, ...]:
        with _Located(self._source, "trace"):
            if isinstance(named, dict):
                raise UserError("workloads are not to be had yet.")
            parts = str(named).split("+")
            if (self._source.directory / str(named)).exists():
                parts = [str(named)]
            places = [str(self._source.directory / part) if part else "" for part in parts]
            return study.open_captures([Path("+".join(places))])

    def _check_names(self) -> None:
        names = [capture.name for each in self._captures.values() for capture in each]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            text = f"two captures are called {twice}; rename one of them."
            raise UserError(f"{self._source.name}: trace: {text}")

    def config(self, path: Path) -> tuple[str, str]:
        """Name and text of a file with parameters."""
        with _Located(self._source, "config"):
            ((_, text),) = study.read_config_files([self._source.directory / path])
        return str(path), text


def _varied(choices: Sequence[Choice]) -> tuple[str, ...]:
    values: dict[str, set[Any]] = defaultdict(set)
    for choice in choices:
        for key, value in choice:
            values[key].add(_shown_value(key, value))
    everywhere = {key for key in values if all(key in dict(choice) for choice in choices)}
    return tuple(key for key in values if len(values[key]) > 1 or key not in everywhere)


def _shown_value(key: str, value: Any) -> grid.Value:
    if key == "trace":
        return str(value.name)
    if key == "config":
        return str(value[0])
    assert isinstance(value, str | int), "checked when it was read"
    return value


def _row(choice: dict[str, Any], varied: Sequence[str]) -> Row:
    overrides = tuple(f"{key}={shown(value)}" for key, value in choice.items()
                      if key not in CHOICES)  # fmt: skip
    setup = Setup(
        choice.get("machine", MACHINE),
        choice.get("nand"),
        (choice["config"],) if "config" in choice else (),
        overrides,
        choice.get("fidelity", "paper"),
        choice.get("mode", MODES[0]),
    )
    point = Point(
        choice["trace"], choice["design"], setup, choice.get("threads"), choice.get("audit", False)
    )
    values = {key: _shown_value(key, choice[key]) if key in choice else None for key in varied}
    return Row(point, values)


def _check(rows: Sequence[Row], choices: Sequence[Choice], source: Source) -> None:
    """Refuses a value that is wrong wherever it stands."""
    problems = [_problem(row.point) for row in rows]
    if not any(problems):
        return
    fine: set[tuple[str, Any]] = set()
    for choice, problem in zip(choices, problems, strict=True):
        if problem is None:
            fine.update((key, _shown_value(key, value)) for key, value in choice)
    for choice, problem in zip(choices, problems, strict=True):
        for key, value in choice if problem is not None else ():
            if (key, _shown_value(key, value)) not in fine:
                raise UserError(f"{source.name}: {problem}")


def _problem(point: Point) -> str | None:
    for part in point.trace.parts or (point.trace,):
        if point.threads is not None and point.threads > part.info["threads"]:
            count = part.info["threads"]
            return f"threads: {point.threads} wanted, but {part.name} has {count}."
    try:
        core.effective_config(point.setup, point.design)
    except core.ConfigError as error:
        return str(error).removeprefix("configuration: ").replace("--set ", "")
    return None
