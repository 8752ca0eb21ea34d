"""SkyByte's figures: what each is, what it needs, and how it is made."""

from __future__ import annotations

from entresol.figures.entry import NO_MEAN, Figure
from entresol.papers.skybyte import (
    locality,
    motivation,
    overall,
    reasons,
    sizes,
    switching,
    variants,
)

FOUR = "Four threads on four cores, as in §II-C."
THREADS = (
    "As in §VI-A, designs that switch run 24 threads and others 8, on 8 cores; the captures of 8 "
    "and of 24 threads do the same work."
)
GEOMETRIC = "geometric"

FIGURES: tuple[Figure, ...] = (
    Figure("2", "DRAM and CXL-SSD",
           f"Execution time over that with DRAM. {FOUR} The published times with the CXL-SSD equal "
           "those of Figure 14 to the cycle, so perhaps they are of eight.", NO_MEAN,
           motivation.slowdowns, motivation.draw_slowdowns, motivation.wants,
           why=reasons.slowdowns),
    Figure("3", "Latency of off-chip accesses",
           "Share of accesses that take at most so long. Published curves are those of four "
           f"workloads, at the corners of the drawn paths. {FOUR}", NO_MEAN,
           motivation.latencies, motivation.draw_latencies, motivation.wants,
           why=reasons.latencies),
    Figure("4", "Bound by memory or by compute",
           "Share of the cycles with a thread on the core in which nothing but memory operations "
           f"executes. {FOUR}", NO_MEAN,
           motivation.boundedness, motivation.draw_boundedness, motivation.wants,
           why=reasons.boundedness),
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
           why=reasons.thresholds),
    Figure("10", "Scheduling policies",
           "SkyByte-Full with 24 threads under three policies; height is execution time, parts are "
           "shares of core time. No numbers were published; the dashed line is the text's: the "
           "three deliver similar performance.", NO_MEAN,
           switching.schedulers, switching.draw_schedulers, switching.scheduler_wants,
           why=reasons.schedulers),
    Figure("14", "Execution time of the designs",
           f"Execution time over Base-CSSD's; lower is better. Five published times are not those "
           f"of the artifact's raw files. {THREADS}",
           "geometric, except that no mean of the published times gives the text's average",
           overall.times, overall.draw_times, overall.time_wants,
           why=reasons.why_times),
    Figure("15", "Throughput with more threads",
           "SkyByte-Full on 8 cores; throughput and bandwidth of the device over throughput and "
           "whole bandwidth of SkyByte-WP with 8 threads. Where the published split of bandwidth "
           "is not available its SSD part holds the sum.", GEOMETRIC,
           switching.threads, switching.draw_threads, switching.thread_wants,
           why=reasons.threads),
    Figure("16", "Where requests are served",
           "SkyByte-WP with 8 threads. H-R/W: host DRAM; S-R-H, S-R-M: device reads that hit or "
           "miss its DRAM; S-W: device writes.", NO_MEAN,
           switching.requests, switching.draw_requests, switching.request_wants,
           why=reasons.requests),
    Figure("table3", "Flash read latency",
           "Mean time of a flash read of SkyByte-WP with 8 threads, queues included.", NO_MEAN,
           switching.read_latencies, switching.draw_read_latencies, switching.request_wants,
           why=reasons.read_latencies, label="Table III"),
    Figure("17", "Average memory access time",
           "As the paper counts it: a read that ends in a thread switch is left out. "
           f"{THREADS}", "ratio of arithmetic means",
           overall.access_times, overall.draw_access_times, overall.amat_wants,
           why=reasons.why_times),
    Figure("18", "Pages written to flash",
           f"GC included, over those of Base-CSSD. {THREADS}",
           "none of the published numbers gives the text's average; shown as geometric",
           overall.writes, overall.draw_writes, overall.write_wants,
           why=reasons.writes),
    Figure("19", "Size of the write log: execution time",
           "SkyByte-WP with 8 threads; log and data cache together stay as large. Sizes are the "
           "paper's; at scale small a sixteenth of them.", NO_MEAN,
           sizes.log_times, sizes.draw_log_times, sizes.log_wants,
           why=reasons.log_sizes),
    Figure("20", "Size of the write log: flash writes",
           "As Figure 19, pages written to flash over those with the default log.", NO_MEAN,
           sizes.log_writes, sizes.draw_log_writes, sizes.log_wants,
           why=reasons.log_sizes),
    Figure("21", "Size of device DRAM",
           "Time over SkyByte-Full's with the default. Promoted pages stay four times device DRAM, "
           f"the log an eighth of it. Published runs are few. {THREADS}", NO_MEAN,
           sizes.dram_times, sizes.draw_dram_times, sizes.dram_wants,
           why=reasons.dram_sizes),
    Figure("22", "Kinds of flash",
           "Time over SkyByte-P's with the same flash (Table IV); Full with 16 to 48 threads. No "
           "numbers were published; the text says that the gain over P, below the line, grows with "
           "the latency of flash.", NO_MEAN,
           variants.flashes, variants.draw_flashes, variants.flash_wants,
           why=reasons.flashes),
    Figure("23", "Ways to migrate pages",
           "Time over SkyByte-C's; all with 24 threads. No numbers were published; a dashed mark "
           "is where a ratio in the text puts a mean.", "not said; shown as geometric",
           variants.migrations, variants.draw_migrations, variants.migration_wants,
           why=reasons.migrations),
)  # fmt: skip
