"""`entresol fs bench`: loads of file systems in virtual time."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from entresol import core, memory, study
from entresol.cli.fs_tables import latencies, overview
from entresol.cli.options import ConfigOption, JsonOption, SetOption
from entresol.errors import UserError, did_you_mean
from entresol.interruption import interruptible
from entresol.summary import to_text
from entresol.terminal import print_table, wide_console


def register(app: typer.Typer) -> None:
    """Adds the command to `entresol fs`."""
    app.command("bench")(bench)


def bench(
    load: Annotated[
        str | None,
        typer.Argument(metavar="LOAD", help="A load by name, or a TOML file of one."),
    ] = None,
    is_list: Annotated[bool, typer.Option("--list", help="List the loads.")] = False,
    personalities: Annotated[
        list[str] | None,
        typer.Option(
            "--personality",
            metavar="NAME|all",
            help="How the file system makes changes durable; bytefs if left out; may be repeated.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="PRESET",
            help="Of bytefs and bytefs-log: bytefs; of others bytefs-cache, without a log.",
        ),
    ] = None,
    scale: Annotated[
        int,
        typer.Option("--scale", metavar="N", help="One in N of files, rounds, memory and flash."),
    ] = 64,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of what is drawn.")] = 1,
    cores: Annotated[int, typer.Option("--cores", metavar="N", help="Of the host.")] = 28,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", help="As the load says if left out.")
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option("--cache", metavar="SIZE", help="Pages of the host before the scale; 8GiB."),
    ] = None,
    overrides: SetOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a load on file systems in virtual time: threads, files and a device, all simulated.

    The same command gives the same numbers, byte for byte. What exists before the run is made and
    synced outside the measured part; traffic is with the sync behind the run.
    """
    if is_list or load is None:
        _list(as_json)
        return
    known = core.fs_personalities()
    chosen = known if "all" in (personalities or ()) else personalities or known[:1]
    for name in chosen:
        if name not in known:
            hint = did_you_mean(name, known) or f" There are {', '.join(known)}, or all."
            raise UserError(f"unknown personality {name}.{hint}")
    text = _text_of(load)
    files = study.read_config_files(config or ())
    for name in chosen:
        needed = core.fs_bench_memory(load, name, text=text, device=device, files=files,
                                      overrides=tuple(overrides or ()), scale=scale,
                                      cache=cache)  # fmt: skip
        memory.require(needed, f"{load} on {name} at --scale {scale}", memory.available())
    results = [
        interruptible(partial(core.fs_bench, load, name, text=text, device=device, files=files,
                              overrides=tuple(overrides or ()), scale=scale, seed=seed, cores=cores,
                              threads=threads, cache=cache))
        for name in chosen
    ]  # fmt: skip
    if as_json:
        sys.stdout.write(to_text(results))
        return
    console = wide_console()
    print_table(console, overview(results))
    for result in results:
        console.print()
        console.print(f"{result['conditions']['personality']}: operations", highlight=False)
        print_table(console, latencies(result))


def _text_of(load: str) -> str | None:
    """The text of a load of the user's; none of one that ships with Entresol."""
    if not load.endswith(".toml"):
        return None
    try:
        return Path(load).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UserError(f"{load}: cannot be read: {why}.") from error


def _list(as_json: bool) -> None:
    loads = core.fs_loads()
    if as_json:
        sys.stdout.write(to_text([vars(load) for load in loads]))
        return
    for load in loads:
        typer.echo(f"{load.name:<11} {load.about.split('. ')[0].rstrip('.')}.")
