"""`entresol mount` and `entresol umount`: file systems that programs use."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from entresol import core, mounts, quantity, units
from entresol.choices import Pace
from entresol.cli import serving
from entresol.core import Json
from entresol.errors import Failed, UserError, did_you_mean

OPTIONS = ("allow_other", "writeback", "ro", "dev", "suid")
OF_ROOT = ("dev", "suid")
"""Options that root gives only: others' helper would leave them out without a word."""
DATA = "data="
DATA_MODES = ("ordered", "journal")
"""What survives as a whole: lines and pages, or each write."""
DAX = "dax="
DAX_MODES = ("off", "auto", "explicit", "always")
"""Which ranges of files go to the device's persistent memory when they are synced: none; those that
are synced often, and those that programs ask for; these alone; all."""
DAX_NUMBERS = ("dax_upgrade=", "dax_downgrade=", "dax_after=", "dax_order=", "dax_reserve=")
"""The thesis's U, D, F and G, and a share of the memory; the core says what they may be."""
DAX_AT = "dax_at="
DAX_PLACES = ("window", "log")
"""What of the device is persistent memory; the window, or the log where that alone is safe."""
DAX_POLICY = "dax_policy="
DAX_POLICIES = ("ratio", "predict", "adaptive")
END_SECONDS = 600
"""Within which a server has written everything, or something is wrong with it."""

