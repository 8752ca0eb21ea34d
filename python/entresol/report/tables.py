"""The tables of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from entresol.derived import AMAT_PARTS, BOUND_PARTS, REQUEST_KINDS, Panel, Run
from entresol.report import cells, html
from entresol.report.cells import Cell
from entresol.report.definitions import MAIN
from entresol.report.html import Row
from entresol.result_types import Thread

_ACTIVITY = (
    ("log_fills", "log fills"),
    ("compactions", "compactions"),
    ("pages_compacted", "pages compacted"),
    ("gc_invocations", "GCs"),
    ("data_cache_turnover_milli", "data cache turnovers"),
    ("cold_miss_share_milli", "cold misses"),
    ("promotions", "promotions"),
    ("demotions", "demotions"),
    ("prefetches", "prefetches"),
    ("useful_prefetches", "useful"),
)
_LOG = frozenset({"log_fills", "compactions", "pages_compacted"})
_MIGRATION = frozenset({"promotions"})
_table = partial(html.table, glossary=MAIN)


def results(panel: Panel) -> str:
    """The main table of a capture."""
    fastest = min(panel.devices or panel.runs, key=lambda run: run.time_ps)
    alone = len(panel.runs) == 1
    relative = () if alone else (f"÷ {panel.reference.design}", "speedup")
    heads = (
        "design",
        "execution time",
        *relative,
        "IPC",
        "AMAT",
        "AMAT, all",
        "p50",
        "p99",
        "p99.9",
        "L3 MPKI",
        "switches",
    )
    rows = [
        Row(run.design, _result_cells(panel, run, alone), run is fastest and not alone)
        for run in panel.runs
    ]
    return _table(f"{panel.trace}: results", heads, rows)


def _result_cells(panel: Panel, run: Run, alone: bool) -> tuple[Cell, ...]:
    relative = (cells.ratio(panel.normalised(run)), cells.times(panel.speedup(run)))
    latencies = (
        cells.duration(run.number("amat", name))
        for name in ("paper_ps", "all_ps", "p50_ps", "p99_ps", "p999_ps")
    )
    return (
        cells.duration(run.time_ps),
        *(() if alone else relative),
        cells.micro(run.number("cores", "ipc_micro")),
        *latencies,
        cells.milli(run.number("caches", "l3_mpki_milli")),
        cells.exact(run.switches),
    )


def programs(panel: Panel) -> str:
    """Each program of a co-run: its time, and how much slower than alone."""
    names = [program["trace"] for program in panel.runs[0].programs]
    heads = ("design", *(head for name in names for head in (name, "slowdown")))
    rows = [
        Row(
            run.design,
            tuple(
                cell
                for program in run.programs
                for cell in (
                    cells.duration(program["execution_time_ps"]),
                    cells.milli(program.get("slowdown_milli")),
                )
            ),
        )
        for run in panel.runs
    ]
    return _table(f"{panel.trace}: programs together", heads, rows)


def percentiles(panels: Sequence[Panel]) -> str:
    """The latency of the middle and of the tail, for all captures at once."""
    designs = list(dict.fromkeys(run.design for panel in panels for run in panel.runs))
    heads = (
        "design",
        *(f"{panel.trace} {name}" for panel in panels for name in ("p50", "p99", "p99.9")),
    )
    rows = [
        Row(
            design,
            tuple(
                cells.duration(run.number("amat", name) if run else None)
                for panel in panels
                for run in (panel.find(design),)
                for name in ("p50_ps", "p99_ps", "p999_ps")
            ),
        )
        for design in designs
    ]
    return _table("Latency percentiles", heads, rows)


def amat(panel: Panel) -> str:
    """The components of AMAT as numbers."""
    heads = ("design", "AMAT", *(label for _, label in AMAT_PARTS), "accesses")
    rows = [
        Row(
            run.design,
            (
                cells.duration(run.amat_ps),
                *(cells.duration(part) for part in run.parts("amat", AMAT_PARTS)),
                cells.exact(run.number("amat", "paper_accesses")),
            ),
        )
        for run in panel.runs
    ]
    return _table(f"{panel.trace}: AMAT by component", heads, rows)


def requests(panel: Panel) -> str:
    """Where requests are served, in numbers."""
    kinds = [
        kind for kind in REQUEST_KINDS if any(run.count("requests", kind[0]) for run in panel.runs)
    ]
    heads = ("design", *(label for _, label in kinds))
    rows = [
        Row(run.design, tuple(cells.exact(part) for part in run.parts("requests", kinds)))
        for run in panel.runs
    ]
    return _table(f"{panel.trace}: requests by where they are served", heads, rows)


def boundedness(panel: Panel) -> str:
    """Core time by what bounds it."""
    heads = ("design", *(label for _, label in BOUND_PARTS))
    rows = [
        Row(run.design, tuple(cells.duration(part) for part in run.parts("cores", BOUND_PARTS)))
        for run in panel.runs
    ]
    return _table(f"{panel.trace}: core time", heads, rows)


def flash(panel: Panel) -> str:
    """Flash traffic as numbers."""
    names = (
        "read_pages",
        "host_read_pages",
        "coalescing_read_pages",
        "gc_read_pages",
        "program_pages",
        "host_program_pages",
        "gc_program_pages",
        "erased_blocks",
    )
    heads = (
        "design",
        *(name.removesuffix("_pages").replace("_", " ") for name in names),
        "written",
        "WAF",
        "average read",
    )
    rows = [
        Row(
            run.design,
            (
                *(cells.exact(run.number("flash", name)) for name in names),
                cells.size(run.number("flash", "written_bytes")),
                cells.milli(run.write_amplification),
                cells.duration(run.number("flash", "average_read_latency_ps")),
            ),
        )
        for run in panel.devices
    ]
    return _table(f"{panel.trace}: flash", heads, rows)


def activity(panel: Panel) -> str:
    """What each mechanism did; a zero where it is being judged stands out."""
    heads = ("design", *(label for _, label in _ACTIVITY), "warnings")
    rows = [
        Row(
            run.design,
            (
                *(_activity_cell(run, name) for name, _ in _ACTIVITY),
                Cell("; ".join(run.warnings), prose=True),
            ),
        )
        for run in panel.devices
    ]
    return _table(f"{panel.trace}: activity", heads, rows)


def _activity_cell(run: Run, name: str) -> Cell:
    value = run.number("activity", name)
    cell = cells.exact(value)
    if name == "data_cache_turnover_milli":
        cell = cells.milli(value)
    elif name == "cold_miss_share_milli":
        cell = cells.percent(None if value is None else value / 1000)
    return replace(cell, alarm=value == 0 and _judged(run, name))


def _judged(run: Run, name: str) -> bool:
    """Whether the design has the mechanism, so that a zero says that it did not act."""
    design = run.json["config"]["design"]
    return (
        name == "gc_invocations"
        or (name in _LOG and design["write_log"] == "true")
        or (name in _MIGRATION and design["migration"] in ("adaptive", "tpp"))
    )


def system(panel: Panel) -> str:
    """Operating system and link."""
    heads = (
        "design",
        "long-delay switches",
        "slice switches",
        "blocked switches",
        "retries",
        "squashed instructions",
        "syscalls",
        "to device",
        "to host",
        "link busy to host",
    )
    rows = [
        Row(
            run.design,
            (
                *(
                    cells.exact(run.number("os", name))
                    for name in (
                        "switches_long_delay",
                        "switches_slice",
                        "switches_blocked",
                        "retries",
                    )
                ),
                cells.exact(run.number("cores", "squashed_instructions")),
                cells.exact(run.number("os", "syscalls")),
                cells.size(run.number("link", "to_device_bytes")),
                cells.size(run.number("link", "to_host_bytes")),
                cells.percent(run.count("link", "to_host_busy_ps") / (run.time_ps or 1)),
            ),
        )
        for run in panel.runs
    ]
    return _table(f"{panel.trace}: operating system and link", heads, rows)


def threads(panel: Panel) -> str:
    """When each thread finished, by design."""
    count = max(len(run.json["statistics"]["threads"]) for run in panel.runs)
    heads = ("thread", *(run.design for run in panel.runs))
    rows = []
    for index in range(count):
        entries = [_thread(run, index) for run in panel.runs]
        name = next(str(entry["thread"]) for entry in entries if entry)
        finished = (cells.duration(entry["finished_ps"] if entry else None) for entry in entries)
        rows.append(Row(name, tuple(finished)))
    return _table(f"{panel.trace}: end of each thread", heads, rows)


def _thread(run: Run, index: int) -> Thread | None:
    entries: list[Thread] = run.json["statistics"]["threads"]
    return entries[index] if index < len(entries) else None
