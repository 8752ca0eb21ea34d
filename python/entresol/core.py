"""The seam: every name of the Rust core that Python uses, with JSON turned into values.

No other module but `crash_labs` imports `entresol._core`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

from entresol import _core
from entresol.drive import Drive as Drive
from entresol.errors import UserError
from entresol.known_types import Design as Design
from entresol.known_types import DevicePreset as DevicePreset
from entresol.known_types import FsLoad as FsLoad
from entresol.known_types import LogIndex as LogIndex
from entresol.known_types import Parameter as Parameter
from entresol.known_types import Preset as Preset
from entresol.known_types import Switch as Switch
from entresol.result_types import Config as Config
from entresol.result_types import Recorded, RunResult, WindowResult
from entresol.trace_types import SLOWDOWN_MILLI as SLOWDOWN_MILLI
from entresol.trace_types import ForeignPart as ForeignPart
from entresol.trace_types import ForeignReading as ForeignReading
from entresol.trace_types import TraceFormat as TraceFormat

EntresolError = _core.EntresolError
TraceError = _core.TraceError
ConfigError = _core.ConfigError
CrashError = _core.CrashError
SimulationError = _core.SimulationError
Interrupted = _core.Interrupted
ImageError = _core.ImageError
DeviceError = _core.DeviceError

Json = dict[str, Any]
"""An object as the core writes it."""

Answer = TypeVar("Answer")
SharedDevice = _core.SharedDevice
"""A device that another process serves; calls raise `DeviceError`. `entresol.device` wraps it."""

Listening = Callable[[Json], None]
"""Is told where a server listens, for whom, and what it serves."""


@dataclass(frozen=True)
class Setup:
    """What is run on: everything that decides the effective configuration, save the design.

    `files` are names and texts of TOML files, in order. `fidelity` is `paper`, `artifact` or a
    list of switches. `mode` is how cores are simulated: `detailed` or `fast`.
    """

    machine: str
    nand: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    overrides: tuple[str, ...] = ()
    fidelity: str = "paper"
    mode: str = "detailed"


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    phase: str
    instructions: int
    total: int
    simulated_ps: int


class Run:
    """One capture on one design. Making it checks everything; nothing runs before `execute`."""

    def __init__(
        self, trace: Path, setup: Setup, design: str, threads: int | None, audit: bool
    ) -> None:
        self.native = self._run = _core.Run(
            str(trace),
            setup.machine,
            design,
            setup.nand,
            setup.fidelity,
            list(setup.files),
            list(setup.overrides),
            threads,
            audit,
            setup.mode,
        )

    def execute(self) -> RunResult:
        """Simulates, with the interpreter lock released. Raises `Interrupted` after `cancel`, and
        `SimulationError` when the machine is stuck or breaks one of its invariants."""
        return cast(RunResult, executed(self._run.execute))

    def execute_in_loop(
        self, socket: Path, processor: str, patience: float
    ) -> tuple[RunResult, bytes]:
        """As `execute`, with a firmware process as the device, which has `patience` seconds for an
        answer; also the recording of its times. Raises `SimulationError` if it misbehaves."""
        looped = _in_loop(partial(_core.execute_in_loop, self._run), socket, processor, patience)
        return cast(tuple[RunResult, bytes], looped)

    def check_on_nvme(self) -> None:
        """Raises `ConfigError` if no NVMe device can be the device of this run."""
        _core.check_on_nvme(self._run)

    def execute_on_nvme(self, path: Path, dialect: str) -> tuple[RunResult, bytes]:
        """As `execute`, with an NVMe device as the device, whose contents are lost; also the
        recording of what it said. Raises `UserError` and `SimulationError` if it is none."""
        text, recording = _guarded(lambda: _core.execute_on_nvme(self._run, str(path), dialect))
        return cast(RunResult, object_of(text)), recording

    def execute_fed(self, recording: bytes) -> RunResult:
        """As `execute`, with the recorded times of a run in the loop."""
        return cast(RunResult, executed(lambda: _core.execute_fed(self._run, recording)))

    def check_windows(self, count: int, instructions: int) -> None:
        """Raises `TraceError` if so many windows of such a length do not fit in the capture."""
        self._run.check_windows(count, instructions)

    def execute_windows(self, count: int, instructions: int) -> list[WindowResult]:
        """Measures evenly spaced windows, each after functional warm-up; raises as `execute`."""
        windows = json.loads(_guarded(lambda: self._run.execute_windows(count, instructions)))
        assert isinstance(windows, list), "the core promises a list"
        return windows

    def page_locality(self, ratios: Sequence[int]) -> Json:
        """How much of each page the program uses while it is in a page cache of the footprint
        divided by a ratio, behind the CPU's caches (SkyByte Figures 5 and 6); functional, the whole
        capture. Raises `Interrupted` after `cancel`."""
        return executed(lambda: self._run.page_locality(list(ratios)))

    def execute_recorded(self, span: tuple[int, int], limit: int, slowest: int) -> Recorded:
        """Runs and gives what happened in a span of picoseconds, at most `limit` records of a
        kind, and the slowest reads; raises as `execute`."""
        both = _guarded(lambda: self._run.execute_recorded(span, limit, slowest))
        result, recorded = json.loads(both)
        assert isinstance(recorded, dict), "the core promises an object"
        of_run = {name: result[name] for name in ("execution_time_ps", "warnings")}
        return cast(Recorded, recorded | of_run)

    def progress(self) -> Progress:
        """May be called from any thread at any time."""
        return Progress(*self._run.progress())

    def cancel(self) -> None:
        """Makes `execute`, running or to come, raise `Interrupted` soon."""
        self._run.cancel()


def processors() -> list[str]:
    """Names of the processors that firmware in the loop can be timed for."""
    return _core.processors()


def serve_firmware(socket: Path, runs: int | None, drive: Drive | None, tell: Listening) -> None:
    """Is the device of runs in the loop, one after the other; `tell` hears that a drive is being
    filled, that it listens, and what each run was given. Raises `ConfigError` if the drive can be
    none, `SimulationError` if it cannot listen there."""
    behind = None
    if drive is not None:
        behind = (str(drive.path), drive.size, drive.overwrites_device)
    _core.serve_firmware(str(socket), runs, behind, lambda report: tell(json.loads(report)))


def misses_key(run: Run) -> str:
    """The name of a run's file of misses: a digest of all that decides it."""
    return _core.misses_key(run.native)


