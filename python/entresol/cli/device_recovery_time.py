"""`entresol device recovery-time`: how long recovery takes, against the size of the log."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from entresol import core, quantity, study
from entresol.cli.options import ConfigOption, JsonOption, SetOption
from entresol.core import Json
from entresol.errors import UserError
from entresol.summary import to_text
from entresol.terminal import print_table, wide_console

SIZES = ("16MiB", "64MiB", "256MiB")
PAPER = (
    "ByteFS §5.5, after YCSB, log of 256 MB: 2.7 s to scan log and TxLog and to flush what was\n"
    "committed; 0.9 s to load the DRAM's content, which here stays where it is; 4.2 s in all."
)


def register(app: typer.Typer) -> None:
    """Adds the command to `entresol device`."""
    app.command("recovery-time")(recovery_time)


def recovery_time(
    logs: Annotated[
        list[str] | None,
        typer.Option(
            "--log",
            metavar="SIZE",
            help="Of the write log; 16, 64 and 256MiB if left out; may be repeated.",
        ),
    ] = None,
    lines_per_page: Annotated[
        int,
        typer.Option("--lines-per-page", metavar="N", min=1, max=256, help="Logged, on average."),
    ] = 8,
    both_halves: Annotated[
        bool, typer.Option("--both-halves", help="Fill both halves of the log, not one.")
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option("--in", metavar="DIR", help="For the images, one at a time; they go again."),
    ] = None,
    preset: Annotated[str, typer.Option("--preset", metavar="NAME", help="What the device is.")] = (
        "bytefs"
    ),
    overrides: SetOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill logs of several sizes, cut the power, recover, and say how long that takes.

    Random lines of pages that are on flash are logged until one more would seal a half of the log,
    or with --both-halves the second one, while the compaction of the first has hardly begun.
    """
    files = study.read_config_files(config or ())
    measured: list[Json] = []
    if directory is not None and not directory.is_dir():
        raise UserError(f"--in {directory}: is no directory.")
    with tempfile.TemporaryDirectory(dir=directory, prefix="recovery-time-") as place:
        for log in logs or SIZES:
            image = Path(place) / "image"
            measured.append(
                core.device_recovery_time(
                    image,
                    log,
                    preset,
                    files,
                    tuple(overrides or ()),
                    lines_per_page,
                    both_halves=both_halves,
                )
            )
    if as_json:
        sys.stdout.write(to_text(measured))
        return
    console = wide_console()
    print_table(console, _table(measured))
    console.print()
    console.print(PAPER, highlight=False)


def _table(measured: list[Json]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in (
        "log",
        "lines",
        "scan",
        "flush",
        "together",
        "pages read",
        "programmed",
        "this machine: open",
        "flush",
    ):
        table.add_column(title, justify="right", no_wrap=True)
    for row in measured:
        table.add_row(
            quantity.size(row["log_bytes"]),
            quantity.exact(row["lines"]),
            quantity.duration(row["scan_ps"]),
            quantity.duration(row["flush_ps"]),
            quantity.duration(row["scan_ps"] + row["flush_ps"]),
            quantity.exact(row["read_pages"]),
            quantity.exact(row["programmed_pages"]),
            quantity.duration(row["opening_wall_ps"]),
            quantity.duration(row["flush_wall_ps"]),
        )
    return table
