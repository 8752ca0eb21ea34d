"""The runs of `bench dax`: by turns of each kind, so that what else a machine does meets all alike.

A run has a copy of a prepared drive, a mount, and a server of its own. With `--pace real` programs
wait for the device's time, so that the wall clock has it; a run without says what the device's
clock went on by. Behind each the drive is mounted anew and everything is looked for.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from entresol.core import Json
from entresol.databases import cases, drive, pauses
from entresol.databases.cases import Case
from entresol.databases.database import BEGIN, Ask, Database, nothing
from entresol.databases.postgresql import PostgreSql
from entresol.databases.rocksdb import RocksDb
from entresol.databases.valkey import Valkey
from entresol.errors import Failed

KINDS: dict[str, type[Database]] = {
    cases.VALKEY: Valkey,
    cases.POSTGRESQL: PostgreSql,
    cases.ROCKSDB: RocksDb,
}
COUNTED = ("light_syncs", "upgrades", "downgrades", "syncs_without_room", "frames_in_use")


@dataclass(frozen=True)
class Plan:
    """What is to be run."""

    cases: tuple[Case, ...]
    types: tuple[str, ...]
    flush: str
    """What a flush costs the drive."""
    swept: tuple[str, ...]
    """Other costs, for the cases that are swept."""
    repeats: int
    swept_repeats: int
    kills: bool = True
    recordings: int = 3
    """Of each case that is swept; the quickest is kept, for what else a machine does only adds."""
    only_records: bool = False
    """Nothing is measured, and each case recorded."""


@dataclass(frozen=True)
class Run:
    """What came of one."""

    case: Case
    type: str
    flush: str
    repeat: int
    is_paced: bool
    operations: int
    seconds: float
    device_ps: int
    """By which the device's clock went on from the begin to the end of what was measured."""
    syncs: int
    dax: Json
    took: dict[str, float]
    """Seconds of the bench's own wall clock, by what it did meanwhile."""
    processor_us: dict[str, float] = field(default_factory=dict)
    """Microseconds of a processor for each operation, of `tool` and `server`, where known."""

    @property
    def per_second(self) -> float:
        """Operations."""
        return self.operations / self.seconds

    def told(self) -> Json:
        """For results."""
        return asdict(self) | {"per_second": self.per_second}


@dataclass
class Outcome:
    """All of a bench."""

    runs: list[Run] = field(default_factory=list)
    kills: list[Json] = field(default_factory=list)
    recordings: list[tuple[Path, Json]] = field(default_factory=list)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    machine: Json = field(default_factory=dict)


Say = Callable[[str], None]


def bench(plan: Plan, work: Path, say: Say) -> Outcome:
    """Does all runs of a plan in a directory that is empty, and may be thrown away."""
    work.chmod(0o711)  # Servers of other users pass through.
    drive.require(work)
    names = [name for name in cases.DATABASES if any(c.database == name for c in plan.cases)]
    databases = {name: KINDS[name](work) for name in names}
    for database in databases.values():
        database.require()
    outcome = Outcome(machine=machine())
    outcome.versions = {name: each.versions() for name, each in databases.items()}
    begun, total = time.monotonic(), sum(1 for _ in _steps(plan))
    took: Counter[str] = Counter()
    watch = Watch()
    for done, step in enumerate(_steps(plan), start=1):
        case = step.case
        bed = _Bed(work, databases[case.database], plan, say)
        run = bed.run(step)
        outcome.runs.append(run)
        took.update(run.took)
        left = (time.monotonic() - begun) / done * (total - done)
        say(
            f"{done} of {total}: {case.database} {case.name}, {step.type}, flush {step.flush}"
            f"{'' if step.is_paced else ', not paced'}: {run.per_second:,.0f}/s; "
            f"about {left / 60:.0f} min left"
        )
    watch.was("runs")
    if plan.kills and not plan.only_records:
        for name in names:
            syncing = (case for case in plan.cases if case.database == name and _syncs(case))
            chosen = next(syncing, None)
            if chosen is None:
                say(f"{name}: no case that was chosen syncs each write, so no mount is killed")
                continue
            for kind in plan.types:
                killed = _Bed(work, databases[name], plan, say).kill(chosen, kind)
                outcome.kills.append(killed)
                say(
                    f"{name}, {kind}: the mount killed behind {killed['answered']:,} answered "
                    f"writes and {killed['light_syncs']:,} light syncs; {killed['found']:,} are "
                    f"there, {killed['recovered_pages']:,} pages came from the window"
                )
        check_recovered(outcome.kills)
    watch.was("kill")
    for case in plan.cases if plan.recordings else ():
        if case.is_swept or plan.only_records:
            bed = _Bed(work, databases[case.database], plan, say)
            outcome.recordings.append(bed.record(case))
            say(f"{case.database} {case.name}: recorded")
    outcome.machine["load_at_end"] = os.getloadavg()[0]
    outcome.machine["seconds"] = round(time.monotonic() - begun, 1)
    watch.was("record")
    took.update({what: watch.took[what] for what in ("kill", "record")})
    outcome.machine["took"] = {what: round(seconds, 1) for what, seconds in took.items()}
    return outcome


