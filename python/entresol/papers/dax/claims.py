"""The numbers in the thesis's text: how each is computed from plays of our recordings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from entresol.figures import frames
from entresol.figures.claims import SETTING, SIMULATED, Claim, Rule, read
from entresol.figures.plan import Bench, Results, Settings, quotient
from entresol.papers.dax import runs
from entresol.papers.dax.runs import (
    PIPELINED,
    POSTGRESQL,
    ROCKSDB,
    THESIS,
    VALKEY,
    WITHOUT,
    Policy,
    published,
)  # fmt: skip

Ours = Callable[[Results], float | None]

AFTERS = (1, 3, 5, 7, 10, 20)
OVER = "dax=auto ÷ without"
FIGURES = {
    "6.1": ("Valkey: speedup", "Valkey: speedup with G = 0"),
    "6.3": ("Valkey with a pipeline of 10: speedup",),
    "6.5": ("Valkey with G = 4: speedup with F = 7 over that with F = 10",),
    "6.6": ("PostgreSQL: speedup", "PostgreSQL with G = 4: speedup",
            "PostgreSQL with G = 4 and D = 50: speedup", "PostgreSQL: speedup with G = 0",
            "PostgreSQL with fsync: speedup", "PostgreSQL with fsync=off: speedup"),
    "6.7": ("PostgreSQL: share of the rate with fsync=off",),
    "6.9": ("RocksDB: speedup", "RocksDB: speedup with G = 0",
            "RocksDB with D = 10: speedup with G = 9 over that with G = 4",
            "RocksDB with use_fsync: speedup"),
    "6.10": ("RocksDB: speedup over F of 1 to 20 (average)",),
    "6.11": ("RocksDB: operations per second",),
}  # fmt: skip
"""Which claims are numbers of a figure."""


def _gain(load: str, policy: Policy = THESIS) -> Ours:
    return lambda results: runs.gain(results, load, policy)


def _of_two(load: str, one: Policy, other: Policy) -> Ours:
    return lambda results: quotient(
        runs.gain(results, load, one), runs.gain(results, load, other)
    )  # fmt: skip


def _over_afters(results: Results) -> float | None:
    every = [runs.gain(results, ROCKSDB, Policy(after=after)) for after in AFTERS]
    known = [gain for gain in every if gain is not None]
    # A mean of fewer is another number.
    return frames.mean(frames.ARITHMETIC, known) if len(known) == len(AFTERS) else None


def _share(results: Results) -> float | None:
    mine = runs.rate(results, runs.bench(POSTGRESQL))
    share = quotient(mine, runs.rate(results, runs.bench("postgresql-off", WITHOUT)))
    return None if share is None else 100 * share


def _rate(load: str, policy: Policy, results: Results) -> float | None:
    return runs.rate(results, runs.bench(load, policy))


def _settings() -> dict[str, Rule]:
    of = {
        "U: upgrade above": THESIS.upgrade,
        "D: downgrade below": THESIS.downgrade,
        "F: nothing before so many writes": THESIS.after,
        "G: order of a range": THESIS.order,
    }

    def ours(value: int) -> Ours:
        return lambda _results: float(value)

    return {name: Rule(SETTING, "default of dax=auto", ours(value)) for name, value in of.items()}


def _rules() -> dict[str, tuple[str, Ours]]:
    page, small = Policy(order=0), Policy(order=4)
    return {
        "Valkey: speedup": (f"{OVER}, always, 1 client", _gain(VALKEY)),
        "Valkey: speedup with G = 0": (OVER, _gain(VALKEY, page)),
        "Valkey with G = 4: speedup with F = 7 over that with F = 10": (
            OVER, _of_two(VALKEY, Policy(order=4, after=7), Policy(order=4, after=10))),
        "Valkey with a pipeline of 10: speedup": (OVER, _gain(PIPELINED)),
        "PostgreSQL: speedup": (f"{OVER}, fdatasync, scale 10", _gain(POSTGRESQL)),
        "PostgreSQL with G = 4: speedup": (OVER, _gain(POSTGRESQL, small)),
        "PostgreSQL with G = 4 and D = 50: speedup": (
            OVER, _gain(POSTGRESQL, Policy(order=4, downgrade=50))),
        "PostgreSQL with fsync: speedup": (OVER, _gain("postgresql-fsync")),
        "PostgreSQL with fsync=off: speedup": (OVER, _gain("postgresql-off")),
        "PostgreSQL: share of the rate with fsync=off": (
            "fdatasync with dax=auto ÷ fsync=off without", _share),
        "PostgreSQL: speedup with G = 0": (OVER, _gain(POSTGRESQL, page)),
        "RocksDB: speedup": (f"{OVER}, fillsync", _gain(ROCKSDB)),
        "RocksDB: speedup over F of 1 to 20 (average)": ("arithmetic mean of six F", _over_afters),
        "RocksDB with D = 10: speedup with G = 9 over that with G = 4": (
            OVER, _of_two(ROCKSDB, Policy(downgrade=10), Policy(downgrade=10, order=4))),
        "RocksDB with use_fsync: speedup": (OVER, _gain("rocksdb-use_fsync")),
        "RocksDB: operations per second": (
            "fillsync with dax=auto, in virtual time", partial(_rate, ROCKSDB, THESIS)),
        "RocksDB: speedup with G = 0": (OVER, _gain(ROCKSDB, page)),
    }  # fmt: skip


def benches(settings: Settings) -> list[Bench]:
    """The plays that the claims are computed from."""
    small = Policy(order=4)
    swept = [Policy(order=4, after=after) for after in (7, 10)]
    low = [Policy(downgrade=10), Policy(downgrade=10, order=4)]
    of = {
        VALKEY: (WITHOUT, THESIS, Policy(order=0), *swept),
        PIPELINED: (WITHOUT, THESIS),
        POSTGRESQL: (WITHOUT, THESIS, Policy(order=0), small, Policy(order=4, downgrade=50)),
        "postgresql-fsync": (WITHOUT, THESIS),
        "postgresql-off": (WITHOUT, THESIS),
        ROCKSDB: (WITHOUT, Policy(order=0), *low, *(Policy(after=after) for after in AFTERS)),
        "rocksdb-use_fsync": (WITHOUT, THESIS),
    }  # fmt: skip
    among = [*runs.databases(settings), *(
        name for name in of if name not in runs.DATABASES
        and name.partition("-")[0] in settings.workloads)]  # fmt: skip
    return [runs.bench(name, policy) for name in among for policy in of[name]]


def claims() -> list[Claim]:
    """All claims, in the order of the file. Raises `UserError` for one nobody knows to compute."""
    rules = {name: Rule(SIMULATED, how, ours) for name, (how, ours) in _rules().items()}
    return read(published, _settings() | rules)
