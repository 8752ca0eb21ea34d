"""A stand-in for `entresol._core`: the same names, made-up numbers, runs that can be held up."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import synthetic

from entresol._core import (
    ConfigError,
    CrashError,
    DeviceError,
    EntresolError,
    ImageError,
    Interrupted,
    SharedDevice,
    SimulationError,
    TraceError,
    check_on_nvme,
    check_steady,
    device_config,
    device_create,
    device_fsck,
    device_info,
    device_parameters,
    device_presets,
    device_prometheus,
    device_recovery_time,
    execute_fed,
    execute_in_loop,
    execute_on_nvme,
    execute_steady,
    misses_key,
    processors,
    replay_fed,
    replay_in_loop,
    serve_firmware,
    write_misses,
)

__all__ = [
    "ConfigError",
    "CrashError",
    "DeviceError",
    "EntresolError",
    "ImageError",
    "Interrupted",
    "SharedDevice",
    "SimulationError",
    "TraceError",
    "check_on_nvme",
    "check_steady",
    "device_config",
    "device_create",
    "device_fsck",
    "device_info",
    "device_parameters",
    "device_presets",
    "device_prometheus",
    "device_recovery_time",
    "execute_fed",
    "execute_in_loop",
    "execute_on_nvme",
    "execute_steady",
    "misses_key",
    "processors",
    "replay_fed",
    "replay_in_loop",
    "serve_firmware",
    "write_misses",
]
MAGIC = b"\x89ETR"
KEYS = {
    f"{section}.{key}" for section, keys in synthetic.config("skybyte-full").items() for key in keys
}
hold = threading.Event()
"""Runs end at once when set; otherwise they wait until they are cancelled."""
started = threading.Event()
"""Set when a run starts."""
made: list[Run] = []
"""Every run since the last `reset`."""


def reset() -> None:
    made.clear()
    started.clear()
    hold.set()


def version() -> str:
    return "0.0.0-synthetic"


def device_serve(*_: object) -> str:
    raise ImageError("there are no made-up devices")


fs_make = fs_check = fs_mount = device_serve


def trace_info(path: str, blocks: bool) -> str:
    if not Path(path).read_bytes().startswith(MAGIC):
        raise TraceError(
            f"{path}: is not a capture of Entresol; make one with entresol trace record"
        )
    return json.dumps(
        {
            "threads": 8,
            "instructions": 14_000_000,
            "loads": 3_100_000,
            "stores": 1_400_000,
            "footprint_pages": 5_000,
            "digest": "0123456789abcdef",
            "provenance": {"command": "true"},
            "top_blocks": [{"pc": "0x401000", "instructions": 2_000_000}] if blocks else [],
        }
    )


def trace_head(path: str, thread: int, count: int) -> list[str]:
    if thread >= 2**32:
        raise OverflowError("Python int too large to convert to C long")
    if thread >= 8:
        raise TraceError(f"{path}: has no thread {thread}; it has 8")
    return [f"{number:8} mov" for number in range(count)]


def trace_formats() -> str:
    return json.dumps(
        [
            {
                "name": name,
                "summary": name,
                "imports": name != "etr",
                "exports": name != "etr",
                "recognised": name != "champsim",
            }
            for name in ("etr", "macsim", "champsim")
        ]
    )


def trace_format(path: str, named: str | None) -> str:
    if named is None and not path.endswith(".etr"):
        raise TraceError(f"{path}: is in no format that its content tells; name it: --format")
    return named or "etr"


def trace_import(
    path: str,
    format: str,
    destination: str,
    dependencies: str,
    slowdown_milli: int,
    warms: str | None,
) -> list[str]:
    Path(destination).write_bytes(MAGIC)
    before = "" if warms is None else f" behind {warms}"
    return [f"{path} as {format}{before}: dependencies {dependencies}, slowdown {slowdown_milli}"]


def trace_export(
    trace: str,
    format: str,
    destination: str,
    skip: str,
    limit: str | None,
    thread: int | None,
    slowdown_milli: int,
) -> list[str]:
    part = (skip, limit, thread, slowdown_milli)
    Path(destination).write_text(f"{trace} as {format}: {part}")
    return [f"left out: all but {part}"]


def designs() -> str:
    return json.dumps(
        [
            {"name": name, "paper_name": paper, "summary": summary, "section": section}
            for name, paper, summary, section, _ in synthetic.DESIGNS
        ]
    )


def machines() -> str:
    return json.dumps([{"name": name, "summary": name} for name in ("table2", "demo")])


def nand_types() -> str:
    return json.dumps([{"name": "ull", "summary": "fast"}])


def parameters() -> str:
    return json.dumps(
        [
            {
                "key": key,
                "kind": "time",
                "range": "at least 1ns",
                "source": "SkyByte Table II",
                "doc": f"What {key} is. ",
            }
            for key in sorted(KEYS)
        ]
    )


def renamed_parameters() -> str:
    return json.dumps({"ssd.write_log": "ssd.log.size", "ssd.mshr_count": "ssd.cache.mshr_count"})


def log_index() -> str:
    return json.dumps(
        {"first_table_entries": 8, "fullest_milli": 500, "page_bytes": 16, "entry_bytes": 4}
    )


def fidelity_switches() -> str:
    return json.dumps(
        [
            {
                "name": "no_prefetch",
                "title": "No prefetcher",
                "summary": "What it does.",
                "source": "the artifact",
                "nand_types": ["ull"],
                "sets": [["ssd.prefetch.pages", "0"]],
            }
        ]
    )


def fidelity_names(text: str) -> list[str]:
    if text not in ("paper", "artifact", "no_prefetch"):
        raise ConfigError(f"unknown fidelity switch {text}; did you mean no_prefetch?")
    return [] if text == "paper" else ["no_prefetch"]


def effective_config(
    machine: str,
    design: str,
    nand: str | None,
    fidelity: str,
    files: list[tuple[str, str]],
    overrides: list[str],
) -> str:
    del machine, nand, files
    fidelity_names(fidelity)
    config = synthetic.config(design)
    for override in overrides:
        key, _, value = override.partition("=")
        if key not in KEYS:
            raise ConfigError(f"unknown key {key}")
        section, _, name = key.rpartition(".")
        config[section][name] = value
    return json.dumps(config)


def unread_keys(
    machine: str,
    design: str,
    nand: str | None,
    fidelity: str,
    files: list[tuple[str, str]],
    overrides: list[str],
) -> list[str]:
    config = json.loads(effective_config(machine, design, nand, fidelity, files, overrides))
    keys = [override.partition("=")[0] for override in overrides]
    unread = [key for key in keys if design == "dram-only" and key.startswith("nand.")]
    if config["os"]["scheduler"] != "random":
        unread += [key for key in keys if key == "run.seed"]
    return unread


class DeviceWatch:
    """Looking at a device has no stand-in either."""


class CrashLab:
    """The crash lab has no stand-in: its tests run the real one."""


class FsCrashLab:
    """As `CrashLab`."""


def fs_crash_repeat(text: str) -> str:
    raise CrashError(f"{text!r} is run by the real core only")


def crash_replay(text: str) -> str:
    raise CrashError(f"{text!r} is run by the real core only")


def fs_loads() -> str:
    return json.dumps([{"name": "create", "title": "create", "about": "Threads make files. Ours."}])


def fs_personalities() -> list[str]:
    return [
        "bytefs", "bytefs-log", "bytefs-dual", "ext4-like", "pmfs-like", "f2fs-like", "nova-like",
    ]  # fmt: skip


def nand_measure(*_rest: object) -> str:
    raise SimulationError("the flash is measured by the real core only")


def fs_bench(load: str, *_rest: object) -> str:
    raise SimulationError(f"{load!r} is run by the real core only")


def fs_bench_memory(*_rest: object) -> int:
    return 1 << 20


def fs_replay(name: str, *_rest: object) -> str:
    raise SimulationError(f"{name!r} is played by the real core only")


class CrashApp:
    """Power cuts under programs have no stand-in: their tests run the real core."""


def crash_app(directory: str, *_rest: object) -> CrashApp:
    raise SimulationError(f"{directory!r} is mounted by the real core only")


class Replay:
    """A device alone has no stand-in: its tests run the real one."""


def _recorded() -> str:
    access = {
        "line": 131,
        "is_page": False,
        "die": 5,
        "core": 1,
        "answer": "data",
        "served": "miss: flash read",
        "first_ps": 1_000_000,
        "issued_ps": 6_000_000,
        "sent_ps": 6_100_000,
        "arrived_ps": 6_200_000,
        "answered_ps": 9_900_000,
        "done_ps": 10_000_000,
        "stall_ps": 0,
        "index_ps": 500_000,
        "ssd_dram_ps": 200_000,
        "flash_ps": 3_000_000,
        "hop_there_ps": 0,
        "hop_back_ps": 0,
    }
    delay = access | {"answer": "delay", "issued_ps": 1_000_000, "done_ps": 1_200_000}
    delay |= {"sent_ps": 1_000_000, "arrived_ps": 1_100_000, "answered_ps": 1_150_000}

    def operation(die: int, kind: str, submitted: int, started: int, finished: int) -> object:
        return {
            "die": die,
            "kind": kind,
            "submitted_ps": submitted,
            "started_ps": started,
            "finished_ps": finished,
        }

    return json.dumps(
        {
            "accesses": [delay, access],
            "turns": [
                {"core": 1, "thread": 4, "from_ps": 0, "to_ps": 1_300_000, "leave": "long delay"}
            ],
            "flash": [
                operation(5, "program", 0, 500_000, 7_700_000),
                operation(5, "read", 6_700_000, 7_700_000, 9_700_000),
                operation(6, "read", 6_700_000, 7_700_000, 9_800_000),
                operation(5, "read", 11_000_000, 11_000_000, 13_000_000),
            ],
            "dropped": {"accesses": 0, "turns": 0, "flash": 0},
            "slowest": [access],
        }
    )


RECORDED = _recorded()


class Run:
    span = (0, 0)

    def __init__(
        self,
        trace: str,
        machine: str,
        design: str,
        nand: str | None,
        fidelity: str,
        files: list[tuple[str, str]],
        overrides: list[str],
        threads: int | None,
        audit: bool,
        mode: str = "detailed",
    ) -> None:
        del audit
        self.mode = mode
        self.fidelity = fidelity_names(fidelity)
        self.config = json.loads(
            effective_config(machine, design, nand, fidelity, files, overrides)
        )
        if threads is not None and threads > 8:
            raise ConfigError(f"{threads} threads wanted, but {trace} has 8")
        self.trace = "+".join(Path(part).stem for part in trace.split("+"))
        self.design, self.threads = design, threads or 8
        self.cancelled = threading.Event()
        made.append(self)

    def execute(self) -> str:
        started.set()
        for _ in range(2000):
            if hold.is_set() or self.cancelled.wait(0.01):
                break
        if self.cancelled.is_set():
            raise Interrupted("cancelled")
        return json.dumps(
            synthetic.run(self.trace, self.design, self.threads)
            | {"config": self.config, "fidelity": self.fidelity, "mode": self.mode}
        )

    def execute_recorded(self, span: tuple[int, int], limit: int, slowest: int) -> str:
        del limit, slowest
        self.span = span
        return json.dumps([json.loads(self.execute()), json.loads(RECORDED)])

    def check_windows(self, count: int, instructions: int) -> None:
        if count * instructions > 14_000_000:
            raise TraceError(f"{self.trace}: {count} windows of {instructions} do not fit")

    def execute_windows(self, count: int, instructions: int) -> str:
        run = json.loads(self.execute())
        return json.dumps([synthetic.window(run, index, instructions) for index in range(count)])

    def progress(self) -> tuple[str, int, int, int]:
        return ("measured", 1_000_000, 14_000_000, 5_000_000)

    def cancel(self) -> None:
        self.cancelled.set()
