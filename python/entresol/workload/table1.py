"""Table I of the SkyByte paper beside captures of our programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from entresol import core, study
from entresol.errors import Failed
from entresol.execution.executor import execute
from entresol.execution.point import Point
from entresol.result_types import RunResult
from entresol.store.location import store_directory
from entresol.store.result_store import Store
from entresol.workload import capture_cache

RATIO_POINTS = 3.0
"""How far the write ratio may be off, in percentage points."""
MPKI_FACTOR = 1.5
"""How far the misses may be off."""
MACHINES = {"small": "small", "paper": "table2"}
DESIGN = "dram-only"


@dataclass(frozen=True)
class Published:
    """A row of Table I, and the pages that the artifact's traces touch."""

    footprint_gb: float
    write_percent: float
    mpki: float
    touched_mib: float
    """Distinct 4 KiB pages in the artifact's `warmup_traces/*_prefill_data.txt`."""


TABLE = {
    "bfs-dense": Published(9.13, 25, 122.9, 33.3),
    "bc": Published(8.18, 11, 39.4, 586.8),
    "radix": Published(9.6, 29, 7.1, 139.2),
    "srad": Published(8.16, 24, 7.5, 91.3),
    "ycsb": Published(9.61, 5, 92.2, 679.4),
    "tpcc": Published(15.77, 36, 1.0, 62.3),
    "dlrm": Published(12.35, 32, 5.1, 752.3),
}


@dataclass(frozen=True)
class Row:
    """One program: measured beside published."""

    name: str
    published: Published
    footprint: int
    """Bytes of all its data."""
    touched: int
    """Bytes of the pages that the capture touches."""
    instructions: int
    write_percent: float
    """Stores of all loads and stores, as in Table I."""
    mpki: float

    @property
    def verdict(self) -> str:
        """`ok`, or what is off."""
        off = []
        points = self.write_percent - self.published.write_percent
        if abs(points) > RATIO_POINTS:
            off.append(f"writes {points:+.1f} points")
        factor = self.mpki / self.published.mpki
        if not 1 / MPKI_FACTOR <= factor <= MPKI_FACTOR:
            off.append(f"MPKI × {factor:.2f}")
        return ", ".join(off) or "ok"


def rows(
    wanted: Sequence[capture_cache.Wanted],
    store: Path | None,
    watch: Callable[[str], None],
    jobs: int | None = None,
) -> list[Row]:
    """Captures what is not in the store, runs it on the ideal design, and sets it beside Table I.

    Raises `Failed` for the first run that came to nothing.
    """
    kept = Store(store_directory(store))
    with kept.in_use():
        recordings = []
        for each in wanted:
            watch(f"capturing {each.name}")
            recordings.append(capture_cache.record(each, store))
        opened = study.open_captures([recording.path for recording in recordings])
        points = [
            Point(trace, DESIGN, core.Setup(MACHINES[each.scale]))
            for trace, each in zip(opened, wanted, strict=True)
        ]
        watch(f"running {len(points)} captures on {DESIGN}")
        outcomes = execute(points, kept, jobs)
    found = []
    for recording, outcome in zip(recordings, outcomes, strict=True):
        if outcome.result is None:
            raise Failed(outcome.error or f"{outcome.point.trace.name}: no result.")
        found.append(_row(recording, outcome.point.trace, outcome.result))
    return found


def _row(recording: capture_cache.Recording, trace: study.Capture, result: RunResult) -> Row:
    info = trace.info
    accesses = info["loads"] + info["stores"]
    return Row(
        name=trace.name,
        published=TABLE[trace.name],
        footprint=recording.footprint,
        touched=info["footprint_pages"] * 4096,
        instructions=info["instructions"],
        write_percent=100 * info["stores"] / accesses,
        mpki=result["statistics"]["caches"]["l3_mpki_milli"] / 1000,
    )
