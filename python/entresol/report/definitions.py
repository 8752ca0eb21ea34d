"""What each number of the report means, and the keys of the result file that hold it."""

from __future__ import annotations

from entresol.report.glossary import Glossary, Term


def _term(names: str, text: str, keys: str = "") -> Term:
    return Term(tuple(names.split("; ")), text, tuple(keys.split()))


TERMS = (
    _term(
        "execution time",
        "Simulated time from the end of the warm-up to the end of the last "
        "thread. Every design runs the same instructions of the same threads.",
        "execution_time_ps",
    ),
    _term(
        "÷; relative time",
        "Execution time divided by that of the reference, which is named with it: less is faster.",
    ),
    _term(
        "speedup",
        "Execution time of the reference design divided by that of the design: more is faster.",
    ),
    _term(
        "slowdown",
        "Execution time of a program among others, divided by that of the program "
        "alone on the same machine.",
        "programs.slowdown_milli",
    ),
    _term(
        "IPC",
        "Instructions retired per core cycle while a thread runs. Each counts once, "
        "however often a switch made it start again.",
        "cores.ipc_micro",
    ),
    _term(
        "AMAT",
        "Average time of a memory access that misses the L3, from its issue to its "
        "data, as SkyByte §VI-D defines it: an access that ends in a thread switch is left out, "
        "the one that is issued again after it counts. Its components add up to it.",
        "amat.paper_ps",
    ),
    _term(
        "AMAT, all",
        "The average over all accesses that miss the L3, from the first issue to "
        "the data, the time while the thread was switched out included.",
        "amat.all_ps",
    ),
    _term("accesses", "Accesses that AMAT is the average of.", "amat.paper_accesses"),
    _term(
        "p50; p99; p99.9; 99 % of accesses within",
        "Percentiles of the access latency, from the "
        "first issue to the data: half, 99 % and 99.9 % of the accesses take at most so long.",
        "amat.p50_ps amat.p99_ps amat.p999_ps",
    ),
    _term(
        "host queue",
        "Part of AMAT: waiting in the host for write credits, which a device with "
        "a full log gives back late, or for an earlier request of the line.",
        "amat.l3_queue_ps",
    ),
    _term("host DRAM", "Part of AMAT: in the host's memory.", "amat.host_dram_ps"),
    _term(
        "between sockets",
        "Part of AMAT: from socket to socket, on a machine of several nodes.",
        "amat.inter_socket_ps",
    ),
    _term(
        "CXL link",
        "Part of AMAT: on the link both ways, with its protocol and its queue.",
        "amat.link_ps",
    ),
    _term(
        "index lookup", "Part of AMAT: in the lookup of write log and data cache.", "amat.index_ps"
    ),
    _term(
        "SSD DRAM", "Part of AMAT: in the device's DRAM, its queue included.", "amat.ssd_dram_ps"
    ),
    _term(
        "flash",
        "Part of AMAT: waiting for flash, from the lookup to the arrival of the page.",
        "amat.flash_ps",
    ),
    _term(
        "no room",
        "Part of AMAT: waiting for an MSHR, a frame or a buffer of the device.",
        "amat.stall_ps",
    ),
    _term(
        "host DRAM reads; host DRAM writes",
        "Reads and writes that leave the L3 for pages in host DRAM.",
        "requests.host_reads requests.host_writes",
    ),
    _term(
        "log hits; data cache hits; buffer hits",
        "Device reads answered from the device's DRAM: "
        "from the write log, from the data cache, or from a buffer that holds a page on its way "
        "to flash.",
        "requests.ssd_log_hits requests.ssd_cache_hits requests.ssd_buffer_hits",
    ),
    _term(
        "misses: flash read; misses: merged",
        "Device reads that wait for flash: a page fetched "
        "for this read, or one that is already on its way.",
        "requests.ssd_misses requests.ssd_merged_misses",
    ),
    _term(
        "unmapped",
        "Device reads of a page that was never written; they cost no flash read.",
        "requests.ssd_unmapped",
    ),
    _term(
        "store misses that are writes",
        "Misses of stores that are writes to the device.",
        "requests.ssd_store_misses",
    ),
    _term("SSD writes", "Writes that the device has acknowledged.", "requests.ssd_writes"),
    _term(
        "flash programs; written; program",
        "Pages, or bytes, written to flash: by write-back of "
        "dirty frames, by compaction of the write log, by garbage collection.",
        "flash.program_pages flash.written_bytes",
    ),
    _term("flash reads; read", "Pages read from flash for any cause.", "flash.read_pages"),
    _term(
        "write-back and compaction",
        "Pages programmed because a dirty frame left the data "
        "cache, or because a half of the write log was compacted.",
        "flash.host_program_pages",
    ),
    _term(
        "host and prefetch",
        "Pages read for requests of the host and ahead of them: "
        "the host's reads without coalescing.",
        "flash.host_read_pages",
    ),
    _term(
        "coalescing for compaction",
        "Pages read because the write log held only some of their lines when they were compacted.",
        "flash.coalescing_read_pages",
    ),
    _term(
        "garbage collection",
        "Pages moved so that their block can be erased: each is read and programmed again.",
        "flash.gc_read_pages flash.gc_program_pages",
    ),
    _term(
        "WAF",
        "Write amplification: all pages programmed, divided by those programmed for the host.",
        "flash.write_amplification_milli",
    ),
    _term(
        "compute bound; memory bound",
        "Core time with a thread. A cycle is bound by memory if "
        "no instruction except memory operations executes in it (SkyByte §II-C), else by "
        "compute.",
        "cores.compute_bound_ps cores.memory_bound_ps",
    ),
    _term(
        "switching threads", "Core time in switches from one thread to another.", "cores.switch_ps"
    ),
    _term(
        "idle",
        "Core time without a thread that can run, up to the end of the run.",
        "cores.idle_ps",
    ),
    _term(
        "log fills",
        "How often a half of the write log filled up and was handed to compaction.",
        "activity.log_fills",
    ),
    _term(
        "compactions", "Halves of the log that were compacted to the end.", "activity.compactions"
    ),
    _term(
        "pages compacted",
        "Pages that the lines of compacted halves were gathered into and programmed as.",
        "activity.pages_compacted",
    ),
    _term("GCs", "Blocks that garbage collection took up.", "activity.gc_invocations"),
    _term(
        "data cache turnovers",
        "Pages brought into the data cache divided by its frames.",
        "activity.data_cache_turnover_milli",
    ),
    _term(
        "cold misses",
        "Share of flash reads by the host that are the first access to their page.",
        "activity.cold_miss_share_milli",
    ),
    _term("promotions", "Pages that moved to host DRAM.", "activity.promotions"),
    _term(
        "demotions",
        "Pages that moved back; clean ones that were only dropped count.",
        "activity.demotions",
    ),
    _term("prefetches", "Pages that the device fetched ahead.", "activity.prefetches"),
    _term(
        "useful",
        "Prefetched pages that were asked for before they left, of the prefetches "
        "before the measured part as well.",
        "activity.useful_prefetches",
    ),
    _term(
        "switches; thread switches",
        "Times a core went from one thread to another: by a Long "
        "Delay Exception, at the end of a time slice, or because the thread blocked.",
    ),
    _term(
        "long-delay switches; slice switches; blocked switches",
        "Thread switches by cause: a "
        "Long Delay Exception, the end of a time slice, waiting for another thread.",
        "os.switches_long_delay os.switches_slice os.switches_blocked",
    ),
    _term(
        "retries",
        "Threads that came back too early, while their page was still on its way.",
        "os.retries",
    ),
    _term(
        "squashed instructions",
        "Instructions thrown away by a switch and executed again.",
        "cores.squashed_instructions",
    ),
    _term("syscalls", "System calls that did not block.", "os.syscalls"),
    _term(
        "host read; coalescing read; gc read",
        "Pages of flash read: for requests, prefetch and "
        "compaction; of these, by compaction; by garbage collection.",
        "flash.host_read_pages flash.coalescing_read_pages flash.gc_read_pages",
    ),
    _term(
        "host program; gc program",
        "Pages programmed by write-back and compaction, and by garbage collection.",
        "flash.host_program_pages flash.gc_program_pages",
    ),
    _term("erased blocks", "Blocks of flash erased.", "flash.erased_blocks"),
    _term(
        "average read",
        "Mean time of a flash read of any cause, from submission to the page's arrival.",
        "flash.average_read_latency_ps",
    ),
    _term(
        "to device; to host",
        "Bytes on the wire of the link, each way.",
        "link.to_device_bytes link.to_host_bytes",
    ),
    _term(
        "link busy to host",
        "Share of the execution time in which the way to the host was busy.",
        "link.to_host_busy_ps",
    ),
    _term("L3 MPKI", "L3 misses per thousand instructions.", "caches.l3_mpki_milli"),
    _term(
        "warnings",
        "Reasons to doubt a run, such as a mechanism that is judged and did not act.",
        "warnings",
    ),
    _term("capacity", "What the device exports: its flash without over-provisioning."),
    _term(
        "device $",
        "Price of the device: its capacity at the price of an SSD, and its DRAM if "
        "that has a price of its own.",
    ),
    _term("host DRAM $", "Price of the host DRAM for promoted pages, if the design promotes."),
    _term("all DRAM $", "Price of DRAM of the device's capacity."),
    _term("cheaper", "All DRAM divided by the device (SkyByte §VI-B: 15.9×)."),
    _term("performance", "Speed relative to dram-only with the same program."),
    _term(
        "cost-effectiveness",
        "Performance × cheaper: performance per dollar of memory, relative "
        "to dram-only (SkyByte §VI-B: 11.8×).",
    ),
    _term("with host DRAM", "Cost-effectiveness with the host DRAM for promoted pages paid for."),
    _term(
        "flash writes a day",
        "Bytes programmed, garbage collection included, if the program ran "
        "as in the measured part day and night.",
    ),
    _term("drive writes a day", "Bytes programmed for the host a day, divided by the capacity."),
    _term(
        "lifetime",
        "Rated program/erase cycles × all flash ÷ flash writes a day: until every "
        "block has had its cycles, wear being perfectly level. An extrapolation of the measured "
        "part.",
    ),
)

MAIN = Glossary(TERMS)
"""The words of reports on runs."""
