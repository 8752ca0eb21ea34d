"""Traces of other tools: captures made from them, on the way or to keep, and the reverse.

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

from entresol import core, parquet_text
from entresol.atomic import OutputFile
from entresol.choices import Dependencies
from entresol.core import ForeignPart, ForeignReading
from entresol.errors import UserError, did_you_mean
from entresol.interruption import interruptible

OURS = "etr"
TABLE = "csv"
PARQUET = "parquet"
MACSIM = "macsim"
DEFAULT_SLOWDOWN = core.SLOWDOWN_MILLI / 1000


def reading(
    format: str | None,
    dependencies: Dependencies = Dependencies.NONE,
    slowdown: float = DEFAULT_SLOWDOWN,
) -> ForeignReading:
    """What the options of a command say. Raises `UserError` for a word that is none of theirs."""
    if format is not None:
        check_format(format, imports=True)
    milli = round(slowdown * 1000)
    if abs(slowdown * 1000 - milli) > 1e-6:
        raise UserError(
            f"--slowdown {slowdown:g}: has more than three decimals; leave out the rest."
        )
    return ForeignReading(format, dependencies, milli)


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
    if format_of(path, how) == OURS:
        return path
    made = Path(tempfile.mkdtemp(dir=_workspace())) / f"{path.stem or path.name}.etr"
    make_capture(path, made, how)
    return made


def formats() -> list[core.TraceFormat]:
    """All formats: those of the core, and Parquet, whose columns the core gets as text."""
    summary = f"the columns of {TABLE} in a Parquet file"
    return [*core.trace_formats(), core.TraceFormat(PARQUET, summary, True, True, True)]


def format_of(path: Path, how: ForeignReading) -> str:
    """The format of a trace, named or told by its content. Raises `UserError` or `TraceError`."""
    _check_exists(path)
    if parquet_text.is_parquet(path):
        if how.format in (None, PARQUET):
            return PARQUET
    elif how.format == PARQUET:
        raise UserError(f"{path}: is not a Parquet file.")
    return core.trace_format(path, how.format)


def make_capture(
    path: Path, destination: Path, how: ForeignReading, warms: Path | None = None
) -> None:
    """Makes a capture from a foreign trace. Raises `UserError` or `TraceError`.

    `warms` are accesses (pinatrace) that come before a MacSim trace.
    """
    format = format_of(path, how)
    if warms is not None:
        _check_exists(warms)
        if format != MACSIM:
            raise UserError(
                f"{path}: is in format {format}, and --warm-with is for {MACSIM}; leave it out."
            )
    if format != PARQUET:
        interruptible(lambda: core.trace_import(path, destination, how, warms))
        return
    # The same name, so that the capture says where it comes from.
    with tempfile.TemporaryDirectory(dir=_workspace()) as folder:
        text = Path(folder) / path.name
        parquet_text.write_text(path, text, parquet_text.ACCESSES)
        as_text = replace(how, format=TABLE)
        try:
            interruptible(lambda: core.trace_import(text, destination, as_text))
        except core.TraceError as error:
            raise UserError(str(error).replace(str(text), str(path))) from error


@cache
def _workspace() -> str:
    directory = tempfile.mkdtemp(prefix="entresol-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def check_format(name: str, *, imports: bool) -> None:
    """Raises `UserError` for a format that cannot be read, or cannot be written."""
    fit = [format.name for format in formats() if (format.imports if imports else format.exports)]
    if name not in fit and not (imports and name == OURS):
        verb = "read" if imports else "written"
        hint = did_you_mean(name, fit) or f" Choose from {', '.join(fit)}."
        raise UserError(f"no format {name} can be {verb}.{hint}")


def export(trace: Path, output: Path, format: str, part: ForeignPart) -> list[str]:
    """Writes a capture in another format; what was left out. Raises `UserError` or `TraceError`."""
    check_format(format, imports=False)
    _check_exists(trace)
    with OutputFile(output) as file:
        # The name that the format's ending is read from, and that messages begin with.
        temporary = file.temporary.with_name(output.name)
        file.temporary = temporary
        try:
            write = _export_parquet if format == PARQUET else core.trace_export
            notes = interruptible(lambda: write(trace, format, temporary, part))
        except core.TraceError as error:
            raise UserError(str(error).replace(str(temporary), str(output))) from error
        file.commit()
    return notes


def _export_parquet(trace: Path, _format: str, output: Path, part: ForeignPart) -> list[str]:
    with tempfile.TemporaryDirectory(dir=_workspace()) as folder:
        text = Path(folder) / "accesses.csv"
        notes = core.trace_export(trace, TABLE, text, part)
        parquet_text.write_parquet(text, output)
    return notes


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise UserError(f"{path}: no such file or directory.")
