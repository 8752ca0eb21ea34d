"""The runs of the thesis's figures: recordings of databases, played in virtual time with any policy
and any cost of a flush; and what `entresol bench dax` has measured."""

from __future__ import annotations

import lzma
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from entresol import papers
from entresol.core import Json
from entresol.databases.database import BEGIN, END
from entresol.databases.drive import PERSONALITY, PMEM, PRESET, SIZE
from entresol.figures.plan import Bench, Results, Scale, Settings, quotient
from entresol.figures.published import Published
from entresol.figures.recordings import Recorded
from entresol.papers.dax import clients, synthetic

NAME = "dax"
VALKEY, PIPELINED, POSTGRESQL, ROCKSDB = "valkey", "valkey-10", "postgresql", "rocksdb"
DATABASES = (VALKEY, PIPELINED, POSTGRESQL, ROCKSDB)
TITLES = {
    VALKEY: "Valkey always", PIPELINED: "Valkey always, pipeline 10",
    POSTGRESQL: "PostgreSQL fdatasync", ROCKSDB: "RocksDB fillsync",
}  # fmt: skip
SCALES = {"small": Scale("", shrink=1, bench=0.4)}
"""Recordings have the size that they had."""
OSCILLATING, MIXED = "oscillating", "mixed"
FLUSH = "1ms"
DEFAULT, HYBRID, PREDICT, ADAPTIVE = "default", "hybrid", "predict", "adaptive"
COLOURS = {DEFAULT: "#33608f", HYBRID: "#d55e00", PREDICT: "#2a9264", ADAPTIVE: "#8a5fa8"}
NAMES = {HYBRID: "thesis's policy", PREDICT: "looks ahead", ADAPTIVE: "adapts"}
ORDERS = (0, 4, 9)
ORDER_COLOURS = dict(zip(ORDERS, ("#e6c04a", "#62b9e2", "#33608f"), strict=True))

published = Published(
    papers.room(NAME).joinpath("published"),
    f"papers/{NAME}/published",
    {"speedups": 32, "rates": 5},
)


@cache
def manifest() -> dict[str, Any]:
    """What is said of the recordings."""
    text = papers.room(NAME).joinpath("recordings", "recordings.toml").read_text("utf-8")
    return tomllib.loads(text)


@cache
def recorded(workload: str) -> Recorded | None:
    """The recording of a load."""
    if workload == OSCILLATING:
        return Recorded(synthetic.oscillating(), 0, decides=True)
    if workload.startswith(f"{MIXED}-"):
        return Recorded(synthetic.mixed(int(workload.removeprefix(f"{MIXED}-"))), 0)
    if workload.startswith(clients.PREFIX):
        one = recorded(VALKEY)
        assert one is not None, "it comes with the room"
        return clients.recorded(workload, one)
    if workload not in manifest():
        return None
    of = manifest()[workload]
    packed = papers.room(NAME).joinpath("recordings", f"{workload}.rec.xz").read_bytes()
    text = lzma.decompress(packed).decode()
    return Recorded(text, of["operations"], of["fuse_ns"], (BEGIN, END))


@dataclass(frozen=True)
class Policy:
    """What decides, and how."""

    kind: str = HYBRID
    """`HYBRID`: the thesis's; `PREDICT`, `ADAPTIVE`: ours; `DEFAULT`: nobody."""
    upgrade: int = 60
    downgrade: int = 30
    after: int = 5
    order: int = 9
    wait: str = ""
    """How long upgrades wait before they begin."""

    def overrides(self) -> tuple[str, ...]:
        """For a run."""
        if self.kind == DEFAULT:
            return ()
        policy = "ratio" if self.kind == HYBRID else self.kind
        found = ["fs.dax=auto", f"fs.dax_policy={policy}", f"fs.dax_upgrade={self.upgrade}",
                 f"fs.dax_downgrade={self.downgrade}", f"fs.dax_after={self.after}",
                 f"fs.dax_order={self.order}"]  # fmt: skip
        return (*found, f"fs.dax_wait={self.wait}") if self.wait else tuple(found)


WITHOUT = Policy(DEFAULT)
THESIS = Policy()


def bench(
    load: str, policy: Policy = THESIS, flush: str = FLUSH, more: Sequence[str] = ()
) -> Bench:
    """A recording on the drive of `bench dax`, whose preset has `FLUSH`."""
    drive = (SIZE, f"device.pmem={PMEM}", *([] if flush == FLUSH else [f"ssd.flush_cost={flush}"]))
    return Bench(load, PERSONALITY, PRESET, (*drive, *policy.overrides(), *more))


def databases(settings: Settings, among: Sequence[str] = DATABASES) -> list[str]:
    """Those that are asked for."""
    return [name for name in among if name in settings.workloads]


def rate(results: Results, item: Bench) -> float | None:
    """Operations of the database in a second of virtual time."""
    run, of = results.benches.get(item), recorded(item.workload)
    if run is None or of is None:
        return None
    return float(of.operations / (run["part"]["virtual_time_ps"] / 1e12))


def gain(
    results: Results, load: str, policy: Policy = THESIS, flush: str = FLUSH,
    more: Sequence[str] = (),
) -> float | None:  # fmt: skip
    """How many times as fast as without DAX."""
    mine = rate(results, bench(load, policy, flush, more))
    # What is told of DAX is nothing to a run without it.
    plain = [each for each in more if not each.startswith("fs.dax")]
    return quotient(mine, rate(results, bench(load, WITHOUT, flush, plain)))


def decisions(run: Json | None) -> list[Json]:
    """What transparent DAX judged and decided in a play: all of it, or it would say when something
    was decided that was so before."""
    if run is None:
        return []
    found = run["decisions"]
    assert found["lost"] == 0, f"{found['lost']} decisions of a play are lost: play a shorter one"
    kept: list[Json] = found["kept"]
    return kept


def lead(_settings: Settings) -> str:
    """What the page begins with."""
    return (
        "Ours are solid, published values hatched or dashed. Most figures play recordings of "
        "databases in virtual time: the operations that reached the file system while the "
        "database's own benchmark ran, each thread's with the program's own time between them "
        "less what FUSE takes, on the simulated drive of bench dax (consumer-tlc, ext4-like, "
        f"64 MiB of persistent memory, a flush of {FLUSH} unless a figure varies it). Figures of "
        "absolute rates need what entresol bench dax has measured: --measured DIR. A ratio is "
        "ours ÷ published; it is marked where ours is more than 25 % away."
    )
