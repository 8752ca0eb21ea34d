"""The one executor: points are found in the store, or simulated by workers and kept there.

Whoever runs anything (`run`, `sweep`, `sample`, `explain-gain`, `why`, figures, a notebook) calls
`execute`. A point is simulated once however often it is asked for, one that fails stops no other
unless that is wanted, and what was done by the time of an interruption is in the store.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import cast

from entresol import core
from entresol.core import Json
from entresol.errors import Failed, InternalError, UserError
from entresol.execution import worker
from entresol.execution.backend import Advanced, Backend, Event, Finished, Kind, Stopped
from entresol.execution.point import (
    Point,
    Recording,
    Steady,
    Windows,
    inputs_of,
    label_of,
    named,
)
from entresol.execution.processes import Processes
from entresol.interruption import POLL_SECONDS, Interruption
from entresol.result_types import Recorded, RunResult, WindowResult
from entresol.store import result_store
from entresol.store.result_store import Store, key_of


@dataclass(frozen=True)
class Outcome:
    """What became of a point: its result, or a sentence that says why there is none."""

    point: Point
    key: str | None
    """The result's name in the store; none where the point itself is wrong."""
    result: RunResult | None
    """Of a whole capture."""
    error: str | None = None
    was_stored: bool = False
    windows: Sequence[WindowResult] = ()
    """Of a point that measures windows."""
    recorded: Recorded | None = None
    """Of a point that records."""
    steady: Json | None = None
    """Of a point that measures in the steady state."""


@dataclass(frozen=True)
class Progress:
    """How far the points of an `execute` are. Equal points count once."""

    total: int
    stored: int
    """Found in the store."""
    done: int
    """Simulated."""
    failed: int
    running: tuple[tuple[Point, core.Progress], ...]
    found: tuple[Point, ...] = ()
    """Those that were found in the store."""


Watch = Callable[[Progress], None]
FAST = "fast"
WAITING = core.Progress("waiting", 0, 0, 0)


def execute(
    points: Sequence[Point],
    store: Store | None,
    jobs: int | None = None,
    scheduler: str | None = None,
    watch: Watch | None = None,
    *,
    stop_at_failure: bool = False,
    must_keep: bool = True,
) -> list[Outcome]:
    """What became of each point, in their order.

    `store` is where results are looked up and kept; none: neither. `jobs` worker processes work on
    this machine, one per core if left out; the workers of a Dask cluster instead, if `scheduler` is
    its address (`tcp://…`). `watch` hears how far it is about ten times a second.

    A point that fails has a sentence in its outcome. With `stop_at_failure` the first one stops
    all: by `ConfigError` or `UserError` where the point itself is wrong, else by `Failed`, or by
    `InternalError` for a fault of ours.

    Where results cannot be stored it raises `Failed`, before anything is simulated if that is known
    then; without `must_keep` it says so once on stderr and goes on. Raises `UserError` for a wrong
    `jobs` and `KeyboardInterrupt` on Ctrl-C; what was done by then is in the store.
    """
    if jobs is not None and (type(jobs) is not int or jobs < 1):
        raise UserError(f"jobs: {jobs} is not a number from 1.")
    with nullcontext() if store is None else store.in_use():
        keeper = _Keeper(store, must_keep)
        run = _Execution(points, keeper, watch or (lambda _progress: None), stop_at_failure)
        if run.pending:
            keeper.check()
            with _backend(scheduler, jobs, len(run.pending)) as backend, _interruption() as stop:
                run.work(backend, stop)
    return run.outcomes()


@contextmanager
def _backend(scheduler: str | None, jobs: int | None, most: int) -> Iterator[Backend]:
    backend: Backend
    if scheduler is not None:
        from entresol.execution.cluster import Cluster

        backend = Cluster(scheduler)
    else:
        backend = Processes(min(jobs or len(os.sched_getaffinity(0)), most))
    try:
        yield backend
    finally:
        backend.close()


def _interruption() -> AbstractContextManager[Interruption]:
    # Only the main thread may ask for signals; elsewhere somebody else does.
    if threading.current_thread() is threading.main_thread():
        return Interruption()
    return nullcontext(Interruption())


class _Keeper:
    """The store as an execution uses it: whole captures are looked up and kept, if they can be."""

    def __init__(self, store: Store | None, must_keep: bool) -> None:
        self._store = store
        self._must_keep = must_keep
        self._has_failed = False

    def find(self, key: str, point: Point) -> RunResult | None:
        """The result of a point, if it is stored."""
        if self._store is None or point.measure is not None:
            return None
        return self._store.find(key)

    def check(self) -> None:
        """Before the first point is simulated: whether its result could be kept."""
        if self._store is not None:
            self._try(self._store.check)

    def keep(self, task: _Task, result: Json) -> None:
        """Stores a result."""
        store = self._store
        if store is not None and task.point.measure is None:
            whole = named(cast(RunResult, result), task.point.trace)
            self._try(lambda: store.keep(task.inputs, label_of(task.point), whole))

    def _try(self, write: Callable[[], object]) -> None:
        try:
            write()
        except Failed as error:
            if self._must_keep:
                raise
            if not self._has_failed:
                result_store.complain(str(error))
            self._has_failed = True


