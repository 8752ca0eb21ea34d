"""`entresol workload`: list, record, table1."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from entresol import core, quantity, units
from entresol.atomic import OutputFile
from entresol.choices import Scale
from entresol.cli import complete
from entresol.cli.options import JobsOption, JsonOption, StoreOption
from entresol.errors import Stopped, UserError
from entresol.summary import to_text
from entresol.terminal import print_table
from entresol.workload import capture_cache, catalogue, table1

app = typer.Typer(help="Run and capture the programs of Table I.", rich_markup_mode=None)

NamesArgument = Annotated[
    list[str],
    typer.Argument(metavar="all|NAME…", help="Programs.", autocompletion=complete.workloads),
]
ThreadsOption = Annotated[
    int, typer.Option("--threads", metavar="N", min=1, max=256, help="In the region of interest.")
]
ScaleOption = Annotated[
    Scale,
    typer.Option("--scale", help="A sixteenth of Table I's data, or all."),
]
FootprintOption = Annotated[
    str | None, typer.Option("--footprint", metavar="SIZE", help="Of all data; as the scale says.")
]
SeedOption = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, help="What data and choices are drawn from.")
]
WorkOption = Annotated[
    int | None,
    typer.Option("--work", metavar="N", min=1, help="In the region; `list` names the unit."),
]


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    parent.add_typer(app, name="workload")


@app.command("list")
def list_command(as_json: JsonOption = False) -> None:
    """List the programs: what they compute, how they check it, size of their data."""
    known = catalogue.programs()
    if as_json:
        sys.stdout.write(to_text([asdict(program) for program in known]))
        return
    table = Table(
        "name", "suite", "data", "what", "checked", "work", box=None, pad_edge=False, padding=(0, 2)
    )
    for program in known:
        work = f"{program.small_work:,} {program.work_unit}"
        size = f"{program.footprint_bytes / 1e9:.2f} GB"
        table.add_row(program.name, program.suite, size, program.what, program.check, work)
    print_table(_console(), table)


@app.command("record")
def record_command(
    names: NamesArgument,
    threads: ThreadsOption = capture_cache.THREADS,
    scale: ScaleOption = Scale.SMALL,
    footprint: FootprintOption = None,
    seed: SeedOption = 1,
    work: WorkOption = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="OUT.etr|DIR", help="A copy, beside the store's."),
    ] = None,
    store: StoreOption = None,
) -> None:
    """Capture programs; a capture that is in the store already is not made again."""
    chosen = catalogue.choose(names)
    targets = _targets(output, [program.name for program in chosen])
    size = None if footprint is None else units.size_of(footprint, "--footprint")
    for program in chosen:
        wanted = capture_cache.Wanted(program.name, threads, scale, size, seed, work)
        started = time.monotonic()
        try:
            recording = capture_cache.record(wanted, store)
        except KeyboardInterrupt:
            if program is chosen[0]:
                raise
            raise Stopped(
                f"interrupted at {program.name}; the captures before it are kept, and the same "
                "command goes on from there."
            ) from None
        took = f"made in {time.monotonic() - started:.1f} s" if recording.made else "in the store"
        instructions = core.trace_info(recording.path, blocks=False)["instructions"]
        path = _copy(recording.path, targets[program.name])
        typer.echo(
            f"{recording.said}\n  {path} ({quantity.count(instructions)} instructions, {took})"
        )


@app.command("table1")
def table1_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME…]", help="Programs; all if left out.")
    ] = None,
    scale: ScaleOption = Scale.PAPER,
    threads: ThreadsOption = capture_cache.THREADS,
    seed: SeedOption = 1,
    work: WorkOption = None,
    store: StoreOption = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set footprint, write ratio and misses of the captures beside Table I of the paper."""
    chosen = catalogue.choose(list(names or []))
    wanted = [
        capture_cache.Wanted(program.name, threads, scale, None, seed, work) for program in chosen
    ]
    rows = table1.rows(wanted, store, _say, jobs)
    if as_json:
        sys.stdout.write(to_text([asdict(row) | {"verdict": row.verdict} for row in rows]))
        return
    print_table(_console(), _table(rows))
    typer.echo(
        "\ndata: of the whole program; touched: pages of the captured section; writes: stores of"
        f"\nall loads and stores; MPKI: L3 misses per 1,000 instructions on {table1.DESIGN}."
        f"\nok: writes within {table1.RATIO_POINTS:g} points, MPKI within a factor "
        f"{table1.MPKI_FACTOR:g}."
    )


def _table(rows: list[table1.Row]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("program")
    for heading in (
        "instr.",
        "data",
        "paper",
        "touched",
        "paper",
        "writes",
        "paper",
        "MPKI",
        "paper",
    ):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for row in rows:
        published = row.published
        table.add_row(
            row.name,
            quantity.count(row.instructions),
            f"{row.footprint / 1e9:.2f} GB",
            f"{published.footprint_gb:.2f} GB",
            f"{row.touched / 2**20:.0f} MiB",
            f"{published.touched_mib:.0f} MiB",
            f"{row.write_percent:.1f} %",
            f"{published.write_percent:.0f} %",
            f"{row.mpki:.1f}",
            f"{published.mpki:.1f}",
            row.verdict,
        )
    return table


def _say(sentence: str) -> None:
    print(f"{sentence} …", file=sys.stderr)


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160)


def _targets(output: Path | None, names: list[str]) -> dict[str, Path | None]:
    """Where a copy of each goes: a file for one, a directory for several."""
    if output is None:
        return dict.fromkeys(names)
    if output.suffix == ".etr" and not output.is_dir():
        if len(names) > 1:
            raise UserError(f"{output}: is one file for {len(names)} captures; give a directory.")
        return {names[0]: output}
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{output}: cannot be made: {error.strerror}.") from error
    return {name: output / f"{name}.etr" for name in names}


def _copy(path: Path, target: Path | None) -> Path:
    if target is None:
        return path
    with OutputFile(target) as file:
        shutil.copyfile(path, file.temporary)
        file.commit()
    return target
