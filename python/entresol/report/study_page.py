"""The page of a study: one run, or designs beside each other, for each capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from entresol import derived
from entresol.core import Config, Design, Parameter
from entresol.cost import PAPER, Prices
from entresol.derived import Panel, panels
from entresol.report import (
    configuration,
    document,
    economy,
    figures,
    html,
    reading,
    tables,
    templates,
)
from entresol.report.definitions import MAIN
from entresol.report.html import Section
from entresol.result_types import RunResult, Summary

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
    summary: Summary,
    command: str,
    presets: dict[str, Config],
    designs: Sequence[Design],
    parameters: Sequence[Parameter],
    prices: Prices = PAPER,
) -> str:
    """The whole page of `entresol run`."""
    shown = panels(summary)
    sections = [
        *_figures(shown),
        *economy.section(shown, prices),
        Section("definitions", "Definitions", "", MAIN.render()),
        _repeat(summary, shown, command, presets, designs, parameters),
        Section("provenance", "Provenance", "", configuration.provenance(summary)),
    ]
    return document.document(
        _title(shown),
        _lead(summary),
        sections,
        str(summary["provenance"]["entresol"]),
        before=_warnings(shown) + _readings(shown),
        first=[("reading", "Reading")],
    )


def _title(shown: Sequence[Panel]) -> str:
    names = [panel.trace for panel in shown]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    designs = list(dict.fromkeys(run.design for panel in shown for run in panel.runs))
    if len(designs) == 1:
        return f"{listed} on {designs[0]}"
    count = len(designs)
    word = _NUMBER_WORDS[count] if count < len(_NUMBER_WORDS) else str(count)
    return f"{listed} on {word} memory designs"


def _lead(summary: Summary) -> str:
    origin = summary["provenance"]
    programs = "A captured program" if len(origin["traces"]) == 1 else "Captured programs"
    audits = ", every invariant audited" if origin["audit"] else ""
    return (
        f"{programs}, run {_mode(summary['runs'])} on the {escape(origin['machine'])} "
        f"machine{audits}."
    )


def _mode(runs: Sequence[RunResult]) -> str:
    errors = {run["mode_error_milli"] for run in runs if run.get("mode") == "fast"}
    if not errors:
        return "instruction by instruction"
    return (
        f"in fast mode (nine of ten ratios of times within {max(errors) / 10:.1f} % of the "
        "detailed mode’s)"
    )


def _warnings(shown: Sequence[Panel]) -> str:
    items = [
        f"<b>{escape(panel.trace)}</b>: {escape(text)} ({escape(', '.join(designs))})"
        for panel in shown
        for text, designs in derived.warnings(panel).items()
    ]
    return html.warning("Read with care", items)


def _readings(shown: Sequence[Panel]) -> str:
    blocks = [
        {
            "trace": panel.trace,
            "text": reading.paragraph(panel),
            "picture": figures.where_time_goes(panel),
            "facts": reading.facts(panel),
        }
        for panel in shown
    ]
    return templates.render("readings.html", blocks=blocks)


def _each(shown: Sequence[Panel], table: Callable[[Panel], str]) -> str:
    return "".join(table(panel) for panel in shown)


def _figures(shown: Sequence[Panel]) -> list[Section]:
    devices = [panel for panel in shown if panel.devices]
    return [
        Section("results", "Results", "", _each(shown, tables.results)),
        *_together(shown),
        Section(
            "amat",
            "Memory access time",
            "AMAT of accesses that miss the L3, by where the time goes.",
            figures.amat(shown) + html.details("As numbers", _each(shown, tables.amat)),
            "Access time",
        ),
        Section(
            "requests",
            "Where requests are served",
            "All reads and writes below the L3, as shares.",
            figures.requests(shown) + html.details("As numbers", _each(shown, tables.requests)),
            "Requests",
        ),
        Section(
            "latency",
            "Latency distribution",
            "Share of accesses (first issue to data) that take at most so long. Each further nine "
            "has the same height, so the tail is as visible as the middle.",
            figures.latency(shown) + html.details("As numbers", tables.percentiles(shown)),
            "Latency",
        ),
        *(_flash(devices) if devices else ()),
        Section(
            "bound",
            "What the cores wait for",
            "Core time by what bounds it.",
            figures.boundedness(shown)
            + html.details("As numbers", _each(shown, tables.boundedness))
            + html.details("Operating system and link as numbers", _each(shown, tables.system))
            + html.details("End of each thread", _each(shown, tables.threads)),
            "Cores",
        ),
        *(_activity(devices) if devices else ()),
    ]


def _flash(devices: Sequence[Panel]) -> list[Section]:
    return [
        Section(
            "programs",
            "Flash programs",
            "Pages written to flash, by cause. WAF: write amplification.",
            figures.flash_programs(devices),
        ),
        Section(
            "reads",
            "Flash reads",
            "Pages read from flash, by cause.",
            figures.flash_reads(devices)
            + html.details("Flash as numbers", _each(devices, tables.flash)),
        ),
    ]


def _activity(devices: Sequence[Panel]) -> list[Section]:
    note = (
        "What each mechanism did in the measured part. A marked zero means that a mechanism this "
        "design is judged by did not act."
    )
    return [Section("activity", "Activity", note, _each(devices, tables.activity))]


def _together(shown: Sequence[Panel]) -> list[Section]:
    mixed = [panel for panel in shown if len(panel.runs[0].programs) > 1]
    if not mixed:
        return []
    note = (
        "Execution time of each program beside the others, and how many times as long as alone on "
        "the same design."
    )
    return [
        Section("together", "Programs together", note, _each(mixed, tables.programs), "Together")
    ]


def _repeat(
    summary: Summary,
    shown: Sequence[Panel],
    command: str,
    presets: dict[str, Config],
    designs: Sequence[Design],
    parameters: Sequence[Parameter],
) -> Section:
    runs = [run for panel in shown for run in panel.runs]
    content = (
        html.copyable(command, "Command")
        + configuration.designs([run.design for run in runs], designs)
        + configuration.of_designs(runs, presets, parameters)
    )
    note = (
        f"Entresol {summary['provenance']['entresol']}, these captures and this command give the "
        "same numbers again, byte for byte."
    )
    return Section("configuration", "To repeat it", note, content, "Configuration")
