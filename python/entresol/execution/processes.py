"""Worker processes on this machine.

Processes and not threads, because one that is killed, for want of memory say, takes only its own
point with it. They are started by command and not forked, so that it does not matter who asks: a
terminal, a test with threads, a notebook.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from entresol import core
from entresol.core import Json
from entresol.errors import Failed
from entresol.execution.backend import Advanced, Event, Finished, Kind, Stopped
from entresol.interruption import signal_name

ATTEMPTS = 2
"""How often a point is tried whose worker dies under it."""


class Processes:
    """So many workers, each started when it is first needed."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._idle: list[_Worker] = []
        self._workers: list[_Worker] = []
        self._events: SimpleQueue[Event | _Death | _Rest] = SimpleQueue()

    @property
    def capacity(self) -> int:
        """How many requests it takes at a time."""
        return self._count

    @property
    def warm(self) -> frozenset[str]:
        """Captures that idle workers know already, and may have filtered."""
        return frozenset(worker.trace for worker in self._idle if worker.trace)

    def submit(self, ticket: int, request: Json) -> None:
        """Takes a request."""
        self._start(_Task(ticket, json.dumps(request), request["trace"], 1))

    def _start(self, task: _Task) -> None:
        if not self._idle:
            worker = _Worker(self._events)
            self._workers.append(worker)
            self._idle.append(worker)
        chosen = max(self._idle, key=lambda worker: worker.trace == task.trace)
        self._idle.remove(chosen)
        chosen.give(task)

    def poll(self, seconds: float) -> Sequence[Event]:
        """What happened."""
        events: list[Event] = []
        try:
            said = self._events.get(timeout=seconds)
            while True:
                events += self._take(said)
                said = self._events.get_nowait()
        except Empty:
            return events

    def _take(self, said: Event | _Death | _Rest) -> list[Event]:
        if isinstance(said, _Rest):
            self._idle.append(said.worker)
            return []
        if not isinstance(said, _Death):
            return [said]
        self._workers.remove(said.worker)
        if said.worker in self._idle:
            self._idle.remove(said.worker)
        task = said.worker.task
        if task is None:
            return []
        if task.attempt < ATTEMPTS:
            self._start(_Task(task.ticket, task.line, task.trace, task.attempt + 1))
            return []
        return [Stopped(task.ticket, _how(said.code), Kind.FAILED)]

    def close(self) -> None:
        """Ends all workers at once."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.join()


@dataclass(frozen=True)
class _Task:
    ticket: int
    line: str
    trace: str
    attempt: int


class _Rest:
    def __init__(self, worker: _Worker) -> None:
        self.worker = worker


class _Death:
    def __init__(self, worker: _Worker, code: int) -> None:
        self.worker = worker
        self.code = code


class _Worker:
    """A process, and a thread that reads what it says."""

    def __init__(self, events: SimpleQueue[Event | _Death | _Rest]) -> None:
        self._events = events
        self.task: _Task | None = None
        """What it was given and has not answered."""
        self.trace = ""
        """The capture that it had last."""
        package = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "entresol.execution.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": path},
                text=True,
                encoding="utf-8",
            )
        except OSError as error:
            raise Failed(f"a worker process cannot be started: {error.strerror}.") from error
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def give(self, task: _Task) -> None:
        """Sends a task. If the process is dead, its reader says so."""
        self.task = task
        self.trace = task.trace
        assert self._process.stdin is not None, "it was asked for"
        try:
            self._process.stdin.write(task.line + "\n")
            self._process.stdin.flush()
        except OSError:
            return

    def _read(self) -> None:
        assert self._process.stdout is not None, "it was asked for"
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break
            self._hear(json.loads(line))
        code = self._process.wait()
        self._events.put(_Death(self, code))

    def _hear(self, answer: Json) -> None:
        task = self.task
        assert task is not None, "a worker speaks when it has a task"
        if "progress" in answer:
            self._events.put(Advanced(task.ticket, core.Progress(*answer["progress"])))
            return
        self.task = None
        if "result" in answer:
            self._events.put(Finished(task.ticket, answer["result"]))
        else:
            self._events.put(Stopped(task.ticket, answer["error"], Kind(answer["kind"])))
        self._events.put(_Rest(self))

    def kill(self) -> None:
        """Ends the process."""
        self._process.kill()

    def join(self) -> None:
        """Waits until all of it is gone."""
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue


def _how(code: int) -> str:
    if code < 0:
        name = signal_name(-code)
        memory = ", perhaps for want of memory: take fewer --jobs" if name == "SIGKILL" else ""
        return f"its worker was ended by {name} {ATTEMPTS} times{memory}."
    return f"its worker ended with code {code} {ATTEMPTS} times."
