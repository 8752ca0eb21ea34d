"""Requests that share a sync: what Valkey's recordings of one and of ten at a time say of more.

A server that answers several clients writes what they asked for meanwhile with one sync. How many
that are follows from how long a sync takes, so a recording of several clients has the batches of
the drive that it was made with. Here the number is given, and the program's time for each request
is what ten at a time take more than one.
"""

from __future__ import annotations

import json
from typing import Any

from entresol.databases.database import BEGIN, END
from entresol.figures.recordings import Recorded

PIPELINED_REQUESTS = 10
"""Of a batch of the second recording."""

MOST = 1000
"""Requests of a batch: the log has 68 MB then, and more has no server in one write."""

Line = dict[str, Any]


def _lines(text: str) -> tuple[Line, list[Line]]:
    head, *lines = (json.loads(line) for line in text.splitlines())
    return head, lines


def _measured(lines: list[Line]) -> range:
    """Which of them lie between the marks."""
    at = {line["op"]["lookup"]["name"]: number for number, line in enumerate(lines)
          if "lookup" in line["op"] and line["op"]["lookup"]["name"] in (BEGIN, END)}  # fmt: skip
    return range(at[BEGIN] + 1, at[END])


def _thinks(lines: list[Line]) -> list[int]:
    """Nanoseconds of the program from the sync of each batch to the write of the next one."""
    found, before = [], None
    for number in _measured(lines):
        line = lines[number]
        if "write" in line["op"] and before is not None:
            found.append(line["begin_ns"] - before)
        before = line["end_ns"] if "fsync" in line["op"] else None
    return found


def each_ns(one: Recorded, ten: Recorded) -> int:
    """What a request takes of the program beside others of its batch."""
    means = [sum(thinks) // len(thinks)
             for thinks in (_thinks(_lines(of.text)[1]) for of in (one, ten))]  # fmt: skip
    return max(means[1] - means[0], 0) // (PIPELINED_REQUESTS - 1)


def shared(one: Recorded, ten: Recorded, requests: int) -> Recorded:
    """The recording of one client, with so many requests in each write."""
    head, lines = _lines(one.text)
    more = (requests - 1) * each_ns(one, ten)
    measured, later = _measured(lines), 0
    grown: dict[int, int] = {}
    for number, line in enumerate(lines):
        write = line["op"].get("write")
        if number in measured and write is not None:
            later += more
            at = write["at"] + grown.get(write["ino"], 0)
            size = write["size"] * requests
            grown[write["ino"]] = grown.get(write["ino"], 0) + size - write["size"]
            count = (at + size - 1) // 64 - at // 64 + 1
            line["op"]["write"] = write | {"at": at, "size": size, "sums": "00000001" * count}
        line["begin_ns"] += later
        line["end_ns"] += later
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in (head, *lines))
    return Recorded(text, one.operations * requests, one.fuse_ns, one.between)
