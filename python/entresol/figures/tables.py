"""The tables under a figure: means first, then every value; what warns; on what it ran."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

from entresol import quantity, steadiness
from entresol.core import Json
from entresol.figures import frames, ink
from entresol.figures.frames import Row
from entresol.figures.plan import Bench, Results, SteadyWant, Walk, Want
from entresol.steadiness import PARTS

if TYPE_CHECKING:
    import polars

FILLS = 6
"""Halves of the log that three whole fills are."""
MOST_SETTINGS = 4
MOST_ROWS = 700
"""Curves of more points are in the CSV only."""
OPEN_ROWS = 18
"""Longer tables of means are folded."""
NUMBERS = ("ours", "published", "ratio")
_NUMBERS = re.compile(r"\d[\d,.]*(?<=\d)")


def means(frame: polars.DataFrame) -> str:
    """Both means of every design, x and metric, beside each other; folded where they are many."""
    groups: dict[tuple[str, float | str | None, str], dict[str, Row]] = {}
    for row in frames.read(frame):
        if row.workload in frames.MEANS:
            groups.setdefault((row.design, row.x, row.metric), {})[row.workload] = row
    if not groups:
        return ""
    kinds = [kind for kind in frames.MEANS if any(kind in group for group in groups.values())]
    has_x = any(x is not None for _, x, _ in groups)
    body = "".join(
        f'<tr><th scope="row">{escape(ink.label(design))}</th>{_words(x, metric, has_x)}'
        + "".join(_numbers(group.get(kind)) for kind in kinds) + "</tr>"
        for (design, x, metric), group in groups.items()
    )  # fmt: skip
    words = ["design", *(["x"] if has_x else []), "metric"]
    heads = "".join(f'<th scope="col" rowspan="2" class="text">{word}</th>' for word in words)
    spans = "".join(f'<th scope="colgroup" colspan="3">{escape(kind)}</th>' for kind in kinds)
    columns = "".join(f'<th scope="col">{head}</th>' for head in NUMBERS) * len(kinds)
    table = (
        f'<div class="scroll"><table><caption>Means</caption><thead><tr>{heads}{spans}</tr>'
        f"<tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    if len(groups) <= OPEN_ROWS:
        return table
    return f'<details class="means"><summary>Means ({len(groups)} rows)</summary>{table}</details>'


def everything(frame: polars.DataFrame) -> str:
    """The rows of workloads; a note where there are too many to read."""
    rows = [row for row in frames.read(frame) if row.workload not in frames.MEANS]
    if len(rows) > MOST_ROWS:
        return f'<p class="note">{len(rows):,} points; they are in the CSV.</p>'
    if not rows:
        return ""
    has_x = any(row.x is not None for row in rows)
    words = ["workload", "design", *(["x"] if has_x else []), "metric"]
    columns = "".join(f'<th scope="col" class="text">{head}</th>' for head in words)
    columns += "".join(f'<th scope="col">{head}</th>' for head in NUMBERS)
    body = "".join(_row(row, has_x) for row in rows)
    return (
        f'<div class="scroll"><table><caption>By workload</caption><thead><tr>{columns}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: Row, has_x: bool) -> str:
    design = f'<td class="text">{escape(ink.label(row.design))}</td>'
    words = _words(row.x, row.metric, has_x)
    return f'<tr><th scope="row">{escape(row.workload)}</th>{design}{words}{_numbers(row)}</tr>'


def _words(x: float | str | None, metric: str, has_x: bool) -> str:
    place = "" if x is None else x if isinstance(x, str) else f"{x:g}"
    words = [*([place] if has_x else []), metric.replace("_", " ")]
    return "".join(f'<td class="text">{escape(word)}</td>' for word in words)


def _numbers(row: Row | None) -> str:
    if row is None:
        return f"<td>{quantity.NOTHING}</td>" * len(NUMBERS)
    ratio = None if row.ours is None or not row.published else row.ours / row.published
    far = ratio is not None and not 0.75 <= ratio <= 1.25
    mark = ' class="far"' if far else ""
    return (
        f"<td>{_number(row.ours)}</td><td>{_number(row.published)}</td>"
        f"<td{mark}>{_number(ratio)}</td>"
    )


def _number(value: float | None) -> str:
    return quantity.NOTHING if value is None else quantity.significant(value, 4)


def warnings(
    results: Results,
    wants: Sequence[Want],
    walks: Sequence[Walk],
    usual: Callable[[str], int],
    benches: Sequence[Bench] = (),
    steady: Sequence[SteadyWant] = (),
) -> list[str]:
    """Sentences on what did not run or did not act, each with the runs it is about. Those that
    differ in numbers alone are one, without them."""
    found: dict[str, list[tuple[str, str]]] = {}

    def warn(sentence: str, item: Want | SteadyWant | Walk | Bench) -> None:
        found.setdefault(_NUMBERS.sub("…", sentence), []).append((sentence, name_of(item, usual)))

    for item, run in results.among(wants).items():
        for sentence in run["warnings"]:
            warn(sentence, item)
        if (few := _log_fills(run)) is not None:
            warn(few, item)
    for window in steady:
        for sentence in _unsteady(window, results):
            warn(sentence, window)
    needed: list[Want | SteadyWant | Walk | Bench] = [*wants, *steady, *walks, *benches]
    for every in needed:
        if every in results.failures:
            warn(f"did not run: {results.failures[every]}", every)
    count = len(needed)
    told = []
    for shape, each in found.items():
        sentences = list(dict.fromkeys(sentence for sentence, _ in each))
        words = sentences[0] if len(sentences) == 1 else shape
        told.append(f"{words.rstrip('.')}: {_listed([name for _, name in each], count)}")
    return told


def partial_means(frame: polars.DataFrame) -> list[str]:
    """Sentences on means that are not over all workloads, or that there are none."""
    rows = frames.read(frame)
    every = list(dict.fromkeys(row.workload for row in rows if row.workload not in frames.MEANS))
    if not any(row.workload in frames.MEANS for row in rows):
        return []
    found: dict[str, list[str]] = {}
    for metric, chosen in frames.of_mean(rows).items():
        if len(chosen) < len(every):
            whose = f"are over {', '.join(chosen)} alone" if chosen else "do not exist"
            found.setdefault(whose, []).append(metric.replace("_", " "))
    return [f"means {whose}, since others lack numbers: {', '.join(metrics)}"
            for whose, metrics in found.items()]  # fmt: skip


def without_ratio(frame: polars.DataFrame, results: Results) -> list[str]:
    """Sentences on ratios that do not exist because what is divided by is zero."""
    failed = {item.workload for item in results.failures}
    found: dict[str, None] = {}
    for row in frames.read(frame):
        is_ratio = row.metric.startswith("normalised")
        if is_ratio and row.ours is None and row.workload not in (*frames.MEANS, *failed):
            found[row.workload] = None
    names = ", ".join(found)
    return [f"the reference has zero of it, so there is no ratio of ours: {names}"] if names else []


def _log_fills(run: Json) -> str | None:
    if run["config"].get("design", {}).get("write_log") != "true":
        return None
    fills = run["statistics"]["activity"]["log_fills"]
    return None if fills >= FILLS else "the write log filled fewer than three times"


def _unsteady(item: SteadyWant, results: Results) -> list[str]:
    """What is missing to a steady state where windows begin."""
    runs = results.steady.get(item, ())
    begin = round(item.windows.begin * PARTS / 100)
    found = [steadiness.missing(run, begin) for run in runs[:1]]
    return [text.partition(": ")[2] for text in found if text is not None]


def name_of(item: Want | SteadyWant | Walk | Bench, usual: Callable[[str], int]) -> str:
    """A run as a reader knows it: threads are named where they are not a design's usual ones, if
    it has such (0: those of the capture); of many settings the first."""
    if isinstance(item, Walk):
        return item.workload
    if isinstance(item, Bench):
        changed = ", ".join((*([item.device] if item.device else []), *item.overrides))
        return f"{item.workload} on {item.personality}" + (f" ({changed})" if changed else "")
    if isinstance(item, SteadyWant):
        changed = ", ".join(item.overrides)
        return f"{item.workload} on {item.design}" + (f" ({changed})" if changed else "")
    threads = [] if usual(item.design) in (0, item.threads) else [f"{item.threads} threads"]
    threads += [f"{item.first} of its threads"] if item.first else []
    told = list(item.overrides[:MOST_SETTINGS])
    told += [f"{more} more settings"] if (more := len(item.overrides) - len(told)) else []
    on = (each for each in (item.machine, item.nand, item.device) if each)
    changed = ", ".join((*threads, *told, *on))
    return f"{item.workload} on {item.design}" + (f" ({changed})" if changed else "")


def _listed(names: Sequence[str], count: int) -> str:
    if len(names) == count and count > 3:
        return f"all {count} runs"
    shown = "; ".join(names[:6])
    return shown if len(names) <= 6 else f"{shown}; and {len(names) - 6} more of {count}"


def settings(
    results: Results,
    wants: Sequence[Want],
    benches: Sequence[Bench] = (),
    steady: Sequence[SteadyWant] = (),
) -> str:
    """What all runs of a figure have in common, in a sentence."""
    of = results.settings
    told = f"with {', '.join(of.overrides)}" if of.overrides else ""
    if steady:
        machines = dict.fromkeys(item.machine for item in steady if item in results.steady)
        if not machines:
            return "No window has a result."
        words = f"machines {', '.join(machines)}", f"fidelity {of.fidelity}", told
        return f"Windows in the steady state, {', '.join(filter(None, words))}."
    if benches:
        found = [run for item, run in results.benches.items() if item in benches]
        times = [run["virtual_time_ps"] for run in found if "virtual_time_ps" in run]
        if found and not times:
            return f"{len(found)} devices, which do not shrink with the scale."
        if not times:
            return "No load has a result."
        spans = f"{quantity.duration(min(times))} to {quantity.duration(max(times))}"
        sizes = ", ".join(filter(None, (f"sizes one in {of.shrink}", told)))
        return f"{len(times)} loads of {spans} of virtual time, {sizes}."
    runs = results.among(wants)
    work = [run["instructions"] for run in runs.values()]
    on = list(dict.fromkeys(item.machine or of.machine for item in wants)) or [of.machine]
    parts = [f"machine {' and '.join(on)}", f"fidelity {of.fidelity}"]
    parts += [f"mode {of.mode}"] if wants else []
    parts += [told] if told else []
    if work:
        most, least = quantity.count(max(work)), quantity.count(min(work))
        parts.append(f"{len(runs)} runs of {least} to {most} measured instructions")
    return ", ".join(parts) + "."
