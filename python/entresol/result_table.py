"""`results.parquet`: one row per run, one column per number, units in the names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from entresol.result_types import Measured

IDENTITY = (
    "trace",
    "design",
    "mode",
    "threads",
    "seed",
    "config_digest",
    "instructions",
    "execution_time_ps",
)


def flatten(result: Measured) -> dict[str, Any]:
    """A run as one row: `statistics.flash.read_pages` becomes `flash_read_pages`."""
    run = cast(Mapping[str, Any], result)
    row: dict[str, Any] = {name: run[name] for name in IDENTITY}
    for section, values in run["statistics"].items():
        if isinstance(values, dict):
            row |= {f"{section}_{name}": value for name, value in values.items()}
    cdf = run["statistics"]["latency_cdf"]
    row["latency_cdf_latency_ps"] = [point[0] for point in cdf]
    row["latency_cdf_count"] = [point[1] for point in cdf]
    threads = run["statistics"]["threads"]
    for name in threads[0] if threads else ():
        row[f"threads_{name}"] = [thread[name] for thread in threads]
    row["warnings"] = list(run["warnings"])
    for section, values in run["config"].items():
        prefix = f"config_{section.replace('.', '_')}"
        row |= {f"{prefix}_{key}": text for key, text in values.items()}
    return row


def write(runs: Sequence[Measured], path: Path) -> None:
    """Writes runs, or windows, in their order."""
    write_rows([flatten(run) for run in runs], path)


def write_rows(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Writes rows that need not have the same columns."""
    import pyarrow.parquet as pq

    pq.write_table(table(rows), path, compression="zstd")


def table(rows: Sequence[dict[str, Any]]) -> Any:
    """Rows as a table of Arrow."""
    # Imported here because it takes longer than the rest of the command line together.
    import pyarrow as pa

    columns: dict[str, None] = {}
    for row in rows:
        columns.update(dict.fromkeys(row))
    return pa.table({name: _array(pa, name, rows) for name in columns})


def _array(pa: Any, name: str, rows: Sequence[dict[str, Any]]) -> Any:
    if name == "warnings":
        return pa.array([row.get(name) for row in rows], pa.list_(pa.string()))
    if "latency_cdf_" in name or any(isinstance(row.get(name), list) for row in rows):
        return pa.array([row.get(name) for row in rows], pa.list_(pa.int64()))
    return pa.array([row.get(name) for row in rows])
