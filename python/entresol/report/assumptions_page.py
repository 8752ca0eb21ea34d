"""`assumptions.html`: what a comparison hangs on that no paper says, as bars and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from entresol import quantity, svg, svg_factors
from entresol.report import document, glossary, html
from entresol.report.cells import Cell
from entresol.report.html import Section
from entresol.result_types import AssumptionChange, Assumptions

SAME = 0.001
"""Who changes neither time nor speedup by more (0.1 %) moves nothing."""
_HALVED, _DOUBLED, _OPEN = "c-link_ps", "c-host_dram_ps", "c-index_ps"
_TURNS = "⇄"
_PART = 10
"""So many things with their bars are a picture, which a sheet of paper takes in."""


@dataclass(frozen=True)
class Shown:
    """A change of a number, or a decision turned on, as it is shown."""

    key: str
    value: str
    changed: str
    how: str
    colour: str
    time: float
    speedup: float
    is_overturning: bool

    @property
    def reach(self) -> float:
        """By how much it moves the speedup, either way."""
        return abs(math.log(self.speedup or 1))

    @property
    def weight(self) -> float:
        """By how much it moves the speedup or, where that stays, the time."""
        return max(abs(math.log(self.time or 1)), self.reach)

    @property
    def moves(self) -> bool:
        """Whether it moves anything."""
        return self.weight > SAME


def render(result: Assumptions) -> str:
    """The whole page: a pure function of the result."""
    words = glossary.of_pairs(_terms(result))
    groups = moving(result)
    command = result["provenance"]["command"]
    sections = [
        Section("moves", "What moves it", _note(result, groups), _picture(result, groups)),
        Section(
            "numbers",
            "The same as numbers",
            "What moves time or speedup most stands first.",
            _numbers(result, groups, words),
            "Numbers",
        ),
        *_opened(result),
        *_still(result),
        *_farther(result, words),
        *_not_tried(result),
        Section("definitions", "Definitions", "", words.render()),
        Section("repeat", "To repeat it", "", html.copyable(command, "Command"), "Command"),
    ]
    warnings = html.warning("Read with care", [escape(each) for each in result["warnings"]])
    return document.document(
        f"What decides between {result['design']} and {result['reference']} on {result['trace']}",
        escape(result["headline"]),
        sections,
        result["provenance"]["entresol"],
        before=warnings,
    )


def by_weight(result: Assumptions) -> list[Shown]:
    """Numbers halved and doubled and decisions turned on, the largest effect first."""
    opened = [
        Shown(
            each["decision"],
            "off",
            "on",
            "left open, turned on",
            _OPEN,
            each["time_micro"] / 1e6,
            each["speedup_micro"] / 1e6,
            each["is_overturning"],
        )
        for each in result["open"]
    ]
    found = [*(_number(each, "") for each in result["moved"]), *opened]
    return sorted(found, key=lambda each: -each.weight)


def _number(each: AssumptionChange, again: str) -> Shown:
    is_doubled = each["is_doubled"]
    return Shown(
        each["parameter"],
        each["value"],
        each["changed"],
        ("doubled" if is_doubled else "halved") + again,
        _DOUBLED if is_doubled else _HALVED,
        each["time_micro"] / 1e6,
        each["speedup_micro"] / 1e6,
        each["is_overturning"],
    )


def _taken_farther(result: Assumptions) -> list[Shown]:
    return [_number(each, " again") for each in result["farther"]]


def moving(result: Assumptions) -> list[list[Shown]]:
    """What moves something, who moves the speedup most first: of each number what half and twice of
    it do, and what overturns the comparison farther off."""
    far = [each for each in _taken_farther(result) if each.is_overturning]
    groups: dict[str, list[Shown]] = {}
    for each in [*by_weight(result), *far]:
        groups.setdefault(each.key, []).append(each)
    found = [group for group in groups.values() if any(each.moves for each in group)]
    for group in found:
        group.sort(key=lambda each: each.how)  # Doubled, doubled again, halved, halved again.
        group.sort(key=lambda each: each.colour != _HALVED)
    # Bars are of the speedup: what moves the time of both designs alike comes last.
    return sorted(
        found,
        key=lambda group: (
            -max(each.reach for each in group),
            -max(each.weight for each in group),
        ),
    )


def still(result: Assumptions) -> dict[str, list[Shown]]:
    """What moves nothing, by name."""
    groups: dict[str, list[Shown]] = {}
    for each in by_weight(result):
        groups.setdefault(each.key, []).append(each)
    return {
        key: groups[key] for key in sorted(groups) if not any(each.moves for each in groups[key])
    }


def factor(value: float) -> str:
    """`0.817`."""
    return f"{value:.3f}"


def _speedup(result: Assumptions) -> float:
    return result["speedup_micro"] / 1e6


def _terms(result: Assumptions) -> list[tuple[str, str]]:
    design, reference = result["design"], result["reference"]
    return [
        ("ours", "A value that no paper gives: this project chose it."),
        ("left open", "A decision that the paper does not take; it is off unless turned on."),
        ("time ×", f"What the change multiplies the simulated time of {design} by."),
        (
            "speedup ×",
            f"What it multiplies the speedup of {design} over {reference} by, both with the "
            "change. 1 is no effect.",
        ),
        (
            "speedup then",
            f"Simulated time of {reference} divided by that of {design}, both with the change.",
        ),
        (
            "overturns",
            "With the change the one is faster that is slower without it.",
        ),
    ]


def _note(result: Assumptions, groups: Sequence[Sequence[Shown]]) -> str:
    if not groups:
        return ""
    speedup, design, reference = _speedup(result), result["design"], result["reference"]
    text = (
        f"What each change multiplies the speedup of {design} over {reference} "
        f"({quantity.times(speedup)}) by: right of ×1 {design} gains, left of it it loses. "
        "Each change alone; what moves the time of both alike stands last. "
    )
    equal = factor(1 / speedup) if speedup else quantity.NOTHING
    if any(each.is_overturning for group in groups for each in group):
        return text + (
            f"A bar that passes the dashed line (×{equal}, where both are equally fast) overturns "
            f"which is faster; {_TURNS} marks it."
        )
    return text + f"None reaches ×{equal}, where both were equally fast."


def _picture(result: Assumptions, groups: Sequence[Sequence[Shown]]) -> str:
    if not groups:
        return html.note("Nothing that was tried moves time or speedup by more than 0.1 %.")
    drawn = [svg_factors.Group(_label(group[0]), tuple(map(_bar, group))) for group in groups]
    title = f"Factors of the speedup of {result['design']} over {result['reference']}"
    mark = 1 / (_speedup(result) or 1)
    parts = ""
    for start in range(0, len(groups), _PART):
        some = slice(start, start + _PART)
        words = "; ".join(_words(each) for group in groups[some] for each in group)

        def draw(
            width: int, suffix: str, some: slice = some, start: int = start, words: str = words
        ) -> str:
            caption = svg.Caption(f"factors-{start}{suffix}", title, words)
            return svg_factors.factors(caption, drawn[some], width, mark, drawn)

        parts += html.panels([("", html.picture(draw, html.panel_width(1)))])
    kinds = {each.colour for group in groups for each in group}
    names = ((_HALVED, "halved"), (_DOUBLED, "doubled"), (_OPEN, "left open by the paper, on"))
    chips = [(colour, name) for colour, name in names if colour in kinds]
    return html.legend(chips) + parts


def _words(each: Shown) -> str:
    turns = ", overturns" if each.is_overturning else ""
    return f"{each.key} {each.value} to {each.changed}: factor {factor(each.speedup)}{turns}"


def _label(each: Shown) -> str:
    return f"{each.key} (open)" if each.colour == _OPEN else f"{each.key} = {each.value}"


def _bar(each: Shown) -> svg_factors.Factor:
    turns = f" {_TURNS}" if each.is_overturning else ""
    title = f"{each.key} {each.value} → {each.changed}: speedup ×{factor(each.speedup)}, "
    return svg_factors.Factor(
        each.speedup,
        each.colour,
        f"{each.changed}: ×{factor(each.speedup)}{turns}",
        f"{title}time ×{factor(each.time)}{', overturns' if each.is_overturning else ''}",
        each.is_overturning,
    )


def _numbers(
    result: Assumptions, groups: Sequence[Sequence[Shown]], words: glossary.Glossary
) -> str:
    rows = [each for group in groups for each in group]
    rows.sort(key=lambda each: -each.weight)
    return _table("What each change does", result, rows, words)


def _table(
    caption: str, result: Assumptions, rows: Sequence[Shown], words: glossary.Glossary
) -> str:
    heads = ("changed", "value", "to", "how", "time ×", "speedup ×", "speedup then", "overturns")
    shown = [
        html.Row(
            each.key,
            (
                Cell(each.value),
                Cell(each.changed),
                Cell(each.how),
                Cell(factor(each.time), value=each.time),
                Cell(factor(each.speedup), value=each.speedup),
                Cell(
                    quantity.times(_speedup(result) * each.speedup),
                    value=_speedup(result) * each.speedup,
                ),
                Cell(f"yes {_TURNS}" if each.is_overturning else "no"),
            ),
            best=each.is_overturning,
        )
        for each in rows
    ]
    return html.table(caption, heads, shown, words) if shown else html.note("None.")


def _opened(result: Assumptions) -> list[Section]:
    if not result["open"]:
        return []
    rows = [
        html.Row(
            each["decision"],
            (Cell(each["title"], prose=True), Cell(" ".join(each["set"]), prose=True)),
        )
        for each in result["open"]
    ]
    table = html.table("Decisions turned on", ("decision", "with it", "sets"), rows)
    note = "Each is turned on alone, for both designs."
    return [Section("open", "What the paper leaves open", note, table, "Left open")]


def _still(result: Assumptions) -> list[Section]:
    rows = [
        html.Row(
            key,
            (Cell(found[0].value), Cell(", ".join(each.changed for each in found), prose=True)),
        )
        for key, found in still(result).items()
    ]
    if not rows:
        return []
    table = html.table("Tried in vain", ("changed", "value", "to"), rows)
    note = "None of these moves time or speedup by more than 0.1 %."
    return [Section("still", "What moves nothing", note, table)]


def _farther(result: Assumptions, words: glossary.Glossary) -> list[Section]:
    if not result["farther"]:
        return []
    note = (
        "No half and no double of a number overturns which is faster; those that might were "
        "halved or doubled again, up to three times, until one did."
    )
    rows = sorted(_taken_farther(result), key=lambda each: -each.weight)
    table = _table("Farther than half and twice", result, rows, words)
    return [Section("farther", "Taken farther", note, table)]


def _not_tried(result: Assumptions) -> list[Section]:
    if not result["not_tried"]:
        return []
    rows = [
        html.Row(each["parameter"], (Cell(each["changed"]), Cell(each["why"], prose=True)))
        for each in result["not_tried"]
    ]
    table = html.table("Not tried", ("changed", "to", "why"), rows)
    note = "No valid configuration, or a number that has no half."
    return [Section("not-tried", "What was not tried", note, table)]
