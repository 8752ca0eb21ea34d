"""What is measured: databases, their settings, and which of all combinations `--quick` takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from entresol.errors import UserError, did_you_mean

VALKEY, POSTGRESQL, ROCKSDB = "valkey", "postgresql", "rocksdb"
DATABASES = (VALKEY, POSTGRESQL, ROCKSDB)
DEFAULT, HYBRID, EXPLICIT = "default", "hybrid", "explicit"
PREDICT, ADAPTIVE = "predict", "adaptive"
THESIS_TYPES = (DEFAULT, HYBRID, EXPLICIT)
"""The thesis's words: without DAX, with ranges that the file system chooses, and with files that
ask for it, which here are the database's logs."""
TYPES = (*THESIS_TYPES, PREDICT, ADAPTIVE)
"""And ranges that our policies choose."""
MOUNTED_WITH = {
    DEFAULT: "dax=off", HYBRID: "dax=auto", EXPLICIT: "dax=explicit",
    PREDICT: "dax=auto,dax_policy=predict", ADAPTIVE: "dax=auto,dax_policy=adaptive",
}  # fmt: skip
CLIENTS = (1, 2, 4, 8, 50)
PIPELINES = (1, 10)
SMALL_SCALE, LARGE_SCALE = 10, 70


@dataclass(frozen=True)
class Case:
    """One way in which a database is used."""

    database: str
    variant: str
    """How it makes writes durable, in the thesis's words."""
    operations: int
    """How many; for PostgreSQL the seconds that it runs, as pgbench has it."""
    clients: int = 1
    pipeline: int = 1
    scale: int = 0
    """Of pgbench."""
    is_swept: bool = False
    """Whether it is run with each cost of a flush."""

    @property
    def name(self) -> str:
        """As tables have it."""
        beside = []
        if self.scale:
            beside.append(f"scale {self.scale}")
        if self.database == VALKEY or self.clients > 1:
            beside.append(f"{self.clients} client{'s' * (self.clients > 1)}")
        if self.pipeline > 1:
            beside.append(f"pipeline {self.pipeline}")
        return ", ".join((self.variant, *beside))


def _valkey(mode: str, clients: int, pipeline: int, *, quick: bool) -> Case:
    at_once = clients * pipeline
    if mode == "always":
        # Some thousand syncs, which many clients share.
        operations = min((1_500 if quick else 5_000) * at_once, 20_000 if quick else 200_000)
    else:
        operations = 20_000 if quick else 1_000_000
    is_swept = (mode, clients, pipeline) == ("always", 1, 1)
    return Case(VALKEY, mode, operations, clients, pipeline, is_swept=is_swept)


def _postgresql(variant: str, scale: int, *, quick: bool) -> Case:
    is_swept = (variant, scale) == ("fdatasync", SMALL_SCALE)
    return Case(POSTGRESQL, variant, 4 if quick else 20, scale=scale, is_swept=is_swept)


def _rocksdb(variant: str, *, quick: bool) -> Case:
    if variant == "fillseq":
        return Case(ROCKSDB, variant, 100_000 if quick else 1_000_000)
    return Case(ROCKSDB, variant, 1_500 if quick else 10_000, is_swept=variant == "fillsync")


def quick() -> tuple[Case, ...]:
    """What shows each of the published effects once."""
    return (
        _valkey("always", 1, 1, quick=True),
        _valkey("always", 1, 10, quick=True),
        _valkey("always", 50, 1, quick=True),
        _valkey("everysec", 1, 1, quick=True),
        _valkey("no", 1, 1, quick=True),
        *(_postgresql(variant, SMALL_SCALE, quick=True) for variant in POSTGRESQL_VARIANTS),
        *(_rocksdb(variant, quick=True) for variant in ROCKSDB_VARIANTS),
    )


POSTGRESQL_VARIANTS = ("fdatasync", "fsync", "fsync=off")
ROCKSDB_VARIANTS = ("fillseq", "fillsync", "fillsync, use_fsync")


def full() -> tuple[Case, ...]:
    """All."""
    modes = ("always", "everysec", "no")
    return (
        *(
            _valkey(mode, clients, pipeline, quick=False)
            for mode in modes
            for pipeline in PIPELINES
            for clients in CLIENTS
        ),
        *(
            _postgresql(variant, scale, quick=False)
            for scale in (SMALL_SCALE, LARGE_SCALE)
            for variant in POSTGRESQL_VARIANTS
        ),
        *(_rocksdb(variant, quick=False) for variant in ROCKSDB_VARIANTS),
    )


def chosen(text: str | None, known: Sequence[str], option: str) -> tuple[str, ...]:
    """What a list with commas names, in the order of those that there are; all if left out."""
    if text is None:
        return tuple(known)
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            hint = did_you_mean(word, known)
            raise UserError(f"{option} {word}: there are {', '.join(known)}.{hint}")
    if not words:
        raise UserError(f"{option}: names nothing; there are {', '.join(known)}.")
    return tuple(word for word in known if word in words)
