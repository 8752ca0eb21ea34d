"""The page of a paper's numbers: each number of the text beside ours, and why they differ."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from entresol import quantity
from entresol.errors import UserError
from entresol.figures import causes
from entresol.figures.causes import Cause
from entresol.figures.claims import MEASURED, Claim
from entresol.figures.paper import ARTIFACT, PAPER
from entresol.figures.reproduction import Evidence, Reproduction

OF_FIGURES = 0.3
"""A number of a figure that is further away asks for its cause."""
NEARER = 0.1
"""By how much of the way, as a ratio, a cause has to bring our number to the published one."""


def render(study: Reproduction, evidence: Evidence, reasons: Sequence[Cause], command: str) -> str:
    """The page, as Markdown."""
    rows = [_row(study, claim, evidence) for claim in study.claims]
    far = [_far(study, claim, evidence, reasons) for claim in study.claims]
    differences = [block for block in far if block]
    of, every = evidence.paper.settings, len(study.paper.workloads)
    missing = evidence.failures
    failed = f"\n{len(missing)} runs failed, the first: {missing[0]}.\n" if missing else ""
    return "\n".join([
        "# Reproduction", "",
        f"Written by `{command}`; not to be edited.",
        *_conditions_of(study, evidence, every), failed,
        f"*Published*: the text of the {study.paper.title} paper. *Their data*: the same from the "
        "artifact's",
        "files, where they hold it. *Paper* and *artifact*: ours with that",
        "[fidelity](fidelity.md)." + study.text.note(of.scale),
        *_captures(evidence), *_measured(study),
        "A dash: not published, or these runs have nothing to compute it from.",
        "A number in bold is more than 25 % away from the published one; its causes are below.",
        "Published figures beside ours: `make figures`, then "
        f"`results/figures/{study.paper.name}/index.html`.", "",
        "| § | claim | unit | published | their data | paper | artifact | how |",
        "|---|---|---|---|---|---|---|---|", *rows, "",
        *_of_figures(study, evidence, reasons),
        "## Why they differ", "",
        "A cause is a person's sentence; its numbers are measured by the command: the claim",
        "itself, under the switches or parameters named. It stands only if they show it: our",
        "number is nearer to the published one with the cause at work, by a tenth of the way",
        "(of logarithms) or more.", "",
        *(differences or ["Nothing differs by more than 25 %.", ""]),
    ])  # fmt: skip


def _of_figures(study: Reproduction, evidence: Evidence, reasons: Sequence[Cause]) -> list[str]:
    """A table for each figure whose numbers the text has."""
    by_name = {claim.quantity: claim for claim in study.claims}
    lines = []
    for figure, names in study.text.figures.items():
        lines += [f"### Figure {figure}", "",
                  "| number | published | paper | ratio | cause | artifact | ratio | cause |",
                  "|---|---|---|---|---|---|---|---|"]  # fmt: skip
        lines += [_figure_row(study, by_name[name], evidence, reasons) for name in names]
        lines.append("")
    head = ["## Numbers of figures", "",
            "Ratios are to the published number. Bars without a number in the text are in pictures",
            "alone and not here. A cause is named by switch or parameter that shows it; a dash:",
            "within 30 %.", ""]  # fmt: skip
    return [*head, *lines] if lines else []


def _figure_row(
    study: Reproduction, claim: Claim, evidence: Evidence, reasons: Sequence[Cause]
) -> str:
    cells = [claim.quantity, f"{claim.published:g}"]
    for which in (PAPER, ARTIFACT):
        value = claim.ours(evidence.of(which))
        ratio = None if value is None else value / claim.published
        cells += [_number(value), _number(ratio),
                  _short_cause(study, claim, which, evidence, reasons)]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _short_cause(
    study: Reproduction, claim: Claim, which: str, evidence: Evidence, reasons: Sequence[Cause]
) -> str:
    if not claim.differs(claim.ours(evidence.of(which)), OF_FIGURES):
        return quantity.NOTHING
    given = _given(claim, which, evidence, reasons)
    good = [cause for cause in given if confirmed(claim, cause, evidence)]
    if not good:
        return "**unexplained**"
    shown = [_conditions(study, cause, evidence) for cause in good if cause.needs_run]
    return ", ".join(dict.fromkeys(shown)) or "in words, below"


def _conditions_of(study: Reproduction, evidence: Evidence, every: int) -> list[str]:
    of = evidence.paper.settings
    names = _wrapped_line(f"{', '.join(of.workloads)}; {study.text.threads}.")
    if evidence.paper.runs:
        head = f"Machine `{of.machine}`, mode `{of.mode}`,"
        return [f"{head} {len(of.workloads)} of {every} workloads:", names]
    size = f"Scale `{of.scale}`, one in {of.shrink} of the paper's sizes,"
    return [f"{size} {len(of.workloads)} of {every} workloads:", names]


def _wrapped_line(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _measured(study: Reproduction) -> list[str]:
    if not any(claim.rule.kind == MEASURED for claim in study.claims):
        return []
    return [
        "Rows that are *measured on this machine* have times of code that ran in real time:",
        "another machine gives other numbers, and so does this one beside other work.",
    ]


def _captures(evidence: Evidence) -> list[str]:
    if not evidence.paper.runs and evidence.paper.benches:
        return ["All runs are in virtual time: the same command gives the same numbers."]
    return [
        "Threads interleave anew in every capture that is made: on captures made again the numbers",
        "are a new result, near these and not equal to them ([workloads](workloads.md#captures)).",
    ]


def _row(study: Reproduction, claim: Claim, evidence: Evidence) -> str:
    cells = [claim.section, claim.quantity, claim.unit, f"{claim.published:g}",
             _number(claim.theirs())]  # fmt: skip
    for which in (PAPER, ARTIFACT):
        value = claim.ours(evidence.of(which)) if which in study.text.sides else None
        cells.append(f"**{_number(value)}**" if claim.differs(value) else _number(value))
    return f"| {' | '.join([*cells, f'{claim.rule.kind}: {claim.rule.how}'])} |"


def _number(value: float | None) -> str:
    return quantity.NOTHING if value is None else quantity.significant(value)


def _far(study: Reproduction, claim: Claim, evidence: Evidence, reasons: Sequence[Cause]) -> str:
    lines = []
    for which in study.text.sides:
        value = claim.ours(evidence.of(which))
        if claim.differs(value):
            why = _why(study, claim, which, evidence, reasons)
            head = f"{_number(value)} instead of {claim.published:g}"
            lines.append(_wrapped(f"- *{which}*, {head}: {why}"))
    return "\n".join([f"### {claim.quantity}", "", *lines, ""]) if lines else ""


def _wrapped(item: str) -> str:
    return textwrap.fill(item, 100, subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


def _given(claim: Claim, which: str, evidence: Evidence, reasons: Sequence[Cause]) -> list[Cause]:
    scale = evidence.paper.settings.scale
    return [cause for cause in reasons
            if (cause.claim, cause.of) == (claim.quantity, which)
            and cause.scale in (None, scale)]  # fmt: skip


def _why(
    study: Reproduction, claim: Claim, which: str, evidence: Evidence, reasons: Sequence[Cause]
) -> str:
    given = _given(claim, which, evidence, reasons)
    good = [cause for cause in given if confirmed(claim, cause, evidence)]
    if good:
        return " ".join(_sentence(study, claim, cause, evidence) for cause in good)
    tried = [
        f"{_conditions(study, cause, evidence)} gives {_number(evidence.shown.get(cause))}"
        for cause in given
    ]
    looked = f" Not the cause: {'; '.join(tried)}." if tried else ""
    return f"**Unexplained.**{looked}"


def confirmed(claim: Claim, cause: Cause, evidence: Evidence) -> bool:
    """Whether the run that shows a cause does show it: with the cause at work our number is nearer
    to the published one. Taking a decision out of the artifact has to move the artifact's away,
    if that decision is to explain the paper's."""
    if not cause.needs_run:
        return True
    is_taken_out = cause.of == PAPER and (cause.fidelity or "").startswith(f"{ARTIFACT},-")
    start = claim.ours(evidence.of(ARTIFACT if is_taken_out else cause.of))
    before, after = _distance(start, claim), _distance(evidence.shown.get(cause), claim)
    if before is None or after is None:
        return False
    if is_taken_out:  # And to the side on which the paper's is.
        return abs(after) > abs(before) * (1 + NEARER) and _is_beside(after, claim, evidence)
    return abs(after) < abs(before) * (1 - NEARER)


