"""Made-up numbers of the right shape. They show what a report looks like and mean nothing."""

from __future__ import annotations

import math
from typing import Any

# (name, name in the paper, what it is, section, execution time relative to Base-CSSD)
DESIGNS = [
    ("base-cssd", "Base-CSSD", "Page cache and next-N prefetcher in the device", "§VI-A", 1.0),
    ("skybyte-p", "SkyByte-P", "Adaptive page migration", "§III-C", 0.54),
    ("skybyte-c", "SkyByte-C", "Coordinated context switch", "§III-A", 0.82),
    ("skybyte-w", "SkyByte-W", "Write log", "§III-B", 0.45),
    ("skybyte-cp", "SkyByte-CP", "Switch and migration", "§VI-A", 0.41),
    ("skybyte-wp", "SkyByte-WP", "Write log and migration", "§VI-A", 0.31),
    ("skybyte-full", "SkyByte-Full", "Switch, write log and migration", "§III", 0.19),
    ("dram-only", "DRAM-Only", "All pages in host DRAM", "§VI-A", 0.12),
]
PROMOTING = ("skybyte-p", "skybyte-cp", "skybyte-wp", "skybyte-full")


def run(trace: str, design: str, threads: int = 8, instructions: int = 12_400_000) -> Any:
    """One element of `runs` for a capture that does not exist."""
    relative = next(entry[4] for entry in DESIGNS if entry[0] == design)
    skew = 1 + (sum(trace.encode()) % 17) / 40
    relative = relative**skew
    time = int(relative * 48_000_000_000)
    device = design != "dram-only"
    log = "w" in design.split("-")[1] or design.endswith("full")
    switching = device and (
        ("c" in design.split("-")[1] and "cssd" not in design) or "full" in design
    )
    promoting = design in PROMOTING
    accesses = 910_000
    host = accesses // 3 if promoting else (0 if device else accesses)
    ssd = accesses - host
    misses = int(ssd * 0.16 * relative) if device else 0
    parts = {
        "l3_queue_ps": 1_200,
        "host_dram_ps": 48_000 * host // accesses,
        "inter_socket_ps": 0,
        "link_ps": 46_000 * ssd // accesses,
        "index_ps": (72_000 if log else 49_000) * ssd // accesses,
        "ssd_dram_ps": 41_000 * ssd // accesses,
        "flash_ps": int(620_000 * relative) if device else 0,
        "stall_ps": 9_000 if log else 0,
    }
    amat = sum(parts.values())
    programs = 210_000 if device and not log else 9_400 if device else 0
    gc_programs = programs // 9
    busy = int(time * 1.7)
    memory = int(busy * (0.9 * relative**0.2))
    return {
        "trace": trace,
        "design": design,
        "fidelity": [],
        "mode": "detailed",
        "mode_error_milli": 0,
        "threads": threads,
        "seed": 1,
        "config_digest": f"{abs(hash_text(trace + design)):016x}",
        "instructions": instructions,
        "programs": [
            {
                "trace": part,
                "threads": threads,
                "instructions": instructions,
                "execution_time_ps": time,
            }
            for part in trace.split("+")
        ],
        "warmup_instructions": instructions // 3,
        "execution_time_ps": time,
        "config": config(design),
        "warnings": ["garbage collection never ran"] if design == "skybyte-wp" else [],
        "bottleneck": {
            "what": "flash",
            "share_milli": 612,
            "evidence": "a read takes 24us; dies busy 12 %",
        },
        "statistics": {
            "cores": {
                "instructions": instructions,
                "loads": instructions // 4,
                "stores": instructions // 9,
                "branches": instructions // 6,
                "mispredicts": instructions // 300,
                "squashed_instructions": 410_000 if switching else 0,
                "memory_bound_ps": memory,
                "compute_bound_ps": busy - memory,
                "switch_ps": int(time * 0.11) if switching else int(time * 0.01),
                "idle_ps": int(time * 0.05),
                "ipc_micro": int(instructions * 250_000_000 / busy),
            },
            "caches": {
                "l1i_accesses": 3_000_000,
                "l1i_misses": 4_000,
                "l1d_accesses": 4_400_000,
                "l1d_misses": 1_300_000,
                "l2_accesses": 1_304_000,
                "l2_misses": 1_000_000,
                "l3_accesses": 1_000_000,
                "l3_misses": 620_000,
                "l3_write_backs": 290_000,
                "tlb_walks": 90_000,
                "l3_mpki_milli": 50_000,
            },
            "requests": {
                "host_reads": host * 2 // 3,
                "host_writes": host - host * 2 // 3,
                "ssd_log_hits": int(ssd * 0.06) if log else 0,
                "ssd_cache_hits": int(ssd * 0.5) if device else 0,
                "ssd_buffer_hits": int(ssd * 0.004) if device else 0,
                "ssd_misses": misses,
                "ssd_merged_misses": misses // 3,
                "ssd_writes": ssd * 3 // 10,
                "ssd_unmapped": 0,
                "ssd_store_misses": 0,
                "delayed": misses if switching else 0,
                "reissued": misses if switching else 0,
            },
            "amat": {
                "paper_accesses": accesses - (misses if switching else 0),
                "paper_ps": amat,
                **parts,
                "all_accesses": accesses,
                "all_ps": amat + (300_000 if switching else 20_000),
                "p50_ps": 130_000 if device else 48_000,
                "p99_ps": int(9_000_000 * relative) if device else 110_000,
                "p999_ps": int(150_000_000 * relative) if device else 170_000,
            },
            "latency_cdf": _cdf(accesses, relative, device),
            "flash": {
                "read_pages": misses + programs // 2,
                "program_pages": programs + gc_programs,
                "host_read_pages": misses,
                "host_program_pages": programs,
                "coalescing_read_pages": programs // 3 if log else 0,
                "gc_read_pages": gc_programs,
                "gc_program_pages": gc_programs,
                "erased_blocks": gc_programs // 60,
                "write_amplification_milli": 1_111 if device else None,
                "written_bytes": (programs + gc_programs) * 4096,
                "average_read_latency_ps": int(3_000_000 + 22_000_000 * relative)
                if device
                else None,
            },
            "activity": {
                "log_fills": 6 if log else 0,
                "compactions": 6 if log else 0,
                "pages_compacted": programs if log else 0,
                "compaction_average_ps": 900_000_000 if log else 0,
                "index_peak_bytes": 350_000 if log else 0,
                "gc_invocations": gc_programs // 60,
                "data_cache_turnover_milli": 5_300 if device else None,
                "cold_miss_share_milli": 120 if device else None,
                "promotions": 2_100 if promoting else 0,
                "demotions": 1_150 if promoting else 0,
                "promotion_recalls": 0,
                "reads_before_page": 0,
                "fills_given_up": 0,
                "prefetches": misses,
                "useful_prefetches": misses // 3,
                "late_prefetches": misses // 9,
                "useless_prefetches": misses // 2,
            },
            "os": {
                "switches_long_delay": misses if switching else 0,
                "switches_slice": 90,
                "switches_blocked": 40,
                "retries": misses // 5 if switching else 0,
                "syscalls": 512,
                "data_wakes": 0,
            },
            "link": {
                "to_device_bytes": ssd * 60,
                "to_host_bytes": ssd * 70,
                "to_device_busy_ps": ssd * 4_000 // 1000 * 1000,
                "to_host_busy_ps": ssd * 4_400 // 1000 * 1000,
            },
            "threads": [
                {
                    "thread": index,
                    "running_ps": busy // threads,
                    "finished_ps": time - index * 1_000_000,
                }
                for index in range(threads)
            ],
        },
    }


