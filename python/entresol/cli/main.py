"""The command line: `entresol` with all its commands, and what becomes of an error.

Bad input is one line on stderr and exit code 2. A fault of ours is one line and exit code 70;
`--debug` shows where it is.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from entresol import core
from entresol.errors import DEBUG, Failed, InternalError, Stopped, UserError

FAILED = 1
BAD_INPUT = 2
INTERNAL = 70
"""`EX_SOFTWARE` of sysexits.h."""
INTERRUPTED = 130
COMPLETION = "_ENTRESOL_COMPLETE"
"""What the shell sets when it asks what could follow."""

COMMANDS = {
    "trace": ("trace",),
    "config": ("config",),
    "fidelity": ("fidelity",),
    "device": ("device",),
    "file_system": ("mkfs", "fsck", "fs"),
    "firmware": ("firmware",),
    "nand": ("nand",),
    "mount": ("mount", "umount"),
    "bench": ("bench",),
    "dax": ("dax",),
    "crash_app": ("crash",),
    "run": ("run",),
    "replay": ("replay",),
    "explain_gain": ("explain-gain",),
    "assumptions": ("assumptions",),
    "decisions": ("decisions",),
    "timeline": ("timeline",),
    "why": ("why",),
    "figure": ("figure",),
    "reproduction": ("reproduction",),
    "causes": ("causes",),
    "workload": ("workload",),
    "sample": ("sample",),
    "steady": ("steady",),
    "sweep": ("sweep",),
    "results": ("results",),
    "doctor": ("doctor",),
    "listings": ("designs",),
}
"""Modules of `entresol.cli`, in the order of help, and the commands that each registers.

Only the module of the command that is given is imported: all of them take most of a second."""


@functools.cache
def application(word: str | None = None) -> typer.Typer:
    """The command line with one command; with all of them for help and for what is no command."""
    app = typer.Typer(
        help="Entresol, a simulator laboratory for memory-semantic (CXL) SSDs.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(main_options)
    wanted = [module for module, commands in COMMANDS.items() if word in commands]
    for module in wanted or COMMANDS:
        importlib.import_module(f"entresol.cli.{module}").register(app)
    return app


def _command(words: Sequence[str]) -> str | None:
    """The word that is the command, if no other is needed to understand the words."""
    if COMPLETION in os.environ:
        return None
    return next((word for word in words if not word.startswith("-")), None)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"entresol {core.version()}")
        raise typer.Exit


def _debug(wanted: bool) -> None:
    if wanted:
        os.environ[DEBUG] = "1"  # Workers inherit it.


def main_options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", callback=_debug, help="Show where an internal error is; or ENTRESOL_DEBUG=1."
        ),
    ] = False,
) -> None:
    """Entresol, a simulator laboratory for memory-semantic (CXL) SSDs."""
    del version, debug
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        app = application(_command(words))
        code = app(args=words, prog_name="entresol", standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:  # Typer turns KeyboardInterrupt into this.
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except (UserError, core.TraceError, core.ConfigError, core.ImageError) as error:
        return _complain(str(error), BAD_INPUT)
    except typer.TyperException as error:
        return _complain(_misused(error), BAD_INPUT)
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
    except InternalError as error:
        return _complain(f"{error}{_hint()}", INTERNAL)
    except Exception as error:
        if os.environ.get(DEBUG):
            traceback.print_exc()
        said = f"internal error: {type(error).__name__}: {error}{_place(error)}"
        return _complain(f"{said}{_hint()}", INTERNAL)


def _hint() -> str:
    return "" if os.environ.get(DEBUG) else "; entresol --debug … shows where, for a report of it."


def _misused(error: typer.TyperException) -> str:
    """What Typer says of the words, and where the right ones are if it does not say that."""
    text = error.format_message().replace("Value error, ", "")
    context = getattr(error, "ctx", None)
    if context is None or text.startswith("Invalid value") or text.endswith("?"):
        return text
    return f"{text.removesuffix('.')}; {context.command_path} --help says what there is."


def _too_large(words: Sequence[str]) -> str:
    # The core takes no number beyond 64 bits; which option it was, only the word can tell.
    large = [
        f"{before} {word}" if before.startswith("--") else word
        for before, word in pairwise(["", *words])
        if len(digits := re.sub(r"\D", "", word)) > 9 and int(digits) >= 2**32
    ]
    return f"{', '.join(large) or 'a number'}: is too large; give a smaller number."


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


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
