"""What a person sees in the terminal: progress on stderr while it runs, then a table on stdout."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from entresol import quantity, study
from entresol.core import Json
from entresol.derived import Panel, Run, panels, warnings
from entresol.study import Job

WIDTH_WITHOUT_TERMINAL = 132


def bars(console: Console) -> Progress:
    """Bars with a word on their state, gone when they end; none without a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[state]}", style="dim"),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


class Watcher:
    """Progress of a study: a bar per run with simulated MIPS and the time left.

    Without a terminal it writes one line when a run ends.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._started: dict[Job, float] = {}
        self._ended: set[Job] = set()
        self._console = Console(stderr=True)
        self._bars = bars(self._console)
        self._tasks: dict[Job, TaskID] = {}

    def __enter__(self) -> Watcher:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def watch(self) -> None:
        """Brings the bars up to date."""
        now = time.monotonic()
        for job in self._jobs:
            progress = job.progress()
            if progress.instructions == 0 and job.result is None:
                continue
            elapsed = now - self._started.setdefault(job, now)
            speed = progress.instructions / elapsed / 1e6 if elapsed > 0 else 0.0
            if job.result is not None:
                self._end(job, elapsed, speed)
            elif self._console.is_terminal:
                self._move(job, progress.phase, progress.instructions, progress.total, speed)

    def _move(self, job: Job, phase: str, done: int, total: int, speed: float) -> None:
        if job not in self._tasks:
            label = f"{job.trace} · {job.design}"
            self._tasks[job] = self._bars.add_task(label, total=total, state="")
        left = (total - done) / 1e6 / speed if speed else 0.0
        state = f"{phase}  {speed:5.1f} MIPS  {left:4.0f} s left"
        self._bars.update(self._tasks[job], completed=done, total=total, state=state)

    def _end(self, job: Job, elapsed: float, speed: float) -> None:
        if job in self._ended:
            return
        self._ended.add(job)
        if job in self._tasks:
            self._bars.remove_task(self._tasks[job])
        pace = f"{elapsed:.1f} s, {speed:.1f} MIPS" if elapsed > 0 else "done"
        self._console.print(f"{job.trace} · {job.design}: {pace}", highlight=False)


def execute(jobs: Sequence[Job], at_a_time: int | None) -> list[Json]:
    """Runs jobs, one per core unless a number is given, and shows how far they are."""
    if not jobs:
        return []
    workers = min(at_a_time or len(os.sched_getaffinity(0)), len(jobs))
    with Watcher(jobs) as watcher:
        return study.execute(jobs, workers, watcher.watch)


def say(sentence: str) -> None:
    """Something that is done, on stderr."""
    Console(stderr=True).print(sentence, highlight=False, markup=False)


def print_recalled(runs: Sequence[Json]) -> None:
    """Which results were not simulated."""
    console = Console(stderr=True)
    for run in runs:
        console.print(f"{run['trace']} · {run['design']}: from the store", highlight=False)


def print_results(summary: Json) -> None:
    """The table of a study, and its warnings below it."""
    console = wide_console()
    for panel in panels(summary):
        print_table(console, _table(panel))
        if len(panel.runs[0].programs) > 1:
            print_table(console, _programs(panel))
        for warning, designs in warnings(panel).items():
            console.print(Text(f"  {warning} ({', '.join(designs)})", style="yellow"))


def wide_console() -> Console:
    """Stdout; wide enough for a table when it is no terminal."""
    return Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)


def print_table(console: Console, table: Table) -> None:
    """Prints a table of which nothing is cut.

    Prose is folded where there is too little room; names and numbers run beyond the edge.
    """
    # What is measured is not to be folded at the console's edge, beyond which it may run.
    unlimited = console.options.update(max_width=sys.maxsize)
    for column in table.columns:
        if column.no_wrap or column.justify == "right":
            column.no_wrap = True
            texts = [column.header, *column.cells]
            column.min_width = max(
                console.measure(text, options=unlimited).maximum for text in texts
            )
        else:
            column.overflow = "fold"
    narrowest = console.measure(table, options=unlimited).minimum
    given = console.width
    console.width = max(given, narrowest)
    console.print(table)
    console.width = given


def _programs(panel: Panel) -> Table:
    caption = f"{panel.trace}: how much slower than alone"
    table = Table(title=caption, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("design", no_wrap=True)
    for program in panel.runs[0].programs:
        table.add_column(program["trace"], justify="right")
    for run in panel.runs:
        slowdowns = [quantity.milli(item.get("slowdown_milli")) for item in run.programs]
        table.add_row(run.design, *slowdowns)
    return table


def _table(panel: Panel) -> Table:
    first = panel.runs[0]
    caption = f"{panel.trace}: {first.threads} threads, "
    caption += f"{quantity.count(first.instructions)} instructions measured"
    table = Table(title=caption, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("design", no_wrap=True)
    reference = panel.reference.design
    for name in (
        "time",
        f"÷ {reference}",
        "speedup",
        "AMAT",
        "flash programs",
        "WAF",
        "log fills",
        "GCs",
        "switches",
        "warnings",
    ):
        table.add_column(name, justify="right")
    for run in panel.runs:
        table.add_row(run.design, *_cells(panel, run))
    return table


def _cells(panel: Panel, run: Run) -> list[str]:
    flash = ["–"] * 4
    if run.is_device:
        flash = [
            quantity.exact(run.number("flash", "program_pages")),
            quantity.milli(run.write_amplification),
            quantity.exact(run.number("activity", "log_fills")),
            quantity.exact(run.number("activity", "gc_invocations")),
        ]
    return [
        quantity.duration(run.time_ps),
        quantity.significant(panel.normalised(run)),
        quantity.times(panel.speedup(run)),
        quantity.duration(run.amat_ps),
        *flash,
        quantity.exact(run.switches),
        str(len(run.warnings)) if run.warnings else "",
    ]
