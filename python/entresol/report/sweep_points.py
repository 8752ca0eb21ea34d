"""Points of a sweep that have a result, and the axes they lie on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from entresol.derived import Panel, Run

Axes = Mapping[str, Sequence[str]]
"""Names of what is varied, in order, each with its values in order of appearance."""
CIRCUMSTANCES = ("mode", "machine", "nand", "fidelity", "threads")
"""What two points must have in common for their times to be compared, besides the capture."""
Group = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Done:
    """A point with its result; `number` counts all points of the sweep from 0, as its other
    files do."""

    number: int
    varied: Mapping[str, str]
    run: Run

    @property
    def settings(self) -> dict[str, str]:
        """The place of the point on every axis: capture, design, and what else is varied."""
        return {"trace": self.run.trace, "design": self.run.design} | dict(self.varied)

    def elsewhere(self, axis: str) -> Group:
        """The place of the point on every axis but one."""
        return tuple((key, text) for key, text in self.settings.items() if key != axis)

    def group(self, axis: str = "") -> Group:
        """Where the points are that it may be compared with: the capture and the circumstances,
        `axis` aside."""
        named = ("trace", *CIRCUMSTANCES)
        return tuple(
            (key, text) for key, text in self.settings.items() if key in named and key != axis
        )


def axes(settings: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """What is varied, and its values."""
    found: dict[str, dict[str, None]] = {}
    for place in settings:
        for key, text in place.items():
            found.setdefault(key, {})[text] = None
    return {key: list(values) for key, values in found.items()}


def beside(done: Sequence[Done]) -> list[Panel]:
    """For each point the points that differ from it in the design only, as a panel."""
    groups: dict[Group, list[Run]] = {}
    for point in done:
        groups.setdefault(point.elsewhere("design"), []).append(point.run)
    return [Panel(point.run.trace, tuple(groups[point.elsewhere("design")])) for point in done]


def comparable(done: Sequence[Done], axis: str = "") -> dict[str, list[Done]]:
    """The points whose times may be compared with each other, by what sets them apart from the
    others in words; `axis` is what is compared."""
    groups: dict[Group, list[Done]] = {}
    for point in done:
        groups.setdefault(point.group(axis), []).append(point)
    values = axes([dict(group) for group in groups])
    return {
        name(
            {key: text for key, text in group if key == "trace" or (text and len(values[key]) > 1)}
        ): some
        for group, some in groups.items()
    }


def name(settings: Mapping[str, str]) -> str:
    """A point in words."""
    words = [settings[key] for key in ("trace", "design") if key in settings]
    words += [f"{key} = {text}" for key, text in settings.items() if key not in ("trace", "design")]
    return ", ".join(words)
