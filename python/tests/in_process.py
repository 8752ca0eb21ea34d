"""A backend that runs requests in threads of this process, where the stand-in core is."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import Empty, SimpleQueue

from entresol import core
from entresol.core import Json
from entresol.execution import worker
from entresol.execution.backend import Event, Finished, Stopped


class InProcess:
    """As many requests at a time as it is told."""

    def __init__(self, count: int) -> None:
        self.capacity = count
        self.warm: frozenset[str] = frozenset()
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._runs: list[core.Run] = []
        self._threads: list[threading.Thread] = []

    def submit(self, ticket: int, request: Json) -> None:
        thread = threading.Thread(target=self._run, args=(ticket, request))
        self._threads.append(thread)
        thread.start()

    def _run(self, ticket: int, request: Json) -> None:
        try:
            self._events.put(Finished(ticket, worker.simulate(request, self._runs.append)))
        except Exception as error:
            self._events.put(Stopped(ticket, worker.sentence(error), worker.kind_of(error)))

    def poll(self, seconds: float) -> Sequence[Event]:
        try:
            return [self._events.get(timeout=seconds)]
        except Empty:
            return []

    def close(self) -> None:
        for run in self._runs:
            run.cancel()
        for thread in self._threads:
            thread.join()
