"""Windows in the steady state: misses kept once, designs brought there, estimates and debts."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from entresol import atomic, core, estimate, locks, steadiness
from entresol.core import Json, Setup
from entresol.derived import BASE
from entresol.errors import UserError
from entresol.estimate import Estimate, Factor
from entresol.execution.executor import Outcome
from entresol.execution.point import Point, Steady, key_of_point
from entresol.interruption import watched
from entresol.study import Capture, Study

SCHEMA = 2
LOOKS = 64
"""Moments on the way at which it is said what has happened."""


@dataclass(frozen=True)
class Plan:
    """Which windows, and how often."""

    windows: int
    instructions: int
    lead: int
    shift_milli: int = 0
    seeds: tuple[int, ...] = (1,)
    placements: tuple[int, ...] = (0,)
    begin: int | None = None
    """The part before which the first window begins; None: where all designs are steady."""

    @property
    def variants(self) -> list[tuple[int, int]]:
        """Every seed with every placement."""
        return [(seed, placement) for seed in self.seeds for placement in self.placements]


Execute = Callable[[Sequence[Point]], list[Outcome]]
Say = Callable[[str], None]


def run(wanted: Study, plan: Plan, store: Path, execute: Execute, say: Say) -> Json:
    """The object of `--json` and of `steady.json`. Raises as `executor.execute`."""
    parts = [_of_capture(wanted, capture, plan, store, execute, say) for capture in wanted.captures]
    return {
        "schema": SCHEMA,
        "kind": "steady",
        "provenance": {
            "entresol": core.version(),
            "machine": wanted.setup.machine,
            "overrides": list(wanted.setup.overrides),
            "audit": wanted.audit,
            "parts": steadiness.PARTS,
            "windows": plan.windows,
            "window_instructions": plan.instructions,
            "lead_instructions": plan.lead,
            "shift_milli": plan.shift_milli,
            "seeds": list(plan.seeds),
            "placements": list(plan.placements),
        },
        "traces": parts,
    }


def _of_capture(
    wanted: Study, capture: Capture, plan: Plan, store: Path, execute: Execute, say: Say
) -> Json:
    misses = misses_of(wanted, capture, plan, store, say)
    keeper = _Kept(store / "steady", execute)

    def points(begin: int, count: int) -> list[Point]:
        measure = Steady(str(misses), LOOKS, *_places(plan, begin, count))
        variants = plan.variants if count else plan.variants[:1]
        return [
            Point(capture, design, _chosen(wanted, *variant), wanted.threads, wanted.audit, measure)
            for variant in variants
            for design in wanted.designs
        ]

    begin = plan.begin
    if begin is None:
        begin = steadiness.begin_of(keeper.results(points(0, 0)))
    runs = keeper.results(points(begin, plan.windows))
    ways = runs[: len(wanted.designs)]
    return {
        "trace": capture.name,
        "begin_part": begin,
        "estimates": [row.json() for row in rows(runs)],
        "marks": [{"design": way["design"]} | steadiness.at(way, begin).json() for way in ways],
        "missing": [text for way in ways if (text := steadiness.missing(way, begin)) is not None],
        "runs": runs,
    }


def _places(plan: Plan, begin: int, count: int) -> core.Windows:
    where = (begin, count, plan.shift_milli, plan.lead, plan.instructions)
    return where if count else (0, 0, 0, 0, 0)


def _chosen(wanted: Study, seed: int, placement: int) -> Setup:
    chosen = (f"run.seed={seed}", f"ftl.placement={placement}")
    return replace(wanted.setup, overrides=(*wanted.setup.overrides, *chosen))


def misses_of(wanted: Study, capture: Capture, plan: Plan, store: Path, say: Say) -> Path:
    """The file of misses of a capture, made if it is not there. Raises `ConfigError` and
    `TraceError` before it is if it would be of no use."""
    # What misses is the same for all designs; opening a large capture for each takes its time.
    own = core.Run(capture.path, wanted.setup, wanted.designs[0], wanted.threads, wanted.audit)
    # What fits nowhere does not fit where windows will begin.
    core.check_steady(own, wanted.designs, _places(plan, plan.begin or 0, plan.windows))
    place = store / "misses"
    path = place / f"{core.misses_key(own)}.misses"
    try:
        place.mkdir(parents=True, exist_ok=True)
        with locks.alone(place / f".{path.stem}.lock"):
            if not path.exists():
                say(f"{capture.name}: passes through the caches of {wanted.setup.machine} …")
                # One that a killed command has left is written over.
                temporary = place / f"{atomic.TEMPORARY}{path.name}"
                try:
                    write = partial(core.write_misses, own, temporary)
                    watched(write, lambda: None, own.cancel)
                    atomic.sync(temporary)
                    atomic.move(temporary, path)
                finally:
                    temporary.unlink(missing_ok=True)
            with suppress(OSError):
                os.utime(path)
    except OSError as error:
        raise UserError(f"{place}: cannot be written: {error.strerror}.") from error
    return path


class _Kept:
    """Results that were computed before are not computed again."""

    def __init__(self, place: Path, execute: Execute) -> None:
        self._place = place
        self._execute = execute

    def results(self, points: Sequence[Point]) -> list[Json]:
        """What each point gives, in their order; a few at a time, so that an interruption leaves
        what was done by then."""
        names = [self._place / f"{key_of_point(point)}.json" for point in points]
        open_ = [i for i, name in enumerate(names) if self._find(name) is None]
        group = len(os.sched_getaffinity(0))
        for first in range(0, len(open_), group):
            chosen = open_[first : first + group]
            outcomes = self._execute([points[i] for i in chosen])
            for i, outcome in zip(chosen, outcomes, strict=True):
                assert outcome.steady is not None, "the first failure stops all"
                self._keep(names[i], outcome.steady)
        return [self._found(name) | {"trace": point.trace.name}
                for name, point in zip(names, points, strict=True)]  # fmt: skip

    def _find(self, path: Path) -> Json | None:
        try:
            found = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None
        with suppress(OSError):  # It was of use: `results gc` looks at that.
            os.utime(path)
        return found if isinstance(found, dict) else None

    def _found(self, path: Path) -> Json:
        found = self._find(path)
        if found is None:
            raise UserError(f"{path}: has vanished; run the command again.")
        return found

    def _keep(self, path: Path, result: Json) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write(path, json.dumps(result, separators=(",", ":")).encode())
        except OSError as error:
            raise UserError(f"{path.parent}: cannot be written: {error.strerror}.") from error


@dataclass(frozen=True)
class Row:
    """What was found of one design. Ratios are over the reference's."""

    design: str
    reference: str
    time: Estimate
    """Picoseconds per instruction."""
    ratio: Factor
    """With the interval in which windows at other places give it in 95 of 100 cases."""
    paid_ratio: float
    """As `ratio`, if both had paid at the end what they owe more than at the beginning."""
    programs: float
    """Programs of flash pages for a million instructions."""
    amat_ps: float
    amat_all_ps: float
    """Over all accesses, from the first issue to the data."""
    owed_bytes: tuple[float, float]
    """Dirty in frames, buffers and log, at the beginning and at the end of a window, on average."""
    owed_host_bytes: tuple[float, float]
    pay_ps: tuple[float, float]
    owed_pages: tuple[float, float]
    owes_to: tuple[str, ...]
    """Designs than which it is faster only as long as it does not pay."""

    def json(self) -> Json:
        """As a result has it."""
        return {
            "design": self.design,
            "reference": self.reference,
            "instruction_fs": _milli(self.time.value),
            "instruction_half_width_fs": _milli(self.time.half_width),
            "ratio_micro": _micro(self.ratio.value),
            "ratio_low_micro": _micro(self.ratio.low),
            "ratio_high_micro": _micro(self.ratio.high),
            "paid_ratio_micro": _micro(self.paid_ratio),
            "program_pages_per_million_milli": _milli(self.programs),
            "amat_ps": round(self.amat_ps),
            "amat_all_ps": round(self.amat_all_ps),
            "debt": {
                name: [round(value) for value in pair]
                for name, pair in (
                    ("device_bytes", self.owed_bytes),
                    ("host_bytes", self.owed_host_bytes),
                    ("program_pages", self.owed_pages),
                    ("pay_ps", self.pay_ps),
                )
            },
            "is_marked": bool(self.owes_to),
            "owes_to": list(self.owes_to),
        }


