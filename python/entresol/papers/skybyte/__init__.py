"""SkyByte: Architecting an Efficient Memory-Semantic CXL-based SSD with OS and Hardware Co-design
(HPCA 2025), and its artifact."""

from __future__ import annotations

from entresol import papers
from entresol.figures.paper import Paper, Text
from entresol.papers.skybyte import claims, runs
from entresol.papers.skybyte.figures import FIGURES

PAPER = Paper(
    runs.NAME,
    papers.manifest(runs.NAME)["title"],
    figures=FIGURES,
    workloads=runs.WORKLOADS,
    scales=runs.SCALES,
    published=runs.published,
    threads_of=runs.threads_of,
    caution=runs.caution,
    text=Text(
        claims.claims,
        claims.wants,
        causes=lambda: papers.room(runs.NAME).joinpath("causes.toml").read_text(encoding="utf-8"),
        threads=f"{runs.SWITCHING} threads with switching, {runs.PLAIN} without",
        fidelity_of=runs.fidelity_of,
        note=runs.NOTE,
    ),
)