LEAST_CACHE = 256 << 20
CACHE_SHARE = 16
"""Of the memory, so small a part: a quarter of that may be dirty before writers wait."""
MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""What a control group may have, in both versions."""

DirectoryArgument = Annotated[
    # Not whether it may be read: of a killed server's mount that is no answer.
    Path,
    typer.Argument(metavar="DIR", readable=False, help="Where the file system is mounted."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("mount")(mount_command)
    app.command("umount")(umount_command)


def mount_command(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="What `mkfs` was made on.")],
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", readable=False, help="An empty directory, or one to be made."
        ),
    ],
    pace: Annotated[
        Pace, typer.Option("--pace", help="Whether programs wait for the device's time.")
    ] = Pace.NONE,
    daemon: Annotated[
        bool,
        typer.Option("--daemon", help="Return when it is mounted, and serve in the background."),
    ] = False,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            metavar="allow_other,writeback,ro,dev,suid,data=journal,dax=auto",
            help="Let other users in; let the kernel gather writes; change nothing; let device "
            "files and set-ID bits count; have each write survive as a whole; sync to the device's "
            "persistent memory.",
        ),
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option(
            "--cache",
            metavar="SIZE",
            help="Pages of files kept in memory, else a sixteenth of it, at least 256MiB.",
        ),
    ] = None,
    blocks_from: Annotated[
        str | None,
        typer.Option(
            "--blocks-from",
            metavar="SHARE",
            help="Share of changed lines from which a page is written whole, else 1/8.",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option("--threads", metavar="N", min=1, max=64, help="That hear the kernel."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record", metavar="FILE", help="Write down what programs ask for, for fs replay."
        ),
    ] = None,
    dax_trace: Annotated[
        Path | None,
        typer.Option(
            "--dax-trace", metavar="FILE", help="Write down what dax=auto judges and decides."
        ),
    ] = None,
    background: Annotated[bool, typer.Option("--in-background", hidden=True)] = False,
) -> None:
    """Mount the file system on an image, in one process with the device, until it is unmounted.

    In the foreground Ctrl-C, SIGTERM and the end of its terminal unmount it too.
    """
    serving.refuse_address(image, "mounted")
    wanted = _read_options(options or ())
    wanted |= {
        "real_pace": pace is Pace.REAL,
        "cache_bytes": usual_cache(_memory()) if cache is None else units.size_of(cache, "--cache"),
        "blocks_from": None
        if blocks_from is None
        else units.share_of(blocks_from, "--blocks-from"),
        "threads": threads,
        "record": None if record is None else str(_new_record(record, "--record")),
        "dax_trace": None if dax_trace is None else str(_new_record(dax_trace, "--dax-trace")),
    }
    if dax_trace is not None and not wanted.get("dax"):
        raise UserError("--dax-trace: there is nothing to be written down; add -o dax=auto.")
    if daemon:
        _start_daemon(sys.argv[1:])
        return
    say = _Saying(image, bool(wanted["allow_other"]), background)
    with _there(directory), serving.ends_with_its_terminal():
        served = core.fs_mount(image, directory, wanted, say.mounted, serving.say_stopped(image))
    if not background:
        typer.echo(_report(served))
        if served["is_open"]:
            still = f"{directory}: files were still open; whoever has them open gets errors now"
            typer.echo(still, err=True)


def usual_cache(memory: int) -> int:
    """Bytes of files' pages that a server keeps unless told."""
    return max(LEAST_CACHE, memory // CACHE_SHARE)


def _memory() -> int:
    """Bytes that this process may have: the machine's, or fewer in a control group."""
    bytes_of = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for limit in MEMORY_LIMITS:
        try:
            bytes_of.append(int(limit.read_text()))
        except (OSError, ValueError):  # There is no such limit, or it is "max".
            continue
    return min(bytes_of)


def _new_record(path: Path, name: str) -> Path:
    """Where a recording goes; from the root on, for a server in the background is elsewhere."""
    if path.exists() or path.is_symlink():
        raise UserError(f"{name} {path}: is there already; name a file that is not there.")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{name} {path}: {path.parent} is no directory; make it, or name another.")
    if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        raise UserError(f"{name} {path}: nothing of yours can be made there; name another place.")
    return path.absolute()


@contextmanager
def _there(directory: Path) -> Iterator[None]:
    """Makes a directory that is not there; it goes again if nothing was mounted at it."""
    try:
        directory.mkdir()
    except PermissionError as error:
        raise UserError(
            f"{directory}: cannot be made: {error.strerror}; name one where you may write."
        ) from None
    except OSError:  # It is there, or cannot be: the core says what is wrong with it.
        yield
        return
    try:
        yield
    except Exception:
        directory.rmdir()
        raise


def _read_options(texts: Sequence[str]) -> Json:
    wanted: Json = {_told(word): False for word in OPTIONS}
    known = (
        *OPTIONS,
        *(f"{name}N" for name in DAX_NUMBERS),
        *(f"{DATA}{mode}" for mode in DATA_MODES),
        *(f"{DAX}{mode}" for mode in DAX_MODES),
        *(f"{DAX_AT}{name}" for name in DAX_PLACES),
        *(f"{DAX_POLICY}{name}" for name in DAX_POLICIES),
    )
    settings: Json = {}
    place = None
    for word in (word for text in texts for word in text.split(",")):
        if number := next((name for name in DAX_NUMBERS if word.startswith(name)), None):
            settings[number.removeprefix("dax_").removesuffix("=")] = str(_number(word, number))
            continue
        if word not in known:
            listed = f"known are {', '.join(known)}."
            raise UserError(f"-o {word}: is no option; {listed}{did_you_mean(word, known)}")
        if word.startswith(DATA):
            wanted["data"] = word.removeprefix(DATA)
            continue
        if word.startswith(DAX_AT):
            place = word.removeprefix(DAX_AT)
            continue
        if word.startswith(DAX_POLICY):
            settings["policy"] = word.removeprefix(DAX_POLICY)
            continue
        if word.startswith(DAX):
            mode = word.removeprefix(DAX)
            wanted["dax"] = None if mode == "off" else {"mode": mode, "set": settings}
            continue
        if word in OF_ROOT and os.geteuid() != 0:
            raise UserError(f"-o {word}: is for root; leave it out.")
        wanted[_told(word)] = True
    if wanted["writeback"] and wanted.get("data") == "journal":
        raise UserError(
            "-o writeback,data=journal: the kernel would take writes apart; leave one of them out."
        )
    dax_mode = (wanted.get("dax") or {}).get("mode")
    if place is not None:
        if dax_mode is None:
            raise UserError("-o dax_at: says where dax is; add dax=auto, or leave it out.")
        wanted["dax"]["at"] = place
    if settings.keys() - {"reserve"} and dax_mode != "auto":
        raise UserError("-o dax_…: says how dax=auto decides; add dax=auto, or leave it out.")
    if settings and dax_mode is None:
        raise UserError("-o dax_reserve: keeps memory of dax; add dax=auto, or leave it out.")
    return wanted


def _number(word: str, name: str) -> int:
    """The number behind a name."""
    text = word.removeprefix(name)
    if not text.isdecimal() or len(text) > 9:
        raise UserError(
            f"-o {word}: {name} takes a whole number of at most 9 digits, as in {name}5."
        )
    return int(text)


def _told(word: str) -> str:
    """An option as the core has it."""
    return "read_only" if word == "ro" else word


@dataclass(frozen=True)
class _Saying:
    """What a server says of itself."""

    image: Path
    for_others: bool
    in_background: bool

    def mounted(self, told: Json) -> None:
        """It is mounted."""
        place = told["directory"]
        if told["mended"]:
            typer.echo(f"{place}: a killed server's mount is taken away", err=True)
        audience = "all users of this machine" if self.for_others else "programs of this user"
        end = f"entresol umount {place} ends it" if self.in_background else "Ctrl-C unmounts it"
        free = f"{quantity.size(told['free_bytes'])} of {quantity.size(told['size_bytes'])} free"
        typer.echo(f"{self.image}: mounted at {place}, {free}, for {audience}; {end}")
        sys.stdout.flush()
        if self.in_background:
            sys.stderr.flush()
            # Nobody reads on: who started this has gone.
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (1, 2):
                os.dup2(nothing, stream)
            os.close(nothing)


def _report(served: Json) -> str:
    requests = serving.many(served["requests"], "request")
    clock = quantity.duration(served["device_clock_ps"])
    return (
        f"served {requests}; {served['errors']:,} failed; the device's clock is at {clock}"
        f"{serving.lag(served['lag'])}; everything written is in the image"
    )


def _start_daemon(words: Sequence[str]) -> None:
    """Starts the same command as a process of its own, and returns when it has mounted."""
    same = [word for word in words if word != "--daemon"]
    if "mount" not in same:  # Called from Python, not from a shell.
        raise UserError("--daemon: works from the command line only; leave it out.")
    child = subprocess.Popen(
        [sys.executable, "-m", "entresol", *same, "--in-background"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdout is not None and child.stderr is not None, "they are pipes"
    try:
        line = child.stdout.readline().decode()
        said = child.stderr.read().decode() if not line else ""
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise
    if line:
        typer.echo(line, nl=False)
        return
    sys.stderr.write(said)
    raise typer.Exit(child.wait() or 1)


def umount_command(
    directory: DirectoryArgument,
    lazy: Annotated[
        bool,
        typer.Option("--lazy", help="Hide it at once; it ends when the last open file is closed."),
    ] = False,
) -> None:
    """Unmount a file system, and return when everything is in its image and that is free."""
    place = mounts.absolute(directory, mounts.DIRECTORY)
    if mounts.is_dead(place):
        mounts.unmount(place, lazy=True)
        typer.echo(f"{place}: a killed server's mount is taken away")
        return
    place = place.resolve()
    told = mounts.at(place).stats()
    # A server that an earlier version started says less.
    gone, record = told.get("removed"), told.get("record")
    if gone is not None and not lazy:
        raise Failed(
            f"{place}: {gone} was removed, so everything in the file system is lost once it is "
            "unmounted; copy what you need out of it, then give --lazy."
        )
    server = _process(told["server_pid"])
    failure = _last_sync(place)
    mounts.unmount(place, lazy=lazy)
    if gone is not None:
        failure = f"everything in the file system is lost, since {gone} was removed."
    elif failure is not None:
        failure = f"what was written since the last sync may be lost: {failure}"
    elif lazy:
        typer.echo(f"{place}: its server ends when the last open file is closed")
        return
    elif server is not None and not _has_ended(server):
        failure = (
            f"its server, process {told['server_pid']}, still works after {END_SECONDS} s; "
            "look at it."
        )
    elif server is not None and record is not None and not Path(record).exists():
        failure = f"its recording could not be written to {record}."
    if failure is not None:
        raise Failed(f"{place}: is unmounted, and {failure}")


def _last_sync(place: Path) -> str | None:
    """Has everything be in the image, and why it cannot be: a server in the background has nobody
    to tell what went wrong at its end."""
    try:
        mounts.at(place).sync()
    except OSError as error:
        return mounts.at(place).stats()["failed"] or f"{error.strerror}."
    return None


def _process(number: int) -> int | None:
    try:
        return os.pidfd_open(number)
    except OSError:  # It has ended, or it is in another container.
        return None


def _has_ended(process: int) -> bool:
    waiting = select.poll()
    waiting.register(process, select.POLLIN)
    has_ended = bool(waiting.poll(END_SECONDS * 1000))
    os.close(process)
    return has_ended
