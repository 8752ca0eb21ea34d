"""The configurations that an explanation needs, and what their runs say of each choice."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from entresol import core, study
from entresol.core import Json, Setup
from entresol.derived import BASE
from entresol.errors import UserError
from entresol.estimate import Estimate
from entresol.gain import shapley
from entresol.gain.shapley import Choices, Gain
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

    def base_setup(self, on: Choices) -> Setup:
        """What Base-CSSD runs on meanwhile: under the same switches, and with no mechanism."""
        return self.wanted.setup if self.by_mechanism else self.setup(on)


def switches(capture: Capture, design: str, wanted: Study, names: Sequence[str]) -> Question:
    """By the fidelity switches, or those of them that are named."""
    known = core.fidelity_switches()
    chosen = core.fidelity_names(",".join(names) if names else "artifact")
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


class Job(study.Job):
    """One configuration. It is checked when it is made and opened again when it runs, so that
    hundreds of them do not hold the capture at once."""

    def __init__(self, question: Question, setup: Setup, design: str, label: str) -> None:
        self._arguments = (replace(question.wanted, setup=setup), question.capture, design)
        super().__init__(*self._arguments)
        self._run = None
        self.design = label

    def execute(self) -> None:
        """Opens the capture and runs to the end."""
        wanted, capture, design = self._arguments
        self._run = core.Run(capture.path, wanted.setup, design, wanted.threads, wanted.audit)
        super().execute()


@dataclass(frozen=True)
class Plan:
    """Which runs answer the question. Configurations with equal values are run once."""

    question: Question
    groups: list[list[tuple[str, ...]]]
    jobs: dict[str, Job]
    pairs: dict[Choices, tuple[str, str]]
    """For each set of choices that are on, the keys of Base-CSSD's run and of the design's."""


def plan(question: Question, count: int, seed: int) -> Plan:
    """Checks every configuration; nothing has run when this returns or raises."""
    names = [choice.name for choice in question.choices]
    groups = shapley.orders(names, count, seed)
    jobs: dict[str, Job] = {}
    pairs = {}
    for on in shapley.needed(names, groups):
        label = f"{len(on)} of {len(names)} on"
        pairs[on] = (
            _job(question, question.base_setup(on), BASE, label, jobs),
            _job(question, question.setup(on), question.design, label, jobs),
        )
    return Plan(question, groups, jobs, pairs)


def _job(question: Question, setup: Setup, design: str, label: str, jobs: dict[str, Job]) -> str:
    key = f"{design} {json.dumps(core.effective_config(setup, design))}"
    if key not in jobs:
        jobs[key] = Job(question, setup, design, f"{design}, {label}")
    return key


def answer(found: Plan) -> Gain:
    """The shares, when all jobs have run."""
    return shapley.shares(
        [choice.name for choice in found.question.choices],
        found.groups,
        lambda on: math.log(_time(found, on, 0) / _time(found, on, 1)),
    )


def _time(found: Plan, on: Choices, which: int) -> int:
    result = found.jobs[found.pairs[on][which]].result
    assert result is not None, "every job has run"
    return max(int(result["execution_time_ps"]), 1)


def assemble(found: Plan, gain: Gain) -> Json:
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
            "is_artifact": not question.by_mechanism
            and len(question.choices) == len(core.fidelity_switches()),
            "mode": question.wanted.setup.mode,
            "mode_error_milli": _mode_error(found),
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
        "configurations": [_configuration(found, on) for on in found.pairs],
    }


def _mode_error(found: Plan) -> int:
    results = (job.result or {} for job in found.jobs.values())
    return max(int(result["mode_error_milli"]) for result in results)


def _micro(logarithm: float) -> int:
    return round(math.exp(logarithm) * 1_000_000)


def _bound(found: Estimate, sign: int) -> int | None:
    if found.half_width is None:
        return None
    return _micro(found.value + sign * found.half_width)


def _configuration(found: Plan, on: Choices) -> Json:
    question = found.question
    base, design = (found.jobs[key].result or {} for key in found.pairs[on])
    names = [choice.name for choice in question.choices if choice.name in on]
    return {
        "on": names,
        "reference_digest": base["config_digest"],
        "reference_ps": base["execution_time_ps"],
        "design_digest": design["config_digest"],
        "design_ps": design["execution_time_ps"],
        "command": command(question, question.setup(on), question.design),
    }


def command(question: Question, setup: Setup, design: str) -> str:
    """The command that repeats a configuration on its own."""
    threads = question.wanted.threads
    words = ["entresol", "run", question.capture.source.name, "--design", design]
    words += ["--machine", setup.machine]
    words += [] if threads is None else ["--threads", str(threads)]
    words += [] if setup.nand is None else ["--nand", setup.nand]
    words += [] if setup.fidelity == "paper" else ["--fidelity", setup.fidelity]
    words += [] if setup.mode == "detailed" else ["--mode", setup.mode]
    words += [word for name, _ in setup.files for word in ("--config", name)]
    words += [word for override in setup.overrides for word in ("--set", override)]
    return shlex.join([*words, *question.reading])
