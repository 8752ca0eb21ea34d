"""Where one load's nanoseconds went, from what a repeated run recorded around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from entresol import quantity
from entresol.core import Json
from entresol.result_types import Access, FlashOperation, Recorded

_LINES = 64


@dataclass(frozen=True)
class Part:
    """A part of the load's time, in order; all parts add up to it."""

    name: str
    time_ps: int
    note: str = ""


@dataclass(frozen=True)
class Story:
    """A slow load: what it was, its parts, and what the die did while it waited."""

    access: Access
    parts: tuple[Part, ...]
    operations: tuple[FlashOperation, ...]

    @property
    def latency_ps(self) -> int:
        """From first issue to data."""
        return self.access["done_ps"] - self.access["first_ps"]

    @property
    def headline(self) -> str:
        """Which load it is and how long it took."""
        page, line = divmod(self.access["line"], _LINES)
        access, core = self.access, self.access["core"]
        asker = "" if core is None else f", asked for by core {core}"
        what = f"page {page} as a whole" if access["is_page"] else f"line {line} of page {page}"
        return (
            f"{what}{asker}: {quantity.duration(self.latency_ps)} from the "
            f"first issue at {quantity.duration(self.access['first_ps'])} to data; "
            f"{self.access['served']}"
        )


def tell(access: Access, recorded: Recorded) -> Story:
    """The story of a load; `recorded` holds what overlaps it."""
    return Story(access, tuple(_parts(access, recorded)), tuple(_operations(access, recorded)))


def _parts(access: Access, recorded: Recorded) -> list[Part]:
    away = access["issued_ps"] - access["first_ps"]
    delays = [
        other
        for other in recorded["accesses"]
        if other["line"] == access["line"]
        and other["answer"] == "delay"
        and access["first_ps"] <= other["issued_ps"] < access["done_ps"]
    ]
    count = len(delays)
    times = "once" if count == 1 else f"{count} times"
    note = f"answered SkyByte-Delay {times}; its thread was switched out, waited to run, and was"
    note += " switched in to ask again (retries in closed form are not counted)"
    there, back = access["hop_there_ps"], access["hop_back_ps"]
    link = access["arrived_ps"] - access["sent_ps"] + access["done_ps"] - access["answered_ps"]
    return [
        Part("thread switched out", away, note if away else ""),
        Part(
            "waiting in the host",
            access["sent_ps"] - access["issued_ps"] - there,
            "for write credits, or for another request of the line",
        ),
        Part("between sockets, both ways", there + back),
        Part("CXL link, both ways", link - back),
        Part("waiting for room", access["stall_ps"], "log full, or no MSHR, frame or buffer"),
        Part("index lookup", access["index_ps"]),
        Part("flash", access["flash_ps"], _flash_note(access, recorded)),
        Part("device DRAM", access["ssd_dram_ps"]),
    ]


def _own_read(access: Access, recorded: Recorded) -> FlashOperation | None:
    # The read of its die that ended last before the answer left.
    reads = [
        operation
        for operation in recorded["flash"]
        if operation["kind"] == "read"
        and operation["die"] == access["die"]
        and access["first_ps"] <= operation["finished_ps"] <= access["answered_ps"]
    ]
    return max(reads, key=lambda operation: operation["finished_ps"], default=None)


def _flash_note(access: Access, recorded: Recorded) -> str:
    read = _own_read(access, recorded)
    if access["flash_ps"] == 0 or read is None:
        return ""
    waited = read["started_ps"] - read["submitted_ps"]
    worked = read["finished_ps"] - read["started_ps"]
    return (
        f"die {access['die']}: {quantity.duration(waited)} behind other operations, "
        f"{quantity.duration(worked)} to read and transfer the page"
    )


def _operations(access: Access, recorded: Recorded) -> list[FlashOperation]:
    """What the load's die worked on between its first issue and its data."""
    return sorted(
        (
            operation
            for operation in recorded["flash"]
            if operation["die"] == access["die"]
            and operation["started_ps"] < access["done_ps"]
            and operation["finished_ps"] > access["first_ps"]
        ),
        key=lambda operation: (operation["started_ps"], operation["finished_ps"]),
    )


def as_json(story: Story, warnings: Sequence[str]) -> Json:
    """The object of `--json`."""
    return {
        "schema": 1,
        "kind": "why",
        "warnings": list(warnings),
        "access": story.access,
        "latency_ps": story.latency_ps,
        "parts": [
            {"name": part.name, "time_ps": part.time_ps, "note": part.note} for part in story.parts
        ],
        "die_operations": list(story.operations),
    }
