"""A process that simulates the points it is sent, one line of JSON each; it ends with its parent.

What it is sent says which core and which captures are meant. It refuses others, because a result
is kept under the digests of both.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import cast

from entresol import core
from entresol.core import Json, Progress, Setup
from entresol.digest import core_digest, file_digest
from entresol.errors import DEBUG, UserError
from entresol.execution.backend import Kind
from entresol.execution.point import (
    Measure,
    Point,
    Recording,
    Steady,
    Windows,
    measure_as_json,
    measure_from_json,
)

REPORT_SECONDS = 0.25
Watch = Callable[[Progress], None]


def request_of(point: Point, digests: list[str]) -> Json:
    """A point as it is sent to a worker, with the digests of its captures."""
    return {
        "core": core_digest(core.library()),
        "trace": str(point.trace.path),
        "digests": digests,
        "setup": asdict(point.setup),
        "design": point.design,
        "threads": point.threads,
        "audit": point.audit,
        "measure": measure_as_json(point.measure),
    }


def simulate(request: Json, made: Callable[[core.Run], None] = lambda _run: None) -> Json:
    """The result of a request; `made` is given the run before it starts.

    Raises `UserError` where core or captures are not the ones that are meant.
    """
    if core_digest(core.library()) != request["core"]:
        raise UserError(
            f"{core.library()}: is another build than the one that asks; "
            "start the command again, or install the same build here."
        )
    _check_captures(request)
    fields = request["setup"]
    setup = Setup(
        **fields
        | {"files": tuple(map(tuple, fields["files"])), "overrides": tuple(fields["overrides"])}
    )
    arguments = (request["design"], request["threads"], request["audit"])
    run = core.Run(Path(request["trace"]), setup, *arguments)
    _check_captures(request)  # It was read whole meanwhile, so what was read is what is meant.
    made(run)
    return _measured(run, measure_from_json(request["measure"]))


def _measured(run: core.Run, measure: Measure) -> Json:
    if isinstance(measure, Windows):
        run.check_windows(measure.count, measure.instructions)
        return {"windows": run.execute_windows(measure.count, measure.instructions)}
    if isinstance(measure, Recording):
        span = (measure.from_ps, measure.to_ps)
        return cast(Json, run.execute_recorded(span, measure.limit, measure.slowest))
    if isinstance(measure, Steady):
        windows = (
            measure.begin,
            measure.count,
            measure.offset_milli,
            measure.lead,
            measure.instructions,
        )
        return core.execute_steady(run, measure.misses, measure.looks, windows)
    return cast(Json, run.execute())


def files_of(trace: str, count: int) -> list[Path]:
    """The files of a run of so many programs: a co-run joins them with `+`."""
    return [Path(trace)] if count == 1 else [Path(part) for part in trace.split("+")]


def _check_captures(request: Json) -> None:
    digests = request["digests"]
    for path, digest in zip(files_of(request["trace"], len(digests)), digests, strict=True):
        try:
            found = file_digest(path)
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}.") from error
        if found != digest:
            raise UserError(f"{path}: has changed since the command began; start it again.")


def sentence(error: BaseException) -> str:
    """What an error says, on one line; of a fault of ours also where it is."""
    if isinstance(error, UserError | core.EntresolError):
        return " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return " ".join(f"internal error: {type(error).__name__}: {error}{place}".split())


def kind_of(error: BaseException) -> Kind:
    """Whose fault an error is."""
    if isinstance(error, UserError | core.ConfigError | core.TraceError):
        return Kind.REFUSED
    return Kind.FAILED if isinstance(error, core.EntresolError) else Kind.INTERNAL


def watch_run(run: core.Run, watch: Watch, done: threading.Event) -> None:
    """Tells `watch` how far a run is until `done`."""
    while not done.wait(REPORT_SECONDS):
        watch(run.progress())


def _serve() -> None:
    core_digest(core.library())  # Before it can be rebuilt.
    requests: SimpleQueue[str] = SimpleQueue()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # Whatever else prints must not cut into the answers.

    def listen() -> None:
        for line in sys.stdin:
            requests.put(line)
        os._exit(0)  # The parent is gone, or wants no more.

    def say(answer: Json) -> None:
        # A closed pipe means the same as the end of the requests, which `listen` sees.
        with contextlib.suppress(BrokenPipeError):
            answers.write(json.dumps(answer, separators=(",", ":")) + "\n")
            answers.flush()

    threading.Thread(target=listen, daemon=True).start()
    while True:
        _answer(json.loads(requests.get()), say)


def _answer(request: Json, say: Callable[[Json], None]) -> None:
    done = threading.Event()
    reporter: list[threading.Thread] = []

    def report(run: core.Run) -> None:
        def tell(progress: Progress) -> None:
            say(
                {
                    "progress": [
                        progress.phase,
                        progress.instructions,
                        progress.total,
                        progress.simulated_ps,
                    ]
                }
            )

        reporter.append(threading.Thread(target=watch_run, args=(run, tell, done), daemon=True))
        reporter[0].start()

    try:
        answer: Json = {"result": simulate(request, report)}
    except Exception as error:
        if os.environ.get(DEBUG) and kind_of(error) is Kind.INTERNAL:
            traceback.print_exc()
        answer = {"error": sentence(error), "kind": kind_of(error).value}
    done.set()
    for thread in reporter:
        thread.join()
    say(answer)


if __name__ == "__main__":
    # Ctrl-C goes to the whole group; the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _serve()
