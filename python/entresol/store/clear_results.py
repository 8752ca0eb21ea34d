"""Clearing the store: by age, by size, and of builds that are gone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from entresol.atomic import TEMPORARY
from entresol.errors import Failed
from entresol.store import result_store, search
from entresol.store.result_store import Store
from entresol.store.search import Filter, Item

LITTER_SECONDS = 3600
"""After this a file that was never finished has no owner any more."""


@dataclass(frozen=True)
class Plan:
    """What clearing removes, and what there is."""

    items: tuple[Item, ...]
    litter: tuple[Path, ...]
    total: int
    total_size: int
    spared: int
    """Results that fit but that a command at work may need."""
    damaged: tuple[Path, ...] = ()
    """Files that cannot be believed."""

    @property
    def size(self) -> int:
        """Bytes that become free."""
        return sum(item.size for item in self.items)


def plan(kept: Store, wanted: Filter | None, most: int | None, *, damaged: bool = False) -> Plan:
    """What to remove: what fits, and of the rest the longest unused until at most `most` bytes
    are left. A result that was used since a command now at work began is never removed."""
    everything = search.items(kept, Filter())
    chosen = [item for item in everything if wanted is not None and wanted.fits(item)]
    keys = {item.entry.key for item in chosen}
    left = sum(item.size for item in everything if item.entry.key not in keys)
    for item in everything:
        if most is not None and left > most and item.entry.key not in keys:
            chosen.append(item)
            left -= item.size
    since = kept.in_use_since()
    spared = [item for item in chosen if since is not None and item.used >= since]
    free = [item for item in chosen if item not in spared]
    size = sum(item.size for item in everything)
    # Who is at work may be about to put a whole one in the place of a damaged one.
    broken = tuple(kept.damaged()) if damaged and since is None else ()
    return Plan(tuple(free), tuple(_litter(kept)), len(everything), size, len(spared), broken)


def _litter(kept: Store) -> Sequence[Path]:
    old = time.time() - LITTER_SECONDS
    found = (path for where in ("", "??/") for path in kept.root.glob(f"{where}{TEMPORARY}*"))
    return [path for path in sorted(found) if path.stat().st_mtime < old]


def remove(kept: Store, planned: Plan) -> None:
    """Removes what was planned. Raises `Failed`."""
    for path in planned.damaged:
        _remove_damaged(path)
    for path in [*planned.litter, *(kept.path(item.entry.key) for item in planned.items)]:
        unlink(path)


def _remove_damaged(path: Path) -> None:
    try:
        result_store.read(path)
    except result_store.DamagedError:
        unlink(path)
    except OSError:
        return  # It is gone.


def unlink(path: Path) -> None:
    """Removes a file, if it is there. Raises `Failed`."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise Failed(f"{path}: cannot be removed: {error.strerror}.") from error
