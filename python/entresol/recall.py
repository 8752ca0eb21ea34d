"""A study of which some runs are in the store: the rest is run, and kept as each run ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from entresol.core import Json
from entresol.errors import Failed, UserError
from entresol.execution import executor
from entresol.execution.executor import Point
from entresol.store import result_store
from entresol.store.result_store import Store
from entresol.study import Job, Study


@dataclass(frozen=True)
class Recalled:
    """What the store knows of a study, and the runs that it does not know."""

    found: tuple[Json | None, ...]
    """In study order; none where there is a job."""
    jobs: list[Job]

    @property
    def stored(self) -> list[Json]:
        """The results that were found."""
        return [result for result in self.found if result is not None]

    def all(self, made: Sequence[Json]) -> list[Json]:
        """All results in study order, when the jobs have made theirs."""
        rest = iter(made)
        return [next(rest) if result is None else result for result in self.found]


def recall(wanted: Study, kept: Store) -> Recalled:
    """Looks up every run and checks those that are not there; nothing has run when this returns
    or raises."""
    keeper = _Keeper(kept)
    found: list[Json | None] = []
    jobs: list[Job] = []
    for capture in wanted.captures:
        for design in wanted.designs:
            each = Point(capture, design, wanted.setup, wanted.threads, wanted.audit)
            inputs = executor.inputs_of(each)
            result = kept.find(result_store.key_of(inputs))
            found.append(None if result is None else executor.named(result, capture))
            if result is None:
                jobs.append(_Job(wanted, each, inputs, keeper))
    if jobs:
        keeper.check()
    return Recalled(tuple(found), jobs)


class _Job(Job):
    def __init__(self, wanted: Study, each: Point, inputs: Json, keeper: _Keeper) -> None:
        super().__init__(wanted, each.trace, each.design)
        # It was read whole just now, so what was read is what the key says.
        if executor.captures_of(each.trace) != inputs["captures"]:
            raise UserError(f"{each.trace.source}: has changed meanwhile; start the command again.")
        self._kept = (each, inputs, keeper)

    def execute(self) -> None:
        super().execute()
        each, inputs, keeper = self._kept
        assert self.result is not None, "it has run"
        keeper.keep(inputs, executor.label_of(each), self.result)


class _Keeper:
    """Keeps what it can: a run has its own place for results, so a full store does not stop it."""

    def __init__(self, kept: Store) -> None:
        self._store = kept
        self._lock = threading.Lock()
        self._has_failed = False

    def check(self) -> None:
        """Says before the first run that none will be kept."""
        self._try(self._store.check)

    def keep(self, inputs: Json, label: Json, result: Json) -> None:
        self._try(lambda: self._store.keep(inputs, label, result))

    def _try(self, write: Callable[[], object]) -> None:
        try:
            write()
        except Failed as error:
            with self._lock:
                if not self._has_failed:
                    result_store.complain(str(error))
                self._has_failed = True
