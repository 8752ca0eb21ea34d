"""The command `entresol explain-gain`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from typing import Annotated

import typer
from rich.table import Table

from entresol import foreign_traces, quantity, result_files, study, summary, terminal
from entresol.atomic import OutputDirectory
from entresol.choices import Dependencies, Mode, Shared
from entresol.cli.options import (
    MOST,
    ConfigOption,
    DependenciesOption,
    DesignName,
    FormatOption,
    JobsOption,
    JsonOption,
    MachineOption,
    ModeOption,
    NandOption,
    NoStoreOption,
    OutputOption,
    SetOption,
    SlowdownOption,
    StoreOption,
    ThreadsOption,
)
from entresol.derived import BASE
from entresol.errors import UserError
from entresol.gain import configurations
from entresol.report import gain_page
from entresol.result_types import Gain
from entresol.store import location
from entresol.store.result_store import Store


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("explain-gain")(explain_gain)


def explain_gain(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="A capture or foreign trace.")],
    design: DesignName = "skybyte-full",
    by: Annotated[
        Shared, typer.Option("--by", help="What the gain is shared among.")
    ] = Shared.SWITCHES,
    switches: Annotated[
        list[str] | None,
        typer.Option(
            "--switch",
            metavar="NAME",
            help="Only these switches; repeatable. artifact,-NAME: all but one.",
        ),
    ] = None,
    orders: Annotated[
        int,
        typer.Option(
            "--orders", metavar="N", min=1, max=MOST, help="Pairs of random orders to sample."
        ),
    ] = 2,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the orders.")] = 1,
    machine: MachineOption = "table2",
    threads: ThreadsOption = None,
    overrides: SetOption = None,
    config: ConfigOption = None,
    nand: NandOption = None,
    mode: ModeOption = Mode.DETAILED,
    jobs: JobsOption = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
    no_store: NoStoreOption = False,
    format: FormatOption = None,
    dependencies: DependenciesOption = Dependencies.NONE,
    slowdown: SlowdownOption = foreign_traces.DEFAULT_SLOWDOWN,
) -> None:
    """Share out a design's speedup over Base-CSSD among modelling decisions or mechanisms.

    Each choice is turned on first and last, and in random orders (Shapley). With -o: gain.json and
    gain.html with the waterfall.
    """
    if by is Shared.MECHANISMS and switches:
        raise UserError("--switch belongs to --by switches; leave one of them out.")
    setup = study.setup_of(machine, nand, config, overrides, "paper", mode)
    reading = foreign_traces.reading(format, dependencies, slowdown)
    wanted = study.study_of([trace], [design], setup, threads, False, reading)
    question = _question(wanted, by, switches or [])
    question = replace(question, reading=tuple(foreign_traces.words(reading)))
    kept = None if no_store else Store(location.store_directory(store))
    with nullcontext() if output is None else OutputDirectory(output) as directory:
        result = _simulate(question, orders, seed, kept, jobs)
        if directory is not None:
            result_files.write_gain(directory, result)
    if as_json:
        sys.stdout.write(summary.to_text(result))
        return
    _print(result)
    if output is not None:
        typer.echo(f"report: {output / 'gain.html'}")


def _question(wanted: study.Study, by: Shared, names: list[str]) -> configurations.Question:
    if len(wanted.designs) != 1 or len(wanted.captures) != 1:
        raise UserError("explain-gain takes one capture and one design.")
    (capture,), (design,) = wanted.captures, wanted.designs
    if design == BASE:
        raise UserError(f"a gain is over {BASE}; name another design.")
    if by is Shared.MECHANISMS:
        return configurations.mechanisms(capture, design, wanted)
    return configurations.switches(capture, design, wanted, names)


def _simulate(
    question: configurations.Question, orders: int, seed: int, kept: Store | None, jobs: int | None
) -> Gain:
    plan = configurations.plan(question, orders, seed)
    labels = {id(point): plan.labels[key] for key, point in plan.points.items()}
    points = list(plan.points.values())
    outcomes = terminal.execute(points, lambda point: labels[id(point)], kept, jobs)
    found = dict(zip(plan.points, terminal.results(outcomes), strict=True))
    return configurations.assemble(plan, found, configurations.answer(plan, found))


def _print(result: Gain) -> None:
    console = terminal.wide_console()
    console.print(gain_page.conclusion(result), highlight=False)
    terminal.print_table(console, _table(result))


def _table(result: Gain) -> Table:
    caption = f"{result['trace']}, {result['design']} over {result['reference']}"
    table = Table(title=caption, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column(result["provenance"]["by"], no_wrap=True)
    for name in ("first in", "last in", "Shapley", "95 % interval"):
        table.add_column(name, justify="right")
    for share in gain_page.by_worth(result):
        table.add_row(
            share["name"],
            gain_page.factor(share["first_in_micro"]),
            gain_page.factor(share["last_in_micro"]),
            gain_page.factor(share["shapley_micro"]),
            gain_page.interval(share, result),
        )
    table.add_section()
    without, with_all = gain_page.speedups(result)
    table.add_row("interaction", gain_page.factor(result["interaction_micro"]))
    table.add_row("without", quantity.times(without))
    table.add_row("with all", quantity.times(with_all))
    return table
