"""Runs whose device is a firmware process or an NVMe device, or a recording of one."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from entresol import core
from entresol.atomic import OutputDirectory
from entresol.errors import Failed, Stopped, UserError, did_you_mean
from entresol.execution.point import Point
from entresol.interruption import watched
from entresol.result_types import RunResult

MODELLED = "modelled"
NVME = ("nvme", "opencxd")
"""Devices of their own: ours, and with the commands of OpenCXD's artifact."""
SUFFIX = ".times"
UNFINISHED = "unfinished"
"""In the directory of results: recordings of a command that did not come to its end."""
START_SECONDS = 30.0
STOP_SECONDS = 5.0

Watch = Callable[[Point, core.Progress], None]


@dataclass(frozen=True)
class Device:
    """Where the device's answers come from, if not from the model alone."""

    kind: str
    """`loop`, `nvme`, `opencxd` or `recorded`."""
    place: Path | None
    """Of `loop`: the socket of a firmware process that runs; none is started then. Of `nvme` and
    `opencxd`, which differ in their commands: the device. Of `recorded`: a recording, or a
    directory of them."""
    processor: str
    """The name of a processor, or its TOML."""
    patience: float
    """Seconds that the firmware process has for an answer."""
    drive: core.Drive | None = None
    """The flash of a process that is started; the model of the flash if left out."""


PATIENCE = 10.0
"""Seconds that a firmware process has for an answer, unless told otherwise."""
MEASURED = Device("loop", None, "cortex-a53", PATIENCE)
"""A firmware process that is started for the run."""


def parse(
    text: str,
    processor: str,
    patience: float,
    drive: core.Drive | None = None,
    overwrites: bool = False,
) -> Device | None:
    """What `--device` says; nothing for the model. Raises `UserError`."""
    kind, _, place = text.partition(":")
    if (processor, patience) != (MEASURED.processor, MEASURED.patience) and kind != "loop":
        raise UserError(
            f"--processor and --device-timeout are of a device in the loop; --device is {text}: "
            "leave them out, or write --device loop."
        )
    if kind in NVME:
        return _nvme(kind, place, drive, overwrites)
    if drive is not None and (kind != "loop" or place):
        raise UserError(
            "--drive is behind a firmware process that is started for the run: write --device "
            "loop, or give --drive to `entresol firmware serve`."
        )
    if text == MODELLED:
        return None
    if kind == "loop":
        socket = Path(place) if place else None
        return Device(kind, socket, _processor(processor), patience, drive)
    if kind == "recorded":
        if not place:
            raise UserError("--device recorded: name the recording, as recorded:FILE.")
        return Device(kind, Path(place), processor, patience)
    hint = did_you_mean(kind, (MODELLED, "loop", *NVME, "recorded"))
    raise UserError(
        f"--device {text}: is none.{hint} Write modelled, loop, loop:SOCKET, nvme:PATH, "
        "opencxd:PATH or recorded:FILE."
    )


def _nvme(kind: str, place: str, drive: core.Drive | None, overwrites: bool) -> Device:
    if not place:
        raise UserError(f"--device {kind}: name an NVMe device, as {kind}:/dev/ng0n1.")
    if drive is not None:
        raise UserError(
            f"--drive is behind firmware in the loop; {kind}:{place} has its own flash."
        )
    if not overwrites:
        raise UserError(
            f"--device {kind}:{place}: the run stores into it, and all that is on it is lost: "
            "say --overwrite-device if that is meant."
        )
    return Device(kind, Path(place), MEASURED.processor, MEASURED.patience)


