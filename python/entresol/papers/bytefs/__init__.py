"""ByteFS: System Support for (CXL-based) Memory-Semantic Solid-State Drives (ASPLOS 2025)."""

from __future__ import annotations

from entresol import papers
from entresol.figures.paper import Paper
from entresol.papers.bytefs import runs
from entresol.papers.bytefs.figures import FIGURES

PAPER = Paper(
    runs.NAME,
    papers.manifest(runs.NAME)["title"],
    figures=FIGURES,
    workloads=runs.LOADS,
    scales=runs.SCALES,
    published=runs.published,
    lead=runs.lead,
)