def window(run: dict[str, Any], index: int, instructions: int) -> Any:
    """A measured window of a run: two threads, of which the second is slower, and later windows
    slower than earlier ones."""
    pace = run["execution_time_ps"] / run["instructions"]
    seed = int(run["config"]["run"]["seed"])
    threads = [
        {
            "thread": thread,
            "instructions": 3_000_000,
            "quota": instructions // 2,
            "executed": instructions // 2,
            "active_ps": int(pace * instructions * (1 + thread) * (10 + index) * (9 + seed) / 100),
        }
        for thread in range(2)
    ]
    kept = {key: value for key, value in run.items() if key != "programs"}
    return kept | {"seed": seed, "window": index, "instructions": instructions, "pace": threads}


def config(design: str) -> dict[str, dict[str, str]]:
    """An effective configuration."""
    log = "w" in design.split("-")[1] or design.endswith("full")
    return {
        "run": {"seed": "1"},
        "design": {
            "migration": "adaptive" if design in PROMOTING else "none",
            "write_log": "true" if log else "false",
        },
        "ftl": {"placement": "0", "over_provisioning": "125/1000"},
        "cpu": {"cores": "2", "l3": "256KiB"},
        "nand": {
            "t_r": "3us",
            "t_prog": "100us",
            "t_bers": "1ms",
            "channels": "4",
            "chips_per_channel": "2",
            "dies_per_chip": "8",
            "planes_per_die": "1",
            "blocks_per_plane": "48",
            "pages_per_block": "32",
            "page_size": "4KiB",
        },
        "os": {"scheduler": "cfs", "switch_cost": "2us", "switch_threshold": "2us"},
        "ssd": {"dram": "4MiB"},
        "ssd.log": {"size": "1MiB" if log else "0B"},
        "host": {"promoted": "4MiB"},
    }


def hash_text(text: str) -> int:
    """A number that depends on every character."""
    value = 1469598103934665603
    for byte in text.encode():
        value = (value ^ byte) * 1099511628211 % (1 << 64)
    return value


def _cdf(total: int, relative: float, device: bool) -> list[list[int]]:
    points: list[list[int]] = []
    for step in range(60):
        latency = int(30_000 * 1.25**step)
        middle = 130_000 if device else 48_000
        share = 1 / (1 + (middle / latency) ** 3)
        if device:
            tail = 0.14 * relative
            slow = 1 / (1 + (9_000_000 / latency) ** 2.4)
            share = (1 - tail) * share + tail * slow
        points.append([latency, math.floor(total * share)])
    points.append([int(30_000 * 1.25**60), total])
    return points


def summary(traces: tuple[str, ...] = ("synthetic-sort", "synthetic-kv")) -> Any:
    """A whole summary, labelled as what it is."""
    return {
        "schema": 1,
        "provenance": {
            "entresol": "0.0.0-synthetic",
            "machine": "demo",
            "audit": True,
            "traces": [
                {
                    "name": name,
                    "digest": f"{hash_text(name):032x}",
                    "threads": 8,
                    "instructions": 14_000_000,
                }
                for name in traces
            ],
        },
        "runs": [run(trace, entry[0]) for trace in traces for entry in DESIGNS],
    }
