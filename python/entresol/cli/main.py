"""The command line. Bad input is one line on stderr and exit code 2; there is never a traceback."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from entresol import (
    core,
    cost,
    foreign_traces,
    qemu_capture,
    recall,
    result_files,
    study,
    summary,
    terminal,
)
from entresol.atomic import OutputDirectory
from entresol.cli import device as device_command
from entresol.cli import explain_gain as explain_command
from entresol.cli import listings, sample, trace_formats
from entresol.cli import replay as replay_command
from entresol.cli import results as stored_command
from entresol.cli import sweep as sweep_command
from entresol.cli import why as look_command
from entresol.cli import workload as workload_command
from entresol.cli.options import (
    AuditOption,
    ConfigOption,
    CostOption,
    DependenciesOption,
    DesignOption,
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
    TracesArgument,
)
from entresol.errors import Failed, Stopped, UserError
from entresol.figures import command as figure_command
from entresol.figures import reproduction_command
from entresol.store import location
from entresol.store.result_store import Store

BAD_INPUT = 2
FAILED = 1
INTERRUPTED = 130
DEFAULT_OUTPUT = Path("results")

app = typer.Typer(
    help="Entresol, a simulator laboratory for memory-semantic (CXL) SSDs.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
trace_app = typer.Typer(help="Make and look at captures.", rich_markup_mode=None)
config_app = typer.Typer(help="Look at parameters.", rich_markup_mode=None)
fidelity_app = typer.Typer(
    help="Look at the switches between the papers and the artifact.", rich_markup_mode=None
)
app.add_typer(trace_app, name="trace")
trace_formats.register(trace_app)
app.add_typer(config_app, name="config")
app.add_typer(fidelity_app, name="fidelity")
app.add_typer(device_command.app, name="device")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"entresol {core.version()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main_options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Entresol, a simulator laboratory for memory-semantic (CXL) SSDs."""
    del version
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def run(
    traces: TracesArgument,
    design: DesignOption = None,
    machine: MachineOption = "table2",
    threads: ThreadsOption = None,
    overrides: SetOption = None,
    config: ConfigOption = None,
    nand: NandOption = None,
    fidelity: FidelityOption = "paper",
    mode: ModeOption = "detailed",
    jobs: JobsOption = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
    audit: AuditOption = False,
    store: StoreOption = None,
    no_store: NoStoreOption = False,
    format: FormatOption = None,
    dependencies: DependenciesOption = "none",
    slowdown: SlowdownOption = foreign_traces.DEFAULT_SLOWDOWN,
    prices: CostOption = None,
) -> None:
    """Run captures on designs; write summary.json, results.parquet and report.html.

    Without -o the results go to ./results, or nowhere with --json.
    """
    setup = study.setup_of(machine, nand, config, overrides, fidelity, mode)
    reading = foreign_traces.reading(format, dependencies, slowdown)
    wanted = study.study_of(traces, design, setup, threads, audit, reading)
    paid = cost.parse(prices)
    command = shlex.join(
        [
            *_command(wanted, config or []),
            *foreign_traces.words(reading),
            *(["--cost", prices] if prices else []),
        ]
    )
    destination = output or (None if as_json else DEFAULT_OUTPUT)
    kept = None if no_store else Store(location.store_directory(store))
    if destination is None:
        result = _simulate(wanted, kept, jobs)
    else:
        with OutputDirectory(destination) as directory:
            result = _simulate(wanted, kept, jobs)
            result_files.write(directory, wanted, result, command, paid)
    if as_json:
        sys.stdout.write(summary.to_text(result))
        return
    terminal.print_results(result)
    if destination is not None:
        typer.echo(f"report: {destination / 'report.html'}")


def _simulate(wanted: study.Study, kept: Store | None, jobs: int | None) -> core.Json:
    if kept is None:
        return summary.assemble(wanted, terminal.execute(study.plan(wanted), jobs))
    found = recall.recall(wanted, kept)
    terminal.print_recalled(found.stored)
    try:
        made = terminal.execute(found.jobs, jobs)
    except (KeyboardInterrupt, core.Interrupted) as error:
        ended = sum(job.result is not None for job in found.jobs)
        if ended == 0:
            raise
        raise Stopped(f"interrupted; the store keeps {ended} runs that had ended.") from error
    return summary.assemble(wanted, found.all(made))


def _command(wanted: study.Study, config: Sequence[Path]) -> list[str]:
    """The command that repeats a study: names without their places, so that it is the same here
    and elsewhere."""
    words = ["entresol", "run", *(capture.source.name for capture in wanted.captures)]
    everything = len(wanted.designs) == len(core.designs())
    words += ["--design", "all" if everything else ",".join(wanted.designs)]
    words += ["--machine", wanted.setup.machine]
    words += [] if wanted.threads is None else ["--threads", str(wanted.threads)]
    words += [] if wanted.setup.nand is None else ["--nand", wanted.setup.nand]
    fidelity = wanted.setup.fidelity.replace(" ", "")
    words += [] if fidelity == "paper" else ["--fidelity", fidelity]
    words += [] if wanted.setup.mode == "detailed" else ["--mode", wanted.setup.mode]
    words += [word for path in config for word in ("--config", path.name)]
    words += [word for override in wanted.setup.overrides for word in ("--set", override)]
    return [*words, *(["--audit"] if wanted.audit else [])]


replay_command.register(app)
explain_command.register(app)
look_command.register(app)
figure_command.register(app)
reproduction_command.register(app)
workload_command.register(app)
app.command("sample")(sample.sample_command)
app.command("sweep")(sweep_command.sweep_command)
stored_command.register(app)