Windows = tuple[int, int, int, int, int]
"""Of a steady state: where they begin, how many, by which thousandths later, instructions before
and in each."""


def check_steady(run: Run, designs: Sequence[str], windows: Windows) -> None:
    """Raises `ConfigError` if one of the designs can reach no steady state on the run's settings,
    `TraceError` if windows do not fit into the run."""
    _core.check_steady(run.native, list(designs), windows)


def write_misses(run: Run, path: Path) -> None:
    """Writes a run's file of misses; raises as `execute`, and `TraceError` if it cannot be."""

    def write() -> str:
        _core.write_misses(run.native, str(path))
        return ""

    _guarded(write)


def execute_steady(run: Run, misses: str, looks: int, windows: Windows) -> Json:
    """Lives through a file of misses and measures windows on the way. Raises as `execute`."""
    return executed(lambda: _core.execute_steady(run.native, misses, looks, windows))


class Replay:
    """A workload on a device alone. Making it checks everything; nothing runs before `execute`."""

    def __init__(
        self,
        name: str,
        workload: Sequence[tuple[str, str]],
        setup: Setup,
        design: str,
        audit: bool,
    ) -> None:
        self._replay = _core.Replay(
            name,
            list(workload),
            setup.machine,
            design,
            setup.nand,
            setup.fidelity,
            list(setup.files),
            list(setup.overrides),
            audit,
        )

    def execute(self) -> Json:
        """As `Run.execute`."""
        return executed(self._replay.execute)

    def execute_in_loop(self, socket: Path, processor: str, patience: float) -> tuple[Json, bytes]:
        """As `Run.execute_in_loop`."""
        return _in_loop(partial(_core.replay_in_loop, self._replay), socket, processor, patience)

    def execute_fed(self, recording: bytes) -> Json:
        """As `Run.execute_fed`."""
        return executed(lambda: _core.replay_fed(self._replay, recording))

    def progress(self) -> tuple[int, int]:
        """Requests completed and simulated picoseconds; from any thread at any time."""
        return self._replay.progress()

    def cancel(self) -> None:
        """As `Run.cancel`."""
        self._replay.cancel()


