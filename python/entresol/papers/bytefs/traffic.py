"""Figures 1 and 8 to 11, and Table 2: traffic between host and device, and of the flash."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from entresol.figures import bars, frames, ink
from entresol.figures.frames import Rows
from entresol.figures.plan import Bench, Results, Settings, quotient
from entresol.papers.bytefs import runs
from entresol.papers.bytefs.runs import BYTEFS, EXT4, MACRO, MICRO, bench, published

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

WRITTEN = ("written_by_bytes", "written_by_blocks")
CLASSES = {
    "metadata_read": ("metadata_read_by_blocks",),
    "metadata_written": tuple(f"metadata_{way}" for way in WRITTEN),
    "journal_written": tuple(f"journal_{way}" for way in WRITTEN),
    "data_read": ("data_read_by_bytes", "data_read_by_blocks"),
    "data_written": tuple(f"data_{way}" for way in WRITTEN),
}
"""Parts of the traffic between host and device, and our counters that belong to each."""
WAYS = ("written", "read")
_OF_METADATA = ("superblock", "bitmaps", "inodes", "pointers", "entries")
STRUCTURES = {
    "written": {
        **{name: (f"{name}_written",) for name in _OF_METADATA},
        "journal": CLASSES["journal_written"], "data": CLASSES["data_written"],
    },
    "read": {
        **{name: (f"{name}_read",) for name in _OF_METADATA}, "data": CLASSES["data_read"],
    },
}  # fmt: skip
"""The same by structure, in each direction."""
FLASH = {
    "flash_read": ("device_flash_read_bytes",),
    "flash_programmed": ("device_flash_programmed_bytes",),
}
COLOURS = {
    "metadata_read": "#9fd0ea", "metadata_written": "#33608f", "journal_written": "#9a3f86",
    "data_read": "#f4a940", "data_written": "#d55e00", "flash_read": "#9fd0ea",
    "flash_programmed": "#33608f", "superblock": "#1d2127", "bitmaps": "#e6c04a",
    "inodes": "#33608f", "pointers": "#2a9264", "entries": "#62b9e2", "journal": "#9a3f86",
    "data": "#d55e00",
}  # fmt: skip
BLOCKED = (EXT4, "f2fs-like")
"""The systems that §3 studies."""
STUDIED = (*MICRO, *MACRO)


def blocked() -> list[str]:
    """Those of §3 that there are."""
    return [name for name in BLOCKED if name in runs.systems()]


def study_wants(of: Sequence[str], settings: Settings) -> list[Bench]:
    """Loads on the systems of §3."""
    return [bench(load, name) for load in runs.loads(settings, of) for name in blocked()]


def shares(results: Results) -> polars.DataFrame:
    """Figure 1: the share of each structure of what is written, and of what is read; and the
    journal's of both, which the text has."""
    rows = Rows()
    for load in runs.loads(results.settings, STUDIED):
        for name in blocked():
            item = bench(load, name)
            for way in WAYS:
                for part in STRUCTURES[way]:
                    rows.add(load, name, f"{part}_{way}_share", share(results, item, part, way))
            journal = runs.counted(results, item, *CLASSES["journal_written"])
            every = [counter for counters in CLASSES.values() for counter in counters]
            whole = runs.counted(results, item, *every)
            rows.add(load, name, "journal_share", quotient(journal, whole))
    frame = rows.frame(means=(frames.ARITHMETIC,))
    return _with_means(frame)


def share(results: Results, item: Bench, part: str, way: str) -> float | None:
    """A structure's share of what a run has read or written."""
    every = [counter for counters in STRUCTURES[way].values() for counter in counters]
    mine = runs.counted(results, item, *STRUCTURES[way][part])
    return quotient(mine, runs.counted(results, item, *every))


def _with_means(frame: polars.DataFrame) -> polars.DataFrame:
    # The paper gives averages alone.
    import polars as pl

    table = published("fig01")
    theirs = [
        table.find(*(row[column] for column in ("workload", "design", "metric")))
        for row in frame.iter_rows(named=True)
    ]
    frame = frame.with_columns(pl.Series("published", theirs, dtype=pl.Float64))
    return frame.with_columns((pl.col("ours") / pl.col("published")).alias("ratio"))


def amplifications(results: Results) -> polars.DataFrame:
    """Table 2: bytes between host and device over those of the application."""
    paper, rows = published("table2"), Rows()
    for load in runs.loads(results.settings, MACRO):
        for name in blocked():
            item = bench(load, name)
            run = results.benches.get(item)
            for what, of in (("write", "written"), ("read", "read")):
                parts = [part for part in CLASSES if part.endswith(of)]
                counters = [counter for part in parts for counter in CLASSES[part]]
                asked = None if run is None else float(run[f"application_{of}_bytes"])
                ours = quotient(runs.counted(results, item, *counters), asked)
                metric = f"{what}_amplification"
                rows.add(load, name, metric, ours, paper.find(load, name, metric))
    return rows.frame()


def draw_amplifications(frame: polars.DataFrame) -> Figure:
    """Writes and reads beside each other."""
    groups = [name for name in frames.distinct(frame, "workload") if name not in frames.MEANS]
    names = frames.distinct(frame, "design")
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.4)
        for axes, what in zip(drawn.subplots(1, 2), ("write", "read"), strict=True):
            values = frames.cells(frame, f"{what}_amplification")
            bars.grouped(axes, groups, runs.series(names), values,
                         limit=bars.top_of(values, most=8) if values else None)  # fmt: skip
            axes.set_ylabel(f"{what.capitalize()} amplification")
        bars.legend(drawn, runs.series(names), twins=True)
    return drawn


