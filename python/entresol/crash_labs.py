"""The crash labs of the core: power cuts of a device, of file systems, and below a program."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from entresol import _core
from entresol.core import Json, executed, object_of


class _Lab:
    """Power cuts of one thing after the other, until there are enough."""

    def __init__(self, lab: _core.CrashLab | _core.FsCrashLab) -> None:
        self._lab = lab

    def execute(self) -> Json:
        """As `Run.execute`: `tally`, and what was found or None."""
        return executed(self._lab.execute)

    def points(self) -> int:
        """Crash points judged so far; from any thread at any time."""
        return self._lab.points()

    def cancel(self) -> None:
        """Asks it to stop after what it runs."""
        self._lab.cancel()


class CrashLab(_Lab):
    """Workloads of the crash lab, from one seed on: `failure`."""

    def __init__(self, seed: int, points: int) -> None:
        super().__init__(_core.CrashLab(seed, points))


def crash_repeat(text: str) -> Json:
    """Runs a crash script: `tally`, and `finding` or None. Raises `CrashError` if it is none."""
    return object_of(_core.crash_replay(text))


class FsCrashLab(_Lab):
    """Sequences of the crash lab of file systems: `impossible`, and `finding`."""

    def __init__(self, options: Json) -> None:
        super().__init__(_core.FsCrashLab(json.dumps(options)))


def fs_crash_repeat(text: str) -> Json:
    """As `crash_repeat`, of a script of a file system."""
    return object_of(_core.fs_crash_repeat(text))


class CrashApp:
    """The power cuts of one run of a program, one state after the other."""

    def __init__(self, inner: _core.CrashApp) -> None:
        self._inner = inner

    def advance(self) -> Json | None:
        """Goes on to the next state; what it is, nothing if there is none."""
        told = self._inner.advance()
        return None if told is None else object_of(told)

    def show(self, directory: Path, judge: Callable[[], object]) -> None:
        """Mounts the state while `judge` looks at it."""
        self._inner.show(str(directory), judge)

    def show_whole(self, directory: Path, judge: Callable[[], object]) -> None:
        """As `show`, what there is without a power cut."""
        self._inner.show_whole(str(directory), judge)

    def keep(self, image: Path) -> None:
        """Writes the state to a new image."""
        self._inner.keep(str(image))

    def tally(self) -> Json:
        """Device operations, cuts, and states so far."""
        return object_of(self._inner.tally())


def crash_app(directory: Path, output: Path, options: Json, run: Callable[[], None]) -> CrashApp:
    """Has `run` start a program in a file system, and gives the power cuts that there can be.
    Raises `ImageError`, `ConfigError`, `EntresolError`."""
    return CrashApp(_core.crash_app(str(directory), str(output), json.dumps(options), run))
