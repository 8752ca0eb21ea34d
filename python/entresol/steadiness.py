"""How steady a device is, and what it owes: marks from what happened on the way to the windows.

`docs/steady.md` says what each mark means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from entresol import quantity
from entresol.core import Json

PARTS = 1024
"""Parts of a file of misses, as `crates/sim/src/steady.rs` has it."""
TURNOVERS = 3.0
"""Pages that came into the data cache, in frames."""
HALF_FILLS = 6.0
"""Halves of the write log that became full."""
DIE_ERASES = 1.0
"""Blocks erased for each die."""
IMBALANCE = 0.2
"""Promotions and demotions differ by so much of the larger one at most."""
STILL = 0.01
"""Or promoted pages change by so much of what host DRAM holds of them."""
PHASE = 2.0
"""Writes of all requests before and from there on differ by at most such a factor."""
LATEST = PARTS * 3 // 4
"""Where windows begin at the latest, so that a quarter of the program is left to them."""


@dataclass(frozen=True)
class Mark:
    """What is asked of a device, and what it has reached."""

    name: str
    reached: float
    wanted: float

    @property
    def is_met(self) -> bool:
        """Whether it has been reached."""
        return self.reached >= self.wanted


@dataclass(frozen=True)
class Steadiness:
    """How steady a design is from a part of the file of misses on."""

    begin: int
    turnovers: Mark | None
    half_fills: Mark | None
    die_erases: Mark | None
    promotions: int
    demotions: int
    is_balanced: bool
    touched: float
    """Touched pages by the beginning, in device DRAM."""
    first_touches: float
    """Pages first touched from there on ÷ pages fetched on demand from there on."""
    write_shares: tuple[float, float]
    """Writes ÷ requests before the beginning, and from there on."""

    @property
    def is_one_phase(self) -> bool:
        """Whether the program writes from there on about as much as what filled the device."""
        before, after = self.write_shares
        return before <= PHASE * after and after <= PHASE * before

    @property
    def marks(self) -> list[Mark]:
        """Those that the design has."""
        return [m for m in (self.turnovers, self.half_fills, self.die_erases) if m is not None]

    @property
    def unmet(self) -> list[str]:
        """What is missing, in words."""
        words = [
            f"{quantity.significant(mark.reached)} of {mark.wanted:g} {mark.name}"
            for mark in self.marks
            if not mark.is_met
        ]
        if not self.is_balanced:
            words.append(f"{self.promotions:,} promotions against {self.demotions:,} demotions")
        if not self.is_one_phase:
            before, after = map(quantity.percent, self.write_shares)
            words.append(f"another phase: {before} of all requests were writes before, {after} are")
        return words

    @property
    def is_steady(self) -> bool:
        """Whether nothing is missing."""
        return not self.unmet

    def json(self) -> Json:
        """As a result has it."""
        return {
            "is_steady": self.is_steady,
            "unmet": self.unmet,
            "turnovers": _mark_json(self.turnovers),
            "half_fills": _mark_json(self.half_fills),
            "die_erases": _mark_json(self.die_erases),
            "promotions": self.promotions,
            "demotions": self.demotions,
            "is_balanced": self.is_balanced,
            "touched_milli": round(self.touched * 1000),
            "first_touches_milli": round(self.first_touches * 1000),
            "is_one_phase": self.is_one_phase,
            "write_shares_milli": [round(share * 1000) for share in self.write_shares],
        }


def _mark_json(mark: Mark | None) -> Json | None:
    if mark is None:
        return None
    return {
        "reached_milli": round(mark.reached * 1000),
        "wanted_milli": round(mark.wanted * 1000),
    }


def at(run: Json, begin: int) -> Steadiness:
    """How steady the design of a run is at a part, from the looks on the way."""
    look, last = _look(run, begin), run["pass"][-1]
    machine = run["machine"]

    def mark(name: str, field: str, size: str, wanted: float) -> Mark | None:
        if not machine[size]:
            return None
        whole = 1 if size == "half_lines" else machine[size]
        return Mark(name, look[field] / whole, wanted)

    def since(field: str) -> int:
        return int(last[field] - look[field])

    promotions, demotions = since("promotions"), since("demotions")
    apart, most = abs(promotions - demotions), max(promotions, demotions)
    still = apart <= STILL * machine["host_pages"]
    dram = machine["device_dram_bytes"]
    return Steadiness(
        begin,
        mark("turnovers of the data cache", "cache_fills", "frames", TURNOVERS),
        mark("fills of log halves", "log_fills", "half_lines", HALF_FILLS),
        mark("erases a die", "erased_blocks", "dies", DIE_ERASES),
        promotions,
        demotions,
        apart <= IMBALANCE * most or still,
        look["first_touches"] * 4096 / dram if dram else 0.0,
        since("first_touches") / (since("page_fetches") or 1) if dram else 0.0,
        (
            look["writes"] / (look["writes"] + look["reads"] or 1),
            since("writes") / (since("writes") + since("reads") or 1),
        ),
    )


def _look(run: Json, begin: int) -> Json:
    """The last look at or before a part."""
    looks: Sequence[Json] = run["pass"]
    return next(look for look in reversed(looks) if look["part"] <= begin)


def steady_from(run: Json) -> int | None:
    """The first part from which on a design is steady, if there is one early enough."""
    parts = [look["part"] for look in run["pass"] if look["part"] <= LATEST]
    return next((part for part in parts if at(run, part).is_steady), None)


def begin_of(runs: Sequence[Json]) -> int:
    """Where the windows of designs begin that are to be compared: where all are steady, or as late
    as can be. One that was steady may be so no more where the last becomes it."""
    parts = [look["part"] for look in runs[0]["pass"] if look["part"] <= LATEST]
    steady = (part for part in parts if all(at(run, part).is_steady for run in runs))
    return next(steady, LATEST)


def missing(run: Json, begin: int) -> str | None:
    """A sentence that says where a design is steady instead, or how much a capture is too short."""
    found = at(run, begin)
    if found.is_steady:
        return None
    words = f"{run['trace']} on {run['design']}: not steady where windows begin, with "
    words += ", ".join(found.unmet)
    if (steady := steady_from(run)) is not None:
        share = f"{steady * 100 / PARTS:.4g}"
        return f"{words}; it is from {share} % of the program on: --from {share}."
    # What a mark has reached where windows begin early says little of the whole.
    whole = at(run, PARTS)
    if (fitting := _fitting(run, whole)) is not None:
        return f"{words}; {fitting}"
    # A mark that is met where windows can begin does not lack length.
    latest = at(run, max(begin, LATEST)).marks
    short = [m for m, there in zip(whole.marks, latest, strict=True) if not there.is_met]
    factor = max((m.wanted / m.reached for m in short if m.reached), default=0.0) * PARTS / LATEST
    never = " and ".join(mark.name for mark in short if not mark.reached)
    open_ = f"; how much {never} need, of which it has none, is not known" if never else ""
    if factor <= 1:
        known = open_ or ", by how much is not known"
        return f"{words}; a longer capture (more --work) may be{known}."
    times = f"{'at least ' if never else ''}{quantity.significant(factor, 2)} times as long"
    longer = quantity.count(run["instructions"] * factor)
    return (
        f"{words}; the capture must be {times}, some {longer} instructions: record it with so much "
        f"more --work{open_}."
    )


def _fitting(run: Json, whole: Steadiness) -> str | None:
    """What is to be done where all that the program touches fits in the data cache, which nothing
    has to leave: length alone brings no turnovers."""
    pages, frames = run["pass"][-1]["first_touches"], run["machine"]["frames"]
    if whole.turnovers is None or whole.turnovers.is_met or pages > frames:
        return None
    return (
        f"all {pages:,} pages that it touches fit in the {frames:,} of the data cache: record it "
        "with more data, or set less ssd.dram; more length helps as far as it touches more."
    )
