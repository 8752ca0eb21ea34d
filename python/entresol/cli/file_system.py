"""`entresol mkfs`, `entresol fsck` and `entresol fs`: file systems on devices."""

from __future__ import annotations

import os
import re
import sys
import time
import uuid
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from entresol import core, mounts, quantity, units
from entresol.cli import fs_bench, fs_crash, fs_record, fs_why, serving
from entresol.cli.options import JsonOption
from entresol.core import Json
from entresol.errors import UserError
from entresol.summary import to_text
from entresol.terminal import print_table

PROBLEMS_FOUND = 1
"""Exit code of `fsck` when something is wrong that was not repaired."""
BLOCK = 4096
_ADDRESS = re.compile(r"[^/]+:[0-9]+")
"""Where an NBD server listens, as `device serve --nbd` has it."""

ImageArgument = Annotated[
    Path, typer.Argument(metavar="IMAGE", help="What `device create` made; nobody uses it.")
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="In a mounted file system.")]

app = typer.Typer(help="Look into file systems, and measure them.", rich_markup_mode=None)


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    parent.command("mkfs")(mkfs)
    parent.command("fsck")(fsck)
    fs_bench.register(app)
    fs_crash.register(app)
    fs_record.register(app)
    fs_why.register(app)
    parent.add_typer(app, name="fs")


def mkfs(
    image: ImageArgument,
    personality: Annotated[
        str,
        typer.Option(
            "--personality",
            metavar="NAME",
            help="How changes survive: bytefs, bytefs-log, bytefs-dual, ext4-like, pmfs-like, "
            "f2fs-like, nova-like.",
        ),
    ] = "bytefs",
    inodes: Annotated[
        int | None,
        typer.Option(
            "--inodes", metavar="N", min=16, max=2**32 - 2, help="Files that there can be."
        ),
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option(
            "--journal",
            metavar="SIZE",
            help="Of the host's journal, for personalities that have one; for bytefs and "
            "bytefs-log what mount -o data=journal needs, 4MiB at best.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Even if something is on the device, which is lost.")
    ] = False,
) -> None:
    """Make an empty file system on a device, and print the image's path.

    IMAGE may be unix:PATH, where `device serve --shm` serves one that nobody else uses meanwhile.
    """
    _check_place(image)
    options: Json = {
        "personality": personality,
        "inodes": inodes,
        "journal_bytes": None if journal is None else units.size_of(journal, "--journal"),
        "uuid": uuid.uuid4().hex,
        "now_ns": time.time_ns(),
        "uid": os.getuid(),
        "gid": os.getgid(),
        "force": force,
    }
    made = core.fs_make(image, options)
    size = quantity.size(made["size_bytes"])
    mount = f"mount it with entresol mount {image} DIR"
    if str(image).startswith(serving.ADDRESS):
        mount = "when it is not served any more, mount its image with entresol mount IMAGE DIR"
    print(f"{made['personality']} on {size}; {mount}", file=sys.stderr)
    print(image)


def _check_place(image: Path) -> None:
    """Refuses what takes blocks alone: the file of a served device, and an NBD server."""
    is_address = not image.exists() and _ADDRESS.fullmatch(str(image)) is not None
    if image.is_file() or image.is_block_device() or is_address:
        raise UserError(
            f"{image}: is no device image, which is a directory. Where a device is served as a "
            "file or over NBD it takes blocks alone, and a file system needs its bytes and "
            "transactions; name the image, or serve it with --shm unix:PATH and name unix:PATH."
        )