def _micro(value: float | None) -> int | None:
    return None if value is None else round(value * 1_000_000)


def _milli(value: float | None) -> int | None:
    return None if value is None else round(value * 1000)


Window = list[Json]
"""The results of one window, with every seed and placement."""


def rows(runs: Sequence[Json]) -> list[Row]:
    """One row for each design, in the order of the runs; none if there are no windows."""
    by_design: dict[str, list[Json]] = {}
    for run_ in runs:
        by_design.setdefault(run_["design"], []).append(run_)
    if not any(run_["windows"] for run_ in runs):
        return []
    windows = {design: _windows(own) for design, own in by_design.items()}
    reference = BASE if BASE in windows else next(iter(windows))
    found = [_row(design, reference, windows) for design in windows]
    return [replace(row, owes_to=_owes_to(row, found, windows)) for row in found]


def _windows(runs: Sequence[Json]) -> list[Window]:
    found: dict[int, Window] = {}
    for run_ in runs:
        for window in run_["windows"]:
            found.setdefault(window["window"], []).append(window)
    return [window for _, window in sorted(found.items())]


def _row(design: str, reference: str, windows: dict[str, list[Window]]) -> Row:
    own, base = windows[design], windows[reference]
    pairs = list(zip(own, base, strict=True))
    each = [window for same in own for window in same]

    def mean(end: str, *names: str) -> float:
        return math.fsum(w["debt"][end][name] for w in each for name in names) / len(each)

    def both(*names: str) -> tuple[float, float]:
        return mean("begin", *names), mean("end", *names)

    def total(name: str) -> int:
        return sum(window["counts"][name] for window in each)

    return Row(
        design,
        reference,
        estimate.jackknife(own, pace),
        _factor(pairs),
        paid(own) / (paid(base) or 1),
        _programs(each),
        total("read_ps") / (total("reads") or 1),
        total("all_read_ps") / (total("all_reads") or 1),
        both("frame_bytes", "buffer_bytes", "log_bytes"),
        both("host_bytes"),
        both("pay_ps", "host_pay_ps"),
        both("program_pages", "host_program_pages"),
        (),
    )


