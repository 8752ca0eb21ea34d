"""`tables.md`: the numbers of figures as tables of Markdown, for documents that hold them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from entresol import quantity
from entresol.figures import frames, ink, tables
from entresol.figures.entry import Figure
from entresol.figures.frames import Row
from entresol.figures.paper import Paper
from entresol.figures.plan import Results

if TYPE_CHECKING:
    import polars

WIDTH = 100
LOW, HIGH = "low", "high"
"""The metrics that are the ends of the interval of the one before them."""
MOST_CELLS = 400
"""Curves of more points are in the CSV only."""


def render(
    paper: Paper,
    figures: Sequence[Figure],
    results: Results,
    made: Mapping[str, polars.DataFrame],
    command: str,
) -> str:
    """The document. `made` has a frame for each figure."""
    head = [
        f"# Numbers of figures: {paper.title}",
        "",
        f"Written by `{command}`",
        "as `tables.md` beside the pictures; not to be edited.",
        "",
        _wrapped(_lead(paper, results)),
    ]
    sections = [_section(paper, figure, results, made[figure.name]) for figure in figures]
    return "\n\n".join(["\n".join(head), *sections]) + "\n"


def _lead(paper: Paper, results: Results) -> str:
    of = results.settings
    if paper.published is None:
        return paper.lead(of)
    sizes = "the paper's sizes" if of.shrink == 1 else f"sizes {of.shrink} times smaller"
    published = (
        "Where something was published it stands behind ours: ours / published. The means of a "
        "metric are over one set of workloads, those without a hole."
    )
    if not of.machine:
        return (
            f"Loads of file systems in virtual time ({sizes}), fidelity {of.fidelity}; the same "
            f"command gives the same numbers. {published}"
        )
    return (
        f"Machine {of.machine} ({sizes}), fidelity {of.fidelity}, mode {of.mode}. {published} "
        "Threads interleave anew in every capture that is made, so captures made again give other "
        "numbers, near these."
    )


def _section(paper: Paper, figure: Figure, results: Results, frame: polars.DataFrame) -> str:
    settings = results.settings
    parts = [f"## {figure.heading}", _wrapped(figure.says)]
    rows = frames.read(frame)
    for metric in dict.fromkeys(row.metric for row in rows if row.metric not in (LOW, HIGH)):
        mine = [row for row in rows if row.metric == metric]
        if any(row.ours is not None or row.published is not None for row in mine):
            parts.append(_table(metric, mine, _intervals(metric, rows)))
    benches, steady = figure.benches(settings), figure.steady(settings)
    wants, walks = figure.wants(settings), figure.walks(settings)
    warned = [
        *tables.without_ratio(frame, results),
        *tables.partial_means(frame),
        *tables.warnings(results, wants, walks, paper.threads_of, benches, steady),
    ]
    listed = [_wrapped(f"- {sentence}.", "  ") for sentence in warned]
    made_of = tables.settings(results, wants, benches, steady)
    return "\n\n".join([*parts, _wrapped(made_of), *(["\n".join(listed)] if listed else [])])


Place = tuple[str, str, float | str | None]
Intervals = Mapping[Place, tuple[float, float]]


def _place(row: Row) -> Place:
    return row.workload, row.design, row.x


def _intervals(metric: str, rows: Sequence[Row]) -> Intervals:
    """Those of this metric, if they stand behind it."""
    names = list(dict.fromkeys(row.metric for row in rows))
    if names[names.index(metric) + 1 :][:2] != [LOW, HIGH]:
        return {}
    ends = {(_place(row), row.metric): row.ours for row in rows}
    places = (_place(row) for row in rows if row.metric == metric)
    return {
        place: (low, high)
        for place in places
        if (low := ends.get((place, LOW))) is not None
        and (high := ends.get((place, HIGH))) is not None
    }


def _table(metric: str, rows: Sequence[Row], intervals: Intervals) -> str:
    """Workloads downwards; designs across, or where there is an axis what lies on it."""
    has_x = any(row.x is not None for row in rows)
    several = has_x and len({row.design for row in rows}) > 1

    def line(row: Row) -> str:
        return f"{row.workload}, {ink.label(row.design)}" if several else row.workload

    def column(row: Row) -> str:
        return _axis(row.x) if has_x else ink.label(row.design)

    lines, columns = (list(dict.fromkeys(map(of, rows))) for of in (line, column))
    cells = {(line(row), column(row)): _cell(row, intervals.get(_place(row))) for row in rows}
    name = metric.replace("_", " ")
    if len(lines) * len(columns) > MOST_CELLS:
        return f"{name}: {len(rows):,} points; they are in the CSV."
    head = [f"| {name} | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    body = [
        f"| {each} | {' | '.join(cells.get((each, one), '') for one in columns)} |"
        for each in lines
    ]
    return "\n".join([*head, *body])


def _axis(x: float | str | None) -> str:
    return quantity.NOTHING if x is None else x if isinstance(x, str) else f"{x:g}"


def _cell(row: Row, ends: tuple[float, float] | None) -> str:
    low, high = ends or (None, None)
    ours = quantity.NOTHING if row.ours is None else quantity.between(row.ours, low, high)
    if row.published is None:
        return ours
    return f"{ours} / {quantity.significant(row.published)}"


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False,
                         subsequent_indent=indent)  # fmt: skip
