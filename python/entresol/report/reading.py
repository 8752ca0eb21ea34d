"""The result in plain words. Every sentence is computed from the numbers, or is not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

from entresol import quantity
from entresol.derived import AMAT_PARTS, BASE, IDEAL, Panel, Run
from entresol.report import templates
from entresol.report.definitions import MAIN

_MECHANISMS = (
    ("skybyte-w", "the write log"),
    ("skybyte-p", "page migration"),
    ("skybyte-c", "thread switching"),
)
SAME = 0.01
"""Less than this (1 %) is no difference worth a word."""


def paragraph(panel: Panel) -> str:
    """One paragraph of HTML on a capture."""
    best = fastest(panel)
    sentences = [
        _headline(panel, best),
        _mechanisms(panel, best),
        _access(panel, best),
        _bound(panel, best),
        _bottlenecks(panel, best),
        _writes(panel, best),
        _hangs_on(panel, best),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def fastest(panel: Panel) -> Run:
    """The fastest design with a device, or the fastest of all."""
    return min(panel.devices or panel.runs, key=lambda run: run.time_ps)


def _name(run: Run) -> str:
    return f"<b>{escape(run.design)}</b>"


def _headline(panel: Panel, best: Run) -> str:
    if len(panel.runs) == 1:
        return _alone(panel, best)
    reference, ideal = panel.reference, panel.find(IDEAL)
    work = f"{quantity.count(best.instructions)} instructions in {best.threads} threads"
    text = (
        f"{_name(best)} is the fastest device design for {escape(panel.trace)}: it does {work} in "
    )
    text += quantity.duration(best.time_ps)
    factor = panel.speedup(best)
    if best is not reference and factor is not None:
        text += f", {_as_fast(factor)} {escape(reference.design)}"
    near = [
        run.design
        for run in panel.devices
        if run is not best and run.time_ps <= best.time_ps * (1 + SAME)
    ]
    if near:
        text += f" ({escape(_listed(near))} within 1 %)"
    if ideal is not None and ideal is not best and ideal.time_ps:
        slower = best.time_ps / ideal.time_ps
        if slower >= 1:
            text += f"; with all memory in DRAM it would take {quantity.duration(ideal.time_ps)},"
            text += f" so the device still costs a factor of {quantity.significant(slower, 2)}"
        else:
            text += f"; that is even faster than {escape(ideal.design)}"
    return text + "."


def _alone(panel: Panel, run: Run) -> str:
    threads = "1 thread" if run.threads == 1 else f"{run.threads} threads"
    return (
        f"{_name(run)} does {quantity.count(run.instructions)} instructions of "
        f"{escape(panel.trace)} in {threads} in {quantity.duration(run.time_ps)}."
    )


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _as_fast(factor: float) -> str:
    if abs(factor - 1) < SAME:
        return "as fast as"
    return f"{quantity.significant(factor, 2)} times as fast as"


def _mechanisms(panel: Panel, best: Run) -> str:
    if panel.reference.design != BASE:
        return ""
    alone = [
        (label, factor)
        for name, label in _MECHANISMS
        if (run := panel.find(name)) is not None and (factor := panel.speedup(run)) is not None
    ]
    if len(alone) < 2:
        return ""
    alone.sort(key=lambda item: -item[1])
    words = ", ".join(f"{label} {quantity.times(factor)}" for label, factor in alone)
    text = f"Taken alone, the mechanisms give: {words}."
    full = panel.find("skybyte-full")
    together = panel.speedup(full) if full is not None else None
    if together is None or len(alone) < 3:
        return text
    product = 1.0
    for _, factor in alone:
        product *= factor
    relation = "less than" if together < product * (1 - SAME) else "more than"
    if abs(together / product - 1) < SAME:
        relation = "about"
    text += f" Together they give {quantity.times(together)}, {relation} their product"
    text += f" ({quantity.times(product)})."
    if full is not None and full.time_ps > best.time_ps * (1 + SAME):
        text += f" {_name(full)} has all three and is not the fastest here."
    return text


def _access(panel: Panel, best: Run) -> str:
    reference = panel.reference
    if not reference.amat_ps or not best.amat_ps:
        return ""
    shown = [reference] if best is reference else [reference, best]
    times = [f"{quantity.duration(run.amat_all_ps)} on {escape(run.design)}" for run in shown]
    text = f"An average memory access takes {' and '.join(times)} from its first issue to its data."
    parts = []
    for run in shown:
        label, share = _largest_part(run)
        parts.append(f"{label} ({quantity.percent(share)}) on {escape(run.design)}")
    return f"{text} Without thread switches its largest part is {' and '.join(parts)}."


def _largest_part(run: Run) -> tuple[str, float]:
    parts = zip((label for _, label in AMAT_PARTS), run.parts("amat", AMAT_PARTS), strict=True)
    label, value = max(parts, key=lambda part: part[1])
    return label, value / run.amat_ps


def _bound(panel: Panel, best: Run) -> str:
    before, after = panel.reference.memory_bound, best.memory_bound
    if before is None or after is None:
        return ""
    text = f"While threads run, memory bounds {quantity.percent(before)} of the core time on "
    text += escape(panel.reference.design)
    if best is not panel.reference:
        text += f" and {quantity.percent(after)} on {escape(best.design)}"
    return text + "."


def _bottlenecks(panel: Panel, best: Run) -> str:
    both = [panel.reference, *(run for run in [best] if run is not panel.reference)]
    shown = [run for run in both if run.bottleneck]
    words = [f"{escape(run.design)}: {escape(run.bottleneck)}" for run in shown]
    return f"What most of the time goes to: {'; '.join(words)}." if words else ""


def _writes(panel: Panel, best: Run) -> str:
    reference = panel.reference
    if not reference.is_device:
        return ""
    if best is reference:
        return _written(best) if len(panel.runs) == 1 else ""
    before, after = (run.count("flash", "program_pages") for run in (reference, best))
    if before == 0 and after == 0:
        return "Neither of the two programs a flash page."
    text = f"Flash programs go from {quantity.count(before)} pages to {quantity.count(after)}"
    if before > after > 0:
        text += f", {quantity.significant(before / after, 2)} times fewer"
    collected = best.count("flash", "gc_program_pages")
    if after and collected:
        text += f"; garbage collection writes {quantity.percent(collected / after)} of what is left"
    return text + "."


def _written(run: Run) -> str:
    pages, collected = (run.count("flash", name) for name in ("program_pages", "gc_program_pages"))
    if not pages:
        return "It programs no flash page."
    text = f"It programs {quantity.count(pages)} flash pages"
    if collected:
        text += f", {quantity.percent(collected / pages)} of them for garbage collection"
    return text + "."


def why_dram_is_ahead(panel: Panel, parts_of: Callable[[Run], Mapping[str, float]]) -> str:
    """Why the design with all memory in DRAM is ahead of the devices; nothing if it is not, or was
    not run. `parts_of` says by name what shares of a run's core time go where."""
    ideal, reference = panel.find(IDEAL), panel.reference
    if ideal is None or reference is ideal or ideal.time_ps >= reference.time_ps:
        return ""
    shown = [reference, *(run for run in [fastest(panel)] if run is not reference)]
    words = [f"{escape(run.design)}: {_largest_shares(parts_of(run))}" for run in shown]
    return (
        f"{escape(ideal.design)} is ahead since nothing in it waits for flash. Of the core time of "
        f"{'; of '.join(words)}. Time bound by memory is divided as the average access is."
    )