class DeviceWatch:
    """Looks at an image whose device may be at work, again and again."""

    def __init__(self, image: Path) -> None:
        self._watch = _core.DeviceWatch(str(image))

    def look(self) -> Json:
        """As `device_info`, and `recent`: latencies since the last look. Raises `ImageError`."""
        return object_of(self._watch.look())


def fs_loads() -> list[FsLoad]:
    """The loads of file systems that ship with Entresol."""
    return [FsLoad(**entry) for entry in json.loads(_core.fs_loads())]


def fs_personalities() -> list[str]:
    """The ways in which a file system of ours makes changes durable."""
    return _core.fs_personalities()


def fs_bench(
    load: str,
    personality: str,
    *,
    text: str | None = None,
    device: str | None = None,
    files: Sequence[tuple[str, str]] = (),
    overrides: Sequence[str] = (),
    scale: int = 64,
    seed: int = 1,
    cores: int = 28,
    threads: int | None = None,
    cache: str | None = None,
) -> Json:
    """Runs a load of file systems in virtual time. `text` is that of a file that `load` names.

    Raises `ConfigError`, and `SimulationError` where the file system refuses an operation.
    """
    return object_of(_guarded(lambda: _core.fs_bench(
        load, text, personality, device, list(files), list(overrides), scale, seed, cores, threads,
        cache)))  # fmt: skip


def fs_bench_memory(
    load: str,
    personality: str,
    *,
    text: str | None = None,
    device: str | None = None,
    files: Sequence[tuple[str, str]] = (),
    overrides: Sequence[str] = (),
    scale: int = 64,
    cache: str | None = None,
) -> int:
    """About the most memory, in bytes, that `fs_bench` takes. Raises `ConfigError`."""
    return _core.fs_bench_memory(load, text, personality, device, list(files), list(overrides),
                                 scale, cache)  # fmt: skip


def fs_replay(
    name: str,
    text: str,
    personality: str,
    *,
    device: str | None = None,
    files: Sequence[tuple[str, str]] = (),
    overrides: Sequence[str] = (),
    scale: int = 64,
    cores: int = 28,
    cache: str | None = None,
    thinks: bool = False,
    less: str | None = None,
    between: tuple[str, str] | None = None,
    decides: bool = False,
    clients: Json | None = None,
) -> Json:
    """Plays a recording, whose file has this name, in virtual time. With `thinks` threads take the
    program's time between operations, but for `less` of each such time; `between` are two names,
    and what was done between lookups of them is measured by itself. With `decides` the result has
    what transparent DAX has judged and decided. With `clients` the requests of so many are played
    instead of what lies between the names.

    Raises `ConfigError`, and `SimulationError` where an operation has another outcome than it had.
    """
    of_clients = None if clients is None else json.dumps(clients)
    return object_of(_guarded(lambda: _core.fs_replay(
        name, text, personality, device, list(files), list(overrides), scale, cores, cache,
        thinks, less, between, decides, of_clients)))  # fmt: skip


def _in_loop(
    execute: Callable[[str, str, int], tuple[str, bytes]],
    socket: Path,
    processor: str,
    patience: float,
) -> tuple[Json, bytes]:
    milliseconds = max(1, round(patience * 1000))
    text, recording = _guarded(lambda: execute(str(socket), processor, milliseconds))
    return object_of(text), recording


def executed(execute: Callable[[], str]) -> Json:
    """What the core gives as JSON. Raises `SimulationError` where an invariant is broken."""
    return object_of(_guarded(execute))


def _guarded(work: Callable[[], Answer]) -> Answer:
    try:
        return work()
    except BaseException as error:
        # A failed assertion in Rust: PyO3 derives it from BaseException and exports no name.
        if type(error).__name__ == "PanicException":
            raise SimulationError(f"an invariant is broken: {error}") from error
        raise


def version() -> str:
    """Version of Entresol."""
    return _core.version()


def library() -> Path:
    """The file of the core that this process runs."""
    assert _core.__file__ is not None, "the core is a file"
    return Path(_core.__file__)


