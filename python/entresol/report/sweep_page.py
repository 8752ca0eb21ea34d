"""The page of a sweep: many points, what was varied, and what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from entresol.core import Design, Parameter
from entresol.cost import PAPER, Prices
from entresol.derived import Run
from entresol.report import configuration, document, economy, effects, html, sweep_tables, templates
from entresol.report.definitions import MAIN
from entresol.report.html import Section
from entresol.report.sweep_points import CIRCUMSTANCES, Axes, Done, name
from entresol.report.sweep_points import axes as axes_of
from entresol.result_types import RunResult


@dataclass(frozen=True)
class Point:
    """A point: the value of everything that the sweep varies, and its result, an element of
    `runs`; or, without one, the sentence that says why it failed."""

    varied: Mapping[str, str]
    run: RunResult | None
    failure: str = ""


@dataclass(frozen=True)
class Sweep:
    """A sweep that is over: points in its order, and what it takes to repeat it."""

    title: str
    points: Sequence[Point]
    command: str
    study: str
    """The file that describes the sweep."""
    version: str
    """Of Entresol."""


def sweep_page(
    sweep: Sweep,
    designs: Sequence[Design],
    parameters: Sequence[Parameter],
    prices: Prices = PAPER,
) -> str:
    """The whole page of `entresol sweep`."""
    done = [
        Done(number, point.varied, Run(point.run))
        for number, point in enumerate(sweep.points)
        if point.run is not None
    ]
    failed = [(number, point) for number, point in enumerate(sweep.points) if point.run is None]
    settings = [point.settings for point in done] + [dict(point.varied) for _, point in failed]
    axes = axes_of(settings)
    sections = [
        *_fastest(done, axes),
        *effects.sections(done, axes),
        *_points(done, axes),
        *_cost(done, axes, prices),
        Section("definitions", "Definitions", "", MAIN.render()),
        _repeat(sweep, done, designs, parameters),
    ]
    return document.document(
        sweep.title,
        _lead(sweep, done, axes),
        sections,
        sweep.version,
        before=_failures(failed) + sweep_tables.warnings(done),
    )


def _lead(sweep: Sweep, done: Sequence[Done], axes: Axes) -> str:
    text = f"{len(sweep.points):,} {'point' if len(sweep.points) == 1 else 'points'}"
    words = [f"{escape(axis)} ({len(values)})" for axis, values in axes.items() if len(values) > 1]
    if words:
        text += f" over {', '.join(words)}"
    failed = len(sweep.points) - len(done)
    return f"{text}; {failed:,} of them failed." if failed else f"{text}."


def _failures(failed: Sequence[tuple[int, Point]]) -> str:
    by_text: dict[str, list[tuple[int, Point]]] = {}
    for number, point in failed:
        by_text.setdefault(point.failure, []).append((number, point))
    return html.warning(
        "Points that failed", [_failure(text, some) for text, some in by_text.items()], "failures"
    )


def _failure(text: str, some: Sequence[tuple[int, Point]]) -> str:
    numbers = sweep_tables.ranges([number for number, _ in some])
    points = [(number, name(point.varied)) for number, point in some]
    return templates.piece("failed", numbers, text, points)


def _apart(axes: Axes) -> str:
    """Says what is compared only with its like."""
    words = [key for key in CIRCUMSTANCES if len(axes.get(key, ())) > 1]
    return f", for each {', '.join(words)} by itself" if words else ""


def _fastest(done: Sequence[Done], axes: Axes) -> list[Section]:
    if len(done) < 2:
        return []
    note = (
        "The fastest point of each capture, its fastest device design, and the slowest point"
        f"{_apart(axes)}."
    )
    table = sweep_tables.extremes(done, axes)
    return [Section("fastest", "Fastest and slowest", note, table, "Fastest")]


def _points(done: Sequence[Done], axes: Axes) -> list[Section]:
    if not done:
        return []
    note = (
        "Every point, in the order of the sweep. Relative time: execution time divided by that of "
        f"the fastest point of the capture{_apart(axes)}."
    )
    return [Section("points", "Points", note, sweep_tables.points(done, axes))]


def _cost(done: Sequence[Done], axes: Axes, prices: Prices) -> list[Section]:
    devices = [point for point in done if point.run.is_device]
    if not devices:
        return []
    note = html.note(economy.note(devices[0].run, prices))
    table = sweep_tables.costs(done, axes, prices)
    return [
        Section("cost", "Cost and endurance", "", note + html.details("Every point", table), "Cost")
    ]


def _repeat(
    sweep: Sweep,
    done: Sequence[Done],
    designs: Sequence[Design],
    parameters: Sequence[Parameter],
) -> Section:
    content = html.copyable(sweep.command, "Command") + html.copyable(sweep.study, "Sweep file")
    runs = [point.run for point in done]
    if runs:
        content += configuration.designs([run.design for run in runs], designs)
        content += configuration.common(runs, parameters, "The same in all points")
    note = (
        f"Entresol {sweep.version}, these captures, this file and this command give the same "
        "numbers again, byte for byte."
    )
    return Section("configuration", "To repeat it", note, content, "Configuration")
