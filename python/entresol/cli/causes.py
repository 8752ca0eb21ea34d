"""`entresol causes`: what each switch is worth for numbers of a paper's text."""

from __future__ import annotations

import math
import sys
from typing import Annotated

import typer
from rich.table import Table

from entresol import papers, quantity, summary, terminal
from entresol.choices import Mode
from entresol.cli import complete
from entresol.cli.figure import (
    CapturesOption,
    ScaleOption,
    SchedulerOption,
    Watcher,
    WorkloadsOption,
    say,
)
from entresol.cli.options import JobsOption, JsonOption, ModeOption, StoreOption
from entresol.core import Json
from entresol.errors import UserError, did_you_mean
from entresol.figures import closing_page, ranking, reproduction, simulate
from entresol.figures.causes import Change
from entresol.figures.claims import MEASURED, SIMULATED, Claim
from entresol.figures.paper import PAPER
from entresol.figures.ranking import Ranked
from entresol.figures.reproduction import Reproduction
from entresol.store import location
from entresol.store.result_store import Store

NOTHING = 0.005
"""Who moves a claim by less, first in and last in (of logarithms), is only counted."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("causes")(causes_command)


def causes_command(
    name: Annotated[str, typer.Argument(metavar="PAPER", autocompletion=complete.rooms)],
    claims: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CLAIM…]", help="As on the page; all simulated ones if left out."),
    ] = None,
    switches: Annotated[
        list[str] | None,
        typer.Option("--switch", metavar="NAME[+NAME],…",
                     help="Switches to look at; repeatable. The paper's are the default. Those "
                          "joined by + are turned on together, with KEY=VALUE among them or not.",
                     autocompletion=complete.fidelity),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE…",
                     help="Parameters to look at, too: what belongs together in one text."),
    ] = None,
    scale: ScaleOption = "small",
    workloads: WorkloadsOption = None,
    mode: ModeOption = Mode.DETAILED,
    as_json: JsonOption = False,
    store: StoreOption = None,
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    captures: CapturesOption = None,
) -> None:  # fmt: skip
    """Rank the switches of a paper by what each is worth for a number of its text.

    Each is turned on alone (first in) and taken out of all (last in); factors are of the claim.
    """
    study = reproduction.of(papers.with_claims(name))
    chosen = _claims(study, claims or [])
    settings = study.paper.settings(scale, PAPER, mode, workloads or [])
    changes = ranking.candidates(study, switches or [], sets or [])
    simulate.reach(scheduler)
    kept = location.store_directory(store)
    source = simulate.source_of(captures, settings, kept)
    with Watcher() as watcher:
        simulation = simulate.Simulation(Store(kept), source, jobs, scheduler, watcher.watch, say)
        ranked, failures = ranking.rank(study, settings, chosen, changes, simulation)
    if not ranked:
        raise UserError(f"nothing could be simulated: {next(iter(failures), 'no run was asked')}")
    if as_json:
        sys.stdout.write(summary.to_text({"claims": [_as_json(each) for each in ranked]}))
    else:
        for each in ranked:
            _print(each)
    for why in failures:
        say(why)
    if failures:
        raise typer.Exit(1)


def _claims(study: Reproduction, names: list[str]) -> list[Claim]:
    simulated = {claim.quantity: claim for claim in study.claims
                 if claim.rule.kind in (SIMULATED, MEASURED)}  # fmt: skip
    for name in names:
        if name not in simulated:
            hint = did_you_mean(name, list(simulated)) or f" Choose from {'; '.join(simulated)}."
            raise UserError(f"{name}: is no simulated claim of {study.paper.name}.{hint}")
    return [simulated[name] for name in names or simulated]


def _text(change: Change) -> str:
    return closing_page.change_text(change, PAPER).strip("`")


def _is_nothing(ranked: Ranked, change: Change) -> bool:
    worth = ranked.closing.worths[change]
    return math.isfinite(worth.first_in + worth.last_in) and worth.weight < NOTHING


def _print(ranked: Ranked) -> None:
    found, console = ranked.closing, terminal.wide_console()
    head = (f"{found.claim.quantity}: ours {quantity.significant(found.ours)}, published "
            f"{found.claim.published:g}, needed {closing_page.factor(found.needed)}")  # fmt: skip
    console.print(head, style="bold", highlight=False, markup=False, soft_wrap=True)
    table = Table(pad_edge=False)
    table.add_column("candidate", no_wrap=True)
    for column in ("first in", "last in", "of the way"):
        table.add_column(column, justify="right")
    shown = [change for change in ranked.order if not _is_nothing(ranked, change)]
    for change in shown:
        worth = found.worths[change]
        shares = " · ".join(_percent(share) for share in ranked.shares(change))
        table.add_row(_text(change).removeprefix("--fidelity "),
                      closing_page.factor(worth.first_in), closing_page.factor(worth.last_in),
                      shares)  # fmt: skip
    table.add_section()
    whole = math.nan if found.together is None else found.together / found.ours
    closed = "–" if found.share is None else _percent(found.share)
    table.add_row("all together", closing_page.factor(whole), "", f"{closed} closed")
    terminal.print_table(console, table)
    if less := len(ranked.order) - len(shown):
        console.print(f"  {less} more move it by less than {100 * NOTHING:g} %", highlight=False)


def _percent(share: float) -> str:
    return f"{100 * share:+.0f} %" if math.isfinite(share) else quantity.NOTHING


def _as_json(ranked: Ranked) -> Json:
    def micro(value: float | None) -> int | None:
        return None if value is None or not math.isfinite(value) else round(value * 10**6)

    found = ranked.closing
    return {
        "claim": found.claim.quantity,
        "published_micro": micro(found.claim.published),
        "ours_micro": micro(found.ours),
        "together_micro": micro(found.together),
        "closed_micro": micro(found.share),
        "candidates": [
            {
                "name": _text(change),
                "first_in_micro": micro(found.worths[change].first_in),
                "last_in_micro": micro(found.worths[change].last_in),
            }
            for change in ranked.order
        ],
    }
