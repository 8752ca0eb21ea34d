"""The runs of OpenCXD's figures: captures on three back ends, the flash alone, compactions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

from entresol import core, papers
from entresol.figures.benches import COMPACTION, NAND
from entresol.figures.plan import Bench, Results, Settings, Want
from entresol.figures.published import Published
from entresol.papers.skybyte import runs as skybyte
from entresol.units import picoseconds_of

NAME = "opencxd"
WORKLOADS = skybyte.WORKLOADS
"""§V-A: SkyByte's."""
SCALES = skybyte.SCALES
DESIGN = "skybyte-full"
MODULES = {"module-a": "NAND (a)", "module-b": "NAND (b)"}
CONSTANT = "constant"
OPERATIONS = ("read", "program")
DEPTHS = (1, 8)
BACK_ENDS = {
    "modelled": ("Modelled: constants", "#33608f"),
    "empirical": ("Empirical NAND", "#f4a940"),
    "loop": ("In the loop, empirical NAND", "#d55e00"),
}
"""What answers the simulated host: name and colour."""
ALL_CONSTANT = (
    "nand.empirical.program=constant",
    "nand.empirical.read=constant",
    "nand.empirical.retry=0%",
)
NO_OVERHEAD = "nand.empirical.overhead=0ns"
FLASH = "module-b"
"""The module on OpenCXD's board (Table III: 256 GB)."""

Wants = Callable[[Settings], list[Want]]

published = Published(
    papers.room(NAME).joinpath("published"),
    f"papers/{NAME}/published",
    {"table2": 12, "table5": 12, "fig03": 1, "fig10": 3, "fig11": 2, "fig13": 1},
)


def want(workload: str, back_end: str, design: str = DESIGN) -> Want:
    """A run on a back end: the module's times as constants at the cells, its drawn ones, or these
    with firmware that is measured."""
    overrides = (*ALL_CONSTANT, NO_OVERHEAD) if back_end == "modelled" else ()
    device = "loop" if back_end == "loop" else ""
    threads = skybyte.threads_of(design)
    return Want(workload, design, threads, tuple(sorted(overrides)), FLASH, device)


def on(*back_ends: str) -> Wants:
    """What a figure wants that shows all workloads on some back ends."""

    def wanted(settings: Settings) -> list[Want]:
        return [want(name, back_end) for name in settings.workloads for back_end in back_ends]

    return wanted


def flash(kind: str, operation: str, depth: int) -> Bench:
    """Commands of a module; `constant`: of (a) with constants at the cells and nothing for the
    controller, which SimpleSSD was given."""
    options = (f"run.operation={operation}", f"run.depth={depth}")
    if kind != CONSTANT:
        return Bench(NAND, kind, "", options)
    return Bench(NAND, "module-a", "", (*options, *ALL_CONSTANT, NO_OVERHEAD))


def compaction(launch: str, log_mib: int, nand: str) -> Bench:
    """Half a log of this size brought to flash; `nand` as `constant` or `drawn` by table."""
    options = (f"run.log={log_mib}MiB", f"run.lines={LINES}", f"ssd.compaction.launch={launch}",
               f"ssd.compaction.batch={BATCH}", f"ssd.buffers={BATCH}")  # fmt: skip
    return Bench(COMPACTION, NAME, NAME, (*options, *(() if nand == CONSTANT else drawn())))


LINES = 32
"""Logged of each page on the average, of 256."""
BATCH = 1024
"""Pages in flight: §V-D collects all that a log needs before it issues them. More gain little."""


def drawn() -> tuple[str, ...]:
    """The tables of module (b), which the device preset has as constants."""
    values = setting("nand.empirical")
    keys = ("read", "program", "retry", "retry_most", "retry_time")
    return tuple(f"nand.empirical.{key}={values[key]}" for key in keys)


def setting(section: str, nand: str = FLASH) -> dict[str, str]:
    """Parameters of a module."""
    return core.effective_config(core.Setup("table2", nand), "base-cssd")[section]


def mean(table: str, depth: int) -> int:
    """What a table's operations take on the average with so many in flight, in picoseconds."""
    rows = dict(row.strip().split(":", 1) for row in table.split(";"))
    points = [(_share(point[0]), picoseconds_of(point[1], "the table"))
              for point in (each.split("=") for each in rows[f"{depth}"].split())]  # fmt: skip
    return round(sum((after - before) * (first + last) / 2
                     for (before, first), (after, last) in pairwise(points)))  # fmt: skip


def _share(text: str) -> Fraction:
    return Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)


def taken(results: Results, item: Bench, name: str) -> float | None:
    """A number of a bench's result, times of the flash in microseconds."""
    run = results.benches.get(item)
    return None if run is None else float(run[name]) / 1e6
