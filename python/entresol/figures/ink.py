"""How figures look: type, colours, hatches, and files whose bytes depend on the data alone."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entresol import papers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN = 3.5
"""Width of a column in inches, as in two-column proceedings."""
PAGE = 7.2
"""Width of both columns."""
INK = "#1d2127"
SOFT = "#5c6470"
GRID = "#dcdad5"
HATCH = "//////"
"""Published values: white with this."""
OTHER = "#7d6bb0"
"""A design of no room."""

LADDER = ("#fde3b4", "#f4a940", "#d55e00", "#8e3b00", "#4d1f00", "#1d0c00")
"""Shades for steps of one thing, from light to dark: told apart without colour too."""
PARTS = {
    "host": "#33608f", "hit": "#62b9e2", "miss": "#d55e00", "write": "#e6c04a",
    "link": "#9fd0ea", "index": "#9a3f86", "dram": "#2a9264", "flash": "#d55e00",
    "memory": "#d55e00", "compute": "#2f6fa8", "switch": "#e6c04a", "other": "#c9cdd3",
}  # fmt: skip
"""Parts of a whole."""

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans", "font.size": 7.5, "axes.titlesize": 8, "axes.labelsize": 7.5,
    "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7, "axes.edgecolor": SOFT,
    "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "xtick.major.size": 2.5, "ytick.major.size": 2.5, "ytick.minor.size": 1.5,
    "ytick.minor.width": 0.4, "hatch.linewidth": 0.45, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid.axis": "y", "axes.axisbelow": True,
    "grid.color": GRID, "grid.linewidth": 0.5, "legend.frameon": False, "lines.linewidth": 1.3,
    "figure.dpi": 150, "figure.facecolor": "white", "svg.fonttype": "path", "pdf.fonttype": 42,
    "svg.hashsalt": "entresol", "axes.unicode_minus": True, "figure.constrained_layout.use": True,
}  # fmt: skip


def style() -> AbstractContextManager[None]:
    """The look, for the length of a `with` block; the user's own settings stay as they are."""
    import matplotlib as mpl

    plain = {key: value for key, value in mpl.rcParamsDefault.items() if key != "backend"}
    settings: dict[Any, Any] = {**plain, **_STYLE}
    context: AbstractContextManager[None] = mpl.rc_context(settings)
    return context


def figure(width: float, height: float) -> Figure:
    """An empty figure that belongs to no window."""
    from matplotlib.figure import Figure as Empty

    return Empty(figsize=(width, height), layout="constrained")


def label(design: str) -> str:
    """A design's name in its paper; of `skybyte-full-24` that of `skybyte-full`, and `-24`."""
    known = papers.looks()
    of = max((name for name in known if design.startswith(name)), key=len, default="")
    return known[of].title + design.removeprefix(of) if of else design


def code(design: str) -> str:
    """A short name, for below a bar."""
    known = papers.looks().get(design)
    return design.upper() if known is None else known.code


def colour(design: str) -> str:
    """The colour of a design, the same in every figure."""
    known = papers.looks().get(design)
    return OTHER if known is None else known.colour


def grid(axes: Axes) -> None:
    """Thin lines to read values by."""
    axes.grid(True, axis="y", which="major")


def log_axis(axes: Axes, *, least: float | None = None, most: float | None = None) -> None:
    """A logarithmic axis whose numbers are written out; at least from `least` to `most`, so that a
    difference of a few percent does not fill it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if low <= 0:  # Nothing is drawn.
        low, high = 0.1, 1.0
    if least is not None and most is not None:
        low, high = min(low, least), max(high, most)
        axes.set_ylim(low, high)
    span = high / low
    steps = (
        (1.0,) if span > 30 else (1.0, 2.0, 5.0) if span > 4 else (1.0, 1.25, 1.5, 2.0, 3.0, 8.0)
    )
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=steps))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.10g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def save(drawn: Figure, stem: Path) -> None:
    """Writes `stem.svg` and `stem.pdf`; equal figures are equal bytes.

    It goes to the canvases themselves: `savefig` lays a figure out again for each file.
    """
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with style():
        drawn.draw_without_rendering()
        drawn.set_layout_engine("none")
        picture = {"Date": None, "Creator": "Entresol"}
        svg: Any = FigureCanvasSVG(drawn)  # Its methods have no types.
        svg.print_svg(str(stem.with_suffix(".svg")), metadata=picture)
        document = {"CreationDate": None, "Creator": "Entresol", "Producer": None}
        pdf: Any = FigureCanvasPdf(drawn)
        pdf.print_pdf(str(stem.with_suffix(".pdf")), metadata=document)
