"""Accounted latencies of a device's requests, as a table."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from entresol import quantity
from entresol.core import Json

SPANS = (
    ("p50_ps", "p50"),
    ("p90_ps", "p90"),
    ("p99_ps", "p99"),
    ("p99_9_ps", "p99.9"),
    ("max_ps", "longest"),
)


def table(latencies: Json, *, style: str = "") -> Table:
    """A row for each kind of request; a dash where there was none."""
    made = Table(box=None, pad_edge=False, header_style=style)
    made.add_column("latency of", no_wrap=True)
    for title in ("requests", "mean", *(title for _, title in SPANS)):
        made.add_column(title, justify="right", no_wrap=True)
    for kind, latency in latencies.items():
        spans = [quantity.duration(latency[name]) for name in ("mean_ps", *dict(SPANS))]
        seen = "" if latency["requests"] else "dim"
        made.add_row(
            Text(kind.replace("_", " ")),
            quantity.count(latency["requests"]),
            *spans,
            style=seen,
        )
    return made
