"""Medians, ratios and the table of a bench, beside what the thesis says."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib import resources

from entresol.core import Json
from entresol.databases.cases import DEFAULT, VALKEY, Case, quick
from entresol.databases.drive import PERSONALITY, PMEM, PRESET, SIZE
from entresol.databases.runs import Outcome, Plan, Run, medians

SCHEMA = 1
THESIS = {"valkey": "7.2.5", "postgresql": "17.6", "rocksdb": "10.5.1"}
HEAD = (
    "| database | case | flush | type | operations/s | least to most | over default "
    "| least to most | thesis | device µs each | light syncs |\n"
    "|---|---|---|---|---:|---|---:|---|---:|---:|---:|\n"
)


@cache
def _published() -> tuple[dict[str, str], ...]:
    text = resources.files("entresol.databases").joinpath("published.csv").read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def published(case: Case) -> float | None:
    """By how much the thesis's `hybrid` is faster than its `default`, where it says so."""
    for row in _published():
        pipeline = row["pipeline"] or "1"
        if (row["database"], row["variant"]) != (case.database, case.variant):
            continue
        if case.database != VALKEY or int(pipeline) == case.pipeline:
            return float(row["value"])
    return None


def published_of_swept(database: str) -> float | None:
    """The same of the case of a database that is swept."""
    swept = [case for case in quick() if case.database == database and case.is_swept]
    return published(swept[0]) if swept else None


def summary(plan: Plan, outcome: Outcome) -> Json:
    """Everything, for `results.json`."""
    rows = []
    for case in plan.cases:
        for flush in dict.fromkeys(run.flush for run in outcome.runs if run.case == case):
            mine = [run for run in outcome.runs if run.case == case and run.flush == flush]
            rows += [_row(case, flush, kind, mine) for kind in plan.types]
    return {
        "schema": SCHEMA,
        "drive": {
            "preset": PRESET, "personality": PERSONALITY, "settings": [SIZE, f"device.pmem={PMEM}"],
        },
        "repeats": plan.repeats,
        "swept_repeats": plan.swept_repeats,
        "machine": outcome.machine,
        "versions": {
            name: {"here": here, "thesis": THESIS[name]}
            for name, here in outcome.versions.items()
        },
        "cases": rows,
        "kills": outcome.kills,
        "recordings": [told for _, told in outcome.recordings],
        "runs": [run.told() for run in outcome.runs],
    }  # fmt: skip


def _row(case: Case, flush: str, kind: str, runs: Sequence[Run]) -> Json:
    of = {run.repeat: run for run in runs if run.type == kind and run.is_paced}
    base = {run.repeat: run for run in runs if run.type == DEFAULT and run.is_paced}
    rate = medians([run.per_second for run in of.values()])
    # Those of one turn ran one behind the other.
    ratios = [of[turn].per_second / base[turn].per_second for turn in of if turn in base]
    unpaced = next((run for run in runs if run.type == kind and not run.is_paced), None)
    return {
        "case": asdict(case) | {"name": case.name},
        "flush": flush,
        "type": kind,
        "repeats": len(of),
        "per_second": dict(zip(("median", "least", "most"), rate, strict=True)),
        "over_default": dict(zip(("median", "least", "most"), medians(ratios), strict=True))
        if ratios else None,
        "published_over_default": published(case) if kind != DEFAULT else None,
        "device_ps_each": None if unpaced is None else unpaced.device_ps / unpaced.operations,
        "unpaced_per_second": None if unpaced is None else unpaced.per_second,
        "light_syncs": medians([run.dax.get("light_syncs", 0) for run in of.values()])[0],
        "operations_per_sync": _per_sync(list(of.values())),
        "processor_us": {
            who: medians([run.processor_us[who] for run in of.values()])[0]
            for who in next(iter(of.values())).processor_us
        },
    }  # fmt: skip


def _per_sync(runs: Sequence[Run]) -> float | None:
    """How many operations shared a sync, in the median."""
    if not all(run.syncs for run in runs):
        return None
    return medians([run.operations / run.syncs for run in runs])[0]


def page(found: Json) -> str:
    """The same as a page in Markdown."""
    versions = ", ".join(
        f"{name} {' '.join(f'{tool} {number}' for tool, number in of['here'].items())} "
        f"(thesis: {of['thesis']})"
        for name, of in found["versions"].items()
    )
    machine = found["machine"]
    took = ", ".join(f"{what} {seconds:,.0f}" for what, seconds in machine["took"].items())
    lines = [
        "# Databases with transparent DAX",
        "",
        f"{versions}. {found['drive']['personality']} on {found['drive']['preset']}, paced: the "
        f"wall clock has the device's time. {found['repeats']} turns of each. "
        f"{machine['processors']} processors ({machine['processor']}), load "
        f"{machine['load_at_begin']:.1f} at the begin and {machine['load_at_end']:.1f} at the end; "
        f"{machine['seconds'] / 60:.1f} minutes.",
        "",
        f"Seconds of it, by what it did: {took}. What is measured is `measure`.",
        "",
        HEAD.rstrip("\n"),
        *(_line(row) for row in found["cases"]),
        "",
    ]
    if found["kills"]:
        lines += [
            "The server of the mount killed with `kill -9` in the middle of writes:",
            "",
            "| database | type | answered | found | light syncs | pages from the window |",
            "|---|---|---:|---:|---:|---:|",
            *(
                f"| {kill['database']} | {kill['type']} | {kill['answered']:,} "
                f"| {kill['found']:,} | {kill['light_syncs']:,} | {kill['recovered_pages']:,} |"
                for kill in found["kills"]
            ),
            "",
        ]
    return "\n".join(lines)


def _line(row: Json) -> str:
    case, rate, ratio = row["case"], row["per_second"], row["over_default"]
    is_base = row["type"] == DEFAULT or ratio is None
    device = row["device_ps_each"]
    cells = (
        case["database"], case["name"], row["flush"], row["type"], f"{rate['median']:,.0f}",
        f"{rate['least']:,.0f} to {rate['most']:,.0f}",
        "" if is_base else f"{ratio['median']:.2f}",
        "" if is_base else f"{ratio['least']:.2f} to {ratio['most']:.2f}",
        "" if row["published_over_default"] is None else f"{row['published_over_default']:g}",
        "" if device is None else f"{device / 1e6:,.1f}",
        f"{row['light_syncs']:,.0f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"
