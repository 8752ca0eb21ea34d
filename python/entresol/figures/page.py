"""`index.html`: all figures with their tables on one page that needs nothing outside itself."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from entresol.figures import tables
from entresol.figures.entry import NO_MEAN, Figure
from entresol.figures.paper import PAPER, Paper
from entresol.figures.plan import MODES, Results, Settings

if TYPE_CHECKING:
    import polars

SCREEN = 1.84
"""Pixels for a point of a picture: one across the page then fills the column."""
SCREEN_LEAST = 1.08


def render(
    paper: Paper,
    figures: Sequence[Figure],
    results: Results,
    made: Mapping[str, tuple[polars.DataFrame, bytes]],
    command: str,
) -> str:
    """The page. `made` has a frame and an SVG for each figure."""
    style = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    links = "".join(f'<li><a href="#{figure.stem}">{_short(figure)}</a></li>' for figure in figures)
    sections = "".join(_section(paper, figure, results, *made[figure.name]) for figure in figures)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Figures of {escape(paper.title)} · Entresol</title>"
        f"<style>{style}</style></head><body>"
        '<a class="skip" href="#figures">To the figures</a>'
        '<header><p class="mark">Entresol</p>'
        f"<h1>Figures of the {escape(paper.title)} paper, made anew</h1>"
        f"<p>{paper.lead(results.settings) or _lead(results)}</p>"
        f"{_caution(paper, results.settings)}<pre>{escape(command)}</pre>"
        f'<nav aria-label="Figures"><ul>{links}</ul></nav></header>'
        f'<main id="figures">{sections}</main></body></html>\n'
    )


def _short(figure: Figure) -> str:
    return figure.name if figure.stem.startswith("fig") else figure.called


def _lead(results: Results) -> str:
    of = results.settings
    sizes = "the paper's sizes" if of.shrink == 1 else f"sizes {of.shrink} times smaller"
    return (
        "Solid bars and lines are ours; hatched bars and dashed lines are what was published. "
        f"Machine {escape(of.machine)} ({sizes}), fidelity {escape(of.fidelity)}, mode "
        f"{escape(of.mode)}, {len(of.workloads)} workloads. A ratio is ours ÷ published; it is "
        "marked where ours is more than 25 % away. The means of a metric are over one set of "
        "workloads, those without a hole; there is no geometric mean where a value is zero. "
        "Threads interleave anew in every capture that is made, so captures made again give other "
        "numbers, near these."
    )


def _caution(paper: Paper, of: Settings) -> str:
    """What makes all numbers say little, before the first of them."""
    sentence = paper.caution(of)
    return f'<div class="warnings"><ul><li>{escape(sentence)}</li></ul></div>' if sentence else ""


def _size(svg: bytes) -> str:
    """Letters have one size in all pictures, whatever their width; narrow screens scroll."""
    found = re.search(rb'<svg[^>]* width="([0-9.]+)pt"', svg)
    assert found is not None, "pictures say how wide they are"
    width = float(found[1])
    return f"max-width:{width * SCREEN:.0f}px;min-width:{width * SCREEN_LEAST:.0f}px"


def _why(paper: Paper, figure: Figure, frame: polars.DataFrame, of: Settings) -> str:
    """A person's sentence, under the conditions that it is about only."""
    told = (of.scale, of.fidelity, of.workloads, of.mode, of.overrides)
    if told != ("small", PAPER, paper.workloads, MODES[0], ()):
        return ""
    if not (reason := figure.why(frame)):
        return ""
    head = "Does it differ?" if reason.startswith("No") else "Why it differs"
    return (f'<p class="why"><b>{head}</b> (a person\'s sentence; entresol reproduction '
            f"measures the causes). {escape(reason)}</p>")  # fmt: skip


def _section(
    paper: Paper, figure: Figure, results: Results, frame: polars.DataFrame, svg: bytes
) -> str:
    wants, walks = figure.wants(results.settings), figure.walks(results.settings)
    benches, steady = figure.benches(results.settings), figure.steady(results.settings)
    settings = tables.settings(results, wants, benches, steady)
    picture = base64.b64encode(svg).decode("ascii")
    files = "".join(f'<a href="{figure.stem}.{suffix}">{suffix.upper()}</a> '
                    for suffix in ("svg", "pdf", "csv"))  # fmt: skip
    mean = "" if figure.mean == NO_MEAN else f" The paper's mean: {figure.mean}."
    why = _why(paper, figure, frame, results.settings)
    lacks = figure.lacks(results.settings)
    warned = [
        *([lacks] if lacks else []),
        *tables.without_ratio(frame, results),
        *tables.partial_means(frame),
        *tables.warnings(results, wants, walks, paper.threads_of, benches, steady),
    ]
    alarms = "".join(f"<li>{escape(sentence)}</li>" for sentence in warned)
    warnings = f'<div class="warnings"><ul>{alarms}</ul></div>' if alarms else ""
    return (
        f'<section id="{figure.stem}"><h2>{escape(figure.heading)}</h2>'
        f"<p>{escape(figure.says)}{escape(mean)}</p>"
        f'<figure><img alt="{escape(figure.heading)}. The numbers are in the tables below." '
        f'style="{_size(svg)}" src="data:image/svg+xml;base64,{picture}"></figure>'
        f'<p class="files">{files}<span>{escape(settings)}</span></p>'
        f"{why}{warnings}{tables.means(frame)}"
        f"<details><summary>Every value</summary>{tables.everything(frame)}</details></section>"
    )