def draw_shares(frame: polars.DataFrame) -> Figure:
    """A bar for each system and load: what is written above, what is read below."""
    groups = [name for name in frames.distinct(frame, "workload") if name not in frames.MEANS]
    columns = [(str(item.key), item.code)
               for item in runs.series(frames.distinct(frame, "design"))]  # fmt: skip
    with ink.style():
        drawn = ink.figure(ink.PAGE, 4.4)
        for axes, way in zip(drawn.subplots(2, 1), WAYS, strict=True):
            pieces = [bars.Series(f"{part}_{way}_share", part, "", COLOURS[part])
                      for part in STRUCTURES[way]]  # fmt: skip
            shown = frame.filter(frame["metric"].is_in([str(piece.key) for piece in pieces]))
            bars.stacked(axes, groups, columns, pieces, frames.parts(shown))
            axes.set_ylabel(f"Share of bytes {way}")
        legend = [bars.Series(part, part, "", COLOURS[part]) for part in STRUCTURES["written"]]
        bars.legend(drawn, legend, twins=False, columns=7)
    return drawn


def _traffic(
    of: Sequence[str], parts: Mapping[str, tuple[str, ...]],
    add: Callable[[Rows, Results], None], results: Results,
) -> polars.DataFrame:  # fmt: skip
    rows = Rows()
    for load in runs.loads(results.settings, of):
        every = [counter for counters in parts.values() for counter in counters]
        base = runs.counted(results, bench(load, EXT4), *every)
        for name in runs.systems():
            for part, counters in parts.items():
                ours = runs.counted(results, bench(load, name), *counters)
                rows.add(load, name, f"normalised_{part}", quotient(ours, base))
    frame = rows.frame(means=())
    ratios = Rows()
    add(ratios, results)
    return frame.vstack(ratios.frame()) if ratios.rows else frame


METADATA = (*CLASSES["metadata_read"], *CLASSES["metadata_written"], *CLASSES["journal_written"])
"""As the paper counts: journals are of metadata."""


def _below(
    figure: str, of: Sequence[str], metric: str, counters: Sequence[str], key: str,
    rows: Rows, results: Results,
) -> None:  # fmt: skip
    """How many times less ByteFS moves than the others, and the mean, which is published."""
    count = partial(_count, counters)
    for other in (name for name in runs.systems() if name != BYTEFS):
        known = []
        for load in runs.loads(results.settings, of):
            ours = runs.over(count, results, load, other, BYTEFS)
            was = published(figure).find(load, BYTEFS, f"{metric}_below_{other}")
            rows.add(load, BYTEFS, f"{metric}_below_{other}", ours, was)
            known.append(ours)
        values = [value for value in known if value is not None]
        mean = frames.mean(frames.ARITHMETIC, values) if len(values) == len(known) else None
        theirs = published(figure).find(key, BYTEFS, f"{metric}_below_{other}")
        if key:
            rows.add(key, BYTEFS, f"mean_{metric}_below_{other}", mean, theirs)


def _count(counters: Sequence[str], results: Results, item: Bench) -> float | None:
    return runs.counted(results, item, *counters)


micro = partial(_traffic, MICRO, CLASSES, partial(_below, "fig08", MICRO, "metadata", METADATA,
                                                  "micro"))  # fmt: skip
macro = partial(_traffic, MACRO, CLASSES, partial(_below, "fig09", MACRO, "data_written",
                                                  CLASSES["data_written"], ""))  # fmt: skip
EVERY_FLASH = [counter for counters in FLASH.values() for counter in counters]
flash_micro = partial(_traffic, MICRO, FLASH, partial(_below, "fig10", MICRO, "flash", EVERY_FLASH,
                                                      "all"))  # fmt: skip
flash_macro = partial(_traffic, MACRO, FLASH, partial(_below, "fig10", MACRO, "flash", EVERY_FLASH,
                                                      "all"))  # fmt: skip


def draw_traffic(frame: polars.DataFrame) -> Figure:
    """Stacks of classes over Ext4-like's whole."""
    return _stacks(frame, CLASSES, "Traffic ÷ Ext4-like", prefix="normalised_")


def draw_flash(frame: polars.DataFrame) -> Figure:
    """Stacks of reads and programs over Ext4-like's whole."""
    return _stacks(frame, FLASH, "Flash traffic ÷ Ext4-like", prefix="normalised_")


def _stacks(
    frame: polars.DataFrame, parts: Mapping[str, tuple[str, ...]], label: str, *, prefix: str = "",
    suffix: str = "",
) -> Figure:  # fmt: skip
    metrics = [f"{prefix}{part}{suffix}" for part in parts]
    shown = frame.filter(frame["metric"].is_in(metrics))
    groups = [name for name in frames.distinct(shown, "workload") if name not in frames.MEANS]
    columns = [(item.key, item.code) for item in runs.series(frames.distinct(shown, "design"))]
    pieces = [bars.Series(metric, part.replace("_", " "), "", COLOURS[part])
              for part, metric in zip(parts, metrics, strict=True)]  # fmt: skip
    with ink.style():
        drawn = ink.figure(ink.PAGE, 2.6)
        axes = drawn.subplots()
        bars.stacked(axes, groups, [(str(key), code) for key, code in columns], pieces,
                     frames.parts(shown))  # fmt: skip
        axes.set_ylabel(label)
        bars.legend(drawn, pieces, twins=False, columns=5)
    return drawn