def _syncs(case: Case) -> bool:
    """Whether its writes are answered when they are durable."""
    return case.variant in ("always", "fdatasync", "fillsync")


@dataclass(frozen=True)
class Step:
    """A run that is to be done."""

    case: Case
    type: str
    flush: str
    repeat: int
    is_paced: bool = True


def _steps(plan: Plan) -> Iterator[Step]:
    """In turns: what differs least is least far apart, and every second turn runs backwards."""
    if plan.only_records:
        return
    for repeat in range(max(plan.repeats, plan.swept_repeats) + 1):
        for case in plan.cases:
            for flush in (plan.flush, *(plan.swept if case.is_swept else ())):
                repeats = plan.repeats if flush == plan.flush else plan.swept_repeats
                # The last turn is not paced: what it takes of the device's time is counted. By what
                # that grows with a flush's cost is known.
                if repeat > repeats or (repeat == repeats and flush != plan.flush):
                    continue
                kinds = plan.types if repeat % 2 == 0 else plan.types[::-1]
                for kind in kinds:
                    yield Step(case, kind, flush, repeat, repeat < repeats)


class Watch:
    """Says for what a run takes its time: of it only a part is measured."""

    def __init__(self) -> None:
        self.took: dict[str, float] = {}
        self._since = time.monotonic()

    def was(self, what: str) -> None:
        """What it did since it was asked last."""
        now = time.monotonic()
        self.took[what] = round(self.took.get(what, 0.0) + now - self._since, 4)
        self._since = now


@dataclass(frozen=True)
class _Bed:
    """Where a database runs."""

    work: Path
    database: Database
    plan: Plan
    say: Say

    def _prepared(self, flush: str) -> Path:
        """The drive of a database with a cost of a flush, as all runs find it."""
        image = self.work / f"{self.database.name}-{flush}"
        if image.exists():
            return image
        self.say(f"{self.database.name}: making a drive with a flush of {flush}")
        drive.make(image, flush)
        if not self.database.prepares:
            return image
        mine = [case for case in self.plan.cases if case.database == self.database.name]
        with drive.mounted(image, self._folder(), "dax=off", is_paced=False) as mount:
            self.database.prepare(mount.folder, mine)
        return image

    def _folder(self) -> Path:
        return self.work / "mount"

    def _copy(self, flush: str) -> Path:
        image = self.work / "drive"
        drive.copy(self._prepared(flush), image)
        return image

    def record(self, case: Case) -> tuple[Path, Json]:
        """Writes down runs without DAX and without pace; the quickest, and what it is of."""
        found: list[tuple[float, Path, Json]] = []
        for turn in range(self.plan.recordings):
            path = self.work / f"{turn}-{_file_of(case)}"
            fuse: list[int] = []
            step = Step(case, cases.DEFAULT, self.plan.flush, turn, is_paced=False)
            run = self.run(step, path, fuse)
            told: Json = {
                "file": _file_of(case), "database": case.database, "case": case.name,
                "operations": run.operations, "seconds": run.seconds, "lookup_ns": fuse[0],
            }  # fmt: skip
            found.append((run.seconds / run.operations, path, told))
        _, path, told = min(found, key=lambda each: each[0])
        text = path.read_text(encoding="utf-8")
        return path, told | {"fuse_ns": pauses.fuse_ns(text, told["lookup_ns"])}

    def run(self, step: Step, record: Path | None = None, fuse: list[int] | None = None) -> Run:
        """Does a run, and looks for everything in a new mount."""
        watch = Watch()
        case, folder = step.case, self._folder()
        self._prepared(step.flush)
        watch.was("make")
        image = self._copy(step.flush)
        watch.was("copy")
        dax = cases.MOUNTED_WITH[step.type]
        with drive.mounted(image, folder, dax, is_paced=step.is_paced, record=record) as mount:
            watch.was("mount")
            moments: list[Json] = []
            if fuse is not None:
                fuse.append(mount.fuse_ns())

            def mark(name: str) -> None:
                mount.mark(name)
                moments.append(mount.stats())
                watch.was("start" if name == BEGIN else "measure")

            # A recording has the database's requests alone.
            ask = nothing if record is not None else asks(step.type)
            ran, evidence = self.database.run(folder, case, mark, ask)
            watch.was("end")
        watch.was("unmount")
        before, after = moments
        with drive.mounted(image, folder, "dax=off", is_paced=False):
            watch.was("mount")
            self.database.verify(folder, case, ran, evidence)
            watch.was("verify")
        watch.was("unmount")
        dax_before, dax_after = before["dax"] or {}, after["dax"] or {}
        counted = {
            name: dax_after[name] - (0 if name == "frames_in_use" else dax_before[name])
            for name in COUNTED if name in dax_after
        }  # fmt: skip
        check_asked(step, counted)
        return Run(
            case,
            step.type,
            step.flush,
            step.repeat,
            step.is_paced,
            ran.operations,
            ran.seconds,
            after["device"]["clock_ps"] - before["device"]["clock_ps"],
            after["file_system"]["syncs"] - before["file_system"]["syncs"],
            counted,
            watch.took,
            {who: 1e6 * took / ran.operations for who, took in ran.processor.items()},
        )

    def kill(self, case: Case, kind: str) -> Json:
        """Kills the server of the mount in the middle of a run; what is there afterwards."""
        folder, image = self._folder(), self._copy(self.plan.flush)
        dax = cases.MOUNTED_WITH[kind]
        light_syncs = 0
        with drive.mounted(image, folder, dax, is_paced=True) as mount:

            def kill() -> None:
                nonlocal light_syncs
                light_syncs = (mount.stats()["dax"] or {}).get("light_syncs", 0)
                mount.kill()

            answered = self.database.strike(folder, case, kill, asks(kind))
        if answered == 0:
            raise Failed(f"{case.database}, {kind}: nothing was answered before the kill.")
        check_struck(case, kind, light_syncs)
        # With the same options: only then is it known what was found in the window.
        with drive.mounted(image, folder, dax, is_paced=False) as mount:
            recovered = (mount.stats()["dax"] or {}).get("recovered_pages", 0)
            found = self.database.survived(folder, case, answered)
        return {
            "database": case.database, "variant": case.variant, "type": kind,
            "answered": answered, "found": found,
            "light_syncs": light_syncs, "recovered_pages": recovered,
        }  # fmt: skip


