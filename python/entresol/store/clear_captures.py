"""Clearing the captures that the store made: those that no result is of, or all, by age."""

from __future__ import annotations

import re
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from entresol import locks
from entresol.atomic import TEMPORARY
from entresol.choices import Captures
from entresol.digest import file_digest
from entresol.errors import Failed
from entresol.store.result_store import Store

FRESH_SECONDS = 3600.0
"""A capture that was used since may be about to be run: it goes only if `--older` says so."""
_KEY = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Kept:
    """A capture in the store: a directory with the file and what the program said."""

    place: Path
    used: float
    """When it was made or last asked for, in seconds since 1970."""
    size: int
    """Bytes of all its files."""

    def digests(self) -> set[str]:
        """Of its captures, as results name them. Raises `Failed`."""
        try:
            return {file_digest(path) for path in self.place.glob("*.etr")}
        except OSError as error:
            raise Failed(f"{self.place}: cannot be read: {error.strerror}.") from error


@dataclass(frozen=True)
class Plan:
    """What clearing removes, and what there is."""

    captures: tuple[Kept, ...]
    litter: tuple[Path, ...]
    """Captures that nobody finishes any more."""
    total: int
    total_size: int
    spared: int
    """Captures that fit but are being made, or were used of late."""

    @property
    def size(self) -> int:
        """Bytes that become free, litter aside."""
        return sum(capture.size for capture in self.captures)


def directory(kept: Store) -> Path:
    """Where the captures of a store are."""
    return kept.root.parent / "captures"


def plan(kept: Store, which: Captures, older: float | None) -> Plan:
    """What to remove: of the captures that no result is of, or of all, those not used for `older`
    seconds, an hour if left out."""
    every = _every(directory(kept))
    wanted = every if which is Captures.ALL else _without_result(kept, every)
    since = time.time() - (FRESH_SECONDS if older is None else older)
    began = kept.in_use_since()
    at_work = None if began is None else began - FRESH_SECONDS  # Captures come before runs.
    if older is not None:  # Those that are too young are not what was asked for.
        wanted = [capture for capture in wanted if capture.used <= since]
    free = [
        capture
        for capture in wanted
        if capture.used <= since
        and (at_work is None or capture.used < at_work)
        and _is_free(capture.place)
    ]
    litter = [
        path for path in sorted(directory(kept).glob(f"{TEMPORARY}*")) if _is_free(_owner(path))
    ]
    size = sum(capture.size for capture in every)
    return Plan(tuple(free), tuple(litter), len(every), size, len(wanted) - len(free))


def _every(place: Path) -> list[Kept]:
    found = sorted(place.iterdir()) if place.is_dir() else ()
    known = (_look(path) for path in found if _KEY.fullmatch(path.name) and path.is_dir())
    return [capture for capture in known if capture is not None]


def _look(place: Path) -> Kept | None:
    """A capture as it is now; none if somebody removed it meanwhile."""
    try:
        about = place / "about.json"
        used = (about if about.exists() else place).stat().st_mtime
        return Kept(place, used, sum(path.stat().st_size for path in place.iterdir()))
    except FileNotFoundError:
        return None


def _without_result(kept: Store, every: Sequence[Kept]) -> list[Kept]:
    used = {digest for entry in kept.entries() for digest in entry.inputs["captures"]}
    return [capture for capture in every if not capture.digests() & used]


def _owner(litter: Path) -> Path:
    """The capture that a file of this name was to become."""
    return litter.with_name(litter.name.removeprefix(TEMPORARY)[:32])


@contextmanager
def _alone(place: Path) -> Iterator[bool]:
    """Whether nobody makes this capture; nobody begins to before this ends."""
    with locks.alone_now(place.with_name(f".{place.name}.lock")) as is_alone:
        yield is_alone


def _is_free(place: Path) -> bool:
    with _alone(place) as is_alone:
        return is_alone


def remove(planned: Plan) -> None:
    """Removes what was planned, but not what was made or used meanwhile. Raises `Failed`."""
    for path in planned.litter:
        with _alone(_owner(path)) as is_alone:
            if is_alone:
                _remove(path)
    for capture in planned.captures:
        with _alone(capture.place) as is_alone:
            if is_alone and _look(capture.place) == capture:
                _remove(capture.place)


def _remove(path: Path) -> None:
    """It is gone at once for all who look for it, and what is left if this is killed is litter."""
    aside = path.with_name(f"{TEMPORARY}{_owner(path).name}-{uuid.uuid4().hex}")
    try:
        path.rename(aside)
        shutil.rmtree(aside)
    except OSError as error:
        raise Failed(f"{path}: cannot be removed: {error.strerror}.") from error