def _distance(value: float | None, claim: Claim) -> float | None:
    """From the published number to ours, of logarithms: below it negative; none beyond a bound."""
    if not value or not claim.published:
        return None
    distance = math.log(value / claim.published)
    return min(distance, 0.0) if "at least" in claim.quantity else distance


def _is_beside(distance: float, claim: Claim, evidence: Evidence) -> bool:
    paper = _distance(claim.ours(evidence.paper), claim)
    return paper is not None and (distance > 0) == (paper > 0)


def _conditions(study: Reproduction, cause: Cause, evidence: Evidence) -> str:
    scale = evidence.paper.settings.scale
    words = [f"--fidelity {study.text.fidelity_at(scale, cause.fidelity or cause.of)}"]
    words += [f"--set {override}" for override in cause.overrides]
    return f"`{' '.join(words)}`"


def _sentence(study: Reproduction, claim: Claim, cause: Cause, evidence: Evidence) -> str:
    numbers = {
        "published": f"{claim.published:g}",
        "paper": _number(claim.ours(evidence.paper)),
        "artifact": _number(claim.ours(evidence.artifact)),
        "value": _number(evidence.shown.get(cause)),
    }
    try:
        said = cause.says.format(**numbers)
    except (KeyError, IndexError, ValueError) as error:
        raise UserError(f"{causes.where(study.paper)}: {claim.quantity}: {error}: cannot be filled "
                        f"in; there are {', '.join(numbers)}.") from error  # fmt: skip
    if not cause.needs_run:
        return said
    return f"{said} ({_conditions(study, cause, evidence)})"
