"""A recording as a trace-event file, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterator

from entresol.core import Json

_CORES, _READS, _DIES = 1, 2, 3
_STEPS = (
    ("host queue", "issued_ps", "sent_ps"),
    ("link to device", "sent_ps", "arrived_ps"),
    ("device", "arrived_ps", "answered_ps"),
    ("link to host", "answered_ps", "done_ps"),
)


def text(recorded: Json, title: str) -> str:
    """The whole file, one event a line."""
    events = [*_names(recorded), *_turns(recorded), *_reads(recorded), *_flash(recorded)]
    lines = ",\n".join(json.dumps(event) for event in events)
    head = json.dumps({"title": title, "dropped": recorded["dropped"]})
    return f'{{"displayTimeUnit": "ns", "otherData": {head}, "traceEvents": [\n{lines}\n]}}\n'


def _micros(picoseconds: int) -> float:
    return picoseconds / 1e6


def _names(recorded: Json) -> Iterator[Json]:
    for process, name in ((_CORES, "cores"), (_READS, "reads from the device"), (_DIES, "flash")):
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
    for process, key, name in ((_CORES, "core", "turns"), (_DIES, "die", "flash")):
        for number in sorted({record[key] for record in recorded[name]}):
            yield {
                "ph": "M",
                "name": "thread_name",
                "pid": process,
                "tid": number,
                "args": {"name": f"{key} {number}"},
            }


def _turns(recorded: Json) -> Iterator[Json]:
    for turn in recorded["turns"]:
        yield _slice(
            _CORES,
            turn["core"],
            f"thread {turn['thread']}",
            turn["from_ps"],
            turn["to_ps"],
            {"leaves": turn["leave"]},
        )


def _flash(recorded: Json) -> Iterator[Json]:
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


def _reads(recorded: Json) -> Iterator[Json]:
    # Reads overlap, so each is a nest of its own instead of a slice of a track.
    for number, access in enumerate(recorded["accesses"]):
        page, line = divmod(access["line"], 64)
        name = "SkyByte-Delay" if access["answer"] == "delay" else access["served"]
        facts = {"page": page, "line": line, "core": access["core"], "die": access["die"]}
        facts |= {
            f"{part[:-3]}_us": _micros(access[part])
            for part in ("stall_ps", "index_ps", "flash_ps", "ssd_dram_ps")
        }
        spans = [(name, "issued_ps", "done_ps", facts), *((*step, {}) for step in _STEPS)]
        for label, start, end, extra in spans:
            if access[end] == access[start]:
                continue
            common = {"cat": "read", "id": number, "pid": _READS, "tid": 0, "name": label}
            yield common | {"ph": "b", "ts": _micros(access[start]), "args": extra}
            yield common | {"ph": "e", "ts": _micros(access[end])}
