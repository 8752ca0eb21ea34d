"""The configurations that an explanation needs, and what their runs say of each choice."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from entresol import core, papers, result_types, study
from entresol.core import Setup
from entresol.derived import BASE
from entresol.errors import UserError
from entresol.estimate import Estimate
from entresol.execution.point import Point
from entresol.gain import shapley
from entresol.gain.shapley import Choices, Gain
from entresol.result_types import RunResult
from entresol.study import Capture, Study

SCHEMA = 1
_MECHANISMS = (
    ("write_log", "Write log", "false"),
    ("migration", "Page migration", '"none"'),
    ("context_switch", "Coordinated context switch", "false"),
)


@dataclass(frozen=True)
class Choice:
    """Something that is on or off."""

    name: str
    title: str


@dataclass(frozen=True)
class Question:
    """What is explained: a design's speedup over Base-CSSD on a capture, by which choices."""

    capture: Capture
    design: str
    choices: tuple[Choice, ...]
    by_mechanism: bool
    wanted: Study
    reading: tuple[str, ...] = ()
    """The options by which `entresol run` reads the capture as this command did."""

    def setup(self, on: Choices) -> Setup:
        """What the design runs on when these choices are on."""
        names = [choice.name for choice in self.choices]
        if not self.by_mechanism:
            chosen = ",".join(name for name in names if name in on)
            return replace(self.wanted.setup, fidelity=chosen or "paper")
        off = tuple(
            f"design.{key}={text}" for key, _, text in _MECHANISMS if key in names and key not in on
        )
        return replace(self.wanted.setup, overrides=(*self.wanted.setup.overrides, *off))

    def repeated(self, on: Choices) -> Study:
        """The study of the design alone when these choices are on."""
        wanted = self.wanted
        return Study((self.capture,), (self.design,), self.setup(on), wanted.threads, wanted.audit)

    def base_setup(self, on: Choices) -> Setup:
        """What Base-CSSD runs on meanwhile: under the same switches, and with no mechanism."""
        return self.wanted.setup if self.by_mechanism else self.setup(on)


def artifact(design: str) -> str:
    """The fidelity that turns on all switches of the paper that a design is of."""
    return papers.artifact(papers.of_design(design))


def _is_artifact(question: Question) -> bool:
    """Whether the switches are all of the design's paper."""
    room = papers.of_design(question.design)
    if not (room and papers.manifest(room).get("switches")):
        return False
    chosen = {choice.name for choice in question.choices}
    return chosen == set(core.fidelity_names(papers.artifact(room)))


def switches(capture: Capture, design: str, wanted: Study, names: Sequence[str]) -> Question:
    """By the fidelity switches, or those of them that are named."""
    known = core.fidelity_switches()
    room = papers.of_design(design)
    if not names and not (room and papers.manifest(room).get("switches")):
        raise UserError(
            f"design {design}: its paper has no fidelity switches; name some of another by "
            "--switch, or share the gain --by mechanisms."
        )
    chosen = core.fidelity_names(",".join(names) if names else artifact(design))
    if not chosen:
        raise UserError(f"--switch {','.join(names)}: turns nothing on; name a switch.")
    titles = {switch.name: switch.title for switch in known}
    choices = tuple(Choice(name, titles[name]) for name in chosen)
    return Question(capture, design, choices, False, wanted)


def mechanisms(capture: Capture, design: str, wanted: Study) -> Question:
    """By the mechanisms that the design has."""
    config = core.effective_config(wanted.setup, design)["design"]
    present = tuple(
        Choice(key, title) for key, title, off in _MECHANISMS if config[key] != off.strip('"')
    )
    if not present:
        raise UserError(f"{design}: has none of write log, migration and context switch.")
    return Question(capture, design, present, True, wanted)


@dataclass(frozen=True)
class Plan:
    """Which runs answer the question. Configurations with equal values are run once."""

    question: Question
    groups: list[list[tuple[str, ...]]]
    points: dict[str, Point]
    pairs: dict[Choices, tuple[str, str]]
    """For each set of choices that are on, the keys of Base-CSSD's point and of the design's."""
    labels: dict[str, str]
    """By key: the design, and how many choices are on."""


