"""A recording as a trace-event file, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterator

from entresol.core import Json
from entresol.result_types import Recorded

_CORES, _READS, _DIES = 1, 2, 3


def text(recorded: Recorded, title: str) -> str:
    """The whole file, one event a line."""
    events = [*_names(recorded), *_turns(recorded), *_reads(recorded), *_flash(recorded)]
    lines = ",\n".join(json.dumps(event) for event in events)
    head = json.dumps({"title": title, "dropped": recorded["dropped"]})
    return f'{{"displayTimeUnit": "ns", "otherData": {head}, "traceEvents": [\n{lines}\n]}}\n'


def _micros(picoseconds: int) -> float:
    return picoseconds / 1e6


def _names(recorded: Recorded) -> Iterator[Json]:
    for process, name in ((_CORES, "cores"), (_READS, "reads from the device"), (_DIES, "flash")):
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
    cores = {turn["core"] for turn in recorded["turns"]}
    dies = {operation["die"] for operation in recorded["flash"]}
    for process, key, numbers in ((_CORES, "core", cores), (_DIES, "die", dies)):
        for number in sorted(numbers):
            yield {
                "ph": "M",
                "name": "thread_name",
                "pid": process,
                "tid": number,
                "args": {"name": f"{key} {number}"},
            }


def _turns(recorded: Recorded) -> Iterator[Json]:
    for turn in recorded["turns"]:
        yield _slice(
            _CORES,
            turn["core"],
            f"thread {turn['thread']}",
            turn["from_ps"],
            turn["to_ps"],
            {"leaves": turn["leave"]},
        )


def _flash(recorded: Recorded) -> Iterator[Json]:
    for operation in recorded["flash"]:
        waited = operation["started_ps"] - operation["submitted_ps"]
        yield _slice(
            _DIES,
            operation["die"],
            operation["kind"],
            operation["started_ps"],
            operation["finished_ps"],
            {"waited_us": _micros(waited)},
        )


def _slice(process: int, track: int, name: str, start: int, end: int, facts: Json) -> Json:
    return {
        "ph": "X",
        "name": name,
        "pid": process,
        "tid": track,
        "ts": _micros(start),
        "dur": _micros(end - start),
        "args": facts,
    }


def _reads(recorded: Recorded) -> Iterator[Json]:
    # Reads overlap, so each is a nest of its own instead of a slice of a track.
    for number, access in enumerate(recorded["accesses"]):
        page, line = divmod(access["line"], 64)
        name = "SkyByte-Delay" if access["answer"] == "delay" else access["served"]
        facts: Json = {"page": page, "core": access["core"], "die": access["die"]}
        if not access["is_page"]:
            facts["line"] = line
        facts |= {
            "stall_us": _micros(access["stall_ps"]),
            "index_us": _micros(access["index_ps"]),
            "flash_us": _micros(access["flash_ps"]),
            "ssd_dram_us": _micros(access["ssd_dram_ps"]),
        }
        issued, done = access["issued_ps"], access["done_ps"]
        sent, arrived, answered = access["sent_ps"], access["arrived_ps"], access["answered_ps"]
        spans: list[tuple[str, int, int, Json]] = [
            (name, issued, done, facts),
            ("host queue", issued, sent, {}),
            ("link to device", sent, arrived, {}),
            ("device", arrived, answered, {}),
            ("link to host", answered, done, {}),
        ]
        for label, start, end, extra in spans:
            if end == start:
                continue
            common = {"cat": "read", "id": number, "pid": _READS, "tid": 0, "name": label}
            yield common | {"ph": "b", "ts": _micros(start), "args": extra}
            yield common | {"ph": "e", "ts": _micros(end)}
