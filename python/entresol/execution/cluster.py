"""A Dask cluster that somebody else runs, as a place to simulate.

Workers only compute: results come back and are kept here. A worker uses the capture at the path
that the command was given if it has the same content there, and is sent the capture otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from entresol import atomic, core
from entresol.core import Json
from entresol.digest import file_digest
from entresol.errors import Failed, UserError
from entresol.execution import worker
from entresol.execution.backend import Event, Finished, Kind, Stopped

CONNECT_SECONDS = 10
ATTEMPTS = 3
"""How often a request is sent whose answer is lost."""
WATCH_SECONDS = 0.5


class MissingError(Exception):
    """A worker has not the captures of a request."""


class Cluster:
    """A client of a Dask scheduler. Raises `UserError` if none answers, or it has no workers."""

    def __init__(self, address: str) -> None:
        self._client = _connect(address)
        self._address = address
        self._name = f"entresol-{uuid.uuid4().hex}"
        self._requests: dict[int, _Request] = {}
        self._done: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._shipped: dict[str, Any] = {}
        self._threads = (0, -1e9)

    @property
    def capacity(self) -> int:
        """One request for each thread of the cluster, and as many again that wait there."""
        threads, asked = self._threads
        if time.monotonic() - asked > 2.0:
            threads = sum(self._client.nthreads().values())
            self._threads = threads, time.monotonic()
        return 2 * max(threads, 1)

    @property
    def warm(self) -> frozenset[str]:
        """It is not known which worker a request goes to."""
        return frozenset()

    def submit(self, ticket: int, request: Json) -> None:
        """Takes a request."""
        self._requests[ticket] = _Request(request)
        self._send(ticket)

    def _send(self, ticket: int) -> None:
        asked = self._requests[ticket]
        asked.attempt += 1
        digests = asked.request["digests"]
        sources = [self._shipped.get(digest) for digest in digests]
        asked.future = self._client.submit(
            simulate_there,
            asked.request,
            sources,
            key=f"{self._name}-{ticket}-{asked.attempt}",
            pure=False,
        )
        asked.future.add_done_callback(lambda future: self._done.put((ticket, future)))

    def _ship(self, request: Json) -> None:
        digests = request["digests"]
        for path, digest in zip(
            worker.files_of(request["trace"], len(digests)), digests, strict=True
        ):
            content = path.read_bytes()
            (self._shipped[digest],) = self._client.scatter([content], broadcast=True)

    def poll(self, seconds: float) -> Sequence[Event]:
        """What happened."""
        events: list[Event] = []
        try:
            ticket, future = self._done.get(timeout=seconds)
            while True:
                events += self._take(ticket, future)
                ticket, future = self._done.get_nowait()
        except Empty:
            if self._client.status in ("closing", "closed"):
                raise self._lost() from None
            return events

    def _take(self, ticket: int, future: Any) -> list[Event]:
        asked = self._requests[ticket]
        if future is not asked.future:
            return []
        if future.status == "finished":
            del self._requests[ticket]
            return [Finished(ticket, future.result())]
        error = future.exception() if future.status == "error" else None
        is_missing = isinstance(error, MissingError)
        if (error is None or is_missing) and asked.attempt < ATTEMPTS:
            if self._client.status != "running":
                raise self._lost()
            if is_missing or any(digest in self._shipped for digest in asked.request["digests"]):
                self._ship(asked.request)
            self._send(ticket)
            return []
        del self._requests[ticket]
        return [Stopped(ticket, _sentence(error), _kind(error))]

    def _lost(self) -> Failed:
        return Failed(
            f"--scheduler {self._address}: is gone; what was done is in the store, so start the "
            "command again when it is back."
        )

    def close(self) -> None:
        """Gives up whatever still runs."""
        futures = [asked.future for asked in self._requests.values()]
        with contextlib.suppress(Exception):  # The cluster may be gone, which is as good.
            self._client.cancel(futures, force=True)
        with contextlib.suppress(Exception):
            self._client.close(timeout=5)


class _Request:
    def __init__(self, request: Json) -> None:
        self.request = request
        self.future: Any = None
        self.attempt = 0


def reach(address: str) -> None:
    """Raises `UserError` if no scheduler with workers answers there, before long work that needs
    it."""
    _connect(address).close()


def _connect(address: str) -> Any:
    try:
        import distributed
    except ImportError as error:
        raise UserError(
            f"--scheduler {address}: needs the package distributed; install entresol[dask]."
        ) from error
    _check_address(address)
    try:
        make: Any = distributed.Client
        client = make(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"--scheduler {address}: no Dask scheduler answers there; write it as tcp://HOST:PORT."
        ) from error
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError as error:
        with contextlib.suppress(Exception):  # The scheduler may be gone, which is as good.
            client.close()
        raise UserError(f"--scheduler {address}: has no workers; start some.") from error
    except OSError as error:
        raise Failed(f"--scheduler {address}: is gone; start the command again later.") from error
    return client


def _check_address(address: str) -> None:
    """Raises `UserError` if no Dask answers there. A client that could not connect prints a
    traceback when it is thrown away, or hangs, so none is made."""
    from distributed.comm.core import connect
    from distributed.security import Security

    async def greet() -> None:
        make: Any = Security
        call: Any = connect
        arguments = make().get_connection_args("client")
        answer = call(address, timeout=CONNECT_SECONDS, **arguments)
        (await asyncio.wait_for(answer, CONNECT_SECONDS)).abort()

    try:
        # In a thread of its own, because a notebook has a loop in this one.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(greet())).result()
    except (OSError, ValueError, TypeError, TimeoutError) as error:
        raise UserError(
            f"--scheduler {address}: no Dask scheduler answers there; write it as tcp://HOST:PORT."
        ) from error


def _sentence(error: BaseException | None) -> str:
    from distributed.scheduler import KilledWorker

    if error is None:
        return f"the cluster lost it {ATTEMPTS} times."
    if isinstance(error, KilledWorker):
        return "the workers that tried it died, perhaps for want of memory."
    if isinstance(error, ImportError):
        return f"a worker cannot load Entresol ({error}); install the same build there."
    return worker.sentence(error)


def _kind(error: BaseException | None) -> Kind:
    return Kind.FAILED if error is None else worker.kind_of(error)


def simulate_there(request: Json, sources: Sequence[bytes | None]) -> Json:
    """Runs on a worker: the result of a request. Raises `MissingError` without its captures."""
    paths = worker.files_of(request["trace"], len(sources))
    found = [_capture(*each) for each in zip(paths, request["digests"], sources, strict=True)]
    here = request | {"trace": "+".join(map(str, found))}
    done = threading.Event()
    try:
        return worker.simulate(here, lambda run: _stop_when_cancelled(run, done))
    finally:
        done.set()


def _capture(path: Path, digest: str, content: bytes | None) -> Path:
    sent = Path(tempfile.gettempdir()) / f"entresol-{os.getuid()}" / f"{digest}.etr"
    for place in (path, sent):
        with contextlib.suppress(OSError):
            if file_digest(place) == digest:
                return place
    if content is None:
        raise MissingError(str(path))
    sent.parent.mkdir(mode=0o700, exist_ok=True)
    atomic.write(sent, content)
    return sent


def _stop_when_cancelled(run: core.Run, done: threading.Event) -> None:
    """Stops a run that nobody waits for: its command was interrupted or killed."""
    from distributed import get_worker

    here = get_worker()
    key = here.get_current_task()

    def watch() -> None:
        while not done.wait(WATCH_SECONDS):
            task = here.state.tasks.get(key)
            if task is None or task.state == "cancelled":
                run.cancel()
                return

    threading.Thread(target=watch, daemon=True).start()
