"""`entresol config`: show, presets, explain."""

from __future__ import annotations

from typing import Annotated

import typer

from entresol import core, study
from entresol.cli import listings
from entresol.cli.options import (
    ConfigOption,
    DesignName,
    FidelityOption,
    JsonOption,
    MachineOption,
    NandOption,
    SetOption,
)
from entresol.errors import UserError

app = typer.Typer(help="Look at parameters.", rich_markup_mode=None)


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    parent.add_typer(app, name="config")


@app.command("show")
def config_show(
    machine: MachineOption = "table2",
    design: DesignName = "skybyte-full",
    overrides: SetOption = None,
    config: ConfigOption = None,
    nand: NandOption = None,
    fidelity: FidelityOption = "paper",
    as_json: JsonOption = False,
) -> None:
    """Print the effective configuration: every parameter and its value."""
    study.check_machine(machine)
    name = _one(design, "show")
    files = study.read_config_files(config or [])
    setup = core.Setup(machine, nand, files, tuple(overrides or []), fidelity)
    listings.config(setup, name, as_json)


@app.command("presets")
def config_presets() -> None:
    """List the machines and the NAND types."""
    listings.presets()


@app.command("explain")
def config_explain(
    key: Annotated[str, typer.Argument(metavar="KEY", help="A parameter, or a section.")],
    machine: MachineOption = "table2",
    design: DesignName = "skybyte-full",
) -> None:
    """Say what a parameter is: unit, default, range, source."""
    study.check_machine(machine)
    listings.explain(key, core.Setup(machine), _one(design, "explain"))


def _one(word: str, command: str) -> str:
    """The design that a word names. Raises `UserError` if it names none or several."""
    names = study.choose_designs([word])
    if len(names) != 1:
        raise UserError(f"config {command} takes one design.")
    return names[0]
