"""The binary that holds all programs, and what it says of them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from entresol.errors import UserError, did_you_mean

BINARY = "entresol-workloads"


@dataclass(frozen=True)
class Program:
    """One program, as the binary describes it."""

    name: str
    suite: str
    what: str
    check: str
    work_unit: str
    footprint_bytes: int
    """Of all its data at `--scale paper`."""
    small_footprint_bytes: int
    small_work: int
    """Work in the region of interest, in `work_unit`."""
    paper_work: int


def binary() -> Path:
    """Where the programs are."""
    program = Path(__file__).parent.parent / BINARY
    if program.is_file():
        return program.absolute()
    raise UserError(f"the programs {BINARY} are not built; run make build.")


def programs() -> list[Program]:
    """All programs, in the order of Table I."""
    return list(_programs(binary()))


def choose(names: list[str]) -> list[Program]:
    """The programs of these names, all for none or `all`. Raises `UserError`."""
    known = {program.name: program for program in programs()}
    if not names or names == ["all"]:
        return list(known.values())
    chosen: dict[str, Program] = {}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, list(known))
            raise UserError(f"{name}: no such workload; there are {', '.join(known)}.{hint}")
        chosen[name] = known[name]
    return list(chosen.values())


@lru_cache(maxsize=4)
def _programs(place: Path) -> tuple[Program, ...]:
    try:
        told = subprocess.run([place, "list", "--json"], capture_output=True, text=True, check=True)
        return tuple(Program(**fields) for fields in json.loads(told.stdout))
    except (OSError, subprocess.CalledProcessError, ValueError, TypeError) as error:
        raise UserError(f"{place}: does not list its programs; run make build.") from error
