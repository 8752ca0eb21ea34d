"""`entresol crash app`: power cuts under a program of the user's."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from entresol import cloning, crash_labs, quantity
from entresol.cli.options import JsonOption, SetOption
from entresol.core import Json
from entresol.errors import Failed, UserError

FOUND = 1
SHOWN = 5
"""Failures that are printed; `--json` and `--keep` have all."""
LAST_LINES = 3
MOUNT, ACKNOWLEDGED, OPERATION = (
    "ENTRESOL_MOUNT",
    "ENTRESOL_ACKNOWLEDGED",
    "ENTRESOL_OPERATION",
)
PLACE = "{}"
"""In the words of program and checker: the directory of the mount."""

app = typer.Typer(help="Cut the power under programs.", rich_markup_mode=None)


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    parent.add_typer(app, name="crash")


@app.command("app")
def crash_app(
    program: Annotated[
        list[str],
        typer.Argument(
            metavar="-- PROGRAM...", help="Runs in the file system, whose directory {} stands for."
        ),
    ],
    check: Annotated[
        str,
        typer.Option(
            "--check",
            metavar="PROGRAM",
            help="Judges what is left, {} again; exit code 0: it is sound. Words as in a shell.",
        ),
    ],
    image: Annotated[
        Path | None,
        typer.Option(
            "--image", metavar="IMAGE", help="Begin with a copy of this one, not with a new one."
        ),
    ] = None,
    personality: Annotated[
        str | None,
        typer.Option("--personality", metavar="NAME", help="Of a new file system; else bytefs."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="PRESET", help="Of a new device, as for fs bench."),
    ] = None,
    scale: Annotated[
        int | None, typer.Option("--scale", metavar="N", help="One in N of a new device; else 64.")
    ] = None,
    sets: SetOption = None,
    cuts: Annotated[
        int | None,
        typer.Option("--cuts", metavar="N", min=1, help="Judge N cuts by chance, else all."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of what is drawn.")] = 1,
    samples: Annotated[
        int,
        typer.Option(
            "--samples",
            metavar="N",
            min=2,
            max=4096,
            help="Subsets of more than six requests in flight.",
        ),
    ] = 64,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="CUT[.TRY]", help="Judge this cut, or this state, alone."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep", metavar="DIR", help="Write each state that fails there, as an image."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Of a checker.")
    ] = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Run a program in a file system, cut the power at every device operation, judge what is left.

    Exit code 0 if every state is sound, 1 if one is not.
    """
    checker = _words(check)
    _check_program(program)
    if keep is not None and keep.exists():
        raise UserError(f"{keep}: is there already; name a directory to be made.")
    new = {"--personality": personality, "--device": device, "--scale": scale, "--set": sets}
    if image is not None and (given := [name for name, value in new.items() if value]):
        raise UserError(f"{given[0]}: is of a new device; with --image leave it out.")
    personality = personality or "bytefs"
    options: Json = {
        "device": device or ("bytefs" if personality in WITH_LOG else "bytefs-cache"),
        "scale": 64 if scale is None else scale,
        "sets": list(sets or ()),
        "personality": personality,
        "now_ns": time.time_ns(),
        "uid": os.getuid(),
        "gid": os.getgid(),
        "cuts": cuts,
        "seed": seed,
        "samples": samples,
    } | _place(at)
    with tempfile.TemporaryDirectory(prefix="entresol-crash-") as scratch:
        trial = _Trial(Path(scratch), checker, timeout, keep)
        if image is not None:
            cloning.clone(image, trial.scratch / "image")
            options["image"] = str(trial.scratch / "image")
        result = trial.run(program, options)
    if as_json:
        sys.stdout.write(json.dumps(result, indent=2) + "\n")
    else:
        _print(result, keep)
    if result["failures"]:
        raise typer.Exit(FOUND)


WITH_LOG = ("bytefs", "bytefs-log")


def _words(check: str) -> list[str]:
    try:
        words = shlex.split(check)
    except ValueError as error:
        raise UserError(f"--check: {error} in {check!r}; close what is quoted.") from None
    if not words:
        raise UserError("--check: names no program; give one that exits with 0 if all is sound.")
    return words


def _check_program(program: Sequence[str]) -> None:
    if "--check" in program:
        raise UserError(
            "--check: stands behind --, so it is the program's; write it before --, as in "
            "entresol crash app --check CHECK -- PROGRAM."
        )


def _place(at: str | None) -> Json:
    if at is None:
        return {}
    cut, dot, state = at.partition(".")
    if not cut.isdecimal() or (dot and not state.isdecimal()):
        raise UserError(f"--at {at}: is no cut; give a number, or two as in 57.3.")
    return {"at": int(cut), "state": int(state) if dot else None}


