"""The command `entresol figure`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from entresol import in_loop, papers
from entresol.atomic import OutputDirectory
from entresol.choices import Mode
from entresol.cli import complete
from entresol.cli.options import (
    FidelityOption,
    JobsOption,
    ModeOption,
    NoStoreOption,
    SetOption,
    StoreOption,
)
from entresol.errors import Failed, UserError
from entresol.execution import executor
from entresol.figures import simulate, writing
from entresol.figures.entry import choose
from entresol.figures.paper import PAPER, Paper
from entresol.figures.plan import Settings
from entresol.figures.simulate import Plan
from entresol.store import location
from entresol.store.result_store import Store

DEFAULT_OUTPUT = Path("results/figures")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("figure")(figure_command)


ScaleOption = Annotated[
    str,
    typer.Option("--scale", metavar="small|paper", help="Sizes a part of the paper's, or they."),
]
WorkloadsOption = Annotated[
    list[str] | None,
    typer.Option("--workloads", metavar="all|NAME…", help="Workloads; all is the default."),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="tcp://…", help="Simulate on a Dask cluster."),
]
CapturesOption = Annotated[
    Path | None,
    typer.Option(
        "--captures", metavar="DIR", help="Take NAME-THREADS.etr from here; record nothing."
    ),
]

MeasuredOption = Annotated[
    Path | None,
    typer.Option(
        "--measured", metavar="DIR",
        help="What bench dax has written, for figures of rates on a machine.",
    ),
]  # fmt: skip


RecordingsOption = Annotated[
    Path | None,
    typer.Option(
        "--recordings", metavar="DIR",
        help="Times of firmware, from earlier figures or runs in the loop; else it is measured.",
    ),
]  # fmt: skip


def figure_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PAPER] all|N…",
            help="A paper, and its figures by number; a number alone where one paper has it.",
            autocompletion=complete.figures,
        ),
    ] = None,
    is_list: Annotated[
        bool, typer.Option("--list", help="List the figures of all papers, or of PAPER.")
    ] = False,
    scale: ScaleOption = "small",
    workloads: WorkloadsOption = None,
    fidelity: FidelityOption = PAPER,
    mode: ModeOption = Mode.DETAILED,
    overrides: SetOption = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR",
                     help="Directory for the figures; results/figures/PAPER is the default."),
    ] = None,
    store: StoreOption = None,
    no_store: NoStoreOption = False,
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    captures: CapturesOption = None,
    recordings: RecordingsOption = None,
    measured: MeasuredOption = None,
) -> None:  # fmt: skip
    """Make figures of a paper anew, beside the published values.

    Writes index.html and, of each figure, an SVG, a PDF and the CSV of what is drawn. Without a
    figure it lists what there is.
    """
    if not words:
        _list(papers.every())
        return
    paper, names = papers.of_words(words)
    if is_list or not names:
        _list([paper])
        return
    chosen = choose(paper.figures, names)
    fidelity, sets = _for_runs(paper, fidelity, tuple(overrides or ()))
    settings = paper.settings(scale, fidelity, mode, workloads or [])
    settings = replace(settings, overrides=sets)
    if measured is not None:
        settings = replace(settings, measured=str(measured))
    place_of_results = location.store_directory(store)
    source = simulate.source_of(captures, settings, place_of_results)
    wanted = simulate.plan(chosen, settings)
    _check(wanted)
    writing.check(paper, chosen)
    simulate.reach(scheduler)
    device = in_loop.MEASURED if recordings is None else in_loop.recorded(recordings)
    target = output or DEFAULT_OUTPUT / paper.name
    with OutputDirectory(target) as directory:
        say(wanted.estimate(jobs or len(os.sched_getaffinity(0))) + ".")
        if wanted.wants and (caution := paper.caution(settings)):
            say(caution)
        kept = None if no_store else Store(place_of_results)
        with Watcher() as watcher:
            simulation = simulate.Simulation(
                kept, source, jobs, scheduler, watcher.watch, say, device
            )
            results = simulation.run(wanted)
        for figure in chosen:
            if sentence := figure.lacks(settings):
                say(f"{figure.called}: {sentence}")
        had = (results.runs, results.steady, results.walks, results.benches)
        if results.failures and not any(had):
            raise UserError(f"nothing could be simulated: {next(iter(results.failures.values()))}")
        with disk_may_be_full(target, kept):
            command = shlex.join(["entresol", "figure", paper.name, *names,
                                  *conditions(paper, settings, captures),
                                  *(["--recordings", "DIR"] if recordings else [])])  # fmt: skip
            for name, times in simulation.recordings.items():
                directory.file(name).write_bytes(times)
            writing.write(directory, paper, chosen, results, command)
    for item, why in results.failures.items():
        say(f"{item.workload}: {why}")
    typer.echo(f"figures: {target / 'index.html'}")
    if results.failures:
        raise typer.Exit(1)


def _for_runs(
    paper: Paper, fidelity: str, overrides: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """What runs are told. Switches of a paper of loads are parameters of its loads."""
    return paper.text.conditions(fidelity, overrides) if paper.text else (fidelity, overrides)


def _check(wanted: Plan) -> None:
    """Refuses options that none of the runs would read, or that windows do not know."""
    settings, of_captures = wanted.settings, wanted.wants or wanted.steady or wanted.walks
    if settings.fidelity != PAPER and not of_captures:
        raise UserError(
            f"--fidelity {settings.fidelity}: none of these figures reads it; leave it out."
        )
    if settings.mode != Mode.DETAILED and (wanted.steady or not wanted.wants):
        what = "windows in the steady state are" if wanted.steady else "none of these figures is"
        where = "in the detailed mode alone" if wanted.steady else "of runs of captures"
        raise UserError(f"--mode {settings.mode}: {what} {where}; leave it out.")


@contextmanager
def disk_may_be_full(output: Path, kept: Store | None) -> Iterator[None]:
    """A full disk is a sentence that says that no simulation is lost."""
    try:
        yield
    except OSError as error:
        lost = "" if kept is None else "; the runs are in the store, so make room and start again"
        why = error.strerror or str(error)
        raise Failed(f"{output}: cannot be written: {why}{lost}.") from error


def _list(shown: Sequence[Paper]) -> None:
    for paper in shown:
        typer.echo(f"{paper.name}: {paper.title}")
        for figure in paper.figures:
            typer.echo(f"  {figure.name:<7} {figure.title}")


def conditions(paper: Paper, settings: Settings, captures: Path | None) -> list[str]:
    """The options that repeat a command under its conditions. Whose directory of captures it was
    does not matter, that they were not recorded does."""
    found = ["--scale", settings.scale]
    found += [] if settings.fidelity == PAPER else ["--fidelity", settings.fidelity]
    found += [] if settings.mode == "detailed" else ["--mode", settings.mode]
    if settings.workloads != paper.workloads:
        found += ["--workloads", ",".join(settings.workloads)]
    found += [word for override in settings.overrides for word in ("--set", override)]
    found += ["--measured", "DIR"] if settings.measured else []
    return found if captures is None else [*found, "--captures", "DIR"]


def say(sentence: str) -> None:
    """A line on stderr, where progress goes."""
    print(sentence, file=sys.stderr)


class Watcher:
    """Progress on stderr: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=32),
            TextColumn("{task.completed:.0f} of {task.total:.0f}"), TimeRemainingColumn(),
            console=self._console, disable=not self._console.is_terminal, transient=True,
        )  # fmt: skip
        self._task = self._bar.add_task("runs", total=None)
        self._told = 0

    def __enter__(self) -> Watcher:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def watch(self, progress: executor.Progress) -> None:
        """Brings it up to date."""
        ended = progress.stored + progress.done + progress.failed
        self._bar.update(self._task, total=progress.total, completed=ended)
        self._told = min(self._told, ended)
        if not self._console.is_terminal and ended >= self._told + max(progress.total // 20, 1):
            self._told = ended
            say(f"{ended} of {progress.total} runs, {progress.stored} of them stored before")
