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


def table(latencies: Json, *, style: str = "", is_small: bool = False) -> Table:
    """A row for each kind of request; a dash where there was none. A small one has no means."""
    # A small one fits into a panel of a terminal of 120 columns.
    padding = (0, 0, 0, 1) if is_small else (0, 1)
    made = Table(box=None, pad_edge=False, padding=padding, header_style=style)
    titles = dict(SPANS) if is_small else {"mean_ps": "mean", **dict(SPANS)}
    made.add_column("" if is_small else "latency of", no_wrap=True)
    made.add_column("count" if is_small else "requests", justify="right", no_wrap=True)
    for title in titles.values():
        made.add_column(title, justify="right", no_wrap=True)
    for kind, latency in latencies.items():
        spans = [quantity.duration(latency[name]) for name in titles]
        seen = "" if latency["requests"] else "dim"
        made.add_row(
            Text(kind.replace("_", " ")),
            quantity.count(latency["requests"]),
            *spans,
            style=seen,
        )
    return made
