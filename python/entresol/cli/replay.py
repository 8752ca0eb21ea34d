"""`entresol replay`."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from entresol import core, in_loop, quantity, result_files, study, summary, terminal
from entresol.atomic import OutputDirectory
from entresol.choices import Pattern, Port
from entresol.cli.options import DeviceTimeoutOption, ProcessorOption
from entresol.core import Json
from entresol.device_replay import ReplayStudy, Workload, execute
from entresol.errors import UserError
from entresol.report import replay_table

_DEFAULT_OUTPUT = Path("results")
_NOTE_SECONDS = 1.0
_WIDTH_WITHOUT_TERMINAL = 160


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("replay")(replay)


def replay(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Block trace: MSR Cambridge, CSV or Parquet."),
    ] = None,
    pattern: Annotated[
        Pattern | None, typer.Option("--pattern", help="Requests made up, instead of a trace.")
    ] = None,
    bs: Annotated[str | None, typer.Option("--bs", metavar="SIZE", help="Of a request.")] = None,
    rwmix: Annotated[
        str | None, typer.Option("--rwmix", metavar="PERCENT", help="Share of reads in randrw.")
    ] = None,
    working_set: Annotated[
        str | None,
        typer.Option("--working-set", metavar="SHARE|SIZE", help="Part of the device in use; 80%."),
    ] = None,
    zipf: Annotated[
        str | None, typer.Option("--zipf", metavar="THETA", help="Skew of random addresses; 0.")
    ] = None,
    requests: Annotated[
        int | None, typer.Option("--requests", metavar="N", min=1, help="Measured, at most.")
    ] = None,
    warmup: Annotated[
        int | None, typer.Option("--warmup", metavar="N", min=0, help="Before those; not measured.")
    ] = None,
    qd: Annotated[
        int | None,
        typer.Option("--qd", metavar="N", min=1, help="Closed loop: requests under way; 32."),
    ] = None,
    speedup: Annotated[
        str | None,
        typer.Option(
            "--speedup", metavar="X", help="Open loop: the trace's times, X times as fast."
        ),
    ] = None,
    port: Annotated[
        Port | None,
        typer.Option("--port", help="Lines of 64 B or pages; by the size if left out."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", min=0, help="As --set run.seed=N.")
    ] = None,
    design: Annotated[
        list[str] | None,
        typer.Option("--design", metavar="NAME…", help="Designs; base-cssd is the default."),
    ] = None,
    machine: Annotated[str, typer.Option("--machine", help="Machine preset.")] = "table2",
    nand: Annotated[
        str | None, typer.Option("--nand", metavar="TYPE", help="NAND type, as in Table IV.")
    ] = None,
    fidelity: Annotated[
        str, typer.Option("--fidelity", metavar="paper|artifact|SWITCH…", help="As in run.")
    ] = "paper",
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a parameter; repeatable."),
    ] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option("--config", metavar="FILE.toml", help="Parameters from a file; repeatable."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="For the results.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout.")
    ] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Check every invariant on the way.")
    ] = False,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="modelled|loop|loop:SOCKET|recorded:FILE",
            help="The model alone; a firmware process, started if no socket is named; or recorded "
            "times.",
        ),
    ] = in_loop.MODELLED,
    processor: ProcessorOption = "cortex-a53",
    device_timeout: DeviceTimeoutOption = 10.0,
) -> None:
    """Run a device alone: firmware, flash and device DRAM, without a host.

    With --device loop also a recording of each run's times, which --device recorded:DIR repeats.
    Without -o the results go to ./results, or nowhere with --json.
    """
    if device.partition(":")[0] in in_loop.NVME:
        raise UserError(f"--device {device}: replay asks the model or firmware in the loop; "
                        "`entresol run` asks an NVMe device.")  # fmt: skip
    source = in_loop.parse(device, processor, device_timeout)
    study.check_machine(machine)
    names = [name for text in design or ["base-cssd"] for name in text.split(",")]
    settings = tuple(overrides or ()) + (() if seed is None else (f"run.seed={seed}",))
    files = study.read_config_files(config or [])
    wanted = ReplayStudy(
        _workload(
            file,
            {
                "pattern": pattern,
                "bs": bs,
                "rwmix": rwmix,
                "working-set": working_set,
                "zipf": zipf,
                "requests": requests,
                "warmup": warmup,
                "qd": qd,
                "speedup": speedup,
                "port": port,
            },
        ),
        _designs(names),
        core.Setup(machine, nand, files, settings, fidelity),
        audit,
    )
    destination = output or (None if as_json else _DEFAULT_OUTPUT)
    with (
        nullcontext() if destination is None else OutputDirectory(destination) as directory,
        in_loop.kept_recordings(destination) as recordings,
    ):
        result = execute(wanted, source, _Notes().watch, recordings)
        if directory is not None:
            for name, recording in recordings.items():
                directory.file(name).write_bytes(recording)
            more = [] if source is None else in_loop.words(device, processor, device_timeout)
            command = _command(wanted, config or [], more)
            result_files.write_replay(directory, result, command)
    if as_json:
        sys.stdout.write(summary.to_text(result))
        return
    _print(result)
    if destination is not None:
        typer.echo(f"report: {destination / 'report.html'}")


def _print(summary: Json) -> None:
    """The table and its warnings, on stdout."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL)
    runs = summary["runs"]
    table = Table(
        title=replay_table.caption(runs[0]),
        title_justify="left",
        title_style="bold",
        pad_edge=False,
    )
    for index, head in enumerate(replay_table.HEADS):
        table.add_column(head, justify="left" if index == 0 else "right", no_wrap=True)
    for run in runs:
        table.add_row(run["design"], *replay_table.cells(run))
    terminal.print_table(console, table)
    for run in runs:
        for warning in run["warnings"]:
            console.print(Text(f"  {warning} ({run['design']})", style="yellow"))