@dataclass
class _Task:
    """Something to compute: one of the points that have the same inputs."""

    point: Point
    inputs: Json
    progress: core.Progress = WAITING


@dataclass
class _Execution:
    points: Sequence[Point]
    keeper: _Keeper
    watch: Watch
    stop_at_failure: bool
    pending: dict[str, None] = field(default_factory=dict)
    """Keys of what is still to start, in order."""

    def __post_init__(self) -> None:
        self._keys: list[str | None] = []
        self._wrong: dict[int, str] = {}
        self._results: dict[str, Json] = {}
        self._errors: dict[str, str] = {}
        self._tasks: dict[str, _Task] = {}
        self._running: dict[int, str] = {}
        self._stored: set[str] = set()
        self._tickets = count()
        for index, point in enumerate(self.points):
            self._keys.append(self._plan(index, point))
        pairs = zip(self.points, self._keys, strict=True)
        self._found = tuple(point for point, key in pairs if key in self._stored)
        self._tell()

    def _plan(self, index: int, point: Point) -> str | None:
        try:
            inputs = inputs_of(point)
        except (UserError, core.EntresolError) as error:
            if self.stop_at_failure:
                raise
            self._wrong[index] = worker.sentence(error)
            return None
        key = key_of(inputs)
        if key in self._results or key in self._tasks:
            return key
        if (result := self.keeper.find(key, point)) is not None:
            self._results[key] = cast(Json, result)
            self._stored.add(key)
        else:
            self._tasks[key] = _Task(point, inputs)
            self.pending[key] = None
        return key

    def work(self, backend: Backend, stop: Interruption) -> None:
        """Runs everything that is pending."""
        while self.pending or self._running:
            while self.pending and len(self._running) < backend.capacity:
                self._submit(backend)
            # What has ended well is kept before a failure stops all.
            events = sorted(backend.poll(POLL_SECONDS), key=lambda each: type(each) is Stopped)
            for event in events:
                self._note(event)
            self._tell()
            if stop.requested:
                raise KeyboardInterrupt

    def _submit(self, backend: Backend) -> None:
        key = self._next(backend.warm)
        del self.pending[key]
        ticket = next(self._tickets)
        self._running[ticket] = key
        task = self._tasks[key]
        backend.submit(ticket, worker.request_of(task.point, task.inputs["captures"]))

    def _next(self, warm: frozenset[str]) -> str:
        """The first; in fast mode rather one whose threads a free worker has filtered already, or
        else of a capture that no worker is busy filtering."""
        first = next(iter(self.pending))
        if self._tasks[first].point.setup.mode != FAST:
            return first
        busy = {self._path(key) for key in self._running.values()}
        known = (key for key in self.pending if self._path(key) in warm)
        fresh = (key for key in self.pending if self._path(key) not in busy)
        return next(known, next(fresh, first))

    def _path(self, key: str) -> str:
        return str(self._tasks[key].point.trace.path)

    def _note(self, event: Event) -> None:
        key = self._running[event.ticket]
        task = self._tasks[key]
        if isinstance(event, Advanced):
            task.progress = event.progress
            return
        if isinstance(event, Finished):
            self.keeper.keep(task, event.result)
            self._results[key] = event.result
        elif self.stop_at_failure:
            raise _failure(event, task.point)
        else:
            self._errors[key] = event.error
        del self._running[event.ticket]

    def _tell(self) -> None:
        running = (self._tasks[key] for key in self._running.values())
        ended = len(self._results) + len(self._errors) + len(self._wrong)
        self.watch(
            Progress(
                total=ended + len(self.pending) + len(self._running),
                stored=len(self._stored),
                done=len(self._results) - len(self._stored),
                failed=len(self._errors) + len(self._wrong),
                running=tuple((task.point, task.progress) for task in running),
                found=self._found,
            )
        )

    def outcomes(self) -> list[Outcome]:
        """What became of each point, when nothing is pending."""
        return [self._outcome(*each) for each in enumerate(self.points)]

    def _outcome(self, index: int, point: Point) -> Outcome:
        key = self._keys[index]
        if key is None:
            return Outcome(point, None, None, self._wrong[index])
        if key in self._errors:
            return Outcome(point, key, None, self._errors[key])
        found = self._results[key]
        if isinstance(point.measure, Windows):
            windows = [cast(WindowResult, {**window, "trace": point.trace.name})
                       for window in found["windows"]]  # fmt: skip
            return Outcome(point, key, None, windows=windows)
        if isinstance(point.measure, Recording):
            return Outcome(point, key, None, recorded=cast(Recorded, found))
        if isinstance(point.measure, Steady):
            return Outcome(point, key, None, steady=found)
        result = named(cast(RunResult, found), point.trace)
        return Outcome(point, key, result, None, key in self._stored)


def _failure(event: Stopped, point: Point) -> Exception:
    if event.kind is Kind.REFUSED:
        return UserError(event.error)
    kind = InternalError if event.kind is Kind.INTERNAL else Failed
    return kind(f"{point.trace.name} · {point.design}: {event.error}")
