"""Clearing what a store keeps beside results of captures: results of loads of file systems and of
windows in the steady state, and the files of misses that these begin with, by age."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from entresol.atomic import TEMPORARY
from entresol.store.clear_results import LITTER_SECONDS, unlink
from entresol.store.result_store import Store

PLACES = ("file-systems/results/??/*.json", "steady/*.json", "misses/*.misses")
"""Where these are, below the store's directory. Who finds one notes in its time that it did.
What a killed command has not finished is beside them."""


@dataclass(frozen=True)
class Plan:
    """What clearing removes, and what there is."""

    files: tuple[Path, ...]
    size: int
    """Bytes that become free."""
    total: int
    total_size: int


def plan(kept: Store, older: float) -> Plan:
    """What to remove: what was not used for `older` seconds, but nothing that was used since a
    command began that is still at work."""
    began, now = kept.in_use_since(), time.time()
    before = now - older if began is None else min(now - older, began)
    unfinished = now - LITTER_SECONDS if began is None else min(now - LITTER_SECONDS, began)
    every = list(_every(kept.root.parent))
    old = [
        (path, size)
        for path, used, size in every
        if used < (unfinished if path.name.startswith(TEMPORARY) else before)
    ]
    return Plan(tuple(path for path, _ in old), sum(size for _, size in old), len(every),
                sum(size for _, _, size in every))  # fmt: skip


def _every(directory: Path) -> Iterator[tuple[Path, float, int]]:
    folders = dict.fromkeys(place.rpartition("/")[0] for place in PLACES)
    for place in (*PLACES, *(f"{folder}/{TEMPORARY}*" for folder in folders)):
        for path in sorted(directory.glob(place)):
            if path.name.startswith(TEMPORARY) != (TEMPORARY in place):
                continue
            try:
                about = path.stat()
            except FileNotFoundError:
                continue  # Somebody else has removed it.
            yield path, about.st_mtime, about.st_size


def remove(planned: Plan) -> None:
    """Removes what was planned. Raises `Failed`."""
    for path in planned.files:
        unlink(path)
