"""Results of the store with what a person asks of them: age, size, and what was not the preset."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from entresol import core, units
from entresol.core import Config, Setup
from entresol.digest import core_digest
from entresol.errors import UserError, did_you_mean
from entresol.store import result_store
from entresol.store.result_store import Entry, Store

_PLAIN = ("threads", "audit", "mode", "fidelity", "design", "core")
"""Inputs that are no parameters."""
SHORT = 12
"""Digits of a key where there is little room."""


@dataclass(frozen=True)
class Item:
    """A stored result and its file."""

    entry: Entry
    used: float
    """When it was made or last taken from the store, in seconds since 1970."""
    size: int

    @property
    def is_current(self) -> bool:
        """Whether this build of the core would take it."""
        return bool(self.entry.inputs["core"] == core_digest(core.library()))

    def changes(self) -> dict[str, str]:
        """Parameters that have not the value of the machine and the design as shipped."""
        entry = self.entry
        preset = _preset(str(entry.label.get("machine", "")), str(entry.inputs["design"]))
        return {
            f"{section}.{key}": value
            for section, keys in entry.inputs["config"].items()
            for key, value in keys.items()
            if preset.get(section, {}).get(key) != value
        }


@lru_cache(maxsize=256)
def _preset(machine: str, design: str) -> Config:
    try:
        return core.effective_config(Setup(machine), design)
    except core.ConfigError:  # Of another version, which had others.
        return {}


@dataclass(frozen=True)
class Filter:
    """Which results are meant; whatever is not said is all the same."""

    traces: tuple[str, ...] = ()
    designs: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] = ()
    """Parameters and their values."""
    older: float | None = None
    """Seconds since the last use, at least."""
    newer: float | None = None
    """At most."""
    other_core: bool = False

    def fits(self, item: Item) -> bool:
        """Whether a result is meant."""
        inputs, age = item.entry.inputs, time.time() - item.used
        return (
            (not self.traces or item.entry.label.get("trace") in self.traces)
            and (not self.designs or inputs["design"] in self.designs)
            and all(value_of(inputs, key) == value for key, value in self.where)
            and (self.older is None or age >= self.older)
            and (self.newer is None or age <= self.newer)
            and (not self.other_core or not item.is_current)
        )


def value_of(inputs: dict[str, Any], key: str) -> str | None:
    """An input by name: a parameter, or one such as `threads`."""
    section, _, name = key.rpartition(".")
    if section:
        found = inputs["config"].get(section, {}).get(name)
    else:
        found = inputs.get(key, inputs["setup"].get(key))
    if isinstance(found, list):
        return ",".join(map(str, found))
    return None if found is None else str(found).lower() if found in (True, False) else str(found)


def filter_of(
    traces: Sequence[str] | None,
    designs: Sequence[str] | None,
    where: Sequence[str] | None,
    older: str | None = None,
    newer: str | None = None,
    other_core: bool = False,
) -> Filter:
    """What options say. Raises `UserError`."""
    pairs = []
    for text in where or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--where {text}: write it as KEY=VALUE, such as ssd.log.size=1MiB.")
        pairs.append((key, value))
    return Filter(
        tuple(traces or ()),
        tuple(name for text in designs or () for name in text.split(",")),
        tuple(pairs),
        None if older is None else units.seconds_of(older, "--older"),
        None if newer is None else units.seconds_of(newer, "--newer"),
        other_core,
    )


def items(kept: Store, wanted: Filter) -> list[Item]:
    """The results that are meant, the last used last. Raises `UserError` for a design or a
    parameter that neither this build nor any result knows."""
    found = []
    designs = {design.name for design in core.designs()}
    keys = {parameter.key for parameter in core.parameters()} | set(_PLAIN)
    for entry in kept.entries():
        designs.add(entry.inputs["design"])
        keys.update(key for key, _ in wanted.where if value_of(entry.inputs, key) is not None)
        try:
            status = kept.path(entry.key).stat()
        except FileNotFoundError:
            continue  # Removed meanwhile.
        item = Item(entry, status.st_mtime, status.st_size)
        if wanted.fits(item):
            found.append(item)
    _check_known("--design", wanted.designs, sorted(designs))
    _check_known("--where", [key for key, _ in wanted.where], sorted(keys))
    return sorted(found, key=lambda item: (item.used, item.entry.key))


def _check_known(option: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            core.check_renamed(name, f"{option} {name}: ")
            hint = did_you_mean(name, known) or " entresol config show and designs have all."
            raise UserError(f"{option} {name}: is not known.{hint}")


def one(kept: Store, text: str) -> Item:
    """The result whose key begins so. Raises `UserError` if that is none, or several."""
    keys = [key for key in kept.list_keys() if key.startswith(text.lower())]
    if not text or not keys:
        raise UserError(f"{text or 'KEY'}: no result has this key; entresol results list has all.")
    if len(keys) > 1:
        raise UserError(f"{text}: {len(keys)} keys begin so; write more of it.")
    path = kept.path(keys[0])
    try:
        entry = result_store.read(path)
        status = path.stat()
    except result_store.DamagedError as error:
        raise UserError(f"{path}: {error}.") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}.") from error
    return Item(entry, status.st_mtime, status.st_size)
