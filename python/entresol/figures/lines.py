"""Curves in small panels: ours as lines with marks, published ones thin and dashed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from entresol.figures import ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True)
class Curve:
    """A curve: its points, colour, and whether it is a published one."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str
    published: bool = False
    mark: int | None = 0
    """Which mark; none for many points."""


def draw(axes: Axes, curve: Curve) -> None:
    """Draws a curve. One point alone is a mark."""
    xs, ys = [x for x, _ in curve.points], [y for _, y in curve.points]
    mark = "" if curve.mark is None else _MARKS[curve.mark % len(_MARKS)]
    if curve.published:
        axes.plot(xs, ys, color=curve.colour, linewidth=0.9, linestyle=(0, (3, 2)),
                  marker=mark or None, markersize=3.2, markerfacecolor="white",
                  markeredgewidth=0.7, label="_")  # fmt: skip
    else:
        axes.plot(xs, ys, color=curve.colour, marker=mark or None, markersize=2.8, label="_")


def columns_for(count: int) -> int:
    """Columns of a grid of so many panels."""
    return max(count, 1) if count <= 4 else 3 if count <= 6 else 4


def panels(count: int, height: float, width: float) -> tuple[Figure, list[Axes]]:
    """So many panels, in rows; further places of the grid stay empty."""
    columns = columns_for(count)
    rows = -(-count // columns)
    drawn = ink.figure(width, height * rows + 0.35)
    grid = drawn.subplots(rows, columns, squeeze=False)
    found = [axes for row in grid for axes in row]
    for axes in found[count:]:
        axes.set_axis_off()
    return drawn, found[:count]


def legend(drawn: Figure, curves: Sequence[tuple[str, str, int | None]], *, twins: bool) -> None:
    """What lines mean: (name, colour, mark), and, if there are, which are the published ones."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, marker="" if mark is None else _MARKS[mark % len(_MARKS)],
               markersize=3, label=name)
        for name, colour, mark in curves
    ]  # fmt: skip
    if twins:
        handles.append(Line2D([], [], color=ink.INK, label="Entresol"))
        marked = any(mark is not None for _, _, mark in curves)
        handles.append(Line2D([], [], color=ink.INK, linewidth=0.9, linestyle=(0, (3, 2)),
                              marker="o" if marked else "", markersize=3.2, markerfacecolor="white",
                              label="published"))  # fmt: skip
    drawn.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 8),
                 handlelength=1.8, columnspacing=1.2, handletextpad=0.5)  # fmt: skip
