"""Several clients of Valkey as a closed loop: what its steps take, from a recording of one client
and from what `bench dax` has measured of processors.

The server takes the requests that have come, writes and syncs, and answers; the tool, one thread
for all clients, takes its time for each answer before the client asks again. The core plays that
(`crates/fslab/src/load/clients.rs`): how many requests share a sync follows from what a sync takes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from entresol.core import Json
from entresol.databases.cases import DEFAULT, HYBRID, VALKEY
from entresol.databases.database import BEGIN, END
from entresol.errors import UserError
from entresol.figures.recordings import Clients

Line = dict[str, Any]

PIPELINED = 10
"""Requests at a time of the case that says what each beside the first takes."""


def lines_of(text: str) -> tuple[Line, list[Line]]:
    """The head of a recording, and its operations."""
    head, *lines = (json.loads(line) for line in text.splitlines())
    return head, lines


def measured(lines: Sequence[Line]) -> range:
    """Which of them lie between the marks."""
    at = {line["op"]["lookup"]["name"]: number for number, line in enumerate(lines)
          if "lookup" in line["op"] and line["op"]["lookup"]["name"] in (BEGIN, END)}  # fmt: skip
    return range(at[BEGIN] + 1, at[END])


def thinks(lines: Sequence[Line]) -> list[int]:
    """Nanoseconds of the program from the sync of each batch to the write of the next one."""
    return _pauses(lines, "fsync", "write")


def _pauses(lines: Sequence[Line], one: str, other: str) -> list[int]:
    found, before = [], None
    for number in measured(lines):
        line = lines[number]
        if other in line["op"] and before is not None:
            found.append(line["begin_ns"] - before)
        before = line["end_ns"] if one in line["op"] else None
    return found


@dataclass(frozen=True)
class Costs:
    """What is the same for any number of clients, in nanoseconds; see `Clients`."""

    receive_ns: int
    request_ns: int
    answer_ns: int
    tool_ns: int
    tool_request_ns: int


@dataclass(frozen=True)
class Seen:
    """What was measured of one number of clients."""

    tool_us: float
    """Of a processor, for each request."""
    server_us: float
    per_sync: float
    """Requests."""


def costs(one: Seen, ten: Seen, many: Seen, count: int, shared: float) -> Costs:
    """From one client, from one with ten requests at a time, and from many with one each, all
    with DAX: programs that sleep for milliseconds wake up to cold caches, and as a rule these do
    not. Processor time that a request takes beside others of its client is that of ten less that of
    one; what a client's turn takes is that of many less the server's part of a round, which is what
    one client takes more.

    How much of a server's turn is the answer follows from how many (`shared`) share a sync without
    DAX, which is longer than everything else: while the server answers k clients the tool is done
    with k · answer / tool of them, so that k = count - k + k · answer / tool.
    """
    tool_request = max((PIPELINED * ten.tool_us - one.tool_us) / (PIPELINED - 1), 0.0)
    request = max((PIPELINED * ten.server_us - one.server_us) / (PIPELINED - 1), 0.0)
    turn = (many.server_us - one.server_us / many.per_sync) / (1 - 1 / many.per_sync)
    share = min(max(2 - count / shared, 0.0), 1.0)
    answer = min(share * many.tool_us, max(turn - request, 0.0))
    spans = (turn - request - answer, request, answer, many.tool_us - tool_request, tool_request)
    return Costs(*(max(round(1000 * each), 0) for each in spans))


def of_bench(bench: Json) -> Costs | None:
    """What a bench has measured; none where it lacks a case, or is of before it was measured."""
    seen: dict[tuple[str, int, int], Seen] = {}
    for row in bench["cases"]:
        case, took = row["case"], row.get("processor_us")
        if (case["database"], case.get("variant")) != (VALKEY, "always"):
            continue
        if took and row["operations_per_sync"]:
            of = Seen(took["tool"], took["server"], row["operations_per_sync"])
            seen.setdefault((row["type"], case["clients"], case["pipeline"]), of)
    count = max((count for _, count, pipeline in seen if pipeline == 1), default=1)
    wanted = ((HYBRID, 1, 1), (HYBRID, 1, PIPELINED), (HYBRID, count, 1), (DEFAULT, count, 1))
    if count == 1 or any(key not in seen for key in wanted):
        return None
    one, ten, many, plain = (seen[key] for key in wanted)
    if many.per_sync <= 1:  # Nobody shares a sync, so a turn cannot be told from a round.
        return None
    return costs(one, ten, many, count, plain.per_sync)


def looped(
    text: str, fuse_ns: int, of: Costs, count: int, pipeline: int, requests: int
) -> Clients:  # fmt: skip
    """So many clients instead of the one that was recorded. What that one's turn took and no step
    of it explains is the time of sleeping programs to wake up, which a server that finds requests
    does not need; FUSE's part is that of each round. Raises `UserError` if nothing was recorded."""
    _, lines = lines_of(text)
    turns, syncs = thinks(lines), _pauses(lines, "write", "fsync")
    sizes = [lines[number]["op"]["write"]["size"] for number in measured(lines)
             if "write" in lines[number]["op"]]  # fmt: skip
    if not turns or not syncs:
        raise UserError("Clients are played from a recording of one that writes and syncs.")
    known = fuse_ns + of.receive_ns + of.request_ns + of.answer_ns + of.tool_ns + of.tool_request_ns
    return Clients(
        count=count, pipeline=pipeline, requests=requests, bytes=round(sum(sizes) / len(syncs)),
        receive_ns=of.receive_ns, request_ns=of.request_ns, answer_ns=of.answer_ns,
        round_ns=fuse_ns, wake_ns=max(sum(turns) // len(turns) - known, 0),
        sync_ns=sum(syncs) // len(syncs), tool_ns=of.tool_ns, tool_request_ns=of.tool_request_ns,
    )  # fmt: skip
