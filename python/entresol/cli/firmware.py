"""`entresol firmware serve`: the device of runs in the loop, as a process of its own."""

from __future__ import annotations

import os
import signal
import socket as sockets
import threading
from pathlib import Path
from typing import Annotated

import typer

from entresol import core, quantity, terminal
from entresol.cli.options import DriveOption, DriveSizeOption, OverwriteDeviceOption, drive_of
from entresol.core import Json
from entresol.errors import UserError

app = typer.Typer(help="Firmware for devices in the loop.", rich_markup_mode=None)


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    parent.add_typer(app, name="firmware")


@app.callback()
def _firmware() -> None:
    """Firmware for devices in the loop."""


@app.command("serve")
def serve(
    socket: Annotated[Path, typer.Argument(metavar="SOCKET", help="Where runs find it.")],
    runs: Annotated[
        int | None, typer.Option("--runs", metavar="N", min=1, help="End after N runs.")
    ] = None,
    cpu: Annotated[
        int | None,
        typer.Option(
            "--cpu", metavar="N", min=0, help="The processor it has; the last one if left out."
        ),
    ] = None,
    drive: DriveOption = None,
    drive_size: DriveSizeOption = None,
    overwrite_device: OverwriteDeviceOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing.")] = False,
    until_input_ends: Annotated[
        bool, typer.Option("--until-input-ends", help="End when standard input does.")
    ] = False,
) -> None:
    """Be the device of `entresol run --device loop:SOCKET`: run the firmware and take its times."""
    if until_input_ends:
        threading.Thread(target=_end_with_input, daemon=True).start()
    _pin(cpu)
    _remove_stale(socket)

    def tell(report: Json) -> None:
        if quiet:
            return
        if "filling" in report:
            empty = quantity.duration(report["empty_ring_ps"])
            terminal.say(f"filling {report['size']} of {report['filling']}; empty ring {empty}")
            return
        if "listening" in report:
            terminal.say(f"listening at {report['listening']}")
            return
        work = (
            f"{each['work']} {quantity.duration(each['sum_ps'] // each['count'])}"
            for each in report["work"]
        )
        terminal.say(
            f"{report['commands']} commands; empty timer {report['empty_timer_cycles']} cycles; "
            f"means: {', '.join(work) or 'nothing timed'}"
        )

    # It keeps nothing: whoever ends it ends it at once.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        core.serve_firmware(socket, runs, drive_of(drive, drive_size, overwrite_device), tell)
    finally:
        signal.signal(signal.SIGINT, before)


def _end_with_input() -> None:
    # Not by sys.stdin, whose lock an interpreter that ends meanwhile cannot have.
    while os.read(0, 4096):
        pass
    os._exit(0)


def _pin(cpu: int | None) -> None:
    """Keeps the process on a processor of its own, if it may have several."""
    allowed = sorted(os.sched_getaffinity(0))
    if cpu is not None and cpu not in allowed:
        raise UserError(f"--cpu {cpu}: is not allowed here; choose from {_words(allowed)}.")
    if cpu is None and len(allowed) == 1:
        return
    os.sched_setaffinity(0, {allowed[-1] if cpu is None else cpu})


def _words(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def _remove_stale(socket: Path) -> None:
    """Takes away the socket of a process that has gone."""
    if not socket.is_socket():
        return
    with sockets.socket(sockets.AF_UNIX) as probe:
        try:
            probe.connect(str(socket))
        except OSError:
            socket.unlink(missing_ok=True)
            return
    raise UserError(f"{socket}: another firmware process listens there; choose another place.")
