"""Designs as values: a name, and parameters that are not the preset's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from entresol import core, papers
from entresol.core import Setup
from entresol.errors import UserError, did_you_mean
from entresol.sweeps import grid
from entresol.sweeps.grid import Value, shown

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class Design:
    """A device design, with whatever was changed of it. A value: `with_` gives another."""

    name: str
    parameters: tuple[tuple[str, Value], ...] = ()

    def with_(self, parameters: Mapping[str, Value] | None = None, /, **more: Value) -> Design:
        """The design with these parameters: `with_(**{"ssd.log.size": "8MiB"})`.

        Raises `UserError` for a key that does not exist and for a value that no machine takes.
        """
        if not isinstance(parameters or {}, Mapping):
            raise UserError(f"{self.name}: {parameters} is no mapping from keys to values.")
        given = {**(parameters or {}), **more}
        for key, value in given.items():
            _check(self.name, key, value)
        return replace(self, parameters=tuple({**dict(self.parameters), **given}.items()))

    def config(self, machine: str = "table2") -> core.Config:
        """The effective configuration on a machine preset: section → key → value as text with its
        unit. Raises `UserError` or `ConfigError` for what is no machine, or does not take
        a value."""
        if not isinstance(machine, str):
            raise UserError(f"{self.name}: machine: {machine} is not text.")
        return core.effective_config(_setup(machine, dict(self.parameters)), self.name)

    def _repr_html_(self) -> str:
        entry = next(entry for entry in core.designs() if entry.name == self.name)
        changes = "".join(
            f"<br><code>{key} = {shown(value)}</code>" for key, value in self.parameters
        )
        return f"<b>{entry.paper_name}</b>: {entry.summary} ({entry.section}){changes}"


def design(name: str) -> Design:
    """A design by its name, or by `PAPER/NAME`. Raises `UserError` for a name that is none."""
    known = [entry.name for entry in core.designs()]
    (name,) = papers.designs([name])
    if name not in known:
        hint = did_you_mean(name, known) or f" Choose from {', '.join(known)}."
        raise UserError(f"unknown design {name}.{hint}")
    return Design(name)


def designs() -> list[Design]:
    """All designs, in the order of reports."""
    return [Design(entry.name) for entry in core.designs()]


def parameters() -> polars.DataFrame:
    """All parameters, a row each: `key`, `kind` (its unit or type), `range`, `source`, `doc`; all
    are text."""
    import polars

    names = ("key", "kind", "range", "source", "doc")
    return polars.DataFrame(
        [{name: getattr(entry, name) for name in names} for entry in core.parameters()]
    )


def _setup(machine: str, parameters: Mapping[str, Value]) -> Setup:
    overrides = tuple(f"{key}={shown(value)}" for key, value in parameters.items())
    return Setup(machine, overrides=overrides)


def _check(name: str, key: str, value: Value) -> None:
    known = [parameter.key for parameter in core.parameters()]
    if key not in known:
        core.check_renamed(key, f"{name}: ")
        hint = did_you_mean(key, known) or " entresol.parameters() has all."
        raise UserError(f"{name}: unknown key {key}.{hint}")
    grid.check_kind(key, value, name)
    errors = []
    for machine in core.machines():
        try:
            core.effective_config(_setup(machine.name, {key: value}), name)
        except core.ConfigError as error:
            errors.append(str(error).removeprefix("configuration: ").replace("--set ", ""))
        else:
            return
    raise UserError(f"{name}: {errors[0]}")
