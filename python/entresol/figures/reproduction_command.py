"""The command `entresol reproduction`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from entresol.atomic import OutputFile
from entresol.choices import Mode
from entresol.cli.options import JobsOption, ModeOption, StoreOption
from entresol.errors import UserError
from entresol.figures import plan, reproduction, simulate
from entresol.figures import published as paper
from entresol.figures.command import (
    CapturesOption,
    ScaleOption,
    SchedulerOption,
    Watcher,
    WorkloadsOption,
    conditions,
    say,
    writing,
)
from entresol.store import location
from entresol.store.result_store import Store


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("reproduction")(reproduction_command)


def reproduction_command(
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
    """Set every number of the SkyByte paper's text beside ours, with the causes of differences."""
    settings = plan.settings(scale, reproduction.PAPER, mode, workloads or [])
    paper.check()
    simulate.reach(scheduler)
    reasons = [cause for cause in reproduction.causes() if cause.scale in (None, scale)]
    kept = location.store_directory(store)
    source = simulate.source_of(captures, settings, kept)
    plans = reproduction.plans(settings, reasons)
    runs = sum(len(wanted.wants) for wanted in plans)
    with OutputFile(output) as page:
        say(f"{len(plans)} sets of conditions, {runs} runs in all; of the first, "
            f"{plans[0].estimate(jobs or len(os.sched_getaffinity(0)))}.")  # fmt: skip
        with Watcher() as watcher:
            simulation = simulate.Simulation(Store(kept), source, jobs, scheduler, watcher.watch,
                                             say)  # fmt: skip
            evidence = reproduction.gather(settings, reasons, simulation)
        if not evidence.paper.runs:
            first = next(iter(evidence.paper.failures.values()), "no run was asked for")
            raise UserError(f"nothing could be simulated: {first}")
        command = shlex.join(["entresol", "reproduction", *conditions(settings, captures)])
        content = reproduction.render(evidence, reasons, command)
        with writing(output, simulation.store):
            page.temporary.write_text(content, encoding="utf-8")
            page.commit()
    typer.echo(f"page: {output}")
    for why in dict.fromkeys(evidence.failures):
        say(why)
    if evidence.failures:
        raise typer.Exit(1)
