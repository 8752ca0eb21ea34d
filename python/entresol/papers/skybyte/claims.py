"""The numbers in the paper's text: how each is computed, from our runs and from published ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from entresol import core, cost
from entresol.figures import frames
from entresol.figures.claims import COMPUTED, QUOTED, SETTING, SIMULATED, Claim, Rule, read
from entresol.figures.plan import Settings, Want, quotient
from entresol.papers.skybyte import motivation, overall, runs, variants
from entresol.papers.skybyte.runs import published
from entresol.papers.skybyte.sources import Ours, Source, Theirs


def wants(settings: Settings) -> list[Want]:
    """The runs that the claims are computed from."""
    needed = [*overall.time_wants(settings), *motivation.wants(settings),
              *variants.migration_wants(settings)]  # fmt: skip
    return list(dict.fromkeys(needed))


def _speedups(source: Source, design: str, over: str) -> list[float]:
    return _ratios(source, source.time, over, design)


def _ratios(
    source: Source, number: Callable[[str, str], float | None], above: str, below: str
) -> list[float]:
    both = (quotient(number(name, above), number(name, below)) for name in source.workloads)
    return [value for value in both if value is not None]


def _arithmetic(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _speedup(design: str, over: str = "base-cssd") -> Callable[[Source], float | None]:
    return lambda source: frames.geometric(_speedups(source, design, over))


def _of_totals(
    source: Source, number: Callable[[str, str], float | None], above: str, below: str
) -> float | None:
    pairs = [(number(name, above), number(name, below)) for name in source.workloads]
    whole = [(one, other) for one, other in pairs if one is not None and other is not None]
    return quotient(sum(one for one, _ in whole), sum(other for _, other in whole))


def _slowdown(source: Source) -> float | None:
    return _arithmetic(_ratios(source, source.time, "skybyte-full", "dram-only"))


def _ideal(source: Source) -> float | None:
    slowdown = _slowdown(source)
    return None if not slowdown else 100 / slowdown


def _extreme(
    which: Callable[[list[float]], float], values: Callable[[Source], list[float]]
) -> Callable[[Source], float | None]:
    def value(source: Source) -> float | None:
        found = values(source)
        return which(found) if found else None

    return value


def _full(source: Source) -> list[float]:
    return _speedups(source, "skybyte-full", "base-cssd")


def _motivation(source: Source) -> list[float]:
    return _ratios(source, source.plain_time, "base-cssd", "dram-only")


def _bound(design: str) -> Callable[[Source], list[float]]:
    def values(source: Source) -> list[float]:
        found = (source.memory_bound(name, design) for name in source.workloads)
        return [100 * value for value in found if value is not None]

    return values


def _quick(source: Source) -> list[float]:
    found = (source.within(name, "base-cssd", 200) for name in source.workloads)
    return [100 * value for value in found if value is not None]


def _over_astriflash(source: Source) -> list[float]:
    return _speedups(source, "skybyte-cp", "astriflash-cxl")


def _index(source: Source) -> float | None:
    found = [source.index_bytes(name) for name in source.workloads]
    known = [value / (1 << 20) for value in found if value is not None]
    return _arithmetic(known)


def _compaction(source: Source) -> float | None:
    found = [source.compaction_us(name) for name in source.workloads]
    return _arithmetic([value for value in found if value])


def _worst_index(entries: int) -> float:
    """A log of 64 MiB whose lines are all of different pages, with tables of so many entries."""
    index = core.log_index()
    return (64 << 20) / 64 * (index.page_bytes + index.entry_bytes * entries) / (1 << 20)


def _constant(value: float | None) -> Callable[[Source], float | None]:
    return lambda _source: value


def _gain(source: Source) -> float | None:
    ideal = _ideal(source)
    return cost.effectiveness(None if ideal is None else ideal / 100, cost.saving())


def _parameter(key: str) -> Callable[[Source], float | None]:
    """The value of a parameter of the paper's machine, in the unit of its text."""

    def value(_source: Source) -> float | None:
        section, _, name = key.rpartition(".")
        text = core.effective_config(core.Setup("table2"), "skybyte-full")[section][name]
        number = re.match(r"[0-9.]+", text)
        return None if number is None else float(number.group())

    return value


