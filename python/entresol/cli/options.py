"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entresol import core
from entresol.choices import Dependencies, Mode
from entresol.cli import complete
from entresol.errors import UserError

MOST = 10_000
"""Repetitions, orders and ranks that a command takes; more would never end."""

MachineOption = Annotated[
    str,
    typer.Option(
        "--machine",
        help="Machine preset: table2 (the paper's), small (a sixteenth) or demo.",
        autocompletion=complete.machines,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a parameter; may be repeated.",
        autocompletion=complete.parameters,
    ),
]
ConfigOption = Annotated[
    list[Path] | None,
    typer.Option("--config", metavar="FILE.toml", help="Parameters from a file; repeatable."),
]
NandOption = Annotated[
    str | None,
    typer.Option(
        "--nand",
        metavar="TYPE",
        help="NAND type, as in SkyByte Table IV.",
        autocompletion=complete.nand_types,
    ),
]
FidelityOption = Annotated[
    str,
    typer.Option(
        "--fidelity",
        metavar="paper|[PAPER/]artifact|SWITCH…",
        help="What the papers say, what an artifact computes, or a list such as artifact,-NAME.",
        autocompletion=complete.fidelity,
    ),
]
ModeOption = Annotated[
    Mode,
    typer.Option(
        "--mode",
        help="Cores instruction by instruction, or from a filtered stream: quicker, approximate.",
    ),
]
DesignName = Annotated[
    str,
    typer.Option("--design", metavar="NAME", help="One design.", autocompletion=complete.designs),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
DesignOption = Annotated[
    list[str] | None,
    typer.Option(
        "--design",
        metavar="all|NAME…",
        help="Designs; all is the default.",
        autocompletion=complete.designs,
    ),
]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", metavar="N", min=1, help="Only the N busiest threads.")
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", min=1, help="Runs at a time; one per core if left out."),
]
OutputOption = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="DIR", help="Directory for the results.")
]
AuditOption = Annotated[bool, typer.Option("--audit", help="Check every invariant on the way.")]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", metavar="DIR", help="Where results are kept, else $ENTRESOL_STORE."),
]
NoStoreOption = Annotated[bool, typer.Option("--no-store", help="Simulate anew, and keep nothing.")]
TracesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE…", help="Captures or foreign traces; A.etr+B.etr runs two together."
    ),
]
TraceArgument = Annotated[
    str, typer.Argument(metavar="TRACE", help="A capture, a foreign trace, or A.etr+B.etr.")
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of foreign traces whose content does not tell it.",
        autocompletion=complete.formats,
    ),
]
DependenciesOption = Annotated[
    Dependencies,
    typer.Option(
        "--dependencies",
        help="Of sources without registers: independent accesses, or each waits for the last load.",
    ),
]
SlowdownOption = Annotated[
    float,
    typer.Option(
        "--slowdown",
        metavar="X",
        min=0.001,
        max=1e6,
        help="By how much the recording tool slowed the program, where a trace has times.",
    ),
]
CostOption = Annotated[
    str | None,
    typer.Option(
        "--cost",
        metavar="KEY=VALUE,…",
        help="For the report: $/GB of dram, flash, device_dram; pe_cycles of the flash.",
    ),
]
DeviceSourceOption = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="modelled|loop|loop:SOCKET|nvme:PATH|opencxd:PATH|recorded:FILE",
        help="The model alone; a firmware process, started if no socket is named; an NVMe device, "
        "of which all is lost; or recorded times.",
    ),
]
ProcessorOption = Annotated[
    str,
    typer.Option(
        "--processor",
        metavar="NAME|FILE.toml",
        help="The controller that firmware in the loop is timed for: cortex-a53, host or instant.",
    ),
]
DriveOption = Annotated[
    Path | None,
    typer.Option(
        "--drive",
        metavar="PATH",
        help="A file or block device that is the flash of firmware in the loop; it is overwritten.",
    ),
]
DriveSizeOption = Annotated[
    str | None,
    typer.Option(
        "--drive-size", metavar="SIZE", help="How much of the drive, from its beginning; else all."
    ),
]
OverwriteDeviceOption = Annotated[
    bool,
    typer.Option(
        "--overwrite-device",
        help="The drive may be a block device, or the device an NVMe device: all that is on it is "
        "lost.",
    ),
]
DeviceTimeoutOption = Annotated[
    float,
    typer.Option(
        "--device-timeout",
        metavar="SECONDS",
        min=0.001,
        max=86400,
        help="What firmware in the loop has for an answer.",
    ),
]


def drive_of(path: Path | None, size: str | None, overwrites: bool) -> core.Drive | None:
    """What the options of a drive say together. Raises `UserError`."""
    if path is not None:
        return core.Drive(path, size, overwrites)
    if size is not None or overwrites:
        raise UserError("--drive-size and --overwrite-device are of a drive: name it with --drive.")
    return None
