"""Tables of what loads of file systems have come to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from entresol import quantity
from entresol.core import Json

GAIN = "over ext4-like"
COLUMNS = (
    "personality", "operations", "time", "per second", "metadata", "journal", "data", "read",
    "flash read", "programmed", "log filled",
)  # fmt: skip
READ = ("metadata_read_by_blocks", "data_read_by_bytes", "data_read_by_blocks")


def overview(results: list[Json], gains: Sequence[float | None] = ()) -> Table:
    """A row for each file system; with the gains over another one, if there are any."""
    table = Table(box=None, pad_edge=False)
    has_gains = any(gain is not None for gain in gains)
    for title in (*COLUMNS, *((GAIN,) if has_gains else ())):
        left = title == "personality"
        table.add_column(title, justify="left" if left else "right", no_wrap=True)
    for number, result in enumerate(results):
        counts = result["synced"]
        written = {
            name: counts[f"{name}_written_by_bytes"] + counts[f"{name}_written_by_blocks"]
            for name in ("metadata", "journal", "data")
        }
        table.add_row(
            result["conditions"]["personality"],
            quantity.exact(result["operations"]),
            quantity.duration(result["virtual_time_ps"]),
            quantity.exact(round(result["operations_per_second"])),
            *(quantity.size(size) for size in written.values()),
            quantity.size(sum(counts[name] for name in READ)),
            quantity.exact(counts["device_flash_read_pages"]),
            quantity.exact(counts["device_flash_programmed_pages"]),
            quantity.exact(counts["device_log_fills"]),
            *((quantity.times(gains[number]),) if has_gains else ()),
        )
    return table


def latencies(result: Json) -> Table:
    """A row for each kind of operation."""
    table = Table(box=None, pad_edge=False)
    for title in ("operation", "count", "mean", "p50", "p95", "p99", "longest"):
        table.add_column(title, justify="left" if title == "operation" else "right", no_wrap=True)
    for kind, of in result["latencies"].items():
        spans = (of[name] for name in ("mean_ps", "p50_ps", "p95_ps", "p99_ps", "max_ps"))
        table.add_row(kind, quantity.exact(of["operations"]), *map(quantity.duration, spans))
    return table
