"""What a real file system moved, by class: lines of the kernel's trace made into bytes and flushes.

Requests are those that the block layer hands to the device (`block_rq_issue`). What a block of 4
KiB is of is what the file system itself said last: ext4 when it allocates (only blocks of regular
files have the hint DATA; the journal's blocks are known from its inode), F2FS with each page that
it writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

BLOCK = 4096
SECTOR = 512
METADATA, JOURNAL, DATA = CLASSES = ("metadata", "journal", "data")

_EVENT = re.compile(r"^\s*\S+-\d+\s+\[\d+\]\s+\S+\s+[\d.]+: (\w+): (.*)$")
_REQUEST = re.compile(r"^(\d+,\d+) ([A-Z]+) (?:(\d+) )?\(.*\) (-?\d+) \+ (\d+) \[")
_ALLOCATED = re.compile(r"\bflags (\S*) len (\d+) block (\d+) ")
_PAGE = re.compile(
    r", ino = (\d+), page_index = 0x([0-9a-f]+), .*, newaddr = 0x([0-9a-f]+), rw = (\w+)\(.*\), "
    r"type = (?:(HOT|WARM|COLD)_)?(DATA|NODE|META|META_FLUSH)$"
)


class Wrong(Exception):
    """A trace that is not whole, or that has what nobody expects."""


@dataclass
class Moved:
    """What went between host and device."""

    written: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    read: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    flushes: int = 0
    """Requests to flush, and writes that themselves must be durable when they are answered."""
    discards: int = 0


class Layout:
    """What each block is of, as far as the trace has come."""

    def __init__(self, journal: Iterable[int] = ()) -> None:
        self._of = dict.fromkeys(journal, JOURNAL)

    def say(self, first: int, count: int, what: str) -> None:
        """These blocks are this from now on; the journal's stay."""
        for block in range(first, first + count):
            if self._of.get(block) != JOURNAL:
                self._of[block] = what

    def of(self, block: int) -> str:
        """What is neither of a file nor the journal is metadata."""
        return self._of.get(block, METADATA)


def count(lines: Iterable[str], device: str, journal: Iterable[int] = ()) -> Moved:
    """What was moved between the marks of the program, from and to a device by its numbers."""
    lines = list(lines)
    layout, moved = Layout(journal), Moved()
    directories = _directories(lines)
    marks: list[str] = []
    for line in lines:
        match = _EVENT.match(line)
        if match is None:
            if line.strip() and not line.startswith("#"):
                raise Wrong(f"the trace has a line that is no event: {line.strip()}")
            continue
        event, rest = match.groups()
        if event == "tracing_mark_write":
            marks.append(rest.strip())
        elif event == "ext4_allocate_blocks":
            _allocated(rest, layout)
        elif event in ("f2fs_submit_page_write", "f2fs_submit_page_bio"):
            _page(rest, layout, directories)
        elif event in ("block_rq_issue", "block_rq_requeue"):
            if marks == ["likeness begin"]:
                sign = 1 if event == "block_rq_issue" else -1
                _request(rest, device, layout, moved, sign)
        else:
            raise Wrong(f"the trace has an event that nobody asked for: {event}")
    if marks != ["likeness begin", "likeness end"]:
        raise Wrong(f"the trace has not the two marks of the program, but {marks}")
    return moved


def _allocated(rest: str, layout: Layout) -> None:
    match = _ALLOCATED.search(rest)
    if match is None:
        raise Wrong(f"an allocation of ext4 that cannot be read: {rest}")
    flags, length, block = match.groups()
    is_data = "HINT_DATA" in flags.split("|")
    layout.say(int(block), int(length), DATA if is_data else METADATA)


def _directories(lines: Iterable[str]) -> set[int]:
    """Inodes of F2FS's directories: their nodes are the hot ones (f2fs: __get_segment_type_6)."""
    hot: set[int] = set()
    warm: set[int] = set()
    for line in lines:
        match = _PAGE.search(line.rstrip())
        if match is not None and match[4] == "WRITE" and match[6] == "NODE":
            (hot if match[5] == "HOT" else warm).add(int(match[2], 16))
    if hot & warm:
        raise Wrong(f"inodes of F2FS were directories and files: {sorted(hot & warm)}")
    return hot


def _page(rest: str, layout: Layout, directories: set[int]) -> None:
    match = _PAGE.search(rest)
    if match is None:
        raise Wrong(f"a page of F2FS that cannot be read: {rest}")
    if match[4] == "WRITE":
        is_data = match[6] == "DATA" and int(match[1]) not in directories
        layout.say(int(match[3], 16), 1, DATA if is_data else METADATA)


def _request(rest: str, device: str, layout: Layout, moved: Moved, sign: int) -> None:
    match = _REQUEST.match(rest)
    if match is None:
        raise Wrong(f"a request that cannot be read: {rest}")
    where, flags, _, sector, sectors = match.groups()
    if where != device:
        return
    # F before the operation asks for a flush, F behind it for a durable write (blk_fill_rwbs).
    operation = flags.removeprefix("F")[:1] or "F"
    if operation == "F":
        moved.flushes += sign
    elif operation == "D":
        moved.discards += sign
    elif operation in "RW":
        if "F" in flags.removeprefix("F"):
            moved.flushes += sign
        into = moved.written if operation == "W" else moved.read
        begin, end = int(sector) * SECTOR, (int(sector) + int(sectors)) * SECTOR
        for block in range(begin // BLOCK, -(-end // BLOCK)):
            part = min(end, (block + 1) * BLOCK) - max(begin, block * BLOCK)
            into[layout.of(block)] += sign * part
    else:
        raise Wrong(f"a request of a kind that nobody expects: {rest}")


def check_whole(stats: str) -> None:
    """The trace's buffer must have had room for everything."""
    numbers = dict(re.findall(r"^([a-z ]+): (\d+)", stats, re.MULTILINE))
    lost = {name: number for name, number in _lost(numbers).items() if number != "0"}
    if lost:
        raise Wrong(f"the guest's trace is not whole: {lost}; give its buffer more memory")


def _lost(numbers: Mapping[str, str]) -> dict[str, str]:
    wanted = ("overrun", "commit overrun", "dropped events")
    if any(name not in numbers for name in wanted):
        raise Wrong("the guest has not said whether its trace is whole")
    return {name: numbers[name] for name in wanted}
