"""`entresol fs crash`: power cuts under every operation of a file system."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from entresol import core, crash_labs, quantity
from entresol.cli.crash_scripts import check_output, repeated, watched, write
from entresol.cli.options import JsonOption
from entresol.core import Json
from entresol.errors import UserError, did_you_mean

FOUND = 1
LONGEST = 4
FEW_BLOCKS = 80
"""Blocks of a nearly full file system: some are kept for metadata."""
SCATTERED_BLOCKS = 6
"""Fewer than these are left of a full one, each by itself."""

OF_LOG = ("bytefs", "bytefs-log")
BATTERIES = ("dram", "blocks")
DAX_MODES: dict[str, str | None] = {
    "off": None,
    "auto": "ratio",
    "predict": "predict",
    "adaptive": "adaptive",
    "always": "always",
}
"""As users say it, and the policy that it stands for."""

_SCRIPT = Path("fs-crash.txt")


def register(app: typer.Typer) -> None:
    """Adds the commands to the group `fs`."""
    crash = typer.Typer(
        help="Cut the power of a small device at every request of a file system.",
        rich_markup_mode=None,
    )
    crash.command("run")(run)
    crash.command("repeat")(repeat)
    app.add_typer(crash, name="crash")


def run(
    length: Annotated[
        int, typer.Option("--length", metavar="N", min=1, max=LONGEST, help="Operations each.")
    ] = 1,
    sequences: Annotated[
        int | None,
        typer.Option("--sequences", metavar="N", min=1, help="So many by chance; else all."),
    ] = None,
    personality: Annotated[
        str, typer.Option("--personality", metavar="NAME", help="The file system.")
    ] = "bytefs",
    data: Annotated[
        str,
        typer.Option(
            "--data",
            metavar="MODE",
            help="How it is mounted, and judged: ordered, or journal, where writes are whole.",
        ),
    ] = "ordered",
    dax: Annotated[
        str,
        typer.Option(
            "--dax",
            metavar="MODE",
            help="On a device with a little persistent memory, which files use: "
            f"{', '.join(DAX_MODES)}.",
        ),
    ] = "off",
    safe_log: Annotated[
        bool,
        typer.Option(
            "--safe-log",
            help="On a device of which the log alone survives; it is the persistent memory too.",
        ),
    ] = False,
    two_tasks: Annotated[
        bool, typer.Option("--two-tasks", help="A half of each is done by another task meanwhile.")
    ] = False,
    nearly_full: Annotated[
        bool, typer.Option("--nearly-full", help="Freed blocks are soon given out again.")
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Few single blocks are left: operations are refused for want of room."
        ),
    ] = False,
    battery: Annotated[
        str | None,
        typer.Option(
            "--battery",
            metavar="dram|blocks",
            help="No log, and a battery for all DRAM, as in the figures, or for blocks.",
        ),
    ] = None,
    device_every: Annotated[
        int,
        typer.Option(
            "--device-every",
            metavar="N",
            min=0,
            help="At one in N cuts the firmware too loses its power and recovers; 0: never.",
        ),
    ] = 16,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of what is chosen.")] = 0,
    threads: Annotated[
        int | None,
        typer.Option("--threads", metavar="N", min=1, help="The result is the same with any."),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Script of what fails.")
    ] = _SCRIPT,
    as_json: JsonOption = False,
) -> None:
    """Run sequences of operations; exit with 1 and write the shortest script if one fails."""
    check_output(output)
    known = core.fs_personalities()
    if personality not in known:
        hint = did_you_mean(personality, known) or f" There are {', '.join(known)}."
        raise UserError(f"unknown personality {personality}.{hint}")
    if two_tasks and length == 1:
        raise UserError("--two-tasks needs --length 2 at least, an operation for each task.")
    if dax not in DAX_MODES:
        hint = did_you_mean(dax, tuple(DAX_MODES)) or f" There are {', '.join(DAX_MODES)}."
        raise UserError(f"--dax {dax}: is no mode.{hint}")
    if full and nearly_full:
        raise UserError("--full and --nearly-full exclude each other: leave one out.")
    if battery is not None and battery not in BATTERIES:
        hint = did_you_mean(battery, BATTERIES) or f" There are {' and '.join(BATTERIES)}."
        raise UserError(f"--battery {battery}: is nothing that a battery keeps.{hint}")
    if battery and personality in OF_LOG:
        raise UserError(f"--battery: {personality} runs on a device with a log, which has one.")
    if safe_log and personality not in OF_LOG:
        raise UserError(f"--safe-log is of {' and '.join(OF_LOG)}, which use the log.")
    protection = "log" if safe_log else battery or "usual"
    options: Json = {
        "personality": personality,
        "data": data,
        "dax": DAX_MODES[dax],
        "protection": protection,
        "length": length,
        "sequences": sequences,
        "seed": seed,
        "two_tasks": two_tasks,
        "free_blocks": FEW_BLOCKS if nearly_full else None,
        "scattered_blocks": SCATTERED_BLOCKS if full else None,
        "device_every": device_every,
        "threads": threads or os.cpu_count() or 1,
    }
    result = watched(crash_labs.FsCrashLab(options))
    finding = result["finding"]
    if finding is not None:
        write(output, finding["script"])
    if as_json:
        sys.stdout.write(json.dumps(result, indent=2) + "\n")
    else:
        _print_tally(result["tally"])
        if result["impossible"]:
            typer.echo(f"{result['impossible']:,} sequences make impossible what they need later")
    if finding is not None:
        if not as_json:
            _print_finding(finding)
            typer.echo(f"script: {output}; entresol fs crash repeat {output} repeats it")
        raise typer.Exit(FOUND)


def repeat(
    script: Annotated[Path, typer.Argument(metavar="FILE", help="A script of operations.")],
    as_json: JsonOption = False,
) -> None:
    """Run a script of operations and cut everywhere; exit with 1 if something is wrong."""
    result = repeated(script, crash_labs.fs_crash_repeat)
    if as_json:
        sys.stdout.write(json.dumps(result, indent=2) + "\n")
    else:
        _print_tally(result["tally"])
        if result["finding"] is not None:
            _print_finding(result["finding"])
    if result["finding"] is not None:
        raise typer.Exit(FOUND)


def _print_tally(tally: Json) -> None:
    typer.echo(
        f"{quantity.count(tally['crash_points'])} crash points of {tally['sequences']:,} "
        f"sequences judged, {tally['states']:,} different states recovered; "
        f"{tally['device_cuts']:,} cuts of the device itself, {tally['recovery_points']:,} points "
        f"within recoveries; at most {tally['most_in_flight']:,} requests in flight"
    )
    if tally["refused"]:
        typer.echo(f"{tally['refused']:,} operations refused for want of room")
    if tally["light_syncs"] or tally["upgrades"]:
        typer.echo(
            f"persistent memory: {tally['light_syncs']:,} syncs by stores alone, "
            f"{tally['syncs_without_room']:,} without room, {tally['upgrades']:,} upgrades, "
            f"{tally['downgrades']:,} downgrades, {tally['evictions']:,} evictions"
        )


def _print_finding(finding: Json) -> None:
    typer.echo(f"{finding['cut']}: {finding['what']}")
