"""The figures of OpenCXD."""

from __future__ import annotations

from functools import partial

from entresol.figures.entry import NO_MEAN, Figure
from entresol.papers.opencxd import compaction, constant, flash, measured
from entresol.papers.opencxd.runs import BATCH

PRESETS = ("Of the presets module-a and module-b, through dies and buses, from the start at the "
           "die to the end. Deviations are the paper's; medians and shapes are ours, with their "
           "reasons in configs/nand: no picture was read.")  # fmt: skip
ENDS = ("Back ends: constants, as SkyByte's in the comparison (99.72 us a read, nothing for the "
        "controller); the drawn times of module (b); these with firmware that is measured in the "
        "loop on this machine, in nanoseconds of a Cortex-A53 of 1.2 GHz at three of its cycles "
        "for one here, which is an assumption. Measured times differ from run to run; recordings "
        "beside the figure repeat it (--recordings).")  # fmt: skip

FIGURES = (
    Figure("3", "NAND times, one outstanding request",
           f"A thousand requests in a row. {PRESETS} The paper's spike of 440 us in (b) is one "
           "read in 500,000 here, so hardly ever in the picture.", NO_MEAN,
           partial(flash.times, depth=1), flash.draw_times, benches=flash.wants),
    Figure("4", "NAND times, eight outstanding requests",
           f"A thousand requests in a row. {PRESETS}", NO_MEAN,
           partial(flash.times, depth=8), flash.draw_times, benches=flash.wants),
    Figure("table2", "Standard deviations of NAND times",
           f"{PRESETS} Published beside ours; constants have the wait for their die in them, as "
           "SimpleSSD's have, on 32 dies and with one mapping.", NO_MEAN,
           flash.deviations, flash.draw_deviations, benches=flash.wants, label="Table II"),
    Figure("5", "Breakdown of the mean times of module (b)",
           "Cells and controller as the preset says, and what is beyond with others in flight. The "
           "paper's bars have no numbers.", NO_MEAN,
           flash.breakdown, flash.draw_breakdown, benches=flash.wants),
    Figure("6", "Distribution of NAND times", PRESETS, NO_MEAN,
           flash.distributions, flash.draw_distributions, benches=flash.wants),
    Figure("10", "Hits and misses",
           "(a) What the measured firmware itself does in a log insert and a cache hit, without "
           "DRAM and link: the paper's, with both, are pictures; SkyByte's constants were 640 and "
           "712 ns. "
           "(b) The flash's reads, with their waits and those for compaction and prefetch; "
           "published: 2.4 times SkyByte's, of misses with one command in flight, where the drawn "
           f"times were made to have 2.4. {ENDS}",
           NO_MEAN, measured.averages, measured.draw_averages, wants=measured.every),
    Figure("11", "Reads that miss the device's DRAM",
           "Share of the reads beyond 90 us by latency, eight bins to a decade: the host's, from "
           "the issue to the data, with waits for a core after a switch. Published: the share of "
           f"SkyByte's one value, of the flash's reads. {ENDS}", NO_MEAN,
           measured.histograms, measured.draw_histograms, wants=measured.every),
    Figure("12", "Cycles for an instruction",
           f"Of cores with a thread on them; and execution time over the model's. {ENDS}", NO_MEAN,
           measured.cycles, measured.draw_cycles, wants=measured.every),
    Figure("table5", "Work of the firmware",
           "Back end: firmware in the loop, measured on this machine. What interrupts the process "
           "is in means and deviations, so they are of a machine with nothing else to do; medians, "
           "and deviations without the slowest in a thousand, are ours alone. An insert is the "
           "choice of a frame and what leaves it, the paper's the entry in hash and list. The "
           "paper's have a resolution of 30 ns, which is its deviations of 30 ns.", NO_MEAN,
           measured.operations, measured.draw_operations, wants=measured.looped, label="Table V"),
    Figure("13", "Compaction of the log",
           "Accounted by the device preset opencxd (modelled firmware): half of the log full, 32 "
           f"lines of each page of 16 KiB, 4 channels of 8 dies, batches of {BATCH:,} pages. The "
           "paper: up to 8 times, of module (b), whose shape was fitted to it.", NO_MEAN,
           compaction.times, compaction.draw, benches=compaction.wants),
    Figure("constant", "How wrong constants are",
           "The same captures with 24 threads on the designs of SkyByte: constants that are the "
           "module's means with one command in flight (239.3 us a read), or with eight (882 us); "
           "its drawn times; these with measured firmware, as of Figure 10. The paper prints "
           "deviations: means and shapes with eight in flight are ours. Not of the paper.", NO_MEAN,
           constant.errors, constant.draw, wants=constant.wants, why=constant.why,
           label="Constants"),
)  # fmt: skip
