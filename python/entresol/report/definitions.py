"""What each number of the report means."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

TERMS = (
    ("execution time", "Simulated time from the end of the warm-up to the end of the last thread. "
     "Every design runs the same instructions of the same threads."),
    ("speedup", "Execution time of the reference design divided by that of the design; with ÷ in "
     "front of the reference's name, the reverse."),
    ("slowdown", "Execution time of a program among others, divided by that of the program alone "
     "on the same machine."),
    ("IPC", "Instructions retired per core cycle while a thread runs. Each counts once, "
     "however often a switch made it start again."),
    ("AMAT", "Average time of a memory access that misses the L3, from its issue to its data, as "
     "SkyByte §VI-D defines it: an access that ends in a thread switch is left out, the one that "
     "is issued again after it counts. Its components add up to it."),
    ("AMAT, all", "The same over all accesses, from the first issue to the data, the time while "
     "the thread was switched out included. p50, p99 and p99.9 are percentiles of this latency."),
    ("host queue, host DRAM, between sockets, CXL link, index lookup, SSD DRAM, flash, no room",
     "Where the time of an access goes: waiting in the host for write credits, which a device with "
     "a full log gives back late, or for an earlier request of the line; in the host's memory; "
     "from socket to socket, on a machine of several nodes; on the link with its "
     "protocol; in the lookup of write log and data cache; in the device's DRAM; waiting for "
     "flash; waiting for an MSHR, a frame or a buffer of the device."),
    ("requests", "Reads and writes that leave the L3. A log hit, data cache hit or buffer hit is "
     "served from the device's DRAM; a miss reads flash; a merged miss waits for a page that is "
     "already on its way; an unmapped page was never written and costs no flash read."),
    ("flash programs", "Pages written to flash: by write-back of dirty frames, by compaction of "
     "the write log, by garbage collection."),
    ("WAF", "Write amplification: all pages programmed, divided by those programmed for the host."),
    ("memory bound, compute bound", "A cycle is bound by memory if no instruction except memory "
     "operations executes in it (SkyByte §II-C), else by compute; counted while a thread runs."),
    ("log fills", "How often a half of the write log filled up and was handed to compaction."),
    ("data cache turnovers", "Pages brought into the data cache divided by its frames."),
    ("cold misses", "Share of flash reads by the host that are the first access to their page."),
    ("switches", "Times a core went from one thread to another: by a Long Delay Exception, at the "
     "end of a time slice, or because the thread blocked."),
    ("retries", "Threads that came back too early, while their page was still on its way."),
    ("long-delay switches, slice switches, blocked switches", "The switches by cause: a Long Delay "
     "Exception, the end of a time slice, waiting for another thread."),
    ("squashed instructions", "Instructions thrown away by a switch and executed again."),
    ("syscalls", "System calls that did not block."),
    ("compactions, pages compacted", "Halves of the log that were compacted, and the pages that "
     "their lines were gathered into and programmed."),
    ("GCs", "Blocks that garbage collection took up."),
    ("promotions, demotions", "Pages that moved to host DRAM, and back; clean ones that were only "
     "dropped count."),
    ("prefetches, useful", "Pages that the device fetched ahead, and those asked for before they "
     "left, of the prefetches before the measured part as well."),
    ("host read, coalescing read, gc read", "Pages of flash read: for requests, prefetch and "
     "compaction; of these, by compaction; by garbage collection."),
    ("host program, gc program, erased blocks", "Pages programmed by write-back and compaction, "
     "and by garbage collection; blocks erased."),
    ("average read", "Mean time of a flash read of any cause, from submission to the page's "
     "arrival."),
    ("to device, to host, link busy to host", "Bytes on the link each way; share of the execution "
     "time in which the way to the host was busy."),
    ("L3 MPKI", "L3 misses per thousand instructions."),
)  # fmt: skip


def render(terms: Sequence[tuple[str, str]] = TERMS) -> str:
    """Terms and their meanings as a list."""
    items = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in terms)
    return f'<dl class="terms">{items}</dl>'