def _largest_shares(parts: Mapping[str, float]) -> str:
    order = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{quantity.percent(share)} {name}" for name, share in order[:2] if share)


def _hangs_on(panel: Panel, best: Run) -> str:
    if panel.reference.design != BASE or best.design in (BASE, IDEAL):
        return ""
    return (
        "Some values behind this comparison are in no paper: <code>entresol assumptions</code> "
        f"with this capture and <code>--design {escape(best.design)}</code> halves and doubles "
        "each such value, turns on what the papers leave open, and says first what overturns it."
    )


def facts(panel: Panel) -> str:
    """The numbers a hurried reader takes along."""
    best = fastest(panel)
    first = [
        ("fastest device design", best.design),
        (f"speedup over {panel.reference.design}", quantity.times(panel.speedup(best))),
    ]
    if len(panel.runs) == 1:
        first = [
            ("execution time", quantity.duration(best.time_ps)),
            ("IPC", quantity.micro(best.number("cores", "ipc_micro"))),
        ]
    entries = [
        *first,
        ("AMAT, all", quantity.duration(best.amat_all_ps)),
        ("99 % of accesses within", quantity.duration(best.number("amat", "p99_ps"))),
        ("thread switches", quantity.count(best.switches)),
        ("flash programs", quantity.count(best.number("flash", "program_pages"))),
    ]
    return templates.piece("facts", [(MAIN.label(label), value) for label, value in entries])
