"""Loads of file systems that figures want: recalled, or run beside each other."""

from __future__ import annotations

import hashlib
import os
import statistics
import tempfile
import threading
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

from entresol import core, memory, papers
from entresol.core import Json
from entresol.digest import core_digest
from entresol.errors import UserError
from entresol.execution import worker
from entresol.figures.plan import Bench, Settings
from entresol.figures.recordings import Recorded
from entresol.interruption import interruptible
from entresol.result_types import RunResult
from entresol.store.result_store import Store, key_of

FOLDER = "file-systems"
"""Of the store: what lists and compares results of captures knows nothing of these."""
COUNTS = ("run", "all")
UNMAPPED = ("known", "read")
FUSE = ("taken", "kept")
OPTIONS = (
    "cache", "cores", "counts", "fuse", "loads", "log", "recording", "scale", "threads",
    "unmapped",
)  # fmt: skip
RECOVERY = "recovery"
"""Instead of a load: the log of a device is filled, the power cut, and the device opened again."""
COMPACTION = "compaction"
"""Likewise, with one half of the log full: what bringing it to flash takes is compaction's time."""
NAND = "nand"
"""Instead of a load: commands of the flash alone. The personality is a NAND type."""
ALONE = (RECOVERY, COMPACTION, NAND)
LOG, LINES_PER_PAGE = "256MiB", 8
PAGE_BYTES = 4096
COUNT = 50_000
"""Commands of the flash."""
SHOWN = 1000
"""Of these, those whose times are kept one by one, from the middle on."""
PERCENTS = (*range(0, 100), 99.5, 99.9, 99.99, 100)


def run(
    wanted: Sequence[Bench],
    settings: Settings,
    store: Store | None,
    jobs: int | None,
    say: Callable[[str], None],
) -> dict[Bench, Json | str]:
    """A result for each load, or a sentence that says why there is none.

    Each is one thread of the core, which holds no lock of the interpreter. What has ended when the
    command is interrupted is in the store, and the next command finds it there. Raises `UserError`
    before the first begins if one that is not stored needs more memory than there is; what runs
    beside each other fits together.
    """
    if not wanted:
        return {}
    kept = None if store is None else Store(store.root.parent / FOLDER)
    workers = jobs or len(os.sched_getaffinity(0))
    return interruptible(partial(_run_all, wanted, settings, kept, workers, say))


