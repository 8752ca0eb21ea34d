"""The runs of the figures of our own design: captures, machines, windows in the steady state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from entresol import workload
from entresol.errors import UserError
from entresol.figures.plan import Scale, Settings, SteadyWant, Want, Windows
from entresol.workload import Wanted

NAME = "entresol"
OWN, FULL, CP, BASE, DRAM = "entresol", "skybyte-full", "skybyte-cp", "base-cssd", "dram-only"
DEMO = "demo"
SCALES = {
    "small": Scale("small", shrink=16, window=15e6, recording=30, steady=20),
    "paper": Scale("table2", shrink=1, window=100e6, recording=60, steady=100),
}
"""Of Table I's programs as a whole and at full size, which are at the paper's alone; all others are
the same at both."""


@dataclass(frozen=True)
class Program:
    """A capture, and where windows in its steady state lie."""

    threads: int
    windows: Windows
    machine: str = DEMO
    overrides: tuple[str, ...] = ()


def _small(windows: int = 8) -> Program:
    # With 128 MiB of promoted pages nothing would ever be demoted in captures of this length.
    measured = Windows(windows, 2_000_000, 1_000_000, 75.0)
    return Program(24, measured, "small", ("host.promoted=16MiB",))


# Few long windows: a window begins with what the pass owes, and what a design owes in detail grows
# to its own level behind that, which shorter leads and windows would count as its debt.
SHIPPED = {
    "memcached": Program(9, Windows(4, 1_500_000, 500_000, 43.75)),
    "xz": Program(8, Windows(4, 700_000, 250_000, 75.0)),
    "sort": Program(8, Windows(4, 700_000, 250_000, 75.0)),
}
RECORDED = {
    "tpcc-long": _small(),
    "bc-long": _small(),
    # 96 steps of training: eight windows lie three steps apart, and see one phase of a step each.
    "dlrm-long": _small(windows=7),
    "ycsb-long": _small(),
}
"""Programs of Table I with so much work that devices become steady."""
WORK = {
    "tpcc-long": Wanted("tpcc", 24, work=8192),
    "bc-long": Wanted("bc", 24, footprint=2 << 30, work=9_600_000),
    "dlrm-long": Wanted("dlrm", 24, work=4608),
    "ycsb-long": Wanted("ycsb", 24, work=3_840_000),
}
FULL_SIZE = {
    name: Program(24, Windows(4, 100_000_000, 4_000_000, 75.0), "table2")
    for name in ("tpcc-full", "dlrm-full", "ycsb-full")
}
"""Likewise at the paper's sizes, on Table II's machine; bc's last level has too few edges there for
what it touches to leave device DRAM. On dlrm 120 million instructions fill a half of the log: much
shorter windows would see next to nothing of compaction."""
FULL_WORK = {
    "tpcc-full": Wanted("tpcc", 24, "paper", work=32_768),
    "dlrm-full": Wanted("dlrm", 24, "paper", work=9216),
    "ycsb-full": Wanted("ycsb", 24, "paper", work=15_360_000),
}
CHOSEN_ON = {**SHIPPED, **RECORDED}
"""Programs on which parameters were chosen."""
HELD_OUT = {
    # One placement of pbzip2 says little: its ratios differ by a half from one to the other.
    "pbzip2": Program(8, Windows(4, 3_000_000, 1_000_000, 40.0, placements=4)),
    "redis": Program(2, Windows(4, 2_000_000, 500_000, 75.0)),
    "sqlite": Program(1, Windows(4, 3_000_000, 1_000_000, 40.0)),
    "zstd": Program(7, Windows(4, 3_000_000, 1_000_000, 40.0)),
}
"""Programs that were recorded when the design was fixed."""
TABLE_I = ("bc", "bfs-dense", "dlrm", "radix", "srad", "tpcc", "ycsb")
TABLE_I_THREADS = 24
PROGRAMS = {**CHOSEN_ON, **HELD_OUT, **FULL_SIZE}
WORKLOADS = (*PROGRAMS, *TABLE_I)
TRACES = (Path("traces"), Path(__file__).parents[4] / "traces")
"""Where a checkout has the shipped captures: the one that a command is started in, or the package's
own."""


def lead(_settings: Settings) -> str:
    """The first sentences of the page."""
    return (
        "What our own design is worth beside those of SkyByte, which it is made of: docs/"
        "own-design.md. Nothing of it was published. Shipped captures and those of held-out "
        "programs run on machine demo, long captures of Table I's programs on machine small. "
        "Threads interleave anew in every capture that is made, so captures made again give other "
        "numbers, near these."
    )


def capture(name: str, threads: int, scale: str, store: Path) -> Path:
    """A capture: shipped, or made in the store. Raises `UserError` for what is neither."""
    if name in SHIPPED:
        for place in TRACES:
            if (path := place / f"{name}.etr").exists():
                return path
        raise UserError(
            f"{name}.etr: a checkout has it below traces; start the command there, or give "
            "--captures DIR."
        )
    if (wanted := {**WORK, **FULL_WORK}.get(name)) is not None:
        return workload.record(wanted, store).path
    if name in TABLE_I:
        return workload.capture(name, threads, scale, store=store)
    raise UserError(f"{name}: scripts/record-held-out DIR records it; then give --captures DIR.")


def steady(
    names: Sequence[str], settings: Settings, designs: Sequence[str], *overrides: str
) -> list[SteadyWant]:
    """Windows of programs on designs, of those workloads that are asked for."""
    return [
        windows(name, design, *overrides)
        for name in names if name in settings.workloads
        for design in designs
    ]  # fmt: skip


def windows(name: str, design: str, *overrides: str) -> SteadyWant:
    """Of one program on one design."""
    of = PROGRAMS[name]
    told = tuple(sorted((*of.overrides, *overrides)))
    return SteadyWant(name, design, of.threads, of.windows, of.machine, told)


def whole(name: str, design: str, *overrides: str, nand: str = "", first: int = 0) -> Want:
    """A shipped capture as a whole, in detail on machine demo."""
    return Want(name, design, SHIPPED[name].threads, tuple(sorted(overrides)), nand,
                machine=DEMO, first=first)  # fmt: skip


def shipped(settings: Settings) -> list[str]:
    """The shipped captures that are asked for."""
    return [name for name in SHIPPED if name in settings.workloads]