def check_asked(step: Step, counted: Json) -> None:
    """Raises `Failed` if a run that asked for its log was served as if it had not."""
    if step.type == cases.EXPLICIT and _syncs(step.case) and not counted["light_syncs"]:
        raise Failed(
            f"{step.case.database} {step.case.name}, explicit: no sync was light; its log was not "
            "asked for, or by another name."
        )


def check_struck(case: Case, kind: str, light_syncs: int) -> None:
    """Raises `Failed` if a kill says nothing of persistent memory: no sync was light before it."""
    if kind != cases.DEFAULT and _syncs(case) and not light_syncs:
        raise Failed(
            f"{case.database} {case.name}, {kind}: no sync was light before the kill, so that it "
            "shows nothing of persistent memory; let it strike later."
        )


def check_recovered(kills: Sequence[Json]) -> None:
    """Raises `Failed` if mounts were killed that had answered light syncs and no mount behind them
    has found a page in the window: then nothing shows that these come back."""
    light = sum(kill["light_syncs"] for kill in kills)
    if light and not any(kill["recovered_pages"] for kill in kills):
        raise Failed(
            f"{len(kills)} mounts were killed behind {light:,} light syncs, and no page was found "
            "in the window: the kills show nothing of its recovery; let them strike earlier."
        )


def _file_of(case: Case) -> str:
    """The name of a recording; that of the case that is swept is the database's."""
    if case.is_swept:
        return f"{case.database}.rec"
    words = re.findall(r"[a-z0-9]+", case.name.lower())
    return f"{'-'.join((case.database, *words))}.rec"


def asks(kind: str) -> Ask:
    """What is done with each log of a database. Those of RocksDB are looked for while it is
    measured, so that is done for all types."""
    return drive.ask_for if kind == cases.EXPLICIT else drive.look_at


def machine() -> Json:
    """What a result was measured on."""
    return {
        "kernel": platform.release(),
        "processor": _processor(),
        "processors": len(os.sched_getaffinity(0)),
        "load_at_begin": os.getloadavg()[0],
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.machine()
    lines = (line.partition(":") for line in text.splitlines())
    names = [value.strip() for key, _, value in lines if key.strip() == "model name"]
    return names[0] if names else platform.machine()


def medians(runs: Sequence[float]) -> tuple[float, float, float]:
    """Median, least and most."""
    ordered = sorted(runs)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else sum(ordered[middle - 1 : middle + 1]) / 2
    return median, ordered[0], ordered[-1]
