"""`entresol device top`: a device at work, looked at again and again."""

from __future__ import annotations

import sys
import time
from collections import deque
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from entresol import core
from entresol.cli.device_top_frame import HISTORY, Look, View, fitted, frame
from entresol.interruption import Interruption

WITHOUT_TERMINAL = 120
"""Columns of a frame that goes into a pipe or a file."""
SLICE = 0.05
"""Seconds in which Ctrl-C and a new size of the terminal are noticed."""


def register(app: typer.Typer) -> None:
    """Adds the command to `entresol device`."""
    app.command("top")(top)


def top(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="What `device create` made.")],
    once: Annotated[
        bool, typer.Option("--once", help="Print one frame, after one interval, and end.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option("--interval", metavar="SECONDS", min=0.05, max=3600, help="Between looks."),
    ] = 1.0,
) -> None:
    """Show a device at work, until Ctrl-C: memories, traffic, latencies, flash.

    It only reads; the device may be in use or not. In a pipe it prints frame after frame.
    """
    console = _console()
    watch = core.DeviceWatch(image)
    view = _View(watch)
    with Interruption() as interruption:
        if once or not console.is_terminal:
            _print(console, view, interruption, interval, once)
        else:
            _show(console, view, image, interruption, interval)


class _View:
    """Looks at a device, of which the latest are kept."""

    def __init__(self, watch: core.DeviceWatch) -> None:
        self._watch = watch
        self._looks: deque[Look] = deque(maxlen=HISTORY + 1)
        self.look()

    def look(self) -> None:
        """Looks once more."""
        self._looks.append(Look(time.monotonic(), self._watch.look()))

    def frame(self, width: int) -> RenderableType:
        """What is to be seen."""
        return frame(View(list(self._looks)), width)

    def fitted(self, console: Console, foot: Text) -> RenderableType:
        """As much of it as a terminal shows."""
        return fitted(View(list(self._looks)), console, foot)


def _print(
    console: Console, view: _View, interruption: Interruption, interval: float, once: bool
) -> None:
    while True:
        due = time.monotonic() + interval
        while time.monotonic() < due:
            if interruption.requested:
                return
            time.sleep(min(SLICE, interval))
        view.look()
        console.print(view.frame(console.width))
        sys.stdout.flush()
        if once:
            return


def _show(
    console: Console, view: _View, image: Path, interruption: Interruption, interval: float
) -> None:
    """On a terminal: a screen of its own, which gives way to what was there."""
    foot = Text(f" Ctrl-C ends · every {interval:g} s · {image}", style="bright_black")
    with Live(console=console, screen=True, auto_refresh=False) as live:
        due, drawn = time.monotonic() + interval, None
        while not interruption.requested:
            size = console.size
            if time.monotonic() >= due:
                view.look()
                due = max(due + interval, time.monotonic())
                drawn = None
            if size != drawn:
                live.update(view.fitted(console, foot), refresh=True)
                drawn = size
            time.sleep(min(SLICE, interval))


def _console() -> Console:
    width = None if sys.stdout.isatty() else WITHOUT_TERMINAL
    return Console(width=width, highlight=False)
