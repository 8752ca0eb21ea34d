"""`entresol sweep`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from entresol import cost, quantity, result_files, summary, terminal
from entresol.atomic import OutputDirectory
from entresol.cli.options import CostOption, JobsOption, JsonOption, OutputOption, StoreOption
from entresol.errors import Failed
from entresol.execution.executor import Outcome
from entresol.execution.point import Point
from entresol.store import location
from entresol.store.result_store import Store
from entresol.sweeps import grid, plan
from entresol.sweeps import table as sweep_table
from entresol.sweeps.traces import Captures

SHOWN = 40
"""Rows of the table in the terminal; the file has all."""

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE.toml", help="Traces, designs and parameters to vary.")
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="tcp://HOST:PORT", help="A Dask cluster that computes."),
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("sweep")(sweep_command)


def sweep_command(
    file: FileArgument,
    output: OutputOption = None,
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    prices: CostOption = None,
) -> None:
    """Run all points of a grid or a list; write results.parquet, sweep.json and report.html.

    Without -o they go to a directory with the name of the file, or nowhere with --json. What was
    simulated before, by this or another command, is taken from the store: stopped at any instant,
    the same command goes on where it was.
    """
    paid = cost.parse(prices)
    source, grids = grid.read(file)
    planned = plan.plan(source, grids, Captures(source, store))
    destination = output or (None if as_json else Path(file.stem))
    if destination is not None:
        with OutputDirectory(destination):
            pass  # It can be written, so the work is not for nothing.
    outcomes = _execute(planned, Store(location.store_directory(store)), jobs, scheduler)
    if destination is not None:
        with OutputDirectory(destination) as directory:
            words = ["entresol", "sweep", file.name, *(["--cost", prices] if prices else [])]
            result_files.write_sweep(directory, planned, outcomes, shlex.join(words), paid)
    if as_json:
        sys.stdout.write(summary.to_text(sweep_table.assemble(planned, outcomes)))
    else:
        _print(planned, outcomes)
    if destination is not None and not as_json:
        typer.echo(f"results: {destination / 'results.parquet'}")
        typer.echo(f"report: {destination / 'report.html'}")
    _complain(planned, outcomes)


def _execute(
    planned: plan.Sweep, store: Store, jobs: int | None, scheduler: str | None
) -> list[Outcome]:
    labels = planned.labels

    def label(each: Point) -> str:
        return labels[id(each)]

    return terminal.execute(planned.points, label, store, jobs, scheduler, lists=False)


def _complain(planned: plan.Sweep, outcomes: Sequence[Outcome]) -> None:
    wrong = [each for each in zip(planned.rows, outcomes, strict=True) if each[1].error]
    for row, outcome in wrong:
        print(f"entresol: {row.label()}: {outcome.error}", file=sys.stderr)
    if wrong:
        rest = "; the others are done" if len(wrong) < len(outcomes) else ""
        raise Failed(f"{len(wrong)} of {_points(len(outcomes))} failed{rest}.")


def _points(number: int) -> str:
    return f"{number} {'point' if number == 1 else 'points'}"


def _print(planned: plan.Sweep, outcomes: Sequence[Outcome]) -> None:
    varied = [key for key in planned.varied if key not in ("trace", "design")]
    stored = sum(outcome.was_stored for outcome in outcomes)
    caption = f"{_points(len(outcomes))}, {stored} of them from the store"
    table = Table(title=caption, title_justify="left", title_style="bold", pad_edge=False)
    for name in ("trace", "design", *varied):
        table.add_column(name, no_wrap=True)
    for name in ("time", "AMAT, all", "flash programs"):
        table.add_column(name, justify="right")
    for row, outcome in list(zip(planned.rows, outcomes, strict=True))[:SHOWN]:
        values = (row.values[key] for key in varied)
        texts = ["" if value is None else grid.shown(value) for value in values]
        table.add_row(row.point.trace.name, row.point.design, *texts, *_cells(outcome))
    console = terminal.wide_console()
    terminal.print_table(console, table)
    if len(outcomes) > SHOWN:
        console.print(Text(f"  and {len(outcomes) - SHOWN} more in the file", style="dim"))


def _cells(outcome: Outcome) -> list[str]:
    if outcome.result is None:
        return ["failed", "", ""]
    statistics = outcome.result["statistics"]
    return [
        quantity.duration(outcome.result["execution_time_ps"]),
        quantity.duration(statistics["amat"]["all_ps"]),
        quantity.exact(statistics["flash"]["program_pages"]),
    ]
