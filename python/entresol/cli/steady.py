"""`entresol steady`: windows that begin where device and host placement are steady."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from entresol import quantity, result_files, steady, study, summary, terminal
from entresol.atomic import OutputDirectory
from entresol.cli.options import (
    MOST,
    AuditOption,
    ConfigOption,
    DesignOption,
    FidelityOption,
    JobsOption,
    JsonOption,
    MachineOption,
    NandOption,
    OutputOption,
    SetOption,
    StoreOption,
    ThreadsOption,
    TracesArgument,
)
from entresol.core import Json
from entresol.errors import Stopped
from entresol.execution.executor import Outcome
from entresol.execution.point import Point
from entresol.steadiness import PARTS
from entresol.store.location import store_directory
from entresol.store.result_store import Store

SAMPLED = ("skybyte-ct", "skybyte-wct")
"""Designs of `all` that are left out: their operating system samples pages in time."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("steady")(steady_command)


def steady_command(
    traces: TracesArgument,
    design: DesignOption = None,
    windows: Annotated[
        int,
        typer.Option("--windows", metavar="N", min=0, max=512, help="Windows; 0: the marks alone."),
    ] = 10,
    window: Annotated[
        int, typer.Option("--window", metavar="N", min=1, help="Instructions of a window.")
    ] = 1_000_000,
    lead: Annotated[
        int | None,
        typer.Option(
            "--lead",
            metavar="N",
            min=0,
            help="Instructions in detail before each, not measured; half a window if left out.",
        ),
    ] = None,
    begin: Annotated[
        float | None,
        typer.Option(
            "--from",
            metavar="PERCENT",
            min=0,
            max=99,
            help="Where windows begin; where all designs are steady if left out.",
        ),
    ] = None,
    shift: Annotated[
        float,
        typer.Option(
            "--shift", metavar="PERCENT", min=0, max=99, help="Windows later by so much of a step."
        ),
    ] = 0.0,
    first_seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=1, help="The first seed of random streams.")
    ] = 1,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, max=MOST, help="Seeds, averaged.")
    ] = 1,
    placements: Annotated[
        int,
        typer.Option(
            "--placements", metavar="N", min=1, max=MOST, help="Placements of pages on dies."
        ),
    ] = 1,
    machine: MachineOption = "table2",
    threads: ThreadsOption = None,
    overrides: SetOption = None,
    config: ConfigOption = None,
    nand: NandOption = None,
    fidelity: FidelityOption = "paper",
    jobs: JobsOption = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
    audit: AuditOption = False,
    store: StoreOption = None,
) -> None:
    """Bring designs to their steady state; measure windows there, with what each design owes.

    A capture passes once through the caches of the cores; what misses them is kept in the store.
    Each design's firmware and host placement live through it without time. With -o: steady.json.
    """
    setup = study.setup_of(machine, nand, config, overrides, fidelity)
    study.check_varied(setup)
    wanted = study.study_of(traces, design, setup, threads, audit)
    if design is None or "all" in design:
        chosen = tuple(name for name in wanted.designs if name not in SAMPLED)
        left_out = ", ".join(name for name in wanted.designs if name in SAMPLED)
        if left_out:
            terminal.say(f"left out: {left_out}, whose operating system samples pages in time")
        wanted = study.Study(wanted.captures, chosen, setup, threads, audit)
    seed_numbers = tuple(range(first_seed, first_seed + seeds))
    study.check_seeds(wanted, seed_numbers)
    study.say_unread(wanted, terminal.say)
    plan = steady.Plan(
        windows,
        window,
        window // 2 if lead is None else lead,
        round(shift * 10),
        seed_numbers,
        tuple(range(placements)),
        None if begin is None else round(begin * PARTS / 100),
    )

    def execute(points: Sequence[Point]) -> list[Outcome]:
        return terminal.execute(points, terminal.name_of, None, jobs)

    kept = store_directory(store)
    try:
        with (
            nullcontext() if output is None else OutputDirectory(output) as directory,
            Store(kept).in_use(),
        ):
            result = steady.run(wanted, plan, kept, execute, terminal.say)
            if directory is not None:
                result_files.write_steady(directory, result)
    except KeyboardInterrupt:
        raise Stopped(
            "interrupted; what is in the store stays, and the same command goes on from there."
        ) from None
    if as_json:
        sys.stdout.write(summary.to_text(result))
        return
    _print(result)
    if output is not None:
        typer.echo(f"steady: {output / 'steady.json'}")


