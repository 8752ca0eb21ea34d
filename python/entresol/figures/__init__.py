"""Figures of papers, made anew: from results to frames, and from frames to pictures.

from entresol import figures
results = figures.simulate_figures(["skybyte", "14"], scale="small", workloads=["ycsb"])
axes = figures.axes("14", results)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

    from entresol.figures.entry import Figure
    from entresol.figures.plan import Results

__all__ = ["axes", "frame", "simulate_figures"]


def simulate_figures(
    words: Sequence[str],
    *,
    scale: str = "small",
    fidelity: str = "paper",
    mode: str = "detailed",
    workloads: Sequence[str] = (),
    store: Path | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
) -> Results:
    """Simulates what figures need, or finds it in the store.

    `words` are those of `entresol figure`: a paper and its figures, or figures that one paper only
    has; the options too are those of the command. Runs that fail are in `failures` of what is
    returned. Raises `UserError` for a word or an option that means nothing.
    """
    from entresol import papers
    from entresol.figures import entry, simulate
    from entresol.store import location
    from entresol.store.result_store import Store

    paper, names = papers.of_words(words)
    settings = paper.settings(scale, fidelity, mode, workloads)
    where = location.store_directory(store)
    wanted = simulate.plan(entry.choose(paper.figures, names), settings)
    source = simulate.recorded(settings, where)
    return simulate.Simulation(Store(where), source, jobs, scheduler).run(wanted)


def frame(figure: str, results: Results) -> polars.DataFrame:
    """What a figure shows, tidy: workload, design, x, metric, ours, published, ratio."""
    return _of(figure, results).frame(results)


def axes(figure: str, results: Results) -> Axes:
    """A figure, drawn. The first axes; `.figure` has all."""
    found = _of(figure, results)
    drawn: Axes = found.draw(found.frame(results)).axes[0]
    return drawn


def _of(figure: str, results: Results) -> Figure:
    from entresol import papers
    from entresol.figures import entry

    (found,) = entry.choose(papers.find(results.settings.paper).figures, [figure])
    return found