def trace_info(path: Path, *, blocks: bool = True) -> Json:
    """What a capture holds; without `blocks` not what ran most. Raises `TraceError`."""
    return object_of(_core.trace_info(str(path), blocks))


def trace_head(path: Path, thread: int, count: int) -> list[str]:
    """The first instructions of a thread as text. Raises `TraceError`."""
    return _core.trace_head(str(path), thread, count)


def trace_formats() -> list[TraceFormat]:
    """All formats of traces that captures can be made from or turned into."""
    return [TraceFormat(**entry) for entry in json.loads(_core.trace_formats())]


def trace_format(path: Path, named: str | None) -> str:
    """The format of a trace: the one named, or what its content tells. Raises `TraceError`."""
    return _core.trace_format(str(path), named)


def trace_import(
    path: Path, destination: Path, reading: ForeignReading, warms: Path | None = None
) -> list[str]:
    """Makes a capture from a foreign trace; what had to be assumed. Raises `TraceError`.

    `warms` are accesses (pinatrace) that come before a MacSim trace and are never measured.
    """
    return _core.trace_import(
        str(path),
        trace_format(path, reading.format),
        str(destination),
        reading.dependencies,
        reading.slowdown_milli,
        None if warms is None else str(warms),
    )


def trace_export(trace: Path, format: str, destination: Path, part: ForeignPart) -> list[str]:
    """Writes a capture in another format; what was left out. Raises `TraceError`."""
    return _core.trace_export(
        str(trace),
        format,
        str(destination),
        part.skip,
        part.limit,
        part.thread,
        part.slowdown_milli,
    )


def designs() -> list[Design]:
    """All designs, in the order of reports."""
    return [Design(**entry) for entry in json.loads(_core.designs())]


def machines() -> list[Preset]:
    """All machine presets."""
    return [Preset(**entry) for entry in json.loads(_core.machines())]


def nand_types() -> list[Preset]:
    """All NAND types."""
    return [Preset(**entry) for entry in json.loads(_core.nand_types())]


def fidelity_switches() -> list[Switch]:
    """All fidelity switches, in the order of the pages."""
    return [
        Switch(
            entry["name"],
            entry["title"],
            entry["summary"],
            entry["source"],
            tuple(entry["nand_types"]),
            tuple((key, value) for key, value in entry["sets"]),
        )
        for entry in json.loads(_core.fidelity_switches())
    ]


def fidelity_names(text: str) -> list[str]:
    """The switches that a fidelity text turns on. Raises `ConfigError`."""
    return _core.fidelity_names(text)


def parameters() -> list[Parameter]:
    """All parameters, by section in the order of declaration."""
    return [Parameter(**entry) for entry in json.loads(_core.parameters())]


def renamed_parameters() -> Mapping[str, str]:
    """Keys that parameters once had, each with the one that it has now."""
    return MappingProxyType(json.loads(_core.renamed_parameters()))


def check_renamed(key: str, where: str = "") -> None:
    """Raises `UserError`, which begins with `where`, for a key that has another name now."""
    if key in (renamed := renamed_parameters()):
        raise UserError(f"{where}{key} is called {renamed[key]} now; write that.")


def with_names_of_now(config: Config) -> Config:
    """A configuration that an older version wrote, each parameter under the name it has now."""
    found: Config = {}
    renamed = renamed_parameters()
    for section, values in config.items():
        for key, text in values.items():
            name = f"{section}.{key}"
            now, _, key_now = renamed.get(name, name).rpartition(".")
            found.setdefault(now, {})[key_now] = text
    return found


def log_index() -> LogIndex:
    """What is built into the index of the write log."""
    return LogIndex(**json.loads(_core.log_index()))


def effective_config(setup: Setup, design: str) -> Config:
    """The values a run would use: preset < machine < design < fidelity < file < override."""
    return object_of(
        _core.effective_config(
            setup.machine,
            design,
            setup.nand,
            setup.fidelity,
            list(setup.files),
            list(setup.overrides),
        )
    )


def unread_keys(setup: Setup, design: str) -> list[str]:
    """The parameters that files and `--set` give and the design does not read."""
    return _core.unread_keys(
        setup.machine,
        design,
        setup.nand,
        setup.fidelity,
        list(setup.files),
        list(setup.overrides),
    )


