"""`entresol device serve`: an image's block port for other programs, over NBD."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from entresol import core, quantity
from entresol.core import Json
from entresol.errors import UserError

PACES = ("none", "real")


def register(app: typer.Typer) -> None:
    """Adds the command to `entresol device`."""
    app.command("serve")(serve_command)


def serve_command(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="What `device create` made.")],
    nbd: Annotated[
        str, typer.Option("--nbd", metavar="ADDRESS", help="unix:PATH or HOST:PORT, to listen at.")
    ],
    pace: Annotated[
        str,
        typer.Option(
            "--pace", metavar="none|real", help="Whether clients wait for the device's time."
        ),
    ] = "none",
    allow_remote: Annotated[
        bool,
        typer.Option(
            "--allow-remote", help="Let other machines in, without password or encryption."
        ),
    ] = False,
) -> None:
    """Serve a device to fio, qemu, the kernel and whatever else speaks NBD, until Ctrl-C."""
    if pace not in PACES:
        raise UserError(f"--pace {pace}: is none or real.")
    served = core.device_serve(
        image, nbd, allow_remote=allow_remote, real_pace=pace == "real", listening=_say(image)
    )
    clock = quantity.duration(served["device_clock_ps"])
    typer.echo(
        f"served {_many(served['requests'], 'request')} of "
        f"{_many(served['connections'], 'client')}; {served['errors']:,} were refused or failed; "
        f"the device's clock is at {clock}; everything acknowledged is in the image"
    )


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _say(image: Path) -> core.Listening:
    def say(told: Json) -> None:
        size = quantity.size(told["size"])
        typer.echo(
            f"{image}: {size} in blocks of {quantity.size(told['block'])} at {told['place']}, "
            f"for {told['audience']}; Ctrl-C stops"
        )
        sys.stdout.flush()

    return say
