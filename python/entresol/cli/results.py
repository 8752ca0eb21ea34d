"""`entresol results`: list, show, diff, export, gc."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from entresol import quantity, result_table, summary, terminal
from entresol.atomic import OutputFile
from entresol.cli import results_gc
from entresol.cli.options import JsonOption, StoreOption
from entresol.core import Json
from entresol.errors import UserError
from entresol.store import differences, location, search
from entresol.store.differences import Change
from entresol.store.result_store import Store
from entresol.store.search import SHORT, Item

SHOWN = 40
"""Numbers that `diff` shows unless it is asked for all."""
WIDEST = 60

app = typer.Typer(help="Look at the results in the store.", rich_markup_mode=None)

TraceFilter = Annotated[
    list[str] | None, typer.Option("--trace", metavar="NAME", help="Only of this capture.")
]
DesignFilter = Annotated[
    list[str] | None, typer.Option("--design", metavar="NAME", help="Only of this design.")
]
WhereFilter = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="KEY=VALUE", help="Only with this value of a parameter."),
]
NewerFilter = Annotated[
    str | None, typer.Option("--newer", metavar="SPAN", help="Used within, such as 12h or 30d.")
]
OlderFilter = Annotated[
    str | None, typer.Option("--older", metavar="SPAN", help="Not used for, such as 12h or 30d.")
]
OtherCore = Annotated[
    bool, typer.Option("--other-core", help="Only of other builds, which this one does not take.")
]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="A key, or how it begins.")]


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    app.command("gc")(results_gc.gc_command)
    parent.add_typer(app, name="results")


def _kept(option: Path | None) -> Store:
    return Store(location.store_directory(option))


@app.command("list")
def list_command(
    trace: TraceFilter = None,
    design: DesignFilter = None,
    where: WhereFilter = None,
    newer: NewerFilter = None,
    older: OlderFilter = None,
    other_core: OtherCore = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List results: what was run, what was not the preset, and its time; the last used last."""
    wanted = search.filter_of(trace, design, where, older, newer, other_core)
    found = search.items(_kept(store), wanted)
    if as_json:
        sys.stdout.write(summary.to_text([_listed(item) for item in found]))
        return
    table = Table(title=_count(found), title_justify="left", title_style="bold", pad_edge=False)
    for name in ("key", "trace", "design", "not the preset", "build"):
        table.add_column(name, no_wrap=name != "not the preset")
    for name in ("time", "used"):
        table.add_column(name, justify="right", no_wrap=True)
    for item in found:
        table.add_row(*_cells(item))
    terminal.print_table(terminal.wide_console(), table)


def _count(found: list[Item]) -> str:
    size = quantity.size(sum(item.size for item in found))
    return f"{len(found)} {'result' if len(found) == 1 else 'results'}, {size}"


def _cells(item: Item) -> list[str]:
    entry = item.entry
    return [
        entry.key[:SHORT],
        str(entry.label.get("trace", "")),
        str(entry.inputs["design"]),
        _short(" ".join(_settings(item))),
        "this" if item.is_current else "other",
        quantity.duration(entry.result["execution_time_ps"]),
        f"{_age(time.time() - item.used)} ago",
    ]


def _settings(item: Item) -> list[str]:
    inputs = item.entry.inputs
    words = [str(item.entry.label.get("machine", ""))]
    words += [] if inputs["threads"] is None else [f"threads={inputs['threads']}"]
    words += ["audit"] if inputs["audit"] else []
    words += [f"{key}={value}" for key, value in inputs["setup"].items() if value != "detailed"]
    words += [f"fidelity={','.join(inputs['fidelity'])}"] if inputs["fidelity"] else []
    return [*words, *(f"{key}={value}" for key, value in item.changes().items())]


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def _listed(item: Item) -> Json:
    entry = item.entry
    return {
        "key": entry.key,
        "label": entry.label,
        "design": entry.inputs["design"],
        "threads": entry.inputs["threads"],
        "audit": entry.inputs["audit"],
        "fidelity": entry.inputs["fidelity"],
        "setup": entry.inputs["setup"],
        "changes": item.changes(),
        "is_current": item.is_current,
        "execution_time_ps": entry.result["execution_time_ps"],
        "size_bytes": item.size,
    }


