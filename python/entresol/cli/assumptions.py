"""`entresol assumptions`: what a result hangs on that no paper says."""

from __future__ import annotations

import sys

import typer
from rich.table import Table

from entresol import assumptions, foreign_traces, study, summary, terminal
from entresol.assumptions import Moved, Refused
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
    SetOption,
    SlowdownOption,
    StoreOption,
    ThreadsOption,
    TraceArgument,
)
from entresol.core import Json
from entresol.derived import Run
from entresol.errors import UserError
from entresol.execution.point import Point
from entresol.result_types import RunResult
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
    leaves open (entresol decisions) are turned on, each alone.
    """
    setup = study.setup_of(machine, nand, config, overrides, fidelity, mode)
    reading = foreign_traces.reading(format, dependencies, slowdown)
    wanted = study.study_of([trace], [design], setup, threads, False, reading)
    if len(wanted.captures) != 1 or len(wanted.designs) != 1:
        raise UserError("assumptions takes one capture and one design.")
    kept = None if no_store else Store(location.store_directory(store))

    def run_all(points: list[Point]) -> list[RunResult]:
        return terminal.results(terminal.execute(points, terminal.name_of, kept, jobs))

    first = run_all(assumptions.first_points(wanted, wanted.designs[0]))
    plan = assumptions.plan(wanted, Run(first[1]))
    moved = assumptions.moved(plan, first, run_all(list(plan.points)))
    open_plan = assumptions.opened(wanted, wanted.designs[0])
    opened = assumptions.moved(open_plan, first, run_all(list(open_plan.points)))
    far: list[Moved] = []
    refused = [*plan.refused, *open_plan.refused]
    last = moved
    for _ in range(assumptions.STEPS):
        if assumptions.overturning(first, [*moved, *far]) is not None:
            break
        plan = assumptions.farther(wanted, first, last)
        last = assumptions.moved(plan, first, run_all(list(plan.points)))
        far += last
        refused += plan.refused
    line = assumptions.headline(first, moved, far, opened)
    warnings = summary.warnings(setup, first[1]["design"], first[1]["warnings"])
    if as_json:
        sys.stdout.write(summary.to_text(_as_json(line, warnings, moved, opened, far, refused)))
        return
    _print(line, warnings, moved, opened, far, refused)


def _as_json(
    line: str,
    warnings: list[str],
    moved: list[Moved],
    opened: list[Moved],
    far: list[Moved],
    refused: list[Refused],
) -> Json:
    return {
        "headline": line,
        "warnings": warnings,
        "moved": [_moved(each) for each in moved],
        "open": [
            {
                "decision": each.change.key,
                "title": each.change.title,
                "set": list(each.change.settings),
                **_factors(each),
            }
            for each in opened
        ],
        "farther": [_moved(each) for each in far],
        "not_tried": [
            {
                "parameter": each.change.key,
                "changed": each.change.changed,
                "why": each.why,
            }
            for each in refused
        ],
    }


def _moved(each: Moved) -> Json:
    return {
        "parameter": each.change.key,
        "value": each.change.value,
        "changed": each.change.changed,
        **_factors(each),
    }


def _factors(each: Moved) -> Json:
    return {
        "time_micro": round(each.time * 10**6),
        "speedup_micro": round(each.speedup * 10**6),
    }


def _print(
    line: str,
    warnings: list[str],
    moved: list[Moved],
    opened: list[Moved],
    far: list[Moved],
    refused: list[Refused],
) -> None:
    console = terminal.wide_console()
    console.print(line, highlight=False)
    for warning in warnings:
        terminal.print_warning(console, warning)
    table = Table(pad_edge=False)
    for name in ("parameter", "value", "changed to"):
        table.add_column(name, no_wrap=True)
    for name in ("time ×", "speedup ×"):
        table.add_column(name, justify="right")
    both = sorted([*moved, *opened], key=lambda each: -each.weight)
    shown = [each for each in both if each.weight > assumptions.SAME]
    for each in shown:
        change = each.change
        factors = (f"{each.time:.3f}", f"{each.speedup:.3f}")
        table.add_row(change.key, change.value, change.changed, *factors)
    terminal.print_table(console, table)
    for each in shown:
        if each.change.settings:
            settings = " ".join(each.change.settings)
            text = f"  {each.change.key}, left open by the paper: {each.change.title} ({settings})"
            console.print(text, highlight=False, markup=False)
    still = sorted({each.change.key for each in both} - {each.change.key for each in shown})
    if still:
        console.print(f"  move nothing: {', '.join(still)}", highlight=False)
    if far:
        tried: dict[str, list[str]] = {}
        for each in far:
            tried.setdefault(each.change.key, []).append(each.change.changed)
        values = "; ".join(f"{key} = {', '.join(texts)}" for key, texts in sorted(tried.items()))
        console.print(f"  taken farther: {values}", highlight=False, markup=False)
    for each_refused in refused:
        change = each_refused.change
        text = f"  not tried: {change.key} = {change.changed}: {each_refused.why}"
        console.print(text, highlight=False, markup=False)
