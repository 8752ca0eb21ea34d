"""What each number of a replay's page means: the head of its column, its meaning and unit."""

from __future__ import annotations

TERMS = (
    ("req/s", "Requests completed per second of simulated time."),
    (
        "MB/s",
        "Bytes that requests asked for, read and written, in millions per second of simulated "
        "time.",
    ),
    (
        "read, write",
        "Mean latency of requests that read, or write, from arrival to completion. "
        "The columns p50, p99 and p99.9 behind each are percentiles of it.",
    ),
    (
        "p50, p99, p99.9",
        "Percentiles of the latency to the left of it: the upper edge of a bucket "
        "that is at most 1/64 wide.",
    ),
    (
        "wait for others of the page, wait for room, index, device DRAM, flash",
        "Where the time of "
        "an operation (a line or a page) goes, in the mean: waiting for earlier operations of the "
        "same line or page; for an MSHR, a frame, a buffer or room in the log; in the lookup of "
        "log and data cache; in the device's DRAM; from the lookup to the page of flash.",
    ),
    (
        "WAF",
        "Write amplification: all pages programmed, divided by those not programmed by "
        "garbage collection (GC); a dash if there is none.",
    ),
    ("GCs, gc invocations", "Blocks that garbage collection took up."),
    (
        "host read, host program",
        "Pages of flash read, or programmed, for requests, prefetch, "
        "write-back and compaction of the log.",
    ),
    ("coalescing read", "Of the pages read for the host, those that compaction read."),
    ("gc read, gc program", "Pages read, or programmed, by garbage collection."),
    ("erased blocks", "Blocks of flash erased."),
    ("program waits", "Programs that waited until garbage collection had made room."),
    (
        "log hits, cache hits, buffer hits",
        "Reads of a line or page answered by the write log, by "
        "the data cache, or by a buffer on its way to flash.",
    ),
    (
        "misses, merged misses, unmapped",
        "Reads that fetched a page of flash, that waited for one "
        "already on its way, or that found a page never written, which costs no read of flash.",
    ),
    ("writes", "Lines or pages written."),
    ("ordered", "Operations that waited for others of their line or page."),
    ("partial page writes", "Pages read because a request wrote a part of them."),
    (
        "log fills, compactions",
        "Halves of the write log that became full, and that were compacted: "
        "their lines gathered into pages and programmed.",
    ),
    ("pages compacted", "Pages that compaction programmed."),
    (
        "prefetches, useful prefetches",
        "Pages fetched ahead, and those of them that were asked for.",
    ),
    (
        "late requests",
        "Requests of a trace stamped earlier than the one before them; they arrive with it.",
    ),
    (
        "dies, dies busy",
        "Share of the measured time in which the cells of a die were read, "
        "programmed or erased, mean over all dies.",
    ),
    ("dies occupied", "The same with transfers and waits for the channel."),
    (
        "channels, channels busy",
        "Share of the measured time in which a channel carried a page, mean over all channels.",
    ),
    (
        "ssd dram busy",
        "Share of the measured time in which a data bus of the device's DRAM was "
        "busy, mean over all.",
    ),
)
