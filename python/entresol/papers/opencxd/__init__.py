"""OpenCXD: An Open Real-Device-Guided Hybrid Evaluation Framework for CXL-SSDs."""

from __future__ import annotations

from entresol import papers
from entresol.figures import paper
from entresol.figures.paper import Paper, Text
from entresol.figures.plan import Settings
from entresol.papers.opencxd import claims, runs
from entresol.papers.opencxd.figures import FIGURES
from entresol.papers.skybyte.runs import threads_of


def _lead(settings: Settings) -> str:
    size = "the paper's sizes" if settings.shrink == 1 else f"sizes one in {settings.shrink}"
    return (
        "Solid bars and lines are ours; hatched bars and dashed lines are what was published: "
        "tables and numbers of the text, no picture was read. Each figure says which back end made "
        f"it. Captures are SkyByte's workloads on machine {settings.machine} ({size}) with the "
        "flash of module (b); NAND times and compactions do not shrink. A ratio is ours ÷ "
        "published; it is marked where ours is more than 25 % away."
    )


PAPER = Paper(
    runs.NAME,
    papers.manifest(runs.NAME)["title"],
    figures=FIGURES,
    workloads=runs.WORKLOADS,
    scales=runs.SCALES,
    published=runs.published,
    threads_of=threads_of,
    lead=_lead,
    text=Text(
        claims.claims,
        claims.wants,
        causes=lambda: papers.room(runs.NAME).joinpath("causes.toml").read_text(encoding="utf-8"),
        threads="24 threads, as in §V-A",
        benches=claims.benches,
        note="\nThe room has no switches: there is no *artifact*.",
        sides=(paper.PAPER,),
    ),
)
