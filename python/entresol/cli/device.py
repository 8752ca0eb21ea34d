"""`entresol device`: presets, create, info, stats, fsck, and the commands of other modules."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from entresol import cloning, core, quantity, study
from entresol.cli import (
    device_crash,
    device_latencies,
    device_recovery_time,
    device_serve,
    device_top,
)
from entresol.cli.options import ConfigOption, JsonOption, SetOption
from entresol.core import Json
from entresol.errors import UserError
from entresol.interruption import Interruption
from entresol.summary import to_text
from entresol.terminal import print_table

PROBLEMS_FOUND = 1
"""Exit code of `fsck` when an image is not sound, or its flash has lost pages."""

app = typer.Typer(
    help="Memory-semantic SSDs of real bytes, each in an image on the disk.", rich_markup_mode=None
)

ImageArgument = Annotated[
    Path, typer.Argument(metavar="IMAGE", help="The directory that `device create` made.")
]
PresetOption = Annotated[
    str, typer.Option("--preset", metavar="NAME", help="What the device is; `presets` lists all.")
]


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    for module in (device_serve, device_top, device_recovery_time, device_crash):
        module.register(app)
    parent.add_typer(app, name="device")


@app.command()
def presets(
    keys: Annotated[
        bool, typer.Option("--keys", help="List the parameters of a device instead.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the presets with where their values come from, or all parameters."""
    if as_json:
        listed = core.device_parameters() if keys else core.device_presets()
        sys.stdout.write(to_text([asdict(entry) for entry in listed]))
        return
    table = Table(box=None, pad_edge=False)
    if keys:
        for title in ("key", "kind", "range", "what"):
            table.add_column(title, overflow="fold")
        for parameter in core.device_parameters():
            table.add_row(
                Text(parameter.key), parameter.kind, Text(parameter.range), Text(parameter.doc)
            )
    else:
        table.add_column("preset", no_wrap=True)
        table.add_column("what it is, and where each value is from", overflow="fold")
        for preset in core.device_presets():
            table.add_row(Text(preset.name), Text(preset.about))
    print_table(Console(highlight=False), table)


@app.command()
def create(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="Where nothing is yet.")],
    preset: PresetOption = "bytefs",
    overrides: SetOption = None,
    config: ConfigOption = None,
) -> None:
    """Make the image of an empty device, and print its path.

    Its parameters are written into it and stay: preset < --config < --set.
    """
    if not image.name:
        raise UserError(f"{str(image)!r}: names no image; give it a name of its own")
    files = study.read_config_files(config or ())
    with Interruption() as interruption:
        core.device_create(image, preset, files, tuple(overrides or ()))
        about = core.device_info(image)
        if interruption.requested:
            shutil.rmtree(image)
            raise KeyboardInterrupt
    print(
        f"{quantity.size(about['capacity_bytes'])} of {preset}, "
        f"{quantity.size(about['disk_bytes'])} on the disk so far",
        file=sys.stderr,
    )
    print(image)


@app.command()
def clone(
    image: ImageArgument,
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Where nothing is yet.")],
    as_json: JsonOption = False,
) -> None:
    """Make another image with what one holds, which nobody uses, and print its path.

    Where the host's file system can (Btrfs, XFS), both share their blocks and it takes no time.
    """
    _print_clone(image, new, cloning.clone(image, new), as_json=as_json)


