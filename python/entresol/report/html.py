"""Small pieces of HTML that every part of the report uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from entresol.report import palette

ASIDE_WIDTH = 440
"""Width of the picture beside a reading."""


@dataclass(frozen=True)
class Cell:
    """A value in a table; `alarm` marks a zero that means a mechanism was not exercised."""

    text: str
    alarm: bool = False
    prose: bool = False


@dataclass(frozen=True)
class Row:
    """A row: its header, its cells."""

    head: str
    cells: tuple[Cell, ...]
    best: bool = False


def table(caption: str, heads: Sequence[str], rows: Sequence[Row]) -> str:
    """A table with a caption, scoped headers, and room to scroll on a narrow screen."""
    prose = {index + 1 for row in rows for index, cell in enumerate(row.cells) if cell.prose}
    columns = "".join(
        f'<th scope="col"{" class=text" if index in prose else ""}>{escape(head)}</th>'
        for index, head in enumerate(heads)
    )
    body = "".join(_row(row) for row in rows)
    return (
        f'<div class="table-block scroll"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: Row) -> str:
    name = ' class="best"' if row.best else ""
    return (
        f'<tr{name}><th scope="row">{escape(row.head)}</th>'
        + "".join(_cell(cell) for cell in row.cells)
        + "</tr>"
    )


def _cell(cell: Cell) -> str:
    name = " ".join(word for word, wanted in (("zero", cell.alarm), ("text", cell.prose)) if wanted)
    return f"<td{f' class={chr(34)}{name}{chr(34)}' if name else ''}>{escape(cell.text)}</td>"


def details(summary: str, content: str) -> str:
    """Content that opens on demand, and always in print."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Colour chips: (CSS variable, label)."""
    items = "".join(
        f'<li><span class="chip" style="background:var(--{colour})"></span>{escape(label)}</li>'
        for colour, label in entries
    )
    return f'<ul class="legend">{items}</ul>'


def line_legend(designs: Sequence[str]) -> str:
    """Line samples, with the dashes of the chart."""
    items = "".join(
        '<li><svg class="stroke" viewBox="0 0 24 8" aria-hidden="true">'
        f'<path d="M0 4H24" class="line" stroke="var(--{palette.design(name)})"'
        f' stroke-dasharray="{palette.dash(name)}"/></svg>'
        f"{escape(name)}</li>"
        for name in designs
    )
    return f'<ul class="legend">{items}</ul>'


def heading(text: str) -> str:
    """Text whose hyphens are no place for a new line: names of designs have them."""
    return escape(text).replace("-", "&#8209;")


def section(identity: str, title: str, note: str, content: str) -> str:
    """A section of the report with its heading and one sentence on how to read it."""
    lead = f'<p class="note">{escape(note)}</p>' if note else ""
    return f'<section id="{identity}"><h2>{escape(title)}</h2>{lead}{content}</section>'


def panels(items: Sequence[tuple[str, str]]) -> str:
    """Small multiples: (title, picture), as many columns as fit."""
    columns = columns_for(len(items))
    cards = "".join(
        f'<figure class="panel"><h3>{escape(title)}</h3>{picture}</figure>'
        for title, picture in items
    )
    return f'<div class="panels" style="--columns:{columns}">{cards}</div>'


def columns_for(count: int) -> int:
    """Columns of a grid of so many panels."""
    return 2 if count in (2, 4) else min(count, 3)


def panel_width(count: int) -> int:
    """Width to draw a picture at, so that text has one size in all grids."""
    return {1: 1134, 2: 535, 3: 336}[columns_for(count)]
