"""The numbers in the paper's text and tables: how each is computed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from entresol import core
from entresol.figures import claims as text
from entresol.figures import frames
from entresol.figures.benches import COUNT
from entresol.figures.claims import COMPUTED, MEASURED, QUOTED, SETTING, SIMULATED, Claim, Rule
from entresol.figures.plan import Bench, Results, Settings, Want, quotient
from entresol.papers.opencxd import compaction, flash, measured, runs
from entresol.papers.opencxd.runs import CONSTANT, DEPTHS, MODULES, OPERATIONS, published, want

Ours = Callable[[Results], float | None]

DRAM_NS = 600.0
"""What SkyByte's device DRAM takes in the paper's comparison (§V-B)."""
CAPACITIES = {"module-a": ("TiB", 40), "module-b": ("GiB", 30)}
"""Of Table I: units, and their bits."""


def wants(settings: Settings) -> list[Want]:
    """The runs that the claims are computed from."""
    return [want(name, end) for name in settings.workloads for end in ("modelled", "loop")]


def benches(settings: Settings) -> list[Bench]:
    """The loads that the claims are computed from."""
    return [*flash.wants(settings), *compaction.wants(settings)]


def _parameter(section: str, name: str, nand: str = runs.FLASH) -> float:
    """A parameter of the machine that is compared, in the unit of its text."""
    value = core.effective_config(core.Setup("table2", nand), runs.DESIGN)[section][name]
    found = re.match(r"[0-9.]+", value)
    assert found is not None, "a quantity"
    return float(found.group())


def _setting(section: str, name: str, nand: str = runs.FLASH) -> Ours:
    return lambda _results: _parameter(section, name, nand)


def _capacity(nand: str, bits: int) -> Ours:
    parts = ("channels", "chips_per_channel", "dies_per_chip", "planes_per_die",
             "blocks_per_plane", "pages_per_block", "page_size")  # fmt: skip

    def capacity(_results: Results) -> float:
        whole = 1024.0  # Pages are in KiB.
        for part in parts:
            whole *= _parameter("nand", part, nand)
        return whole / (1 << bits)

    return capacity


def _hit(*lookups: tuple[str, str]) -> Ours:
    parts = (("link", "protocol_latency"), *lookups)
    return lambda _results: DRAM_NS + sum(_parameter(*part) for part in parts)


def _deviation(kind: str, operation: str, depth: int) -> Ours:
    """As Table II: of constants with the wait for the die, which is all that they have."""
    name = "whole_sd_ps" if kind == CONSTANT else "sd_ps"
    return lambda results: runs.taken(results, runs.flash(kind, operation, depth), name)


def _longest(results: Results) -> float | None:
    run = results.benches.get(runs.flash(runs.FLASH, "read", 1))
    return None if run is None else float(run["quantiles"][-1][1]) / 1e6


def _common(workload: str, results: Results) -> float | None:
    shares = measured.misses(results.runs.get(want(workload, "modelled")))
    return max((100 * share for _, share in shares), default=None)


def _miss(results: Results) -> float | None:
    """The flash's mean read in the loop over the model's, as in Figure 10."""

    def mean(name: str, end: str) -> float | None:
        return results.number(want(name, end), "flash", "average_read_latency_ps")

    names = results.settings.workloads
    if len(names) != len(runs.WORKLOADS):
        return None
    return _of_all(
        frames.geometric, [quotient(mean(name, "loop"), mean(name, "modelled")) for name in names]
    )


def _of_all(
    which: Callable[[list[float]], float | None], values: Sequence[float | None]
) -> float | None:
    known = [value for value in values if value is not None]
    # A mean or a maximum of fewer is another number.
    return which(known) if known and len(known) == len(values) else None


def _worked(workload: str, work: str, metric: str, results: Results) -> float | None:
    return measured.worked(results.runs.get(want(workload, "loop")), work, metric)


def _compacted(results: Results) -> float | None:
    def flushed(launch: str, log: int, nand: str) -> float | None:
        run = results.benches.get(runs.compaction(launch, log, nand))
        return None if run is None else float(run["flush_ps"])

    # The paper's board has module (b).
    found = [quotient(*(flushed(launch, log, "drawn")
                        for launch in ("sequential", "channel_parallel")))
             for log in compaction.LOGS]  # fmt: skip
    return _of_all(max, found)


def _nothing(_results: Results) -> None:
    return None


def _rules() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for nand, (unit, bits) in CAPACITIES.items():
        title = MODULES[nand]
        found[f"{title}: capacity"] = Rule(
            SETTING, f"preset {nand}, in {unit}", _capacity(nand, bits))  # fmt: skip
        for what, name in (("channels", "channels"), ("ways of a channel", "chips_per_channel"),
                           ("flash page", "page_size")):  # fmt: skip
            found[f"{title}: {what}"] = Rule(
                SETTING, f"preset {nand}", _setting("nand", name, nand))  # fmt: skip
    titles = {**MODULES, CONSTANT: "SimpleSSD"}
    for kind, title in titles.items():
        for operation in OPERATIONS:
            for depth in DEPTHS:
                how = "the preset through the flash; it was made to have it"
                if kind == CONSTANT:
                    how = "constants through our flash, waits for dies in it"
                found[f"{title}: deviation of {operation}s, depth {depth}"] = Rule(
                    SIMULATED, how, _deviation(kind, operation, depth))  # fmt: skip
    found["NAND (b): longest read, depth 1"] = Rule(
        SIMULATED, f"of {COUNT:,}; the preset has one such in 500,000", _longest)  # fmt: skip
    for what in ("throughput", "latency"):
        found[f"SimpleSSD: deviation of {what} from a drive"] = Rule(
            QUOTED, "from a paper that is cited", _nothing)  # fmt: skip
    found["CXL.mem interface"] = Rule(
        SETTING, "link.protocol_latency", _setting("link", "protocol_latency"))  # fmt: skip
    found["simulated cores"] = Rule(SETTING, "cpu.cores", _setting("cpu", "cores"))
    threads = runs.want(runs.WORKLOADS[0], "loop").threads
    found["threads of a core"] = Rule(
        SETTING, "threads of the captures ÷ cpu.cores",
        lambda _results: threads / _parameter("cpu", "cores"))  # fmt: skip
    found["memory accesses of a workload"] = Rule(
        QUOTED, "ours are windows of the scale's instructions", _nothing)  # fmt: skip
    found["SkyByte compared: log insert"] = Rule(
        COMPUTED, "the paper's 600 ns of DRAM and our link", _hit())  # fmt: skip
    found["SkyByte compared: cache hit"] = Rule(
        COMPUTED, "the same and our lookup of the log", _hit(("ssd.log", "lookup")))  # fmt: skip
    found["SkyByte compared: most common miss"] = Rule(
        SETTING, "nand.t_r of module (b)", _setting("nand", "t_r"))  # fmt: skip
    for workload in measured.SHOWN:
        found[f"SkyByte compared: share of that miss, {workload}"] = Rule(
            SIMULATED, "largest of eight bins to a decade, constants",
            partial(_common, workload))  # fmt: skip
    found["average miss over SkyByte's"] = Rule(
        MEASURED, "mean read of the flash, waits in it, in the loop ÷ with constants; "
        "geometric mean of the workloads", _miss)  # fmt: skip
    found["spikes of the board's DRAM (at least)"] = Rule(
        QUOTED, "there is no board", _nothing)  # fmt: skip
    for workload in measured.SHOWN:
        for work in measured.WORK:
            for metric, name in (("mean", "mean"), ("sd", "deviation")):
                found[f"{work}, {workload}: {name}"] = Rule(
                    MEASURED, "firmware in the loop, as a Cortex-A53",
                    partial(_worked, workload, work, metric))  # fmt: skip
    found["compaction: sequential over parallel (max)"] = Rule(
        SIMULATED, "largest over logs of 1 to 64 MiB; the preset was made to have it",
        _compacted)  # fmt: skip
    return found


def claims() -> list[Claim]:
    """All claims, in the order of the file. Raises `UserError` for one nobody knows to compute."""
    return text.read(published, _rules())
