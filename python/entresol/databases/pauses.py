"""What a recording itself says of the time that FUSE takes."""

from __future__ import annotations

import json
from itertools import islice

APART_NS = 1_000
"""Operations of a thread that are less apart are parts of one request of the kernel, as a directory
that is read with the attributes of its files."""
SHARE = 20
"""One pause in so many may be shorter than what is taken for FUSE's."""


def pauses(text: str) -> list[int]:
    """From the end of each operation to the begin of the next one of its thread, in nanoseconds;
    those within a request are left out."""
    lines = iter(text.splitlines())
    before = json.loads(next(lines))["before"]
    ended: dict[int, int] = {}
    found = []
    for line in map(json.loads, islice(lines, before, None)):
        last = ended.get(line["thread"])
        if last is not None and line["begin_ns"] - last >= APART_NS:
            found.append(line["begin_ns"] - last)
        ended[line["thread"]] = line["end_ns"]
    return found


def fuse_ns(text: str, lookup_ns: int) -> int:
    """What FUSE takes of an operation: what a lookup of a name that is not there took, or, if that
    is less, what one pause of twenty stays below. Each pause has FUSE's way back and forth in it,
    so it takes no more than the shortest ones do; a lookup has the caller's and the file system's
    part besides, and the machine may have done something else meanwhile."""
    found = sorted(pauses(text))
    return min(lookup_ns, found[len(found) // SHARE]) if found else lookup_ns
