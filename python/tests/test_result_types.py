"""The types of results are those of real results: no name is missing, none is too many."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from conftest import ROOT, Entresol

from entresol import core, result_types
from entresol.core import Setup

DEMO = Setup("demo")
XZ, SORT = ROOT / "traces" / "xz.etr", ROOT / "traces" / "sort.etr"


def problems(value: object, wanted: Any, where: str = "") -> list[str]:
    """Where a value is not of a type."""
    origin = get_origin(wanted)
    if origin in (Union, types.UnionType):
        fits = [problems(value, each, where) for each in get_args(wanted)]
        return [] if [] in fits else fits[0]
    if origin is NotRequired:
        return problems(value, get_args(wanted)[0], where)
    if origin is list and isinstance(value, list):
        return [found for each in value for found in problems(each, get_args(wanted)[0], where)]
    if origin is dict and isinstance(value, dict):
        keys, values = get_args(wanted)
        return [
            found
            for key, each in value.items()
            for found in (*problems(key, keys, where), *problems(each, values, f"{where}.{key}"))
        ]
    if is_typeddict(wanted) and isinstance(value, dict):
        return _of_fields(value, wanted, where)
    fits_plainly = type(value) is (type(None) if wanted is type(None) else wanted)
    return [] if fits_plainly else [f"{where}: {value!r} is not {wanted}"]


def _of_fields(value: dict[str, object], wanted: Any, where: str) -> list[str]:
    hints = get_type_hints(wanted)
    missing = wanted.__required_keys__ - value.keys()
    extra = value.keys() - hints.keys()
    found = [f"{where}: {sorted(names)}" for names in (missing, extra) if names]
    for key in value.keys() & hints.keys():
        found += problems(value[key], hints[key], f"{where}.{key}")
    return found


def test_what_is_not_of_a_type_is_found() -> None:
    thread = {"thread": 1, "running_ps": 2, "finished_ps": 3}
    assert problems(thread, result_types.Thread) == []
    assert problems({**thread, "more": 1}, result_types.Thread) == [": ['more']"]
    assert problems({"thread": 1, "running_ps": 2}, result_types.Thread) == [": ['finished_ps']"]
    assert problems({**thread, "thread": True}, result_types.Thread) != []
    assert problems(["a", 1], list[str]) != []
    assert problems(None, int | None) == [] and problems("", int | None) != []


@pytest.mark.parametrize("design", [design.name for design in core.designs()])
def test_the_result_of_every_design_has_its_type(design: str) -> None:
    result = core.Run(XZ, DEMO, design, 1, False).execute()
    assert problems(result, result_types.RunResult) == []


def test_results_of_other_kinds_have_their_types() -> None:
    both = core.Run(Path(f"{XZ}+{SORT}"), DEMO, "skybyte-full", 1, False).execute()
    assert problems(both, result_types.RunResult) == []
    fast = core.Run(XZ, Setup("demo", mode="fast"), "skybyte-full", 1, False).execute()
    assert problems(fast, result_types.RunResult) == []
    windows = core.Run(XZ, DEMO, "skybyte-full", 1, False).execute_windows(2, 100_000)
    assert problems(windows, list[result_types.WindowResult]) == []
    run = core.Run(XZ, DEMO, "skybyte-full", 1, False)
    recorded = run.execute_recorded((0, 10**10), 1000, 3)
    assert recorded["accesses"] and recorded["turns"] and recorded["flash"] and recorded["slowest"]
    assert problems(recorded, result_types.Recorded) == []


def test_files_have_their_types(entresol_command: Entresol, tmp_path: Path) -> None:
    import json

    def made(*words: object) -> object:
        outcome = entresol_command(*words, "--machine", "demo", "--threads", "1", "--json")
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)

    both = f"{XZ}+{SORT}"
    assert problems(made("run", both, "--design", "base-cssd"), result_types.Summary) == []
    words = ("--design", "base-cssd", "--windows", "2", "--window", "100000")
    assert problems(made("sample", XZ, *words), result_types.Samples) == []
    gain = made("explain-gain", XZ, "--by", "mechanisms", "--design", "skybyte-w")
    assert problems(gain, result_types.Gain) == []
    found = made("assumptions", XZ, "--design", "skybyte-w", "--mode", "fast")
    assert problems(found, result_types.Assumptions) == []
    file = tmp_path / "s.toml"
    file.write_text(
        f'trace = "{XZ}"\nmachine = "demo"\nthreads = 1\ndesign = "base-cssd"\n'
        'ssd.log.size = ["64KiB", "7B"]\n'
    )
    outcome = entresol_command("sweep", file, "--json")
    assert problems(json.loads(outcome.out), result_types.SweepSummary) == [], outcome.err
