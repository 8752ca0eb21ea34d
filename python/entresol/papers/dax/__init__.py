"""Transparent DAX Upgrades for CXL-based Hybrid SSDs (thesis, KIT, 2025)."""

from __future__ import annotations

from entresol import papers
from entresol.figures.paper import Paper
from entresol.papers.dax import runs
from entresol.papers.dax.figures import FIGURES

PAPER = Paper(
    runs.NAME,
    papers.manifest(runs.NAME)["title"],
    figures=FIGURES,
    workloads=runs.DATABASES,
    scales=runs.SCALES,
    published=runs.published,
    lead=runs.lead,
    recorded=runs.recorded,
)
