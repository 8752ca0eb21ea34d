"""Why figures differ from what was published: sentences with the numbers of their frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from entresol import quantity
from entresol.figures import frames

if TYPE_CHECKING:
    import polars


def thresholds(database: str) -> Callable[[polars.DataFrame], str]:
    """Of a figure of U and D."""

    def why(frame: polars.DataFrame) -> str:
        values = {(row.design, row.x, row.metric): row.ours for row in frames.read(frame)
                  if row.workload == database}  # fmt: skip
        page, most = (values.get((f"G = {order}", 60.0, "D_30")) for order in (0, 9))
        if page is None or most is None:
            return ""
        return (
            f"With ranges of a page ours gains {_times(page)} where the thesis gains nothing: an "
            "upgrade takes effect in the sync that decides it, and there a work queue does it "
            "later, when an append stream has left the page (figure wait). With G = 9 it gains "
            f"{_times(most)}; what a write takes besides its sync decides that, and differs "
            "between the machines (figure flush)."
        )

    return why


def afters(frame: polars.DataFrame) -> str:
    """Of Figure 6.5."""
    values = {(row.workload, row.design, row.x): row.ours for row in frames.read(frame)}
    few, many = (values.get(("valkey", "G = 4", after)) for after in (5.0, 20.0))
    if few is None or many is None:
        return ""
    return (
        f"With G = 4 the gain falls from {_times(few)} to {_times(many)} between F = 5 and 20, "
        "where the thesis's falls to half above 7: here the first syncs of a range are all that "
        "waits for flash, there those of the work queue's time besides."
    )


def _times(value: float) -> str:
    return f"{quantity.significant(value, 3)} times"
