"""`report.html`: one file, no network, no script, for light, dark and paper.

A pure function of the summary, the command, the presets and the documentation of parameters, so
that equal studies have equal reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources

from entresol.core import Config, Design, Json, Parameter
from entresol.report import definitions, figures, html, reading, tables
from entresol.view import Panel, panels

_NUMBER_WORDS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
)


def render(
    summary: Json,
    command: str,
    presets: dict[str, Config],
    designs: Sequence[Design],
    parameters: Sequence[Parameter],
) -> str:
    """The whole page."""
    shown = panels(summary)
    sections = [
        *_figures(shown),
        *_background(summary, shown, command, presets, designs, parameters),
    ]
    links = [("reading", "Reading"), *((identity, title) for identity, title, *_ in sections)]
    body = _readings(shown) + "".join(html.section(*section) for section in sections)
    style = resources.files(__name__).joinpath("style.css").read_text(encoding="utf-8")
    title = _title(shown)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)} · Entresol</title><style>{style}</style></head><body>"
        f"{_header(summary, title, links)}<main>{body}</main>"
        f"<footer>Entresol {escape(str(summary['provenance']['entresol']))}. Simulated results: "
        "the captured program is real, the machine it runs on here is a model.</footer>"
        "</body></html>\n"
    )


def _title(shown: Sequence[Panel]) -> str:
    names = [panel.trace for panel in shown]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    count = len({run.design for panel in shown for run in panel.runs})
    word = _NUMBER_WORDS[count] if count < len(_NUMBER_WORDS) else str(count)
    return f"{listed} on {word} memory design{'' if count == 1 else 's'}"


def _header(summary: Json, title: str, links: Sequence[tuple[str, str]]) -> str:
    origin = summary["provenance"]
    programs = "A captured program" if len(origin["traces"]) == 1 else "Captured programs"
    audits = ", every invariant audited" if origin["audit"] else ""
    anchors = "".join(f'<a href="#{identity}">{escape(name)}</a>' for identity, name in links)
    return (
        f'<header class="top"><p class="mark-name">Entresol</p><h1>{escape(title)}</h1>'
        f'<p class="lead">{programs}, run instruction by instruction on the '
        f"{escape(origin['machine'])} machine{audits}.</p>"
        f'<nav aria-label="Sections">{anchors}</nav></header>'
    )


def _readings(shown: Sequence[Panel]) -> str:
    blocks = "".join(
        f'<div class="reading-block"><h3>{escape(panel.trace)}</h3>'
        f'<p class="reading">{reading.paragraph(panel)}</p>'
        f"<div>{figures.execution_time(panel)}{reading.facts(panel)}</div>"
        f"{reading.warnings(panel)}</div>"
        for panel in shown
    )
    return f'<section id="reading"><h2 hidden>Reading</h2>{blocks}</section>'


def _each(shown: Sequence[Panel], table: object) -> str:
    assert callable(table)
    return "".join(str(table(panel)) for panel in shown)


def _figures(shown: Sequence[Panel]) -> list[tuple[str, str, str, str]]:
    return [
        ("results", "Results", "", _each(shown, tables.results)),
        *_together(shown),
        ("amat", "Memory access time",
         "AMAT of accesses that miss the L3, by where the time goes.",
         figures.amat(shown) + html.details("As numbers", _each(shown, tables.amat))),
        ("requests", "Where requests are served",
         "All reads and writes below the L3, as shares.", figures.requests(shown)),
        ("latency", "Latency distribution",
         "Share of accesses (first issue to data) that take at most so long. Each further nine has "
         "the same height, so the tail is as visible as the middle.", figures.latency(shown)
         + tables.percentiles(shown)),
        ("programs", "Flash programs",
         "Pages written to flash, by cause. WAF: write amplification.",
         figures.flash_programs(shown)),
        ("reads", "Flash reads", "Pages read from flash, by cause.",
         figures.flash_reads(shown) + html.details("Flash as numbers", _each(shown, tables.flash))),
        ("bound", "What the cores wait for",
         "Core time by what bounds it.",
         figures.boundedness(shown)
         + html.details("Operating system and link as numbers", _each(shown, tables.system))
         + html.details("End of each thread", _each(shown, tables.threads))),
        ("activity", "Activity",
         "What each mechanism did in the measured part. A marked zero means that a mechanism this "
         "design is judged by did not act.", _each(shown, tables.activity)),
    ]  # fmt: skip


def _together(shown: Sequence[Panel]) -> list[tuple[str, str, str, str]]:
    mixed = [panel for panel in shown if len(panel.runs[0].programs) > 1]
    if not mixed:
        return []
    return [("together", "Programs together",
             "Execution time of each program beside the others, and how many times as long as "
             "alone on the same design.", _each(mixed, tables.programs))]  # fmt: skip


def _background(
    summary: Json,
    shown: Sequence[Panel],
    command: str,
    presets: dict[str, Config],
    designs: Sequence[Design],
    parameters: Sequence[Parameter],
) -> list[tuple[str, str, str, str]]:
    used = {run.design for panel in shown for run in panel.runs}
    rows = [
        html.Row(item.name, tuple(html.Cell(text, prose=True) for text in
                                  (item.paper_name, item.summary, item.section)))
        for item in designs if item.name in used
    ]  # fmt: skip
    table = html.table("Designs", ("design", "in the paper", "what it is", "source"), rows)
    return [
        ("definitions", "Definitions", "", definitions.render()),
        ("configuration", "Configuration", "",
         f"<pre>{escape(command)}</pre>{table}"
         + tables.configuration(shown, presets, parameters)),
        ("provenance", "Provenance", "", tables.provenance(summary)),
    ]  # fmt: skip