def _print_clone(image: Path, new: Path, done: cloning.Cloned, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(to_text({"image": str(new)} | asdict(done)))
        return
    copied = quantity.size(done.bytes)
    how = "shares its blocks" if done.shares else f"{copied} copied: no reflinks here"
    print(f"{image}: cloned, {how}", file=sys.stderr)
    print(new)


@app.command()
def snapshot(
    image: ImageArgument,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Of a new one; without it all are listed."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Clone an image, which nobody uses, to a place in its own directory, and print its path.

    `entresol device clone IMAGE/snapshots/NAME NEW` goes back to it. Without NAME: list them.
    """
    if name is None:
        _list_snapshots(image, as_json=as_json)
        return
    new, done = cloning.snapshot(image, name)
    _print_clone(image, new, done, as_json=as_json)


def _list_snapshots(image: Path, *, as_json: bool) -> None:
    found = cloning.snapshots(image)
    if as_json:
        listed = [
            {"name": each.name, "image": str(each.image), "made": each.made} for each in found
        ]
        sys.stdout.write(to_text({"snapshots": listed}))
        return
    for each in found:
        made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each.made))
        print(f"{made}  {each.image}")
    if not found:
        print(f"{image}: has no snapshots", file=sys.stderr)


@app.command()
def info(image: ImageArgument, as_json: JsonOption = False) -> None:
    """Say what a device is; it may be in use."""
    about = core.device_info(image)
    if as_json:
        sys.stdout.write(to_text(about))
        return
    console = Console(highlight=False)
    print_table(console, _pairs(_description(about)))
    for section, values in about["configuration"].items():
        console.print(Text(f"\n[{section}]"))
        print_table(console, _pairs([(key, value) for key, value in values.items()]))


@app.command()
def stats(
    image: ImageArgument,
    as_json: JsonOption = False,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print Prometheus text on stdout.")
    ] = False,
) -> None:
    """Say what a device has done since it was made; it may be in use."""
    if as_json and prometheus:
        raise UserError("--json and --prometheus are two forms of the same; choose one")
    if prometheus:
        sys.stdout.write(core.device_prometheus(image, str(image)))
        return
    numbers: Json = core.device_info(image)["statistics"]
    if as_json:
        sys.stdout.write(to_text(numbers))
        return
    of_requests = numbers.pop("latencies")
    console = Console(highlight=False)
    print_table(console, _pairs([(name, _shown(name, numbers[name])) for name in numbers]))
    console.print()
    print_table(console, device_latencies.table(of_requests))


@app.command()
def fsck(image: ImageArgument, as_json: JsonOption = False) -> None:
    """Check an image against itself: tables, flash, every page's checksum. It is not changed.

    Exit code 0 if it is sound, 1 if it is not or if its flash has lost pages.
    """
    found = core.device_fsck(image)
    if as_json:
        sys.stdout.write(to_text(found))
    else:
        _print_findings(image, found)
    if found["problem_count"] or found["lost_pages"]:
        raise typer.Exit(PROBLEMS_FOUND)


def _print_findings(image: Path, found: Json) -> None:
    for problem in found["problems"]:
        print(problem)
    unwritten = found["problem_count"] - len(found["problems"])
    if unwritten:
        print(f"… and {unwritten:,} more problems")
    for loss in found["lost"]:
        print(loss)
    unwritten = found["lost_pages"] - len(found["lost"])
    if unwritten:
        print(f"… and {unwritten:,} more lost pages")
    ending = "was cut off" if found["was_cut_off"] else "was closed in order"
    print(
        f"{image}: {_count(found['problem_count'], 'problem')}; "
        f"{_count(found['mapped_pages'], 'page')} on flash, "
        f"{_count(found['logged_lines'], 'line')} in the log, "
        f"{_count(found['buffered_pages'], 'page')} in buffers, "
        f"{_count(found['framed_pages'], 'page')} in frames; "
        f"{_count(found['lost_pages'], 'page')} lost, "
        f"{_count(found['retired_blocks'], 'block')} retired, "
        f"{found['condemned_blocks']:,} to be retired; "
        f"the most worn block has {_count(found['most_wear_erases'], 'erase')}; the device {ending}"
    )


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _description(about: Json) -> list[tuple[str, str]]:
    return [
        ("name", about["id"]),
        ("capacity", quantity.size(about["capacity_bytes"])),
        ("flash", quantity.size(about["raw_bytes"])),
        ("block", quantity.size(about["block_bytes"])),
        ("write log", quantity.size(about["write_log_bytes"])),
        ("on the disk", quantity.size(about["disk_bytes"])),
        ("in use", "yes" if about["is_open"] else "no"),
        ("health", _health(about["statistics"])),
    ]


def _health(numbers: Json) -> str:
    state = "read-only, worn out" if numbers["is_read_only"] else "good"
    if numbers["is_stuck"]:
        state = "read-only until its power has been off"
    if numbers["is_stopped"]:
        state = "stopped, since the disk was full"
    return (
        f"{state}: {numbers['available_spare_percent']} % of the spare room left, "
        f"{numbers['wear_used_percent']} % of the rated erases used, "
        f"{_count(numbers['retired_blocks'], 'block')} retired, "
        f"{_count(numbers['media_errors'], 'read')} failed"
    )


def _shown(name: str, value: int) -> str:
    if name.endswith("_ps"):
        return quantity.duration(value)
    if name.endswith("_bytes"):
        return quantity.size(value)
    return f"{value:,}"


def _pairs(pairs: list[tuple[str, str]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(name), Text(value))
    return table


device_crash.register(app)
