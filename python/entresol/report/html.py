"""Small pieces of HTML that every part of a report uses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from entresol import units
from entresol.quantity import NOTHING
from entresol.report import palette
from entresol.report.cells import Cell
from entresol.report.glossary import Glossary

Draw = Callable[[int, str], str]
"""Draws a picture at a width; the text is appended to its ids."""

ASIDE_WIDTH = 440
"""Width of the picture beside a reading."""
_WIDTHS = {1: 940, 2: 535, 3: 336}
"""Width of a picture, by columns; `style.css` knows them."""
_SMALLER = (535, 336)
_LEAST = {0: "100%", 1: "100%", 2: "460px", 3: "310px"}
"""Least width of a panel, by columns."""
_NONE = Glossary(())
_CODE = re.compile("`([^`]+)`")


@dataclass(frozen=True)
class Row:
    """A row: its header, its cells."""

    head: str
    cells: tuple[Cell, ...]
    best: bool = False


@dataclass(frozen=True)
class Section:
    """A part of a page. `short` is its name in the navigation, the title if empty."""

    identity: str
    title: str
    note: str
    content: str
    short: str = ""


def table(
    caption: str, heads: Sequence[str], rows: Sequence[Row], glossary: Glossary = _NONE
) -> str:
    """A table with a caption, scoped headers, and room to scroll on a narrow screen.

    A script makes its columns sortable; without one it is in the order of the study.
    """
    classes = _classes(heads, rows)
    columns = "".join(
        f'<th scope="col"{_class(name)}>{glossary.label(head)}</th>'
        for head, name in zip(heads, classes, strict=True)
    )
    body = "".join(_row(row, classes) for row in rows)
    name = "table-block scroll wide" if len(heads) > 9 else "table-block scroll"
    return (
        f'<div class="{name}" role="group" aria-label="{escape(caption)}" tabindex="0">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _classes(heads: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Of each column: `text` breaks into lines, `word` does not, numbers stand at the right."""
    found = ["" for _ in heads]
    for row in rows:
        for index, cell in enumerate(row.cells, start=1):
            if cell.prose:
                found[index] = "text"
            elif not found[index] and cell.text not in ("", NOTHING) and _value(cell) is None:
                found[index] = "word"
    return found


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _row(row: Row, classes: Sequence[str]) -> str:
    return (
        f'<tr{_class("best" if row.best else "")}><th scope="row">{escape(row.head)}</th>'
        + "".join(_cell(cell, name) for cell, name in zip(row.cells, classes[1:], strict=True))
        + "</tr>"
    )


def _cell(cell: Cell, column: str) -> str:
    value = _value(cell)
    sorting = "" if value is None else f' data-v="{value:.12g}"'
    name = _class(" ".join(word for word in (column, "zero" if cell.alarm else "") if word))
    text = _CODE.sub(r"<code>\1</code>", escape(cell.text))
    return f"<td{name}{sorting}>{text}</td>"


def _value(cell: Cell) -> float | None:
    return units.magnitude(cell.text) if cell.value is None else cell.value


def details(summary: str, content: str) -> str:
    """Content that opens on demand, and always in print."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def copyable(text: str, label: str) -> str:
    """Text to take along; a script adds the button that copies it."""
    return (
        f'<div class="copyable" data-label="{escape(label)}">'
        f'<pre tabindex="0" aria-label="{escape(label)}">{escape(text)}</pre></div>'
    )


def warning(title: str, items: Sequence[str], identity: str = "") -> str:
    """A box that is seen first; `items` are HTML. Nothing if there are none."""
    if not items:
        return ""
    listed = "".join(f"<li>{item}</li>" for item in items)
    name = f' id="{identity}"' if identity else ""
    return f'<div class="warnings" role="note"{name}><p>{escape(title)}</p><ul>{listed}</ul></div>'


def legend(entries: Sequence[tuple[str, str]], glossary: Glossary = _NONE) -> str:
    """Colour chips: (CSS variable, label)."""
    items = "".join(
        f'<li><span class="chip" style="background:var(--{colour})"></span>'
        f"{glossary.label(label)}</li>"
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


def section(identity: str, title: str, note: str, content: str, short: str = "") -> str:
    """A section of the report with its heading and one sentence on how to read it."""
    del short
    lead = f'<p class="note">{escape(note)}</p>' if note else ""
    return (
        f'<section id="{identity}" aria-labelledby="{identity}-h">'
        f'<h2 id="{identity}-h">{escape(title)}</h2>{lead}{content}</section>'
    )


def panels(items: Sequence[tuple[str, str]]) -> str:
    """Small multiples: (title, picture), as many columns as fit."""
    cards = "".join(
        f'<figure class="panel">{f"<h3>{escape(title)}</h3>" if title else ""}{picture}</figure>'
        for title, picture in items
    )
    columns = columns_for(len(items))
    return (
        f'<div class="panels" style="--columns:{columns};--least:{_LEAST[columns]}">{cards}</div>'
    )


def picture(draw: Draw, width: int) -> str:
    """A picture at its width and at every smaller one, so that its letters have one size on all
    screens and on paper; only the one that fits is ever there."""
    drawn = "".join(
        f'<div class="w{each}">{draw(each, f"-{each}" if each < width else "")}</div>'
        for each in (width, *(smaller for smaller in _SMALLER if smaller < width))
    )
    return f'<div class="picture">{drawn}</div>'


def columns_for(count: int) -> int:
    """Columns of a grid of so many panels."""
    return 2 if count in (2, 4) else min(count, 3)


def panel_width(count: int) -> int:
    """Width to draw a picture at, so that text has one size in all grids."""
    return _WIDTHS[columns_for(count)]
