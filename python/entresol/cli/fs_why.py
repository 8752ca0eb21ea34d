"""`entresol fs why-fsync`: where the time of one fsync goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from entresol import atomic, mounts, quantity
from entresol.cli.options import JsonOption
from entresol.core import Json
from entresol.errors import Failed, UserError
from entresol.summary import to_text
from entresol.terminal import print_table, wide_console

WIDTH = 40
"""Characters of a bar as long as the whole."""
PICTURES = (".svg", ".pdf")
CLOCKS = ("the device's clock", "wall clock")
FUSE, CODE = "FUSE", "file system"
NOTHING = "The device was asked for nothing: all of it was there already."
DEVICE = {
    "link_ps": ("link", "device: commands and lines on the link, there and back"),
    "waiting_ps": ("waiting", "device: for other requests of the same lines, and for room"),
    "memory_ps": ("log", "device: lookups and device memory, the log and the page cache"),
    "flash_ps": ("flash", "device: dies and channels"),
}
"""Parts of the device's account, and what they are."""


@dataclass(frozen=True)
class Part:
    """A share of the whole."""

    name: str
    time_ps: int
    note: str


def register(app: typer.Typer) -> None:
    """Adds the command to `entresol fs`."""
    app.command("why-fsync")(why_fsync)


def why_fsync(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="In a mounted file system.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="PICTURE", help="Draw it too: .svg or .pdf."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Sync a file of a mount, and say where the time goes: FUSE, file system, link, log, flash.

    FUSE and the file system's code are of the wall clock, the device of its own.
    """
    if output is not None:
        _check_picture(output)
    path = mounts.absolute(file)
    there = mounts.around(path)
    number = path.lstat().st_ino
    if number >= 2**32:
        raise UserError(f"{file}: is the server's own and on no device; name another file.")
    told, took_ns = there.told_sync(number)
    parts = split(told, took_ns * 1000, is_paced=there.stats()["real_pace"])
    whole = sum(part.time_ps for part in parts)
    title = f"fsync of {shown(file)}: {quantity.duration(whole)}"
    if as_json:
        sys.stdout.write(to_text({"whole_ps": whole, "parts": [vars(part) for part in parts]}))
    else:
        _print(title, parts, whole)
    if output is not None:
        _draw(output, title, parts)


def shown(file: Path) -> str:
    """A name as it can be printed and drawn, though it be no UTF-8."""
    return os.fsencode(file).decode(errors="replace")


def _print(title: str, parts: Sequence[Part], whole: int) -> None:
    console = wide_console()
    console.print(title, highlight=False, markup=False)
    table = Table(box=None, pad_edge=False)
    for title in ("where", "time", "share", "", "what"):
        right = title in ("time", "share")
        table.add_column(title, justify="right" if right else "left", no_wrap=title != "what")
    for part in parts:
        share = part.time_ps / (whole or 1)
        bar = "█" * round(share * WIDTH)
        time_ = quantity.duration(part.time_ps)
        table.add_row(Text(part.name), time_, quantity.percent(share), bar, Text(part.note))
    print_table(console, table)
    if len(parts) == 2:
        console.print(NOTHING, highlight=False, markup=False)


def _check_picture(output: Path) -> None:
    if output.suffix not in PICTURES:
        raise UserError(f"{output}: is no picture that can be drawn; end it in .svg or .pdf.")
    if not output.absolute().parent.is_dir():
        raise UserError(f"{output}: its directory is not there; make it, or name another one.")


def _draw(output: Path, title: str, parts: Sequence[Part]) -> None:
    """The same bars, as a file."""
    # Matplotlib is loaded by who wants a picture.
    from entresol.figures import ink
    from entresol.figures.parts import Row, draw

    rows = [Row(part.name, part.time_ps, CLOCKS[part.name in (FUSE, CODE)]) for part in parts]
    with TemporaryDirectory() as folder:
        stem = Path(folder) / "picture"
        ink.save(draw(title, rows), stem)
        drawn = stem.with_suffix(output.suffix).read_bytes()
    try:
        atomic.write(output, drawn)
    except OSError as error:
        raise Failed(f"{output}: {error.strerror}.") from None


def split(told: Json, took_ps: int, *, is_paced: bool) -> list[Part]:
    """The parts of an fsync that a program waited `took_ps` for; they make the whole.

    A server that does not wait for its device computes it: that is no part of the whole, and the
    device's own time is. One that waits has spent that time already.
    """
    server = told["server_ns"] * 1000
    device: Json = told["device"]
    computed = device["took_ps"] if is_paced else told["device_code_ns"] * 1000
    fuse = Part(FUSE, max(took_ps - server, 0), "wall clock: kernel, waking up, there and back")
    code = Part(CODE, max(server - computed, 0), "wall clock: the code of the file system")
    return [fuse, code, *_of_device(device)]


def _of_device(device: Json) -> list[Part]:
    """Its clock's time, shared out as its operations took theirs: they overlap."""
    sums = {key: device[key] for key in DEVICE}
    whole, total = device["took_ps"], sum(sums.values())
    if not total:
        return [Part("device", whole, "device: nothing was moved")] if whole else []
    shares = {key: whole * of // total for key, of in sums.items()}
    # What dividing leaves goes to the largest.
    shares[max(sums, key=lambda key: sums[key])] += whole - sum(shares.values())
    return [Part(DEVICE[key][0], shares[key], DEVICE[key][1]) for key in DEVICE]
