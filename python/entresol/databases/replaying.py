"""Recordings of databases, played in virtual time with any thresholds and costs of a flush.

A recording is of a run without DAX and without pace: the program's time between two operations is
then that of a program that does not sleep in between. Played, it waits for the simulated drive.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from entresol import core
from entresol.core import Json
from entresol.databases.cases import DEFAULT, HYBRID, VALKEY
from entresol.databases.clients import Costs, looped
from entresol.databases.clients import of_bench as costs_of
from entresol.databases.database import BEGIN, END
from entresol.databases.drive import PERSONALITY, PMEM, PRESET, SIZE
from entresol.errors import UserError
from entresol.figures.recordings import Clients
from entresol.interruption import interruptible

CORES = 12
"""The thesis's."""
FLUSHES = ("0.1ms", "0.2ms", "0.5ms", "1ms", "2ms", "3.5ms")
BASE_FLUSH = "1ms"
UPGRADES, DOWNGRADES, ORDERS = (40, 60, 80), (10, 30, 50, 70), (0, 4, 9)
AFTERS = (1, 3, 5, 7, 10, 20)
WITHIN = 0.15
"""By which a prediction may miss a run before what follows from it is marked."""


@dataclass(frozen=True)
class Policy:
    """U, D, F and G; the thesis's if left out."""

    upgrade: int = 60
    downgrade: int = 30
    after: int = 5
    order: int = 9

    def settings(self) -> tuple[str, ...]:
        """For a run in virtual time."""
        return ("fs.dax=auto", *(f"fs.dax_{name}={value}" for name, value in asdict(self).items()))


@dataclass(frozen=True)
class Recording:
    """A run, written down."""

    database: str
    case: str
    operations: int
    """Of the database."""
    fuse_ns: int
    """What FUSE takes of each operation of the file system."""
    text: str


def read(folder: Path, names: Sequence[str]) -> tuple[list[Recording], Json]:
    """The recordings of databases that a bench has left, and its results."""
    try:
        found: Json = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        recordings = [
            Recording(
                row["database"], row["case"], row["operations"], row["fuse_ns"],
                (folder / row["file"]).read_text(encoding="utf-8"),
            )
            for row in found["recordings"]
            if row["database"] in names
        ]  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = getattr(error, "strerror", None) or "results.json is none of bench dax"
        raise UserError(f"{folder}: {why}; name the directory of a bench dax.") from None
    if not recordings:
        raise UserError(f"{folder}: has no recording of these; run bench dax without --no-record.")
    return recordings, found


def rate(
    recording: Recording, policy: Policy | None, flush: str = BASE_FLUSH, *, has_fuse: bool = True
) -> float:
    """Operations of the database in a second of virtual time; without DAX if there is no policy."""
    part = _part(recording, policy, flush, has_fuse=has_fuse)
    return float(recording.operations / (part["virtual_time_ps"] / 1e12))


def _part(
    recording: Recording, policy: Policy | None, flush: str = BASE_FLUSH, *,
    has_fuse: bool = True, clients: Clients | None = None,
) -> Json:  # fmt: skip
    found = interruptible(partial(
        core.fs_replay, f"{recording.database}.rec", recording.text, PERSONALITY, device=PRESET,
        overrides=(SIZE, f"device.pmem={PMEM}", f"ssd.flush_cost={flush}",
                   *(() if policy is None else policy.settings())),
        scale=1, cores=CORES, thinks=True, less=None if has_fuse else f"{recording.fuse_ns}ns",
        between=(BEGIN, END), clients=None if clients is None else asdict(clients),
    ))  # fmt: skip
    part: Json = found["part"]
    return part


Say = Callable[[str], None]


def sweep(recordings: Sequence[Recording], bench: Json, say: Say) -> Json:
    """All curves of all recordings, and how far they are from the runs of the bench."""
    return {"schema": 1, "within": WITHIN, "databases": [
        _one(recording, bench, say) for recording in recordings
    ]}  # fmt: skip


def _one(recording: Recording, bench: Json, say: Say) -> Json:
    flush = [
        {
            "flush": flush,
            "default": rate(recording, None, flush),
            "hybrid": rate(recording, Policy(), flush),
            "default_without_fuse": rate(recording, None, flush, has_fuse=False),
            "hybrid_without_fuse": rate(recording, Policy(), flush, has_fuse=False),
        }
        for flush in FLUSHES
    ]
    say(f"{recording.database}: played with {len(FLUSHES)} costs of a flush")
    base = next(row for row in flush if row["flush"] == BASE_FLUSH)
    policies = [
        asdict(policy) | {"over_default": rate(recording, policy) / float(str(base["default"]))}
        for policy in _policies()
    ]
    say(f"{recording.database}: played with {len(policies)} policies")
    return {
        "database": recording.database, "case": recording.case, "fuse_ns": recording.fuse_ns,
        "flush": flush, "policies": policies, "predictions": predictions(recording, flush, bench),
        "loops": loops(recording, bench) if recording.database == VALKEY else [],
    }  # fmt: skip


