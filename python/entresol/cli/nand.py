"""`entresol nand`: the flash alone. Measure it, and make one of a drive's latencies."""

from __future__ import annotations

import statistics
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from entresol import core, nand_logs, quantity, study
from entresol.atomic import OutputFile
from entresol.cli import complete
from entresol.cli.options import ConfigOption, JsonOption, SetOption
from entresol.core import Json
from entresol.errors import UserError
from entresol.summary import to_text
from entresol.terminal import print_table, wide_console

app = typer.Typer(help="The flash alone.", rich_markup_mode=None)


class Operation(StrEnum):
    """What a die is asked to do."""

    READ = "read"
    PROGRAM = "program"
    ERASE = "erase"


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    parent.add_typer(app, name="nand")


@app.callback()
def _nand() -> None:
    """The flash alone."""


@app.command("measure")
def measure(
    nand: Annotated[
        str | None,
        typer.Argument(
            metavar="[TYPE]",
            help="A NAND type; the machine's if left out.",
            autocompletion=complete.nand_types,
        ),
    ] = None,
    depths: Annotated[
        list[int] | None,
        typer.Option(
            "--depth", metavar="N", min=1, max=4096, help="In flight; 1 and 8; repeatable."
        ),
    ] = None,
    operations: Annotated[
        list[Operation] | None,
        typer.Option("--operation", help="read, program or erase; the first two; repeatable."),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", metavar="N", min=2, max=10_000_000, help="Commands.")
    ] = 50_000,
    overrides: SetOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what commands of the flash take with so many in flight, each at its die and in all.

    A command is submitted when another one is done, as fio's with a queue depth. Reads go to random
    places, programs round the dies.
    """
    files = tuple(study.read_config_files(config or ()))
    rows: list[Json] = []
    for operation in operations or (Operation.READ, Operation.PROGRAM):
        for depth in depths or (1, 8):
            times = core.nand_measure(
                nand, operation.value, depth, count, files, tuple(overrides or ())
            )
            served = sorted(times["served_ps"])
            rows.append({
                "operation": operation.value,
                "depth": depth,
                "count": count,
                "mean_ps": round(statistics.fmean(served)),
                "sd_ps": round(statistics.pstdev(served)),
                "p50_ps": served[len(served) // 2],
                "p99_ps": served[len(served) * 99 // 100],
                "p999_ps": served[len(served) * 999 // 1000],
                "most_ps": served[-1],
                "whole_mean_ps": round(statistics.fmean(times["whole_ps"])),
                "whole_sd_ps": round(statistics.pstdev(times["whole_ps"])),
            })  # fmt: skip
    if as_json:
        sys.stdout.write(to_text(rows))
        return
    print_table(wide_console(), _table(rows))


TITLES = {
    "mean": "mean", "sd": "sd", "p50": "p50", "p99": "p99", "p999": "p99.9", "most": "most",
    "whole_mean": "with its wait: mean", "whole_sd": "sd",
}  # fmt: skip


def _table(rows: list[Json]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("operation", no_wrap=True)
    table.add_column("depth", justify="right", no_wrap=True)
    for title in TITLES.values():
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        times = (quantity.duration(row[f"{name}_ps"]) for name in TITLES)
        table.add_row(row["operation"], str(row["depth"]), *times)
    return table


@app.command("fit")
def fit(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG[:DEPTH]…",
            help="Logs of fio's write_lat_log, each with its queue depth; 1 if left out.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.toml", help="The preset.")
    ],
    overhead: Annotated[
        int,
        typer.Option(
            "--overhead", metavar="NS", min=0, max=10_000_000,
            help="What host and controller take of each request, which is no flash's.",
        ),
    ] = 0,
) -> None:  # fmt: skip
    """Make a NAND preset of a drive's latencies, for --config of other commands.

    Reads and writes of a log become tables of nand.empirical; a direction of fewer than 100
    requests says nothing. What a drive's cache answers is what it takes to answer, not to program.
    """
    if output.suffix != ".toml":
        raise UserError(f"{output}: a preset is a .toml.")
    text = nand_logs.preset([nand_logs.of_word(word) for word in logs], overhead)
    with OutputFile(output) as file:
        file.temporary.write_text(text, encoding="utf-8")
        file.commit()
    typer.echo(f"preset: {output}; use it as --config {output}")
