"""`entresol assumptions`: what a result hangs on that no paper says."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext

import typer
from rich.table import Table

from entresol import assumptions, foreign_traces, result_files, study, summary, terminal
from entresol.assumptions import Answer, Moved
from entresol.atomic import OutputDirectory
from entresol.choices import Dependencies, Mode
from entresol.cli.options import (
    ConfigOption,
    DependenciesOption,
    DesignName,
    FidelityOption,
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
    TraceArgument,
)
from entresol.derived import BASE, Run
from entresol.errors import UserError
from entresol.execution.point import Point
from entresol.report import assumptions_page
from entresol.result_types import Assumptions, RunResult
from entresol.store import location
from entresol.store.result_store import Store


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("assumptions")(assumptions_command)


def assumptions_command(
    trace: TraceArgument,
    design: DesignName = "skybyte-full",
    machine: MachineOption = "table2",
    threads: ThreadsOption = None,
    overrides: SetOption = None,
    config: ConfigOption = None,
    nand: NandOption = None,
    fidelity: FidelityOption = "paper",
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
    """Halve and double each parameter whose value is ours; say which of them move the result.

    Two runs for each value, of the design and of Base-CSSD. Parameters that the design does not
    read, and those of mechanisms that did not act, are left out. If none overturns who is faster,
    those that might are taken farther, to a sixteenth or sixteen times. Decisions that the paper
    leaves open (entresol decisions) are turned on, each alone. With -o: assumptions.json and
    assumptions.html with the bars.
    """
    setup = study.setup_of(machine, nand, config, overrides, fidelity, mode)
    reading = foreign_traces.reading(format, dependencies, slowdown)
    wanted = study.study_of([trace], [design], setup, threads, False, reading)
    if len(wanted.captures) != 1 or len(wanted.designs) != 1:
        raise UserError("assumptions takes one capture and one design.")
    if wanted.designs[0] == BASE:
        raise UserError(
            f"assumptions says what decides between a design and {BASE}: name another with "
            "--design, such as skybyte-full."
        )
    kept = None if no_store else Store(location.store_directory(store))
    with nullcontext() if output is None else OutputDirectory(output) as directory:
        answer = _simulate(wanted, kept, jobs)
        design = answer.first[1]["design"]
        warnings = summary.warnings(setup, design, answer.first[1]["warnings"])
        words = foreign_traces.words(reading)
        result = assumptions.assemble(wanted, answer, warnings, words)
        if directory is not None:
            result_files.write_assumptions(directory, result)
    if as_json:
        sys.stdout.write(summary.to_text(result))
        return
    _print(result)
    if output is not None:
        typer.echo(f"report: {output / 'assumptions.html'}")


def _simulate(wanted: study.Study, kept: Store | None, jobs: int | None) -> Answer:
    def run_all(points: Sequence[Point]) -> list[RunResult]:
        return terminal.results(terminal.execute(list(points), terminal.name_of, kept, jobs))

    first = run_all(assumptions.first_points(wanted, wanted.designs[0]))
    plan = assumptions.plan(wanted, Run(first[1]))
    moved = assumptions.moved(plan, first, run_all(plan.points))
    open_plan = assumptions.opened(wanted, wanted.designs[0])
    opened = assumptions.moved(open_plan, first, run_all(open_plan.points))
    far: list[Moved] = []
    refused = [*plan.refused, *open_plan.refused]
    last = moved
    for _ in range(assumptions.STEPS):
        if assumptions.overturning(first, [*moved, *far]) is not None:
            break
        plan = assumptions.farther(wanted, first, last)
        last = assumptions.moved(plan, first, run_all(plan.points))
        far += last
        refused += plan.refused
    return Answer(first, moved, far, opened, refused)


def _print(result: Assumptions) -> None:
    console = terminal.wide_console()
    console.print(result["headline"], highlight=False)
    for warning in result["warnings"]:
        terminal.print_warning(console, warning)
    table = Table(pad_edge=False)
    for name in ("parameter", "value", "changed to"):
        table.add_column(name, no_wrap=True)
    for name in ("time ×", "speedup ×"):
        table.add_column(name, justify="right")
    shown = [each for each in assumptions_page.by_weight(result) if each.moves]
    for each in shown:
        factors = map(assumptions_page.factor, (each.time, each.speedup))
        table.add_row(each.key, each.value, each.changed, *factors)
    terminal.print_table(console, table)
    names = {each.key for each in shown}
    for decision in result["open"]:
        if decision["decision"] in names:
            settings = f"{decision['title']} ({' '.join(decision['set'])})"
            text = f"  {decision['decision']}, left open by the paper: {settings}"
            console.print(text, highlight=False, markup=False)
    still = assumptions_page.still(result)
    if still:
        console.print(f"  move nothing: {', '.join(still)}", highlight=False)
    if result["farther"]:
        tried: dict[str, list[str]] = {}
        for far in result["farther"]:
            tried.setdefault(far["parameter"], []).append(far["changed"])
        values = "; ".join(f"{key} = {', '.join(texts)}" for key, texts in sorted(tried.items()))
        console.print(f"  taken farther: {values}", highlight=False, markup=False)
    for left in result["not_tried"]:
        text = f"  not tried: {left['parameter']} = {left['changed']}: {left['why']}"
        console.print(text, highlight=False, markup=False)
