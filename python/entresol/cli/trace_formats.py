"""`entresol trace formats|import|export|convert`: traces of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entresol import core, foreign_traces
from entresol.atomic import OutputFile
from entresol.choices import Dependencies
from entresol.cli import listings
from entresol.cli.options import DependenciesOption, FormatOption, SlowdownOption
from entresol.core import ForeignPart
from entresol.errors import UserError

SkipOption = Annotated[
    str, typer.Option("--skip", metavar="N|P%", help="Leave out the start of each thread.")
]
LimitOption = Annotated[
    str | None, typer.Option("--limit", metavar="N|P%", help="Write so much of each thread.")
]
ThreadOption = Annotated[
    int | None,
    typer.Option("--thread", metavar="N", min=0, help="The thread, for formats that hold one."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands to `entresol trace`."""
    app.command("formats")(formats_command)
    app.command("import")(import_command)
    app.command("export")(export_command)
    app.command("convert")(convert_command)


def formats_command() -> None:
    """List the formats of traces: what can be read, written, and told by its content."""
    listings.formats(foreign_traces.formats())


def import_command(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A file or directory.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT.etr")],
    format: FormatOption = None,
    dependencies: DependenciesOption = Dependencies.NONE,
    slowdown: SlowdownOption = foreign_traces.DEFAULT_SLOWDOWN,
    warm_with: Annotated[
        Path | None,
        typer.Option(
            "--warm-with",
            metavar="DIR",
            help="Accesses (pinatrace.out.N) that come before a MacSim trace and only warm.",
        ),
    ] = None,
) -> None:
    """Make a capture from another tool's trace; say what had to be assumed."""
    if output.suffix != ".etr":
        raise UserError(f"{output}: the name of a capture ends in .etr.")
    how = foreign_traces.reading(format, dependencies, slowdown)
    if foreign_traces.format_of(source, how) == foreign_traces.OURS:
        raise UserError(f"{source}: is a capture already; there is nothing to import.")
    with OutputFile(output) as file:
        foreign_traces.make_capture(source, file.temporary, how, warm_with)
        info = core.trace_info(file.temporary)
        file.commit()
    listings.trace_info(output, info)


def export_command(
    trace: Annotated[Path, typer.Argument(metavar="TRACE")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DESTINATION")],
    format: Annotated[str, typer.Option("--format", metavar="NAME", help="What to write.")],
    skip: SkipOption = "0",
    limit: LimitOption = None,
    thread: ThreadOption = None,
    slowdown: SlowdownOption = foreign_traces.DEFAULT_SLOWDOWN,
) -> None:
    """Write a capture in another tool's format; say what it cannot hold."""
    _export(trace, output, format, ForeignPart(skip, limit, thread, round(slowdown * 1000)))


def convert_command(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A file or directory.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DESTINATION")],
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="What to write.")],
    format: FormatOption = None,
    dependencies: DependenciesOption = Dependencies.NONE,
    skip: SkipOption = "0",
    limit: LimitOption = None,
    thread: ThreadOption = None,
    slowdown: SlowdownOption = foreign_traces.DEFAULT_SLOWDOWN,
) -> None:
    """Turn one tool's trace into another's."""
    foreign_traces.check_format(to, imports=False)
    capture = foreign_traces.as_capture(
        source, foreign_traces.reading(format, dependencies, slowdown)
    )
    _export(capture, output, to, ForeignPart(skip, limit, thread, round(slowdown * 1000)))


def _export(trace: Path, output: Path, format: str, part: ForeignPart) -> None:
    for note in foreign_traces.export(trace, output, format, part):
        typer.echo(f"note: {note}")
    typer.echo(f"{format}: {output}")
