"""The runs of ByteFS's figures: loads, personalities, and where its published numbers are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from entresol import core, papers
from entresol.core import Json
from entresol.figures import plan
from entresol.figures.bars import Series
from entresol.figures.plan import Bench, Results, Scale, Settings, quotient
from entresol.figures.published import Published

NAME = "bytefs"
MICRO = ("create", "delete", "mkdir", "rmdir")
MACRO = ("varmail", "fileserver", "webproxy", "webserver", "oltp")
YCSB = ("ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f")
LOADS = (*MICRO, *MACRO, *YCSB)
"""Table 5, in the order of the paper's figures."""
SCALES = {
    "small": Scale("", shrink=64, bench=6),
    "paper": Scale("", shrink=1, bench=600),
}
EXT4, BYTEFS = "ext4-like", "bytefs"
SYSTEMS = {
    EXT4: ("Ext4-like", "E", "#33608f"),
    "f2fs-like": ("F2FS-like", "F", "#62b9e2"),
    "nova-like": ("NOVA-like", "N", "#2a9264"),
    "pmfs-like": ("PMFS-like", "P", "#e6c04a"),
    BYTEFS: ("ByteFS", "B", "#d55e00"),
}
"""What §5 compares: name, short name of the paper, colour."""
STEPS = {
    "bytefs-dual": ("ByteFS-Dual", "D", "#fde3b4"),
    "bytefs-log": ("ByteFS-Log", "L", "#f4a940"),
    BYTEFS: SYSTEMS[BYTEFS],
}
"""The design steps of §5.4."""

published = Published(
    papers.room(NAME).joinpath("published"),
    f"papers/{NAME}/published",
    {"fig01": 8, "fig06": 9, "fig07": 8, "fig08": 4, "fig09": 2, "fig10": 4, "table2": 20},
)


@cache
def _known() -> frozenset[str]:
    return frozenset(core.fs_personalities())


def systems() -> list[str]:
    """Those of the paper that there are."""
    return [name for name in SYSTEMS if name in _known()]


def series(names: Iterable[str]) -> list[Series]:
    """Bars of personalities."""
    return [Series(name, *(SYSTEMS | STEPS)[name]) for name in names]


def bench(load: str, personality: str, device: str = "", **sizes: str) -> Bench:
    """A run. `nand__t_r="3us"` sets `nand.t_r` of the device."""
    return Bench(load, personality, device, plan.overrides(sizes))


def loads(settings: Settings, of: Iterable[str]) -> list[str]:
    """Those of some loads that are asked for."""
    return [name for name in of if name in settings.workloads]


def in_rows(groups: Sequence[str]) -> list[list[str]]:
    """Groups of a picture too wide for one row: micro-benchmarks and programs, then the rest."""
    above = [name for name in groups if name in (*MICRO, *MACRO)]
    below = [name for name in groups if name not in above]
    return [part for part in (above, below) if part] or [[]]


def on_systems(*of: str) -> Callable[[Settings], list[Bench]]:
    """What a figure wants that shows some loads on all systems."""

    def wanted(settings: Settings) -> list[Bench]:
        return [bench(load, name) for load in loads(settings, of) for name in systems()]

    return wanted


def throughput(results: Results, item: Bench) -> float | None:
    """Operations per second of virtual time."""
    run = results.benches.get(item)
    return None if run is None else float(run["operations_per_second"])


def counted(results: Results, item: Bench, *names: str) -> float | None:
    """The sum of some counters of the run and the sync behind it."""
    run = results.benches.get(item)
    return None if run is None else float(sum(run["synced"][name] for name in names))


def latency(results: Results, item: Bench, kind: str, what: str) -> float | None:
    """The mean or a quantile of a kind of operation, in picoseconds; none if there was none."""
    run = results.benches.get(item)
    found: Json | None = None if run is None else run["latencies"].get(kind)
    return None if found is None else float(found[f"{what}_ps"])


def over(
    value: Callable[[Results, Bench], float | None], results: Results, load: str, one: str,
    other: str,
) -> float | None:  # fmt: skip
    """A value of one personality over that of another."""
    mine, theirs = value(results, bench(load, one)), value(results, bench(load, other))
    return quotient(mine, theirs)


def lead(settings: Settings) -> str:
    """What the page begins with."""
    size = "the paper's sizes" if settings.shrink == 1 else f"one in {settings.shrink} of the paper"
    return (
        "Solid bars are ours; hatched bars are what was published, which is little: the paper's "
        "bars are in pictures alone. All numbers are of virtual time, of loads on file systems "
        f"that are run for real on a simulated device ({size}: files, rounds, host's and device's "
        "memory, flash; not sizes of files, dies, times). Competitors are personalities like "
        "the systems they are named after, on the same flash without a log and with the log's "
        "memory as page cache. Traffic is that of the measured part and of the sync behind it. "
        "A ratio is ours ÷ published; it is marked where ours is more than 25 % away."
    )