Entry = tuple[str, str, Callable[[Source], float | None]]
_TABLE: dict[str, Entry] = {
    "speedup of Full over Base (average)": (
        SIMULATED, "arithmetic mean, the nearest to it that the published times have",
        lambda source: _arithmetic(_full(source))),
    "speedup of Full over Base (max)": (SIMULATED, "largest of the workloads",
                                        _extreme(max, _full)),
    "speedup of Full over Base (min)": (SIMULATED, "smallest of the workloads",
                                        _extreme(min, _full)),
    "flash write traffic reduction (average)": (
        SIMULATED, "Base ÷ Full, of the sums over workloads",
        lambda source: _of_totals(source, source.writes, "base-cssd", "skybyte-full")),
    "fraction of ideal performance": (SIMULATED, "1 ÷ arithmetic mean of time ÷ DRAM-Only's",
                                      _ideal),
    "AMAT reduction": (SIMULATED, "Base ÷ Full, of the sums over workloads",
                       lambda source: _of_totals(source, source.amat, "base-cssd",
                                                 "skybyte-full")),
    "P over Base": (SIMULATED, "geometric mean", _speedup("skybyte-p")),
    "W over Base": (SIMULATED, "geometric mean", _speedup("skybyte-w")),
    "WP over Base": (SIMULATED, "geometric mean", _speedup("skybyte-wp")),
    "CP over Base": (SIMULATED, "geometric mean", _speedup("skybyte-cp")),
    "Full over CP": (SIMULATED, "geometric mean", _speedup("skybyte-full", "skybyte-cp")),
    "Full over WP": (SIMULATED, "geometric mean", _speedup("skybyte-full", "skybyte-wp")),
    "C over Base and Full over WP (both)": (SIMULATED, "geometric mean of C over Base",
                                            _speedup("skybyte-c")),
    "AMAT of Full relative to DRAM-Only": (
        SIMULATED, "geometric mean",
        lambda source: frames.geometric(_ratios(source, source.amat, "skybyte-full",
                                                "dram-only"))),
    "slowdown of Full relative to DRAM-Only": (SIMULATED, "arithmetic mean", _slowdown),
    "DDR5 unit cost": (SETTING, "default of `--cost`", _constant(cost.PAPER.dram)),
    "ULL SSD unit cost": (SETTING, "default of `--cost`", _constant(cost.PAPER.flash)),
    "cost ratio DRAM-only / SkyByte": (COMPUTED, "the quotient of the two prices",
                                       _constant(cost.saving())),
    "cost-effectiveness gain": (COMPUTED, "our fraction of ideal performance × the cost ratio",
                                _gain),
    "slowdown CXL-SSD vs DRAM (min)": (SIMULATED, "four threads", _extreme(min, _motivation)),
    "slowdown CXL-SSD vs DRAM (max)": (SIMULATED, "four threads", _extreme(max, _motivation)),
    "memory-bound cycles with DRAM (min)": (SIMULATED, "four threads",
                                            _extreme(min, _bound("dram-only"))),
    "memory-bound cycles with DRAM (max)": (SIMULATED, "four threads",
                                            _extreme(max, _bound("dram-only"))),
    "memory-bound cycles with CXL-SSD (min)": (SIMULATED, "four threads",
                                               _extreme(min, _bound("base-cssd"))),
    "memory-bound cycles with CXL-SSD (max)": (SIMULATED, "four threads",
                                               _extreme(max, _bound("base-cssd"))),
    "share of CXL-SSD requests within 200 ns (at least)": (
        SIMULATED, "smallest of the workloads, four threads", _extreme(min, _quick)),
    "cores and threads of the motivation study": (SETTING, "as in Figures 2 to 4",
                                                  _constant(runs.MOTIVATION)),
    "write-log index memory, worst case with fixed 64-entry tables": (
        COMPUTED, "each of 2²⁰ lines in a page of its own", lambda _source: _worst_index(64)),
    "write-log index memory, worst case with resizing": (
        COMPUTED, "likewise, tables as they begin",
        lambda _source: _worst_index(core.log_index().first_table_entries)),
    "write-log index memory, average": (
        SIMULATED, "mean over workloads of SkyByte-W's peak, times the scale", _index),
    "second-level table load-factor limit": (SETTING, "`firmware`, the log index",
                                             lambda _source: core.log_index().fullest_milli / 1000),
    "second-level table initial entries": (
        SETTING, "`firmware`, the log index",
        lambda _source: float(core.log_index().first_table_entries)),
    "log compaction duration, average": (
        SIMULATED, "mean over workloads of SkyByte-W: a half of the log", _compaction),
    "PLB entries": (SETTING, "`host.plb`", _parameter("host.plb")),
    "PLB entry size": (QUOTED, "a cost of hardware that is not modelled", _constant(None)),
    "lookup latency of a 64 MB write log (FPGA)": (
        SETTING, "`ssd.log.lookup`", _parameter("ssd.log.lookup")),
    "lookup latency of a 512 MB data cache (FPGA)": (
        SETTING, "`ssd.cache.lookup`", _parameter("ssd.cache.lookup")),
    "extra lookup latency with larger log (upper bound)": (QUOTED, "not modelled",
                                                           _constant(None)),
    "FPGA peak cacheline read throughput": (
        SETTING, "`ssd.read_rate`", _parameter("ssd.read_rate")),
    "FPGA peak cacheline write throughput": (
        SETTING, "`ssd.write_rate`", _parameter("ssd.write_rate")),
    "CP over AstriFlash-CXL (max)": (SIMULATED, "largest of the workloads",
                                     _extreme(max, _over_astriflash)),
    "CP over AstriFlash-CXL (average)": (SIMULATED, "geometric mean",
                                         _speedup("skybyte-cp", "astriflash-cxl")),
    "WCT over CT (average)": (SIMULATED, "geometric mean", _speedup("skybyte-wct",
                                                                    "skybyte-ct")),
    "Full over WCT (average)": (SIMULATED, "geometric mean", _speedup("skybyte-full",
                                                                      "skybyte-wct")),
    "threads with context switching": (SETTING, "of Figure 14", _constant(runs.SWITCHING)),
    "threads without context switching": (SETTING, "of Figure 14", _constant(runs.PLAIN)),
    "instructions per thread (at least)": (
        SIMULATED, "smallest of the workloads, 24 threads, warm-up included",
        _extreme(min, lambda source: [value / 1e6 for name in source.workloads
                                      if (value := source.instructions(name)) is not None])),
}  # fmt: skip


def _rule(kind: str, how: str, value: Callable[[Source], float | None]) -> Rule:
    return Rule(kind, how, lambda results: value(Ours(results)), lambda: value(Theirs()))


def claims() -> list[Claim]:
    """All claims, in the order of the file. Raises `UserError` for one nobody knows to compute."""
    return read(published, {quantity: _rule(*entry) for quantity, entry in _TABLE.items()})
