"""`entresol device crash`: power cuts at every step of the firmware."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from entresol import crash_labs
from entresol.cli.crash_scripts import check_output, repeated, watched, write
from entresol.cli.options import JsonOption
from entresol.core import Json
from entresol.errors import Failed

FOUND = 1

_SCRIPT = Path("crash.txt")


def register(app: typer.Typer) -> None:
    """Adds the commands to the group `device`."""
    crash = typer.Typer(
        help="Cut the power of a small device at every step of its firmware.",
        rich_markup_mode=None,
    )
    crash.command("run")(run)
    crash.command("repeat")(repeat)
    app.add_typer(crash, name="crash")


def run(
    points: Annotated[
        int, typer.Option("--points", metavar="N", min=1, help="Crash points to judge, at least.")
    ] = 200_000,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Of the first workload.")
    ] = 0,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Script of what fails.")
    ] = _SCRIPT,
    as_json: JsonOption = False,
) -> None:
    """Run random workloads; exit with 1 and write a small script if one fails."""
    check_output(output)
    result = watched(crash_labs.CrashLab(seed, points))
    failure = result["failure"]
    if failure is not None and failure["script"] is not None:
        write(output, failure["script"])
    if as_json:
        sys.stdout.write(json.dumps(result, indent=2) + "\n")
    else:
        _print_tally(result["tally"])
    if failure is not None:
        if not as_json:
            _print_failure(failure, output)
        raise typer.Exit(FOUND)


def repeat(
    script: Annotated[Path, typer.Argument(metavar="FILE", help="A crash script.")],
    as_json: JsonOption = False,
) -> None:
    """Run a crash script; exit with 1 if something is wrong after a cut, or its cut never comes."""
    result = repeated(script, crash_labs.crash_repeat)
    finding = result["finding"]
    if as_json:
        sys.stdout.write(json.dumps(result, indent=2) + "\n")
    else:
        _print_tally(result["tally"])
        _print_passed_over(result["script"])
        if finding is not None:
            _print_finding(finding)
    if finding is not None:
        raise typer.Exit(FOUND)
    if result["script"]["cut_is_missing"]:
        raise Failed(
            f"{script}: the last step never comes to the cut that the script names, so nothing was "
            "judged; without its lines cut and cut_again every cut is."
        )


def _print_tally(tally: Json) -> None:
    typer.echo(
        f"{tally['crash_points']:,} crash points judged, {tally['device_states']:,} distinct "
        f"device states; {tally['repeats']:,} more left what an earlier one had left; "
        f"{tally['reads']:,} reads compared while the power was on"
    )


def _print_passed_over(script: Json) -> None:
    if script["passed_over"]:
        typer.echo(
            f"{script['passed_over']:,} of {script['steps']:,} steps could not be done, the first "
            f"in line {script['first_line']:,}"
        )


def _print_failure(failure: Json, output: Path) -> None:
    typer.echo(f"the workload of seed {failure['seed']} fails: {failure['what']}")
    if failure["script"] is None:
        return
    _print_finding(failure["finding"])
    typer.echo(f"script: {output}; entresol device crash repeat {output} repeats it")


def _print_finding(finding: Json) -> None:
    when = "with the power on" if finding["cut"] is None else f"after the cut {finding['cut']}"
    typer.echo(f"in step {finding['step']} ({finding['statement']}), {when}: {finding['what']}")
