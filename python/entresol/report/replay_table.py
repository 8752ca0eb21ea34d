"""The numbers of a replay as text: for the terminal and for the page."""

from __future__ import annotations

from typing import Any

from entresol import quantity
from entresol.core import Json

HEADS = (
    "design",
    "req/s",
    "MB/s",
    "read",
    "p50",
    "p99",
    "p99.9",
    "write",
    "p50",
    "p99",
    "p99.9",
    "WAF",
    "GCs",
    "dies",
    "channels",
)
"""Of the main table: read and write are means; dies and channels are shares of time busy.
What each is stands in `definitions`, and on the page."""


def cells(run: Json) -> list[str]:
    """The main row of a run, without the design."""
    statistics = run["statistics"]
    throughput = statistics["throughput"]
    waf = statistics["flash"]["write_amplification_milli"]
    return [
        quantity.count(throughput["requests_per_second"]),
        quantity.significant(throughput["bytes_per_second"] / 1e6),
        *_latency(statistics["read_latency"]),
        *_latency(statistics["write_latency"]),
        quantity.milli(waf) if waf else quantity.NOTHING,
        quantity.exact(statistics["activity"]["gc_invocations"]),
        quantity.percent(statistics["utilisation"]["dies_busy_milli"] / 1000),
        quantity.percent(statistics["utilisation"]["channels_busy_milli"] / 1000),
    ]


def _latency(values: dict[str, Any]) -> list[str]:
    names = ("mean_ps", "p50_ps", "p99_ps", "p999_ps")
    return [quantity.duration(values[name] if values["count"] else None) for name in names]


def caption(run: Json) -> str:
    """What was asked for, in a line."""
    loop = f"queue depth {run['queue_depth']}"
    if not run["queue_depth"]:
        loop = f"times of the trace, {quantity.milli(run['speedup_milli'])} times as fast"
    measured = f"{quantity.count(run['requests'])} requests measured"
    return f"{run['trace']}: {measured}, {run['port']} port, {loop}"
