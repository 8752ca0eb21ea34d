"""What a result hangs on that no paper says: each such number halved and doubled, and each decision
that the paper leaves open turned on.

A parameter is *ours* if its source says so. Those that the design does not read, or whose mechanism
did not act in the run, are left out, but for those that decide whether it acts. Decisions are those
of `decisions.toml` in the room of Base-CSSD's paper.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise

from entresol import core, decisions, papers, study
from entresol.core import ConfigError, Parameter, Setup
from entresol.derived import BASE, Run
from entresol.execution.point import Point
from entresol.result_types import (
    AssumptionChange,
    AssumptionFactors,
    Assumptions,
    RunResult,
)
from entresol.study import Capture, Study

_OURS = re.compile(r"\b(our choice|ours|gives none|no value in the paper)\b")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(\D*)")
_RATIO = re.compile(r"(\d+)/(\d+)")
_FINER = {
    unit: (finer, times)
    for units, times in (
        ("s ms us ns ps", 1000),
        ("GB/s MB/s kB/s B/s", 1000),
        ("GHz MHz kHz Hz", 1000),
        ("TiB GiB MiB KiB B", 1024),
    )
    for unit, finer in pairwise(units.split())
}
"""In which unit the half of an odd number is a whole one, and how many of those make one."""
_ACTED = (
    ("ssd.log.", "activity", "log_fills"),
    ("ssd.compaction.", "activity", "log_fills"),
    ("ssd.promotion.", "activity", "promotions"),
    ("ssd.prefetch.", "activity", "prefetches"),
    ("host.", "activity", "promotions"),
    ("tpp.", "activity", "hint_scans"),
    ("astriflash.", "activity", "host_cache_fills"),
    ("numa.", "activity", "page_moves"),
    ("ftl.gc", "activity", "gc_invocations"),
    ("ftl.reserve", "activity", "gc_invocations"),
    ("ftl.wear", "activity", "gc_invocations"),
    ("os.time_slice", "os", "switches_slice"),
    ("os.syscall", "os", "syscalls"),
)
"""By the beginning of a key: the statistic that says whether its mechanism acted."""
_GATES = frozenset({"ssd.promotion.threshold", "ssd.log.size"})
"""What says whether a mechanism acts at all: another value may wake it."""
FAR = 0.01
"""Who moves the speedup by more (1 %) towards 1 is taken farther that way."""
STEPS = 3
"""How often what was halved or doubled is halved or doubled again, if nothing overturns the
comparison: to a sixteenth and to sixteen times."""


@dataclass(frozen=True)
class Change:
    """A parameter at half or twice its value, or a decision that is turned on."""

    key: str
    value: str
    changed: str
    is_doubled: bool
    settings: tuple[str, ...] = ()
    """What a decision sets, of which the key is the name; none of a parameter."""
    title: str = ""
    """What a decision is, in words."""

    @property
    def overrides(self) -> tuple[str, ...]:
        """What is set."""
        return self.settings or (f"{self.key}={self.changed}",)


@dataclass(frozen=True)
class Refused:
    """A change that is no valid configuration."""

    change: Change
    why: str


@dataclass(frozen=True)
class Moved:
    """What a change does: factors of the design's time and of its speedup over Base-CSSD."""

    change: Change
    time: float
    speedup: float

    @property
    def weight(self) -> float:
        """By how much it moves the speedup or, where that stays, the time."""
        return max(abs(math.log(self.time)), abs(math.log(self.speedup)))

    def overturns(self, speedup: float) -> bool:
        """Whether who is faster is slower with it, or the other way round."""
        return (speedup * self.speedup >= 1) != (speedup >= 1)


@dataclass(frozen=True)
class Answer:
    """What was found: `first` is Base-CSSD and the design as they are; the changes of numbers, of
    those taken farther and of decisions left open; and what was not tried."""

    first: Sequence[RunResult]
    moved: Sequence[Moved]
    far: Sequence[Moved]
    opened: Sequence[Moved]
    refused: Sequence[Refused]


@dataclass(frozen=True)
class Plan:
    """Every change that can be tried, each on Base-CSSD and on the design."""

    changes: tuple[Change, ...]
    refused: tuple[Refused, ...]
    points: tuple[Point, ...]


def parameters_of(setup: Setup, run: Run) -> list[tuple[Parameter, str]]:
    """The numbers that are ours and acted in this run, each with its value."""
    config = core.effective_config(setup, run.design)
    ours = [each for each in core.parameters() if _OURS.search(each.source)]
    unread = _unread(setup, run.design, [each.key for each in ours])
    found = []
    for each in ours:
        section, _, name = each.key.rpartition(".")
        value = config[section][name]
        is_number = any(form.fullmatch(value) for form in (_NUMBER, _RATIO))
        is_number = is_number and each.key != "run.seed"
        if is_number and each.key not in unread and acted(run, each.key):
            found.append((each, value))
    return found