def fsck(
    image: ImageArgument,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what can be, and say what was done.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a file system against itself. What a power cut left is recovered first, in memory
    unless it is repaired.

    Exit code 0 if it is sound or everything was repaired, 1 otherwise.
    """
    serving.refuse_address(image, "checked")
    found = core.fs_check(image, repair=repair)
    problems = found["problems"]
    left = sum(problem["repaired"] is None for problem in problems)
    if as_json:
        sys.stdout.write(to_text(found))
    else:
        for problem in problems:
            done = problem["repaired"]
            print(problem["what"] if done is None else f"{problem['what']}; {done}")
        _print_summary(image, found, left, repair)
    if left:
        raise typer.Exit(PROBLEMS_FOUND)


def _print_summary(image: Path, found: Json, left: int, repair: bool) -> None:
    count = len(found["problems"])
    repaired = f", {count - left:,} of them repaired" if repair and count else ""
    place = "is recovered" if repair else "is recovered in memory, as the next mount will do"
    recovered = f"; it was not unmounted and {place}" if found["was_recovered"] else ""
    directories = "directory" if found["directories"] == 1 else "directories"
    print(
        f"{image}: {serving.many(count, 'problem')}{repaired}; "
        f"{found['directories']:,} {directories}, {serving.many(found['files'], 'file')}, "
        f"{serving.many(found['blocks'], 'block')} in use{recovered}"
    )


@app.command()
def stat(file: FileArgument, as_json: JsonOption = False) -> None:
    """Say what a file's inode holds, and in which memories its bytes are."""
    number, where = _found(file)
    if as_json:
        sys.stdout.write(to_text(where))
        return
    extents = where["extents"]
    unwritten = sum(extent["count"] for extent in extents if not extent["is_written"])
    rows = [
        ("inode", f"{number} (generation {where['generation']})"),
        ("size", f"{where['size_bytes']:,} B"),
        ("blocks", f"{where['blocks']:,} of {quantity.size(BLOCK)}"),
        ("names", f"{where['links']:,}"),
        ("extents", f"{len(extents):,}"),
        ("blocks that read as zeroes", f"{unwritten:,}"),
        (
            "in the host's page cache",
            f"{_pages(where['host_pages'])}, {where['host_dirty_pages']:,} dirty",
        ),
        ("in the device's log", serving.many(_sum(extents, "log_lines"), "line") + " of 64 B"),
        ("in the device's page cache", _pages(_sum(extents, "cached_pages"))),
        ("on flash", _pages(_sum(extents, "flash_pages"))),
    ]
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    print_table(Console(highlight=False), table)


@app.command("map")
def map_command(file: FileArgument, as_json: JsonOption = False) -> None:
    """Say in which blocks of the device a file's bytes are, and in which of its memories."""
    _, where = _found(file)
    if as_json:
        sys.stdout.write(to_text(where))
        return
    table = Table(box=None, pad_edge=False)
    titles = ("from byte", "bytes", "from block", "blocks", "log lines", "cached", "flash", "what")
    for title in titles:
        table.add_column(title, justify="left" if title == "what" else "right")
    for extent in where["extents"]:
        table.add_row(
            f"{extent['page'] * BLOCK:,}",
            f"{extent['count'] * BLOCK:,}",
            f"{extent['block']:,}",
            f"{extent['count']:,}",
            f"{extent['log_lines']:,}",
            f"{extent['cached_pages']:,}",
            f"{extent['flash_pages']:,}",
            "written" if extent["is_written"] else "reads as zeroes",
        )
    print_table(Console(highlight=False), table)
    if dirty := int(where["host_dirty_pages"]):
        print(f"In the host's page cache until a sync or the clock: {_pages(dirty)}.")


@app.command()
def sync(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A mounted file system, or a file in it.")
    ],
) -> None:
    """Have everything written to a file system survive a power cut, as syncfs would.

    Linux does not pass syncfs on to file systems of FUSE.
    """
    mounts.around(mounts.absolute(directory)).sync()


def _sum(extents: list[Json], key: str) -> int:
    return sum(int(extent[key]) for extent in extents)


def _pages(count: int) -> str:
    return serving.many(count, "page")


def _found(file: Path) -> tuple[int, Json]:
    path = mounts.absolute(file)
    there = mounts.around(path)
    number = path.lstat().st_ino
    if number >= 2**32:
        raise UserError(f"{file}: is the server's own and on no device; name another file.")
    return number, there.map(number)
