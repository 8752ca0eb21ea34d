"""`entresol device serve`: an image for other programs: NBD, NVMe/TCP, memory, a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from entresol import core, quantity
from entresol.choices import Pace
from entresol.cli import serving
from entresol.core import Json
from entresol.errors import UserError

_PORT = "127.0.0.1:4420"


def register(app: typer.Typer) -> None:
    """Adds the command to `entresol device`."""
    app.command("serve")(serve_command)


def serve_command(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="What `device create` made.")],
    nbd: Annotated[
        str | None,
        typer.Option("--nbd", metavar="ADDRESS", help="unix:PATH or HOST:PORT, to listen at."),
    ] = None,
    nvme: Annotated[
        str | None,
        typer.Option(
            "--nvme", metavar="HOST:PORT", help="Where NVMe/TCP hosts connect: nvme connect -t tcp."
        ),
    ] = None,
    shm: Annotated[
        str | None,
        typer.Option(
            "--shm", metavar="unix:PATH", help="Where processes come that use shared memory."
        ),
    ] = None,
    fuse: Annotated[
        Path | None,
        typer.Option(
            "--fuse", metavar="DIR", help="An empty directory, to show the file `device` in."
        ),
    ] = None,
    pace: Annotated[
        Pace,
        typer.Option("--pace", help="Whether clients wait for the device's time."),
    ] = Pace.NONE,
    allow_remote: Annotated[
        bool,
        typer.Option(
            "--allow-remote", help="Let other machines in, without password or encryption."
        ),
    ] = False,
    allow_other: Annotated[
        bool, typer.Option("--allow-other", help="Let other users open the file.")
    ] = False,
) -> None:
    """Serve a device to fio, qemu, kernels and whatever else knows NBD, NVMe/TCP or files.

    And through shared memory to programs that use the client library for Rust, C or Python. Until
    Ctrl-C, SIGTERM, or the end of its terminal.
    """
    if nbd is None and nvme is None and shm is None and fuse is None:
        raise UserError(
            "nothing says where to serve; give --nbd ADDRESS, --nvme HOST:PORT, --shm unix:PATH or "
            "--fuse DIR."
        )
    _check_distinct({"--nbd": nbd, "--nvme": nvme, "--shm": shm})
    if nvme is not None and nvme.startswith("unix:"):
        raise UserError(f"--nvme {nvme}: NVMe/TCP needs a port; write HOST:PORT, as in {_PORT}.")
    ports: Json = {
        "nbd": nbd,
        "nvme": nvme,
        "shm": shm,
        "fuse": None if fuse is None else str(fuse),
        "allow_remote": allow_remote,
        "allow_other": allow_other,
        "real_pace": pace is Pace.REAL,
    }
    with serving.ends_with_its_terminal():
        served = core.device_serve(image, ports, _say(image), serving.say_stopped(image))
    typer.echo(_report(served))
    if served["fuse"] is not None and served["fuse"]["is_open"]:
        typer.echo(f"{fuse}/device was still open; whoever has it open gets errors now", err=True)


def _check_distinct(places: dict[str, str | None]) -> None:
    """Each port has a socket of its own; the system chooses another one for each port 0."""
    taken: dict[str, str] = {}
    for option, place in places.items():
        if place is None or place.endswith(":0"):
            continue
        if (other := taken.get(place)) is not None:
            raise UserError(
                f"{other} {place} {option} {place}: two ports need two sockets; name another one."
            )
        taken[place] = option


def _report(served: Json) -> str:
    parts = []
    if (nbd := served["nbd"]) is not None:
        clients = serving.many(nbd["connections"], "client")
        parts.append(f"{serving.many(nbd['requests'], 'request')} of {clients}")
    if (nvme := served["nvme"]) is not None:
        hosts = serving.many(nvme["controllers"], "controller")
        parts.append(f"{serving.many(nvme['requests'], 'command')} of {hosts} over NVMe/TCP")
    expelled = ""
    if (shm := served["shm"]) is not None:
        clients = serving.many(shm["connections"], "client")
        parts.append(
            f"{serving.many(shm['requests'], 'request')} of {clients} through shared memory"
        )
        if shm["breaches"]:
            expelled = f"; {serving.many(shm['breaches'], 'client')} broke the protocol"
    if (file := served["fuse"]) is not None:
        parts.append(f"{serving.many(file['requests'], 'request')} through the file")
    errors = sum(port["errors"] for port in (nbd, nvme, shm, file) if port is not None)
    clock = quantity.duration(served["device_clock_ps"])
    return (
        f"served {' and '.join(parts)}; {errors:,} were refused or failed{expelled}; "
        f"the device's clock is at {clock}{serving.lag(served['lag'])}; everything acknowledged is "
        "in the image"
    )


def _say(image: Path) -> core.Listening:
    def say(told: Json) -> None:
        size = f"{quantity.size(told['size'])} in blocks of {quantity.size(told['block'])}"
        if (file := told["fuse"]) is not None:
            if file["mended"]:
                typer.echo(f"{Path(file['place']).parent}: a killed server's mount is taken away")
            typer.echo(f"{image}: {size} as {file['place']}, for {file['audience']}; Ctrl-C stops")
        if (nbd := told["nbd"]) is not None:
            typer.echo(f"{image}: {size} at {nbd['place']}, for {nbd['audience']}; Ctrl-C stops")
        if (nvme := told["nvme"]) is not None:
            typer.echo(
                f"{image}: {size} over NVMe/TCP at {nvme['place']}, for {nvme['audience']}, as "
                f"{nvme['name']}; Ctrl-C stops"
            )
        if (shm := told["shm"]) is not None:
            typer.echo(
                f"{image}: {size} through shared memory at {shm['place']}, for {shm['audience']}; "
                "Ctrl-C stops"
            )
        sys.stdout.flush()

    return say