def _unread(setup: Setup, design: str, names: Sequence[str]) -> set[str]:
    """Which of these the design does not read."""
    config = core.effective_config(setup, design)

    def as_it_is(key: str) -> str:
        section, _, name = key.rpartition(".")
        return f"{key}={config[section][name]}"

    chosen = replace(setup, overrides=(*setup.overrides, *map(as_it_is, names)))
    return set(core.unread_keys(chosen, design))


def acted(run: Run, key: str) -> bool:
    """Whether the mechanism that a parameter is of did anything in the run, or may if it has
    another value."""
    if key in _GATES:
        return True
    found = next((each for each in _ACTED if key.startswith(each[0])), None)
    return found is None or run.count(found[1], found[2]) > 0


def scaled(value: str, is_doubled: bool) -> str | None:
    """Half or twice a value with its unit; nothing if that is the same or no such value.

    Half of what can only be a whole number is rounded down."""
    if (ratio := _RATIO.fullmatch(value)) is not None:
        above, below = map(int, ratio.groups())
        changed = (2 * above, below) if is_doubled else (above, 2 * below)
        return None if above == 0 else f"{changed[0]}/{changed[1]}"
    match = _NUMBER.fullmatch(value)
    if match is None or (number := Decimal(match[1])) == 0:
        return None
    unit = match[2]
    if is_doubled:
        return _text(number * 2, unit)
    half = number / 2
    if unit == "%" or _decimals(half) <= _decimals(number):
        return _text(half, unit)
    if unit in _FINER:
        finer, times = _FINER[unit]
        return _text(half * times, finer)
    return _text(Decimal(int(half)), unit) if half >= 1 else None


def _decimals(number: Decimal) -> int:
    return len(_text(number, "").partition(".")[2])


def _text(number: Decimal, unit: str) -> str:
    text = f"{number:f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}{unit}"


def plan(wanted: Study, run: Run) -> Plan:
    """Every change is checked; nothing has run when this returns."""
    changes, refused = [], []
    for parameter, value in parameters_of(wanted.setup, run):
        for is_doubled in (False, True):
            changed = scaled(value, is_doubled)
            if changed is not None:
                changes.append(Change(parameter.key, value, changed, is_doubled))
            elif (said := _no_half(parameter.key, value, is_doubled)) is not None:
                refused.append(said)
    return _checked(wanted, run.design, changes, refused)


def opened(wanted: Study, design: str) -> Plan:
    """What the paper leaves open, each decision turned on alone; those that change nothing for
    Base-CSSD and the design, as one that both have on, are left out."""
    changes = [
        Change(each.name, "off", "on", True, each.settings, each.title)
        for each in decisions.of_room(papers.of_design(BASE))
    ]
    chosen = [each for each in changes if _changes(wanted.setup, each, design)]
    return _checked(wanted, design, chosen, [])


def _changes(setup: Setup, change: Change, design: str) -> bool:
    keys = {one.partition("=")[0].strip() for one in change.settings}
    turned = _with(setup, change)
    try:
        return any(
            not keys <= set(core.unread_keys(turned, each))
            and core.effective_config(turned, each) != core.effective_config(setup, each)
            for each in (BASE, design)
        )
    except ConfigError:
        return True  # Why not is said.


def farther(wanted: Study, first: Sequence[RunResult], last: Sequence[Moved]) -> Plan:
    """The changes that are tried next where none so far overturns who is faster: those of `last`
    that move the speedup towards 1, and those of what wakes a mechanism, by as much again."""
    base, design = (_time(result) for result in first)
    speedup = base / design

    def is_promising(each: Moved) -> bool:
        towards = each.speedup if speedup < 1 else 1 / each.speedup
        return each.change.key in _GATES or math.log(towards) > FAR

    changes = [
        replace(each.change, changed=changed)
        for each in last
        if is_promising(each)
        and (changed := scaled(each.change.changed, each.change.is_doubled)) is not None
    ]
    return _checked(wanted, first[1]["design"], changes, [])


def _checked(
    wanted: Study, design: str, changes: Sequence[Change], refused: Sequence[Refused]
) -> Plan:
    """A plan of those changes that are a valid configuration."""
    (capture,) = wanted.captures
    valid, invalid, points = [], list(refused), []
    for change in changes:
        setup = _with(wanted.setup, change)
        try:
            for each in (BASE, design):
                core.effective_config(setup, each)
        except ConfigError as error:
            invalid.append(Refused(change, str(error)))
            continue
        valid.append(change)
        points += _points(capture, wanted, setup, design)
    return Plan(tuple(valid), tuple(invalid), tuple(points))


def _no_half(key: str, value: str, is_doubled: bool) -> Refused | None:
    """What is to be said where a value has no half; of 0 nothing is, for that is no smaller."""
    if is_doubled or scaled(value, True) is None:
        return None
    change = Change(key, value, f"half of {value}", is_doubled)
    return Refused(change, "there is no smaller number but 0.")


