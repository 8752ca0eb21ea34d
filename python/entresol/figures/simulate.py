"""From what figures want to what they get: captures made or found, points simulated or recalled."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import cast

from entresol import core, in_loop, papers, steady, study
from entresol.core import Json, Setup
from entresol.errors import Failed, Stopped, UserError
from entresol.execution import executor, worker
from entresol.execution.point import Point
from entresol.figures import benches
from entresol.figures.entry import Figure
from entresol.figures.plan import Bench, Results, Settings, SteadyWant, Walk, Want
from entresol.interruption import interruptible
from entresol.steadiness import PARTS
from entresol.store.result_store import Store

MIPS = 12
"""Instructions of a run per microsecond of a processor core, about, of a detailed run."""
FAST = 5
"""How much quicker a fast run is, about."""
Failures = dict[Want | SteadyWant | Walk | Bench, str]
"""A sentence for each thing that could not be had."""
LOOP = 6
"""Instructions of a run in the loop per microsecond, about, with two cores for it alone."""

Captures = Callable[[str, int], Path]
"""Where the capture of a workload with so many threads comes from."""


@dataclass(frozen=True)
class Plan:
    """All that a set of figures needs, each thing once."""

    settings: Settings
    wants: tuple[Want, ...]
    walks: tuple[Walk, ...]
    benches: tuple[Bench, ...] = ()
    steady: tuple[SteadyWant, ...] = ()

    @property
    def captures(self) -> tuple[tuple[str, int], ...]:
        """Workloads and thread counts."""
        return tuple(dict.fromkeys((item.workload, item.threads) for item in self.everything))

    @property
    def everything(self) -> list[Want | SteadyWant | Walk]:
        """Runs, windows and analyses: all that is made of captures."""
        return [*self.wants, *self.steady, *self.walks]

    def estimate(self, workers: int) -> str:
        """One sentence on how much work it is at most."""
        pace = MIPS * 1e6 * (FAST if self.settings.mode == "fast" else 1)
        at = self.settings.at
        in_loop_too = sum(bool(item.device) for item in self.wants)
        seconds = (len(self.wants) - in_loop_too) * at.window / pace / workers
        # These run one after the other.
        seconds += in_loop_too * at.window / (LOOP * 1e6)
        seconds += len(self.captures) * at.recording
        seconds += len(self.benches) * at.bench / workers
        seconds += len(self.steady) * at.steady / workers
        if self.benches and not self.everything:
            return (
                f"{len(self.benches)} loads of file systems; about {max(seconds / 60, 1):.0f} "
                f"minutes on {workers} cores if nothing is stored yet"
            )
        walks = f" and {len(self.walks)} walks" if self.walks else ""
        steady_too = f", {len(self.steady)} in the steady state" if self.steady else ""
        return (
            f"{len(self.wants)} runs{steady_too}{walks} of {len(self.captures)} captures; about "
            f"{max(seconds / 60, 1):.0f} minutes on {workers} cores if nothing is stored yet"
        )


def plan(figures: Sequence[Figure], settings: Settings) -> Plan:
    """The union of what the figures need; runs of a capture beside each other, so that what they
    read is at hand."""
    wants = dict.fromkeys(item for figure in figures for item in figure.wants(settings))
    walks = dict.fromkeys(item for figure in figures for item in figure.walks(settings))
    loads = dict.fromkeys(item for figure in figures for item in figure.benches(settings))
    steady_too = dict.fromkeys(item for figure in figures for item in figure.steady(settings))
    ordered = sorted(wants, key=lambda item: (item.workload, item.threads))
    return Plan(settings, tuple(ordered), tuple(walks), tuple(loads), tuple(steady_too))


def setup_of(item: Want, settings: Settings) -> Setup:
    """What a run runs on."""
    overrides = (*settings.overrides, *item.overrides)
    return Setup(item.machine or settings.machine, item.nand or None, (), overrides,
                 settings.fidelity, settings.mode)  # fmt: skip


def recorded(settings: Settings, store: Path) -> Captures:
    """Captures of the workloads, made on this machine when they are not there yet."""
    from entresol import workload

    own = papers.find(settings.paper).capture

    def capture(name: str, threads: int) -> Path:
        if own is not None:
            return own(name, threads, settings.scale, store)
        return workload.capture(name, threads, settings.scale, store=store)

    return capture


def from_directory(place: Path) -> Captures:
    """Captures that are there already, as `NAME-THREADS.etr`, or as `NAME.etr` for any threads."""
    if not place.is_dir():
        raise UserError(f"{place}: no such directory.")

    def capture(name: str, threads: int) -> Path:
        path = place / f"{name}-{threads}.etr"
        if not path.exists() and (plain := place / f"{name}.etr").exists():
            return plain
        if not path.exists():
            raise UserError(f"{path}: no such capture; entresol workload record makes it.")
        return path

    return capture


def reach(scheduler: str | None) -> None:
    """Raises `UserError` if there is no such cluster, before captures are recorded for it."""
    if scheduler is not None:
        from entresol.execution import cluster

        cluster.reach(scheduler)


def source_of(captures: Path | None, settings: Settings, store: Path) -> Captures:
    """From a directory if one is named, else recorded."""
    return recorded(settings, store) if captures is None else from_directory(captures)


@dataclass
class Simulation:
    """How a plan is carried out."""

    store: Store | None
    captures: Captures
    jobs: int | None = None
    scheduler: str | None = None
    watch: executor.Watch | None = None
    say: Callable[[str], None] = lambda _sentence: None
    device: in_loop.Device = in_loop.MEASURED
    """Of runs in the loop: a process that is measured, or recordings of one."""
    recordings: dict[str, bytes] = field(default_factory=dict)
    """By name: the times of runs that were measured."""
    _opened: dict[tuple[str, int], study.Capture] = field(default_factory=dict)
    """Captures stay open for the plans that follow."""

    def run(self, wanted: Plan) -> Results:
        """Captures first, then every point and analysis; what fails is in the results."""
        try:
            # Captures too are in use from the beginning.
            with nullcontext() if self.store is None else self.store.in_use():
                return self._run(wanted)
        except KeyboardInterrupt as error:
            if self.store is None:
                raise
            raise Stopped(
                "interrupted; the store keeps the captures and runs that had ended, and the same "
                "command goes on from there."
            ) from error

    def _run(self, wanted: Plan) -> Results:
        failures: Failures = {}
        opened = self._capture(wanted, failures)
        wants = [item for item in wanted.wants if (item.workload, item.threads) in opened]
        in_loop_too = [item for item in wants if item.device]
        wants = [item for item in wants if not item.device]

        def point(item: Want) -> Point:
            capture = opened[item.workload, item.threads]
            setup = setup_of(item, wanted.settings)
            return Point(capture, item.design, setup, item.first or None)

        points = [point(item) for item in wants]
        outcomes = executor.execute(points, self.store, self.jobs, self.scheduler, self.watch)
        runs: dict[Want, Json] = {}
        for item, outcome in zip(wants, outcomes, strict=True):
            if outcome.result is None:
                failures[item] = outcome.error or "it has no result"
            else:
                runs[item] = cast(Json, outcome.result)
        for item in in_loop_too:
            try:
                runs[item] = self._measure(point(item))
            except (UserError, Failed, core.EntresolError) as error:
                failures[item] = worker.sentence(error)
        walks = self._walk(wanted, opened, failures)
        ran = benches.run(wanted.benches, wanted.settings, self.store, self.jobs, self.say)
        loads = {item: result for item, result in ran.items() if not isinstance(result, str)}
        failures |= {item: why for item, why in ran.items() if isinstance(why, str)}
        windows = self._steady(wanted, opened, failures)
        return Results(wanted.settings, runs, walks, failures, loads, windows)

    def _measure(self, point: Point) -> Json:
        """A run whose firmware is measured; it is not stored, since it does not repeat."""
        (outcome,) = in_loop.execute([point], self.device, lambda *_: None)
        if outcome.recording:
            self.recordings[outcome.file_name] = outcome.recording
        self.say(f"{point.trace.name} on {point.design} in the loop has ended")
        return cast(Json, outcome.result)

    def _capture(self, wanted: Plan, failures: Failures) -> dict[tuple[str, int], study.Capture]:
        opened: dict[tuple[str, int], study.Capture] = {}
        for number, (name, threads) in enumerate(wanted.captures, start=1):
            began = time.monotonic()
            if (name, threads) in self._opened:
                opened[name, threads] = self._opened[name, threads]
                continue
            try:
                path = self.captures(name, threads)
                (opened[name, threads],) = study.open_captures([path])
                self._opened[name, threads] = opened[name, threads]
            except (UserError, Failed, core.EntresolError) as error:
                _refuse(wanted, name, threads, worker.sentence(error), failures)
                continue
            if (took := time.monotonic() - began) > 1:
                # Recorded, or only opened: of a large one that takes seconds too.
                self.say(f"the capture of {name} with {threads} threads is open after {took:.0f} s "
                         f"({number} of {len(wanted.captures)})")  # fmt: skip
        return opened

    def _steady(
        self,
        wanted: Plan,
        opened: Mapping[tuple[str, int], study.Capture],
        failures: Failures,
    ) -> dict[SteadyWant, Sequence[Json]]:
        """Windows of one capture together: the designs share what misses its caches."""
        together: dict[SteadyWant, list[SteadyWant]] = {}
        for item in wanted.steady:
            if (item.workload, item.threads) in opened:
                together.setdefault(replace(item, design=""), []).append(item)
        found: dict[SteadyWant, Sequence[Json]] = {}
        with tempfile.TemporaryDirectory(prefix="misses-") as passing:
            place = Path(passing) if self.store is None else self.store.root.parent
            for number, items in enumerate(together.values(), start=1):
                capture = opened[items[0].workload, items[0].threads]
                try:
                    runs = self._windows(capture, items, wanted.settings, place)
                except (UserError, Failed, core.EntresolError) as error:
                    failures.update(dict.fromkeys(items, worker.sentence(error)))
                    continue
                for item in items:
                    found[item] = [run for run in runs if run["design"] == item.design]
                self.say(f"{capture.name} has been in the steady state "
                         f"({number} of {len(together)})")  # fmt: skip
        return found

    def _windows(
        self, capture: study.Capture, items: Sequence[SteadyWant], settings: Settings, place: Path
    ) -> Sequence[Json]:
        where = items[0].windows
        designs = tuple(dict.fromkeys(item.design for item in items))
        overrides = (*settings.overrides, *items[0].overrides)
        setup = Setup(items[0].machine, None, (), overrides, settings.fidelity)
        plan_ = steady.Plan(where.count, where.instructions, where.lead,
                            placements=tuple(range(where.placements)),
                            begin=round(where.begin * PARTS / 100))  # fmt: skip

        def execute(points: Sequence[Point]) -> list[executor.Outcome]:
            return executor.execute(points, None, self.jobs, self.scheduler, stop_at_failure=True)

        chosen = study.Study((capture,), designs, setup, None, False)
        (part,) = steady.run(chosen, plan_, place, execute, self.say)["traces"]
        found: Sequence[Json] = part["runs"]
        return found

    def _walk(
        self,
        wanted: Plan,
        opened: Mapping[tuple[str, int], study.Capture],
        failures: Failures,
    ) -> dict[Walk, Json]:
        walks: dict[Walk, Json] = {}
        for item in wanted.walks:
            capture = opened.get((item.workload, item.threads))
            if capture is None:
                continue
            of = wanted.settings
            setup = Setup(of.machine, None, (), of.overrides, of.fidelity)
            try:
                walks[item] = interruptible(partial(_locality, capture.path, setup, item))
            except core.EntresolError as error:
                failures[item] = str(error)
        return walks


def _locality(capture: Path, setup: Setup, item: Walk) -> Json:
    return core.Run(capture, setup, item.design, None, False).page_locality(item.shares)


def _refuse(wanted: Plan, name: str, threads: int, why: str, failures: Failures) -> None:
    for item in wanted.everything:
        if (item.workload, item.threads) == (name, threads):
            failures[item] = why
