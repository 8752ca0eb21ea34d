"""What a machine's memory costs, what that buys, and how long its flash lasts.

Prices and ratings are not inputs of a simulation: they are in no digest, no key and no result
file. Everything here is a function of a result and of `Prices`.

GB is 10^9 bytes. Sources: SkyByte §VI-B for the prices and for cost-effectiveness; `RATINGS`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING

from entresol import derived, units
from entresol.derived import Panel, Run
from entresol.errors import UserError, did_you_mean
from entresol.result_types import Config, RunResult, Summary

if TYPE_CHECKING:
    import polars

GB = 10**9
PS_PER_DAY = 86_400 * 10**12
DAYS_PER_YEAR = 365.25


@dataclass(frozen=True)
class Prices:
    """Prices in $/GB, and program/erase cycles where they are not those of the NAND type.

    The price of flash is that of an SSD as sold, per exported GB, so it holds the SSD's DRAM and
    controller; `device_dram` is for DRAM beyond that, or for a price of bare flash.
    """

    dram: float = 4.28
    flash: float = 0.27
    device_dram: float = 0.0
    pe_cycles: float | None = None


PAPER = Prices()
"""SkyByte §VI-B: DDR5 and an ultra-low-latency SSD, market prices of summer 2024."""


@dataclass(frozen=True)
class Rating:
    """How often flash of a type may be programmed and erased, and who says so."""

    cells: str
    cycles: float
    source: str


RATINGS = {
    "3us": Rating("Z-NAND", 30 * 5 * 365, "Samsung SZ985: 30 drive writes per day for 5 years"),
    "4us": Rating("XL-Flash", 60 * 5 * 365, "Kioxia FL6: 60 drive writes per day for 5 years"),
    "25us": Rating("SLC", 100_000, "HP, Differences between SLC, MLC and TLC NAND, Table 1"),
    "50us": Rating("MLC", 3_000, "HP, Differences between SLC, MLC and TLC NAND, Table 1"),
}
"""By `nand.t_r`, which tells the types of SkyByte Table IV apart. Of the first two the makers give
no cycles of the cells; what the drives are rated for is a lower bound of them."""


@dataclass(frozen=True)
class Bill:
    """What the memory of a run costs, in $, beside DRAM of the same capacity."""

    capacity_bytes: int
    """What the device exports."""
    device: float
    """The device; for DRAM-Only, the DRAM."""
    host: float
    """Host DRAM for promoted pages, if the design promotes."""
    dram_only: float
    """DRAM of the device's capacity."""

    @property
    def saving(self) -> float | None:
        """How many times as cheap the device is as DRAM (SkyByte §VI-B leaves out the host)."""
        return _quotient(self.dram_only, self.device)

    @property
    def saving_whole(self) -> float | None:
        """The same with the host DRAM for promoted pages."""
        return _quotient(self.dram_only, self.device + self.host)


@dataclass(frozen=True)
class Wear:
    """What writing as in the measured part, day and night, does to the flash.

    An extrapolation: the window is as typical as it is long, and wear is perfectly level.
    """

    host_bytes_per_day: float
    """Programmed for the controller: write-back and compaction."""
    flash_bytes_per_day: float
    """All programs, those of garbage collection included."""
    drive_writes_per_day: float
    """`host_bytes_per_day` in capacities exported."""
    rating: Rating | None
    lifetime_days: float | None
    """Until every block had its cycles. `None` without a rating; infinite without a program."""


def parse(text: str | None) -> Prices:
    """Prices from `dram=4.28,flash=0.27,…`; what is not named keeps its default.

    Raises `UserError` for a name or a number that is none.
    """
    names = [field.name for field in fields(Prices)]
    values: dict[str, float] = {}
    for item in (text or "").split(",") if text else ():
        name, _, number = (part.strip() for part in item.partition("="))
        if name not in names:
            hint = did_you_mean(name, names) or f" Choose from {', '.join(names)}."
            raise UserError(f"--cost {item}: there is no {name or 'name'}.{hint}")
        if name in values:
            raise UserError(f"--cost {item}: {name} is there twice; leave one out.")
        values[name] = _positive(item, number, zero_allowed=name == "device_dram")
    return Prices(**values)


def _positive(item: str, number: str, *, zero_allowed: bool) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and (value > 0 or (value == 0 and zero_allowed)):
        return value
    raise UserError(f"--cost {item}: needs a number above 0, such as flash=0.27.")


def saving(prices: Prices = PAPER) -> float:
    """How many times as cheap a GB of flash is as a GB of DRAM."""
    return prices.dram / prices.flash


def effectiveness(performance: float | None, saving: float | None) -> float | None:
    """Performance per cost, relative to DRAM-Only (SkyByte §VI-B); `None` if either is unknown."""
    return None if performance is None or saving is None else performance * saving


def bill(run: Run, prices: Prices = PAPER) -> Bill:
    """What the memory of a run costs."""
    config = run.json["config"]
    capacity = exported_bytes(run.json)
    dram_only = capacity / GB * prices.dram
    if not run.is_device:
        return Bill(capacity, dram_only, 0.0, dram_only)
    device = (capacity * prices.flash + size(config["ssd"]["dram"]) * prices.device_dram) / GB
    promotes = config.get("design", {}).get("migration", "none") != "none"
    host = size(config["host"]["promoted"]) / GB * prices.dram if promotes else 0.0
    return Bill(capacity, device, host, dram_only)


