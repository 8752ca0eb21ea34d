"""A figure of a paper: what it is, what it needs, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from entresol.errors import UserError, did_you_mean
from entresol.figures.plan import Bench, Results, Settings, SteadyWant, Walk, Want

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure as Drawing

NO_MEAN = "none"


def _no_walks(_settings: Settings) -> list[Walk]:
    return []


def _no_benches(_settings: Settings) -> list[Bench]:
    return []


def _no_windows(_settings: Settings) -> list[SteadyWant]:
    return []


def _no_runs(_settings: Settings) -> list[Want]:
    return []


def _nothing_lacks(_settings: Settings) -> str:
    return ""


def _no_reason(_frame: polars.DataFrame) -> str:
    return ""


@dataclass(frozen=True)
class Figure:
    """A figure or table that Entresol makes anew."""

    name: str
    """On the command line: `14`, `table3`."""
    title: str
    says: str
    """How to read it, and on what conditions it stands."""
    mean: str
    """The mean that the paper used, as far as it says or its numbers show; or `NO_MEAN`."""
    frame: Callable[[Results], polars.DataFrame]
    """What is drawn, tidy: see `frames.Rows`."""
    draw: Callable[[polars.DataFrame], Drawing]
    wants: Callable[[Settings], list[Want]] = _no_runs
    """The runs that the frame is made of."""
    walks: Callable[[Settings], list[Walk]] = _no_walks
    """The analyses that the frame is made of."""
    benches: Callable[[Settings], list[Bench]] = _no_benches
    """The loads of file systems that the frame is made of."""
    steady: Callable[[Settings], list[SteadyWant]] = _no_windows
    """The windows in the steady state that the frame is made of."""
    why: Callable[[polars.DataFrame], str] = _no_reason
    """A person's sentence on where it differs from what was published, at scale small with the
    paper's fidelity and all workloads. Its numbers come from the frame and the published files."""
    lacks: Callable[[Settings], str] = _nothing_lacks
    """A sentence on what it needs that no run gives, where that was not given."""
    label: str = ""
    """What the paper calls it, such as `Table III`; empty for `Figure` and its number."""

    @property
    def stem(self) -> str:
        """Name of its files without suffix."""
        numbers = self.name.split(".")
        if not all(number.isdigit() for number in numbers):
            return self.name
        return "fig" + "-".join(f"{int(number):02d}" for number in numbers)

    @property
    def called(self) -> str:
        """What the paper calls it."""
        return self.label or f"Figure {self.name}"

    @property
    def heading(self) -> str:
        """What the paper calls it, and its title."""
        return f"{self.called}: {self.title}"

    def goes_by(self, word: str) -> bool:
        """Whether a word means it: `14`, `fig14`, `Figure14`, `Table III`, `III`."""
        said = _plain(word)
        spelled = (self.name, self.called, self.called.split()[-1])
        return said in {_plain(one) for one in spelled}


def _plain(word: str) -> str:
    name = word.lower().replace(" ", "")
    return name.removeprefix("figure").removeprefix("fig").lstrip("0")


def split(words: Sequence[str]) -> list[str]:
    """The names in words that may be lists: `14,18` is two."""
    return list(dict.fromkeys(name.strip() for word in words for name in word.split(",")))


def choose(figures: Sequence[Figure], words: Sequence[str]) -> list[Figure]:
    """The figures that words name, in the order of the paper; `all` names each.

    Raises `UserError` for a word that names none.
    """
    names = split(words)
    for name in names:
        if name.lower() != "all" and not any(figure.goes_by(name) for figure in figures):
            known = [figure.name for figure in figures]
            hint = "" if name.isdigit() else did_you_mean(name.lower(), known)
            listed = f" There are {', '.join(known)}, or all."
            raise UserError(f"unknown figure {name or repr(name)}.{hint}{listed}")
    return [figure for figure in figures
            if any(name.lower() == "all" or figure.goes_by(name) for name in names)]  # fmt: skip
