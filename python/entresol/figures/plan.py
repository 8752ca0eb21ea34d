"""What figures ask for, before any capture exists, and what they get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from entresol import core
from entresol.core import Json
from entresol.errors import UserError, did_you_mean

WORKLOADS = ("bc", "bfs-dense", "dlrm", "radix", "srad", "tpcc", "ycsb")
"""Table I, in the order of the paper's figures."""
SCALES = ("small", "paper")
MODES = ("detailed", "fast")
SHRINK = {"small": 16, "paper": 1}
"""By how much what holds data is smaller than in Table II."""
MACHINES = {"small": "small", "paper": "table2"}
SWITCHING = 24
"""Threads of designs that switch (§VI-A)."""
PLAIN = 8
"""Threads of designs that do not."""
MOTIVATION = 4
"""Threads and cores of §II-C."""
ECHO = "write_back_echo"
"""The switch that feeds itself in the L3 of scale small, a sixteenth of Table II's: written lines
come back dirty and drive each other out, and a run takes some hundred times as long."""
_SWITCHING_DESIGNS = frozenset({
    "skybyte-c", "skybyte-cp", "skybyte-ct", "skybyte-wct", "skybyte-full", "astriflash-cxl",
})  # fmt: skip


def threads_of(design: str) -> int:
    """How many threads the paper runs a design with."""
    return SWITCHING if design in _SWITCHING_DESIGNS else PLAIN


@dataclass(frozen=True, order=True)
class Want:
    """A run that a figure needs: a workload captured with so many threads, on a design."""

    workload: str
    design: str
    threads: int
    overrides: tuple[str, ...] = ()
    nand: str = ""


def want(
    workload: str, design: str, *, threads: int | None = None, nand: str = "", **sizes: str
) -> Want:
    """A run with the paper's threads. `ssd__write_log="4MiB"` sets `ssd.write_log`."""
    overrides = tuple(f"{key.replace('__', '.')}={value}" for key, value in sorted(sizes.items()))
    return Want(workload, design, threads or threads_of(design), overrides, nand)


@dataclass(frozen=True, order=True)
class Walk:
    """An analysis of page locality that a figure needs: behind the caches, with page caches of the
    footprint divided by each of `shares`."""

    workload: str
    threads: int
    shares: tuple[int, ...]


@dataclass(frozen=True)
class Settings:
    """The conditions of all runs of a set of figures."""

    scale: str = "small"
    fidelity: str = "paper"
    mode: str = "detailed"
    workloads: tuple[str, ...] = WORKLOADS
    overrides: tuple[str, ...] = ()
    """Parameters that are set in all runs."""

    @property
    def machine(self) -> str:
        """The machine preset."""
        return MACHINES[self.scale]

    @property
    def shrink(self) -> int:
        """By how much sizes are smaller than the paper's."""
        return SHRINK[self.scale]

    @property
    def echoes(self) -> bool:
        """Whether `ECHO` is on where it feeds itself."""
        return self.scale == "small" and ECHO in core.fidelity_names(self.fidelity)

    def size(self, mib: float) -> str:
        """A size of the paper at this scale, as a parameter's text."""
        return f"{round(mib * 1024 / self.shrink)}KiB"


def settings(scale: str, fidelity: str, mode: str, workloads: Sequence[str]) -> Settings:
    """Checked settings. Raises `UserError` for an unknown scale, mode or workload, and
    `ConfigError` for an unknown fidelity."""
    if scale not in SCALES:
        raise UserError(f"--scale is {' or '.join(SCALES)}, not {scale}.")
    if mode not in MODES:
        raise UserError(f"--mode is {' or '.join(MODES)}, not {mode}.")
    core.fidelity_names(fidelity)
    names = [name.strip() for text in workloads or ["all"] for name in text.split(",")]
    for name in names:
        if name != "all" and name not in WORKLOADS:
            hint = did_you_mean(name, WORKLOADS) or f" Choose from {', '.join(WORKLOADS)}, or all."
            raise UserError(f"unknown workload {name}.{hint}")
    chosen = tuple(name for name in WORKLOADS if name in names or "all" in names)
    return Settings(scale, fidelity, mode, chosen)


@dataclass(frozen=True)
class Results:
    """What came out: a result for each run that could be had, a sentence for each that failed."""

    settings: Settings
    runs: Mapping[Want, Json]
    walks: Mapping[Walk, Json] = field(default_factory=dict)
    failures: Mapping[Want | Walk, str] = field(default_factory=dict)

    def time(self, wanted: Want) -> float | None:
        """Execution time in picoseconds; nothing if the run failed."""
        run = self.runs.get(wanted)
        return None if run is None else float(run["execution_time_ps"])

    def number(self, wanted: Want, section: str, *names: str) -> float | None:
        """The sum of numbers of a section of the statistics; nothing if the run failed or has
        none of them."""
        run = self.runs.get(wanted)
        if run is None:
            return None
        values = [run["statistics"][section].get(name) for name in names]
        known = [float(value) for value in values if value is not None]
        return sum(known) if known else None

    def among(self, wanted: Iterable[Want]) -> dict[Want, Json]:
        """The results of these runs, in order, each once."""
        return {item: self.runs[item] for item in dict.fromkeys(wanted) if item in self.runs}


def quotient(part: float | None, whole: float | None) -> float | None:
    """A ratio, if there is one."""
    return None if part is None or not whole else part / whole
