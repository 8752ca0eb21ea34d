"""Commands that only print."""

from __future__ import annotations

import shlex
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from entresol import core, papers, quantity
from entresol.cli.options import JsonOption
from entresol.core import Config, Json, Parameter, Setup, Switch
from entresol.errors import UserError, did_you_mean
from entresol.summary import to_text
from entresol.terminal import WIDTH_WITHOUT_TERMINAL, print_table
from entresol.toml_text import toml

_INFO_ROWS = ("threads", "instructions", "loads", "stores", "footprint_pages")


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("designs")(designs)


def designs(as_json: JsonOption = False) -> None:
    """List the designs: name, name in the paper, what it is."""
    known = core.designs()
    if as_json:
        sys.stdout.write(to_text([asdict(design) for design in known]))
        return
    table = Table("design", "in the paper", "what it is", "source", box=None, pad_edge=False)
    for design in known:
        table.add_row(design.name, design.paper_name, design.summary, design.section)
    print_table(_console(), table)


def presets() -> None:
    """The tables of machines and NAND types."""
    for option, known in (("--machine", core.machines()), ("--nand", core.nand_types())):
        table = Table(option, "what it is", box=None, pad_edge=False)
        for preset in known:
            table.add_row(preset.name, preset.summary)
        print_table(_console(), table)


def config(setup: Setup, design: str, as_json: bool) -> None:
    """The effective configuration as TOML, or as JSON."""
    effective = core.effective_config(setup, design)
    names = core.fidelity_names(setup.fidelity)
    if as_json:
        typer.echo(to_text({"fidelity": names} | effective), nl=False)
        return
    switches = ", ".join(names) or "none"
    typer.echo(f"# fidelity switches: {switches}\n\n{toml(effective)}", nl=False)


def switches(as_json: bool) -> None:
    """The table of fidelity switches, or JSON."""
    known = core.fidelity_switches()
    if as_json:
        sys.stdout.write(to_text([asdict(switch) for switch in known]))
        return
    table = Table("switch", "the artifact", "sets", box=None, pad_edge=False)
    for switch in known:
        table.add_row(switch.name, switch.title, _settings(switch))
    print_table(_console(), table)


def switch(name: str) -> None:
    """One fidelity switch."""
    known = {switch.name: switch for switch in core.fidelity_switches()}
    name = papers.switch(name)
    if name not in known:
        hint = did_you_mean(name, list(known))
        raise UserError(f"unknown fidelity switch {name}.{hint or ' See entresol fidelity list.'}")
    found = known[name]
    lines = [
        f"{found.name}: {found.title}",
        *textwrap.wrap(found.summary, 96, initial_indent="  ", subsequent_indent="  "),
        f"  sets     {_settings(found)}",
        f"  source   {found.source}",
    ]
    if found.nand_types:
        lines.append(f"  only for --nand {', '.join(found.nand_types)}")
    typer.echo("\n".join(lines))


def _settings(switch: Switch) -> str:
    return ", ".join(f"{key} = {value}" for key, value in switch.sets)


def explain(key: str, setup: Setup, design: str) -> None:
    """One parameter, or all of a section."""
    known = core.parameters()
    found = [item for item in known if item.key == key or item.key.startswith(f"{key}.")]
    if not found:
        core.check_renamed(key)
        hint = did_you_mean(key, [item.key for item in known])
        raise UserError(f"unknown parameter {key}.{hint or ' entresol config show lists them.'}")
    effective = core.effective_config(setup, design)
    typer.echo("\n\n".join(_explanation(item, effective, setup, design) for item in found))


def _explanation(item: Parameter, effective: Config, setup: Setup, design: str) -> str:
    section, _, name = item.key.rpartition(".")
    value = effective.get(section, {}).get(name, quantity.NOTHING)
    return "\n".join(
        [
            item.key,
            f"  {' '.join(item.doc.split())}",
            f"  unit     {item.kind}",
            f"  default  {value}  ({design} on {setup.machine})",
            f"  range    {item.range}",
            f"  source   {item.source}",
        ]
    )


def formats(known: Sequence[core.TraceFormat]) -> None:
    """Formats of traces, one line each."""
    table = Table(box=None, pad_edge=False)
    for heading in ("format", "read", "written", "recognised", ""):
        table.add_column(heading)
    yes = {True: "yes", False: "-"}
    for format in known:
        if format.imports or format.exports:
            marks = (format.imports, format.exports, format.recognised)
            table.add_row(format.name, *(yes[mark] for mark in marks), format.summary)
    _console().print(table, highlight=False, markup=False)


def trace_info(path: Path, info: Json) -> None:
    """A capture in a few lines."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    table.add_row("capture", f"{path} ({quantity.size(path.stat().st_size)})")
    for name in _INFO_ROWS:
        table.add_row(name.replace("_", " "), quantity.exact(info[name]))
    table.add_row("footprint", quantity.size(info["footprint_pages"] * 4096))
    accesses = info["loads"] + info["stores"]
    if accesses:
        table.add_row("stores", quantity.percent(info["stores"] / accesses) + " of accesses")
    for block in info.get("top_blocks", []):
        share = quantity.percent(block["instructions"] / info["instructions"])
        table.add_row("top block", f"{block['pc']}  {share} of instructions")
    provenance = info.get("provenance", {})
    for note in provenance.get("notes", []):
        table.add_row("assumed", note)
    if warms := provenance.get("warms"):
        table.add_row("only warm", f"{quantity.exact(sum(warms))} of the instructions")
    for key, value in provenance.items():
        if value and key not in ("notes", "warms"):
            table.add_row(key.replace("_", " "), _plain(value))
    table.add_row("digest", info["digest"])
    _console().print(table, highlight=False, markup=False)


def _plain(value: object) -> str:
    if isinstance(value, list):
        return shlex.join(str(word) for word in value)
    return "yes" if value is True else str(value)
