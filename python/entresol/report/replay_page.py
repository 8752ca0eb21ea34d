"""`report.html` of a replay: one file, no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from entresol import quantity, svg
from entresol.core import Json
from entresol.report import document, glossary, html, palette, replay_definitions, replay_table
from entresol.report.cells import Cell
from entresol.report.html import Section

_WORDS = glossary.of_pairs(replay_definitions.TERMS)
_PARTS = (
    ("order_ps", "l3_queue_ps", "wait for others of the page"),
    ("stall_ps", "stall_ps", "wait for room"),
    ("index_ps", "index_ps", "index"),
    ("ssd_dram_ps", "ssd_dram_ps", "device DRAM"),
    ("flash_ps", "flash_ps", "flash"),
)
_FLASH = (
    "host_read_pages",
    "coalescing_read_pages",
    "gc_read_pages",
    "host_program_pages",
    "gc_program_pages",
    "erased_blocks",
    "program_waits",
)
_SERVED = (
    "log_hits",
    "cache_hits",
    "buffer_hits",
    "misses",
    "merged_misses",
    "unmapped",
    "writes",
    "ordered",
    "partial_page_writes",
)
_ACTIVITY = (
    "log_fills",
    "compactions",
    "pages_compacted",
    "gc_invocations",
    "prefetches",
    "useful_prefetches",
    "late_requests",
)
_UTILISATION = (
    "dies_busy_milli",
    "dies_occupied_milli",
    "channels_busy_milli",
    "ssd_dram_busy_milli",
)


def render(summary: Json, command: str) -> str:
    """The whole page: a pure function of the summary and the command."""
    runs: list[Json] = summary["runs"]
    title = f"{runs[0]['trace']} on the device alone"
    sections = [
        Section(
            "results",
            "Results",
            f"{replay_table.caption(runs[0])}. Read and write: mean times; dies, channels: share "
            "of time busy.",
            _results(runs),
        ),
        Section(
            "latency",
            "Latency distribution",
            "Share of requests (arrival to completion) that take at most so long. Each further "
            "nine has the same height.",
            _latency(runs),
        ),
        Section(
            "parts",
            "Where the time goes",
            "Mean time of an operation (a line or a page) by part.",
            _parts(runs),
        ),
        Section(
            "flash",
            "Flash",
            "Pages read and programmed, by cause; blocks; programs that waited.",
            _counts(runs, "flash", _FLASH, "Work of the flash"),
        ),
        Section(
            "served",
            "Where operations are served",
            "An operation is a line or a page.",
            _counts(runs, "served", _SERVED, "Operations"),
        ),
        Section(
            "activity",
            "Activity",
            "What each mechanism did in the measured part.",
            _counts(runs, "activity", _ACTIVITY, "Events"),
        ),
        Section(
            "utilisation",
            "Utilisation",
            "Share of the measured time, mean over all.",
            _utilisation(runs),
        ),
        Section("definitions", "Definitions", "", _WORDS.render()),
        Section("configuration", "Configuration", "", _configuration(runs, command)),
    ]
    origin = summary["provenance"]
    audits = ", every invariant audited" if origin["audit"] else ""
    lead = (
        f"Firmware, flash and device DRAM of the {escape(origin['machine'])} machine without a "
        f"host{audits}."
    )
    return document.document(
        title,
        lead,
        sections,
        str(origin["entresol"]),
        before=_warnings(runs),
        footer="Simulated results.",
    )


def _cells(texts: Sequence[str]) -> tuple[Cell, ...]:
    return tuple(Cell(text) for text in texts)


def _warnings(runs: Sequence[Json]) -> str:
    items = [escape(f"{run['design']}: {text}") for run in runs for text in run["warnings"]]
    return html.warning("Read with care", items)


def _results(runs: Sequence[Json]) -> str:
    rows = [html.Row(run["design"], _cells(replay_table.cells(run))) for run in runs]
    return html.table("Throughput, latency and wear", replay_table.HEADS, rows, _WORDS)


def _latency(runs: Sequence[Json]) -> str:
    pictures: list[tuple[str, str]] = []
    for word in ("read", "write"):
        shown = [run for run in runs if run["statistics"][f"{word}_latency"]["count"]]
        if shown:
            pictures.append((f"{word}s", _distribution(shown, word)))
    designs = [run["design"] for run in runs]
    return html.line_legend(designs) + html.panels(pictures)


def _distribution(runs: Sequence[Json], word: str) -> str:
    lines = []
    for run in runs:
        points = run["statistics"][f"{word}_latency_cdf"]
        total = points[-1][1]
        design = run["design"]
        lines.append(
            svg.Series(
                design,
                palette.design(design),
                palette.dash(design),
                tuple((float(latency), count / total) for latency, count in points),
            )
        )
    words = "; ".join(
        f"{run['design']}: half within "
        f"{quantity.duration(run['statistics'][f'{word}_latency']['p50_ps'])}, 99 % within "
        f"{quantity.duration(run['statistics'][f'{word}_latency']['p99_ps'])}"
        for run in runs
    )

    def draw(width: int, suffix: str) -> str:
        caption = svg.Caption(f"cdf-{word}{suffix}", f"{word} latency", words)
        return svg.tail(caption, lines, width, quantity.duration)

    return html.picture(draw, html.panel_width(2))


def _parts(runs: Sequence[Json]) -> str:
    legend = html.legend(
        [(palette.component(colour), label) for _, colour, label in _PARTS], _WORDS
    )
    pictures: list[tuple[str, str]] = []
    for word in ("read", "write"):
        rows = [
            svg.Bar(
                run["design"],
                tuple(
                    svg.Segment(
                        parts[key],
                        palette.component(colour),
                        f"{label}: {quantity.duration(parts[key])}",
                    )
                    for key, colour, label in _PARTS
                ),
                quantity.duration(sum(parts[key] for key, *_ in _PARTS)),
            )
            for run in runs
            for parts in (run["statistics"][f"{word}_parts"],)
            if parts["operations"]
        ]
        if rows:
            pictures.append((f"{word}s", _times(word, rows)))
    return legend + html.panels(pictures)


def _times(word: str, rows: Sequence[svg.Bar]) -> str:
    words = "; ".join(f"{row.label} {row.note}" for row in rows)

    def draw(width: int, suffix: str) -> str:
        caption = svg.Caption(f"parts-{word}{suffix}", f"{word} time by part", words)
        return svg.bars(caption, rows, width, quantity.duration)

    return html.picture(draw, html.panel_width(2))


def _counts(runs: Sequence[Json], section: str, names: Sequence[str], caption: str) -> str:
    heads = ("design", *(name.removesuffix("_pages").replace("_", " ") for name in names))
    rows = [
        html.Row(
            run["design"],
            _cells([quantity.exact(run["statistics"][section][name]) for name in names]),
        )
        for run in runs
    ]
    return html.table(caption, heads, rows, _WORDS)


def _utilisation(runs: Sequence[Json]) -> str:
    heads = ("design", *(name.removesuffix("_milli").replace("_", " ") for name in _UTILISATION))
    rows = [
        html.Row(
            run["design"],
            _cells(
                [
                    quantity.percent(run["statistics"]["utilisation"][name] / 1000)
                    for name in _UTILISATION
                ]
            ),
        )
        for run in runs
    ]
    return html.table("Share of time busy", heads, rows, _WORDS)


def _configuration(runs: Sequence[Json], command: str) -> str:
    config = runs[0]["config"]
    rows = [
        html.Row(f"{section}.{key}", _cells([run["config"][section][key] for run in runs]))
        for section in config
        if section.partition(".")[0] in ("design", "ssd", "ssd_dram", "ftl", "nand")
        for key in config[section]
    ]
    heads = ("parameter", *(run["design"] for run in runs))
    listing = html.table("Parameters of the device", heads, rows)
    return html.copyable(command, "Command") + html.details("Parameters", listing)
