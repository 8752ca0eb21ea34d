"""What figures ask for, before any capture exists, and what they get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from entresol.choices import Mode
from entresol.core import Json

MODES = tuple(mode.value for mode in Mode)


@dataclass(frozen=True, order=True)
class Want:
    """A run that a figure needs: a workload captured with so many threads, on a design."""

    workload: str
    design: str
    threads: int
    overrides: tuple[str, ...] = ()
    """Parameters as `key=value`, in the order of the keys."""
    nand: str = ""
    """A NAND type; empty for the machine's."""
    device: str = ""
    """`loop` for a run whose firmware is measured; empty for the model."""
    machine: str = ""
    """The machine preset; empty for the scale's."""
    first: int = 0
    """How many of the capture's threads run, the first ones; 0 for all."""


@dataclass(frozen=True, order=True)
class Windows:
    """Where windows in the steady state lie; see `entresol.steady.Plan`."""

    count: int
    instructions: int
    lead: int
    begin: float
    """In percent of the program."""
    placements: int = 1


@dataclass(frozen=True, order=True)
class SteadyWant:
    """Windows in the steady state that a figure needs, of a capture on a design."""

    workload: str
    design: str
    threads: int
    windows: Windows
    machine: str
    overrides: tuple[str, ...] = ()
    """Parameters as `key=value`, in the order of the keys."""


@dataclass(frozen=True, order=True)
class Walk:
    """An analysis of page locality that a figure needs: behind the caches of a design, with page
    caches of the footprint divided by each of `shares`."""

    workload: str
    threads: int
    shares: tuple[int, ...]
    design: str


@dataclass(frozen=True, order=True)
class Bench:
    """A load of a file system that a figure needs."""

    workload: str
    """The name of the load."""
    personality: str
    device: str = ""
    """The preset of the device; empty for the personality's."""
    overrides: tuple[str, ...] = ()
    """Parameters of the device as `key=value`, in the order of the keys, before the scale."""


@dataclass(frozen=True)
class Scale:
    """A size at which the runs of a paper are made."""

    machine: str
    """The machine preset."""
    shrink: int
    """By how much what holds data is smaller than in the paper."""
    window: float = 0
    """Instructions of a capture, about."""
    recording: float = 0
    """Seconds that a capture takes, about."""
    bench: float = 0
    """Seconds that a load of a file system takes, about."""
    steady: float = 0
    """Seconds that a design takes to its steady state and through its windows there, about."""


@dataclass(frozen=True)
class Settings:
    """The conditions of all runs of a set of figures of one paper."""

    paper: str
    """Name of the paper's room."""
    scale: str
    at: Scale
    workloads: tuple[str, ...]
    fidelity: str = "paper"
    mode: str = "detailed"
    overrides: tuple[str, ...] = ()
    """Parameters that are set in all runs, as `key=value`; of loads also as
    `PERSONALITY:key=value`, for runs of that personality."""
    measured: str = ""
    """A directory with what a bench on this machine has measured; empty if there is none."""

    @property
    def is_default(self) -> bool:
        """Whether a run that states nothing has the defaults: no switch and no parameter is set
        for all. A point of an axis at its default is then a run of other figures; else it has to
        state its value."""
        return self.fidelity == "paper" and not self.overrides

    @property
    def machine(self) -> str:
        """The machine preset."""
        return self.at.machine

    def overrides_of(self, item: Bench) -> tuple[str, ...]:
        """Parameters of a load's device."""
        mine = []
        for text in self.overrides:
            personality, found, assignment = text.rpartition(":")
            if not found or personality == item.personality:
                mine.append(assignment)
        return (*mine, *item.overrides)

    @property
    def shrink(self) -> int:
        """By how much sizes are smaller than the paper's."""
        return self.at.shrink

    def size(self, mib: float) -> str:
        """A size of the paper, in MiB, at this scale, as a parameter's text."""
        return f"{round(mib * 1024 / self.shrink)}KiB"


def overrides(sizes: Mapping[str, str]) -> tuple[str, ...]:
    """Parameters from names of arguments: `ssd__log__size="4MiB"` sets `ssd.log.size`."""
    return tuple(f"{key.replace('__', '.')}={value}" for key, value in sorted(sizes.items()))


@dataclass(frozen=True)
class Results:
    """What came out: a result for each run that could be had, a sentence for each that failed."""

    settings: Settings
    runs: Mapping[Want, Json]
    walks: Mapping[Walk, Json] = field(default_factory=dict)
    failures: Mapping[Want | SteadyWant | Walk | Bench, str] = field(default_factory=dict)
    benches: Mapping[Bench, Json] = field(default_factory=dict)
    steady: Mapping[SteadyWant, Sequence[Json]] = field(default_factory=dict)
    """What `core.execute_steady` gives, for each placement."""

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
