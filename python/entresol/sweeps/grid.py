"""What a sweep varies: keys, their values, and the combinations of them, as data.

A grid maps each key to one value or a list of values; its points are all combinations, the first
key varying slowest. A sweep is one grid, or several one after the other.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entresol import core
from entresol.errors import UserError, did_you_mean

CHOICES = ("trace", "design", "machine", "nand", "fidelity", "mode", "threads", "audit", "config")
"""What is varied besides parameters: the options of `entresol run`."""
LISTED = "points"

Value = str | int | bool


@dataclass(frozen=True)
class Source:
    """Where grids come from: for messages, and for the paths in them."""

    name: str
    directory: Path
    text: str


def read(path: Path) -> tuple[Source, list[dict[str, list[Any]]]]:
    """The grids of a sweep file. Raises `UserError` naming the file and the key."""
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UserError(f"{path}: is not TOML: {error}.") from error
    source = Source(str(path), path.parent, text)
    return source, grids(document, source)


def grids(document: Mapping[str, Any], source: Source) -> list[dict[str, list[Any]]]:
    """The grids of a document: the document itself, or one for each table of `points`, which adds
    to the document and replaces what has the same key."""
    rest = {key: value for key, value in document.items() if key != LISTED}
    common = _flat(rest, source)
    tables = document.get(LISTED)
    if tables is None:
        return [common]
    if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
        raise UserError(f"{source.name}: {LISTED}: is a list of tables; write [[{LISTED}]].")
    return [common | _flat(table, source) for table in tables]


def _flat(document: Mapping[str, Any], source: Source) -> dict[str, list[Any]]:
    """Keys with their sections, each known, and its values as a list."""
    known = [parameter.key for parameter in core.parameters()]
    sections = {key[:at] for key in known for at in range(len(key)) if key[at] == "."}
    found: dict[str, list[Any]] = {}
    for key, value in document.items():
        for name, inner in _entries(key, value, sections):
            if name not in known and name not in CHOICES:
                core.check_renamed(name, f"{source.name}: ")
                hint = did_you_mean(name, [*known, *CHOICES]) or " entresol config show has all."
                raise UserError(f"{source.name}: unknown key {name}.{hint}")
            found[name] = _values(name, inner, source)
    return found


def _entries(key: str, value: Any, sections: Collection[str]) -> Iterator[tuple[str, Any]]:
    """The values of a section and of its groups, each with its whole key."""
    if not isinstance(value, dict) or key not in sections:
        yield key, value
        return
    for name, inner in value.items():
        yield from _entries(f"{key}.{name}", inner, sections)


def _values(key: str, value: Any, source: Source) -> list[Any]:
    values = value if isinstance(value, list | tuple) else [value]
    if not values:
        raise UserError(f"{source.name}: {key}: has no value; name at least one.")
    for each in values:
        check_kind(key, each, source.name)
    if (twice := next((v for v in values if values.count(v) > 1), None)) is not None:
        raise UserError(f"{source.name}: {key}: has {shown(twice)} twice; leave one out.")
    return list(values)


def check_kind(key: str, value: Any, where: str) -> None:
    """Raises `UserError` for a value that cannot be one of this key."""
    if key == "threads":
        fits, wanted = type(value) is int and value >= 1, "a number from 1"
    elif key == "audit":
        fits, wanted = isinstance(value, bool), "true or false"
    elif key == "trace":
        fits, wanted = value != "" and isinstance(value, str | dict | Path), "a path, or a workload"
    elif key in CHOICES:
        fits, wanted = isinstance(value, str | Path), "text"
    else:
        fits, wanted = (
            isinstance(value, str | int),
            'text with a unit such as "64MiB", a number, \
true or false',
        )
    if not fits:
        raise UserError(f"{where}: {key}: {shown(value)} is not {wanted}.")


def shown(value: Any) -> str:
    """A value as TOML writes it, for messages."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {shown(item)}" for key, item in value.items()) + "}"
    return str(value)


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[tuple[tuple[str, Any], ...]]:
    """All points of a grid, the first key varying slowest."""
    product = itertools.product(*grid.values())
    return [tuple(zip(grid, values, strict=True)) for values in product]