@dataclass
class _Trial:
    """One run of the program, and what is judged of it."""

    scratch: Path
    checker: list[str]
    timeout: float
    keep: Path | None
    failures: list[Json] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory = self.scratch / "mount"
        self.directory.mkdir()
        self.output = self.scratch / "output"
        self.output.touch()
        self.acknowledged = self.scratch / "acknowledged"

    def run(self, program: Sequence[str], options: Json) -> Json:
        """Everything."""
        crashes = crash_labs.crash_app(
            self.directory, self.output, options, lambda: self._execute(program)
        )
        tally = crashes.tally()
        if tally["changes"] == 0:
            raise UserError(
                f"{program[0]}: changed nothing in the file system, so there is no power to cut; "
                "{} among its words stands for the directory."
            )
        self._judge_whole(crashes, tally["output_bytes"])
        try:
            while (state := crashes.advance()) is not None:
                self._judge(crashes, state)
        except BaseException:
            self._tell_unfinished(crashes.tally())
            raise
        tally = crashes.tally()
        if options.get("at") is not None and tally["states"] == 0:
            raise UserError(
                "--at: this run of the program has no such cut or state; run it without --at, for "
                "its requests are not the same each time."
            )
        return tally | {"failures": self.failures}

    def _tell_unfinished(self, tally: Json) -> None:
        """What was found until something ended the search."""
        found = len(self.failures)
        for state in self.failures[:SHOWN]:
            _print_failure(state, err=True)
        typer.echo(
            f"ended early, after {tally['tries']:,} tries: {found:,} of {tally['states']:,} states "
            "so far are not sound",
            err=True,
        )

    def _execute(self, program: Sequence[str]) -> None:
        words = [word.replace(PLACE, str(self.directory)) for word in program]
        with self.output.open("ab") as output:
            code = self._call(words, {}, stdout=output.fileno())
        if code != 0:
            raise UserError(
                f"{program[0]}: ended with exit code {code}; a program is tried that succeeds."
            )

    def _call(self, words: Sequence[str], more: dict[str, str], stdout: int) -> int:
        environment = os.environ | {MOUNT: str(self.directory)} | more
        try:
            return subprocess.run(
                words, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, check=False
            ).returncode
        except OSError as error:
            raise UserError(f"{words[0]}: {error.strerror}; name a program.") from None

    def _checked(self, acknowledged: int, operation: int | None) -> str | None:
        """Has the checker judge what is mounted; why it is not sound."""
        with self.output.open("rb") as output:
            self.acknowledged.write_bytes(output.read(acknowledged))
        words = [word.replace(PLACE, str(self.directory)) for word in self.checker]
        environment = os.environ | {
            MOUNT: str(self.directory),
            ACKNOWLEDGED: str(self.acknowledged),
            OPERATION: "" if operation is None else str(operation),
        }
        try:
            check = subprocess.Popen(
                words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(f"--check {words[0]}: {error.strerror}; name a program.") from None
        try:
            told, _ = check.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            return f"the check has not ended within {self.timeout:g} s"
        finally:
            # What the check has started must not look at the next state.
            with suppress(ProcessLookupError):
                os.killpg(check.pid, signal.SIGKILL)
            check.wait()
        if check.returncode == 0:
            return None
        said = told.decode(errors="replace").strip().splitlines()[-LAST_LINES:]
        return f"the check ends with {check.returncode}: {' / '.join(said) or 'without a word'}"

    def _judge_whole(self, crashes: crash_labs.CrashApp, output: int) -> None:
        why: list[str | None] = []
        crashes.show_whole(self.directory, lambda: why.append(self._checked(output, None)))
        if why[0] is not None:
            raise Failed(
                f"without any power cut {why[0]}; mend the check, or the program: the cuts were "
                "not judged."
            )

    def _judge(self, crashes: crash_labs.CrashApp, state: Json) -> None:
        why: list[str | None] = [state["broken"]]
        if state["broken"] is None:
            crashes.show(
                self.directory,
                lambda: why.append(self._checked(state["acknowledged_bytes"], state["operation"])),
            )
        if why[-1] is None:
            return
        size = state["acknowledged_bytes"]
        state["why"] = why[-1]
        state["acknowledged"] = self.output.read_bytes()[:size].decode(errors="replace")
        state["kept"] = None
        if self.keep is not None:
            place = self.keep / f"{state['operation']}.{state['try']}-{size}"
            place.mkdir(parents=True)
            crashes.keep(place / "image")
            (place / "state.json").write_text(json.dumps(state, indent=2) + "\n")
            if state["broken"] is None:
                shutil.copyfile(self.acknowledged, place / "acknowledged")
            state["kept"] = str(place)
        self.failures.append(state)


def _print(result: Json, keep: Path | None) -> None:
    left = result["cuts_left_out"]
    left_out = f", {left:,} left out (--cuts or --at)" if left else ""
    typer.echo(
        f"{result['device_operations']:,} device operations, {result['syncs']:,} syncs, "
        f"{quantity.size(result['output_bytes'])} of output; {result['cuts']:,} cuts that leave "
        f"something new, {result['cuts_judged']:,} of them judged{left_out}"
    )
    typer.echo(
        f"{result['tries']:,} tries of what was in flight ({result['most_in_flight']:,} at most), "
        f"{result['images']:,} different devices, {result['states']:,} states that a program can "
        "tell apart, each checked once"
    )
    failures = result["failures"]
    for state in failures[:SHOWN]:
        _print_failure(state)
    if len(failures) > SHOWN:
        typer.echo(f"… and {len(failures) - SHOWN:,} more; --json has all of them")
    if not failures:
        typer.echo("all are sound")
        return
    first = failures[0]
    again = f"--at {first['operation']}.{first['try']} judges the first alone"
    kept = "--keep DIR writes them as images" if keep is None else f"they are in {keep}"
    typer.echo(f"{len(failures):,} of {result['states']:,} are not sound; {again}; {kept}")


def _print_failure(state: Json, *, err: bool = False) -> None:
    typer.echo(f"{state['operation']}.{state['try']}: {state['place']}", err=err)
    synced = state["synced"] or "nothing was synced"
    syncing = f"; under way: {state['syncing']}" if state["syncing"] else ""
    typer.echo(f"    last answered: {synced}{syncing}", err=err)
    lines = state["acknowledged"].splitlines()
    said = f", the last line {lines[-1]!r}" if lines else ""
    typer.echo(f"    acknowledged: {state['acknowledged_bytes']:,} B of output{said}", err=err)
    typer.echo(f"    {state['why']}", err=err)
