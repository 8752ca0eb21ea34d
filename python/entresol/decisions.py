"""What each modelling decision is worth: turned on first, and turned on last.

Decisions are named settings of a file. What is looked at is each design's time divided by that of
DRAM-Only on the same settings, which no decision on the device can improve by making the machine
another one; over several captures its geometric mean. A worth is a factor of that ratio: below 1
the decision makes the design faster.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from entresol import core, papers, worths
from entresol.core import Setup
from entresol.derived import IDEAL
from entresol.errors import UserError
from entresol.execution.point import Point
from entresol.result_types import RunResult
from entresol.study import Capture, Study
from entresol.worths import Worth

FILE = "decisions.toml"
"""What a paper's room has."""


@dataclass(frozen=True)
class Decision:
    """Settings that belong together."""

    name: str
    title: str
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """For each design, in the order of the question: what there is, and what decisions do."""

    decisions: tuple[Decision, ...]
    designs: tuple[str, ...]
    without: Mapping[str, float]
    """By design: time ÷ DRAM-Only's with no decision on."""
    with_all: Mapping[str, float]
    worths: Mapping[tuple[str, str], Worth]
    """By decision and design."""


def read(source: str) -> tuple[Decision, ...]:
    """The decisions of a room or of a file. Raises `UserError`."""
    if source in papers.names():
        place = papers.room(source).joinpath(FILE)
        if not place.is_file():
            raise UserError(f"{source}: its room has no {FILE}; name a file of decisions.")
        text = place.read_text(encoding="utf-8")
    else:
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            rooms = ", ".join(papers.names())
            raise UserError(
                f"{source}: is neither a paper ({rooms}) nor a readable file."
            ) from error
    return _parsed(source, text)


def of_room(name: str) -> tuple[Decision, ...]:
    """The decisions of a room; none where it has none, or the name is of no room."""
    has = name in papers.names() and papers.room(name).joinpath(FILE).is_file()
    return read(name) if has else ()


def _parsed(source: str, text: str) -> tuple[Decision, ...]:
    try:
        found = tomllib.loads(text)
    except ValueError as error:
        raise UserError(f"{source}: is not TOML: {error}.") from error
    listed = found.get("decision")
    each_of = listed if isinstance(listed, list) else []
    decisions = tuple(_decision(source, each) for each in each_of)
    if not decisions:
        raise UserError(f"{source}: has no [[decision]] with name, title and set.")
    names = [each.name for each in decisions]
    if len(set(names)) != len(names):
        raise UserError(f"{source}: two decisions have one name.")
    return decisions


def _decision(source: str, table: object) -> Decision:
    if isinstance(table, dict) and table.keys() == {"name", "title", "set"}:
        name, title, settings = table["name"], table["title"], table["set"]
        is_list = isinstance(settings, list) and all(isinstance(one, str) for one in settings)
        if isinstance(name, str) and isinstance(title, str) and is_list and settings:
            return Decision(name, title, tuple(settings))
    raise UserError(f"{source}: a [[decision]] has name, title, and set, a list of KEY=VALUE.")


@dataclass
class Plan:
    """Which runs answer the question. Configurations with equal values are run once."""

    wanted: Study
    decisions: tuple[Decision, ...]
    points: dict[str, Point] = field(default_factory=dict)
    keys: dict[tuple[str, str, frozenset[str]], str] = field(default_factory=dict)
    """By capture, design and what is on: the key of the point."""

    def sets(self) -> list[frozenset[str]]:
        """What is on: nothing, all, each alone, all but each."""
        return worths.sets([each.name for each in self.decisions])

    def setup(self, on: frozenset[str], design: str) -> Setup:
        """What a design runs on; DRAM-Only on what it reads of it, so that it runs once."""
        setup = self.wanted.setup
        chosen = settings(self.decisions, on, design, setup)
        return replace(setup, overrides=(*setup.overrides, *chosen))


def settings(
    decisions: Sequence[Decision], on: frozenset[str], design: str, setup: Setup
) -> list[str]:
    """What decisions set for a design; of DRAM-Only what it reads alone."""
    chosen = [one for each in decisions if each.name in on for one in each.settings]
    if design != IDEAL:
        return chosen
    told = replace(setup, overrides=(*setup.overrides, *chosen))
    unread = set(core.unread_keys(told, design))
    return [one for one in chosen if one.partition("=")[0].strip() not in unread]


def plan(wanted: Study, decisions: tuple[Decision, ...]) -> Plan:
    """Every configuration is checked; nothing has run when this returns or raises."""
    found = Plan(wanted, decisions)
    for capture in wanted.captures:
        for on in found.sets():
            for design in (*wanted.designs, IDEAL):
                _add(found, capture, design, on)
    return found


def _add(found: Plan, capture: Capture, design: str, on: frozenset[str]) -> None:
    setup = found.setup(on, design)
    key = f"{capture.name} {design} {json.dumps(core.effective_config(setup, design))}"
    wanted = found.wanted
    found.points.setdefault(key, Point(capture, design, setup, wanted.threads, wanted.audit))
    found.keys[capture.name, design, on] = key


def answer(found: Plan, results: Mapping[str, RunResult]) -> Answer:
    """What the runs say; `results` are by key."""
    captures = [capture.name for capture in found.wanted.captures]
    nothing, everything = found.sets()[:2]

    def ratio(design: str, on: frozenset[str]) -> float:
        """Geometric mean over captures of time ÷ DRAM-Only's."""

        def time(capture: str, of: str) -> int:
            return max(int(results[found.keys[capture, of, on]]["execution_time_ps"]), 1)

        logs = [math.log(time(each, design) / time(each, IDEAL)) for each in captures]
        return math.exp(math.fsum(logs) / len(logs))

    designs = found.wanted.designs
    names = [each.name for each in found.decisions]
    by_design = {design: worths.worths(names, partial(ratio, design)) for design in designs}
    return Answer(
        found.decisions,
        designs,
        {design: ratio(design, nothing) for design in designs},
        {design: ratio(design, everything) for design in designs},
        {(name, design): each for design in designs for name, each in by_design[design].items()},
    )


def by_weight(found: Answer) -> Sequence[Decision]:
    """The decisions, by the largest factor that they are for any design."""

    def weight(decision: Decision) -> float:
        return max(found.worths[decision.name, design].weight for design in found.designs)

    return sorted(found.decisions, key=weight, reverse=True)