def _designs(names: list[str]) -> tuple[str, ...]:
    if "all" in names:
        return tuple(item.name for item in core.designs() if item.name != "dram-only")
    return study.choose_designs(names)


def _workload(file: Path | None, options: dict[str, object]) -> Workload:
    words = [(name, str(value)) for name, value in options.items() if value is not None]
    if file is None:
        return Workload(str(options["pattern"] or "pattern"), tuple(words))
    if file.is_dir():
        raise UserError(f"{file}: is a directory; name a block trace.")
    if not file.exists():
        raise UserError(f"{file}: no such block trace.")
    if file.suffix == ".etr":
        raise UserError(f"{file}: is a capture of a program; entresol run takes those.")
    return Workload(file.name.split(".")[0], (("file", str(file)), *words), file)


def _command(wanted: ReplayStudy, config: list[Path], more: list[str]) -> str:
    """The command that repeats a replay: names without their places."""
    words = ["entresol", "replay"]
    if wanted.workload.path is not None:
        words.append(wanted.workload.path.name)
    for name, value in wanted.workload.words:
        words += [] if name == "file" else [f"--{name}", value]
    words += ["--design", ",".join(wanted.designs), "--machine", wanted.setup.machine]
    words += [] if wanted.setup.nand is None else ["--nand", wanted.setup.nand]
    words += [] if wanted.setup.fidelity == "paper" else ["--fidelity", wanted.setup.fidelity]
    words += [word for path in config for word in ("--config", path.name)]
    words += [word for override in wanted.setup.overrides for word in ("--set", override)]
    words += ["--audit"] if wanted.audit else []
    return shlex.join([*words, *more])


class _Notes:
    """How far a replay is, once a second, on a terminal only."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._last = time.monotonic()

    def watch(self, design: str, requests: int, picoseconds: int) -> None:
        """A line that the next one replaces."""
        now = time.monotonic()
        if not self._console.is_terminal or now - self._last < _NOTE_SECONDS:
            return
        self._last = now
        text = f"{design}: {quantity.count(requests)} requests, {quantity.duration(picoseconds)}"
        self._console.print(f"{text:60}", end="\r", highlight=False)
