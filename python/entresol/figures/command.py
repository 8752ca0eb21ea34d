"""The command `entresol figure`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from entresol.atomic import OutputDirectory
from entresol.choices import Mode
from entresol.cli.options import FidelityOption, JobsOption, ModeOption, NoStoreOption, StoreOption
from entresol.errors import Failed, UserError
from entresol.execution import executor
from entresol.figures import ink, page, plan, simulate
from entresol.figures import published as paper
from entresol.papers.skybyte.figures import FIGURES, Figure, choose
from entresol.store import location
from entresol.store.result_store import Store

DEFAULT_OUTPUT = Path("results/figures")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("figure")(figure_command)


ScaleOption = Annotated[
    str,
    typer.Option("--scale", metavar="small|paper", help="Sizes a sixteenth of Table II, or it."),
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


def figure_command(
    figures: Annotated[
        list[str] | None,
        typer.Argument(metavar="all|N…", help="Figures by number, or table3; none lists them."),
    ] = None,
    scale: ScaleOption = "small",
    workloads: WorkloadsOption = None,
    fidelity: FidelityOption = "paper",
    mode: ModeOption = Mode.DETAILED,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Directory for the figures.")
    ] = DEFAULT_OUTPUT,
    store: StoreOption = None,
    no_store: NoStoreOption = False,
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    captures: CapturesOption = None,
) -> None:
    """Make figures of the SkyByte paper anew, beside the published values.

    Writes index.html and, of each figure, an SVG, a PDF and the CSV of what is drawn.
    """
    if not figures:
        _list()
        return
    chosen = choose(figures)
    settings = plan.settings(scale, fidelity, mode, workloads or [])
    place_of_results = location.store_directory(store)
    source = simulate.source_of(captures, settings, place_of_results)
    wanted = simulate.plan(chosen, settings)
    for figure in chosen:
        check(figure)
    paper.check()
    simulate.reach(scheduler)
    with OutputDirectory(output) as directory:
        say(wanted.estimate(jobs or len(os.sched_getaffinity(0))) + ".")
        if settings.echoes and wanted.wants:
            say(page.ECHOES)
        kept = None if no_store else Store(place_of_results)
        with Watcher() as watcher:
            simulation = simulate.Simulation(kept, source, jobs, scheduler, watcher.watch, say)
            results = simulation.run(wanted)
        if not results.runs and not results.walks and results.failures:
            raise UserError(f"nothing could be simulated: {next(iter(results.failures.values()))}")
        with writing(output, kept):
            write(directory, chosen, results, _command(figures, settings, captures))
    for item, why in results.failures.items():
        say(f"{item.workload}: {why}")
    typer.echo(f"figures: {output / 'index.html'}")
    if results.failures:
        raise typer.Exit(1)


@contextmanager
def writing(output: Path, kept: Store | None) -> Iterator[None]:
    """A full disk is a sentence that says that no simulation is lost."""
    try:
        yield
    except OSError as error:
        lost = "" if kept is None else "; the runs are in the store, so make room and start again"
        why = error.strerror or str(error)
        raise Failed(f"{output}: cannot be written: {why}{lost}.") from error


def check(figure: Figure) -> None:
    """Finds published rows that are missing before anything runs."""
    everything = plan.Settings()
    figure.frame(plan.Results(everything, {}))


def write(
    directory: OutputDirectory, figures: Sequence[Figure], results: plan.Results, command: str
) -> None:
    """All files of the figures, into a directory that fills in one step."""
    made = {}
    for figure in figures:
        frame = figure.frame(results)
        stem = directory.file(f"{figure.stem}.svg").with_suffix("")
        directory.file(f"{figure.stem}.pdf")
        ink.save(figure.draw(frame), stem)
        frame.write_csv(directory.file(f"{figure.stem}.csv"))
        made[figure.name] = (frame, stem.with_suffix(".svg").read_bytes())
    text = page.render(figures, results, made, command)
    directory.file("index.html").write_text(text, encoding="utf-8")
    directory.commit()


def _list() -> None:
    for figure in FIGURES:
        typer.echo(f"{figure.name:<7} {figure.title}")


def _command(words: Sequence[str], settings: plan.Settings, captures: Path | None) -> str:
    return shlex.join(["entresol", "figure", *words, *conditions(settings, captures)])


def conditions(settings: plan.Settings, captures: Path | None) -> list[str]:
    """The options that repeat a command under its conditions. Whose directory of captures it was
    does not matter, that they were not recorded does."""
    found = ["--scale", settings.scale]
    found += [] if settings.fidelity == "paper" else ["--fidelity", settings.fidelity]
    found += [] if settings.mode == "detailed" else ["--mode", settings.mode]
    if settings.workloads != plan.WORKLOADS:
        found += ["--workloads", ",".join(settings.workloads)]
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