def _policies() -> Iterator[Policy]:
    for order in ORDERS:
        for downgrade in DOWNGRADES:
            for upgrade in UPGRADES:
                if upgrade >= downgrade:
                    yield Policy(upgrade, downgrade, order=order)
        for after in AFTERS:
            if after != Policy().after:
                yield Policy(after=after, order=order)


def predictions(recording: Recording, flush: Sequence[Json], bench: Json) -> list[Json]:
    """What was measured with pace, beside what is played: the quickest turn, as of recordings the
    quickest is kept, for what else a machine does only adds; and the median."""
    found = []
    for row in bench["cases"]:
        if (row["case"]["database"], row["case"]["name"]) != (recording.database, recording.case):
            continue
        played = next((each for each in flush if each["flush"] == row["flush"]), None)
        if played is None or row["type"] not in played:
            continue
        measured = row["per_second"]["most"]
        missed = played[row["type"]] / measured - 1
        found.append({
            "flush": row["flush"], "type": row["type"], "measured": measured,
            "measured_median": row["per_second"]["median"],
            "predicted": played[row["type"]], "missed_by": missed,
            "is_within": abs(missed) <= WITHIN,
        })  # fmt: skip
    return found


def loops(recording: Recording, bench: Json) -> list[Json]:
    """Several clients as a closed loop beside what was measured of them, from the recording and the
    runs of one; nothing if the bench does not say what processors took.

    A run with pace takes longer than a play, for whoever waits for the drive sleeps and wakes up.
    By how much for a round is what runs of one client, of the same type, took longer than its play.
    """
    of = costs_of(bench)
    if of is None:
        return []
    rows = [row for row in bench["cases"] if _is_looped(row)]
    clocks: dict[str, int] = {}
    for row in rows:
        if _under_way(row) == (1, 1):
            took = 1e9 / row["per_second"]["most"] - 1e9 / _served(recording, of, row, 0)[0]
            clocks[row["type"]] = max(round(took), 0)
    found = []
    for row in rows:
        if _under_way(row) == (1, 1) or row["type"] not in clocks:
            continue
        predicted, shared = _served(recording, of, row, clocks[row["type"]])
        missed = predicted / row["per_second"]["most"] - 1
        found.append({
            "case": row["case"]["name"], "type": row["type"],
            "measured": row["per_second"]["most"], "measured_median": row["per_second"]["median"],
            "predicted": predicted, "missed_by": missed, "is_within": abs(missed) <= WITHIN,
            "per_sync": row["operations_per_sync"], "per_sync_predicted": shared,
            "costs": asdict(of), "clock_ns": clocks[row["type"]],
        })  # fmt: skip
    return found


def _is_looped(row: Json) -> bool:
    case = row["case"]
    is_always = (case["database"], case.get("variant")) == (VALKEY, "always")
    return (is_always and row["flush"] == BASE_FLUSH and row["type"] in (DEFAULT, HYBRID)
            and bool(row["operations_per_sync"]))  # fmt: skip


def _under_way(row: Json) -> tuple[int, int]:
    return row["case"]["clients"], row["case"]["pipeline"]


def _served(recording: Recording, of: Costs, row: Json, clock_ns: int) -> tuple[float, float]:
    """Requests in a second, and to a sync."""
    requests = row["case"]["operations"]
    clients = looped(recording.text, recording.fuse_ns, of, *_under_way(row), requests)
    clients = replace(clients, sync_ns=clients.sync_ns + clock_ns)
    part = _part(recording, None if row["type"] == DEFAULT else Policy(), clients=clients)
    return requests / (part["virtual_time_ps"] / 1e12), requests / part["syncs"]


