"""`entresol dax`: what of a mounted file system is in persistent memory, and why it is."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from entresol import mounts, quantity
from entresol.cli.options import JsonOption
from entresol.core import Json
from entresol.errors import UserError
from entresol.interruption import Interruption

PAGE = 4096
WITHOUT_TERMINAL = 120
"""Columns of a table that goes into a pipe or a file."""
SLICE = 0.05
"""Seconds in which Ctrl-C is noticed."""
REFUSED = 4
"""Things that were asked for last and are not done."""
ATTRIBUTE = "user.entresol.dax"
SHOWN = 20
"""Ranges of a table, unless told."""

MountArgument = Annotated[
    Path, typer.Argument(metavar="MOUNT", help="Where the file system is mounted.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Persistent memory of a mounted file system.", no_args_is_help=True)
    group.command("top")(top)
    group.command("set")(set_command)
    group.command("map")(map_command)
    app.add_typer(group, name="dax")


def top(
    mount: MountArgument,
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
    as_json: JsonOption = False,
    interval: Annotated[
        float,
        typer.Option("--interval", metavar="SECONDS", min=0.05, max=3600, help="Between looks."),
    ] = 1.0,
    ranges: Annotated[
        int, typer.Option("--ranges", metavar="N", min=1, help="Ranges that are shown at most.")
    ] = SHOWN,
) -> None:
    """Show which ranges of files are in persistent memory, and why, until Ctrl-C.

    In a pipe it prints table after table. With --json it prints all that is known, once.
    """
    file_system = mounts.at(mounts.absolute(mount, mounts.DIRECTORY).resolve())
    if as_json:
        typer.echo(json.dumps(file_system.dax(), indent=2))
        return
    is_terminal = sys.stdout.isatty()
    console = Console(width=None if is_terminal else WITHOUT_TERMINAL, highlight=False)
    if once:
        console.print(frame(file_system.dax(), ranges))
        return
    with Interruption() as interruption:
        if not is_terminal:
            while not interruption.requested:
                console.print(frame(file_system.dax(), ranges))
                sys.stdout.flush()
                _wait(interruption, interval)
            return
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not interruption.requested:
                live.update(frame(file_system.dax(), ranges), refresh=True)
                _wait(interruption, interval)


def _wait(interruption: Interruption, interval: float) -> None:
    due = time.monotonic() + interval
    while time.monotonic() < due and not interruption.requested:
        time.sleep(min(SLICE, interval))


def set_command(
    mount: MountArgument,
    settings: Annotated[
        list[str],
        typer.Argument(metavar="KEY=VALUE", help="upgrade, downgrade, after, reserve, policy."),
    ],
) -> None:
    """Change how persistent memory is given out, while the file system is mounted.

    It writes to .entresol/dax of the mount, as `echo upgrade=50 > MOUNT/.entresol/dax` does.
    """
    file_system = mounts.at(mounts.absolute(mount, mounts.DIRECTORY).resolve())
    file_system.dax()
    file_system.set_dax(settings)
    now = file_system.dax()["settings"]
    words = (f"{key}={now[key]}" for key in ("policy", "upgrade", "downgrade", "after", "reserve"))
    typer.echo(f"{mount}: {' '.join(words)}")


def map_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of a mount.")],
    wanted: Annotated[
        str,
        typer.Argument(metavar="all|RANGES|none", help="Bytes of it, as in 0-2MiB,8MiB-10MiB."),
    ],
) -> None:
    """Ask for a file, or ranges of it, in persistent memory, or take that back.

    It sets the attribute user.entresol.dax, as setfattr does, and says why if it is refused. The
    attribute stays with the file.
    """
    path = mounts.absolute(file)
    file_system = mounts.around(path)
    try:
        if wanted == "none":
            os.removexattr(path, ATTRIBUTE)
        else:
            os.setxattr(path, ATTRIBUTE, wanted.encode())
    except OSError as error:
        if error.errno != errno.ENODATA:
            is_wrong = error.errno == errno.EINVAL
            why = file_system.refusal(path.stat().st_ino, wanted) if is_wrong else None
            raise UserError(f"{file}: {why or error.strerror}.") from None
    typer.echo(f"{file}: {wanted}")


def frame(told: Json, most: int) -> RenderableType:
    """Memory, counters, and the ranges with the most memory."""
    parts: list[RenderableType] = [_memory(told), _counters(told)]
    if told["lacked"] is not None:
        parts.append(Text(told["lacked"]["why"], style="yellow"))
    parts.extend(Text(_refused(each), style="yellow") for each in told["refused"][-REFUSED:])
    rows = [(file, part) for file in told["files"] for part in file["ranges"]]
    rows.sort(key=lambda row: (-row[1]["frames"], -row[1]["write_backs"]))
    parts.append(_ranges(rows[:most]))
    if len(rows) > most:
        parts.append(Text(f"{len(rows) - most:,} ranges more; --ranges shows them"))
    mapped = [file for file in told["files"] if file["explicit_pages"]]
    parts.extend(_mapped(file) for file in mapped)
    return Group(*parts)


def _refused(each: Json) -> str:
    of = "" if each["inode"] is None else f" of inode {each['inode']}"
    if each["first_page"] is not None:
        begin = each["first_page"] * PAGE
        of += f", {quantity.size(begin)} to {quantity.size(begin + each['pages'] * PAGE)}"
    times = "" if each["times"] == 1 else f", {each['times']:,} times"
    return f"refused{times}: {each['asked'] or 'nothing'}{of}: {each['why']}"


def _memory(told: Json) -> Text:
    memory, settings = told["memory"], told["settings"]
    used, all_of = memory["in_use"] * PAGE, memory["frames"] * PAGE
    now = told["thresholds"]
    names = ("upgrade", "downgrade", "after")
    adapted = now is not None and any(now[name] != settings[name] for name in names)
    by = now if adapted else settings
    set_to = f" (set to {'/'.join(str(settings[name]) for name in names)})" if adapted else ""
    held = (
        "memory: the device's log, by lines and for no page in particular"
        if told["at"] == "log"
        else f"memory: {quantity.size(used)} of {quantity.size(all_of)} in use, of it "
        f"{quantity.size(memory['of_explicit'] * PAGE)} by explicit mappings, for which "
        f"{quantity.size(memory['reserved'] * PAGE)} are kept"
    )
    return Text(
        f"policy {settings['policy']}: upgrade above {by['upgrade']} %, downgrade below "
        f"{by['downgrade']} %, after {by['after']} writes{set_to}; ranges of "
        f"{quantity.size(PAGE << settings['order'])}\n{held}"
    )


def _counters(told: Json) -> Text:
    counters = told["counters"]
    return Text(
        f"syncs: {counters['light_syncs']:,} by stores alone, {counters['syncs_without_room']:,} "
        f"without room; moves: {counters['upgrades']:,} up, {counters['downgrades']:,} down, "
        f"{counters['failures']:,} failed, {counters['evictions']:,} evictions, "
        f"{counters['predicted_upgrades']:,} predicted\ntracker: "
        f"{counters['tracked_ranges']:,} ranges, {quantity.size(counters['tracker_bytes'])}"
    )


def _ranges(rows: list[tuple[Json, Json]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in ("inode", "from", "size"):
        table.add_column(name, justify="right")
    table.add_column("stage")
    for name in ("writes", "synced", "ratio", "memory"):
        table.add_column(name, justify="right")
    for file, part in rows:
        ratio = part["ratio_percent"]
        table.add_row(
            str(file["inode"]),
            quantity.size(part["first_page"] * PAGE),
            quantity.size(part["pages"] * PAGE),
            part["stage"],
            f"{part['writes']:,}",
            f"{part['write_backs']:,}",
            quantity.NOTHING if ratio is None else f"{ratio} %",
            quantity.size(part["frames"] * PAGE),
        )
    return table


def _mapped(file: Json) -> Text:
    spans = (
        "all" if span == [0, None] else f"{quantity.size(span[0] * PAGE)} to {_end(span[1])}"
        for span in file["explicit_pages"]
    )
    return Text(f"inode {file['inode']} is mapped explicitly: {', '.join(spans)}")


def _end(page: int | None) -> str:
    return "the end" if page is None else quantity.size(page * PAGE)
