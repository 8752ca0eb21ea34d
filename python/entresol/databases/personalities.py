"""The runs of `bench personalities`: the same programs on a mount of each personality, by turns.

Each run has a copy of a prepared drive and a mount of its own. With `--pace real` the program waits
until the wall clock has seen the device's time pass; a turn without says what the device's clock
went on by, and how fast program, FUSE and server are by themselves. Behind each the file system is
checked, and everything is looked for in a new mount.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from entresol import core
from entresol.core import Json
from entresol.databases import drive
from entresol.databases.mounted_load import MountedLoad
from entresol.databases.runs import Say, Watch, machine, medians
from entresol.databases.sqlite import MODES, Sqlite
from entresol.databases.ycsb import LETTERS, Ycsb
from entresol.errors import Failed

SCHEMA = 1
BASE = "ext4-like"
"""What ratios are over."""
LOGGED = ("bytefs", "bytefs-log")
"""On the device with a log; others on its sister without one, as in the paper (§5.1)."""
FLASH = ("nand.blocks_per_plane=72", "nand.pages_per_block=64")
DEVICES = {
    True: ("bytefs", (*FLASH, "ssd.dram=8320KiB", "ssd.log.size=8MiB", "ssd.log.tx_log=64KiB")),
    False: ("bytefs-cache", (*FLASH, "ssd.dram=8MiB")),
}
"""The paper's, with a thirty-second of its flash and of the memory before it, as the databases are
small."""
ROOM = 3 << 30
"""Bytes that prepared drives and a copy may take."""
COUNTED = {
    "to_device_bytes": ("byte_port_to_device_bytes", "block_port_to_device_bytes"),
    "to_host_bytes": ("byte_port_to_host_bytes", "block_port_to_host_bytes"),
    "programmed_pages": ("flash_programmed_pages",),
    "read_pages": ("flash_read_pages",),
}
"""What a run's device has moved, from its mount until all is unmounted and on flash."""
HEAD = (
    "| load | personality | operations/s | least to most | over ext4-like | least to most "
    "| of the quickest | without pace | device µs each | MiB to device | MiB from it "
    "| pages programmed |\n"
    "|---|---|---:|---|---:|---|---:|---:|---:|---:|---:|---:|"
)


def loads() -> tuple[MountedLoad, ...]:
    """All that there are."""
    return (*(Ycsb(letter) for letter in LETTERS), *(Sqlite(mode) for mode in MODES))


@dataclass(frozen=True)
class Plan:
    """What is to be run."""

    loads: tuple[MountedLoad, ...]
    personalities: tuple[str, ...]
    """`BASE` is one of them."""
    rounds: int
    most: int | None = None
    """Operations of a run, if fewer than its load has."""


@dataclass(frozen=True)
class Run:
    """What came of one."""

    load: str
    personality: str
    round: int
    is_paced: bool
    operations: int
    writes: int
    seconds: float
    device_ps: int
    """By which the device's clock went on while it was measured."""
    moved: dict[str, int]
    took: dict[str, float]
    """Seconds of the bench's own wall clock, by what it did meanwhile."""

    @property
    def per_second(self) -> float:
        """Operations."""
        return self.operations / self.seconds


@dataclass(frozen=True)
class Step:
    """A run that is to be done."""

    load: MountedLoad
    personality: str
    round: int
    is_paced: bool


@dataclass
class Outcome:
    """All of a bench."""

    machine: Json
    versions: dict[str, str]
    runs: list[Run] = field(default_factory=list)


def steps(plan: Plan) -> Iterator[Step]:
    """By turns, every second one backwards; the last is not paced."""
    for turn in range(plan.rounds + 1):
        for load in plan.loads:
            for personality in plan.personalities if turn % 2 == 0 else plan.personalities[::-1]:
                yield Step(load, personality, turn, turn < plan.rounds)


def bench(plan: Plan, work: Path, say: Say) -> Outcome:
    """Does all runs of a plan in a directory that is empty, and may be thrown away."""
    for load in plan.loads:
        load.require()
    drive.require(work, ROOM)
    outcome = Outcome(machine(), dict(load.version() for load in plan.loads))
    begun = time.monotonic()
    took: Counter[str] = Counter()
    for personality in plan.personalities:
        say(f"{personality}: making a drive")
        _prepare(_prepared(work, personality), work / "mount", personality, plan.loads)
    took.update({"prepare": time.monotonic() - begun})
    todo = list(steps(plan))
    runs_begun = time.monotonic()
    for done, step in enumerate(todo, start=1):
        run = _run(step, work, plan)
        outcome.runs.append(run)
        took.update(run.took)
        left = (time.monotonic() - runs_begun) / done * (len(todo) - done)
        say(
            f"{done} of {len(todo)}: {run.load}, {run.personality}"
            f"{'' if run.is_paced else ', not paced'}: {run.per_second:,.0f}/s; "
            f"about {left / 60:.0f} min left"
        )
    outcome.machine["load_at_end"] = os.getloadavg()[0]
    outcome.machine["seconds"] = round(time.monotonic() - begun, 1)
    outcome.machine["took"] = {what: round(seconds, 1) for what, seconds in took.items()}
    return outcome


def _prepared(work: Path, personality: str) -> Path:
    return work / f"prepared-{personality}"


def _prepare(image: Path, folder: Path, personality: str, todo: Sequence[MountedLoad]) -> None:
    """Makes a drive with what all runs begin with."""
    preset, settings = DEVICES[personality in LOGGED]
    core.device_create(image, preset, (), settings)
    drive.make_file_system(image, personality)
    with drive.mounted(image, folder, "dax=off", is_paced=False):
        for load in todo:
            load.prepare(folder)


