"""What a study ran on, and all that is needed to run it again."""

from __future__ import annotations

from collections.abc import Sequence

from entresol import quantity, toml_text
from entresol.core import Config, Design, Parameter
from entresol.derived import Run
from entresol.report import cells, html
from entresol.report.cells import Cell
from entresol.report.html import Row
from entresol.result_types import Summary

_Key = tuple[str, str]


def designs(used: Sequence[str], known: Sequence[Design]) -> str:
    """What the designs of a page are."""
    rows = [
        Row(
            item.name,
            tuple(Cell(text, prose=True) for text in (item.paper_name, item.summary, item.section)),
        )
        for item in known
        if item.name in used
    ]
    return html.table("Designs", ("design", "in the paper", "what it is", "source"), rows)


def of_designs(
    runs: Sequence[Run], presets: dict[str, Config], parameters: Sequence[Parameter]
) -> str:
    """What differs between designs, what the user changed, and everything else."""
    runs = list({run.design: run for run in runs}.values())
    keys = _keys(runs)
    differing = _differing(runs, keys)
    return (
        _differences(runs, differing)
        + _changes(runs, presets, keys)
        + common(runs, parameters, "The same in all designs")
    )


def common(runs: Sequence[Run], parameters: Sequence[Parameter], caption: str) -> str:
    """Every parameter that has one value in all runs: as a table with its meaning, and as a file
    to run again with."""
    docs = {item.key: " ".join(item.doc.split()) for item in parameters}
    differing = set(_differing(runs, _keys(runs)))
    same = [key for key in _keys(runs) if key not in differing]
    rows = [
        Row(name, (Cell(_value(runs[0], key)), Cell(docs.get(name, ""), prose=True)))
        for key in same
        if (name := ".".join(key))
    ]
    table = html.table(caption, ("parameter", "value", "what it is"), rows)
    return html.details("Every other parameter", table) + html.details(
        "As a file for --config", html.copyable(toml(runs), "Parameters as TOML")
    )


def toml(runs: Sequence[Run]) -> str:
    """Every parameter that has one value in all runs, as `--config` reads it. What the designs
    themselves are is in their names."""
    keys = _keys(runs)
    differing = set(_differing(runs, keys))
    same: Config = {}
    for section, key in keys:
        if section != "design" and (section, key) not in differing:
            same.setdefault(section, {})[key] = _value(runs[0], (section, key))
    return toml_text.toml(same)


def _keys(runs: Sequence[Run]) -> list[_Key]:
    found = {
        (section, key): None
        for run in runs
        for section, values in run.json["config"].items()
        for key in values
    }
    return list(found)


def _differing(runs: Sequence[Run], keys: Sequence[_Key]) -> list[_Key]:
    return [key for key in keys if len({_value(run, key) for run in runs}) > 1]


def _value(run: Run, key: _Key) -> str:
    return str(run.json["config"].get(key[0], {}).get(key[1], quantity.NOTHING))


def _differences(runs: Sequence[Run], keys: Sequence[_Key]) -> str:
    if not keys:
        return ""
    heads = ("design", *(".".join(key) for key in keys))
    rows = [Row(run.design, tuple(Cell(_value(run, key)) for key in keys)) for run in runs]
    return html.table("What makes the designs differ", heads, rows)


def _changes(runs: Sequence[Run], presets: dict[str, Config], keys: Sequence[_Key]) -> str:
    rows = []
    for key in keys:
        changed = [
            (run, preset)
            for run in runs
            if (preset := presets.get(run.design, {}).get(key[0], {}).get(key[1])) is not None
            and preset != _value(run, key)
        ]
        if changed:
            run, preset = changed[0]
            names = (
                "all" if len(changed) == len(runs) else ", ".join(run.design for run, _ in changed)
            )
            texts = (Cell(preset), Cell(_value(run, key)))
            rows.append(Row(".".join(key), (*texts, Cell(names, prose=True))))
    if not rows:
        return html.note("Every parameter has the value of its preset.")
    heads = ("parameter", "preset", "here", "designs")
    return html.table("Changed from the presets", heads, rows)


def provenance(summary: Summary) -> str:
    """What was run, by what."""
    origin = summary["provenance"]
    rows = [
        Row(
            trace["name"],
            (
                Cell(trace["digest"]),
                cells.exact(trace["threads"]),
                cells.exact(trace["instructions"]),
            ),
        )
        for trace in origin["traces"]
    ]
    switches = ", ".join(summary["runs"][0].get("fidelity", ())) or "paper"
    audit = "on" if origin["audit"] else "off"
    note = (
        f"Entresol {origin['entresol']}, machine {origin['machine']}, fidelity {switches}, audits "
        f"{audit}, result schema {summary['schema']}."
    )
    heads = ("capture", "digest", "threads", "instructions")
    return html.note(note) + html.table("Captures", heads, rows)
