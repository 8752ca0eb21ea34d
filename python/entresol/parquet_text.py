"""Parquet files of accesses and requests, as the text with a header that the core reads, and back.

Batch by batch, so that memory holds neither file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from entresol.errors import UserError

_MAGIC = b"PAR1"
_READING_BYTES = 1 << 22
"""Of text that becomes one batch of a Parquet file."""

TIMES = ("time_ps", "time_ns", "time_us", "time_ms", "time_s")
"""Columns that hold times: the unit is in the name."""

REQUESTS = (TIMES, ("offset", "address"), ("size",), ("op",))
"""Columns of requests to a device; of each group the first that is there."""

ACCESSES = (("thread",), ("instructions", *TIMES), ("address",), ("size",), ("op",))
"""Columns of a program's accesses; of each group the first that is there."""


def is_parquet(path: Path) -> bool:
    """Whether the file begins as Parquet does. Raises `UserError` if it cannot be read."""
    if path.is_dir():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}.") from error


def write_text(path: Path, text: Path, wanted: Sequence[Sequence[str]]) -> None:
    """Writes the wanted columns of a Parquet file as text. Raises `UserError` if one is missing."""
    # Imported here because it takes longer than the rest of the command line together.
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = _choose(path, file.schema_arrow.names, wanted)
            schema = pa.schema([file.schema_arrow.field(name) for name in names])
            with pa.csv.CSVWriter(text, schema) as writer:
                for batch in file.iter_batches(columns=names):
                    writer.write_batch(batch)
    except (pa.ArrowException, OSError) as error:
        raise UserError(
            f"{path}: is not a Parquet file that can be read: {str(error).rstrip('.')}."
        ) from error


def write_parquet(text: Path, path: Path) -> None:
    """Writes a table of accesses as a Parquet file. Raises `UserError` if it cannot."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    types = {
        "thread": pa.uint32(),
        "instructions": pa.uint64(),
        "address": pa.uint64(),
        "size": pa.uint8(),
        "op": pa.string(),
    }
    reading = pa.csv.ReadOptions(block_size=_READING_BYTES)
    converting = pa.csv.ConvertOptions(column_types=types)
    try:
        with (
            pa.csv.open_csv(text, read_options=reading, convert_options=converting) as batches,
            pq.ParquetWriter(path, batches.schema, compression="zstd") as writer,
        ):
            for batch in batches:
                writer.write_batch(batch)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: cannot be written: {str(error).rstrip('.')}.") from error


def _choose(path: Path, names: Sequence[str], wanted: Sequence[Sequence[str]]) -> list[str]:
    chosen: list[str] = []
    for group in wanted:
        found = [name for name in group if name in names]
        if not found:
            raise UserError(
                f"{path}: has no column {' or '.join(group)}; it has {', '.join(names)}."
            )
        chosen.append(found[0])
    return chosen
