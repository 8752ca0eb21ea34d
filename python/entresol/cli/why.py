"""`entresol why`: where the nanoseconds of one slow load went."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from entresol import foreign_traces, quantity, study, summary, terminal
from entresol.choices import Dependencies
from entresol.cli.options import (
    MOST,
    ConfigOption,
    DependenciesOption,
    DesignName,
    FidelityOption,
    FormatOption,
    JsonOption,
    MachineOption,
    NandOption,
    SetOption,
    SlowdownOption,
    ThreadsOption,
    TraceArgument,
)
from entresol.errors import UserError
from entresol.inspection import recording, slow_load


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("why")(why_command)


def why_command(
    trace: TraceArgument,
    rank: Annotated[
        int, typer.Option("--rank", metavar="N", min=1, max=MOST, help="1 is the slowest load.")
    ] = 1,
    design: DesignName = "skybyte-full",
    machine: MachineOption = "table2",
    threads: ThreadsOption = None,
    overrides: SetOption = None,
    config: ConfigOption = None,
    nand: NandOption = None,
    fidelity: FidelityOption = "paper",
    as_json: JsonOption = False,
    format: FormatOption = None,
    dependencies: DependenciesOption = Dependencies.NONE,
    slowdown: SlowdownOption = foreign_traces.DEFAULT_SLOWDOWN,
) -> None:
    """Say of one of the slowest loads from the device where its nanoseconds went.

    The run is made twice: once to find the load, once to record what happened around it. What the
    run could not show is said first.
    """
    setup = study.setup_of(machine, nand, config, overrides, fidelity)
    wanted = recording.one(
        trace, design, setup, threads, foreign_traces.reading(format, dependencies, slowdown)
    )
    slowest = recording.record(wanted, (0, 0), rank)["slowest"]
    if len(slowest) < rank:
        raise UserError(
            f"{wanted.captures[-1].name} on {design}: only {len(slowest)} reads came from the "
            f"device, so none has rank {rank}."
        )
    access = slowest[-1]
    recorded = recording.record(wanted, (access["first_ps"], access["done_ps"]), 0)
    told = slow_load.tell(access, recorded)
    warnings = summary.warnings(setup, wanted.designs[0], recorded["warnings"])
    if as_json:
        sys.stdout.write(summary.to_text(slow_load.as_json(told, warnings)))
    else:
        _print(told, rank, warnings)


def _print(told: slow_load.Story, rank: int, warnings: Sequence[str]) -> None:
    console = terminal.wide_console()
    console.print(f"slowest load no. {rank}: {told.headline}", highlight=False)
    for warning in warnings:
        terminal.print_warning(console, warning)
    table = Table(pad_edge=False)
    table.add_column("where", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("")
    for part in told.parts:
        share = part.time_ps / (told.latency_ps or 1)
        note = part.note if part.time_ps else ""
        table.add_row(part.name, quantity.duration(part.time_ps), quantity.percent(share), note)
    terminal.print_table(console, table)
    if told.operations:
        terminal.print_table(console, _die(told))


def _die(told: slow_load.Story) -> Table:
    title = f"die {told.access['die']} from the first issue to data"
    table = Table(title=title, title_justify="left", pad_edge=False)
    for name in ("operation", "waited", "started", "took"):
        table.add_column(name, justify="left" if name == "operation" else "right")
    shown = told.operations if len(told.operations) <= 20 else told.operations[-20:]
    if len(shown) < len(told.operations):
        table.add_row(f"({len(told.operations) - len(shown)} earlier ones)")
    for operation in shown:
        since = operation["started_ps"] - told.access["first_ps"]
        sign = "-" if since < 0 else "+"
        table.add_row(
            operation["kind"],
            quantity.duration(operation["started_ps"] - operation["submitted_ps"]),
            f"{sign}{quantity.duration(abs(since))}",
            quantity.duration(operation["finished_ps"] - operation["started_ps"]),
        )
    return table
