"""Recordings of databases, played in virtual time with any thresholds and costs of a flush.

A recording is of a run without DAX and without pace: the program's time between two operations is
then that of a program that does not sleep in between. Played, it waits for the simulated drive.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from entresol import core
from entresol.core import Json
from entresol.databases.database import BEGIN, END
from entresol.databases.drive import PERSONALITY, PMEM, PRESET, SIZE
from entresol.errors import UserError
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
    found = interruptible(partial(
        core.fs_replay, f"{recording.database}.rec", recording.text, PERSONALITY, device=PRESET,
        overrides=(SIZE, f"device.pmem={PMEM}", f"ssd.flush_cost={flush}",
                   *(() if policy is None else policy.settings())),
        scale=1, cores=CORES, thinks=True, less=None if has_fuse else f"{recording.fuse_ns}ns",
        between=(BEGIN, END),
    ))  # fmt: skip
    return float(recording.operations / (found["part"]["virtual_time_ps"] / 1e12))


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
    return "\n".join((*lines, "", *_grids(found)))


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
