"""`entresol results gc`: what may go from the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from entresol import quantity, units
from entresol.choices import Captures
from entresol.cli.options import StoreOption
from entresol.errors import UserError
from entresol.store import clear_captures, clear_others, clear_results, location, search
from entresol.store.result_store import Store


def gc_command(
    older: Annotated[
        str | None,
        typer.Option("--older", metavar="SPAN", help="What was not used for, such as 12h or 30d."),
    ] = None,
    other_core: Annotated[
        bool, typer.Option("--other-core", help="Results of other builds than this one.")
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="SIZE", help="All but the last used ones up to this size."),
    ] = None,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Files that count as absent because of damage.")
    ] = False,
    chosen: Annotated[
        Captures | None,
        typer.Option(
            "--captures",
            help="Not results but captures: those that no result is of, or all.",
        ),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Do it; otherwise only say it.")] = False,
    store: StoreOption = None,
) -> None:
    """Remove results not used for a time, of other builds, beyond a size; or captures.

    --older is of results of captures, of loads of file systems and of windows in the steady state,
    and of files of misses; the other options of results of captures alone.
    Without --delete it only says what it would remove. It never removes what is being made or was
    used since a command began that is still at work; captures used within an hour only if --older
    says so.
    """
    kept = Store(location.store_directory(store))
    if chosen is not None:
        if other_core or damaged or keep is not None:
            raise UserError("--captures: goes with --older alone; clear results by themselves.")
        typer.echo(_captures(kept, chosen, older, delete))
        return
    if older is None and keep is None and not other_core and not damaged:
        raise UserError(
            "say what may go: --older SPAN, --other-core, --keep SIZE, --damaged or --captures."
        )
    typer.echo(_results(kept, older, other_core, keep, damaged, delete))


def _results(
    kept: Store, older: str | None, other_core: bool, keep: str | None, damaged: bool, delete: bool
) -> str:
    most = None if keep is None else units.size_of(keep, "--keep")
    has_filter = older is not None or other_core
    wanted = search.filter_of(None, None, None, older, None, other_core) if has_filter else None
    planned = clear_results.plan(kept, wanted, most, damaged=damaged)
    if delete:
        clear_results.remove(kept, planned)
    rest = [_files(planned.litter, "never finished")] if planned.litter else []
    rest += [_files(planned.damaged, "damaged")] if planned.damaged or damaged else []
    spared = f"spared {planned.spared} that a command at work may need" if planned.spared else ""
    if older is not None and not other_core:
        others = clear_others.plan(kept, units.seconds_of(older, "--older"))
        if delete:
            clear_others.remove(others)
        if others.total:
            rest.append(f"{len(others.files)} of {others.total} files of loads, steady windows and "
                        f"misses, {quantity.size(others.size)}")  # fmt: skip
    count = f"{len(planned.items)} of {planned.total} results"
    return _said(count, planned.size, planned.total_size, rest, spared, delete)


def _files(files: Sequence[object], what: str) -> str:
    return f"{len(files)} {'file that was' if len(files) == 1 else 'files that were'} {what}"


def _captures(kept: Store, chosen: Captures, older: str | None, delete: bool) -> str:
    age = None if older is None else units.seconds_of(older, "--older")
    planned = clear_captures.plan(kept, chosen, age)
    if delete:
        clear_captures.remove(planned)
    rest = [_files(planned.litter, "never finished")] if planned.litter else []
    why = "that are being made, were used by a command at work, or within an hour"
    spared = f"spared {planned.spared} {why}" if planned.spared else ""
    count = f"{len(planned.captures)} of {planned.total} captures"
    return _said(count, planned.size, planned.total_size, rest, spared, delete)


def _said(
    count: str, size: int, total: int, rest: Sequence[str], spared: str, is_done: bool
) -> str:
    text = f"{'removed' if is_done else 'would remove'} {count}, "
    text += f"{quantity.size(size)} of {quantity.size(total)}"
    text += f", and {', '.join(rest)}" if rest else ""
    text += f"; {spared}" if spared else ""
    return text + ("." if is_done else "; --delete does it.")
