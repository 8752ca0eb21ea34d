"""What commands share that serve until they are told to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import typer

from entresol import quantity
from entresol.core import Json
from entresol.errors import UserError

ADDRESS = "unix:"
"""How the place begins where a device is served."""


def refuse_address(image: Path, done: str) -> None:
    """Refuses a served device where an image alone can be `done` something with."""
    if str(image).startswith(ADDRESS) and not image.exists():
        raise UserError(
            f"{image}: what is served is not {done}; end its server, and name the image."
        )


@contextmanager
def ends_with_its_terminal() -> Iterator[None]:
    """SIGHUP stops as SIGTERM does, unless it is ignored, as under nohup."""
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGHUP, _hang_up)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _hang_up(_signal: int, _frame: FrameType | None) -> None:
    # Shell and kernel both say that a terminal has gone; once is enough.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise KeyboardInterrupt


def say_stopped(image: Path) -> Callable[[str], None]:
    """Tells on stderr why a device, or what is on it, has stopped."""

    def say(reason: str) -> None:
        # Whoever closed stderr does not want to know; clients are answered with the reason.
        with suppress(OSError):
            typer.echo(f"{image}: the device has stopped: {reason}", err=True)

    return say


def lag(measured: Json | None) -> str:
    """By how much the wall clock was behind the device's, where clients wait for that."""
    if measured is None:
        return ""
    p50, p99, longest = (
        quantity.duration(measured[f"{name}_ps"]) for name in ("p50", "p99", "longest")
    )
    return f", which it lagged by {p50} (p50), {p99} (p99), {longest} at most"


def many(count: int, what: str) -> str:
    """`1 request`, `2 requests`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