def _run(step: Step, work: Path, plan: Plan) -> Run:
    watch = Watch()
    load, image, folder = step.load, work / "drive", work / "mount"
    drive.copy(_prepared(work, step.personality), image)
    before = _moved(image)
    watch.was("copy")
    operations = min(load.operations, plan.most or load.operations)
    with drive.mounted(image, folder, "dax=off", is_paced=step.is_paced) as mount:
        watch.was("mount")
        clock = mount.stats()["device"]["clock_ps"]
        did = load.run(folder, operations)
        device_ps = mount.stats()["device"]["clock_ps"] - clock
        watch.was("measure")
    watch.was("unmount")
    after = _moved(image)
    check_file_system(step, image)
    with drive.mounted(image, folder, "dax=off", is_paced=False):
        load.verify(folder, did)
    watch.was("verify")
    return Run(
        load.name, step.personality, step.round, step.is_paced, did.ran.operations, did.writes,
        did.ran.seconds, device_ps, {name: after[name] - before[name] for name in COUNTED},
        watch.took,
    )  # fmt: skip


def check_file_system(step: Step, image: Path) -> None:
    """Raises `Failed` if fsck finds something in what a run has left."""
    problems = core.fs_check(image, repair=False)["problems"]
    if problems:
        raise Failed(
            f"{step.load.name}, {step.personality}: fsck finds: {problems[0]['what']} "
            f"({len(problems)} in all)."
        )


def _moved(image: Path) -> dict[str, int]:
    """What a device has, since it was made. Nobody uses it, and what it had logged is on flash."""
    found = core.device_info(image)["statistics"]
    if found["log_used_slots"]:
        raise Failed(f"{image}: {found['log_used_slots']} lines stayed in the log at the unmount.")
    return {name: sum(found[part] for part in parts) for name, parts in COUNTED.items()}


def summary(plan: Plan, outcome: Outcome) -> Json:
    """Everything, for `results.json`."""
    rows = [
        _row(load.name, personality, outcome.runs)
        for load in plan.loads
        for personality in plan.personalities
    ]
    return {
        "schema": SCHEMA,
        "devices": {
            personality: dict(
                zip(("preset", "settings"), DEVICES[personality in LOGGED], strict=True)
            )
            for personality in plan.personalities
        },
        "rounds": plan.rounds,
        "machine": outcome.machine,
        "versions": outcome.versions,
        "rows": rows,
        "runs": [vars(run) | {"per_second": run.per_second} for run in outcome.runs],
    }


def _row(load: str, personality: str, runs: Sequence[Run]) -> Json:
    mine = [run for run in runs if (run.load, run.personality) == (load, personality)]
    paced = {run.round: run for run in mine if run.is_paced}
    (unpaced,) = (run for run in mine if not run.is_paced)
    base = {
        run.round: run for run in runs
        if (run.load, run.personality, run.is_paced) == (load, BASE, True)
    }  # fmt: skip
    # Those of one round ran one behind the other.
    ratios = [run.per_second / base[turn].per_second for turn, run in paced.items()]
    return {
        "load": load,
        "personality": personality,
        "operations": unpaced.operations,
        "per_second": _spread([run.per_second for run in paced.values()]),
        "over_base": _spread(ratios),
        # What else a machine does only takes away, and meets the quickest of each least.
        "quickest_over_base": max(run.per_second for run in paced.values())
        / max(run.per_second for run in base.values()),
        "unpaced_per_second": unpaced.per_second,
        "device_ps_each": unpaced.device_ps / unpaced.operations,
        "moved": {name: _median([run.moved[name] for run in paced.values()]) for name in COUNTED},
    }


def _spread(values: Sequence[float]) -> Json:
    return dict(zip(("median", "least", "most"), medians(values), strict=True))


def _median(values: Sequence[float]) -> float:
    return medians(values)[0]


def page(found: Json) -> str:
    """The same as a page in Markdown."""
    host = found["machine"]
    took = ", ".join(f"{what} {seconds:,.0f}" for what, seconds in host["took"].items())
    versions = ", ".join(" ".join(pair) for pair in found["versions"].items())
    return "\n".join((
        "# Databases on a mount of each personality",
        "",
        f"{versions}. Rounds with pace, so that the wall clock has the device's time: "
        f"{found['rounds']}, and one without. {host['processors']} processors "
        f"({host['processor']}), load {host['load_at_begin']:.1f} at the begin and "
        f"{host['load_at_end']:.1f} at the end; {host['seconds'] / 60:.1f} minutes. Everything was "
        "found again, and fsck found nothing.",
        "",
        f"Seconds of it, by what it did: {took}.",
        "",
        HEAD,
        *(_line(row) for row in found["rows"]),
        "",
    ))  # fmt: skip


def _line(row: Json) -> str:
    rate, ratio, moved = row["per_second"], row["over_base"], row["moved"]
    is_base = row["personality"] == BASE
    cells = (
        row["load"], row["personality"], f"{rate['median']:,.0f}",
        f"{rate['least']:,.0f} to {rate['most']:,.0f}",
        "" if is_base else f"{ratio['median']:.2f}",
        "" if is_base else f"{ratio['least']:.2f} to {ratio['most']:.2f}",
        "" if is_base else f"{row['quickest_over_base']:.2f}",
        f"{row['unpaced_per_second']:,.0f}", f"{row['device_ps_each'] / 1e6:,.1f}",
        f"{moved['to_device_bytes'] / (1 << 20):,.1f}",
        f"{moved['to_host_bytes'] / (1 << 20):,.1f}",
        f"{moved['programmed_pages']:,.0f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"
