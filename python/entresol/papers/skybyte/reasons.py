"""Why SkyByte's figures differ from the published ones at scale small, in a person's sentences.

What a sentence says was found by experiment (`entresol reproduction` repeats the decisive ones);
its numbers are those of the frame that is drawn and of the published files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from entresol import quantity
from entresol.figures import frames
from entresol.papers.skybyte.runs import published

if TYPE_CHECKING:
    import polars

_MISSES = (
    "At scale small dlrm, ycsb and tpcc touch more of device DRAM than the published traces do, "
    "so more of their requests go to flash; of bfs-dense fewer do (Figure 16)."
)
_DEVICE_DRAM = (
    "Accesses also wait for device DRAM, which in the artifact is constant (switch "
    "constant_device_latencies)"
)
_CLEAN = (
    "The artifact's Base-CSSD programs clean pages that leave its cache, and reads wait for these "
    "programs; ours drops them (switch clean_victims_programmed), so Base-CSSD writes less, and "
    "designs with a write log gain less over it."
)
_LOG = (
    "Pages that are written are promoted to host DRAM, so few lines reach the log: dlrm and ycsb "
    "fill the default one, tpcc and radix smaller ones."
)


def _row(
    frame: polars.DataFrame, workload: str, design: str, metric: str, x: float | str | None = None
) -> frames.Row | None:
    found = (
        row
        for row in frames.read(frame)
        if (row.workload, row.design, row.metric, row.x) == (workload, design, metric, x)
    )
    return next(found, None)


def _ours(frame: polars.DataFrame, workload: str, design: str, metric: str,
          x: float | str | None = None) -> float | None:  # fmt: skip
    row = _row(frame, workload, design, metric, x)
    return None if row is None else row.ours


def _number(value: float | None) -> str:
    return quantity.NOTHING if value is None else quantity.significant(value, 2)


def _listed(numbers: Iterable[float | None]) -> str:
    """Numbers in a sentence, with an `and` before the last."""
    *most, last = [_number(value) for value in numbers]
    return f"{', '.join(most)} and {last}"


def _percent(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else 100 * value for value in values]


def slowdowns(_frame: polars.DataFrame) -> str:
    """Figure 2."""
    times = published("fig14")
    base, ideal = (
        times.find("radix", design, "exec_time") for design in ("base-cssd", "dram-only")
    )
    ratio = _number(None if base is None or not ideal else base / ideal)
    return f"{_MISSES} {_DEVICE_DRAM}. For radix the published times of Figure 14 have {ratio}."


def latencies(_frame: polars.DataFrame) -> str:
    """Figure 3."""
    return (f"{_MISSES} {_DEVICE_DRAM}: it is a large part of the AMAT of bc, bfs-dense, radix and "
            "srad on Base-CSSD (Figure 17).")  # fmt: skip


def boundedness(_frame: polars.DataFrame) -> str:
    """Figure 4."""
    return ("The artifact's DRAM-Only runs on a DRAM model of its own, in which accesses wait "
            "longer (switch macsim_dram).")  # fmt: skip


def thresholds(frame: polars.DataFrame) -> str:
    """Figure 9."""
    times: dict[str, list[tuple[float, float | None]]] = {}
    for row in frames.read(frame):
        if row.x is not None and row.workload not in frames.MEANS:
            times.setdefault(row.workload, []).append((float(row.x), row.ours))
    steps = [points[index][0] for points in times.values() for index in range(1, len(points))
             if points[index][1] != points[index - 1][1]]  # fmt: skip
    table = published("table3")
    theirs = [table.find(name, "skybyte-wp", "flash_read_latency_us") for name in ("srad", "tpcc")]
    return (
        f"Ours are the same with every threshold from {_number(max(steps, default=None))} µs on, "
        "for nothing waits longer, while published times go on growing: a published flash read of "
        f"srad and tpcc takes {_listed(theirs)} µs on average, more than ours (Table III)."
    )


def schedulers(frame: polars.DataFrame) -> str:
    """Figure 10."""
    means = [row.ours for row in frames.read(frame)
             if (row.workload, row.metric) == (frames.GEOMETRIC, "normalised_time")]  # fmt: skip
    known = [value for value in means if value is not None]
    apart = 100 * (max(known) / min(known) - 1) if known else None
    return ("No: as the text says, the three policies have similar times; their means are within "
            f"{_number(apart)} % of each other.")  # fmt: skip


def why_times(_frame: polars.DataFrame) -> str:
    """Figures 14 and 17."""
    return (f"{_CLEAN} For bfs-dense and radix it writes next to nothing (Figure 18), so that a "
            "log without promotion only adds compaction.")  # fmt: skip


def writes(frame: polars.DataFrame) -> str:
    """Figure 18."""
    pages = [_ours(frame, name, "base-cssd", "pages") for name in ("bfs-dense", "radix")]
    return (f"{_CLEAN} For bfs-dense and radix it writes {_listed(pages)} pages, so that a log "
            "without promotion only adds compaction.")  # fmt: skip


def threads(_frame: polars.DataFrame) -> str:
    """Figure 15."""
    reads, requests = published("table3"), published("fig16")
    slow = [reads.find(name, "skybyte-wp", "flash_read_latency_us")
            for name in ("bfs-dense", "srad", "tpcc")]  # fmt: skip
    missed = [requests.find(name, "skybyte-wp", "ssd_dram_read_miss")
              for name in ("bfs-dense", "radix", "srad")]  # fmt: skip
    return (
        "There is less to hide: published flash reads of bfs-dense, srad and tpcc take "
        f"{_listed(slow)} µs, ours less (Table III), and of bfs-dense, radix and srad fewer "
        f"requests go to flash than the published {_listed(missed)} % (Figure 16)."
    )


def requests(frame: polars.DataFrame) -> str:
    """Figure 16."""

    def shares(metric: str, *names: str) -> tuple[str, str]:
        rows = [_row(frame, name, "skybyte-wp", metric) for name in names]
        ours = _percent(None if row is None else row.ours for row in rows)
        theirs = _percent(None if row is None else row.published for row in rows)
        return _listed(ours), _listed(theirs)

    missed, theirs = shares("ssd_dram_read_miss", "dlrm", "ycsb", "tpcc", "bfs-dense")
    written, their_writes = shares("ssd_write", "srad", "tpcc")
    return (
        "At scale small dlrm, ycsb and tpcc touch more of device DRAM than the published traces "
        f"do, so more requests go to flash; of these and of bfs-dense it is {missed} %, published "
        f"{theirs} %. Pages that are written are promoted: {written} % of the requests of srad "
        f"and tpcc are writes to the device, published {their_writes} %; why those stay there is "
        "not explained."
    )


def read_latencies(_frame: polars.DataFrame) -> str:
    """Table III."""
    return ("Reads wait for programs only where the log is compacted or pages are evicted dirty, "
            "which at this scale is dlrm and, little, ycsb; in the artifact they wait for clean "
            "pages too.")  # fmt: skip


def log_sizes(_frame: polars.DataFrame) -> str:
    """Figures 19 and 20."""
    share = published("fig16").find("srad", "skybyte-wp", "ssd_write")
    return (f"{_LOG} bc, bfs-dense and srad write nothing, where {_number(share)} % of srad's "
            "requests were published as writes to the device (Figure 16).")  # fmt: skip


def dram_sizes(_frame: polars.DataFrame) -> str:
    """Figure 21."""
    return (
        "Published is ycsb only, where the artifact's Base-CSSD programs clean pages that leave "
        "its cache, and reads wait for these programs; ours drops them (switch "
        "clean_victims_programmed), so the distance from Base-CSSD to the others is smaller. Ours "
        "misses more often (Figure 16), so more DRAM gains more."
    )


def flashes(frame: polars.DataFrame) -> str:
    """Figure 22."""
    full = "skybyte-full-24"
    gains = [None if not value else 1 / value for value in (
        _ours(frame, frames.GEOMETRIC, full, "normalised_time", nand) for nand in ("ull", "mlc")
    )]  # fmt: skip
    slower = [
        f"{row.workload} with {str(row.x).upper()}"
        for row in frames.read(frame)
        if row.design == full
        and row.workload not in frames.MEANS
        and row.ours is not None
        and row.ours > (_ours(frame, row.workload, "skybyte-wp", row.metric, row.x) or row.ours)
    ]
    loses = f" Slower than without switching: {', '.join(slower)}." if slower else ""
    return (
        "No: as the text says, the gain over P grows with the latency of flash, with 24 threads "
        f"from {_number(gains[0])} (ULL) to {_number(gains[1])} times (MLC, geometric mean).{loses}"
    )


def migrations(_frame: polars.DataFrame) -> str:
    """Figure 23."""
    return (
        "AstriFlash here fetches a page on its first miss; in the artifact it is SkyByte-CP with "
        "eight ways (switch astriflash_by_hotness). TPP has hardly begun to look at pages when a "
        "window ends (tpp.scan_period), so Full gains more over WCT."
    )
