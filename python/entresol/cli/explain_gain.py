"""The command `entresol explain-gain`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

import typer
from rich.table import Table

from entresol import foreign_traces, quantity, study, summary, terminal
from entresol.atomic import OutputDirectory
from entresol.cli.options import (
    MOST,
    ConfigOption,
    DependenciesOption,
    FormatOption,
    JobsOption,
    JsonOption,
    MachineOption,
    ModeOption,
    NandOption,
    OutputOption,
    SetOption,
    SlowdownOption,
    ThreadsOption,
)
from entresol.core import Json
from entresol.errors import UserError
from entresol.gain import configurations as explain
from entresol.report import gain_page


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("explain-gain")(explain_gain)


def explain_gain(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="A capture or foreign trace.")],
    design: Annotated[str, typer.Option("--design", metavar="NAME")] = "skybyte-full",
    by: Annotated[
        str,
        typer.Option("--by", metavar="switches|mechanisms", help="What the gain is shared among."),
    ] = "switches",
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
    mode: ModeOption = "detailed",
    jobs: JobsOption = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
    format: FormatOption = None,
    dependencies: DependenciesOption = "none",
    slowdown: SlowdownOption = foreign_traces.DEFAULT_SLOWDOWN,
) -> None:
    """Share out a design's speedup over Base-CSSD among modelling decisions or mechanisms.

    Each choice is turned on first and last, and in random orders (Shapley). With -o: gain.json and
    gain.html with the waterfall.
    """
    if by not in ("switches", "mechanisms"):
        raise UserError(f"--by is switches or mechanisms, not {by}.")
    if by == "mechanisms" and switches:
        raise UserError("--switch belongs to --by switches; leave one of them out.")
    setup = study.setup_of(machine, nand, config, overrides, "paper", mode)
    reading = foreign_traces.reading(format, dependencies, slowdown)
    wanted = study.study_of([trace], [design], setup, threads, False, reading)
    question = _question(wanted, by, switches or [])
    question = replace(question, reading=tuple(foreign_traces.words(reading)))
    if output is None:
        result = _simulate(question, orders, seed, jobs)
    else:
        with OutputDirectory(output) as directory:
            result = _simulate(question, orders, seed, jobs)
            text = summary.to_text(result)
            directory.file("gain.json").write_text(text, encoding="utf-8")
            html = gain_page.render(result)
            directory.file("gain.html").write_text(html, encoding="utf-8")
            directory.commit()
    if as_json:
        sys.stdout.write(summary.to_text(result))
        return
    _print(result)
    if output is not None:
        typer.echo(f"report: {output / 'gain.html'}")


def _question(wanted: study.Study, by: str, names: list[str]) -> explain.Question:
    if len(wanted.designs) != 1 or len(wanted.captures) != 1:
        raise UserError("explain-gain takes one capture and one design.")
    (capture,), (design,) = wanted.captures, wanted.designs
    if by == "mechanisms":
        return explain.mechanisms(capture, design, wanted)
    return explain.switches(capture, design, wanted, names)


def _simulate(question: explain.Question, orders: int, seed: int, jobs: int | None) -> Json:
    plan = explain.plan(question, orders, seed)
    terminal.execute(list(plan.jobs.values()), jobs)
    return explain.assemble(plan, explain.answer(plan))


def _print(result: Json) -> None:
    console = terminal.wide_console()
    terminal.print_table(console, _table(result))
    console.print(gain_page.conclusion(result), highlight=False)


def _table(result: Json) -> Table:
    caption = f"{result['trace']}, {result['design']} over {result['reference']}"
    table = Table(title=caption, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column(result["provenance"]["by"], no_wrap=True)
    for name in ("first in", "last in", "Shapley", "95 % interval"):
        table.add_column(name, justify="right")
    for share in gain_page.by_worth(result):
        table.add_row(
            share["name"],
            *(
                gain_page.factor(share[f"{name}_micro"])
                for name in ("first_in", "last_in", "shapley")
            ),
            gain_page.interval(share, result),
        )
    table.add_section()
    without, with_all = (result[f"speedup_{name}_micro"] for name in ("without", "with_all"))
    table.add_row("interaction", gain_page.factor(result["interaction_micro"]))
    table.add_row("without", quantity.times(without / 1e6))
    table.add_row("with all", quantity.times(with_all / 1e6))
    return table
