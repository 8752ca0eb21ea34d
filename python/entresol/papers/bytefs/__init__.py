"""ByteFS: System Support for (CXL-based) Memory-Semantic Solid-State Drives (ASPLOS 2025)."""

from __future__ import annotations

from entresol import papers
from entresol.figures.paper import Paper, Text
from entresol.papers.bytefs import claims, runs, switches
from entresol.papers.bytefs.figures import FIGURES

PAPER = Paper(
    runs.NAME,
    papers.manifest(runs.NAME)["title"],
    figures=FIGURES,
    workloads=runs.LOADS,
    scales=runs.SCALES,
    published=runs.published,
    lead=runs.lead,
    text=Text(
        claims.claims,
        wants=lambda _settings: [],
        causes=lambda: papers.room(runs.NAME).joinpath("causes.toml").read_text(encoding="utf-8"),
        threads="threads as in Table 5",
        benches=claims.benches,
        figures=claims.FIGURES,
        switches=switches.switches(),
    ),
)
