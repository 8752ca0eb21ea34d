"""Captures of the programs, made once: kept by the content of all that decides them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from entresol import core, locks, quantity
from entresol import qemu_capture as recorder
from entresol.core import Json
from entresol.digest import file_digest
from entresol.errors import Failed, UserError
from entresol.store.location import store_directory
from entresol.workload import catalogue

SCALES = ("small", "paper")
THREADS = 8
_HEADROOM = 256 << 20
"""Memory of the emulator and the recorder beside the program's own."""
_NEEDED_AT_LEAST = 64 << 20


@dataclass(frozen=True)
class Wanted:
    """What to capture. `None`: as the scale says."""

    name: str
    threads: int = THREADS
    scale: str = "small"
    footprint: int | None = None
    """Bytes."""
    seed: int = 1
    work: int | None = None


@dataclass(frozen=True)
class Recording:
    """A capture in the store."""

    path: Path
    footprint: int
    """Bytes of all the program's data, whether the capture touches them or not."""
    said: str
    """The program's line about its checked result."""
    made: bool
    """Whether it was made now, not found."""


def capture(
    name: str,
    threads: int = THREADS,
    scale: str = "small",
    *,
    footprint: int | None = None,
    seed: int = 1,
    work: int | None = None,
    store: Path | str | None = None,
) -> Path:
    """The capture of a program, made if it is not in the store yet.

    Args:
        name: A program of Table I, such as `ycsb`; `entresol.workload.programs()` has all.
        threads: In the region of interest, from 1.
        scale: `small`, a sixteenth of Table I's data, or `paper`.
        footprint: Bytes of all data; as the scale says if left out.
        seed: What data and choices are drawn from, from 0.
        work: In the region, in the program's own unit (`Program.work_unit`); as the scale says if
            left out.
        store: The directory of captures and results; the usual one if left out.

    Returns:
        The file of the capture, in the store.

    Raises:
        UserError: The program cannot run so, or tools are missing.
        Failed: Its result is wrong, or the store cannot be written.
    """
    if store is not None and not isinstance(store, str | Path):
        raise UserError(f"store: {store} is no directory; leave it out for the usual one.")
    directory = None if store is None else Path(store)
    return record(Wanted(name, threads, scale, footprint, seed, work), directory).path


def record(wanted: Wanted, store: Path | None = None) -> Recording:
    """As `capture`, with what is known about it.

    Raises `UserError` where the program cannot run so, `Failed` where its result is wrong.
    """
    if wanted.scale not in SCALES:
        raise UserError(f"--scale {wanted.scale}: is {' or '.join(SCALES)}.")
    if wanted.footprint is not None and wanted.footprint < 1:
        raise UserError(f"--footprint {wanted.footprint}B: give a size above 0.")
    (program,) = catalogue.choose([wanted.name])
    words = _words(program, wanted)
    tools = recorder.tools()
    key = _key(tools, words)
    captures = store_directory(store) / "captures"
    place = captures / key
    if (found := _found(place, program.name)) is not None:
        return found
    _check_place(captures)
    with locks.alone(captures / f".{key}.lock"):
        if (found := _found(place, program.name)) is not None:
            return found
        _make(tools, program.name, words, place)
    made = _found(place, program.name)
    if made is None:
        raise Failed(f"{place}: the capture vanished as it was made; try again.")
    return Recording(made.path, made.footprint, made.said, True)


def _check_place(captures: Path) -> None:
    """Raises `UserError` if no capture could be written, before minutes go into making one."""
    try:
        captures.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=captures) as probe:
            probe.write(bytes(1 << 16))
            probe.flush()
    except OSError as error:
        raise UserError(f"{captures}: cannot be written: {error.strerror}.") from error


def _words(program: catalogue.Program, wanted: Wanted) -> list[str]:
    small = wanted.scale == "small"
    footprint = program.small_footprint_bytes if small else program.footprint_bytes
    work = program.small_work if small else program.paper_work
    values = {
        "footprint": footprint if wanted.footprint is None else wanted.footprint,
        "threads": wanted.threads,
        "seed": wanted.seed,
        "work": work if wanted.work is None else wanted.work,
    }
    values_in_words = {**values, "footprint": f"{values['footprint']}B"}
    return [program.name, *(w for k, v in values_in_words.items() for w in (f"--{k}", str(v)))]


def _key(tools: recorder.Tools, words: list[str]) -> str:
    """The name of a capture: the digest of all that decides it."""
    inputs = {
        "program": file_digest(catalogue.binary()),
        "recorder": file_digest(tools.plugin),
        "emulator": tools.version,
        "cpu": recorder.CPU,
        "arguments": words,
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:32]


def _found(place: Path, name: str) -> Recording | None:
    """What is there and whole, noting that it was of use; none else, so that it is made anew."""
    path = place / f"{name}.etr"
    try:
        about = json.loads((place / "about.json").read_text())
        core.trace_info(path, blocks=False)
        with suppress(OSError):  # A store that may only be read is of use all the same.
            os.utime(place / "about.json")
        return Recording(path, int(about["footprint"]), str(about["said"]), False)
    except (OSError, ValueError, KeyError, TypeError, core.TraceError):
        return None


def _make(tools: recorder.Tools, name: str, words: list[str], place: Path) -> None:
    footprint = int(words[words.index("--footprint") + 1].removesuffix("B"))
    _check_memory(name, footprint)
    prefix = f".new-{place.name}-"
    for abandoned in place.parent.glob(f"{prefix}*"):  # Its maker was killed.
        shutil.rmtree(abandoned, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=prefix, dir=place.parent))
    try:
        said = _run(tools, words, staging / f"{name}.etr")
        about: Json = {"arguments": words, "footprint": footprint, "said": said}
        (staging / "about.json").write_text(json.dumps(about, indent=1) + "\n")
        # What an earlier Entresol could not read gives way.
        shutil.rmtree(place, ignore_errors=True)
        staging.rename(place)
    except OSError as error:
        raise Failed(f"{place}: cannot be written: {error.strerror}.") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _run(tools: recorder.Tools, words: list[str], output: Path) -> str:
    window = recorder.Window(roi=True, skip=None, limit=None, quiet=True)
    command = tools.command(output, window, [str(catalogue.binary()), *words])
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode == 0 and output.exists():
        return ended.stdout.strip()
    sentence = _sentence(ended.stderr) or f"ended with status {ended.returncode}"
    if ended.returncode == 2:
        raise UserError(f"{words[0]}: {sentence}.")
    raise Failed(f"{words[0]}: {sentence}; no capture was made.")


def _sentence(told: str) -> str:
    """What the program itself said last, else the last line there is; without its full stop."""
    lines = told.strip().splitlines()
    head = f"{catalogue.BINARY}: "
    own = [line.removeprefix(head) for line in lines if line.startswith(head)]
    return (own or lines or [""])[-1].rstrip(".")


def _check_memory(name: str, footprint: int) -> None:
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                available = int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    if footprint > _NEEDED_AT_LEAST and footprint + _HEADROOM > available:
        raise UserError(
            f"{name}: needs {quantity.size(footprint)} of memory and {quantity.size(available)} "
            "are free; give a smaller --footprint."
        )