def _run_all(
    wanted: Sequence[Bench],
    settings: Settings,
    store: Store | None,
    workers: int,
    say: Callable[[str], None],
) -> dict[Bench, Json | str]:
    found: dict[Bench, Json | str] = {}
    room = memory.available()
    runs = [_Run.of(item, settings) for item in wanted]
    for each in runs:
        if each.stored(store) is None:
            memory.require(each.memory(), each.sentence(), room)
    budget = memory.Budget(room)
    results = _beside_each_other([partial(_one, run, store, budget) for run in runs], workers)
    for number, (item, result) in enumerate(zip(wanted, results, strict=True), start=1):
        found[item] = result.result()
        if number % max(len(wanted) // 10, 1) == 0:
            say(f"{number} of {len(wanted)} loads")
    return found


def _beside_each_other(
    all_work: Sequence[Callable[[], Json | str]], workers: int
) -> list[Future[Json | str]]:
    """Does work in threads that end with the process: who interrupts a command does not wait for
    loads that run, and those that wait do not begin. (An executor's threads are waited for.)"""
    futures: list[Future[Json | str]] = [Future() for _ in all_work]
    left = iter(list(zip(all_work, futures, strict=True)))
    taking = threading.Lock()

    def labour() -> None:
        while True:
            with taking:
                work, future = next(left, (None, None))
            if work is None or future is None:
                return
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
                return

    for _ in range(min(workers, len(all_work))):
        threading.Thread(target=labour, daemon=True).start()
    return futures


@dataclass(frozen=True)
class Conditions:
    """What a run is told: parameters, and options of `entresol fs bench`."""

    overrides: tuple[str, ...]
    scale: int
    threads: int | None = None
    cores: int | None = None
    cache: str | None = None
    log: str = LOG
    counts: str = "run"
    """Which traffic is told: that of the measured run, or all since the files were made."""
    unmapped: str = UNMAPPED[0]
    """Of pages that nobody has written, and a write brings into the device's cache: whether the
    device knows, or their reads of flash are told too."""
    lines: int = LINES_PER_PAGE
    """Lines of a page in the log."""
    operation: str = ""
    depth: int = 1
    fuse: str = FUSE[0]
    """Of a recording: whether FUSE's time is taken off the program's."""
    recording: str = ""
    """Another recording that is played, if it is said."""


def conditions(item: Bench, settings: Settings) -> Conditions:
    """From a load's parameters: those of `run` are options. Later ones win. Raises `UserError`
    for one that is none."""
    overrides: dict[str, str] = {}
    options: dict[str, str] = {}
    for text in settings.overrides_of(item):
        key, _, value = text.partition("=")
        if key == "run.loads":
            of_load = loads_of(settings.paper, value).get(item.workload, ())
            overrides.update({f"load.{each}".partition("=")[0]: f"load.{each}" for each in of_load})
        elif key.startswith("run."):
            options[key.removeprefix("run.")] = value
        else:
            overrides[key] = text
    known = {*OPTIONS, "lines", "operation", "depth"} if item.workload in ALONE else set(OPTIONS)
    if unknown := options.keys() - known:
        raise UserError(f"run.{min(unknown)}: is no option of a run; there are "
                        f"{', '.join(f'run.{name}' for name in OPTIONS)}.")  # fmt: skip
    if (fuse := options.get("fuse", FUSE[0])) not in FUSE:
        raise UserError(f"run.fuse is {' or '.join(FUSE)}, not {fuse}.")
    if (counts := options.get("counts", "run")) not in COUNTS:
        raise UserError(f"run.counts is {' or '.join(COUNTS)}, not {counts}.")
    if (unmapped := options.get("unmapped", UNMAPPED[0])) not in UNMAPPED:
        raise UserError(f"run.unmapped is {' or '.join(UNMAPPED)}, not {unmapped}.")
    threads, cores = options.get("threads"), options.get("cores")
    try:
        return Conditions(tuple(overrides.values()), int(options.get("scale", settings.shrink)),
                          None if threads is None else int(threads),
                          None if cores is None else int(cores), options.get("cache"),
                          options.get("log", LOG), counts, unmapped,
                          int(options.get("lines", LINES_PER_PAGE)),
                          options.get("operation", ""), int(options.get("depth", 1)),
                          fuse, options.get("recording", ""))  # fmt: skip
    except ValueError as error:
        raise UserError(f"run.scale, run.threads and run.cores are numbers: {error}.") from error


@cache
def loads_of(paper: str, table: str) -> Mapping[str, Sequence[str]]:
    """What a table of a room's `loads.toml` sets, by load. Raises `UserError` if there is none."""
    text = papers.room(paper).joinpath("loads.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    if table not in tables:
        raise UserError(f"papers/{paper}/loads.toml: has no table {table}; there are "
                        f"{', '.join(tables)}.")  # fmt: skip
    found: Mapping[str, Sequence[str]] = tables[table]
    return found


@dataclass(frozen=True)
class _Run:
    """A load, and what its result is stored under."""

    item: Bench
    told: Conditions
    chosen: dict[str, Any]
    inputs: Json
    recorded: Recorded | None = None

    @classmethod
    def of(cls, item: Bench, settings: Settings) -> _Run:
        told = conditions(item, settings)
        inputs: Json = {
            "core": core_digest(core.library()),
            "load": item.workload,
            "personality": item.personality,
            "device": item.device,
            "overrides": list(told.overrides),
            "scale": told.scale,
        }
        options = {"threads": told.threads, "cores": told.cores, "cache": told.cache}
        chosen = {name: value for name, value in options.items() if value is not None}
        inputs |= chosen
        if item.workload == RECOVERY:
            inputs |= {"log": told.log, "lines_per_page": told.lines, "both_halves": True}
        if item.workload == COMPACTION:
            inputs |= {"log": told.log, "lines_per_page": told.lines}
        if item.workload == NAND:
            inputs |= {"operation": told.operation, "depth": told.depth, "count": COUNT,
                       "kept": [SHOWN, *PERCENTS]}  # fmt: skip
        recorded = papers.find(settings.paper).recorded(told.recording or item.workload)
        if told.recording and recorded is None:
            raise UserError(f"run.recording is {told.recording}, which {settings.paper} has not.")
        if recorded is not None:
            text = hashlib.sha256(recorded.text.encode()).hexdigest()
            played = asdict(replace(recorded, text=""))
            inputs |= {"recording": text, "fuse": told.fuse, "played": played}
        return cls(item, told, chosen, inputs, recorded)

    def sentence(self) -> str:
        """What it is."""
        return f"{self.item.workload} on {self.item.personality} at scale {self.told.scale}"

    def stored(self, store: Store | None) -> Json | None:
        """Its result, if there is one."""
        return None if store is None else cast(Json | None, store.find(key_of(self.inputs)))

    def memory(self) -> int:
        """Bytes that it needs, about; none if it cannot be, which running it says."""
        if self.item.workload in ALONE or self.recorded is not None:
            # A device in a file, or flash without content; one that holds what was recorded.
            return 0
        try:
            return core.fs_bench_memory(
                self.item.workload, self.item.personality, device=self.item.device or None,
                overrides=self.told.overrides, scale=self.told.scale, cache=self.told.cache,
            )  # fmt: skip
        except core.EntresolError:
            return 0

    def result(self) -> Json:
        """Runs it."""
        if self.item.workload == NAND:
            return _flash(self.item, self.told)
        if self.item.workload in ALONE:
            return _recover(self.item, self.told)
        if self.recorded is not None:
            return self._played(self.recorded)
        return core.fs_bench(self.item.workload, self.item.personality,
                             device=self.item.device or None, overrides=self.told.overrides,
                             scale=self.told.scale, **self.chosen)  # fmt: skip

    def _played(self, recorded: Recorded) -> Json:
        takes_off = self.told.fuse == FUSE[0]
        return core.fs_replay(
            self.item.workload, recorded.text, self.item.personality,
            device=self.item.device or None, overrides=self.told.overrides, scale=self.told.scale,
            cores=self.told.cores or recorded.cores, cache=self.told.cache, thinks=True,
            less=f"{recorded.fuse_ns}ns" if takes_off else None, between=recorded.between,
            decides=recorded.decides,
            clients=None if recorded.clients is None else asdict(recorded.clients),
        )  # fmt: skip


def _one(run: _Run, store: Store | None, budget: memory.Budget) -> Json | str:
    if (stored := run.stored(store)) is not None:
        return _counted(stored, run.told)
    try:
        with budget.taken(run.memory()):
            result = run.result()
    except core.EntresolError as error:
        return worker.sentence(error)
    if store is not None:
        label = {"load": run.item.workload, "personality": run.item.personality}
        store.keep(run.inputs, label, cast(RunResult, result))
    return _counted(result, run.told)


def _recover(item: Bench, told: Conditions) -> Json:
    """Of the device as it is: recovery does not shrink with the scale, and takes seconds."""
    of_device = [each for each in told.overrides if not each.startswith(("fs.", "load."))]
    with tempfile.TemporaryDirectory(prefix="recovery-") as place:
        image, preset = Path(place) / "image", item.device or "bytefs"
        is_recovery = item.workload == RECOVERY
        return core.device_recovery_time(
            image, told.log, preset, (), of_device, told.lines, both_halves=is_recovery
        )


def _flash(item: Bench, told: Conditions) -> Json:
    """Commands of the flash alone, from the start at the die to the end."""
    times = core.nand_measure(
        item.personality, told.operation, told.depth, COUNT, (), told.overrides
    )
    served, whole = times["served_ps"], times["whole_ps"]
    ordered = sorted(served)
    last, middle = len(ordered) - 1, len(served) // 2
    return {
        "mean_ps": statistics.fmean(served),
        "sd_ps": statistics.pstdev(served),
        "whole_sd_ps": statistics.pstdev(whole),
        "quantiles": [[percent, ordered[round(last * percent / 100)]] for percent in PERCENTS],
        "shown": served[middle : middle + SHOWN],
    }


def _counted(result: Json, told: Conditions) -> Json:
    if "made" not in result:
        return result
    whole, made = result["synced"], result["made"]
    if told.counts != COUNTS[0]:
        whole = {name: count + made.get(name, 0) for name, count in whole.items()}
    if told.unmapped != UNMAPPED[0]:
        read = whole["device_flash_read_bytes"] + whole["device_zero_fills"] * PAGE_BYTES
        whole = whole | {"device_flash_read_bytes": read}
    return result | {"synced": whole}
