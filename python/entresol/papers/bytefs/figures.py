"""The figures of ByteFS."""

from __future__ import annotations

from functools import partial

from entresol.figures.entry import NO_MEAN, Figure
from entresol.papers.bytefs import bound, recovery, shortcuts, throughput, traffic
from entresol.papers.bytefs.runs import LOADS, MACRO, MICRO, YCSB, on_systems

UNNAMED = "an average of an unnamed kind; shown as arithmetic"
CLASSES = ("Journals are their own part; the paper counts structures of metadata, of which our "
           "file system counts the sum.")  # fmt: skip

FIGURES = (
    Figure("table2", "I/O amplification of file systems by blocks",
           "Bytes between host and device over those that the application reads and writes.",
           NO_MEAN, traffic.amplifications, traffic.draw_amplifications,
           benches=partial(traffic.study_wants, MACRO), label="Table 2"),
    Figure("1", "Traffic between host and device by structure",
           "File systems by blocks alone; the sync behind a load counts. `pointers` are blocks of "
           "extents, `bitmaps` with F2FS-like its table of places, too.", UNNAMED,
           traffic.shares, traffic.draw_shares, benches=partial(traffic.study_wants,
                                                               traffic.STUDIED)),
    Figure("6", "Throughput",
           "Operations per second over Ext4-like's; higher is better. YCSB is on a store of keys "
           "of ours, not on RocksDB.", UNNAMED,
           throughput.throughputs, throughput.draw_throughputs, benches=on_systems(*LOADS)),
    Figure("7", "Latency of YCSB",
           "Mean and 95th percentile over Ext4-like's; lower is better. The text's ratios are over "
           "F2FS's.", NO_MEAN,
           throughput.latencies, throughput.draw_latencies, benches=on_systems(*YCSB)),
    Figure("8", "Traffic between host and device: micro-benchmarks",
           f"Over Ext4-like's whole, where the paper has NOVA's. {CLASSES}", UNNAMED,
           traffic.micro, traffic.draw_traffic, benches=on_systems(*MICRO)),
    Figure("9", "Traffic between host and device: programs",
           f"Over Ext4-like's whole. {CLASSES}", NO_MEAN,
           traffic.macro, traffic.draw_traffic, benches=on_systems(*MACRO)),
    Figure("10", "Flash traffic: micro-benchmarks",
           "Bytes read and programmed, GC and the drain of the log included, over Ext4-like's. The "
           "text's mean is over Figures 10 and 11.", UNNAMED,
           traffic.flash_micro, traffic.draw_flash, benches=on_systems(*MICRO)),
    Figure("11", "Flash traffic: programs",
           "As Figure 10.", UNNAMED,
           traffic.flash_macro, traffic.draw_flash, benches=on_systems(*MACRO)),
    Figure("12", "Design steps",
           "Throughput over Ext4-like's. ByteFS-Dual has no log and journals on the host. No "
           "numbers were published.", NO_MEAN,
           throughput.steps, throughput.draw_steps, benches=throughput.step_wants),
    Figure("13", "Kinds of flash",
           "Throughput over Ext4-like's on the flash of Table 4; read and program times in us, "
           "with a star over CXL. Only 3/80 is in the text; the others are ours.", NO_MEAN,
           throughput.flashes, throughput.draw_flashes, benches=throughput.flash_wants),
    Figure("14", "Size of the write log",
           "Throughput of ByteFS over that with 64 MiB; sizes are the paper's, before the scale. "
           "No numbers were published.", NO_MEAN,
           throughput.logs, throughput.draw_logs, benches=throughput.log_wants),
    Figure("recovery", "Recovery from a power cut",
           "Accounted time of the scan and of the flush, by how many lines the log has, eight of "
           "each page; 256 MiB are both halves of the paper's log. The text has 4.2 s, of which "
           "0.9 s load the DRAM's content, which ours keeps, and 2.7 s are scan and flush (§5.5).",
           NO_MEAN, recovery.times, recovery.draw, benches=recovery.wants, label="§5.5"),
    Figure("logged", "Everybody on the device with a log",
           "Throughput over Ext4-like's on the same device: what the file systems do apart from "
           "it. Not of the paper.", NO_MEAN,
           throughput.logged, throughput.draw_steps, benches=throughput.logged_wants,
           label="Log device"),
    Figure("used", "On a drive that has been in use",
           "Throughput over Ext4-like's where a file that filled the drive was overwritten at "
           "random and removed before, so that the flash has to be cleaned from the first write "
           "on. Not of the paper, which does not say what its SSD held.", NO_MEAN,
           throughput.used, throughput.draw_throughputs, benches=throughput.used_wants,
           label="Used drive"),
    Figure("shortcuts", "What the artifact's shortcuts are worth",
           "Throughput of ByteFS over Ext4-like's: as the paper says, with each switch alone, and "
           "with all of them. Red: further ahead than as the paper says; blue: less.", NO_MEAN,
           shortcuts.worth, shortcuts.draw, benches=shortcuts.wants, label="Shortcuts"),
    Figure("bound", "What free metadata would be worth",
           "Throughput over Ext4-like's: of ByteFS, of one whose metadata reach the device at no "
           "cost and are read from it all the same, and of one that does not read them either. "
           "Contents go as they do. The last is about what a file system with ByteFS's way for "
           "contents could reach at most. Not of the paper.", NO_MEAN,
           bound.bounds, bound.draw, benches=bound.wants, label="Bound"),
)  # fmt: skip