def pace(windows: Sequence[Window]) -> float:
    """Picoseconds per instruction: the time of the windows over what all threads executed in them.

    Threads that have done their quota go on, so that this is the machine's throughput.
    """
    each = [window["counts"] for same in windows for window in same]
    time = sum(counts["time_ps"] for counts in each)
    return float(time / (sum(counts["instructions"] for counts in each) or 1))


def _ratio(pairs: Sequence[tuple[Window, Window]]) -> float:
    base = pace([base for _, base in pairs])
    return pace([own for own, _ in pairs]) / base if base else 0.0


def _factor(pairs: Sequence[tuple[Window, Window]]) -> Factor:
    return estimate.jackknife_factor(pairs, _ratio, of_repetition=True)


def paid(windows: Sequence[Window]) -> float:
    """As `pace`, if at the end of each window all dies had paid at once what is owed more than at
    its beginning."""
    each = [window for same in windows for window in same]
    time = sum(window["counts"]["time_ps"] for window in each)
    more = sum(
        sign * window["debt"][end][name]
        for window in each
        for end, sign in (("end", 1), ("begin", -1))
        for name in ("pay_ps", "host_pay_ps")
    )
    return pace(windows) * (time + more) / time if time else 0.0


@dataclass(frozen=True)
class Ratio:
    """What one design takes over what another one takes, in the same windows."""

    time: Factor
    paid: float
    """If both had paid at the end of each window what they owe more than at its beginning."""


def over(own: Sequence[Json], other: Sequence[Json]) -> Ratio:
    """Of two designs' runs, those with the same placements."""
    mine, theirs = _windows(own), _windows(other)
    pairs = list(zip(mine, theirs, strict=True))
    return Ratio(_factor(pairs), paid(mine) / (paid(theirs) or 1))


def programs(runs: Sequence[Json]) -> float:
    """Programs of flash pages for a million instructions, of one design's runs."""
    return _programs([window for run_ in runs for window in run_["windows"]])


def _programs(windows: Sequence[Json]) -> float:
    counts = [window["counts"] for window in windows]
    pages = sum(each["program_pages"] for each in counts)
    return float(pages * 1e6 / (sum(each["instructions"] for each in counts) or 1))


def _owes_to(row: Row, others: Sequence[Row], windows: dict[str, list[Window]]) -> tuple[str, ...]:
    """The designs than which one that owes more and more looks faster, and is not once both have
    paid; the reference also if paying takes its ratio out of its interval."""
    if row.pay_ps[1] <= row.pay_ps[0]:
        return ()  # It has paid; who is slower may have paid more.
    own = paid(windows[row.design])
    slower = [other for other in others if other.time.value > row.time.value]
    owes = [other.design for other in slower if own >= paid(windows[other.design])]
    beyond = row.paid_ratio > (row.ratio.high or math.inf)
    if row.ratio.value < 1 and beyond and row.reference not in owes:
        owes.append(row.reference)
    return tuple(owes)
