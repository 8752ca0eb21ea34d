"""A run of a summary as figures, tables and prose see it.

Every derived number of the report is computed here once, from integers of the summary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from entresol import quantity
from entresol.result_types import Program, RunResult, Summary

BASE = "base-cssd"
IDEAL = "dram-only"

AMAT_PARTS = (
    ("l3_queue_ps", "host queue"),
    ("host_dram_ps", "host DRAM"),
    ("inter_socket_ps", "between sockets"),
    ("link_ps", "CXL link"),
    ("index_ps", "index lookup"),
    ("ssd_dram_ps", "SSD DRAM"),
    ("flash_ps", "flash"),
    ("stall_ps", "no room"),
)
"""Components of the average access, in the order of its journey."""

REQUEST_KINDS = (
    ("host_reads", "host DRAM reads"),
    ("host_writes", "host DRAM writes"),
    ("ssd_log_hits", "log hits"),
    ("ssd_cache_hits", "data cache hits"),
    ("ssd_buffer_hits", "buffer hits"),
    ("ssd_misses", "misses: flash read"),
    ("ssd_merged_misses", "misses: merged"),
    ("ssd_unmapped", "unmapped"),
    ("ssd_store_misses", "store misses that are writes"),
    ("ssd_writes", "SSD writes"),
)
"""Every request below L3 is exactly one of these."""

BOUND_PARTS = (
    ("compute_bound_ps", "compute bound"),
    ("memory_bound_ps", "memory bound"),
    ("switch_ps", "switching threads"),
    ("idle_ps", "idle"),
)


@dataclass(frozen=True)
class Run:
    """One element of `runs`."""

    json: RunResult

    @property
    def trace(self) -> str:
        """Name of the capture."""
        return self.json["trace"]

    @property
    def design(self) -> str:
        """Name of the design."""
        return self.json["design"]

    @property
    def threads(self) -> int:
        """Threads that ran."""
        return self.json["threads"]

    @property
    def instructions(self) -> int:
        """Instructions retired in the measured part, each counted once."""
        return self.json["instructions"]

    @property
    def time_ps(self) -> int:
        """Simulated execution time."""
        return self.json["execution_time_ps"]

    @property
    def programs(self) -> list[Program]:
        """The programs of the run; several in a co-run."""
        return self.json["programs"]

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt this run (D5)."""
        return self.json["warnings"]

    @property
    def bottleneck(self) -> str:
        """What most of the core time goes to, with what shows it; nothing if that is unknown."""
        found = self.json.get("bottleneck")
        if found is None:
            return ""
        share = quantity.percent(found["share_milli"] / 1000)
        evidence = f" ({found['evidence']})" if found["evidence"] else ""
        return f"{found['what']}: {share} of core time{evidence}"

    @property
    def is_device(self) -> bool:
        """Whether memory is behind the CXL link."""
        return self.design != IDEAL

    def number(self, section: str, name: str) -> int | None:
        """A statistic; `None` when it has no value, as a share of nothing."""
        sections = cast(Mapping[str, Mapping[str, int | None]], self.json["statistics"])
        return sections[section].get(name)

    def count(self, section: str, name: str) -> int:
        """A statistic that is zero when it has no value."""
        return self.number(section, name) or 0

    def parts(self, section: str, names: Sequence[tuple[str, str]]) -> list[int]:
        """Several statistics of a section."""
        return [self.count(section, name) for name, _ in names]

    @property
    def amat_all_ps(self) -> int:
        """AMAT over all accesses, from the first issue to the data."""
        return self.count("amat", "all_ps")

    @property
    def amat_ps(self) -> int:
        """AMAT as the paper defines it."""
        return self.count("amat", "paper_ps")

    @property
    def write_amplification(self) -> int | None:
        """Write amplification in thousandths; `None` when the host wrote nothing to flash."""
        return self.number("flash", "write_amplification_milli") or None

    @property
    def switches(self) -> int:
        """Thread switches of every cause."""
        names = ("switches_long_delay", "switches_slice", "switches_blocked")
        return sum(self.count("os", name) for name in names)

    @property
    def memory_bound(self) -> float | None:
        """Share of the running time that is bound by memory."""
        memory, compute = self.parts("cores", (BOUND_PARTS[1], BOUND_PARTS[0]))
        return memory / (memory + compute) if memory + compute else None

    @cached_property
    def cdf(self) -> list[tuple[int, float]]:
        """Latency and the share of accesses that take at most so long."""
        points = self.json["statistics"]["latency_cdf"]
        total = points[-1][1] if points else 0
        return [(latency, count / total) for latency, count in points if total]


@dataclass(frozen=True)
class Panel:
    """All runs of one capture, in study order."""

    trace: str
    runs: tuple[Run, ...]

    def find(self, design: str) -> Run | None:
        """The run of a design, if it is part of the study."""
        return next((run for run in self.runs if run.design == design), None)

    @property
    def reference(self) -> Run:
        """What the others are compared with: Base-CSSD, or the first design."""
        return self.find(BASE) or self.runs[0]

    @property
    def devices(self) -> tuple[Run, ...]:
        """All runs with a device."""
        return tuple(run for run in self.runs if run.is_device)

    def normalised(self, run: Run) -> float:
        """Execution time relative to the reference; lower is better."""
        return run.time_ps / self.reference.time_ps if self.reference.time_ps else 0.0

    def speedup(self, run: Run) -> float | None:
        """How many times as fast as the reference; higher is better."""
        return self.reference.time_ps / run.time_ps if run.time_ps else None


def warnings(panel: Panel) -> dict[str, list[str]]:
    """The warnings of a capture, each with the designs it concerns."""
    by_text: dict[str, list[str]] = {}
    for run in panel.runs:
        for warning in run.warnings:
            by_text.setdefault(warning, []).append(run.design)
    return by_text


def panels(summary: Summary) -> list[Panel]:
    """The runs of a summary, by capture."""
    return panels_of(summary["runs"])


def panels_of(results: Sequence[RunResult]) -> list[Panel]:
    """Runs, by capture."""
    runs = [Run(run) for run in results]
    traces = dict.fromkeys(run.trace for run in runs)
    return [Panel(trace, tuple(run for run in runs if run.trace == trace)) for trace in traces]
