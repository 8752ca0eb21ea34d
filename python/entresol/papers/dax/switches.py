"""What `artifact` of the page is: the thesis's kernel, as far as it can be told."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache

from entresol import papers
from entresol.papers.dax.runs import NAME


@cache
def switches() -> Mapping[str, tuple[str, ...]]:
    """By name, what each sets."""
    text = papers.room(NAME).joinpath("switches.toml").read_text(encoding="utf-8")
    return {name: tuple(entry["set"]) for name, entry in tomllib.loads(text).items()}