@app.command()
def designs(as_json: JsonOption = False) -> None:
    """List the designs: name, name in the paper, what it is."""
    listings.designs(as_json)


@config_app.command("show")
def config_show(
    machine: MachineOption = "table2",
    design: Annotated[str, typer.Option("--design", metavar="NAME")] = "skybyte-full",
    overrides: SetOption = None,
    config: ConfigOption = None,
    nand: NandOption = None,
    fidelity: FidelityOption = "paper",
    as_json: JsonOption = False,
) -> None:
    """Print the effective configuration: every parameter and its value."""
    study.check_machine(machine)
    (name,) = study.choose_designs([design]) if design != "all" else (None,)
    if name is None:
        raise UserError("config show takes one design.")
    files = study.read_config_files(config or [])
    setup = core.Setup(machine, nand, files, tuple(overrides or []), fidelity)
    listings.config(setup, name, as_json)


@config_app.command("presets")
def config_presets() -> None:
    """List the machines and the NAND types."""
    listings.presets()


@config_app.command("explain")
def config_explain(
    key: Annotated[str, typer.Argument(metavar="KEY", help="A parameter, or a section.")],
    machine: MachineOption = "table2",
    design: Annotated[str, typer.Option("--design", metavar="NAME")] = "skybyte-full",
) -> None:
    """Say what a parameter is: unit, default, range, source."""
    study.check_machine(machine)
    study.choose_designs([design])
    listings.explain(key, core.Setup(machine), design)


@fidelity_app.command("list")
def fidelity_list(as_json: JsonOption = False) -> None:
    """List the fidelity switches: name and what each is."""
    listings.switches(as_json)


@fidelity_app.command("explain")
def fidelity_explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A switch.")],
) -> None:
    """Say what a switch is: what the paper says, what the artifact does, what it sets."""
    listings.switch(name)


@trace_app.command(
    "record", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False}
)
def trace_record(
    command: Annotated[list[str], typer.Argument(metavar="-- CMD…", help="Program to capture.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT.etr")],
    roi: Annotated[
        bool,
        typer.Option("--roi", help="Only between xchg %bx,%bx and xchg %cx,%cx in the program."),
    ] = False,
    skip: Annotated[
        int | None, typer.Option("--skip", metavar="N", min=0, help="Skip N instructions first.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=1, help="Stop the program after N instructions."),
    ] = None,
) -> None:
    """Capture a program with all its threads."""
    info = qemu_capture.record(output, qemu_capture.Window(roi, skip, limit), command)
    listings.trace_info(output, info)


@trace_app.command("info")
def trace_info(
    trace: Annotated[Path, typer.Argument(metavar="TRACE")],
    as_json: JsonOption = False,
    format: FormatOption = None,
) -> None:
    """Say what a capture holds."""
    opened = _single(trace, foreign_traces.reading(format), blocks=True)
    if as_json:
        sys.stdout.write(summary.to_text(opened.info))
    else:
        listings.trace_info(opened.path, opened.info)


@trace_app.command("head")
def trace_head(
    trace: Annotated[Path, typer.Argument(metavar="TRACE")],
    thread: Annotated[int, typer.Option("--thread", metavar="N", min=0)] = 0,
    count: Annotated[int, typer.Option("-n", "--count", metavar="N", min=1)] = 20,
    format: FormatOption = None,
) -> None:
    """Print the first instructions of a thread."""
    opened = _single(trace, foreign_traces.reading(format))
    for line in core.trace_head(opened.path, thread, count):
        typer.echo(line)


def _single(trace: Path, reading: core.ForeignReading, *, blocks: bool = False) -> study.Capture:
    if study.is_co_run(trace):
        raise UserError(f"{trace}: names several captures; look at one at a time.")
    (opened,) = study.open_captures([trace], blocks=blocks, reading=reading)
    return opened


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    try:
        code = app(args=arguments, prog_name="entresol", standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:  # Typer turns KeyboardInterrupt into this.
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except (UserError, core.TraceError, core.ConfigError, core.ImageError) as error:
        return _complain(str(error), BAD_INPUT)
    except typer.TyperException as error:
        return _complain(error.format_message(), BAD_INPUT)
    except (KeyboardInterrupt, core.Interrupted, typer.Abort):
        return _complain("interrupted; nothing was written.", INTERRUPTED)
    except Stopped as error:
        return _complain(str(error), INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe went away, as `head` does. Python must not try again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OverflowError:
        return _complain(_too_large(sys.argv[1:] if arguments is None else arguments), BAD_INPUT)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}.", FAILED)
    except (Failed, core.EntresolError) as error:
        return _complain(str(error), FAILED)
    except Exception as error:  # A fault of ours: where it is, on one line, for the report of it.
        return _complain(f"internal error: {type(error).__name__}: {error} {_place(error)}", FAILED)


def _too_large(words: Sequence[str]) -> str:
    # The core takes no number beyond 64 bits; which option it was, only the word can tell.
    large = [
        word
        for word in words
        if len(digits := re.sub(r"\D", "", word)) > 9 and int(digits) >= 2**32
    ]
    return f"{', '.join(large) or 'a number'}: is too large; give a smaller number."


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def _complain(message: str, code: int) -> int:
    line = " ".join(message.split())
    print(f"entresol: {line}", file=sys.stderr)
    return code


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def entry() -> None:
    """The installed command."""
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(main())
