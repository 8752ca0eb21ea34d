"""Parameter values as numbers, so that a varied parameter can be an axis of a picture."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

_TIMES = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
_SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_RATES = {f"{prefix}B/s": 1000**power for power, prefix in enumerate(("", "k", "M", "G", "T"))}
_FREQUENCIES = {f"{prefix}Hz": 1000**power for power, prefix in enumerate(("", "k", "M", "G"))}
_UNITS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "number": ("", {"": 1}),
    "time": ("_ps", _TIMES),
    "size": ("_bytes", _SIZES),
    "rate": ("_bytes_per_s", _RATES),
    "frequency": ("_hz", _FREQUENCIES),
    "core cycles": ("_cycles", {"cycles": 1}),
    "share": ("_milli", {"%": 10}),
}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z/%]*)")


def number(text: str, kind: str) -> tuple[str, int] | None:
    """The ending of the column, which says the unit, and the value; none if it is no number."""
    ending, units = _UNITS.get(kind, ("", {}))
    match = _NUMBER.fullmatch(text)
    if match is None or match[2] not in units:
        return None
    value = Decimal(match[1]) * units[match[2]]
    return (ending, int(value)) if value == int(value) else None


def size(text: str) -> int | None:
    """The bytes of a size; none if it is no size."""
    found = number(text, "size")
    return None if found is None else found[1]
