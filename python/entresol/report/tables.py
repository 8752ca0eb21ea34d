"""The tables of the report."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from entresol import quantity
from entresol.core import Config, Json, Parameter
from entresol.report import html
from entresol.report.html import Cell, Row
from entresol.view import AMAT_PARTS, Panel, Run

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


def results(panel: Panel) -> str:
    """The main table of a capture."""
    fastest = min(panel.devices or panel.runs, key=lambda run: run.time_ps)
    heads = ("design", "execution time", f"÷ {panel.reference.design}", "speedup", "IPC", "AMAT",
             "AMAT, all", "p50", "p99", "p99.9", "L3 MPKI", "switches")  # fmt: skip
    rows = [Row(run.design, _result_cells(panel, run), run is fastest) for run in panel.runs]
    return html.table(f"{panel.trace}: results", heads, rows)


def _result_cells(panel: Panel, run: Run) -> tuple[Cell, ...]:
    latencies = [quantity.duration(run.number("amat", name))
                 for name in ("paper_ps", "all_ps", "p50_ps", "p99_ps", "p999_ps")]  # fmt: skip
    return _cells(
        quantity.duration(run.time_ps),
        quantity.significant(panel.normalised(run)),
        quantity.times(panel.speedup(run)),
        quantity.micro(run.number("cores", "ipc_micro")),
        *latencies,
        quantity.milli(run.number("caches", "l3_mpki_milli")),
        quantity.exact(run.switches),
    )


def programs(panel: Panel) -> str:
    """Each program of a co-run: its time, and how much slower than alone."""
    names = [program["trace"] for program in panel.runs[0].programs]
    heads = ("design", *(head for name in names for head in (name, "slowdown")))
    rows = [
        Row(run.design, _cells(*(
            text
            for program in run.programs
            for text in (quantity.duration(program["execution_time_ps"]),
                         quantity.milli(program.get("slowdown_milli")))
        )))
        for run in panel.runs
    ]  # fmt: skip
    return html.table(f"{panel.trace}: programs together", heads, rows)


def percentiles(panels: Sequence[Panel]) -> str:
    """The latency of the middle and of the tail, for all captures at once."""
    designs = list(dict.fromkeys(run.design for panel in panels for run in panel.runs))
    heads = ("design", *(f"{panel.trace} {name}" for panel in panels
                         for name in ("p50", "p99", "p99.9")))  # fmt: skip
    rows = [
        Row(design, _cells(*(
            quantity.duration(run.number("amat", name)) if run else quantity.NOTHING
            for panel in panels
            for run in (panel.find(design),)
            for name in ("p50_ps", "p99_ps", "p999_ps")
        )))
        for design in designs
    ]  # fmt: skip
    return html.table("Latency percentiles", heads, rows)


def amat(panel: Panel) -> str:
    """The components of AMAT as numbers."""
    heads = ("design", "AMAT", *(label for _, label in AMAT_PARTS), "accesses")
    rows = [
        Row(run.design, _cells(
            quantity.duration(run.amat_ps),
            *(quantity.duration(part) for part in run.parts("amat", AMAT_PARTS)),
            quantity.exact(run.number("amat", "paper_accesses")),
        ))
        for run in panel.runs
    ]  # fmt: skip
    return html.table(f"{panel.trace}: AMAT by component", heads, rows)


def flash(panel: Panel) -> str:
    """Flash traffic as numbers."""
    names = ("read_pages", "host_read_pages", "coalescing_read_pages", "gc_read_pages",
             "program_pages", "host_program_pages", "gc_program_pages",
             "erased_blocks")  # fmt: skip
    heads = ("design", *(name.removesuffix("_pages").replace("_", " ") for name in names),
             "written", "WAF", "average read")  # fmt: skip
    rows = [
        Row(run.design, _cells(
            *(quantity.exact(run.number("flash", name)) for name in names),
            quantity.size(run.number("flash", "written_bytes")),
            quantity.milli(run.write_amplification),
            quantity.duration(run.number("flash", "average_read_latency_ps")),
        ))
        for run in panel.devices
    ]  # fmt: skip
    return html.table(f"{panel.trace}: flash", heads, rows)


def activity(panel: Panel) -> str:
    """What each mechanism did; a zero where it is being judged stands out."""
    heads = ("design", *(label for _, label in _ACTIVITY), "warnings")
    rows = [
        Row(run.design, (
            *(_activity_cell(run, name) for name, _ in _ACTIVITY),
            Cell("; ".join(run.warnings), prose=True),
        ))
        for run in panel.devices
    ]  # fmt: skip
    return html.table(f"{panel.trace}: activity", heads, rows)


def _activity_cell(run: Run, name: str) -> Cell:
    value = run.number("activity", name)
    text = quantity.exact(value)
    if name == "data_cache_turnover_milli":
        text = quantity.milli(value)
    elif name == "cold_miss_share_milli":
        text = quantity.NOTHING if value is None else quantity.percent(value / 1000)
    return Cell(text, alarm=value == 0 and _judged(run, name))


def _judged(run: Run, name: str) -> bool:
    letters = run.design.rpartition("-")[2]
    full = letters == "full"
    return (
        name == "gc_invocations"
        or (name in _LOG and (full or letters in ("w", "wp", "wct")))
        or (name in _MIGRATION and (full or letters in ("p", "cp", "ct", "wp", "wct")))
    )


def system(panel: Panel) -> str:
    """Operating system and link."""
    heads = ("design", "long-delay switches", "slice switches", "blocked switches", "retries",
             "squashed instructions", "syscalls", "to device", "to host",
             "link busy to host")  # fmt: skip
    rows = [
        Row(run.design, _cells(
            *(quantity.exact(run.number("os", name)) for name in
              ("switches_long_delay", "switches_slice", "switches_blocked", "retries")),
            quantity.exact(run.number("cores", "squashed_instructions")),
            quantity.exact(run.number("os", "syscalls")),
            quantity.size(run.number("link", "to_device_bytes")),
            quantity.size(run.number("link", "to_host_bytes")),
            quantity.percent(run.count("link", "to_host_busy_ps") / (run.time_ps or 1)),
        ))
        for run in panel.runs
    ]  # fmt: skip
    return html.table(f"{panel.trace}: operating system and link", heads, rows)


def threads(panel: Panel) -> str:
    """When each thread finished, by design."""
    count = max(len(run.json["statistics"]["threads"]) for run in panel.runs)
    heads = ("thread", *(run.design for run in panel.runs))
    rows = []
    for index in range(count):
        entries = [_thread(run, index) for run in panel.runs]
        name = next(str(entry["thread"]) for entry in entries if entry)
        finished = [quantity.duration(entry["finished_ps"]) if entry else quantity.NOTHING
                    for entry in entries]  # fmt: skip
        rows.append(Row(name, _cells(*finished)))
    return html.table(f"{panel.trace}: end of each thread", heads, rows)


def _thread(run: Run, index: int) -> Json | None:
    entries: list[Json] = run.json["statistics"]["threads"]
    return entries[index] if index < len(entries) else None


def configuration(
    panels: Sequence[Panel], presets: dict[str, Config], parameters: Sequence[Parameter]
) -> str:
    """What differs between designs, what the user changed, and everything."""
    runs = list({run.design: run for panel in panels for run in panel.runs}.values())
    docs = {item.key: " ".join(item.doc.split()) for item in parameters}
    keys = [(section, key) for section, values in runs[0].json["config"].items() for key in values]
    differing = [key for key in keys if len({_value(run, key) for run in runs}) > 1]
    content = _differences(runs, differing, docs) + _changes(runs, presets, keys)
    rows = [
        Row(name, (Cell(_value(runs[0], key)), Cell(docs.get(name, ""), prose=True)))
        for key in keys
        if key not in differing and (name := ".".join(key))
    ]  # fmt: skip
    table = html.table("The same in all designs", ("parameter", "value", "what it is"), rows)
    return content + html.details("Every other parameter", table)


def _value(run: Run, key: tuple[str, str]) -> str:
    return str(run.json["config"].get(key[0], {}).get(key[1], quantity.NOTHING))


def _differences(runs: Sequence[Run], keys: Sequence[tuple[str, str]], docs: dict[str, str]) -> str:
    if not keys:
        return ""
    del docs
    heads = ("parameter", *(run.design for run in runs))
    rows = [Row(".".join(key), _cells(*(_value(run, key) for run in runs))) for key in keys]
    return html.table("What makes the designs differ", heads, rows)


def _changes(
    runs: Sequence[Run], presets: dict[str, Config], keys: Sequence[tuple[str, str]]
) -> str:
    rows = []
    for key in keys:
        changed = [
            (run, preset) for run in runs
            if (preset := presets.get(run.design, {}).get(key[0], {}).get(key[1])) is not None
            and preset != _value(run, key)
        ]  # fmt: skip
        if changed:
            run, preset = changed[0]
            names = (
                "all" if len(changed) == len(runs) else ", ".join(run.design for run, _ in changed)
            )
            rows.append(Row(".".join(key), _cells(preset, _value(run, key), names)))
    if not rows:
        return '<p class="note">Every parameter has the value of its preset.</p>'
    heads = ("parameter", "preset", "here", "designs")
    return html.table("Changed from the presets", heads, rows)


def provenance(summary: Json) -> str:
    """What was run, by what."""
    origin = summary["provenance"]
    rows = [
        Row(trace["name"], _cells(trace["digest"], quantity.exact(trace["threads"]),
                                  quantity.exact(trace["instructions"])))
        for trace in origin["traces"]
    ]  # fmt: skip
    switches = ", ".join(summary["runs"][0].get("fidelity", ())) or "paper"
    audit = "on" if origin["audit"] else "off"
    return (
        f'<p class="note">Entresol {escape(str(origin["entresol"]))}, machine '
        f"{escape(origin['machine'])}, fidelity {escape(switches)}, audits {audit}, "
        f"result schema {summary['schema']}.</p>"
        + html.table("Captures", ("capture", "digest", "threads", "instructions"), rows)
    )


def _cells(*texts: str) -> tuple[Cell, ...]:
    return tuple(Cell(text) for text in texts)
