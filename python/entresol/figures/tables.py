"""The tables under a figure: means first, then every value; what warns; on what it ran."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from entresol import quantity
from entresol.core import Json
from entresol.figures import frames, ink
from entresol.figures.frames import Row
from entresol.figures.plan import Results, Walk, Want

if TYPE_CHECKING:
    import polars

FILLS = 6
"""Halves of the log that three whole fills are."""
MOST_ROWS = 700
"""Curves of more points are in the CSV only."""


def means(frame: polars.DataFrame) -> str:
    """The rows that are means."""
    return _table("Means", [row for row in frames.read(frame) if row.workload in frames.MEANS])


def everything(frame: polars.DataFrame) -> str:
    """The rows of workloads; a note where there are too many to read."""
    rows = [row for row in frames.read(frame) if row.workload not in frames.MEANS]
    if len(rows) > MOST_ROWS:
        return f'<p class="note">{len(rows):,} points; they are in the CSV.</p>'
    return _table("By workload", rows)


def _table(caption: str, rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    has_x = any(row.x is not None for row in rows)
    heads = ["workload" if caption != "Means" else "mean", "design", *(["x"] if has_x else []),
             "metric", "ours", "published", "ratio"]  # fmt: skip
    body = "".join(_row(row, has_x) for row in rows)
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return (
        f'<div class="scroll"><table><caption>{caption}</caption><thead><tr>{columns}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _row(row: Row, has_x: bool) -> str:
    ratio = None if row.ours is None or not row.published else row.ours / row.published
    x = "" if row.x is None else row.x if isinstance(row.x, str) else f"{row.x:g}"
    design = ink.label(row.design)
    words = [design, *([x] if has_x else []), row.metric.replace("_", " ")]
    texts = "".join(f'<td class="text">{escape(word)}</td>' for word in words)
    far = ratio is not None and not 0.8 <= ratio <= 1.25
    numbers = f"<td>{_number(row.ours)}</td><td>{_number(row.published)}</td>"
    mark = ' class="far"' if far else ""
    return (
        f'<tr><th scope="row">{escape(row.workload)}</th>{texts}{numbers}'
        f"<td{mark}>{_number(ratio)}</td></tr>"
    )


def _number(value: float | None) -> str:
    return quantity.NOTHING if value is None else quantity.significant(value, 4)


def warnings(results: Results, wants: Sequence[Want], walks: Sequence[Walk]) -> list[str]:
    """Sentences on what did not run or did not act, each with the runs it is about."""
    found: dict[str, list[str]] = {}
    for item, run in results.among(wants).items():
        for sentence in run["warnings"]:
            found.setdefault(sentence, []).append(name_of(item))
        if (few := _log_fills(run)) is not None:
            found.setdefault(few, []).append(name_of(item))
    needed: list[Want | Walk] = [*wants, *walks]
    for every in needed:
        if every in results.failures:
            found.setdefault(f"did not run: {results.failures[every]}", []).append(name_of(every))
    return [f"{sentence.rstrip('.')}: {_listed(names, len(results.among(wants)))}"
            for sentence, names in found.items()]  # fmt: skip


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


def name_of(item: Want | Walk) -> str:
    """A run as a reader knows it."""
    if isinstance(item, Walk):
        return item.workload
    changed = ", ".join((*item.overrides, *([item.nand] if item.nand else [])))
    return f"{item.workload} on {item.design}" + (f" ({changed})" if changed else "")


def _listed(names: Sequence[str], count: int) -> str:
    if len(names) == count and count > 3:
        return f"all {count} runs"
    shown = "; ".join(names[:6])
    return shown if len(names) <= 6 else f"{shown}; and {len(names) - 6} more of {count}"


def settings(results: Results, wants: Sequence[Want]) -> str:
    """What all runs of a figure have in common, in a sentence."""
    of = results.settings
    runs = results.among(wants)
    work = [run["instructions"] for run in runs.values()]
    parts = [f"machine {of.machine}", f"fidelity {of.fidelity}", f"mode {of.mode}"]
    if work:
        most, least = quantity.count(max(work)), quantity.count(min(work))
        parts.append(f"{len(runs)} runs of {least} to {most} measured instructions")
    return ", ".join(parts) + "."
