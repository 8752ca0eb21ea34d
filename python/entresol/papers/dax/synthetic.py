"""Recordings that nobody has recorded: loads that show what no database shows alone."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

PAGE, LINE = 4096, 64
MILLI = 1_000_000
"""Nanoseconds."""
ROOT, FIRST, TABLE = 1, 100, 99
"""Numbers of inodes: the first log's, and that of the file of tables."""
RECORD = 512
TABLE_PAGES = 2048
LOG_RECORDS = 2048
"""Of one log: a mebibyte, as a database begins a new one now and then."""

CYCLES = 4
SYNCED, CYCLE = 200, 600
"""Writes behind each of which a page is synced, and until it is so again: ten and thirty seconds,
and what their syncs take."""

Line = dict[str, Any]


def _text(before: list[Line], entries: list[Line]) -> str:
    head = {"entresol_recording": 1, "before": len(before), "operations": len(entries)}
    return "".join(json.dumps(line) + "\n" for line in (head, *before, *entries))


def _line(thread: int, at: int, op: Line, found: int | None = None) -> Line:
    line: Line = {"thread": thread, "begin_ns": at, "end_ns": at, "op": op}
    return line if found is None else line | {"found": found}


def _make(name: str) -> Line:
    return {"make": {"parent": ROOT, "name": name, "kind": "file", "permissions": 0o600,
                     "is_opened": True}}  # fmt: skip


def _write(ino: int, at: int, size: int, what: int) -> Line:
    sums = f"{what % 0xFFFF_FFFF + 1:08x}" * (size // LINE)
    return {"write": {"ino": ino, "at": at, "size": size, "direct": False, "sync": False,
                      "sums": sums}}  # fmt: skip


def _sync(ino: int) -> Line:
    return {"fsync": {"ino": ino, "data_only": True}}


def is_synced(number: int) -> bool:
    """Whether a sync follows this write of `oscillating`."""
    return number % CYCLE < SYNCED or number % 40 == 0


def oscillating(cycles: int = CYCLES) -> str:
    """A page of one range that is synced behind each write for ten seconds, then behind each
    fortieth for twenty, and so on: the thesis's Figure 4.1 is a drawing of that."""
    each = 50 * MILLI
    entries = [_line(0, 0, _make("page"), FIRST), _line(0, 0, _sync(FIRST))]
    at = 0
    for number in range(cycles * CYCLE):
        at += each
        entries.append(_line(0, at, _write(FIRST, 0, PAGE, number)))
        if is_synced(number):
            entries.append(_line(0, at, _sync(FIRST)))
    return _text([], entries)


def mixed(seconds: int) -> str:
    """A log to which 512 B are appended and synced every ten milliseconds, a new one each 2,048
    records; and beside it ten pages a second anywhere in a file of 8 MiB, of which each fourth is
    synced."""
    before = [_line(0, 0, _make("table"), TABLE),
              _line(0, 0, _write(TABLE, 0, TABLE_PAGES * PAGE, 1))]  # fmt: skip
    entries = [*_log(seconds), *_table(seconds)]
    return _text(before, sorted(entries, key=lambda line: int(line["begin_ns"])))


def _log(seconds: int) -> Iterator[Line]:
    for number in range(seconds * 100):
        ino, record = FIRST + number // LOG_RECORDS, number % LOG_RECORDS
        at = number * 10 * MILLI
        if record == 0:
            yield _line(0, at, _make(f"log-{ino}"), ino)
        yield _line(0, at, _write(ino, record * RECORD, RECORD, number))
        yield _line(0, at, _sync(ino))


def _table(seconds: int) -> Iterator[Line]:
    draw = random.Random(18)
    for number in range(seconds * 10):
        at = number * 100 * MILLI + MILLI
        yield _line(1, at, _write(TABLE, draw.randrange(TABLE_PAGES) * PAGE, PAGE, number))
        if number % 4 == 3:
            yield _line(1, at, _sync(TABLE))
