"""The figures by name: what each is, what it needs, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from entresol.errors import UserError, did_you_mean
from entresol.figures.plan import Results, Settings, Walk, Want
from entresol.papers.skybyte import locality, motivation, overall, sizes, switching, variants

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure as Drawing


def _none(_settings: Settings) -> list[Walk]:
    return []


def _no_runs(_settings: Settings) -> list[Want]:
    return []


@dataclass(frozen=True)
class Figure:
    """A figure of the paper."""

    name: str
    """On the command line: `14`, `table3`."""
    title: str
    says: str
    """How to read it, and on what conditions it stands."""
    mean: str
    """The mean that the paper used, as far as it says or its numbers show."""
    frame: Callable[[Results], polars.DataFrame]
    draw: Callable[[polars.DataFrame], Drawing]
    wants: Callable[[Settings], list[Want]] = _no_runs
    walks: Callable[[Settings], list[Walk]] = _none
    why: str = ""
    """A person's sentence on where it differs from what was published, at scale small."""

    @property
    def stem(self) -> str:
        """Name of its files without suffix."""
        return f"fig{int(self.name):02d}" if self.name.isdigit() else self.name

    @property
    def heading(self) -> str:
        """Its number and title."""
        return f"{f'Figure {self.name}' if self.name.isdigit() else 'Table III'}: {self.title}"


FOUR = "Four threads on four cores, as in §II-C."
THREADS = (
    "As in §VI-A, designs that switch run 24 threads and others 8, on 8 cores; the captures of 8 "
    "and of 24 threads do the same work."
)
NO_MEAN = "none"
GEOMETRIC = "geometric"

MISSES = (
    "At scale small dlrm, ycsb and tpcc touch 9, 17 and 3 times what device DRAM holds (the "
    "published traces 1.5, 1.3 and 0.1 times), so more requests go to flash: 30, 24 and 15 %, "
    "published 4, 3 and 1 % (Figure 16). bfs-dense goes there less often, 0.04 % for 3.5 %."
)
DEVICE_DRAM = (
    "Accesses also wait for device DRAM, which in the artifact is constant (switch "
    "constant_device_latencies)"
)
CLEAN = (
    "The artifact's Base-CSSD programs clean pages that leave its cache, and reads wait for these "
    "programs; ours drops them (switch clean_victims_programmed), so Base-CSSD writes less, and "
    "designs with a write log gain less over it. For bfs-dense and radix it writes 16 pages and "
    "none at all, so that a log without promotion only adds compaction."
)
LOG = (
    "Pages that are written are promoted to host DRAM, so few lines reach the log: dlrm and ycsb "
    "fill the default one, tpcc and radix smaller ones; bc, bfs-dense and srad write nothing, "
    "where 43 % of srad's requests were published as writes to the device (Figure 16)."
)

