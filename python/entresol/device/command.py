"""The group of commands `entresol device`."""

from __future__ import annotations

import typer

from entresol.device import serve

app = typer.Typer(help="Use devices of real bytes.", rich_markup_mode=None)
serve.register(app)
