"""The points of a sweep, all checked before the first of them runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from entresol import core, papers, study
from entresol.choices import Mode
from entresol.core import Setup
from entresol.errors import UserError, did_you_mean
from entresol.execution.point import Point
from entresol.study import Capture
from entresol.sweeps import grid
from entresol.sweeps.grid import CHOICES, Source, shown
from entresol.sweeps.traces import Captures, located, single

MACHINE = "table2"


@dataclass(frozen=True)
class Row:
    """A point, and what it has for each key that varies; none where it has the default."""

    point: Point
    values: Mapping[str, grid.Value | None]

    def label(self) -> str:
        """The point as a person reads it."""
        given = (
            f"{key}={shown(value)}"
            for key, value in self.values.items()
            if key not in ("trace", "design") and value is not None
        )
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

    @property
    def labels(self) -> dict[int, str]:
        """The points as a person reads them, by `id`: equal points may be in several rows."""
        return {id(row.point): row.label() for row in self.rows}


def plan(source: Source, grids: Sequence[Mapping[str, Sequence[Any]]], captures: Captures) -> Sweep:
    """Checks a sweep and says what it runs. Raises `UserError` naming file and key.

    Captures are opened, or made, when all else is known to be right. A combination that is wrong
    although each of its values is right elsewhere stays in: it fails alone when the sweep runs.
    """
    expanded = [_expand(each, source) for each in grids]
    choices = [dict(choice) for each in expanded for choice in grid.combinations(each)]
    _check(choices, [_config_problem(choice) for choice in choices], source)
    named = {shown(choice["trace"]): choice["trace"] for choice in choices}
    opened = {name: captures.open(each) for name, each in named.items()}
    captures.check_names(list(opened.values()))
    for choice in choices:
        choice["trace"] = opened[shown(choice["trace"])]
    _check(
        choices,
        [study.threads_problem(each["trace"], each.get("threads")) for each in choices],
        source,
    )
    varied = _varied(choices)
    return Sweep(source, varied, tuple(_row(choice, varied) for choice in choices))


def _expand(given: Mapping[str, Sequence[Any]], source: Source) -> dict[str, Any]:
    """A grid in which every name is known and every value stands for one thing."""
    full: dict[str, Any] = {"trace": (), "design": ("all",)} | dict(given)
    if not full["trace"]:
        raise UserError(f"{source.name}: trace: is missing; name at least one capture.")
    with located(source, "trace"):
        full["trace"] = tuple(one for each in full["trace"] for one in single(each))
    known: dict[str, Callable[[], list[str]]] = {
        "machine": lambda: [machine.name for machine in core.machines()],
        "nand": lambda: [nand.name for nand in core.nand_types()],
        "mode": lambda: [str(mode) for mode in Mode],
    }
    for key in full.keys() & known.keys():
        for name in full[key]:
            _check_known(name, known[key](), key, source)
    designs = [design.name for design in core.designs()]
    with located(source, "design"):
        full["design"] = tuple(papers.designs(full["design"]))
    for name in full["design"]:
        _check_known(name, [*designs, "all"], "design", source)
    if "all" in full["design"]:
        full["design"] = tuple(designs)
    for text in full.get("fidelity", ()):
        with located(source, "fidelity"):
            core.fidelity_names(text)
    if "config" in full:
        full["config"] = tuple(_config_file(each, source) for each in full["config"])
    return full


def _config_file(named: Any, source: Source) -> tuple[str, str]:
    """What was named, and the text of it."""
    with located(source, "config"):
        ((_, text),) = study.read_config_files([source.directory / str(named)])
    return str(named), text


def _check_known(name: str, known: Sequence[str], key: str, source: Source) -> None:
    if name not in known:
        hint = did_you_mean(name, known) or f" Choose from {', '.join(known)}."
        raise UserError(f"{source.name}: {key}: unknown {key} {name}.{hint}")


def _varied(choices: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    values: dict[str, set[Any]] = defaultdict(set)
    for choice in choices:
        for key, value in choice.items():
            values[key].add(_plain(key, value))
    everywhere = {key for key in values if all(key in choice for choice in choices)}
    return tuple(key for key in values if len(values[key]) > 1 or key not in everywhere)


def _plain(key: str, value: Any) -> grid.Value:
    """A value as one that can be compared and shown."""
    if isinstance(value, Capture):
        return value.name
    if key == "config":
        return str(value[0])
    return value if isinstance(value, str | int) else shown(value)


def _setup(choice: Mapping[str, Any]) -> Setup:
    overrides = tuple(
        f"{key}={shown(value)}" for key, value in choice.items() if key not in CHOICES
    )
    return Setup(
        choice.get("machine", MACHINE),
        choice.get("nand"),
        (choice["config"],) if "config" in choice else (),
        overrides,
        choice.get("fidelity", "paper"),
        choice.get("mode", Mode.DETAILED),
    )


def _row(choice: Mapping[str, Any], varied: Sequence[str]) -> Row:
    threads, audit = choice.get("threads"), choice.get("audit", False)
    point = Point(choice["trace"], choice["design"], _setup(choice), threads, audit)
    values = {key: _plain(key, choice[key]) if key in choice else None for key in varied}
    return Row(point, values)


def _check(
    choices: Sequence[Mapping[str, Any]], problems: Sequence[str | None], source: Source
) -> None:
    """Refuses a value that is wrong wherever it stands."""
    fine: set[tuple[str, Any]] = set()
    for choice, problem in zip(choices, problems, strict=True):
        if problem is None:
            fine.update((key, _plain(key, value)) for key, value in choice.items())
    for choice, problem in zip(choices, problems, strict=True):
        for key, value in choice.items() if problem is not None else ():
            if (key, _plain(key, value)) not in fine:
                raise UserError(f"{source.name}: {problem}")


def _config_problem(choice: Mapping[str, Any]) -> str | None:
    try:
        core.effective_config(_setup(choice), choice["design"])
    except core.ConfigError as error:
        return str(error).removeprefix("configuration: ").replace("--set ", "")
    return None
