"""Words and their meanings: a list at the end of a page, and a link to it wherever one is used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from entresol.report import templates


@dataclass(frozen=True)
class Term:
    """One meaning of one or more names."""

    names: tuple[str, ...]
    text: str
    keys: tuple[str, ...] = ()
    """Where a result file holds it: names below `statistics`, or of the run."""

    @property
    def anchor(self) -> str:
        """Its id on the page."""
        name = self.names[0].replace("÷", "divided").replace("$", "dollars")
        return "term-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


class Glossary:
    """Terms by name. A label is a link whose title is the meaning, so it needs no script."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = tuple(terms)
        self._by_name = {name: term for term in terms for name in term.names}

    def find(self, label: str) -> Term | None:
        """The term of a label; `kv p99` means `p99`, and `÷ base-cssd` means `÷`."""
        first, last = label.partition(" ")[0], label.rpartition(" ")[2]
        names = [label]
        names += [first] if first in ("÷", "speedup") else []
        names += [last] if re.fullmatch(r"p[\d.]+", last) else []
        return next((self._by_name[name] for name in names if name in self._by_name), None)

    def label(self, label: str) -> str:
        """A label as HTML: with its meaning, if it has one here."""
        term = self.find(label)
        if term is None:
            return escape(label)
        return templates.piece("term", term.anchor, term.text, label)

    def render(self) -> str:
        """All terms as a list."""
        return templates.piece("terms", self.terms)


def of_pairs(pairs: Sequence[tuple[str, str]]) -> Glossary:
    """A glossary from `(names with commas between, meaning)`."""
    return Glossary([Term(tuple(names.split(", ")), text) for names, text in pairs])
