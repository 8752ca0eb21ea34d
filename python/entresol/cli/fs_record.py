"""`entresol fs record` and `entresol fs replay`: a program, recorded and played in virtual time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from entresol import cloning, core, quantity, study
from entresol.cli import serving
from entresol.cli.fs_tables import latencies, overview
from entresol.cli.options import ConfigOption, JsonOption, SetOption
from entresol.core import Json
from entresol.errors import Failed, UserError, did_you_mean
from entresol.interruption import interruptible
from entresol.mounts import Busy, unmount
from entresol.summary import to_text
from entresol.terminal import print_table, wide_console

PLACE = "{}"
"""In the program's words: the directory of the mount."""
MOUNT = "ENTRESOL_MOUNT"
BASELINE = "ext4-like"
DEFAULT = Path("program.rec")
SMALL = (
    "nand.blocks_per_plane=72",
    "nand.pages_per_block=64",
)
"""The flash of ByteFS's device for a recording: its times are none of the recording's business."""


def register(app: typer.Typer) -> None:
    """Adds the commands to `entresol fs`."""
    app.command("record")(record)
    app.command("replay")(replay)


def record(
    program: Annotated[
        list[str],
        typer.Argument(
            metavar="-- PROGRAM...", help="Runs in the file system, whose directory {} stands for."
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The recording.")
    ] = DEFAULT,
    image: Annotated[
        Path | None,
        typer.Option(
            "--image", metavar="IMAGE", help="Begin with a copy of this one, not with a new one."
        ),
    ] = None,
) -> None:
    """Run a program in a file system, write down what it asks for, and print the file's path.

    `mount --record FILE` does so of all programs of a mount.
    """
    place = output.absolute().parent
    if output.is_dir() or not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"{output}: a recording cannot be written there; name another with -o.")
    unfinished = output.with_name(f".{output.name}.unfinished-{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory(prefix="entresol-record-") as scratch:
            _record(Path(scratch), program, image, unfinished)
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)
    print(output)


def _record(scratch: Path, program: Sequence[str], image: Path | None, output: Path) -> None:
    own, directory = scratch / "image", scratch / "mount"
    directory.mkdir()
    if image is None:
        core.device_create(own, "bytefs", (), SMALL)
        core.fs_make(own, {
            "personality": "bytefs", "inodes": None, "uuid": uuid.uuid4().hex,
            "now_ns": time.time_ns(), "uid": os.getuid(), "gid": os.getgid(), "force": False,
        })  # fmt: skip
    else:
        cloning.clone(image, own)
    codes: list[int | OSError] = []
    words = [word.replace(PLACE, str(directory)) for word in program]

    def run(_told: Json) -> None:
        code: int | OSError
        try:
            environment = os.environ | {MOUNT: str(directory)}
            code = subprocess.run(words, env=environment, check=False).returncode
        except OSError as error:
            code = error
        finally:
            try:
                unmount(directory, lazy=False)
            except Busy:
                raise UserError(
                    f"{words[0]}: has left a process that still has files of the recording open; "
                    "record a program that waits for what it starts."
                ) from None
        codes.append(code)

    options: Json = {
        "allow_other": False,
        "writeback": False,
        "read_only": False,
        "real_pace": False,
        "cache_bytes": None,
        "threads": THREADS,
        "record": str(output.absolute()),
    }
    core.fs_mount(own, directory, options, run, serving.say_stopped(own))
    if not codes:  # The mount has ended in order, the program has not.
        raise KeyboardInterrupt
    match codes[0]:
        case OSError() as error:
            raise UserError(f"{words[0]}: {error.strerror}; name a program.") from None
        case 0:
            return
        case code:
            raise Failed(
                f"{words[0]}: ended with exit code {code}; a program is recorded that succeeds."
            )


THREADS = 4
"""That hear the kernel: operations of a program's threads overlap as they do elsewhere."""


def replay(
    recording: Annotated[
        Path, typer.Argument(metavar="RECORDING", help="What `fs record` has written.")
    ],
    personalities: Annotated[
        list[str] | None,
        typer.Option(
            "--personality",
            metavar="NAME|all",
            help="How the file system makes changes durable; all if left out; may be repeated.",
        ),
    ] = None,
    think: Annotated[
        bool, typer.Option("--think", help="Keep the program's own time between operations.")
    ] = False,
    less: Annotated[
        str | None,
        typer.Option(
            "--less",
            metavar="SPAN",
            help="What of each such time is not the program's, but FUSE's.",
        ),
    ] = None,
    between: Annotated[
        str | None,
        typer.Option(
            "--between",
            metavar="NAME,NAME",
            help="Measure what was done between lookups of two names by itself.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="PRESET",
            help="Of bytefs and bytefs-log: bytefs; of others bytefs-cache, without a log.",
        ),
    ] = None,
    scale: Annotated[
        int,
        typer.Option("--scale", metavar="N", help="One in N of memory and flash, not of the load."),
    ] = 64,
    cores: Annotated[int, typer.Option("--cores", metavar="N", help="Of the host.")] = 28,
    cache: Annotated[
        str | None,
        typer.Option("--cache", metavar="SIZE", help="Pages of the host before the scale; 8GiB."),
    ] = None,
    overrides: SetOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play a recorded program on file systems in virtual time, and say what each one gains.

    The same recording gives the same numbers, byte for byte.
    """
    known = core.fs_personalities()
    chosen = known if not personalities or "all" in personalities else personalities
    for name in chosen:
        if name not in known:
            hint = did_you_mean(name, known) or f" There are {', '.join(known)}, or all."
            raise UserError(f"unknown personality {name}.{hint}")
    if less is not None and not think:
        raise UserError("--less: is taken off the program's time; add --think, or leave it out.")
    text = _text_of(recording)
    files = study.read_config_files(config or ())
    results = [
        interruptible(partial(core.fs_replay, str(recording), text, name, device=device,
                              files=files, overrides=tuple(overrides or ()), scale=scale,
                              cores=cores, cache=cache, thinks=think, less=less,
                              between=_names(between)))
        for name in chosen
    ]  # fmt: skip
    _add_gains(results)
    if as_json:
        sys.stdout.write(to_text(results))
        return
    console = wide_console()
    gains = [result["gain_over_ext4_like"] for result in results]
    print_table(console, overview(results, gains))
    for result in results:
        if part := result.get("part"):
            console.print(
                f"{result['conditions']['personality']}, between {between}: "
                f"{quantity.duration(part['virtual_time_ps'])}, recorded in "
                f"{quantity.duration(part['recorded_time_ps'])}; {part['operations']:,} operations "
                f"of {part['threads']} threads",
                highlight=False,
            )
        console.print()
        console.print(f"{result['conditions']['personality']}: operations", highlight=False)
        print_table(console, latencies(result))


def _names(text: str | None) -> tuple[str, str] | None:
    """The two names that an option says."""
    if text is None:
        return None
    first, comma, second = text.partition(",")
    if not (first and comma and second):
        raise UserError(f"--between {text}: write two names with a comma between them.")
    return first, second


def _text_of(recording: Path) -> str:
    try:
        return recording.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{recording}: is not text; a recording is.") from None
    except OSError as error:
        raise UserError(f"{recording}: {error.strerror}; name a recording.") from None


def _add_gains(results: list[Json]) -> None:
    """How many times as fast as the baseline each is, where that was played too."""
    times = {result["conditions"]["personality"]: result["virtual_time_ps"] for result in results}
    base = times.get(BASELINE)
    for result in results:
        took = result["virtual_time_ps"]
        result["gain_over_ext4_like"] = None if base is None or not took else base / took
