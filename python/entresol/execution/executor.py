"""Points of the design space: found in the store, or simulated and kept there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count

from entresol import core
from entresol.core import Json, Setup
from entresol.digest import core_digest, file_digest
from entresol.errors import UserError
from entresol.execution import worker
from entresol.execution.backend import Advanced, Backend, Event, Finished
from entresol.execution.processes import Processes
from entresol.interruption import POLL_SECONDS, Interruption
from entresol.store.result_store import Claim, Store, key_of
from entresol.study import Capture

IN_CONFIG = ("machine", "nand", "files", "overrides", "fidelity")
"""Fields of `Setup` that act through the effective configuration and the switches alone."""


@dataclass(frozen=True)
class Point:
    """One capture on one design, and all that decides the result."""

    trace: Capture
    design: str
    setup: Setup
    threads: int | None = None
    audit: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a point: its result, or a sentence that says why there is none."""

    point: Point
    key: str | None
    """The result's name in the store; none where the point itself is wrong."""
    result: Json | None
    error: str | None = None
    was_stored: bool = False


@dataclass(frozen=True)
class Progress:
    """How far the points of an `execute` are. Equal points count once."""

    total: int
    stored: int
    """Found in the store."""
    done: int
    """Simulated, by this process or, meanwhile, by another."""
    failed: int
    running: tuple[tuple[Point, core.Progress], ...]


Watch = Callable[[Progress], None]
FAST = "fast"
WAITING = core.Progress("waiting", 0, 0, 0)


def inputs_of(point: Point) -> Json:
    """All that decides the result of a point. Raises `ConfigError` if its configuration is wrong.

    Names are no inputs: not of captures, files, or presets, whose values are in the configuration.
    """
    setup = point.setup
    return {
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


def captures_of(capture: Capture) -> list[str]:
    """The digests of a capture's file, or of those of a co-run. Raises `UserError`."""
    parts = capture.parts or (capture,)
    try:
        return [file_digest(part.path) for part in parts]
    except OSError as error:
        raise UserError(f"{capture.source}: cannot be read: {error.strerror}.") from error


def label_of(point: Point) -> Json:
    """What a point is called; kept beside its result for people to read."""
    return {
        "trace": point.trace.name,
        "machine": point.setup.machine,
        "entresol": core.version(),
    }


def named(result: Json, capture: Capture) -> Json:
    """A stored result under the names that its captures have now."""
    parts = capture.parts or (capture,)
    programs = [
        program | {"trace": part.name}
        for program, part in zip(result["programs"], parts, strict=True)
    ]
    return result | {"trace": capture.name, "programs": programs}


def execute(
    points: Sequence[Point],
    store: Store | None,
    jobs: int | None = None,
    scheduler: str | None = None,
    watch: Watch | None = None,
) -> list[Outcome]:
    """What became of each point, in their order; each is simulated once, or not at all if stored.

    A point that fails does not stop the others. `jobs` worker processes work on this machine, one
    per core if left out; the workers of a Dask cluster instead, if `scheduler` is its address
    (`tcp://…`). Raises `Failed` when results cannot be stored, before anything is simulated
    where that is known then, and `KeyboardInterrupt` on Ctrl-C; what was done by then is in the
    store.
    """
    if jobs is not None and (type(jobs) is not int or jobs < 1):
        raise UserError(f"jobs: {jobs} is not a number from 1.")
    with nullcontext() if store is None else store.in_use():
        run = _Execution(points, store, watch or (lambda _progress: None))
        if run.pending:
            if store is not None:
                store.check()
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


@dataclass
class _Task:
    """Something to compute: one of the points that have the same inputs."""

    point: Point
    inputs: Json
    claim: Claim | None = None
    progress: core.Progress = WAITING


@dataclass
class _Execution:
    points: Sequence[Point]
    store: Store | None
    watch: Watch
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
        self._tell()

    def _plan(self, index: int, point: Point) -> str | None:
        try:
            inputs = inputs_of(point)
        except (UserError, core.EntresolError) as error:
            self._wrong[index] = worker.sentence(error)
            return None
        key = key_of(inputs)
        if key not in self._results and key not in self._tasks and not self._find(key):
            self._tasks[key] = _Task(point, inputs)
            self.pending[key] = None
        return key

    def _find(self, key: str, *, again: bool = False) -> bool:
        result = None if self.store is None else self.store.find(key, again=again)
        if result is None:
            return False
        self._results[key] = result
        self._stored.add(key)
        return True

    def work(self, backend: Backend, stop: Interruption) -> None:
        """Runs everything that is pending."""
        try:
            while self.pending or self._running:
                self._submit(backend)
                for event in backend.poll(POLL_SECONDS):
                    self._note(event)
                self._tell()
                if stop.requested:
                    raise KeyboardInterrupt
        finally:
            for key in self._running.values():
                self._release(key)

    def _submit(self, backend: Backend) -> None:
        waiting = list(self.pending)  # Less those that another process computes at this moment.
        while waiting and len(self._running) < backend.capacity:
            key = self._next(waiting, backend.warm)
            waiting.remove(key)
            if self._may_start(key):
                ticket = next(self._tickets)
                self._running[ticket] = key
                backend.submit(ticket, _request(self._tasks[key]))

    def _next(self, waiting: Sequence[str], warm: frozenset[str]) -> str:
        """The first; in fast mode rather one whose threads a free worker has filtered already, or
        else of a capture that no worker is busy filtering."""
        if self._tasks[waiting[0]].point.setup.mode != FAST:
            return waiting[0]
        busy = {self._path(key) for key in self._running.values()}
        known = (key for key in waiting if self._path(key) in warm)
        fresh = (key for key in waiting if self._path(key) not in busy)
        return next(known, next(fresh, waiting[0]))

    def _path(self, key: str) -> str:
        return str(self._tasks[key].point.trace.path)

    def _may_start(self, key: str) -> bool:
        if self.store is not None:
            claim = self.store.claim(key)
            if claim is None:  # Another process computes it: look again later.
                return False
            if self._find(key, again=True):  # It was computed by another process since we looked.
                claim.release()
                del self.pending[key]
                return False
            self._tasks[key].claim = claim
        del self.pending[key]
        return True

    def _note(self, event: Event) -> None:
        key = self._running[event.ticket]
        task = self._tasks[key]
        if isinstance(event, Advanced):
            task.progress = event.progress
            return
        if isinstance(event, Finished):
            result = named(event.result, task.point.trace)
            if self.store is not None:
                self.store.keep(task.inputs, label_of(task.point), result)
            self._results[key] = result
        else:
            self._errors[key] = event.error
        del self._running[event.ticket]
        self._release(key)

    def _release(self, key: str) -> None:
        if (claim := self._tasks[key].claim) is not None:
            claim.release()
            self._tasks[key].claim = None

    def _tell(self) -> None:
        running = (self._tasks[key] for key in self._running.values())
        self.watch(
            Progress(
                total=len(self._results)
                + len(self._errors)
                + len(self.pending)
                + len(self._running)
                + len(self._wrong),
                stored=len(self._stored),
                done=len(self._results) - len(self._stored),
                failed=len(self._errors) + len(self._wrong),
                running=tuple((task.point, task.progress) for task in running),
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
        result = named(self._results[key], point.trace)
        return Outcome(point, key, result, None, key in self._stored)


def _request(task: _Task) -> Json:
    point = task.point
    digests = task.inputs["captures"]
    arguments = (point.setup, point.design, point.threads, point.audit)
    return worker.request_of(point.trace.path, digests, *arguments)
