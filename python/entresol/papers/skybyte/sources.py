"""Numbers by workload and design, from our runs or from the published files, by the same names."""

from __future__ import annotations

from typing import Protocol

from entresol.figures.plan import Results, quotient
from entresol.figures.published import Table
from entresol.papers.skybyte import motivation
from entresol.papers.skybyte.runs import WORKLOADS, published, upper_edge, want


class Source(Protocol):
    """What claims are computed from. What is not known is `None`."""

    @property
    def workloads(self) -> tuple[str, ...]:
        """Those that it has numbers of."""

    def time(self, workload: str, design: str) -> float | None:
        """Execution time with the threads of Figure 14."""

    def amat(self, workload: str, design: str) -> float | None:
        """Mean memory access time, as in Figure 17."""

    def writes(self, workload: str, design: str) -> float | None:
        """Flash pages programmed, as in Figure 18."""

    def plain_time(self, workload: str, design: str) -> float | None:
        """Execution time with four threads."""

    def memory_bound(self, workload: str, design: str) -> float | None:
        """Share of cycles, with four threads."""

    def within(self, workload: str, design: str, nanoseconds: float) -> float | None:
        """Share of accesses that take at most so long, with four threads."""

    def index_bytes(self, workload: str) -> float | None:
        """Peak memory of SkyByte-W's log index, at the paper's scale."""

    def compaction_us(self, workload: str) -> float | None:
        """Mean time to compact a half of SkyByte-W's log."""

    def instructions(self, workload: str) -> float | None:
        """Instructions of a thread, of 24."""


class Ours:
    """From our runs."""

    def __init__(self, results: Results) -> None:
        self._results = results

    @property
    def workloads(self) -> tuple[str, ...]:
        """Those that were run."""
        return self._results.settings.workloads

    def time(self, workload: str, design: str) -> float | None:
        """As `Source`."""
        return self._results.time(want(workload, design))

    def amat(self, workload: str, design: str) -> float | None:
        """As `Source`."""
        return self._results.number(want(workload, design), "amat", "paper_ps")

    def writes(self, workload: str, design: str) -> float | None:
        """As `Source`."""
        return self._results.number(want(workload, design), "flash", "program_pages")

    def plain_time(self, workload: str, design: str) -> float | None:
        """As `Source`."""
        return self._results.time(motivation.plain(workload, design))

    def memory_bound(self, workload: str, design: str) -> float | None:
        """As `Source`."""
        item = motivation.plain(workload, design)
        memory = self._results.number(item, "cores", "memory_bound_ps")
        busy = self._results.number(item, "cores", "memory_bound_ps", "compute_bound_ps")
        return quotient(memory, busy)

    def within(self, workload: str, design: str, nanoseconds: float) -> float | None:
        """As `Source`."""
        run = self._results.runs.get(motivation.plain(workload, design))
        if run is None or not run["statistics"]["latency_cdf"]:
            return None
        points = run["statistics"]["latency_cdf"]
        below = [count for latency, count in points if latency <= nanoseconds * 1000]
        return float(below[-1] if below else 0) / int(points[-1][1])

    def index_bytes(self, workload: str) -> float | None:
        """As `Source`."""
        peak = self._results.number(want(workload, "skybyte-w"), "activity", "index_peak_bytes")
        return None if peak is None else peak * self._results.settings.shrink

    def compaction_us(self, workload: str) -> float | None:
        """As `Source`."""
        item = want(workload, "skybyte-w")
        mean = self._results.number(item, "activity", "compaction_average_ps")
        return quotient(mean, 1e6)

    def instructions(self, workload: str) -> float | None:
        """As `Source`."""
        run = self._results.runs.get(want(workload, "skybyte-full"))
        if run is None:
            return None
        return float(run["instructions"] + run["warmup_instructions"]) / int(run["threads"])


class Theirs:
    """From the published files."""

    workloads = WORKLOADS

    def time(self, workload: str, design: str) -> float | None:
        """As `Source`."""
        return published("fig14").find(workload, design, "exec_time")

    def amat(self, workload: str, design: str) -> float | None:
        """As `Source`."""
        return published("fig17").find(workload, design, "amat_total")

    def writes(self, workload: str, design: str) -> float | None:
        """As `Source`."""
        return published("fig18").find(workload, design, "flash_page_writes")

    def plain_time(self, workload: str, design: str) -> float | None:
        """As `Source`."""
        return published("fig02").find(workload, design, "exec_time")

    def memory_bound(self, workload: str, design: str) -> float | None:
        """As `Source`."""
        return published("fig04").find(workload, design, "memory_bound_fraction")

    def within(self, workload: str, design: str, nanoseconds: float) -> float | None:
        """As `Source`."""
        points = self._curves.curve(workload, design, "cumulative_fraction_of_accesses")
        below = [share for latency, share in points if upper_edge(latency) <= nanoseconds]
        return below[-1] if below else None

    def index_bytes(self, workload: str) -> float | None:
        """Not published."""
        del workload
        return None

    def compaction_us(self, workload: str) -> float | None:
        """Not published."""
        del workload
        return None

    def instructions(self, workload: str) -> float | None:
        """Not published."""
        del workload
        return None

    @property
    def _curves(self) -> Table:
        return published("fig03")
