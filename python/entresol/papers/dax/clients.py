"""Several clients of Valkey, from the recording of one: the closed loop as loads of the room."""

from __future__ import annotations

import re
import tomllib
from functools import cache

from entresol import papers
from entresol.databases import clients
from entresol.databases.clients import Costs
from entresol.figures.recordings import Recorded

NAME = "dax"
PREFIX = "valkey-clients-"
LOAD = re.compile(rf"{PREFIX}([1-9][0-9]{{0,2}}|1000)(?:-pipeline-([1-9][0-9]{{0,2}}|1000))?")
"""How many clients, and how many requests each sends at once."""
ROUNDS, MOST = 1_500, 200_000
"""As many requests for each that is under way, as the recording has; and no more in all."""


def load(count: int, pipeline: int = 1) -> str:
    """The name of a load."""
    return f"{PREFIX}{count}" + (f"-pipeline-{pipeline}" if pipeline > 1 else "")


@cache
def costs() -> Costs:
    """What was measured for the room."""
    text = papers.room(NAME).joinpath("recordings", "clients.toml").read_text("utf-8")
    return Costs(**tomllib.loads(text))


def recorded(workload: str, one: Recorded) -> Recorded | None:
    """The load of that name, if there is one, from the recording of one client."""
    found = LOAD.fullmatch(workload)
    if found is None:
        return None
    count, pipeline = int(found[1]), int(found[2] or 1)
    requests = min(ROUNDS * count * pipeline, MOST)
    looped = clients.looped(one.text, one.fuse_ns, costs(), count, pipeline, requests)
    return Recorded(one.text, requests, one.fuse_ns, one.between, clients=looped)
