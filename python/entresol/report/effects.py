"""What each parameter of a sweep does: one figure per axis, one line per design."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from entresol import quantity, svg, svg_trend
from entresol.derived import BASE
from entresol.report import cells, html, palette
from entresol.report.html import Row, Section
from entresol.report.sweep_points import CIRCUMSTANCES, Axes, Done, comparable

_NAMES = ("trace", "design")
Place = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Effect:
    """Geometric mean of the execution time for each value of an axis, relative to a reference."""

    design: str
    values: tuple[float | None, ...]


def sections(done: Sequence[Done], axes: Axes) -> list[Section]:
    """A figure for each axis with several values, the names of captures and designs aside."""
    shown = {
        name: values for name, values in axes.items() if len(values) > 1 and name not in _NAMES
    }
    if not shown or not done:
        return []
    others = len(shown) > 1 and any(axis not in CIRCUMSTANCES for axis in shown)
    mean = ", geometric mean over the other parameters" if others else ""
    note = (
        f"Execution time of each design{mean}, relative to that of {_reference(done)} at the first "
        "value: lower is faster. A mean is over the places that have a point for every value of "
        "every design drawn."
    )
    designs = list(dict.fromkeys(point.run.design for point in done))
    content = html.line_legend(designs) + "".join(
        _axis(name, values, done) for name, values in shown.items()
    )
    return [Section("effects", "What each parameter does", note, content, "Effects")]


def _reference(done: Sequence[Done]) -> str:
    designs = [point.run.design for point in done]
    return BASE if BASE in designs else designs[0]


def _axis(name: str, values: Sequence[str], done: Sequence[Done]) -> str:
    groups = comparable(done, name)
    found = {group: effects(name, values, some) for group, some in groups.items()}
    width = html.panel_width(len(groups))
    pictures = [
        (f"{group}: {name}", html.picture(_draw(name, group, values, lines), width))
        for group, lines in found.items()
    ]
    missing = "".join(_missing(group, groups[group], lines) for group, lines in found.items())
    tables = "".join(_table(name, group, values, lines) for group, lines in found.items())
    return html.panels(pictures) + missing + html.details(f"{name} as numbers", tables)


def _missing(group: str, done: Sequence[Done], lines: Sequence[Effect]) -> str:
    shown = {line.design for line in lines}
    without = [run for run in dict.fromkeys(point.run.design for point in done) if run not in shown]
    if not without:
        return ""
    names = ", ".join(without)
    return html.note(f"{group}: no line for {names}; no place has a point for every value.")


def _draw(name: str, group: str, values: Sequence[str], lines: Sequence[Effect]) -> html.Draw:
    identity = "".join(c if c.isalnum() else "-" for c in f"effect-{name}-{group}")
    words = "; ".join(
        f"{line.design}: "
        + ", ".join(
            f"{value} {quantity.NOTHING if time is None else quantity.significant(time)}"
            for value, time in zip(values, line.values, strict=True)
        )
        for line in lines
    )
    drawn = [
        svg_trend.Trend(
            line.design, palette.design(line.design), palette.dash(line.design), line.values
        )
        for line in lines
    ]

    def draw(width: int, suffix: str) -> str:
        caption = svg.Caption(
            identity + suffix, f"{group}: relative execution time by {name}", words
        )
        return svg_trend.trend(caption, values, drawn, width, quantity.significant)

    return draw


def _table(name: str, group: str, values: Sequence[str], lines: Sequence[Effect]) -> str:
    rows = [Row(line.design, tuple(cells.ratio(time) for time in line.values)) for line in lines]
    return html.table(f"{group}: relative execution time by {name}", ("design", *values), rows)


def effects(name: str, values: Sequence[str], done: Sequence[Done]) -> list[Effect]:
    """The lines of points that may be compared. A design has the values for which it has a point
    anywhere; only places that have a point for each of these count, and only those where every
    design that is drawn has one, so that neither a mean nor a ratio of two compares different
    places. A design without such a place has no line."""
    groups: dict[str, dict[Place, dict[str, int]]] = {}
    for point in done:
        place = groups.setdefault(point.run.design, {}).setdefault(_where(point, name), {})
        place[point.settings.get(name, "")] = point.run.time_ps
    whole = {}
    for design, places in groups.items():
        present = {value for times in places.values() for value, time in times.items() if time}
        if present:
            whole[design] = {place: times for place, times in places.items()
                             if present <= times.keys()}  # fmt: skip
    shared = _shared(whole)
    return _relative([
        Effect(design, tuple(_mean([whole[design][place] for place in places], value)
                             for value in values))
        for design, places in shared.items()
    ])  # fmt: skip


def _where(point: Done, name: str) -> Place:
    """Where a point is, the design and one axis aside."""
    return frozenset((key, text) for key, text in point.elsewhere(name) if key != "design")


def _shared(whole: Mapping[str, Mapping[Place, object]]) -> dict[str, list[Place]]:
    """Of each design the places that the others have too, as far as settings that all have tell.
    A design that shares none with those before it is left out; the reference comes first."""
    found: dict[str, list[Place]] = {}
    order = sorted(whole, key=lambda design: design != BASE)
    for design in order:
        taken = {**found, design: list(whole[design])}
        keys = [{key for key, _ in place} for places in taken.values() for place in places]
        common = set.intersection(*keys) if keys else set()
        seen = [{_part(place, common) for place in places} for places in taken.values()]
        both = set.intersection(*seen)
        if both:
            found = {each: [place for place in places if _part(place, common) in both]
                     for each, places in taken.items()}  # fmt: skip
    return {design: found[design] for design in whole if design in found}


def _part(place: Place, keys: Set[str]) -> Place:
    return frozenset((key, text) for key, text in place if key in keys)


def _mean(places: Sequence[dict[str, int]], value: str) -> float | None:
    times = [times[value] for times in places if times.get(value)]
    return math.exp(math.fsum(map(math.log, times)) / len(times)) if times else None


def _relative(lines: Sequence[Effect]) -> list[Effect]:
    first = next((line for line in lines if line.design == BASE), lines[0] if lines else None)
    unit = next((time for time in first.values if time), None) if first else None
    if unit is None:
        return []
    return [
        Effect(line.design, tuple(None if time is None else time / unit for time in line.values))
        for line in lines
    ]
