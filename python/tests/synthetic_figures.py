"""Results of figures that nobody simulated, from the synthetic runs."""

from __future__ import annotations

from typing import Any

import synthetic

from entresol.figures import simulate
from entresol.figures.benches import COMPACTION, NAND, PERCENTS, RECOVERY
from entresol.figures.entry import Figure
from entresol.figures.plan import Bench, Results, Settings, SteadyWant, Walk, Want
from entresol.steadiness import PARTS

_KNOWN = {entry[0] for entry in synthetic.DESIGNS}


def run(item: Want) -> dict[str, Any]:
    """A run of a want; what is varied makes it a little slower or faster."""
    design = item.design if item.design in _KNOWN else "skybyte-cp"
    made: dict[str, Any] = synthetic.run(item.workload, design, item.threads)
    turn = synthetic.hash_text("".join((*item.overrides, item.nand, item.design))) % 21
    made["execution_time_ps"] = made["execution_time_ps"] * (90 + turn) // 100
    made["execution_time_ps"] = made["execution_time_ps"] * 8 // (6 + item.threads // 4)
    flash = made["statistics"]["flash"]
    flash["program_pages"] = flash["program_pages"] * (90 + turn) // 100
    made["config"]["design"] = {"write_log": "true" if "w" in design else "false"}
    made |= {"design": item.design}
    return made | {"device": _device(turn)} if item.device else made


def _device(turn: int) -> dict[str, Any]:
    """Firmware that was measured."""
    names = ("check cache", "check log", "append", "insert")
    times = {
        "mean_ps": 40_000 + turn,
        "sd_ps": 9_000,
        "sd_of_999_ps": 3_000,
        "p50_ps": 38_000,
        "p99_ps": 70_000,
    }
    work = [{"work": name, "count": 10, **times} for name in names]
    return {"source": "loop", "work": work}


def walk(item: Walk) -> dict[str, Any]:
    """An analysis: pages use few lines, fewer the smaller the cache."""
    seed = synthetic.hash_text(item.workload) % 7 + 2
    caches = [
        {
            "ratio": share,
            "lines_used": [0, *(1000 * share // (seed + lines) for lines in range(64))],
            "lines_dirty": [0, *(500 * share // (1 + seed * lines) for lines in range(64))],
        }
        for share in item.shares
    ]
    return {"caches": caches}


class _Counted(dict[str, int]):
    """Every counter has a number that hangs on its name and the load."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed

    def __missing__(self, name: str) -> int:
        return 4096 * (1 + (synthetic.hash_text(name) + self._seed) % 50)


def bench(item: Bench) -> dict[str, Any]:
    """A load; what it runs on makes it a little slower or faster."""
    words = (item.workload, item.personality, item.device, *item.overrides)
    turn = synthetic.hash_text("".join(words)) % 21
    if item.workload == RECOVERY:
        return dict.fromkeys(("scan_ps", "flush_ps"), 10**11 * (10 + turn))
    if item.workload == COMPACTION:
        return {"flush_ps": 10**9 * (10 + turn)}
    if item.workload == NAND:
        times = [10**8 + 10**6 * ((turn + place) % 9) for place in range(50)]
        quantiles = [[percent, 10**8 + 10**4 * round(percent * 100)] for percent in PERCENTS]
        sds = dict.fromkeys(("mean_ps", "sd_ps", "whole_sd_ps"), 10.0**6 * (150 + turn))
        return sds | {"quantiles": quantiles, "shown": times}
    spans = dict.fromkeys(("mean_ps", "p95_ps"), 1000000 * (10 + turn))
    kinds = ("read", "update", "insert", "scan", "read_modify_write")
    return {
        "operations_per_second": 1000.0 * (10 + turn),
        "virtual_time_ps": 10**12 // (10 + turn),
        "application_read_bytes": 4096 * 20,
        "application_written_bytes": 4096 * 20,
        "latencies": dict.fromkeys(kinds, spans),
        "synced": _Counted(turn),
    }


_LOOKED_AT = (
    "cache_fills", "log_fills", "erased_blocks", "promotions", "demotions", "first_touches",
    "page_fetches", "reads", "writes",
)  # fmt: skip


def steady(item: SteadyWant) -> list[dict[str, Any]]:
    """A design in its windows, which owes as much at their end as at their beginning."""
    turn = synthetic.hash_text(item.workload + item.design) % 21
    counts = {"time_ps": 10**9 * (10 + turn), "instructions": 10**6, "program_pages": 100 + turn}
    debt = {"pay_ps": 10**7 * turn, "host_pay_ps": 0}
    window = {"window": 0, "counts": counts, "debt": {"begin": debt, "end": debt}}
    looks = [{"part": part, **dict.fromkeys(_LOOKED_AT, part * turn)} for part in (0, PARTS)]
    machine = {"frames": 9, "half_lines": 9, "dies": 9, "host_pages": 9, "device_dram_bytes": 4096}
    way = {"trace": item.workload, "instructions": 10**7, "machine": machine, "pass": looks}
    return [{"design": item.design, "windows": [window], **way}]


def results(figures: list[Figure], settings: Settings) -> Results:
    """All that the figures need."""
    plan = simulate.plan(figures, settings)
    runs = {item: run(item) for item in plan.wants}
    walks = {item: walk(item) for item in plan.walks}
    benches = {item: bench(item) for item in plan.benches}
    windows = {item: steady(item) for item in plan.steady}
    return Results(settings, runs, walks, benches=benches, steady=windows)
