"""What this version knows by name: designs, presets, loads, switches, parameters, constants."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Design:
    """A device design: its name here, its name in the paper, what it is and where it is defined."""

    name: str
    paper_name: str
    summary: str
    section: str


@dataclass(frozen=True)
class Preset:
    """A named set of values: a machine, or a NAND type."""

    name: str
    summary: str


@dataclass(frozen=True)
class DevicePreset:
    """A device that images can be made of, and where its values come from."""

    name: str
    summary: str
    about: str


@dataclass(frozen=True)
class FsLoad:
    """A load of a file system: its name, its title, and where its values come from."""

    name: str
    title: str
    about: str


@dataclass(frozen=True)
class Switch:
    """A fidelity switch: what its file says of it, and the parameters it sets.

    It applies to `nand_types` only; to all, if there are none.
    """

    name: str
    title: str
    summary: str
    source: str
    nand_types: tuple[str, ...]
    sets: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Parameter:
    """Documentation of one parameter, from where it is declared."""

    key: str
    kind: str
    range: str
    source: str
    doc: str


@dataclass(frozen=True)
class LogIndex:
    """Constants of the two-level hash of SkyByte §III-B."""

    first_table_entries: int
    """Of a new second-level table."""
    fullest_milli: int
    """Load factor beyond which a table doubles, in thousandths."""
    page_bytes: int
    """Of a first-level entry."""
    entry_bytes: int
    """Of a second-level entry."""
