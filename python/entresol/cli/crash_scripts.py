"""What the crash labs of firmware and file systems share on the command line."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

from entresol import atomic, core, crash_labs, quantity
from entresol.core import Json
from entresol.errors import Failed, UserError

_POLL_SECONDS = 0.2


def check_output(output: Path) -> None:
    """Raises `UserError` where no script can be written."""
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise UserError(f"{output}: a script cannot be written there; name another file with -o.")


def repeated(path: Path, repeat: Callable[[str], Json]) -> Json:
    """What a script does, by what repeats its text."""
    if path.is_dir():
        raise UserError(f"{path}: is a directory; name a crash script.")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such crash script.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text; a crash script is.") from None
    try:
        return repeat(text)
    except core.CrashError as error:
        raise UserError(f"{path}: {error}.") from error


def watched(lab: crash_labs.CrashLab | crash_labs.FsCrashLab) -> Json:
    """Runs on a thread of its own, so that the user can interrupt it."""
    results: list[Json | BaseException] = []

    def work() -> None:
        try:
            results.append(lab.execute())
        except BaseException as error:  # Raised again on the thread that waits.
            results.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(_POLL_SECONDS)
            if sys.stderr.isatty():
                print(f"{quantity.count(lab.points())} crash points", end="\r", file=sys.stderr)
    except KeyboardInterrupt:
        lab.cancel()
        worker.join()
        raise
    (result,) = results
    if isinstance(result, BaseException):
        raise result
    return result


def write(path: Path, text: str) -> None:
    """Writes a script, whole or not at all."""
    try:
        atomic.write(path, text.encode())
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}; name another file with -o.") from error
