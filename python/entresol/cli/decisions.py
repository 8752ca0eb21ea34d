"""`entresol decisions`: what each modelling decision is worth, first in and last in."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.table import Table

from entresol import decisions, foreign_traces, study, summary, terminal
from entresol.choices import Dependencies, Mode
from entresol.cli.options import (
    ConfigOption,
    DependenciesOption,
    FormatOption,
    JobsOption,
    JsonOption,
    MachineOption,
    ModeOption,
    NandOption,
    NoStoreOption,
    SetOption,
    SlowdownOption,
    StoreOption,
    ThreadsOption,
    TracesArgument,
)
from entresol.core import Json
from entresol.decisions import Answer
from entresol.derived import IDEAL
from entresol.store import location
from entresol.store.result_store import Store


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("decisions")(decisions_command)


def decisions_command(
    traces: TracesArgument,
    design: Annotated[
        list[str] | None,
        typer.Option("--design", metavar="NAME", help="Designs that are looked at; repeatable."),
    ] = None,
    source: Annotated[
        str,
        typer.Option("--of", metavar="PAPER|FILE", help="Whose decisions: a paper's, or a file's."),
    ] = "entresol",
    machine: MachineOption = "table2",
    threads: ThreadsOption = None,
    overrides: SetOption = None,
    config: ConfigOption = None,
    nand: NandOption = None,
    mode: ModeOption = Mode.DETAILED,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
    no_store: NoStoreOption = False,
    format: FormatOption = None,
    dependencies: DependenciesOption = Dependencies.NONE,
    slowdown: SlowdownOption = foreign_traces.DEFAULT_SLOWDOWN,
) -> None:
    """Turn on each modelling decision first and last; say what it does to designs ÷ DRAM-Only.

    Factors are geometric means over the captures of time ÷ DRAM-Only's: below 1 is faster.
    """
    chosen = decisions.read(source)
    setup = study.setup_of(machine, nand, config, overrides, "paper", mode)
    reading = foreign_traces.reading(format, dependencies, slowdown)
    names = design or ["base-cssd,skybyte-w,skybyte-full"]
    wanted = study.study_of([str(trace) for trace in traces], names, setup, threads, False, reading)
    found = decisions.plan(wanted, chosen)
    kept = None if no_store else Store(location.store_directory(store))
    points = list(found.points.values())
    outcomes = terminal.execute(points, terminal.name_of, kept, jobs)
    results = dict(zip(found.points, terminal.results(outcomes), strict=True))
    answer = decisions.answer(found, results)
    if as_json:
        sys.stdout.write(summary.to_text(_as_json(answer)))
        return
    _print(answer, [capture.name for capture in wanted.captures])


def _as_json(found: Answer) -> Json:
    def micro(value: float) -> int:
        return round(value * 10**6)

    return {
        "reference": IDEAL,
        "designs": [
            {
                "design": design,
                "without_micro": micro(found.without[design]),
                "with_all_micro": micro(found.with_all[design]),
            }
            for design in found.designs
        ],
        "decisions": [
            {
                "name": each.name,
                "title": each.title,
                "set": list(each.settings),
                "worth": {
                    design: {
                        "first_in_micro": micro(found.worths[each.name, design].first_in),
                        "last_in_micro": micro(found.worths[each.name, design].last_in),
                    }
                    for design in found.designs
                },
            }
            for each in decisions.by_weight(found)
        ],
    }


def _print(found: Answer, captures: list[str]) -> None:
    console = terminal.wide_console()
    caption = (
        f"Time ÷ {IDEAL}'s, geometric mean over {', '.join(captures)}: factors, first · last in"
    )
    table = Table(title=caption, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("decision", no_wrap=True)
    for design in found.designs:
        table.add_column(design, justify="right")
    for each in decisions.by_weight(found):
        worths = [found.worths[each.name, design] for design in found.designs]
        cells = [f"×{one.first_in:.3f} · ×{one.last_in:.3f}" for one in worths]
        table.add_row(each.name, *cells)
    table.add_section()
    table.add_row("without", *(f"{found.without[design]:.3g}" for design in found.designs))
    table.add_row("with all", *(f"{found.with_all[design]:.3g}" for design in found.designs))
    terminal.print_table(console, table)
    for each in found.decisions:
        console.print(f"  {each.name}: {each.title}", highlight=False, markup=False)
