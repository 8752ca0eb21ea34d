"""What the shell offers when a word is completed."""

from __future__ import annotations

from collections.abc import Iterable

from entresol import core, foreign_traces, papers, workload
from entresol.errors import UserError


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _of_list(names: Iterable[str], incomplete: str) -> list[str]:
    """Of `a,b,c` only the last name is open."""
    done, comma, last = incomplete.rpartition(",")
    return [f"{done}{comma}{name}" for name in _beginning(names, last)]


def designs(incomplete: str) -> list[str]:
    """Designs, and several joined by commas."""
    return _of_list(["all", *(design.name for design in core.designs())], incomplete)


def machines(incomplete: str) -> list[str]:
    """Machine presets."""
    return _beginning((machine.name for machine in core.machines()), incomplete)


def nand_types(incomplete: str) -> list[str]:
    """NAND types."""
    return _beginning((nand.name for nand in core.nand_types()), incomplete)


def parameters(incomplete: str) -> list[str]:
    """Parameters, for which a value is to follow."""
    return _beginning((f"{parameter.key}=" for parameter in core.parameters()), incomplete)


def fidelity(incomplete: str) -> list[str]:
    """Switches, and several joined by commas."""
    names = [switch.name for switch in core.fidelity_switches()]
    artifacts = papers.artifacts()
    return _of_list(["paper", *artifacts, *names], incomplete)


def rooms(incomplete: str) -> list[str]:
    """Papers."""
    return _beginning(papers.names(), incomplete)


def figures(incomplete: str) -> list[str]:
    """Papers, and the figures of all."""
    names = [figure.name for paper in papers.every() for figure in paper.figures]
    return _of_list([*papers.names(), "all", *dict.fromkeys(names)], incomplete)


def formats(incomplete: str) -> list[str]:
    """Formats of traces."""
    return _beginning((format.name for format in foreign_traces.formats()), incomplete)


def workloads(incomplete: str) -> list[str]:
    """Programs; none where they are not built."""
    try:
        return _beginning(["all", *(program.name for program in workload.programs())], incomplete)
    except UserError:
        return []