def recorded(folder: Path) -> Device:
    """Recordings of several runs. Raises `UserError`."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such directory.")
    return Device("recorded", folder, MEASURED.processor, MEASURED.patience)


def words(device: str, processor: str, patience: float) -> list[str]:
    """The options that repeat it: names without their places."""
    kind, _, place = device.partition(":")
    options = ["--device", f"{kind}:{Path(place).name}" if place else kind]
    if kind in NVME:
        return [*options, "--overwrite-device"]
    if kind == "recorded":
        return options
    options += ["--processor", Path(processor).name]
    return options if patience == PATIENCE else [*options, "--device-timeout", f"{patience:g}"]


def _processor(text: str) -> str:
    known = core.processors()
    if text in known:
        return text
    path = Path(text)
    if path.suffix != ".toml":
        hint = did_you_mean(text, known) or f" Choose from {', '.join(known)}, or name a .toml."
        raise UserError(f"--processor {text}: is none.{hint}")
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text; a processor is TOML.") from None


@dataclass(frozen=True)
class Outcome:
    """A point's result, and the recording of its device's times if there is one."""

    point: Point
    result: RunResult
    recording: bytes

    @property
    def file_name(self) -> str:
        """What its recording is called."""
        return name_of(self.point)


def name_of(point: Point) -> str:
    """What the recording of a point is called."""
    return recording_name(point.trace.name, point.design)


def recording_name(trace: str, design: str) -> str:
    """What a recording is called."""
    return f"{trace}.{design}{SUFFIX}"


@contextmanager
def kept_recordings(destination: Path | None) -> Iterator[dict[str, bytes]]:
    """Recordings by their names, for runs that end one after the other. Where not all do, those
    that have are written to a directory of their own: measured times cannot be had again."""
    ended: dict[str, bytes] = {}
    try:
        yield ended
    except (KeyboardInterrupt, core.SimulationError) as error:
        if destination is not None and ended:
            folder = destination / UNFINISHED
            with OutputDirectory(folder) as directory:
                for name, recording in ended.items():
                    directory.file(name).write_bytes(recording)
                directory.commit()
            said = f"recordings of the runs that had ended: {folder}"
            if isinstance(error, KeyboardInterrupt):
                raise Stopped(f"interrupted; {said}") from None
            sys.stderr.write(f"{said}\n")
        raise


def execute(
    points: Sequence[Point], device: Device, watch: Watch, ended: dict[str, bytes] | None = None
) -> list[Outcome]:
    """Runs points one after the other; `ended` gets the recording of each that ends. Raises
    `UserError`, `Failed` and errors of the core."""
    runs = [
        core.Run(point.trace.path, point.setup, point.design, point.threads, point.audit)
        for point in points
    ]
    if device.kind == "recorded":
        recordings = [
            read_recording(device, name_of(point), len(points), point.design == "dram-only")
            for point in points
        ]
        fed = []
        for run, point, recording in zip(runs, points, recordings, strict=True):

            def feed(run: core.Run = run, recording: bytes = recording) -> RunResult:
                # DRAM-Only has no device, and no recording of one.
                return run.execute_fed(recording) if recording else run.execute()

            see = partial(_see, run, point, watch)
            fed.append(Outcome(point, watched(feed, see, run.cancel), b""))
        return fed
    if device.kind in NVME:
        # What is refused is refused before anything of the device is lost.
        for run in runs:
            run.check_on_nvme()
    with firmware(device) as place:
        outcomes = []
        for run, point in zip(runs, points, strict=True):

            def go(run: core.Run = run) -> tuple[RunResult, bytes]:
                if device.kind in NVME:
                    return run.execute_on_nvme(place, device.kind)
                return run.execute_in_loop(place, device.processor, device.patience)

            result, recording = watched(go, partial(_see, run, point, watch), run.cancel)
            outcomes.append(Outcome(point, result, recording))
            if ended is not None and recording:
                ended[name_of(point)] = recording
        return outcomes


def _see(run: core.Run, point: Point, watch: Watch) -> None:
    watch(point, run.progress())


def read_recording(device: Device, name: str, count: int, may_lack: bool = False) -> bytes:
    """The recording of this name where the device's are, which may be just one if `count` is;
    nothing where it may be lacking and is. Raises `UserError`."""
    assert device.place is not None, "a recording has a place"
    path = device.place
    if path.is_dir():
        path /= name
        if not path.exists() and may_lack:
            return b""
    elif count > 1:
        raise UserError(
            f"{path}: is one recording, and there are {count} runs; name the directory of a run "
            "with --device loop, or one capture and one design."
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}.") from error


@contextmanager
def leaving_the_processor_of(process: int) -> Iterator[None]:
    """Keeps this thread, and those that it starts, off the processor that firmware has pinned
    itself to: what interrupts it there is in its times."""
    allowed = os.sched_getaffinity(0)
    # One that has died is told of by the run.
    with suppress(ProcessLookupError):
        if rest := allowed - os.sched_getaffinity(process):
            os.sched_setaffinity(0, rest)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextmanager
def firmware(device: Device | None) -> Iterator[Path]:
    """The place of a device; of a firmware process, which is started and stopped if none was named,
    the socket. Nowhere, if there is no device."""
    if device is None:
        yield Path()
        return
    if device.place is not None:
        yield device.place
        return
    with tempfile.TemporaryDirectory(prefix="entresol-") as folder:
        socket = Path(folder) / "firmware"
        command = [sys.executable, "-m", "entresol", "firmware", "serve", str(socket)]
        command += _drive_words(device.drive)
        # It ends with its input, which ends with this process, whatever becomes of it.
        process = subprocess.Popen(
            [*command, "--quiet", "--until-input-ends"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            # A drive is filled first, however long that takes.
            _wait_for(socket, process, START_SECONDS if device.drive is None else None)
            with leaving_the_processor_of(process.pid):
                yield socket
        except core.SimulationError as error:
            said = _last_words(process)
            if not said:
                raise
            raise core.SimulationError(f"{error}; it said: {said}") from error
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdin is not None and process.stderr is not None, "they were asked for"
            process.stdin.close()
            process.stderr.close()


def _last_words(process: subprocess.Popen[bytes]) -> str:
    """What a process has said that has ended, or is about to; nothing of one that lives."""
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        return ""
    assert process.stderr is not None, "it was asked for"
    return " ".join(process.stderr.read().decode(errors="replace").split())


def _drive_words(drive: core.Drive | None) -> list[str]:
    if drive is None:
        return []
    words = ["--drive", str(drive.path)]
    words += [] if drive.size is None else ["--drive-size", drive.size]
    return [*words, "--overwrite-device"] if drive.overwrites_device else words


def _wait_for(socket: Path, process: subprocess.Popen[bytes], seconds: float | None) -> None:
    end = math.inf if seconds is None else time.monotonic() + seconds
    while not socket.exists():
        if process.poll() is not None:
            said = _last_words(process) or "no reason"
            raise Failed(f"the firmware process ended before it listened: {said}")
        if time.monotonic() > end:
            raise Failed(
                f"the firmware process does not listen after {seconds:.0f} s; start one with "
                "`entresol firmware serve SOCKET` and name it as --device loop:SOCKET."
            )
        time.sleep(0.02)
