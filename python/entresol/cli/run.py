"""`entresol run`: captures on designs."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import typer

from entresol import cost, foreign_traces, in_loop, result_files, study, summary, terminal
from entresol.atomic import OutputDirectory
from entresol.choices import Dependencies, Mode
from entresol.cli.options import (
    AuditOption,
    ConfigOption,
    CostOption,
    DependenciesOption,
    DesignOption,
    DeviceSourceOption,
    DeviceTimeoutOption,
    DriveOption,
    DriveSizeOption,
    FidelityOption,
    FormatOption,
    JobsOption,
    JsonOption,
    MachineOption,
    ModeOption,
    NandOption,
    NoStoreOption,
    OutputOption,
    OverwriteDeviceOption,
    ProcessorOption,
    SetOption,
    SlowdownOption,
    StoreOption,
    ThreadsOption,
    TracesArgument,
    drive_of,
)
from entresol.execution.point import points_of
from entresol.store import location
from entresol.store.result_store import Store

DEFAULT_OUTPUT = Path("results")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("run")(run)


def run(
    traces: TracesArgument,
    design: DesignOption = None,
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
    audit: AuditOption = False,
    store: StoreOption = None,
    no_store: NoStoreOption = False,
    format: FormatOption = None,
    dependencies: DependenciesOption = Dependencies.NONE,
    slowdown: SlowdownOption = foreign_traces.DEFAULT_SLOWDOWN,
    prices: CostOption = None,
    device: DeviceSourceOption = in_loop.MODELLED,
    processor: ProcessorOption = "cortex-a53",
    device_timeout: DeviceTimeoutOption = 10.0,
    drive: DriveOption = None,
    drive_size: DriveSizeOption = None,
    overwrite_device: OverwriteDeviceOption = False,
) -> None:
    """Run captures on designs; write summary.json, results.parquet and report.html.

    With --device loop also a recording of each run's times, which --device recorded:DIR repeats.
    Without -o the results go to ./results, or nowhere with --json.
    """
    setup = study.setup_of(machine, nand, config, overrides, fidelity, mode)
    reading = foreign_traces.reading(format, dependencies, slowdown)
    wanted = study.study_of(traces, design, setup, threads, audit, reading)
    paid = cost.parse(prices)
    more = [*foreign_traces.words(reading), *(["--cost", prices] if prices else [])]
    destination = output or (None if as_json else DEFAULT_OUTPUT)
    is_nvme = device.partition(":")[0] in in_loop.NVME
    behind = drive_of(drive, drive_size, overwrite_device and not is_nvme)
    source = in_loop.parse(device, processor, device_timeout, behind, overwrite_device)
    more += [] if source is None else in_loop.words(device, processor, device_timeout)
    more += [] if drive is None else ["--drive", drive.name]
    more += [] if drive_size is None else ["--drive-size", drive_size]
    more += ["--overwrite-device"] if drive is not None and overwrite_device else []
    kept = None if no_store or source else Store(location.store_directory(store))
    with nullcontext() if destination is None else OutputDirectory(destination) as directory:
        if source is None:
            outcomes = terminal.execute(points_of(wanted), terminal.name_of, kept, jobs)
            results = terminal.results(outcomes)
        else:
            with in_loop.kept_recordings(destination) as recordings:
                watch = terminal.Notes().watch
                looped = in_loop.execute(points_of(wanted), source, watch, recordings)
            results = [outcome.result for outcome in looped]
            if directory is not None:
                for name, recording in recordings.items():
                    directory.file(name).write_bytes(recording)
        result = summary.assemble(wanted, results)
        if directory is not None:
            result_files.write_run(directory, wanted, result, study.command(wanted, more), paid)
    if as_json:
        sys.stdout.write(summary.to_text(result))
        return
    terminal.print_results(result)
    if destination is not None:
        typer.echo(f"report: {destination / 'report.html'}")
