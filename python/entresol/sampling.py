"""Measured windows of captures, over seeds and placements: means with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import stdev
from typing import Literal

from entresol import core, estimate
from entresol.core import Setup
from entresol.derived import BASE
from entresol.errors import UserError
from entresol.estimate import Estimate, Factor
from entresol.execution.point import Point, Windows
from entresol.result_types import Estimates, Samples, WindowResult
from entresol.study import Study

SCHEMA = 2


@dataclass(frozen=True)
class Plan:
    """Which windows, and how often: each seed with each placement."""

    windows: int
    instructions: int
    seeds: tuple[int, ...]
    placements: tuple[int, ...]

    @property
    def variants(self) -> list[tuple[int, int]]:
        """Every seed with every placement."""
        return [(seed, placement) for seed in self.seeds for placement in self.placements]

    @property
    def measure(self) -> Windows:
        """What a point of the plan measures."""
        return Windows(self.windows, self.instructions)


def check(wanted: Study, plan: Plan) -> None:
    """Raises `UserError` for windows in which no thread would execute an instruction."""
    for capture in wanted.captures:
        threads = wanted.threads or capture.info["threads"]
        if plan.instructions < threads:
            raise UserError(
                f"{capture.name}: a window of {plan.instructions} instructions is less than one "
                f"for each of {threads} threads; choose longer ones."
            )


def points_of(wanted: Study, plan: Plan) -> list[Point]:
    """The windows of each capture on each design, with each seed and placement."""
    return [
        Point(
            capture, design, _chosen(wanted, *variant), wanted.threads, wanted.audit, plan.measure
        )
        for capture in wanted.captures
        for design in wanted.designs
        for variant in plan.variants
    ]


def _chosen(wanted: Study, seed: int, placement: int) -> Setup:
    chosen = (f"run.seed={seed}", f"ftl.placement={placement}")
    return replace(wanted.setup, overrides=(*wanted.setup.overrides, *chosen))


@dataclass(frozen=True)
class Row:
    """What was found of one design on one capture.

    `time` is picoseconds per instruction; `speedup` is over the reference; `spread` is the standard
    deviation of `time` over seeds and placements, relative to it.
    """

    trace: str
    design: str
    time: Estimate
    speedup: Factor
    spread: float | None
    amat_ps: float
    amat_all_ps: float
    programs_per_million: Estimate
    warnings: tuple[str, ...]


def rows(runs: Sequence[WindowResult]) -> list[Row]:
    """One row for each design of each capture, in the order of the runs."""
    by_design: dict[tuple[str, str], list[WindowResult]] = {}
    for run in runs:
        by_design.setdefault((run["trace"], run["design"]), []).append(run)
    found = []
    for (trace, design), own in by_design.items():
        others = [name for other, name in by_design if other == trace]
        reference = by_design[trace, BASE if BASE in others else others[0]]
        found.append(_row(trace, design, own, reference))
    return found


def _row(
    trace: str, design: str, own: Sequence[WindowResult], reference: Sequence[WindowResult]
) -> Row:
    windows, base = _by_window(own), _by_window(reference)

    def amat(
        name: Literal["paper_ps", "all_ps"], counted: Literal["paper_accesses", "all_accesses"]
    ) -> float:
        parts = [run["statistics"]["amat"] for run in own]
        accesses = sum(part[counted] for part in parts)
        return math.fsum(part[counted] * part[name] for part in parts) / (accesses or 1)

    pairs = list(zip(base, windows, strict=True))
    programs = [math.fsum(map(_programs, window)) / len(window) for window in windows]
    return Row(
        trace,
        design,
        estimate.jackknife(windows, pace),
        estimate.jackknife_factor(pairs, _speedup),
        _spread(own),
        amat("paper_ps", "paper_accesses"),
        amat("all_ps", "all_accesses"),
        estimate.mean(programs),
        tuple(
            warning
            for warning in own[0]["warnings"]
            if all(warning in run["warnings"] for run in own)
        ),
    )


Window = list[WindowResult]
"""The results of one window, with every seed and placement: windows are the independent samples."""


def pace(windows: Sequence[Window]) -> float:
    """Picoseconds per instruction of the program: the slowest thread's time for all it has to do,
    at its average pace in the windows, over the instructions of all threads."""
    times: dict[int, int] = {}
    executed: dict[int, int] = {}
    instructions: dict[int, int] = {}
    for window in windows:
        for run in window:
            for thread in run["pace"]:
                name = thread["thread"]
                instructions[name] = thread["instructions"]
                times[name] = times.get(name, 0) + thread["active_ps"]
                executed[name] = executed.get(name, 0) + thread["executed"]
    whole = (
        instructions[name] * times[name] / executed[name] for name in instructions if executed[name]
    )
    return max(whole, default=0.0) / (sum(instructions.values()) or 1)


def _speedup(pairs: Sequence[tuple[Window, Window]]) -> float:
    own = pace([own for _, own in pairs])
    return pace([base for base, _ in pairs]) / own if own else 0.0


def _programs(run: WindowResult) -> float:
    return float(run["statistics"]["flash"]["program_pages"] * 1e6 / (run["instructions"] or 1))


def _by_window(runs: Sequence[WindowResult]) -> list[Window]:
    windows: dict[int, Window] = {}
    for run in runs:
        windows.setdefault(run["window"], []).append(run)
    return [window for _, window in sorted(windows.items())]


def _spread(runs: Sequence[WindowResult]) -> float | None:
    variants: dict[tuple[int, int], Window] = {}
    for run in runs:
        variants.setdefault((run["seed"], run["placement"]), []).append(run)
    means = [pace([window]) for window in variants.values()]
    return stdev(means) / (math.fsum(means) / len(means) or 1) if len(means) > 1 else None


def assemble(wanted: Study, plan: Plan, results: Sequence[Sequence[WindowResult]]) -> Samples:
    """The object of `--json` and of `samples.json`."""
    placements = [
        placement for _ in wanted.captures for _ in wanted.designs for _, placement in plan.variants
    ]
    runs: list[WindowResult] = [
        {**window, "placement": placement}
        for result, placement in zip(results, placements, strict=True)
        for window in result
    ]
    return {
        "schema": SCHEMA,
        "kind": "samples",
        "provenance": {
            "entresol": core.version(),
            "machine": wanted.setup.machine,
            "audit": wanted.audit,
            "windows": plan.windows,
            "window_instructions": plan.instructions,
            "seeds": list(plan.seeds),
            "placements": list(plan.placements),
        },
        "estimates": [_estimate(row) for row in rows(runs)],
        "runs": runs,
    }


def _estimate(row: Row) -> Estimates:
    def thousandths(value: float | None) -> int | None:
        return None if value is None else round(value * 1000)

    return {
        "trace": row.trace,
        "design": row.design,
        "instruction_fs": thousandths(row.time.value),
        "instruction_half_width_fs": thousandths(row.time.half_width),
        "speedup_milli": thousandths(row.speedup.value),
        "speedup_low_milli": thousandths(row.speedup.low),
        "speedup_high_milli": thousandths(row.speedup.high),
        "spread_milli": thousandths(row.spread),
        "amat_ps": round(row.amat_ps),
        "amat_all_ps": round(row.amat_all_ps),
        "program_pages_per_million_milli": thousandths(row.programs_per_million.value),
        "warnings": list(row.warnings),
    }
