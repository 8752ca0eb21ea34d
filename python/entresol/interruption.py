"""Ctrl-C and SIGTERM while the core works, and names of signals."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as NotYet
from types import FrameType
from typing import Any, TypeVar

POLL_SECONDS = 0.1
Answer = TypeVar("Answer")


class Interruption:
    """Ctrl-C and SIGTERM as a flag, so that no exception cuts through the tidying up."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True


def signal_name(number: int) -> str:
    """`SIGKILL`; of a signal for real time, `SIGRTMIN+3`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN{number - signal.SIGRTMIN:+d}"


def interruptible(work: Callable[[], Answer]) -> Answer:
    """Does work that cannot be cancelled; raises `KeyboardInterrupt` soon after Ctrl-C.

    The work then goes on in a thread that ends with the process, so what it writes has to have a
    temporary name. Only the main thread hears of Ctrl-C; another just does the work.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    with Interruption() as interruption:
        threading.Thread(target=run, daemon=True).start()
        while not interruption.requested:
            try:
                return future.result(POLL_SECONDS)
            except NotYet:
                if future.done():  # The work itself gave this error, or the answer just came.
                    return future.result()
    raise KeyboardInterrupt


def watched(
    work: Callable[[], Answer], see: Callable[[], None], cancel: Callable[[], None]
) -> Answer:
    """What comes of work in a thread of its own, which is looked at now and then and cancelled when
    the command is interrupted."""
    with Interruption() as interruption, ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(work)
        while wait([future], timeout=POLL_SECONDS).not_done:
            if interruption.requested:
                cancel()
            see()
        if interruption.requested:
            raise KeyboardInterrupt
        return future.result()
