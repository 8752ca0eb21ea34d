"""The page of a paper's numbers: each number of the text beside ours, and why they differ."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from entresol import quantity
from entresol.errors import UserError
from entresol.figures import causes, closing, closing_page, standing
from entresol.figures.causes import Cause
from entresol.figures.claims import MEASURED, Claim
from entresol.figures.paper import ARTIFACT, PAPER
from entresol.figures.reproduction import Evidence, Reproduction

OF_FIGURES = 0.3
"""A number of a figure that is further away asks for its cause."""


def render(study: Reproduction, evidence: Evidence, reasons: Sequence[Cause], command: str) -> str:
    """The page, as Markdown."""
    rows = [_row(study, claim, evidence, reasons) for claim in study.claims]
    far = [_far(study, claim, evidence, reasons) for claim in study.claims]
    differences = [block for block in far if block]
    every = len(study.paper.workloads)
    missing = evidence.failures
    failed = f"\n{len(missing)} runs failed, the first: {missing[0]}.\n" if missing else ""
    return "\n".join([
        "# Reproduction", "",
        f"Written by `{command}`; not to be edited.",
        *_conditions_of(study, evidence, every), failed,
        f"*Published*: the text of the {study.paper.title} paper. *Their data*: the same from the "
        "artifact's",
        "files, where they hold it. *Paper* and *artifact*: ours with that",
        "[fidelity](fidelity.md)." + study.text.note,
        *_captures(evidence), *_measured(study),
        "A dash: not published, or these runs have nothing to compute it from.",
        "A number in bold is more than 25 % away from the published one; its causes are below.",
        "*Unexplained*: the factor that is left with all of the causes that stand at work, where",
        "they close less than 80 % of the way (of logarithms).",
        f"Published figures beside ours: `entresol figure {study.paper.name} all`, then "
        f"`results/figures/{study.paper.name}/index.html`.", "",
        "| § | claim | unit | published | their data | paper | artifact | unexplained | how |",
        "|---|---|---|---|---|---|---|---|---|", *rows, "",
        *_of_figures(study, evidence, reasons),
        "## Why they differ", "",
        "A cause is a person's sentence; its numbers are measured by the command: the claim",
        "itself, under the switches or parameters named. It stands only if they show it: our",
        "number is nearer to the published one with the cause at work, by a tenth of the way",
        "(of logarithms) or more, alone or beside the others. Factors are of the claim's number:",
        "*first in* with the cause alone, *last in* with all over that with all but it. *Together*",
        "is a run with all of them.", "",
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
            "within 30 % (above, bold begins at 25 %), or beyond a bound that the text gives.",
            ""]  # fmt: skip
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
    good = standing.of(claim, which, evidence, reasons)
    if not good:
        return "**unexplained**"
    shown = [_conditions(study, cause) for cause in good if cause.needs_run]
    if not shown:
        return "in words, below"
    closings = closing.of(claim, which, good, evidence)
    left = closing_page.left(claim, claim.ours(evidence.of(which)), good, closings)
    rest = [f"**unexplained** {left}"] if left else []
    return ", ".join([*dict.fromkeys(shown), *rest])


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


def _row(study: Reproduction, claim: Claim, evidence: Evidence, reasons: Sequence[Cause]) -> str:
    cells = [claim.section, claim.quantity, claim.unit, f"{claim.published:g}",
             _number(claim.theirs())]  # fmt: skip
    for which in (PAPER, ARTIFACT):
        value = claim.ours(evidence.of(which)) if which in study.text.sides else None
        cells.append(f"**{_number(value)}**" if claim.differs(value) else _number(value))
    cells.append(_left(study, claim, evidence, reasons))
    return f"| {' | '.join([*cells, f'{claim.rule.kind}: {claim.rule.how}'])} |"


def _left(study: Reproduction, claim: Claim, evidence: Evidence, reasons: Sequence[Cause]) -> str:
    """What no cause explains, of each side where ours is far away."""
    found = []
    for which in study.text.sides:
        value = claim.ours(evidence.of(which))
        if claim.differs(value):
            good = standing.of(claim, which, evidence, reasons)
            left = closing_page.left(claim, value, good, closing.of(claim, which, good, evidence))
            if left:
                found.append(f"{which} {left}" if len(study.text.sides) > 1 else left)
    return ", ".join(found) or quantity.NOTHING


def _number(value: float | None) -> str:
    return quantity.NOTHING if value is None else quantity.significant(value)


def _far(study: Reproduction, claim: Claim, evidence: Evidence, reasons: Sequence[Cause]) -> str:
    lines, tables = [], []
    for which in study.text.sides:
        value = claim.ours(evidence.of(which))
        if claim.differs(value):
            why = _why(study, claim, which, evidence, reasons)
            head = f"{_number(value)} instead of {claim.published:g}"
            good = standing.of(claim, which, evidence, reasons)
            closings = closing.of(claim, which, good, evidence)
            told = closing_page.sentence(closings, which)
            lines.append(_wrapped(f"- *{which}*, {head}: {' '.join([why, *told])}"))
            tables += closing_page.table(closings, which)
    return "\n".join([f"### {claim.quantity}", "", *lines, "", *tables]) if lines else ""


def _wrapped(item: str) -> str:
    return textwrap.fill(item, 100, subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


def _why(
    study: Reproduction, claim: Claim, which: str, evidence: Evidence, reasons: Sequence[Cause]
) -> str:
    good = standing.of(claim, which, evidence, reasons)
    if good:
        return " ".join(_sentence(study, claim, cause, evidence) for cause in good)
    tried = [
        f"{_conditions(study, cause)} gives {_number(evidence.shown.get(cause))}"
        for cause in standing.given(claim, which, evidence, reasons)
    ]
    looked = f" Not the cause: {'; '.join(tried)}." if tried else ""
    return f"**Unexplained.**{looked}"


def _conditions(study: Reproduction, cause: Cause) -> str:
    words = [f"--fidelity {study.text.fidelity_of(cause.fidelity or cause.of)}"]
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
    return f"{said} ({_conditions(study, cause)})"
