"""What a paper's room gives to the figure machinery: its `PAPER`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from entresol import core
from entresol.errors import UserError, did_you_mean
from entresol.figures.claims import Claim
from entresol.figures.entry import Figure
from entresol.figures.plan import MODES, Bench, Scale, Settings, Want
from entresol.figures.published import Published
from entresol.figures.recordings import Recorded

PAPER, ARTIFACT = "paper", "artifact"
"""The two fidelities that numbers of a text are measured with."""


def _as_it_is(fidelity: str) -> str:
    return fidelity


def _nothing(_settings: Settings) -> str:
    return ""


def _no_recording(_workload: str) -> Recorded | None:
    return None


@dataclass(frozen=True)
class Text:
    """The numbers in a paper's text."""

    claims: Callable[[], list[Claim]]
    wants: Callable[[Settings], list[Want]]
    """The runs that the claims are computed from."""
    causes: Callable[[], str]
    """The text of `causes.toml`."""
    threads: str
    """With how many threads the runs are made, in words."""
    fidelity_of: Callable[[str], str] = _as_it_is
    """From a fidelity, as `causes.toml` writes it, to that of a run."""
    note: str = ""
    """A sentence on fidelities."""
    benches: Callable[[Settings], list[Bench]] = field(default=lambda _settings: [])
    """The loads that the claims are computed from."""
    figures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By figure, which claims are numbers of it."""
    switches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of a paper of loads: its fidelity switches, and what each sets. Those of runs of captures
    are the core's."""

    sides: tuple[str, ...] = (PAPER, ARTIFACT)
    """The fidelities that there are: of a paper without switches, one."""

    def conditions(self, fidelity: str, overrides: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """What runs are told: the fidelity that the core knows, and parameters."""
        if not self.switches:
            return fidelity, overrides
        return PAPER, (*self._set_by(fidelity), *overrides)

    def chosen(self, fidelity: str) -> list[str]:
        """The switches, of a paper of loads, that a fidelity turns on. Raises `UserError`."""
        on: set[str] = set()
        for name in () if fidelity == PAPER else fidelity.split(","):
            if name == ARTIFACT:
                on |= set(self.switches)
            elif name.lstrip("-") not in self.switches:
                raise UserError(f"unknown switch {name}; there are {', '.join(self.switches)}.")
            elif name.startswith("-"):
                on.discard(name[1:])
            else:
                on.add(name)
        return [name for name in self.switches if name in on]

    def _set_by(self, fidelity: str) -> tuple[str, ...]:
        return tuple(each for name in self.chosen(fidelity) for each in self.switches[name])


@dataclass(frozen=True)
class Paper:
    """A paper whose figures and numbers are made anew."""

    name: str
    """That of its room and on the command line."""
    title: str
    figures: tuple[Figure, ...] = ()
    workloads: tuple[str, ...] = ()
    """In the order of its figures."""
    scales: Mapping[str, Scale] = field(default_factory=dict)
    published: Published | None = None
    threads_of: Callable[[str], int] = field(default=lambda _design: 1)
    """With how many threads a design runs unless a figure says otherwise; 0: with those of the
    capture."""
    caution: Callable[[Settings], str] = _nothing
    """A sentence where settings make all numbers say little."""
    text: Text | None = None
    lead: Callable[[Settings], str] = field(default=_nothing)
    """The first sentences of its page; empty: those of runs of captures."""
    capture: Callable[[str, int, str, Path], Path] | None = None
    """The capture of a workload with so many threads at a scale, made in a store if it is not
    there; none: programs of Table I."""
    recorded: Callable[[str], Recorded | None] = field(default=_no_recording)
    """The recording of that name, which a load is then; none if it is a load of its own."""

    def settings(
        self,
        scale: str = "small",
        fidelity: str = PAPER,
        mode: str = MODES[0],
        workloads: Sequence[str] = (),
    ) -> Settings:
        """Checked settings. Raises `UserError` for an unknown scale, mode or workload, and
        `ConfigError` for an unknown fidelity."""
        if scale not in self.scales:
            raise UserError(f"--scale is {' or '.join(self.scales)}, not {scale}.")
        if mode not in MODES:
            raise UserError(f"--mode is {' or '.join(MODES)}, not {mode}.")
        core.fidelity_names(fidelity)
        names = [name.strip() for text in workloads or ["all"] for name in text.split(",")]
        for name in names:
            if name != "all" and name not in self.workloads:
                hint = did_you_mean(name, self.workloads)
                hint = hint or f" Choose from {', '.join(self.workloads)}, or all."
                raise UserError(f"unknown workload {name}.{hint}")
        chosen = tuple(name for name in self.workloads if name in names or "all" in names)
        return Settings(self.name, scale, self.scales[scale], chosen, fidelity, mode)

    def check(self) -> None:
        """Raises `UserError` if published rows are missing."""
        if self.published is not None:
            self.published.check()