FIGURES: tuple[Figure, ...] = (
    Figure("2", "DRAM and CXL-SSD",
           f"Execution time over that with DRAM. {FOUR} The published times with the CXL-SSD equal "
           "those of Figure 14 to the cycle, so perhaps they are of eight.", NO_MEAN,
           motivation.slowdowns, motivation.draw_slowdowns, motivation.wants,
           why=f"{MISSES} {DEVICE_DRAM}: srad with that alone 5.3 for 6.5, in fast mode. "
           "For radix Figure 14 has 5.4."),
    Figure("3", "Latency of off-chip accesses",
           "Share of accesses that take at most so long. Published curves are those of four "
           f"workloads, at the corners of the drawn paths. {FOUR}", NO_MEAN,
           motivation.latencies, motivation.draw_latencies, motivation.wants,
           why=f"{MISSES} {DEVICE_DRAM}: it is 47 to 71 % of the AMAT of bc, bfs-dense, radix and "
           "srad on Base-CSSD (Figure 17)."),
    Figure("4", "Bound by memory or by compute",
           "Share of the cycles with a thread on the core in which nothing but memory operations "
           f"executes. {FOUR}", NO_MEAN,
           motivation.boundedness, motivation.draw_boundedness, motivation.wants,
           why="The artifact's DRAM-Only runs on a DRAM model of its own, in which accesses wait "
           "longer: with it alone (switch macsim_dram) the least share with DRAM is 57 %, "
           "published 63."),
    Figure("5", "How much of a page is read",
           "Of the pages that the device cache reads, the share of lines that is used before they "
           "leave, sorted; for caches 2 to 16 times smaller than the footprint, behind the CPU's "
           "caches. No numbers were published; the dashed cross is the text's: many workloads use "
           "less than 40 % of the lines in more than 75 % of the pages.", NO_MEAN,
           locality.read, locality.draw_read, walks=locality.walks),
    Figure("6", "How much of a page is written",
           "As Figure 5, of the pages that are flushed, the share of lines that is dirty.", NO_MEAN,
           locality.flushed, locality.draw_flushed, walks=locality.walks),
    Figure("9", "Threshold of the context switch",
           "SkyByte-Full with 24 threads; time over that with a threshold of 2 µs. Published runs "
           "have thread counts that differ between workloads.", NO_MEAN,
           switching.thresholds, switching.draw_thresholds, switching.threshold_wants,
           why="From 22 µs on nothing switches in ours (at 2 µs 800 to 11,000 times), so times "
           "stay, while published ones grow to 80 µs: a published flash read of srad and tpcc "
           "takes 20 µs and more on average, ours 5 (Table III)."),
    Figure("10", "Scheduling policies",
           "SkyByte-Full with 24 threads under three policies; height is execution time, parts are "
           "shares of core time. No numbers were published; the dashed line is the text's: the "
           "three deliver similar performance.", NO_MEAN,
           switching.schedulers, switching.draw_schedulers, switching.scheduler_wants,
           why="No: as the text says, the three policies have similar times, within 5 % of each "
           "other."),
    Figure("14", "Execution time of the designs",
           f"Execution time over Base-CSSD's; lower is better. Five published times are not those "
           f"of the artifact's raw files. {THREADS}",
           "geometric, except that no mean of the published times gives the text's 6.11",
           overall.times, overall.draw_times, overall.time_wants,
           why=CLEAN),
    Figure("15", "Throughput with more threads",
           "SkyByte-Full on 8 cores; throughput and bandwidth of the device over throughput and "
           "whole bandwidth of SkyByte-WP with 8 threads. Where the published split of bandwidth "
           "is not available its SSD part holds the sum.", GEOMETRIC,
           switching.threads, switching.draw_threads, switching.thread_wants,
           why="There is less to hide: a flash read takes 5 to 7 µs in all workloads but dlrm, "
           "where published ones of bfs-dense, srad and tpcc take 20 to 26 µs (Table III), and in "
           "bfs-dense, radix and srad at most 0.7 % of requests go to flash, published 0.9 to "
           "3.5 % (Figure 16)."),
    Figure("16", "Where requests are served",
           "SkyByte-WP with 8 threads. H-R/W: host DRAM; S-R-H, S-R-M: device reads that hit or "
           "miss its DRAM; S-W: device writes.", NO_MEAN,
           switching.requests, switching.draw_requests, switching.request_wants,
           why=f"{MISSES} Pages that are written are promoted: 0.0 and 4 % of the requests of "
           "srad and tpcc are writes to the device, published 43 and 35 %; why those stay there "
           "is not explained."),
    Figure("table3", "Flash read latency",
           "Mean time of a flash read of SkyByte-WP with 8 threads, queues included.", NO_MEAN,
           switching.read_latencies, switching.draw_read_latencies, switching.request_wants,
           why="Reads wait for programs only where the log is compacted or pages are evicted "
           "dirty, which at this scale is dlrm and, little, ycsb; in the artifact they wait for "
           "clean pages too."),
    Figure("17", "Average memory access time",
           "As the paper counts it: a read that ends in a thread switch is left out. "
           f"{THREADS}", "ratio of arithmetic means",
           overall.access_times, overall.draw_access_times, overall.amat_wants,
           why=CLEAN),
    Figure("18", "Pages written to flash",
           f"GC included, over those of Base-CSSD. {THREADS}",
           "none of the published numbers gives the text's 23.08; shown as geometric",
           overall.writes, overall.draw_writes, overall.write_wants,
           why=CLEAN),
    Figure("19", "Size of the write log: execution time",
           "SkyByte-WP with 8 threads; log and data cache together stay as large. Sizes are the "
           "paper's; at scale small a sixteenth of them.", NO_MEAN,
           sizes.log_times, sizes.draw_log_times, sizes.log_wants,
           why=LOG),
    Figure("20", "Size of the write log: flash writes",
           "As Figure 19, pages written to flash over those with the default log.", NO_MEAN,
           sizes.log_writes, sizes.draw_log_writes, sizes.log_wants,
           why=LOG),
    Figure("21", "Size of device DRAM",
           "Time over SkyByte-Full's with the default. Promoted pages stay four times device DRAM, "
           f"the log an eighth of it. Published runs are few. {THREADS}", NO_MEAN,
           sizes.dram_times, sizes.draw_dram_times, sizes.dram_wants,
           why="Published is ycsb only, where the artifact's Base-CSSD programs clean pages that "
           "leave its cache, and reads wait for these programs; ours drops them (switch "
           "clean_victims_programmed), so the distance from Base-CSSD to the others is smaller. "
           "Ours misses ten times as often (Figure 16), so more DRAM gains more."),
    Figure("22", "Kinds of flash",
           "Time over SkyByte-P's with the same flash (Table IV); Full with 16 to 48 threads. No "
           "numbers were published; the text says that the gain over P, below the line, grows with "
           "the latency of flash.", NO_MEAN,
           variants.flashes, variants.draw_flashes, variants.flash_wants,
           why="No: as the text says, the gain over P grows with the latency of flash, with 24 "
           "threads from 1.27 (ULL) to 1.70 times (MLC, geometric mean). Only radix with ULL and "
           "ULL2, where little goes to flash, loses by switching."),
    Figure("23", "Ways to migrate pages",
           "Time over SkyByte-C's; all with 24 threads. No numbers were published; a dashed mark "
           "is where a ratio in the text puts a mean.", "not said; shown as geometric",
           variants.migrations, variants.draw_migrations, variants.migration_wants,
           why="AstriFlash here fetches a page on its first miss; in the artifact it is SkyByte-CP "
           "with eight ways (with astriflash_by_hotness alone srad takes 8.9 ms instead of 3.0, "
           "with CP 8.7, in fast mode). TPP moves next to nothing within a window: 0.0 % of the "
           "requests of srad and bc on CT are to host DRAM (31 and 98 % with tpp.scan_period=100us "
           "and tpp.scan_pages=4096), so Full gains more over WCT."),
)  # fmt: skip


def choose(words: Sequence[str]) -> list[Figure]:
    """Figures by name, in the order of the paper. Raises `UserError` for one that is unknown."""
    given = {_plain(name): name for word in words for name in word.split(",")}
    names = list(given)
    known = [figure.name for figure in FIGURES]
    for name in names:
        if name not in known and name != "all":
            hint = did_you_mean(name, known) if not name.isdigit() else ""
            hint = hint or f" Choose from {_listed(known)}."
            said = given[name] or "''"
            raise UserError(f"unknown figure {said}.{hint}")
    return [figure for figure in FIGURES if figure.name in names or "all" in names]


def _plain(word: str) -> str:
    name = word.strip().lower().removeprefix("figure").removeprefix("fig").lstrip("0")
    return "table3" if name in ("table3", "tableiii", "iii") else name


def _listed(known: Sequence[str]) -> str:
    return f"{', '.join(known)}, or all"
