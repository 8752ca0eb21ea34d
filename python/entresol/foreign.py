"""Traces of other tools: `entresol trace import|export|convert`, and captures made on the way.

A command that takes a capture takes a foreign trace as well. It is converted into a directory of
the run's own, which goes with the process.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from entresol import columns, core
from entresol.core import ForeignPart, ForeignReading
from entresol.errors import UserError, did_you_mean
from entresol.output import OutputFile

OURS = "etr"
TABLE = "csv"
PARQUET = "parquet"

FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="Format of foreign traces whose content does not tell it."
    ),
]
DependenciesOption = Annotated[
    str,
    typer.Option(
        "--dependencies",
        metavar="none|chain",
        help="Of sources without registers: independent accesses, or each waits for the last load.",
    ),
]
SlowdownOption = Annotated[
    float,
    typer.Option(
        "--slowdown",
        metavar="X",
        min=0.001,
        max=1e6,
        help="By how much the recording tool slowed the program, where a trace has times.",
    ),
]
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
DEFAULT_SLOWDOWN = core.SLOWDOWN_MILLI / 1000


def reading(
    format: str | None, dependencies: str = "none", slowdown: float = DEFAULT_SLOWDOWN
) -> ForeignReading:
    """What the options of a command say. Raises `UserError` for a word that is none of theirs."""
    if format is not None:
        _known(format, imports=True)
    if dependencies not in ("none", "chain"):
        raise UserError(f"--dependencies is none or chain, not {dependencies}.")
    return ForeignReading(format, dependencies, round(slowdown * 1000))


def words(how: ForeignReading) -> list[str]:
    """The options that repeat a reading; none where it is the default."""
    default = ForeignReading()
    said = [] if how.format is None else ["--format", how.format]
    if how.dependencies != default.dependencies:
        said += ["--dependencies", how.dependencies]
    if how.slowdown_milli != default.slowdown_milli:
        said += ["--slowdown", f"{how.slowdown_milli / 1000:g}"]
    return said


def as_capture(path: Path, how: ForeignReading) -> Path:
    """A capture for `path`: itself, or one made from the foreign trace it is."""
    if _format(path, how) == OURS:
        return path
    made = Path(tempfile.mkdtemp(dir=_workspace())) / f"{path.stem or path.name}.etr"
    _import(path, made, how)
    return made


def formats() -> list[core.TraceFormat]:
    """All formats: those of the core, and Parquet, whose columns the core gets as text."""
    summary = f"the columns of {TABLE} in a Parquet file"
    return [*core.trace_formats(), core.TraceFormat(PARQUET, summary, True, True, True)]


def _format(path: Path, how: ForeignReading) -> str:
    if path.exists() and columns.is_parquet(path):
        if how.format in (None, PARQUET):
            return PARQUET
    elif how.format == PARQUET:
        raise UserError(f"{path}: is not a Parquet file.")
    return core.trace_format(path, how.format)


def _import(path: Path, destination: Path, how: ForeignReading) -> None:
    if _format(path, how) != PARQUET:
        core.trace_import(path, destination, how)
        return
    # The same name, so that the capture says where it comes from.
    with tempfile.TemporaryDirectory(dir=_workspace()) as folder:
        text = Path(folder) / path.name
        columns.write_text(path, text, columns.ACCESSES)
        try:
            core.trace_import(text, destination, replace(how, format=TABLE))
        except core.TraceError as error:
            raise UserError(str(error).replace(str(text), str(path))) from error


@cache
def _workspace() -> str:
    directory = tempfile.mkdtemp(prefix="entresol-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _known(name: str, *, imports: bool) -> None:
    fit = [format.name for format in formats() if (format.imports if imports else format.exports)]
    if name not in fit and not (imports and name == OURS):
        verb = "read" if imports else "written"
        hint = did_you_mean(name, fit) or f" Choose from {', '.join(fit)}."
        raise UserError(f"no format {name} can be {verb}.{hint}")


def register(app: typer.Typer) -> None:
    """Adds the commands to `entresol trace`."""
    app.command("formats")(formats_command)
    app.command("import")(import_command)
    app.command("export")(export_command)
    app.command("convert")(convert_command)


def formats_command() -> None:
    """List the formats of traces: what can be read, written, and told by its content."""
    from entresol import show  # which draws on studies, and they on this module

    show.formats(formats())


def import_command(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A file or directory.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT.etr")],
    format: FormatOption = None,
    dependencies: DependenciesOption = "none",
    slowdown: SlowdownOption = DEFAULT_SLOWDOWN,
) -> None:
    """Make a capture from another tool's trace; say what had to be assumed."""
    if output.suffix != ".etr":
        raise UserError(f"{output}: the name of a capture ends in .etr.")
    how = reading(format, dependencies, slowdown)
    if _format(source, how) == OURS:
        raise UserError(f"{source}: is a capture already; there is nothing to import.")
    with OutputFile(output) as file:
        _import(source, file.temporary, how)
        info = core.trace_info(file.temporary)
        file.commit()
    from entresol import show  # as above

    show.trace_info(output, info)


def export_command(
    trace: Annotated[Path, typer.Argument(metavar="TRACE")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DESTINATION")],
    format: Annotated[str, typer.Option("--format", metavar="NAME", help="What to write.")],
    skip: SkipOption = "0",
    limit: LimitOption = None,
    thread: ThreadOption = None,
    slowdown: SlowdownOption = DEFAULT_SLOWDOWN,
) -> None:
    """Write a capture in another tool's format; say what it cannot hold."""
    _export(trace, output, format, ForeignPart(skip, limit, thread, round(slowdown * 1000)))


def convert_command(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A file or directory.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DESTINATION")],
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="What to write.")],
    format: FormatOption = None,
    dependencies: DependenciesOption = "none",
    skip: SkipOption = "0",
    limit: LimitOption = None,
    thread: ThreadOption = None,
    slowdown: SlowdownOption = DEFAULT_SLOWDOWN,
) -> None:
    """Turn one tool's trace into another's."""
    _known(to, imports=False)
    capture = as_capture(source, reading(format, dependencies, slowdown))
    _export(capture, output, to, ForeignPart(skip, limit, thread, round(slowdown * 1000)))


def _export(trace: Path, output: Path, format: str, part: ForeignPart) -> None:
    _known(format, imports=False)
    if not output.absolute().parent.is_dir():
        raise UserError(f"{output.parent}: no such directory.")
    if format == PARQUET:
        notes = _export_parquet(trace, output, part)
    else:
        notes = core.trace_export(trace, format, output, part)
    for note in notes:
        typer.echo(f"note: {note}")
    typer.echo(f"{format}: {output}")


def _export_parquet(trace: Path, output: Path, part: ForeignPart) -> list[str]:
    with OutputFile(output) as file, tempfile.TemporaryDirectory(dir=_workspace()) as folder:
        text = Path(folder) / "accesses.csv"
        notes = core.trace_export(trace, TABLE, text, part)
        columns.write_parquet(text, file.temporary)
        file.commit()
    return notes