def page(found: Json, published: Callable[[str], float | None]) -> str:
    """The same as a page in Markdown; `published` has the thesis's ratio of a database."""
    lines = [
        "# Databases in virtual time",
        "",
        "| database | flush | default/s | hybrid/s | over default | without FUSE | thesis |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for each in found["databases"]:
        thesis = published(each["database"])
        for row in each["flush"]:
            plain = row["hybrid_without_fuse"] / row["default_without_fuse"]
            lines.append(
                f"| {each['database']} {each['case']} | {row['flush']} | {row['default']:,.0f} "
                f"| {row['hybrid']:,.0f} | {row['hybrid'] / row['default']:.2f} | {plain:.2f} "
                f"| {'' if thesis is None else f'{thesis:g}'} |"
            )
    lines += [
        "",
        "| database | flush | type | median turn/s | quickest turn/s | played/s | missed by |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for each in found["databases"]:
        for row in each["predictions"]:
            mark = "" if row["is_within"] else ": more than 15 %"
            lines.append(
                f"| {each['database']} {each['case']} | {row['flush']} | {row['type']} "
                f"| {row['measured_median']:,.0f} | {row['measured']:,.0f} "
                f"| {row['predicted']:,.0f} "
                f"| {100 * row['missed_by']:+.0f} %{mark} |"
            )
    return "\n".join((*lines, "", *_loops(found), *_grids(found)))


def _loops(found: Json) -> Iterator[str]:
    rows = [(each["database"], row) for each in found["databases"] for row in each["loops"]]
    if not rows:
        return
    yield "Clients as a closed loop, from the recording and the runs of one of them:"
    yield ""
    yield (
        "| case | type | requests to a sync | played | median turn/s | quickest turn/s | played/s "
        "| missed by |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---|"
    for database, row in rows:
        mark = "" if row["is_within"] else ": more than 15 %"
        yield (
            f"| {database} {row['case']} | {row['type']} | {row['per_sync']:.1f} "
            f"| {row['per_sync_predicted']:.1f} | {row['measured_median']:,.0f} "
            f"| {row['measured']:,.0f} | {row['predicted']:,.0f} "
            f"| {100 * row['missed_by']:+.0f} %{mark} |"
        )
    took = ", ".join(f"{name[:-3].replace('_', ' ')} {value / 1000:.1f}"
                     for name, value in rows[0][1]["costs"].items())  # fmt: skip
    clocks = {row["type"]: f"{row['clock_ns'] / 1000:.0f} ({row['type']})" for _, row in rows}
    yield ""
    yield (
        f"Microseconds of its steps: {took}. A round on the clock takes longer than a play of one "
        f"client by {' and '.join(clocks.values())}, which all plays here have."
    )
    yield ""


def _marks(found: Json) -> dict[str, str]:
    """By database: what is behind its name where a play of it missed a run, or was beside none."""
    marks = {}
    for each in found["databases"]:
        within = [row["is_within"] for row in each["predictions"]]
        marks[each["database"]] = "" if within and all(within) else " (!)"
    return marks


def _grids(found: Json) -> Iterator[str]:
    base = Policy()
    marks = _marks(found)
    if any(marks.values()):
        yield (
            "(!): a play of this recording misses a run of the bench by more than 15 %, or was "
            "compared with none; what follows from it may too."
        )
        yield ""
    yield f"Over default at a flush of {BASE_FLUSH}, F = {base.after}; rows G and D, columns U:"
    yield ""
    yield f"| database | G | D | {' | '.join(f'U = {u}' for u in UPGRADES)} |"
    yield f"|---|---:|---:|{'---:|' * len(UPGRADES)}"
    for each in found["databases"]:
        ratios = {_key(row): row["over_default"] for row in each["policies"]}
        for order in ORDERS:
            for down in DOWNGRADES:
                cells = [ratios.get((up, down, base.after, order)) for up in UPGRADES]
                name = f"{each['database']}{marks[each['database']]}"
                yield f"| {name} | {order} | {down} | {_cells(cells)} |"
    yield ""
    yield f"Over default, U = {base.upgrade} and D = {base.downgrade}; rows G, columns F:"
    yield ""
    yield f"| database | G | {' | '.join(f'F = {f}' for f in AFTERS)} |"
    yield f"|---|---:|{'---:|' * len(AFTERS)}"
    for each in found["databases"]:
        ratios = {_key(row): row["over_default"] for row in each["policies"]}
        for order in ORDERS:
            cells = [ratios.get((base.upgrade, base.downgrade, f, order)) for f in AFTERS]
            name = f"{each['database']}{marks[each['database']]}"
            yield f"| {name} | {order} | {_cells(cells)} |"
    yield ""


def _key(row: Json) -> tuple[int, int, int, int]:
    return row["upgrade"], row["downgrade"], row["after"], row["order"]


def _cells(ratios: Sequence[float | None]) -> str:
    return " | ".join("–" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
