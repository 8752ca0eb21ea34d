"""`entresol timeline`: a stretch of a run, for Perfetto."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entresol import foreign_traces, quantity, study, units
from entresol.atomic import OutputFile
from entresol.choices import Dependencies
from entresol.cli.options import (
    ConfigOption,
    DependenciesOption,
    DesignName,
    FidelityOption,
    FormatOption,
    MachineOption,
    NandOption,
    SetOption,
    SlowdownOption,
    ThreadsOption,
    TraceArgument,
)
from entresol.errors import UserError
from entresol.inspection import recording, timeline


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("timeline")(timeline_command)


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
    wanted = recording.one(
        trace, design, setup, threads, foreign_traces.reading(format, dependencies, slowdown)
    )
    first = units.picoseconds_of(start, "--from")
    span = (first, first + units.picoseconds_of(length, "--for"))
    if span[0] == span[1]:
        raise UserError(f"--for {length}: is no length; write one such as 200us.")
    with OutputFile(output) as file:
        recorded = recording.record(wanted, span, 0)
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
        typer.echo(
            f"left out beyond {recording.RECORDS:,} of a kind: {recorded['dropped']}", err=True
        )
