"""`entresol trace`: record, info, head, and the commands for other tools' traces."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from entresol import core, foreign_traces, qemu_capture, study, summary
from entresol.cli import listings, trace_formats
from entresol.cli.options import FormatOption, JsonOption
from entresol.errors import UserError

app = typer.Typer(help="Make and look at captures.", rich_markup_mode=None)


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    trace_formats.register(app)
    parent.add_typer(app, name="trace")


@app.command(
    "record", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False}
)
def trace_record(
    command: Annotated[list[str], typer.Argument(metavar="-- CMD…", help="Program to capture.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT.etr")],
    roi: Annotated[
        bool,
        typer.Option("--roi", help="Only between xchg %bx,%bx and xchg %cx,%cx in the program."),
    ] = False,
    skip: Annotated[
        int | None, typer.Option("--skip", metavar="N", min=0, help="Skip N instructions first.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=1, help="Stop the program after N instructions."),
    ] = None,
) -> None:
    """Capture a program with all its threads."""
    info = qemu_capture.record(output, qemu_capture.Window(roi, skip, limit), command)
    listings.trace_info(output, info)


@app.command("info")
def trace_info(
    trace: Annotated[Path, typer.Argument(metavar="TRACE")],
    as_json: JsonOption = False,
    format: FormatOption = None,
) -> None:
    """Say what a capture holds."""
    opened = _single(trace, foreign_traces.reading(format), blocks=True)
    if as_json:
        sys.stdout.write(summary.to_text(opened.info))
    else:
        listings.trace_info(opened.path, opened.info)


@app.command("head")
def trace_head(
    trace: Annotated[Path, typer.Argument(metavar="TRACE")],
    thread: Annotated[int, typer.Option("--thread", metavar="N", min=0)] = 0,
    count: Annotated[int, typer.Option("-n", "--count", metavar="N", min=1)] = 20,
    format: FormatOption = None,
) -> None:
    """Print the first instructions of a thread."""
    opened = _single(trace, foreign_traces.reading(format))
    for line in core.trace_head(opened.path, thread, count):
        typer.echo(line)


def _single(trace: Path, reading: core.ForeignReading, *, blocks: bool = False) -> study.Capture:
    if study.is_co_run(trace):
        raise UserError(f"{trace}: names several captures; look at one at a time.")
    (opened,) = study.open_captures([trace], blocks=blocks, reading=reading)
    return opened
