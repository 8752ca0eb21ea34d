"""The commands `entresol timeline` and `entresol why`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from entresol import core, foreign_traces, quantity, study, summary, terminal, units
from entresol.atomic import OutputFile
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
)
from entresol.errors import UserError
from entresol.execution.point import Point, Recording
from entresol.inspection import slow_load, timeline
from entresol.result_types import Recorded

_RECORDS = 1_000_000
TraceArgument = Annotated[
    str, typer.Argument(metavar="TRACE", help="A capture, a foreign trace, or A.etr+B.etr.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("timeline")(timeline_command)
    app.command("why")(why_command)


def timeline_command(
    trace: TraceArgument,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT.json")],
    start: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Start, from the start of measurement.")
    ] = "0us",
    length: Annotated[str, typer.Option("--for", metavar="TIME", help="Length.")] = "200us",
    design: DesignName = "skybyte-full",
    machine: MachineOption = "table2",
    threads: ThreadsOption = None,
    overrides: SetOption = None,
    config: ConfigOption = None,
    nand: NandOption = None,
    fidelity: FidelityOption = "paper",
    format: FormatOption = None,
    dependencies: DependenciesOption = Dependencies.NONE,
    slowdown: SlowdownOption = foreign_traces.DEFAULT_SLOWDOWN,
) -> None:
    """Write what cores, reads and flash did in a stretch of a run, for Perfetto."""
    setup = study.setup_of(machine, nand, config, overrides, fidelity)
    wanted = _one(
        trace, design, setup, threads, foreign_traces.reading(format, dependencies, slowdown)
    )
    first = units.picoseconds_of(start, "--from")
    span = (first, first + units.picoseconds_of(length, "--for"))
    if span[0] == span[1]:
        raise UserError(f"--for {length}: is no length; write one such as 200us.")
    with OutputFile(output) as file:
        recorded = _record(wanted, span, 0)
        if first >= recorded["execution_time_ps"]:
            end = quantity.duration(recorded["execution_time_ps"])
            raise UserError(f"--from {start}: the run ends after {end}; start before that.")
        title = f"{wanted.captures[-1].name} on {design}"
        file.temporary.write_text(timeline.text(recorded, title), encoding="utf-8")
        file.commit()
    counts = ", ".join(
        f"{quantity.count(number)} {word}"
        for number, word in (
            (len(recorded["turns"]), "turns of threads"),
            (len(recorded["accesses"]), "reads"),
            (len(recorded["flash"]), "flash operations"),
        )
    )
    typer.echo(f"{output}: {counts}; open it at ui.perfetto.dev")
    if any(recorded["dropped"].values()):
        typer.echo(f"left out beyond {_RECORDS:,} of a kind: {recorded['dropped']}", err=True)


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

    The run is made twice: once to find the load, once to record what happened around it.
    """
    setup = study.setup_of(machine, nand, config, overrides, fidelity)
    wanted = _one(
        trace, design, setup, threads, foreign_traces.reading(format, dependencies, slowdown)
    )
    slowest = _record(wanted, (0, 0), rank)["slowest"]
    if len(slowest) < rank:
        raise UserError(
            f"{wanted.captures[-1].name} on {design}: only {len(slowest)} reads came from the "
            f"device, so none has rank {rank}."
        )
    access = slowest[-1]
    recorded = _record(wanted, (access["first_ps"], access["done_ps"]), 0)
    told = slow_load.tell(access, recorded)
    if as_json:
        sys.stdout.write(summary.to_text(slow_load.as_json(told)))
    else:
        _print(told, rank)


def _one(
    trace: str,
    design: str,
    setup: core.Setup,
    threads: int | None,
    reading: core.ForeignReading,
) -> study.Study:
    wanted = study.study_of([trace], [design], setup, threads, False, reading)
    if len(wanted.designs) != 1:
        raise UserError("name one design.")
    return wanted


def _record(wanted: study.Study, span: tuple[int, int], slowest: int) -> Recorded:
    """What happened in a span of picoseconds, and the slowest reads."""
    measure = Recording(*span, _RECORDS, slowest)
    capture, design = wanted.captures[-1], wanted.designs[0]  # A co-run stands behind its parts.
    point = Point(capture, design, wanted.setup, wanted.threads, wanted.audit, measure)
    (outcome,) = terminal.execute([point], terminal.name_of, None)
    assert outcome.recorded is not None, "it has run"
    return outcome.recorded


def _print(told: slow_load.Story, rank: int) -> None:
    console = terminal.wide_console()
    console.print(f"slowest load no. {rank}: {told.headline}", highlight=False)
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
