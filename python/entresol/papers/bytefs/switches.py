"""ByteFS's fidelity switches: what its artifact does otherwise than its paper says."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache

from entresol import papers

NAME = "bytefs"


@cache
def switches() -> Mapping[str, tuple[str, ...]]:
    """By name, what each sets."""
    text = papers.room(NAME).joinpath("switches.toml").read_text(encoding="utf-8")
    return {name: tuple(entry["set"]) for name, entry in tomllib.loads(text).items()}


def of(personality: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The parameters of a personality's device under some switches."""
    chosen = []
    for name in names:
        for text in switches()[name]:
            only, found, assignment = text.rpartition(":")
            if not found or only == personality:
                chosen.append(assignment)
    return tuple(sorted(chosen))
