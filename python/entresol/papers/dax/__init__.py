"""Transparent DAX Upgrades for CXL-based Hybrid SSDs (thesis, KIT, 2025)."""

from __future__ import annotations

from entresol import papers
from entresol.figures.paper import Paper, Text
from entresol.papers.dax import claims, runs, switches
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
    text=Text(
        claims.claims,
        wants=lambda _settings: [],
        causes=lambda: papers.room(runs.NAME).joinpath("causes.toml").read_text(encoding="utf-8"),
        threads="one client each",
        note=("\nThere is no artifact: in its column upgrades wait for 30 ms, as in a work queue."),
        benches=claims.benches,
        figures=claims.FIGURES,
        switches=switches.switches(),
    ),
)
