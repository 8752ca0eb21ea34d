"""Bars in groups: ours solid, the published twin beside it white and hatched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from entresol import quantity
from entresol.figures import ink
from entresol.figures.frames import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAP = 0.9
"""Space between groups, in widths of a bar."""
MOST_LEVEL = 20
"""More short names than this stand upright."""
_EDGE = 0.4


@dataclass(frozen=True)
class Series:
    """Bars of one meaning: key in the data, name, short name below the bar, colour."""

    key: str | float
    name: str
    code: str
    colour: str


Values = Mapping[tuple[str, str | float | None], Cell]
"""Ours and published by (group, series)."""


def of_designs(designs: Sequence[str]) -> list[Series]:
    """A series per design."""
    return [Series(name, ink.label(name), ink.code(name), ink.colour(name)) for name in designs]


def grouped(
    axes: Axes,
    groups: Sequence[str],
    series: Sequence[Series],
    values: Values,
    *,
    limit: float | None = None,
    log: bool = False,
) -> dict[tuple[str, str | float], float]:
    """Draws the bars and names them. A bar beyond `limit` is cut and says its value.

    Returns where the middle of each pair is.
    """
    # A series of which nothing was published has no room for it.
    twins = {key for (_, key), (_, published) in values.items() if published is not None}
    width = 1.0 if twins else 1.7
    if log:
        axes.set_yscale("log")  # First, for a bar of zero has to know.
    middles: dict[tuple[str, str | float], float] = {}
    start = 0.0
    for group in groups:
        for item in series:
            ours, published = values.get((group, item.key), (None, None))
            pair = 2 * width if item.key in twins else width
            middles[group, item.key] = start + pair / 2
            left = start + width / 2
            _bar(axes, left, width, ours, item.colour, limit, hatched=False)
            if item.key in twins:
                _bar(axes, left + width, width, published, item.colour, limit, hatched=True)
            start += pair + 0.25
        start += GAP * 1.6
    axes.set_xlim(-GAP, start - 0.25 - GAP * 0.6)
    if limit is not None:
        axes.set_ylim(top=limit)
    if log:
        ink.log_axis(axes)
    _names(axes, groups, series, middles)
    ink.grid(axes)
    return middles


def _bar(
    axes: Axes,
    middle: float,
    width: float,
    value: float | None,
    colour: str,
    limit: float | None,
    *,
    hatched: bool,
) -> None:
    if value is None or (value == 0 and axes.get_yscale() == "log"):
        text = "·" if value is None else "0"
        axes.text(middle, 0.01, text, transform=axes.get_xaxis_transform(), ha="center",
                  fontsize=5.5, color=ink.SOFT)  # fmt: skip
        return
    cut = limit is not None and value > limit
    height = limit if cut and limit is not None else value
    face = "white" if hatched else colour
    axes.bar(middle, height, width * 0.92, facecolor=face, edgecolor=colour if hatched else ink.INK,
             hatch=ink.HATCH if hatched else None, linewidth=_EDGE)  # fmt: skip
    if cut and limit is not None:
        axes.text(middle, limit, f" {quantity.significant(value, 2)}", rotation=90, ha="center",
                  va="bottom", fontsize=5, clip_on=False)  # fmt: skip


def _names(
    axes: Axes,
    groups: Sequence[str],
    series: Sequence[Series],
    middles: Mapping[tuple[str, str | float], float],
) -> None:
    coded = any(item.code for item in series) and len(series) > 1
    turned = len(groups) * len(series) > MOST_LEVEL
    axes.set_xticks([])
    axes.tick_params(axis="x", length=0)
    if coded:
        places = [middles[group, item.key] for group in groups for item in series]
        axes.set_xticks(places)
        axes.set_xticklabels([item.code for _ in groups for item in series],
                             rotation=90 if turned else 0, fontsize=5.5,
                             color=ink.SOFT)  # fmt: skip
    below = _below([item.code for item in series] if coded else [], turned=turned)
    for group in groups:
        places = [middles[group, item.key] for item in series]
        _name(axes, group, sum(places) / len(places), below)


NAME_ASCENT = 5.3
"""From the top of a group's name to its line, in points."""


