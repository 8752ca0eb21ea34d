"""A workload on one or more designs: checked as a whole, then run one after the other."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from entresol import core, in_loop, parquet_text
from entresol.core import Json, Setup
from entresol.errors import UserError
from entresol.interruption import watched
from entresol.summary import SCHEMA


@dataclass(frozen=True)
class Workload:
    """What is replayed: a name for the result, and the words that describe it."""

    name: str
    words: tuple[tuple[str, str], ...]
    path: Path | None = None


@dataclass(frozen=True)
class ReplayStudy:
    """A workload, the designs it runs on, and everything else that decides the result."""

    workload: Workload
    designs: tuple[str, ...]
    setup: Setup
    audit: bool


def execute(
    study: ReplayStudy,
    device: in_loop.Device | None,
    watch: Callable[[str, int, int], None],
    recordings: dict[str, bytes],
) -> Json:
    """Checks all designs, runs them in order, and gathers the summary; `recordings` gets of each
    run of firmware in the loop that of its times, by its name."""
    runs = []
    with _readable(study.workload) as words:
        replays = {
            design: core.Replay(study.workload.name, words, study.setup, design, study.audit)
            for design in study.designs
        }
        names = {design: in_loop.recording_name(study.workload.name, design) for design in replays}
        fed = {}
        if device is not None and device.kind == "recorded":
            fed = {
                design: in_loop.read_recording(device, name, len(names))
                for design, name in names.items()
            }
        with in_loop.firmware(device) as socket:
            for design, replay in replays.items():
                work = replay.execute
                if design in fed:
                    work = partial(replay.execute_fed, fed[design])
                elif device is not None:
                    work = partial(_recorded, replay, (socket, device), recordings, names[design])
                runs.append(_run(replay, work, design, watch))
    if not any(run["requests"] or run["warmup_requests"] for run in runs):
        raise UserError(f"{study.workload.path or study.workload.name}: holds no request.")
    result: Json = {
        "schema": SCHEMA,
        "provenance": {
            "entresol": core.version(),
            "machine": study.setup.machine,
            "audit": study.audit,
            "workload": {"name": study.workload.name} | dict(_shown(study.workload)),
        },
        "runs": runs,
    }
    return result


def _recorded(
    replay: core.Replay,
    asked: tuple[Path, in_loop.Device],
    recordings: dict[str, bytes],
    name: str,
) -> Json:
    socket, device = asked
    result, recordings[name] = replay.execute_in_loop(socket, device.processor, device.patience)
    return result


def _shown(workload: Workload) -> Iterator[tuple[str, str]]:
    for name, value in workload.words:
        yield name, Path(value).name if name == "file" else value


def _run(
    replay: core.Replay,
    work: Callable[[], Json],
    design: str,
    watch: Callable[[str, int, int], None],
) -> Json:
    def see() -> None:
        watch(design, *replay.progress())

    return watched(work, see, replay.cancel)


@contextmanager
def _readable(workload: Workload) -> Iterator[Sequence[tuple[str, str]]]:
    """The words, with a Parquet file replaced by its columns as text."""
    path = workload.path
    if path is None or not parquet_text.is_parquet(path):
        yield workload.words
        return
    with tempfile.TemporaryDirectory(prefix="entresol-") as folder:
        text = Path(folder) / "requests.csv"
        parquet_text.write_text(path, text, parquet_text.REQUESTS)
        words = [(name, str(text) if name == "file" else value) for name, value in workload.words]
        try:
            yield words
        except core.TraceError as error:
            raise UserError(str(error).replace(str(text), str(path))) from error


def flatten(run: Json) -> dict[str, Any]:
    """A run as one row: `statistics.flash.read_pages` becomes `flash_read_pages`."""
    row = {name: value for name, value in run.items() if isinstance(value, str | int | list)}
    for section, values in run["statistics"].items():
        if isinstance(values, dict):
            row |= {f"{section}_{name}": value for name, value in values.items()}
        else:
            row[f"{section}_latency_ps"] = [point[0] for point in values]
            row[f"{section}_count"] = [point[1] for point in values]
    for section, values in run["config"].items():
        prefix = f"config_{section.replace('.', '_')}"
        row |= {f"{prefix}_{key}": text for key, text in values.items()}
    return row
