"""Figures of the SkyByte paper, made anew: from results to frames, and from frames to pictures.

from entresol import figures
results = figures.simulate_figures(["14"], scale="small", workloads=["ycsb"])
axes = figures.fig14(results)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

    from entresol.figures.plan import Results

__all__ = [
    "fig02",
    "fig03",
    "fig04",
    "fig05",
    "fig06",
    "fig09",
    "fig10",
    "fig14",
    "fig15",
    "fig16",
    "fig17",
    "fig18",
    "fig19",
    "fig20",
    "fig21",
    "fig22",
    "fig23",
    "frame",
    "simulate_figures",
    "table3",
]


def simulate_figures(
    figures: Sequence[str],
    *,
    scale: str = "small",
    fidelity: str = "paper",
    mode: str = "detailed",
    workloads: Sequence[str] = (),
    store: Path | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
) -> Results:
    """Simulates what these figures need, or finds it in the store."""
    from entresol.figures import plan, simulate
    from entresol.papers.skybyte import figures as catalogue
    from entresol.store import location
    from entresol.store.result_store import Store

    settings = plan.settings(scale, fidelity, mode, list(workloads))
    where = location.store_directory(store)
    wanted = simulate.plan(catalogue.choose(list(figures)), settings)
    source = simulate.recorded(settings, where)
    return simulate.Simulation(Store(where), source, jobs, scheduler).run(wanted)


def frame(figure: str, results: Results) -> polars.DataFrame:
    """What a figure shows, tidy: workload, design, x, metric, ours, published, ratio."""
    from entresol.papers.skybyte.figures import choose

    (found,) = choose([figure])
    return found.frame(results)


def _axes(figure: str, results: Results) -> Axes:
    from entresol.papers.skybyte.figures import choose

    (found,) = choose([figure])
    axes: Axes = found.draw(found.frame(results)).axes[0]
    return axes


def fig02(results: Results) -> Axes:
    """Figure 2: DRAM and CXL-SSD. The first axes; `.figure` has all."""
    return _axes("2", results)


def fig03(results: Results) -> Axes:
    """Figure 3: Latency of off-chip accesses. The first axes; `.figure` has all."""
    return _axes("3", results)


def fig04(results: Results) -> Axes:
    """Figure 4: Bound by memory or by compute. The first axes; `.figure` has all."""
    return _axes("4", results)


def fig05(results: Results) -> Axes:
    """Figure 5: How much of a page is read. The first axes; `.figure` has all."""
    return _axes("5", results)


def fig06(results: Results) -> Axes:
    """Figure 6: How much of a page is written. The first axes; `.figure` has all."""
    return _axes("6", results)


def fig09(results: Results) -> Axes:
    """Figure 9: Threshold of the context switch. The first axes; `.figure` has all."""
    return _axes("9", results)


def fig10(results: Results) -> Axes:
    """Figure 10: Scheduling policies. The first axes; `.figure` has all."""
    return _axes("10", results)


def fig14(results: Results) -> Axes:
    """Figure 14: Execution time of the designs. The first axes; `.figure` has all."""
    return _axes("14", results)


def fig15(results: Results) -> Axes:
    """Figure 15: Throughput with more threads. The first axes; `.figure` has all."""
    return _axes("15", results)


def fig16(results: Results) -> Axes:
    """Figure 16: Where requests are served. The first axes; `.figure` has all."""
    return _axes("16", results)


def fig17(results: Results) -> Axes:
    """Figure 17: Average memory access time. The first axes; `.figure` has all."""
    return _axes("17", results)


def fig18(results: Results) -> Axes:
    """Figure 18: Pages written to flash. The first axes; `.figure` has all."""
    return _axes("18", results)


def fig19(results: Results) -> Axes:
    """Figure 19: Size of the write log: execution time. The first axes; `.figure` has all."""
    return _axes("19", results)


def fig20(results: Results) -> Axes:
    """Figure 20: Size of the write log: flash writes. The first axes; `.figure` has all."""
    return _axes("20", results)


def fig21(results: Results) -> Axes:
    """Figure 21: Size of device DRAM. The first axes; `.figure` has all."""
    return _axes("21", results)


def fig22(results: Results) -> Axes:
    """Figure 22: Kinds of flash. The first axes; `.figure` has all."""
    return _axes("22", results)


def fig23(results: Results) -> Axes:
    """Figure 23: Ways to migrate pages. The first axes; `.figure` has all."""
    return _axes("23", results)


def table3(results: Results) -> Axes:
    """Table III: Flash read latency. The first axes; `.figure` has all."""
    return _axes("table3", results)
