"""`index.html`: all figures with their tables on one page that needs nothing outside itself."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from entresol.figures import tables
from entresol.figures.plan import ECHO, WORKLOADS, Results, Settings
from entresol.papers.skybyte.figures import Figure

if TYPE_CHECKING:
    import polars

SCREEN = 1.84
"""Pixels for a point of a picture: one across the page then fills the column."""
SCREEN_LEAST = 1.08
ECHOES = (
    f"{ECHO} is on, which feeds itself in the L3 of scale small (written lines come back dirty and "
    "drive each other out), so what is shown says little of the designs; "
    f"--fidelity artifact,-{ECHO} is the artifact without it."
)


def render(
    figures: Sequence[Figure],
    results: Results,
    made: Mapping[str, tuple[polars.DataFrame, bytes]],
    command: str,
) -> str:
    """The page. `made` has a frame and an SVG for each figure."""
    style = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    links = "".join(f'<li><a href="#{figure.stem}">{_short(figure)}</a></li>' for figure in figures)
    sections = "".join(_section(figure, results, *made[figure.name]) for figure in figures)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Figures of SkyByte · Entresol</title><style>{style}</style></head><body>"
        '<a class="skip" href="#figures">To the figures</a>'
        '<header><p class="mark">Entresol</p><h1>Figures of the SkyByte paper, made anew</h1>'
        f"<p>{_lead(results)}</p>{_echo(results.settings)}<pre>{escape(command)}</pre>"
        f'<nav aria-label="Figures"><ul>{links}</ul></nav></header>'
        f'<main id="figures">{sections}</main></body></html>\n'
    )


def _short(figure: Figure) -> str:
    return figure.name if figure.name.isdigit() else "Table III"


def _lead(results: Results) -> str:
    of = results.settings
    sizes = "sizes of Table II" if of.shrink == 1 else f"sizes {of.shrink} times smaller"
    return (
        "Solid bars and lines are ours; hatched bars and dashed lines are what was published. "
        f"Machine {escape(of.machine)} ({sizes}), fidelity {escape(of.fidelity)}, mode "
        f"{escape(of.mode)}, {len(of.workloads)} workloads. A ratio is ours ÷ published; it is "
        "marked where ours is more than 25 % away. The means of a metric are over one set of "
        "workloads, those without a hole; there is no geometric mean where a value is zero. "
        "Threads interleave anew in every capture that is made, so captures made again give other "
        "numbers, near these."
    )


def _echo(of: Settings) -> str:
    """What makes all numbers meaningless, said before the first of them."""
    if not of.echoes:
        return ""
    return f'<div class="warnings"><ul><li>{escape(ECHOES)}</li></ul></div>'


def _size(svg: bytes) -> str:
    """Letters have one size in all pictures, whatever their width; narrow screens scroll."""
    found = re.search(rb'<svg[^>]* width="([0-9.]+)pt"', svg)
    assert found is not None, "pictures say how wide they are"
    width = float(found[1])
    return f"max-width:{width * SCREEN:.0f}px;min-width:{width * SCREEN_LEAST:.0f}px"


def _why(figure: Figure, of: Settings) -> str:
    """A person's sentence, under the conditions that it is about only."""
    if not figure.why or (of.scale, of.fidelity, of.workloads) != ("small", "paper", WORKLOADS):
        return ""
    head = "Does it differ?" if figure.why.startswith("No") else "Why it differs"
    return (f'<p class="why"><b>{head}</b> (a person\'s sentence; entresol reproduction '
            f"measures the causes). {escape(figure.why)}</p>")  # fmt: skip


def _section(figure: Figure, results: Results, frame: polars.DataFrame, svg: bytes) -> str:
    wants, walks = figure.wants(results.settings), figure.walks(results.settings)
    picture = base64.b64encode(svg).decode("ascii")
    files = "".join(f'<a href="{figure.stem}.{suffix}">{suffix.upper()}</a> '
                    for suffix in ("svg", "pdf", "csv"))  # fmt: skip
    mean = "" if figure.mean == "none" else f" The paper's mean: {figure.mean}."
    why = _why(figure, results.settings)
    warned = [
        *tables.without_ratio(frame, results),
        *tables.partial_means(frame),
        *tables.warnings(results, wants, walks),
    ]
    alarms = "".join(f"<li>{escape(sentence)}</li>" for sentence in warned)
    warnings = f'<div class="warnings"><ul>{alarms}</ul></div>' if alarms else ""
    return (
        f'<section id="{figure.stem}"><h2>{escape(figure.heading)}</h2>'
        f"<p>{escape(figure.says)}{escape(mean)}</p>"
        f'<figure><img alt="{escape(figure.heading)}. The numbers are in the tables below." '
        f'style="{_size(svg)}" src="data:image/svg+xml;base64,{picture}"></figure>'
        f'<p class="files">{files}<span>{escape(tables.settings(results, wants))}</span></p>'
        f"{why}{warnings}{tables.means(frame)}"
        f"<details><summary>Every value</summary>{tables.everything(frame)}</details></section>"
    )