def _with(setup: Setup, change: Change) -> Setup:
    return replace(setup, overrides=(*setup.overrides, *change.overrides))


def _points(capture: Capture, wanted: Study, setup: Setup, design: str) -> list[Point]:
    designs = (BASE, design)
    return [Point(capture, each, setup, wanted.threads, wanted.audit) for each in designs]


def first_points(wanted: Study, design: str) -> list[Point]:
    """Base-CSSD and the design as they are."""
    (capture,) = wanted.captures
    return _points(capture, wanted, wanted.setup, design)


def moved(found: Plan, first: Sequence[RunResult], results: Sequence[RunResult]) -> list[Moved]:
    """What each change does, the largest first."""
    base, design = (_time(result) for result in first)
    pairs = zip(found.changes, results[::2], results[1::2], strict=True)
    all_moved = [
        Moved(
            change,
            _time(of_design) / design,
            _time(of_base) / _time(of_design) / (base / design),
        )
        for change, of_base, of_design in pairs
    ]
    return sorted(all_moved, key=lambda each: (-each.weight, each.change.key))


def _time(result: Mapping[str, object] | RunResult) -> int:
    time = result["execution_time_ps"]
    assert isinstance(time, int), "a result has its time"
    return max(time, 1)


def overturning(first: Sequence[RunResult], all_moved: Sequence[Moved]) -> Moved | None:
    """The first change that overturns who is faster."""
    base, design = (_time(result) for result in first)
    return next((each for each in all_moved if each.overturns(base / design)), None)


def headline(
    first: Sequence[RunResult],
    all_moved: Sequence[Moved],
    far: Sequence[Moved] = (),
    open_: Sequence[Moved] = (),
) -> str:
    """The speedup, and first of all what overturns it: of `far` if nothing nearer does, and of
    what the paper leaves open."""
    base, design = (_time(result) for result in first)
    speedup, name = base / design, first[1]["design"]
    word = "faster" if speedup >= 1 else "slower"
    said = []
    each = overturning(first, [*all_moved, *far])
    if each is not None:
        said.append(
            f"{each.change.key}, whose value is ours, decides: {name} is {word} than {BASE} "
            f"({speedup:.3g} times as fast) at {each.change.value}, and not at "
            f"{each.change.changed} ({speedup * each.speedup:.3g})."
        )
    choice = overturning(first, open_)
    if choice is not None:
        change = choice.change
        said.append(
            f"{change.key}, which the paper leaves open, {'' if each is None else 'also '}decides: "
            f"{name} is {word} than {BASE} ({speedup:.3g} times as fast) as it is, and not where "
            f"{change.title} ({speedup * choice.speedup:.3g})."
        )
    if each is None:
        said.append(
            f"{name} is {speedup:.3g} times as fast as {BASE}, {word} whichever of the values "
            f"tried is halved or doubled: those that are ours and whose mechanism acted."
            + (" Nor do those overturn it that were taken farther." if far else "")
        )
    return " ".join(said)


def assemble(
    wanted: Study, answer: Answer, warnings: Sequence[str], reading: Sequence[str] = ()
) -> Assumptions:
    """The object of `--json` and of `assumptions.json`. `reading` are the options by which a
    foreign trace was read."""
    (capture,) = wanted.captures
    base, design = (_time(result) for result in answer.first)
    speedup = base / design
    return {
        "schema": 1,
        "kind": "assumptions",
        "provenance": {
            "entresol": core.version(),
            "machine": wanted.setup.machine,
            "digest": capture.info["digest"],
            "command": study.command(wanted, reading, "assumptions"),
        },
        "trace": capture.name,
        "design": answer.first[1]["design"],
        "reference": BASE,
        "speedup_micro": round(speedup * 10**6),
        "headline": headline(answer.first, answer.moved, answer.far, answer.opened),
        "warnings": list(warnings),
        "moved": [_told(each, speedup) for each in answer.moved],
        "open": [
            {
                "decision": each.change.key,
                "title": each.change.title,
                "set": list(each.change.settings),
                **_factors(each, speedup),
            }
            for each in answer.opened
        ],
        "farther": [_told(each, speedup) for each in answer.far],
        "not_tried": [
            {"parameter": each.change.key, "changed": each.change.changed, "why": each.why}
            for each in answer.refused
        ],
    }


def _told(each: Moved, speedup: float) -> AssumptionChange:
    return {
        "parameter": each.change.key,
        "value": each.change.value,
        "changed": each.change.changed,
        "is_doubled": each.change.is_doubled,
        **_factors(each, speedup),
    }


def _factors(each: Moved, speedup: float) -> AssumptionFactors:
    return {
        "time_micro": round(each.time * 10**6),
        "speedup_micro": round(each.speedup * 10**6),
        "is_overturning": each.overturns(speedup),
    }
