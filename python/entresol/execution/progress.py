"""What a person sees of points that run: how far it is and how long it will take, on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from entresol import core
from entresol.execution.executor import Progress
from entresol.execution.point import Point
from entresol.quantity import count

LINE_SECONDS = 10.0
"""Between two lines where there is no terminal."""


def bars(console: Console) -> Bars:
    """Bars with a word on their state, gone when they end; none without a terminal."""
    return Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[state]}", style="dim"),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


def time_left(progress: Progress, elapsed: float) -> float | None:
    """Seconds, from what was simulated since the beginning; none before anything was."""
    partly = sum(run.instructions / run.total for _, run in progress.running if run.total)
    simulated = progress.done + partly
    todo = progress.total - progress.stored - progress.failed - simulated
    return todo * elapsed / simulated if simulated > 0 else None


def span(seconds: float) -> str:
    """`2 h 05 min`, `3 min 20 s`, `12 s`."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


class Watcher:
    """A bar for all points and one for each that runs.

    Without a terminal it writes a line now and then. With `lists` there is a line for each point
    that ends or was found in the store, for commands of a few points.
    """

    def __init__(self, label: Callable[[Point], str], *, lists: bool = False) -> None:
        self._label = label
        self._lists = lists
        self._started: dict[int, tuple[float, Point, core.Progress]] = {}
        self._told = 0
        self._began = time.monotonic()
        self._said = self._began
        self._console = Console(stderr=True)
        self._bars = bars(self._console)
        self._all = self._bars.add_task("points", state="")
        self._tasks: dict[int, TaskID] = {}

    def __enter__(self) -> Watcher:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def watch(self, progress: Progress) -> None:
        """Brings the picture up to date."""
        now = time.monotonic()
        elapsed = now - self._began
        if self._lists:
            self._list(progress, now)
        if self._console.is_terminal:
            self._draw(progress, elapsed)
        elif not self._lists and progress.running and now - self._said >= LINE_SECONDS:
            self._said = now
            done = progress.stored + progress.done
            self._console.print(f"{done} of {self._state(progress, elapsed)}", highlight=False)

    def _list(self, progress: Progress, now: float) -> None:
        for point in progress.found[self._told :]:
            self._say(f"{self._label(point)}: from the store")
        self._told = len(progress.found)
        running = {id(point) for point, _ in progress.running}
        for gone in self._started.keys() - running:
            began, point, last = self._started.pop(gone)
            took = now - began
            pace = f", {last.total / took / 1e6:.1f} MIPS" if last.total and took else ""
            self._say(f"{self._label(point)}: {took:.1f} s{pace}")
        for point, run in progress.running:
            began, *_ = self._started.get(id(point), (now,))
            self._started[id(point)] = (began, point, run)

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False)

    def _state(self, progress: Progress, elapsed: float) -> str:
        words = [f"{count(progress.total)} points"]
        words += [f"{progress.stored} from the store"] if progress.stored else []
        words += [f"{progress.failed} failed"] if progress.failed else []
        left = time_left(progress, elapsed)
        words += [] if left is None else [f"about {span(left)} left"]
        return ", ".join(words)

    def _draw(self, progress: Progress, elapsed: float) -> None:
        done = progress.stored + progress.done + progress.failed
        state = self._state(progress, elapsed)
        self._bars.update(self._all, completed=done, total=progress.total, state=state)
        running = {id(point): (point, run) for point, run in progress.running}
        for gone in self._tasks.keys() - running.keys():
            self._bars.remove_task(self._tasks.pop(gone))
        for number, (point, run) in running.items():
            if number not in self._tasks:
                self._tasks[number] = self._bars.add_task(self._label(point), state="")
            task = self._tasks[number]
            self._bars.update(task, completed=run.instructions, total=run.total, state=run.phase)
