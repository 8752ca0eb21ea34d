"""`summary.json`, schema 1: the result of a study, byte for byte the same for equal studies.

It names no host, path or moment. Integers only; `_milli` is thousandths.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from entresol import core
from entresol.errors import UserError
from entresol.result_types import Program, RunResult, Summary

if TYPE_CHECKING:
    from entresol.study import Study

SCHEMA = 1


def assemble(study: Study, runs: Sequence[RunResult]) -> Summary:
    """The object of `--json` and of `summary.json`."""
    runs = [_with_unread(study, _with_slowdowns(run, runs)) for run in runs]
    return {
        "schema": SCHEMA,
        "provenance": {
            "entresol": core.version(),
            "machine": study.setup.machine,
            "audit": study.audit,
            "traces": [
                {
                    "name": capture.name,
                    "digest": capture.info["digest"],
                    "threads": capture.info["threads"],
                    "instructions": capture.info["instructions"],
                }
                for capture in study.captures
            ],
        },
        "runs": runs,
    }


def _with_unread(study: Study, run: RunResult) -> RunResult:
    return {**run, "warnings": warnings(study.setup, run["design"], run["warnings"])}


def warnings(setup: core.Setup, design: str, of_run: Sequence[str]) -> list[str]:
    """What a run could not show, and what was set that its design does not read. The result alone
    does not know the latter: it is that of all settings with these values."""
    unread = core.unread_keys(setup, design)
    sentence = f"set, and not read by this design: {', '.join(unread)}"
    return [*of_run, *([sentence] if unread else [])]


def _with_slowdowns(run: RunResult, runs: Sequence[RunResult]) -> RunResult:
    """A co-run says of each of its programs how long it takes alone on the same machine."""
    if len(run["programs"]) < 2:
        return run
    alone = {
        other["trace"]: other["execution_time_ps"]
        for other in runs
        if other["design"] == run["design"]
    }
    programs: list[Program] = []
    for program in run["programs"]:
        time = alone[program["trace"]]
        slowdown = program["execution_time_ps"] * 1000 // (time or 1)
        programs.append({**program, "alone_ps": time, "slowdown_milli": slowdown})
    return {**run, "programs": programs}


def parse(text: str, where: str) -> Summary:
    """Reads a summary. Raises `UserError` for anything else, and for a newer schema."""
    try:
        summary = json.loads(text)
        schema = summary["schema"]
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{where}: is not a summary of Entresol.") from error
    if schema != SCHEMA:
        raise UserError(f"{where}: has schema {schema}; this version reads schema {SCHEMA}.")
    assert isinstance(summary, dict), "it has a schema"
    return cast(Summary, summary)


def to_text(value: Any) -> str:
    """JSON with one key a line, and lists of plain values on one line."""
    return _text(value, "") + "\n"


def _text(value: Any, indent: str) -> str:
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        items = [f"{deeper}{json.dumps(key)}: {_text(item, deeper)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | str) for item in value):
        return "[\n" + ",\n".join(deeper + _text(item, deeper) for item in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)
