"""`entresol fidelity`: list and explain the switches between the papers and the artifact."""

from __future__ import annotations

from typing import Annotated

import typer

from entresol.cli import listings
from entresol.cli.options import JsonOption

app = typer.Typer(
    help="Look at the switches between the papers and the artifact.", rich_markup_mode=None
)


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    parent.add_typer(app, name="fidelity")


@app.command("list")
def fidelity_list(as_json: JsonOption = False) -> None:
    """List the fidelity switches: name and what each is."""
    listings.switches(as_json)


@app.command("explain")
def fidelity_explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A switch.")],
) -> None:
    """Say what a switch is: what the paper says, what the artifact does, what it sets."""
    listings.switch(name)
