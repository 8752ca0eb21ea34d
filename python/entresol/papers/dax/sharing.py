"""Requests that share a sync: what Valkey's recordings of one and of ten at a time say of more.

A server that answers several clients writes what they asked for meanwhile with one sync. How many
that are follows from how long a sync takes, so a recording of several clients has the batches of
the drive that it was made with. Here the number is given, and the program's time for each request
is what ten at a time take more than one.
"""

from __future__ import annotations

import json

from entresol.databases import clients
from entresol.figures.recordings import Recorded

PIPELINED_REQUESTS = 10
"""Of a batch of the second recording."""

MOST = 1000
"""Requests of a batch: the log has 68 MB then, and more has no server in one write."""


def each_ns(one: Recorded, ten: Recorded) -> int:
    """What a request takes of the program beside others of its batch."""
    both = (clients.thinks(clients.lines_of(of.text)[1]) for of in (one, ten))
    means = [sum(found) // len(found) for found in both]
    return max(means[1] - means[0], 0) // (PIPELINED_REQUESTS - 1)


def shared(one: Recorded, ten: Recorded, requests: int) -> Recorded:
    """The recording of one client, with so many requests in each write."""
    head, lines = clients.lines_of(one.text)
    more = (requests - 1) * each_ns(one, ten)
    measured, later = clients.measured(lines), 0
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
