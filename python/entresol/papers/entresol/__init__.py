"""The room of our own designs: docs/own-design.md."""

from __future__ import annotations

from entresol import papers
from entresol.figures.paper import Paper
from entresol.papers.entresol import runs
from entresol.papers.entresol.figures import FIGURES

PAPER = Paper(
    runs.NAME,
    papers.manifest(runs.NAME)["title"],
    figures=FIGURES,
    workloads=runs.WORKLOADS,
    scales=runs.SCALES,
    threads_of=lambda _design: 0,
    lead=runs.lead,
    capture=runs.capture,
)