def _print(result: Json) -> None:
    console = terminal.wide_console()
    for part in result["traces"]:
        if part["estimates"]:
            terminal.print_table(console, _times(part, result["provenance"]))
        terminal.print_table(console, _marks(part))
        for row in part["estimates"]:
            if row["owes_to"]:
                others = ", ".join(row["owes_to"])
                text = f"  {row['design']}: faster than {others} only as long as it owes more"
                console.print(Text(text, style="yellow"))
        for sentence in part["missing"]:
            console.print(Text(f"  {sentence}", style="yellow"))


def _table(caption: str, names: Sequence[str]) -> Table:
    table = Table(title=caption, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("design", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    return table


def _times(part: Json, provenance: Json) -> Table:
    caption = f"{part['trace']}: {provenance['windows']} windows of "
    caption += f"{quantity.count(provenance['window_instructions'])} instructions; "
    caption += "in brackets what 95 of 100 repetitions at other places give"
    reference = part["estimates"][0]["reference"]
    table = _table(
        caption,
        (
            f"time ÷ {reference}",
            "debts paid",
            "AMAT, all",
            "programs / M instr.",
            "owed before",
            "after",
            "to pay after",
            "marked",
        ),
    )
    for row in part["estimates"]:
        debt = row["debt"]
        owed = [a + b for a, b in zip(debt["device_bytes"], debt["host_bytes"], strict=True)]
        table.add_row(
            row["design"],
            _interval(row["ratio_micro"], row["ratio_low_micro"], row["ratio_high_micro"]),
            quantity.micro(row["paid_ratio_micro"]),
            quantity.duration(row["amat_all_ps"]),
            quantity.milli(row["program_pages_per_million_milli"]),
            quantity.size(owed[0]),
            quantity.size(owed[1]),
            f"{quantity.exact(debt['program_pages'][1])} pages, "
            f"{quantity.duration(debt['pay_ps'][1])}",
            "owes" if row["is_marked"] else "",
        )
    return table


def _marks(part: Json) -> Table:
    share = quantity.percent(part["begin_part"] / PARTS)
    table = _table(
        f"{part['trace']}: how steady, where windows begin ({share} of the program)",
        (
            "turnovers of the cache",
            "fills of log halves",
            "erases a die",
            "promotions : demotions",
            "touched ÷ device DRAM",
            "first touches ÷ fetches",
            "steady",
        ),
    )
    for row in part["marks"]:
        both = f"{row['promotions']:,} : {row['demotions']:,}"
        table.add_row(
            row["design"],
            _mark(row["turnovers"]),
            _mark(row["half_fills"]),
            _mark(row["die_erases"]),
            both + ("" if row["is_balanced"] else " !"),
            quantity.milli(row["touched_milli"]),
            quantity.milli(row["first_touches_milli"]),
            "yes" if row["is_steady"] else "no",
        )
    return table


def _mark(mark: Json | None) -> str:
    if mark is None:
        return quantity.NOTHING
    text = quantity.milli(mark["reached_milli"])
    return text if mark["reached_milli"] >= mark["wanted_milli"] else f"{text} !"


def _interval(value: int, low: int | None, high: int | None) -> str:
    ends = (None if end is None else end / 1e6 for end in (low, high))
    return quantity.between(value / 1e6, *ends)
