"""Colours and line styles by meaning; the values are in `style.css`, for light and dark."""

from __future__ import annotations

_DESIGNS = frozenset(
    {
        "base-cssd",
        "skybyte-p",
        "skybyte-c",
        "skybyte-w",
        "skybyte-cp",
        "skybyte-ct",
        "skybyte-wp",
        "skybyte-wct",
        "skybyte-full",
        "astriflash-cxl",
        "dram-only",
    }
)
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
    return f"d-{name}" if name in _DESIGNS else "d-other"


def dash(name: str) -> str:
    """Line style of a design, so that colour is not the only difference."""
    return _DASHES.get(name, "")


def component(name: str) -> str:
    """CSS variable of a component of time, requests or flash operations."""
    return f"c-{name}"
