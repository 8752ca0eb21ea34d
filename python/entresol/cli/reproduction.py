"""The command `entresol reproduction`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from entresol import papers
from entresol.atomic import OutputFile
from entresol.choices import Mode
from entresol.cli import complete
from entresol.cli.figure import (
    CapturesOption,
    ScaleOption,
    SchedulerOption,
    Watcher,
    WorkloadsOption,
    conditions,
    disk_may_be_full,
    say,
)
from entresol.cli.options import JobsOption, ModeOption, StoreOption
from entresol.errors import UserError
from entresol.figures import reproduction, reproduction_page, simulate, standing
from entresol.figures.paper import PAPER
from entresol.store import location
from entresol.store.result_store import Store


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("reproduction")(reproduction_command)


def reproduction_command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAPER]",
            help="May be left out where one paper has claims.",
            autocompletion=complete.rooms,
        ),
    ] = None,
    scale: ScaleOption = "small",
    workloads: WorkloadsOption = None,
    mode: ModeOption = Mode.DETAILED,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.md", help="The page.")
    ] = Path("reproduction.md"),
    store: StoreOption = None,
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    captures: CapturesOption = None,
) -> None:
    """Set every number of a paper's text beside ours, with the causes of differences."""
    study = reproduction.of(papers.with_claims(name))
    settings = study.paper.settings(scale, PAPER, mode, workloads or [])
    study.paper.check()
    simulate.reach(scheduler)
    reasons = [cause for cause in study.causes() if cause.scale in (None, scale)]
    kept = location.store_directory(store)
    source = simulate.source_of(captures, settings, kept)
    plans = study.plans(settings, reasons)
    runs = sum(len(wanted.wants) + len(wanted.benches) for wanted in plans)
    with OutputFile(output) as page:
        say(f"{len(plans)} sets of conditions, {runs} runs in all; of the first, "
            f"{plans[0].estimate(jobs or len(os.sched_getaffinity(0)))}.")  # fmt: skip
        with Watcher() as watcher:
            simulation = simulate.Simulation(Store(kept), source, jobs, scheduler, watcher.watch,
                                             say)  # fmt: skip
            evidence = study.gather(settings, reasons, simulation)
            evidence = standing.completed(study, settings, evidence, reasons, simulation)
        if not evidence.paper.runs and not evidence.paper.benches:
            first = next(iter(evidence.paper.failures.values()), "no run was asked for")
            raise UserError(f"nothing could be simulated: {first}")
        command = shlex.join(["entresol", "reproduction", study.paper.name,
                              *conditions(study.paper, settings, captures)])  # fmt: skip
        content = reproduction_page.render(study, evidence, reasons, command)
        with disk_may_be_full(output, simulation.store):
            page.temporary.write_text(content, encoding="utf-8")
            page.commit()
    typer.echo(f"page: {output}")
    for why in dict.fromkeys(evidence.failures):
        say(why)
    if evidence.failures:
        raise typer.Exit(1)
