"""Small pieces of HTML that every part of a report uses; `templates/` holds their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from entresol import units
from entresol.quantity import NOTHING
from entresol.report import palette, templates
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
    kinds = _kinds(heads, rows)
    columns = [(glossary.label(head), kind) for head, kind in zip(heads, kinds, strict=True)]
    shown = [
        {
            "head": row.head,
            "best": row.best,
            "cells": [_shown(*each) for each in zip(row.cells, kinds[1:], strict=True)],
        }
        for row in rows
    ]
    return templates.render("table.html", caption=caption, heads=columns, rows=shown)


def _kinds(heads: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Of each column: `text` breaks into lines, `word` does not, numbers stand at the right."""
    found = ["" for _ in heads]
    for row in rows:
        for index, cell in enumerate(row.cells, start=1):
            if cell.prose:
                found[index] = "text"
            elif not found[index] and cell.text not in ("", NOTHING) and _value(cell) is None:
                found[index] = "word"
    return found


def _shown(cell: Cell, column: str) -> dict[str, str | None]:
    value = _value(cell)
    kind = " ".join(word for word in (column, "zero" if cell.alarm else "") if word)
    return {
        "text": cell.text,
        "kind": kind,
        "value": None if value is None else f"{value:.12g}",
    }


def _value(cell: Cell) -> float | None:
    return units.magnitude(cell.text) if cell.value is None else cell.value


def details(summary: str, content: str) -> str:
    """Content that opens on demand, and always in print."""
    return templates.piece("details", summary, content)


def copyable(text: str, label: str) -> str:
    """Text to take along; a script adds the button that copies it."""
    return templates.piece("copyable", text, label)


def note(text: str) -> str:
    """A paragraph on how to read what follows."""
    return templates.piece("note", text)


def warning(title: str, items: Sequence[str], identity: str = "") -> str:
    """A box that is seen first; `items` are HTML. Nothing if there are none."""
    return templates.piece("warning", title, items, identity) if items else ""


def legend(entries: Sequence[tuple[str, str]], glossary: Glossary = _NONE) -> str:
    """Colour chips: (CSS variable, label)."""
    chips = [(colour, glossary.label(label)) for colour, label in entries]
    return templates.piece("legend", chips)


def line_legend(designs: Sequence[str]) -> str:
    """Line samples, with the dashes of the chart."""
    lines = [(name, palette.design(name), palette.dash(name)) for name in designs]
    return templates.piece("line_legend", lines)


def panels(items: Sequence[tuple[str, str]]) -> str:
    """Small multiples: (title, picture), as many columns as fit."""
    columns = columns_for(len(items))
    return templates.piece("panels", items, columns, _LEAST[columns])


def picture(draw: Draw, width: int) -> str:
    """A picture at its width and at every smaller one, so that its letters have one size on all
    screens and on paper; only the one that fits is ever there."""
    widths = (width, *(smaller for smaller in _SMALLER if smaller < width))
    drawn = [(each, draw(each, f"-{each}" if each < width else "")) for each in widths]
    return templates.piece("picture", drawn)


def columns_for(count: int) -> int:
    """Columns of a grid of so many panels."""
    return 2 if count in (2, 4) else min(count, 3)


def panel_width(count: int) -> int:
    """Width to draw a picture at, so that text has one size in all grids."""
    return _WIDTHS[columns_for(count)]