def _below(codes: Sequence[str], *, turned: bool) -> float:
    """How far below the axis the name of a group begins, in points."""
    longest = max(map(len, codes), default=0)
    return -5.0 if longest == 0 else -7 - 3.9 * longest if turned else -13.0


def _name(axes: Axes, group: str, middle: float, below: float) -> None:
    is_mean = "mean" in group
    text = group.replace(" ", "\n") if is_mean else group
    is_long = "\n" in text
    axes.annotate(text, (middle, 0),
                  xycoords=("data", "axes fraction"),
                  xytext=(0, below if is_long else below - NAME_ASCENT),
                  textcoords="offset points", ha="center", va="top" if is_long else "baseline",
                  fontsize=7, linespacing=0.95,
                  fontweight="bold" if is_mean else "normal")  # fmt: skip


def stacked(
    axes: Axes,
    groups: Sequence[str],
    columns: Sequence[tuple[str, str]],
    parts: Sequence[Series],
    values: Mapping[tuple[str, str, str], Cell],
) -> None:
    """Bars made of parts: `columns` are (key, short name) of the bars of a group; ours and, where
    there is one, the published twin beside it with white gaps hatched over."""
    start = 0.0
    turned = len(groups) * len(columns) > MOST_LEVEL
    below = _below([name for _, name in columns], turned=turned)
    places: list[tuple[float, str]] = []
    for group in groups:
        first = start
        for key, name in columns:
            cells = [values.get((group, key, str(part.key)), (None, None)) for part in parts]
            twin = any(published is not None for _, published in cells)
            _stack(axes, start + 0.5, [ours for ours, _ in cells], parts, hatched=False)
            if twin:
                _stack(axes, start + 1.5, [other for _, other in cells], parts, hatched=True)
            width = 2.0 if twin else 1.0
            places.append((start + width / 2, name))
            start += width + 0.25
        _name(axes, group, (first + start - 0.25) / 2, below)
        start += GAP
    axes.set_xticks([place for place, _ in places])
    axes.set_xticklabels([name for _, name in places], rotation=90 if turned else 0, fontsize=5.5,
                         color=ink.SOFT)  # fmt: skip
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-GAP, start - 0.25)
    ink.grid(axes)


def _stack(
    axes: Axes,
    middle: float,
    heights: Sequence[float | None],
    parts: Sequence[Series],
    *,
    hatched: bool,
) -> None:
    if all(height is None for height in heights):
        axes.text(middle, 0.01, "·", transform=axes.get_xaxis_transform(), ha="center",
                  fontsize=6, color=ink.SOFT)  # fmt: skip
        return
    bottom = 0.0
    for height, part in zip(heights, parts, strict=True):
        if not height:
            continue
        face = "white" if hatched else part.colour
        axes.bar(middle, height, 0.92, bottom=bottom, facecolor=face,
                 edgecolor=part.colour if hatched else ink.INK,
                 hatch=ink.HATCH if hatched else None, linewidth=_EDGE)  # fmt: skip
        bottom += height


def legend(
    drawn: Figure, series: Sequence[Series], *, twins: bool, columns: int | None = None,
    more: Sequence[object] = (), ours: str = "Entresol", published: str = "published",
) -> None:  # fmt: skip
    """What colours and hatches mean, above the figure."""
    from matplotlib.patches import Patch

    handles: list[object] = [
        Patch(facecolor=item.colour, edgecolor=ink.INK, linewidth=_EDGE, label=item.name)
        for item in series
    ]
    if twins:
        handles.append(Patch(facecolor="#b8bcc2", edgecolor=ink.INK, linewidth=_EDGE, label=ours))
        handles.append(Patch(facecolor="white", edgecolor=ink.SOFT, hatch=ink.HATCH,
                             linewidth=_EDGE, label=published))  # fmt: skip
    handles.extend(more)
    drawn.legend(handles=handles, loc="outside upper center", ncols=columns or min(len(handles), 6),
                 handlelength=1.5, columnspacing=1.2, handletextpad=0.5)  # fmt: skip


def top_of(values: Values, *, most: float, margin: float = 1.08) -> float:
    """A limit of the axis: the largest value, but at most `most`."""
    known = [value for cell in values.values() for value in cell if value is not None]
    return min(max(known, default=1.0) * margin, most)