def wear(run: Run, prices: Prices = PAPER) -> Wear | None:
    """What a run does to its flash; `None` without flash or without time."""
    if not run.is_device or not run.time_ps:
        return None
    page = _mapped_bytes(run.json)
    days = Fraction(PS_PER_DAY, run.time_ps)
    host = float(run.count("flash", "host_program_pages") * page * days)
    total = float(run.count("flash", "program_pages") * page * days)
    rating = rated(run.json, prices)
    lifetime = None
    if rating is not None:
        lifetime = raw_bytes(run.json) * rating.cycles / total if total else math.inf
    return Wear(host, total, host / exported_bytes(run.json), rating, lifetime)


def rated(run: RunResult, prices: Prices = PAPER) -> Rating | None:
    """The cycles of a run's flash: those of `prices`, else those of its NAND type, if known."""
    if prices.pe_cycles is not None:
        return Rating("as given", prices.pe_cycles, "pe_cycles of --cost")
    return RATINGS.get(run["config"]["nand"]["t_r"])


def performance(panel: Panel, run: Run) -> float | None:
    """Speed relative to DRAM-Only with the same capture, if it is part of the study."""
    ideal = panel.find(derived.IDEAL)
    return None if ideal is None else _quotient(ideal.time_ps, run.time_ps)


def frame(results: Summary | Sequence[RunResult], prices: Prices = PAPER) -> polars.DataFrame:
    """One row per run of a summary, or of a list of runs; `null` where a value has no meaning.

    Performance is relative to DRAM-Only in the same mode, with the same fidelity, threads and host;
    if there are several, to that with the same configuration, and to none if there is none.
    """
    import polars

    panels = derived.panels_of(results["runs"] if isinstance(results, dict) else results)
    rows = [_row(_beside(panel, run), run, prices) for panel in panels for run in panel.runs]
    return polars.DataFrame(rows, infer_schema_length=None)


def _beside(panel: Panel, run: Run) -> Panel:
    """A run and the DRAM-Only that it may be compared with."""
    if not run.is_device:
        return Panel(run.trace, (run,))
    fits = [
        other
        for other in panel.runs
        if not other.is_device and _circumstances(other) == _circumstances(run)
    ]
    if len(fits) > 1:
        fits = [other for other in fits if _parameters(other) == _parameters(run)][:1]
    return Panel(run.trace, (run, *fits))


def _circumstances(run: Run) -> tuple[object, ...]:
    """What decides the time of a run on DRAM-Only."""
    config = run.json["config"]
    names = ("mode", "fidelity", "threads", "seed", "instructions")
    host = (config.get(section) for section in ("run", "cpu", "os", "numa", "host_dram"))
    return (*(run.json.get(name) for name in names), *host)


def _parameters(run: Run) -> Config:
    """All parameters but the design's own."""
    return {name: keys for name, keys in run.json["config"].items() if name != "design"}


def _row(panel: Panel, run: Run, prices: Prices) -> dict[str, object]:
    price, worn, speed = bill(run, prices), wear(run, prices), performance(panel, run)
    rating = worn.rating if worn else None
    return {
        "trace": run.trace,
        "design": run.design,
        "capacity_bytes": price.capacity_bytes,
        "device_dollars": price.device,
        "host_dollars": price.host,
        "dram_only_dollars": price.dram_only,
        "performance": speed,
        "saving": price.saving,
        "cost_effectiveness": effectiveness(speed, price.saving),
        "saving_whole": price.saving_whole,
        "cost_effectiveness_whole": effectiveness(speed, price.saving_whole),
        "host_bytes_per_day": worn.host_bytes_per_day if worn else None,
        "flash_bytes_per_day": worn.flash_bytes_per_day if worn else None,
        "drive_writes_per_day": worn.drive_writes_per_day if worn else None,
        "rated_cycles": rating.cycles if rating else None,
        "lifetime_days": worn.lifetime_days if worn else None,
    }


def _mapped_bytes(run: RunResult) -> int:
    """A logical page; of results from before the mapping unit was a parameter, a flash page."""
    config = run["config"]
    return size(config["ftl"].get("mapping_unit", config["nand"]["page_size"]))


def raw_bytes(run: RunResult) -> int:
    """All pages of the flash."""
    return _die_pages(run) * _dies(run) * size(run["config"]["nand"]["page_size"])


def exported_bytes(run: RunResult) -> int:
    """What the device offers: the flash without over-provisioning, die by die."""
    pages = _die_pages(run)
    spare = math.floor(pages * share(run["config"]["ftl"]["over_provisioning"]))
    return (pages - spare) * _dies(run) * size(run["config"]["nand"]["page_size"])


def _die_pages(run: RunResult) -> int:
    nand = run["config"]["nand"]
    names = ("planes_per_die", "blocks_per_plane", "pages_per_block")
    return math.prod(int(nand[name]) for name in names)


def _dies(run: RunResult) -> int:
    nand = run["config"]["nand"]
    return math.prod(int(nand[name]) for name in ("channels", "chips_per_channel", "dies_per_chip"))


def size(text: str) -> int:
    """Bytes from `4KiB`, as the core writes sizes."""
    found = units.size(text)
    assert found is not None, f"{text} is a size"
    return found


def share(text: str) -> Fraction:
    """A share from `80%` or `125/1000`, as the core writes them."""
    return Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)


def _quotient(whole: float, part: float) -> float | None:
    return whole / part if part else None