def device_serve(
    image: Path, ports: Json, listening: Listening, stopped: Callable[[str], None]
) -> Json:
    """Serves an image at its ports until a signal's handler raises; what was done.

    `stopped` hears why a device stops. Raises `ImageError`, `ConfigError` for an address.
    """

    def told(text: str) -> None:
        listening(object_of(text))

    return object_of(_core.device_serve(str(image), json.dumps(ports), told, stopped))


def fs_make(image: Path, options: Json) -> Json:
    """Makes a file system on an image that is not in use. Raises `ImageError`, `ConfigError`."""
    return object_of(_core.fs_make(str(image), json.dumps(options)))


def fs_check(image: Path, *, repair: bool) -> Json:
    """Checks the file system on an image that is not in use; what was found. Raises
    `ImageError`."""
    return object_of(_guarded(lambda: _core.fs_check(str(image), repair)))


def fs_mount(
    image: Path,
    directory: Path,
    options: Json,
    mounted: Listening,
    stopped: Callable[[str], None],
) -> Json:
    """Mounts the file system of an image until a signal's handler raises or somebody unmounts it;
    what was done.

    `stopped` hears why nothing can be written any more. Raises `ImageError`.
    """

    def told(text: str) -> None:
        mounted(object_of(text))

    words = (str(image), str(directory), json.dumps(options), told, stopped)
    return object_of(_core.fs_mount(*words))


def device_recovery_time(
    image: Path,
    log: str,
    preset: str,
    files: Sequence[tuple[str, str]],
    overrides: Sequence[str],
    lines_per_page: int,
    *,
    both_halves: bool,
) -> Json:
    """How long a device with a log of this size takes to recover; its image is removed. One half
    of the log is full, or both. Raises `ConfigError`, `ImageError`."""
    filling = (lines_per_page, both_halves)
    words = (str(image), log, preset, list(files), list(overrides), filling)
    return object_of(_guarded(lambda: _core.device_recovery_time(*words)))


def nand_measure(
    nand: str | None,
    operation: str,
    depth: int,
    count: int,
    files: Sequence[tuple[str, str]] = (),
    overrides: Sequence[str] = (),
) -> Json:
    """What commands of the flash take with so many in flight: `served_ps` each at its die,
    `whole_ps` from its submission on. Raises `ConfigError`."""
    words = (nand, list(files), list(overrides), operation, depth, count)
    return object_of(_guarded(lambda: _core.nand_measure(*words)))


def device_presets() -> list[DevicePreset]:
    """All devices that images can be made of."""
    return [DevicePreset(**entry) for entry in json.loads(_core.device_presets())]


def device_parameters() -> list[Parameter]:
    """All parameters of a device, by section in the order of declaration."""
    return [Parameter(**entry) for entry in json.loads(_core.device_parameters())]


def device_config(
    preset: str, files: Sequence[tuple[str, str]] = (), overrides: Sequence[str] = ()
) -> Config:
    """The values a device would have: preset < file < override. Raises `ConfigError`."""
    return object_of(_core.device_config(preset, list(files), list(overrides)))


def device_create(
    path: Path,
    preset: str,
    files: Sequence[tuple[str, str]] = (),
    overrides: Sequence[str] = (),
) -> str:
    """Makes an image of an empty device; its random name. Raises `ConfigError`, `ImageError`."""
    return _core.device_create(str(path), preset, list(files), list(overrides))


def device_info(path: Path) -> Json:
    """What an image is and what its device has done; it may be in use. Raises `ImageError`."""
    return object_of(_core.device_info(str(path)))


def device_prometheus(path: Path, label: str) -> str:
    """What an image's device has done, as Prometheus text. Raises `ImageError`."""
    return _core.device_prometheus(str(path), label)


def device_fsck(path: Path) -> Json:
    """Checks an image that is not in use; what was found. Raises `ImageError`."""
    return object_of(_guarded(lambda: _core.device_fsck(str(path))))


def object_of(text: str) -> Json:
    """What the core gives as an object of JSON."""
    value = json.loads(text)
    assert isinstance(value, dict), "the core promises an object"
    return value
