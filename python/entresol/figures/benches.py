"""Loads of file systems that figures want: recalled, or run beside each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import cast

from entresol import core
from entresol.core import Json
from entresol.digest import core_digest
from entresol.execution import worker
from entresol.figures.plan import Bench, Settings
from entresol.interruption import interruptible
from entresol.result_types import RunResult
from entresol.store.result_store import Store, key_of

FOLDER = "file-systems"
"""Of the store: what lists and compares results of captures knows nothing of these."""


def run(
    wanted: Sequence[Bench],
    settings: Settings,
    store: Store | None,
    jobs: int | None,
    say: Callable[[str], None],
) -> dict[Bench, Json | str]:
    """A result for each load, or a sentence that says why there is none.

    Each is one thread of the core, which holds no lock of the interpreter. What has ended when the
    command is interrupted is in the store.
    """
    if not wanted:
        return {}
    kept = None if store is None else Store(store.root.parent / FOLDER)
    workers = jobs or len(os.sched_getaffinity(0))
    return interruptible(partial(_run_all, wanted, settings, kept, workers, say))


def _run_all(
    wanted: Sequence[Bench],
    settings: Settings,
    store: Store | None,
    workers: int,
    say: Callable[[str], None],
) -> dict[Bench, Json | str]:
    found: dict[Bench, Json | str] = {}
    with ThreadPoolExecutor(workers) as pool:
        results = pool.map(partial(_one, settings=settings, store=store), wanted)
        for number, (item, result) in enumerate(zip(wanted, results, strict=True), start=1):
            found[item] = result
            if number % max(len(wanted) // 10, 1) == 0:
                say(f"{number} of {len(wanted)} loads")
    return found


def _one(item: Bench, settings: Settings, store: Store | None) -> Json | str:
    overrides = settings.overrides_of(item)
    inputs: Json = {
        "core": core_digest(core.library()),
        "load": item.workload,
        "personality": item.personality,
        "device": item.device,
        "overrides": list(overrides),
        "scale": settings.shrink,
    }
    if store is not None and (stored := store.find(key_of(inputs))) is not None:
        return cast(Json, stored)
    try:
        result = core.fs_bench(item.workload, item.personality, device=item.device or None,
                               overrides=overrides, scale=settings.shrink)  # fmt: skip
    except core.EntresolError as error:
        return worker.sentence(error)
    if store is not None:
        label = {"load": item.workload, "personality": item.personality}
        store.keep(inputs, label, cast(RunResult, result))
    return result