def plan(question: Question, count: int, seed: int) -> Plan:
    """Checks every configuration; nothing has run when this returns or raises."""
    names = [choice.name for choice in question.choices]
    groups = shapley.orders(names, count, seed)
    found = Plan(question, groups, {}, {}, {})
    for on in shapley.needed(names, groups):
        label = f"{len(on)} of {len(names)} on"
        found.pairs[on] = (
            _add(found, question.base_setup(on), BASE, label),
            _add(found, question.setup(on), question.design, label),
        )
    return found


def _add(found: Plan, setup: Setup, design: str, label: str) -> str:
    wanted = found.question.wanted
    key = f"{design} {json.dumps(core.effective_config(setup, design))}"
    if key not in found.points:
        capture = found.question.capture
        found.points[key] = Point(capture, design, setup, wanted.threads, wanted.audit)
        found.labels[key] = f"{capture.name} · {design}, {label}"
    return key


Results = Mapping[str, RunResult]
"""By key, what the points of a plan gave."""


def answer(found: Plan, results: Results) -> Gain:
    """The shares."""
    return shapley.shares(
        [choice.name for choice in found.question.choices],
        found.groups,
        lambda on: math.log(_time(found, results, on, 0) / _time(found, results, on, 1)),
    )


def _time(found: Plan, results: Results, on: Choices, which: int) -> int:
    return max(int(results[found.pairs[on][which]]["execution_time_ps"]), 1)


def assemble(found: Plan, results: Results, gain: Gain) -> result_types.Gain:
    """The object of `--json` and of `gain.json`."""
    question = found.question
    titles = {choice.name: choice.title for choice in question.choices}
    return {
        "schema": SCHEMA,
        "kind": "gain",
        "provenance": {
            "entresol": core.version(),
            "machine": question.wanted.setup.machine,
            "trace": question.capture.name,
            "digest": question.capture.info["digest"],
            "by": "mechanism" if question.by_mechanism else "switch",
            "is_artifact": not question.by_mechanism and _is_artifact(question),
            "mode": question.wanted.setup.mode,
            "mode_error_milli": max(int(each["mode_error_milli"]) for each in results.values()),
            "orders": sum(len(group) for group in found.groups),
            "is_exact": len(question.choices) <= shapley.EXACT,
        },
        "trace": question.capture.name,
        "design": question.design,
        "reference": BASE,
        "speedup_without_micro": _micro(gain.nothing),
        "speedup_with_all_micro": _micro(gain.everything),
        "interaction_micro": _micro(gain.remainder),
        "shares": [
            {
                "name": share.name,
                "title": titles[share.name],
                "first_in_micro": _micro(share.first_in),
                "last_in_micro": _micro(share.last_in),
                "shapley_micro": _micro(share.shapley.value),
                "shapley_low_micro": _bound(share.shapley, -1),
                "shapley_high_micro": _bound(share.shapley, 1),
            }
            for share in gain.shares
        ],
        "configurations": [_configuration(found, results, on) for on in found.pairs],
    }


def _micro(logarithm: float) -> int:
    return round(math.exp(logarithm) * 1_000_000)


def _bound(found: Estimate, sign: int) -> int | None:
    if found.half_width is None:
        return None
    return _micro(found.value + sign * found.half_width)


def _configuration(found: Plan, results: Results, on: Choices) -> result_types.GainConfiguration:
    question = found.question
    base, design = (results[key] for key in found.pairs[on])
    names = [choice.name for choice in question.choices if choice.name in on]
    return {
        "on": names,
        "reference_digest": base["config_digest"],
        "reference_ps": base["execution_time_ps"],
        "design_digest": design["config_digest"],
        "design_ps": design["execution_time_ps"],
        "command": study.command(question.repeated(on), question.reading),
    }
