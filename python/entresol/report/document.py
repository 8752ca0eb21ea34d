"""The frame of every page, with its sections."""

from __future__ import annotations

from collections.abc import Sequence

from entresol.report import templates
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
    return templates.render(
        "page.html",
        title=title,
        lead=lead,
        links=links,
        before=before,
        sections=sections,
        version=version,
        footer=footer,
    )
