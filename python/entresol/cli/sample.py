"""`entresol sample`: windows of captures instead of whole ones."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from entresol import foreign_traces, quantity, result_files, sampling, study, summary, terminal
from entresol.atomic import OutputDirectory
from entresol.choices import Dependencies
from entresol.cli.options import (
    MOST,
    AuditOption,
    ConfigOption,
    DependenciesOption,
    DesignOption,
    FidelityOption,
    FormatOption,
    JobsOption,
    JsonOption,
    MachineOption,
    NandOption,
    OutputOption,
    SetOption,
    SlowdownOption,
    ThreadsOption,
    TracesArgument,
)
from entresol.estimate import Estimate
from entresol.result_types import Samples


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("sample")(sample_command)


def sample_command(
    traces: TracesArgument,
    design: DesignOption = None,
    windows: Annotated[
        int, typer.Option("--windows", metavar="N", min=1, help="Windows of each capture.")
    ] = 10,
    window: Annotated[
        int, typer.Option("--window", metavar="N", min=1, help="Instructions of a window.")
    ] = 1_000_000,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", metavar="N", min=1, max=MOST, help="Seeds of random streams, from 1."
        ),
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
    format: FormatOption = None,
    dependencies: DependenciesOption = Dependencies.NONE,
    slowdown: SlowdownOption = foreign_traces.DEFAULT_SLOWDOWN,
) -> None:
    """Measure evenly spaced windows; give means with 95 % confidence intervals.

    Between windows a capture passes functionally through caches, log, flash and host pages.
    With -o: samples.json and samples.parquet, one row per window.
    """
    setup = study.setup_of(machine, nand, config, overrides, fidelity)
    study.check_varied(setup)
    wanted = study.study_of(
        traces,
        design,
        setup,
        threads,
        audit,
        foreign_traces.reading(format, dependencies, slowdown),
    )
    seed_numbers, placement_numbers = tuple(range(1, seeds + 1)), tuple(range(placements))
    study.check_seeds(wanted, seed_numbers)
    study.say_unread(wanted, terminal.say)
    plan = sampling.Plan(windows, window, seed_numbers, placement_numbers)
    sampling.check(wanted, plan)
    with nullcontext() if output is None else OutputDirectory(output) as directory:
        result = _simulate(wanted, plan, jobs)
        if directory is not None:
            result_files.write_samples(directory, result)
    if as_json:
        sys.stdout.write(summary.to_text(result))
        return
    _print(result, plan)
    if output is not None:
        typer.echo(f"samples: {output / 'samples.json'}")


def _simulate(wanted: study.Study, plan: sampling.Plan, jobs: int | None) -> Samples:
    points = sampling.points_of(wanted, plan)
    outcomes = terminal.execute(points, terminal.name_of, None, jobs)
    return sampling.assemble(wanted, plan, [outcome.windows for outcome in outcomes])


def _print(result: Samples, plan: sampling.Plan) -> None:
    console = terminal.wide_console()
    rows = sampling.rows(result["runs"])
    for trace in dict.fromkeys(row.trace for row in rows):
        own = [row for row in rows if row.trace == trace]
        terminal.print_table(console, _table(trace, own, plan))
        warnings: dict[str, list[str]] = {}
        for row in own:
            for warning in row.warnings:
                warnings.setdefault(warning, []).append(row.design)
        for warning, designs in warnings.items():
            console.print(Text(f"  {warning} ({', '.join(designs)})", style="yellow"))


def _table(trace: str, rows: list[sampling.Row], plan: sampling.Plan) -> Table:
    caption = f"{trace}: {plan.windows} windows of {quantity.count(plan.instructions)} instructions"
    caption += f", {len(plan.variants)} seeds and placements; 95 % intervals over windows"
    table = Table(title=caption, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("design", no_wrap=True)
    for name in (
        "ns / instruction",
        "speedup",
        "over seeds, placements",
        "AMAT, all",
        "flash programs / M instr.",
    ):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.design,
            _interval(row.time, 1e-3),
            quantity.between(row.speedup.value, row.speedup.low, row.speedup.high),
            quantity.NOTHING if row.spread is None else f"± {quantity.percent(row.spread)}",
            quantity.duration(row.amat_all_ps),
            _interval(row.programs_per_million),
        )
    return table


def _interval(found: Estimate, scale: float = 1.0) -> str:
    text = quantity.significant(found.value * scale)
    if found.half_width is None:
        return text
    return f"{text} ± {quantity.significant(found.half_width * scale, 2)}"
