"""`entresol bench`: programs of others, measured on what is ours."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from entresol import core, units
from entresol.atomic import OutputDirectory
from entresol.cli.mount import DAX_MODES
from entresol.databases import cases, personalities, replaying, result, runs
from entresol.errors import UserError
from entresol.summary import to_text
from entresol.terminal import say

FLUSH = "1ms"
SWEPT = ("0.1ms", "3.5ms")
RECORDINGS = 3
REPEATS, QUICK_REPEATS, QUICK_SWEPT = 5, 3, 1
ROUNDS = 5

KNOWN_TYPES = tuple(
    kind
    for kind in cases.TYPES
    if cases.MOUNTED_WITH[kind].partition(",")[0].removeprefix("dax=") in DAX_MODES
)
"""Those that a mount can be of."""

app = typer.Typer(
    help="Measure programs of others on what is ours.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    app.command("dax")(dax)
    app.command("dax-replay")(dax_replay)
    app.command("personalities")(on_personalities)
    parent.add_typer(app, name="bench")


def dax(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="For results.json and table.md.")
    ] = Path("bench-dax"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Some cases, shorter runs, three turns.")
    ] = False,
    databases: Annotated[
        str | None,
        typer.Option("--databases", metavar="NAME,…", help=f"Of {', '.join(cases.DATABASES)}."),
    ] = None,
    types: Annotated[
        str | None,
        typer.Option(
            "--types",
            metavar="NAME,…",
            help=f"Of {', '.join(KNOWN_TYPES)}; quick leaves out the last two.",
        ),
    ] = None,
    variants: Annotated[
        str | None,
        typer.Option("--cases", metavar="NAME", help="Only the case, or those that begin so."),
    ] = None,
    flush: Annotated[
        str, typer.Option("--flush", metavar="SPAN", help="What a flush costs the drive.")
    ] = FLUSH,
    swept: Annotated[
        str, typer.Option("--sweep", metavar="SPAN,…", help="Other costs; empty for none.")
    ] = ",".join(SWEPT),
    repeats: Annotated[
        int | None, typer.Option("--repeats", metavar="N", min=1, help="Turns; 5, or 3 if quick.")
    ] = None,
    operations: Annotated[
        int | None,
        typer.Option(
            "--operations", metavar="N", min=1, help="Of each run, at most; not of pgbench."
        ),
    ] = None,
    kills: Annotated[
        bool, typer.Option("--kills/--no-kills", help="Kill the mount in the middle as well.")
    ] = True,
    record: Annotated[
        bool, typer.Option("--record/--no-record", help="Keep recordings for dax-replay.")
    ] = True,
    only_record: Annotated[
        bool, typer.Option("--only-record", help="Measure nothing; keep a recording of each case.")
    ] = False,
    work: Annotated[
        Path | None,
        typer.Option("--work", metavar="DIR", help="Where drives are made, and thrown away."),
    ] = None,
) -> None:
    """Run databases on a mount, without and with transparent DAX, and check their data.

    Each run has a new drive, mount and server; programs wait for the device's time.
    """
    names = cases.chosen(databases, cases.DATABASES, "--databases")
    kinds = cases.chosen(types, KNOWN_TYPES, "--types")
    if types is None and quick:
        kinds = tuple(kind for kind in kinds if kind in cases.THESIS_TYPES)
    if only_record and not record:
        raise UserError("--only-record --no-record: leaves nothing to do; give one of them.")
    all_cases = cases.quick() if quick else cases.full()
    chosen = [case for case in all_cases if case.database in names]
    if variants is not None:
        known = "; ".join(case.name for case in chosen)
        same = [case for case in chosen if case.name == variants]
        chosen = same or [case for case in chosen if case.name.startswith(variants)]
        if not chosen:
            raise UserError(f"--cases {variants}: no case's name begins so; there are {known}.")
    if operations is not None:
        chosen = [_at_most(case, operations) for case in chosen]
    plan = runs.Plan(
        tuple(chosen),
        kinds,
        _span(flush, "--flush"),
        tuple(_span(word, "--sweep") for word in swept.split(",") if word),
        repeats or (QUICK_REPEATS if quick else REPEATS),
        min(repeats or REPEATS, QUICK_SWEPT if quick else REPEATS),
        kills,
        RECORDINGS if record else 0,
        only_record,
    )
    plan = replace(plan, swept=tuple(span for span in plan.swept if span != plan.flush))
    with _workplace(work) as place, OutputDirectory(output) as results:
        outcome = runs.bench(plan, place, say)
        for path, told in outcome.recordings:
            shutil.copyfile(path, results.file(told["file"]))
        found = result.summary(plan, outcome)
        text = result.page(found)
        results.write("results.json", to_text(found))
        results.write("table.md", text)
        results.commit()
    sys.stdout.write(text)


def dax_replay(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="What bench dax has written.")
    ] = Path("bench-dax"),
    databases: Annotated[
        str | None,
        typer.Option("--databases", metavar="NAME,…", help=f"Of {', '.join(cases.DATABASES)}."),
    ] = None,
) -> None:
    """Play what bench dax has recorded in virtual time, with other flushes and thresholds.

    Writes replay.json and replay.md beside the recordings.
    """
    names = cases.chosen(databases, cases.DATABASES, "--databases")
    recordings, bench = replaying.read(folder, names)
    with OutputDirectory(folder) as results:
        found = replaying.sweep(recordings, bench, say)
        text = replaying.page(found, result.published_of_swept)
        results.write("replay.json", to_text(found))
        results.write("replay.md", text)
        results.commit()
    sys.stdout.write(text)


def on_personalities(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="For results.json and table.md.")
    ] = Path("bench-personalities"),
    names: Annotated[
        str | None,
        typer.Option(
            "--personalities",
            metavar="NAME,…",
            help=f"Of those of mkfs; {personalities.BASE} comes along. All if left out.",
        ),
    ] = None,
    loads: Annotated[
        str | None,
        typer.Option("--loads", metavar="NAME,…", help="As rocksdb-a, sqlite-wal; else all."),
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", min=1, help="With pace; one without follows.")
    ] = ROUNDS,
    operations: Annotated[
        int | None,
        typer.Option("--operations", metavar="N", min=1, help="Of each run, at most."),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option("--work", metavar="DIR", help="Where drives are made, and thrown away."),
    ] = None,
) -> None:
    """Run RocksDB and SQLite on a mount of each personality, and check their data.

    RocksDB's loads stand for YCSB's A to F. Each run has a new drive and mount; programs wait for
    the device's time. Ratios are over ext4-like.
    """
    kinds = cases.chosen(names, core.fs_personalities(), "--personalities")
    known = {load.name: load for load in personalities.loads()}
    chosen = cases.chosen(loads, tuple(known), "--loads")
    plan = personalities.Plan(
        tuple(known[name] for name in chosen),
        tuple(dict.fromkeys((*kinds, personalities.BASE))),
        rounds,
        operations,
    )
    with _workplace(work) as place, OutputDirectory(output) as results:
        found = personalities.summary(plan, personalities.bench(plan, place, say))
        text = personalities.page(found)
        results.write("results.json", to_text(found))
        results.write("table.md", text)
        results.commit()
    sys.stdout.write(text)


@contextmanager
def _workplace(work: Path | None) -> Iterator[Path]:
    """An empty directory, in one that is named or where the system has them."""
    if work is not None and not work.is_dir():
        raise UserError(f"--work {work}: is no directory.")
    with tempfile.TemporaryDirectory(
        prefix="entresol-bench-", dir=work and work.resolve()
    ) as place:
        yield Path(place)


def _at_most(case: cases.Case, operations: int) -> cases.Case:
    """The case with so many operations; pgbench runs for a time."""
    if case.database == cases.POSTGRESQL:
        return case
    return replace(case, operations=min(case.operations, operations))


def _span(text: str, option: str) -> str:
    """A span that the device takes; how it was written is its name."""
    if units.number(text, "time") is None:
        raise UserError(f"{option} {text}: is no span of time, as 1ms is.")
    return text.strip()
