"""Colours and line styles by meaning; the values are in `style.css`, for light and dark."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_DASHES = {
    "base-cssd": "6 3",
    "skybyte-p": "2 2",
    "skybyte-c": "8 2 2 2",
    "skybyte-cp": "4 2",
    "skybyte-ct": "4 1 1 1",
    "skybyte-wp": "10 3",
    "skybyte-wct": "6 1 1 1",
    "astriflash-cxl": "3 1",
    "dram-only": "1 3",
}


def design(name: str) -> str:
    """CSS variable of a design; the same in every chart."""
    return f"d-{name}" if name in _designs() else "d-other"


@cache
def _designs() -> frozenset[str]:
    """Those that have a colour in the style sheet."""
    style = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    return frozenset(re.findall(r"--d-([\w-]+):", style))


def dash(name: str) -> str:
    """Line style of a design, so that colour is not the only difference."""
    return _DASHES.get(name, "")


def component(name: str) -> str:
    """CSS variable of a component of time, requests or flash operations."""
    return f"c-{name}"