@app.command("show")
def show_command(key: KeyArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Print a result: its inputs and its numbers."""
    item = search.one(_kept(store), key)
    entry = item.entry
    if as_json:
        sys.stdout.write(summary.to_text(_exported(item)))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("key", entry.key)
    for name, value in entry.label.items():
        table.add_row(name, str(value))
    table.add_row("design", str(entry.inputs["design"]))
    table.add_row("settings", " ".join(_settings(item)))
    table.add_row("build", "this" if item.is_current else "another than this")
    table.add_row("captures", " ".join(digest[:SHORT] for digest in entry.inputs["captures"]))
    for change in differences.numbers_of(entry):
        if not isinstance(change.other, list):
            table.add_row(change.name.removeprefix("statistics."), _text(change.other))
    for warning in entry.result["warnings"]:
        table.add_row("warning", warning)
    terminal.print_table(terminal.wide_console(), table)


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return "–" if value is None else str(value)
    return f"{value:,}"


@app.command("diff")
def diff_command(
    one: KeyArgument,
    other: KeyArgument,
    everything: Annotated[bool, typer.Option("--all", help="All numbers that differ.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say which inputs and which numbers of two results differ, the largest factors first."""
    kept = _kept(store)
    left, right = search.one(kept, one).entry, search.one(kept, other).entry
    inputs, numbers = differences.inputs(left, right), differences.numbers(left, right)
    if as_json:
        found = {"inputs": inputs, "numbers": numbers}
        text: Json = {name: [each.as_json() for each in list] for name, list in found.items()}
        sys.stdout.write(summary.to_text({"one": left.key, "other": right.key} | text))
        return
    console = terminal.wide_console()
    title = f"inputs that differ: {len(inputs)}"
    terminal.print_table(console, _changes(title, inputs, left.key, right.key))
    plain = [each for each in numbers if not isinstance(each.one or each.other, list)]
    plain.sort(key=lambda each: -each.weight)
    shown = plain if everything else plain[:SHOWN]
    title = f"numbers that differ: {len(plain)}"
    terminal.print_table(console, _changes(title, shown, left.key, right.key))
    if len(shown) < len(plain):
        console.print(f"  and {len(plain) - len(shown)} more; --all shows them", style="dim")


def _changes(title: str, changes: list[Change], one: str, other: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("name")
    for key in (one, other):
        table.add_column(key[:SHORT], justify="right")
    table.add_column("factor", justify="right")
    for each in changes:
        factor = "" if each.factor is None else quantity.significant(each.factor)
        name = each.name.removeprefix("statistics.").removeprefix("config.")
        table.add_row(name, _text(each.one), _text(each.other), factor)
    return table


@app.command("export")
def export_command(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.parquet|FILE.json")],
    trace: TraceFilter = None,
    design: DesignFilter = None,
    where: WhereFilter = None,
    newer: NewerFilter = None,
    older: OlderFilter = None,
    other_core: OtherCore = False,
    store: StoreOption = None,
) -> None:
    """Write results as one table: a row each in Parquet, or a JSON list."""
    wanted = search.filter_of(trace, design, where, older, newer, other_core)
    if output.suffix not in (".parquet", ".json"):
        raise UserError(f"{output}: ends in neither .parquet nor .json.")
    with OutputFile(output) as file:
        found = sorted(search.items(_kept(store), wanted), key=lambda item: item.entry.key)
        if not found:
            raise UserError("no result in the store fits; entresol results list shows what is.")
        if output.suffix == ".json":
            file.temporary.write_text(summary.to_text([_exported(item) for item in found]))
        else:
            result_table.write_rows([_row(item) for item in found], file.temporary)
        file.commit()
    typer.echo(f"{output}: {_count(found)}")


def _exported(item: Item) -> Json:
    entry = item.entry
    return {"key": entry.key, "label": entry.label, "inputs": entry.inputs, "result": entry.result}


def _row(item: Item) -> dict[str, Any]:
    entry = item.entry
    return {
        "key": entry.key,
        "machine": entry.label.get("machine"),
        "audit": entry.inputs["audit"],
        "fidelity": ",".join(entry.inputs["fidelity"]),
        **entry.inputs["setup"],
        **result_table.flatten(entry.result),
    }
