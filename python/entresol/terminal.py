"""What a person sees in the terminal: progress on stderr while it runs, then a table on stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from entresol import core, quantity
from entresol.derived import Panel, Run, panels, warnings
from entresol.errors import Stopped
from entresol.execution import executor
from entresol.execution.executor import Outcome
from entresol.execution.point import Point
from entresol.execution.progress import Watcher
from entresol.result_types import RunResult, Summary
from entresol.store.result_store import Store

WIDTH_WITHOUT_TERMINAL = 132


def execute(
    points: Sequence[Point],
    label: Callable[[Point], str],
    store: Store | None,
    jobs: int | None = None,
    scheduler: str | None = None,
    *,
    lists: bool = True,
) -> list[Outcome]:
    """Executes points with their progress on stderr, and says what an interruption left.

    With `lists` there is a line for each point, and the first that fails stops all: raises as
    `executor.execute`, and `Stopped` on Ctrl-C if anything is kept.
    """
    state = executor.Progress(0, 0, 0, 0, ())
    with Watcher(label, lists=lists) as watcher:

        def watch(progress: executor.Progress) -> None:
            nonlocal state
            state = progress
            watcher.watch(progress)

        how = {"stop_at_failure": lists, "must_keep": not lists}
        try:
            return executor.execute(points, store, jobs, scheduler, watch, **how)
        except KeyboardInterrupt as error:
            kept = state.done + state.stored
            if store is None or kept == 0:
                raise
            raise Stopped(
                f"interrupted; {kept} of {state.total} points are in the store, and the same "
                "command goes on from there."
            ) from error


class Notes:
    """How far a run is that no worker does, once a second, on a terminal only."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._last = time.monotonic()

    def watch(self, point: Point, progress: core.Progress) -> None:
        """A line that the next one replaces."""
        now = time.monotonic()
        if not self._console.is_terminal or now - self._last < 1.0:
            return
        self._last = now
        done = quantity.count(progress.instructions)
        text = f"{name_of(point)}: {progress.phase}, {done} instructions"
        self._console.print(f"{text:70}", end="\r", highlight=False, markup=False)


def results(outcomes: Sequence[Outcome]) -> list[RunResult]:
    """The results of points of which none failed."""
    return [outcome.result for outcome in outcomes if outcome.result is not None]


def name_of(point: Point) -> str:
    """Capture and design."""
    return f"{point.trace.name} · {point.design}"


def say(sentence: str) -> None:
    """Something that is done, on stderr."""
    Console(stderr=True).print(sentence, highlight=False, markup=False)


def print_results(summary: Summary) -> None:
    """The table of a study, and its warnings below it."""
    console = wide_console()
    for panel in panels(summary):
        print_table(console, _table(panel))
        if len(panel.runs[0].programs) > 1:
            print_table(console, _programs(panel))
        for run in panel.runs:
            if run.bottleneck:
                console.print(Text(f"  {run.design} · {run.bottleneck}", style="dim"))
        for warning, designs in warnings(panel).items():
            print_warning(console, f"{warning} ({', '.join(designs)})")


def print_warning(console: Console, sentence: str) -> None:
    """What the reader must know before believing a number."""
    console.print(Text(f"  {sentence}", style="yellow"))


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
        "AMAT, all",
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
        quantity.duration(run.amat_all_ps),
        *flash,
        quantity.exact(run.switches),
        str(len(run.warnings)) if run.warnings else "",
    ]
