"""The runs of SkyByte's figures: workloads, sizes, threads, and where its published numbers are."""

from __future__ import annotations

import math

from entresol import core, papers
from entresol.figures import plan
from entresol.figures.paper import ARTIFACT
from entresol.figures.plan import Scale, Settings, Want
from entresol.figures.published import Published

NAME = "skybyte"
WORKLOADS = ("bc", "bfs-dense", "dlrm", "radix", "srad", "tpcc", "ycsb")
"""Table I, in the order of the paper's figures."""
SCALES = {
    "small": Scale("small", shrink=16, window=100e6, recording=6),
    "paper": Scale("table2", shrink=1, window=100e6, recording=60),
}
SWITCHING = 24
"""Threads of designs that switch (§VI-A)."""
PLAIN = 8
"""Threads of designs that do not."""
MOTIVATION = 4
"""Threads and cores of §II-C."""
ECHO = "write_back_echo"
"""The switch that feeds itself: written lines come back dirty and drive each other out of L3, and a
run takes some hundred times as long."""
NOTE = f" *Artifact* is without `{ECHO}`,\nwhich feeds itself ([figures](figures.md))."
_SWITCHING_DESIGNS = frozenset({
    "skybyte-c", "skybyte-cp", "skybyte-ct", "skybyte-wct", "skybyte-full", "astriflash-cxl",
})  # fmt: skip

published = Published(
    papers.room(NAME).joinpath("published"),
    f"papers/{NAME}/published",
    {
        "fig02": 14, "fig03": 142, "fig04": 14, "fig09": 39, "fig14": 56, "fig15": 42,
        "fig15b": 84, "fig16": 28, "fig17": 252, "fig18": 49, "fig19": 50, "fig20": 50,
        "fig21": 33, "table3": 7,
    },
)  # fmt: skip


def threads_of(design: str) -> int:
    """How many threads the paper runs a design with."""
    return SWITCHING if design in _SWITCHING_DESIGNS else PLAIN


def want(
    workload: str, design: str, *, threads: int | None = None, nand: str = "", **sizes: str
) -> Want:
    """A run with the paper's threads. `ssd__log__size="4MiB"` sets `ssd.log.size`."""
    return Want(workload, design, threads or threads_of(design), plan.overrides(sizes), nand)


def caution(settings: Settings) -> str:
    """Says so where `ECHO` is on and feeds itself."""
    if ECHO not in core.fidelity_names(settings.fidelity):
        return ""
    return (
        f"{ECHO} is on, which feeds itself (written lines come back dirty and drive each other out "
        "of L3), so what is shown says little of the designs, and may take hours; "
        f"--fidelity {papers.artifact(NAME)},-{ECHO} is the artifact without it."
    )


def fidelity_of(text: str) -> str:
    """A fidelity, from one that says `artifact` for SkyByte's: that is without `ECHO`."""
    if not text.startswith(ARTIFACT):
        return text
    return f"{papers.artifact(NAME)},-{ECHO}{text.removeprefix(ARTIFACT)}"


def upper_edge(lower: float) -> float:
    """Where a bin of the artifact's latencies ends: ten of them up to 100 ns, then ninety to a
    decade. A published share is of the accesses up to and with the bin."""
    return lower + max(10.0, 10.0 ** (math.floor(math.log10(lower)) - 1)) if lower else 10.0
