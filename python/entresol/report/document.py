"""The frame of every page: one file, no network, for light, dark and paper.

The script adds what paper has no use for: sorting, copying, definitions in place, the choice of
light or dark. Without it the page says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources

from entresol.report import html
from entresol.report.html import Section

_SIMULATED = (
    "Simulated results: the captured program is real, the machine it runs on here is a model."
)


def document(
    title: str,
    lead: str,
    sections: Sequence[Section],
    version: str,
    *,
    before: str = "",
    footer: str = _SIMULATED,
    first: Sequence[tuple[str, str]] = (),
) -> str:
    """A whole page. `lead` and `before` (what stands above the first section) are HTML; `first` are
    links to parts of `before`: (id, name)."""
    links = [*first, *((part.identity, part.short or part.title) for part in sections)]
    anchors = "".join(f'<a href="#{name}">{escape(text)}</a>' for name, text in links)
    body = "".join(
        html.section(part.identity, part.title, part.note, part.content) for part in sections
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)} · Entresol</title><style>{_file('style.css')}"
        f"{_file('print.css')}</style><script>{_file('early.js')}</script></head><body>"
        '<a class="skip" href="#main">Skip to the content</a>'
        '<header class="top"><div class="bar"><p class="mark-name">Entresol</p></div>'
        f"<h1>{html.heading(title)}</h1>"
        f'<p class="lead">{lead}</p></header><nav aria-label="Sections"><div>{anchors}</div></nav>'
        f'<main id="main" tabindex="-1">{before}{body}</main>'
        f"<footer><p>Entresol {escape(version)}. {escape(footer)}</p></footer>"
        f"<script>{_file('script.js')}</script></body></html>\n"
    )


def _file(name: str) -> str:
    return resources.files(__name__.rpartition(".")[0]).joinpath(name).read_text(encoding="utf-8")
