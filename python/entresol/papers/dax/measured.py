"""Figures 6.2, 6.4, 6.7 and 6.11: absolute rates of each way to sync, as `entresol bench dax` has
measured them on this machine."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from entresol.core import Json
from entresol.errors import UserError
from entresol.figures import bars, frames, ink
from entresol.figures.frames import Rows
from entresol.figures.plan import Results, Settings, quotient
from entresol.papers.dax import runs
from entresol.papers.dax.runs import published

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

RATE = "operations_per_second"
TYPES = {"default": "#33608f", "hybrid": "#d55e00", "explicit": "#e6c04a", "predict": "#2a9264"}
SHOWN = {
    "6.2": ("valkey", ("always, 1 client", "everysec, 1 client", "no, 1 client")),
    "6.4": ("valkey", ("always, 1 client, pipeline 10", "everysec, 1 client, pipeline 10",
                       "no, 1 client, pipeline 10")),
    "6.7": ("postgresql", ("fdatasync", "fsync", "fsync=off")),
    "6.11": ("rocksdb", ("fillsync", "fillsync, use_fsync", "fillseq")),
}  # fmt: skip
SCALES = ("scale 70", "scale 10")
"""Of pgbench: that of the thesis, and what --quick has instead."""


@cache
def _cases(folder: str) -> tuple[Json, ...]:
    if not folder:
        return ()
    try:
        text = (Path(folder) / "results.json").read_text(encoding="utf-8")
        return tuple(json.loads(text)["cases"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = getattr(error, "strerror", None) or "results.json is none of bench dax"
        raise UserError(f"--measured {folder}: {why}; name the directory of a bench dax.") from None


def _rate(folder: str, database: str, case: str, kind: str) -> float | None:
    names = [case, *(f"{case}, {scale}" for scale in SCALES)]
    found = {
        row["case"]["name"]: row["per_second"]["median"] for row in _cases(folder)
        if row["case"]["database"] == database and row["type"] == kind
        and row["flush"] == runs.FLUSH
    }  # fmt: skip
    return next((found[name] for name in names if name in found), None)


def clients_gain(folder: str, count: int, pipeline: int) -> float | None:
    """What so many clients of Valkey gained on the clock."""
    case = {"database": "valkey", "variant": "always", "clients": count, "pipeline": pipeline}
    for row in _cases(folder):
        is_it = row["type"] == runs.HYBRID and row["flush"] == runs.FLUSH
        if is_it and row["over_default"] and case.items() <= row["case"].items():
            return float(row["over_default"]["median"])
    return None


def rates(name: str, results: Results) -> polars.DataFrame:
    """Rates of each case and type, and over `default`."""
    database, cases = SHOWN[name]
    folder, rows = results.settings.measured, Rows()
    for case in cases:
        plain = _rate(folder, database, case, "default")
        for kind in TYPES:
            ours = _rate(folder, database, case, kind)
            rows.add(case, kind, RATE, ours, _published_rate(database, case, kind))
            if kind != "default":
                rows.add(case, kind, "over_default", quotient(ours, plain),
                         _published_gain(name, database, case, kind))  # fmt: skip
    return rows.frame(means=())


def _published_rate(database: str, case: str, kind: str) -> float | None:
    key = {"fillsync": database, "fillseq": f"{database} fillseq"}.get(case)
    return None if key is None else published("rates").find(key, kind, RATE)


def _published_gain(name: str, database: str, case: str, kind: str) -> float | None:
    of = "valkey-10" if name == "6.4" else database
    word = case.partition(", ")[0]
    if case == "fillsync, use_fsync":
        word = "use_fsync"
    key = of if word in ("always", "fdatasync", "fillsync") else f"{of} {word}"
    return published("speedups").find(key, kind, "speedup")


def draw(frame: polars.DataFrame) -> Figure:
    """A group for each case, a bar for each type."""
    rows = frame.filter(frame["metric"] == RATE)
    known = [kind for kind in TYPES
             if any(row.design == kind and (row.ours or row.published) is not None
                    for row in frames.read(rows))]  # fmt: skip
    series = [bars.Series(kind, kind, "", TYPES[kind]) for kind in known or TYPES]
    with ink.style():
        drawn = ink.figure(ink.COLUMN * 1.3, 2.2)
        axes = drawn.subplots()
        groups = _groups(rows)
        short = dict(zip(groups, labels(groups), strict=True))
        cells = {(short[group], kind): cell
                 for (group, kind), cell in frames.cells(rows, RATE).items()}  # fmt: skip
        bars.grouped(axes, list(short.values()), series, cells, log=True)
        values = [value for row in frames.read(rows) for value in (row.ours, row.published)
                  if value]  # fmt: skip
        # The least bar has a length that says something.
        axes.set_ylim(bottom=10.0 ** math.floor(math.log10(min(values, default=1.0) / 2)))
        axes.set_ylabel("Operations per second")
        twins = any(row.published is not None for row in frames.read(rows))
        bars.legend(drawn, series, twins=twins)
    return drawn


def _groups(frame: polars.DataFrame) -> Sequence[str]:
    return frames.distinct(frame, "workload")


def labels(groups: Sequence[str]) -> list[str]:
    """What they have in common behind a comma is said by the title."""
    ends = {name.partition(", ")[2] for name in groups}
    return [name.partition(", ")[0] if len(ends) == 1 else name for name in groups]


def lacks(settings: Settings) -> str:
    """What to do where nothing was measured."""
    if settings.measured:
        return ""
    return (
        "nothing of ours is drawn, for it is measured and not simulated: entresol bench dax -o "
        "found, then --measured found"
    )


def of(name: str) -> Callable[[Results], polars.DataFrame]:
    """The frame of a figure."""
    return partial(rates, name)
