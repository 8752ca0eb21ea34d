"""A point of the design space: one capture on one design, and all that decides the result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from entresol import core
from entresol.core import Json, Setup
from entresol.digest import core_digest, file_digest
from entresol.errors import UserError
from entresol.result_types import Program, RunResult
from entresol.store.result_store import key_of
from entresol.study import Capture, Study

IN_CONFIG = ("machine", "nand", "files", "overrides", "fidelity")
"""Fields of `Setup` that act through the effective configuration and the switches alone."""


@dataclass(frozen=True)
class Windows:
    """Evenly spaced windows instead of the whole capture: the result is `{"windows": […]}`."""

    count: int
    instructions: int


@dataclass(frozen=True)
class Recording:
    """The whole capture, and what happened in a span of simulated time, instead of the result."""

    from_ps: int
    to_ps: int
    limit: int
    """Records of a kind, at most."""
    slowest: int
    """How many of the slowest reads are wanted as well."""


@dataclass(frozen=True)
class Steady:
    """The way through a file of misses, and windows from the steady state on: the result is what
    `core.execute_steady` gives."""

    misses: str
    """The file."""
    looks: int
    """How often it is said on the way what has happened."""
    begin: int
    """The part of the file before which the first window begins."""
    count: int
    offset_milli: int
    """By what share of their distance the windows begin later, in thousandths."""
    lead: int
    """Instructions in detail before each window, which are not measured."""
    instructions: int


Measure = Windows | Recording | Steady | None
"""What is measured; none: the whole capture, whose result is kept in the store."""


@dataclass(frozen=True)
class Point:
    """One capture on one design, and all that decides the result."""

    trace: Capture
    design: str
    setup: Setup
    threads: int | None = None
    audit: bool = False
    measure: Measure = None


def points_of(study: Study) -> list[Point]:
    """Each capture of a study on each design, in study order."""
    return [
        Point(capture, design, study.setup, study.threads, study.audit)
        for capture in study.captures
        for design in study.designs
    ]


def inputs_of(point: Point) -> Json:
    """All that decides the result of a point. Raises `ConfigError` if its configuration is wrong,
    `UserError` if its capture cannot be read.

    Names are no inputs: not of captures, files, or presets, whose values are in the configuration.
    """
    setup = point.setup
    inputs = {
        "core": core_digest(core.library()),
        "captures": captures_of(point.trace),
        "design": point.design,
        "config": core.effective_config(setup, point.design),
        "fidelity": core.fidelity_names(setup.fidelity),
        "setup": {
            name: getattr(setup, name)
            for name in setup.__dataclass_fields__
            if name not in IN_CONFIG
        },
        "threads": point.threads,
        "audit": point.audit,
    }
    return inputs if point.measure is None else inputs | {"measure": measure_as_json(point.measure)}


def key_of_point(point: Point) -> str:
    """The name under which the store has the result of a point; raises as `inputs_of`."""
    return key_of(inputs_of(point))


def captures_of(capture: Capture) -> list[str]:
    """The digests of a capture's file, or of those of a co-run. Raises `UserError`."""
    parts = capture.parts or (capture,)
    try:
        return [file_digest(part.path) for part in parts]
    except OSError as error:
        raise UserError(f"{capture.source}: cannot be read: {error.strerror}.") from error


def measure_as_json(measure: Measure) -> Json | None:
    """What is measured, for a worker and for keys."""
    if measure is None:
        return None
    return {"kind": type(measure).__name__.lower()} | asdict(measure)


def measure_from_json(text: Json | None) -> Measure:
    """What `measure_as_json` gave."""
    if text is None:
        return None
    fields: dict[str, Any] = {name: value for name, value in text.items() if name != "kind"}
    return _MEASURES[text["kind"]](**fields)


_MEASURES = {kind.__name__.lower(): kind for kind in (Windows, Recording, Steady)}


def label_of(point: Point) -> Json:
    """What a point is called; kept beside its result for people to read."""
    return {
        "trace": point.trace.name,
        "machine": point.setup.machine,
        "entresol": core.version(),
    }


def named(result: RunResult, capture: Capture) -> RunResult:
    """A result under the names that its captures have now."""
    parts = capture.parts or (capture,)
    programs: list[Program] = [
        {**program, "trace": part.name}
        for program, part in zip(result["programs"], parts, strict=True)
    ]
    return {**result, "trace": capture.name, "programs": programs}
