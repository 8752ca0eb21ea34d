//! What the firmware has done and how it stands, as numbers with names: for statistics, and for the
//! DRAM file, which keeps them in this order.

use firmware::{ControllerStats, Failures, FtlStats, Fullness, Health};
use nand::{Day, NandStats};
use soc::{AnyController, DataPlane, Soc};

/// Numbers with their names and what they are, and how each comes about.
macro_rules! numbers {
    (
        $(#[$about:meta])*
        $names:ident, $values:ident($from:ident: $type:ty):
        $($name:literal, $help:literal => $value:expr;)*
    ) => {
        $(#[$about])*
        pub const $names: [(&str, &str); [$($name),*].len()] = [$(($name, $help)),*];

        /// The values, in the order of the names.
        pub(crate) fn $values($from: $type) -> [u64; $names.len()] {
            [$($value),*]
        }
    };
}

/// What the firmware has counted since the image was opened.
#[derive(Clone, Copy)]
pub(crate) struct Done<'a> {
    controller: &'a ControllerStats,
    ftl: &'a FtlStats,
    failures: Failures,
    nand: &'a NandStats,
}

/// What the health of a device is made of.
#[derive(Clone, Copy)]
pub(crate) struct SmartLog {
    pub health: Health,
    pub rated_wear: u32,
    pub factory_bad: u32,
    pub today: Day,
}

/// What a device is at a moment.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    pub fullness: Fullness,
    pub open_transactions: usize,
    pub running: usize,
    /// It answers nothing any more.
    pub is_stopped: bool,
}

numbers! {
    /// Counters of the firmware: they only grow. Served are operations: a run of lines of one page,
    /// a page.
    ACTIVITY, done_in_numbers(done: &Done<'_>):
    "served_log", "Reads served by the write log." => done.controller.served.log_hit;
    "served_cache", "Reads served by the data cache." => done.controller.served.cache_hit;
    "served_buffer", "Reads served by a page buffer." => done.controller.served.buffer_hit;
    "served_flash", "Reads that a page was fetched for." => done.controller.served.flash;
    "served_merged", "Reads of a page that was being fetched." =>
        done.controller.served.merged_miss;
    "served_unmapped", "Reads of what nobody has written." => done.controller.served.unmapped;
    "zero_fills", "Pages of which nobody had written anything that a write brought into the cache." =>
        done.controller.zero_fills;
    "refusals", "Requests that the firmware refused." => done.controller.refusals;
    "log_appends", "Lines appended to the write log." => done.controller.log_appends;
    "log_fills", "Halves of the write log that were sealed." => done.controller.log_fills;
    "log_stalls", "Writes that waited for room in the write log." => done.controller.log_stalls;
    "log_stall_time_ps", "Time that they waited, added up." =>
        done.controller.log_stall_time.get();
    "migrated_lines", "Lines of open transactions that moved to the other half." =>
        done.controller.migrated_lines;
    "compactions", "Halves of the write log that were compacted." => done.controller.compactions;
    "compaction_time_ps", "Time of compactions, added up." =>
        done.controller.compaction_time.get();
    "compacted_pages", "Pages that compaction programmed." => done.controller.compacted_pages;
    "compacted_lines", "Distinct lines of those pages that were logged." =>
        done.controller.compacted_lines;
    "coalescing_reads", "Flash reads that compaction needed." => done.controller.coalescing_reads;
    "miss_stalls", "Requests that waited for an MSHR, a frame or a buffer." =>
        done.controller.miss_stalls;
    "gc_victims", "Blocks that GC chose." => done.ftl.gc_victims;
    "gc_read_pages", "Pages that GC read." => done.ftl.gc_reads;
    "gc_programmed_pages", "Pages that GC programmed." => done.ftl.gc_programs;
    "wear_victims", "Blocks that GC chose for wear levelling." => done.ftl.wear_victims;
    "program_failures", "Programs that failed." => done.failures.programs;
    "erase_failures", "Erases that failed." => done.failures.erases;
    "media_errors", "Reads that could not be corrected." => done.failures.reads;
    "read_retries", "Times that a page was read again with shifted levels." =>
        done.nand.of(nand::Kind::Read).retries;
    "read_retry_time_ps", "Time of flash that this took, added up." =>
        done.nand.of(nand::Kind::Read).retry_time.get();
    "padding_pages", "Places of flash pages programmed with nothing in them." => done.ftl.padding;
}

numbers! {
    /// How the device stands: numbers that rise and fall.
    STANDING, standing_in_numbers(standing: &Standing):
    "requests_under_way", "Requests of the host under way." => standing.running as u64;
    "open_transactions", "Transactions that are open." => standing.open_transactions as u64;
    "log_slots", "Lines that both halves of the write log take." =>
        u64::from(standing.fullness.log_slots);
    "log_used_slots", "Lines of them that are used." => u64::from(standing.fullness.log_used);
    "is_compacting", "Whether a half of the write log is being compacted." =>
        u64::from(standing.fullness.is_compacting);
    "cache_frames", "Pages that the data cache takes." => u64::from(standing.fullness.frames);
    "cache_used_frames", "Pages of them that are used." => u64::from(standing.fullness.frames_used);
    "page_buffers", "Page buffers of the controller." => u64::from(standing.fullness.buffers);
    "page_buffers_used", "Page buffers in use." => u64::from(standing.fullness.buffers_used);
    "blocks", "Erase blocks." => u64::from(standing.fullness.blocks);
    "free_blocks", "Erase blocks that are erased." => u64::from(standing.fullness.free_blocks);
    "is_stopped", "Whether the device has stopped, since the disk was full." =>
        u64::from(standing.is_stopped);
}

numbers! {
    /// Its health, as a SMART log has it.
    HEALTH, health_in_numbers(smart: &SmartLog):
    "available_spare_percent", "Room beyond the exported pages that is left, of all there was." =>
        u64::from(smart.health.available_spare);
    "is_read_only", "Whether so many blocks are lost that nothing more may be written." =>
        u64::from(smart.health.is_read_only);
    "retired_blocks", "Erase blocks that are never used again." =>
        u64::from(smart.health.retired_blocks);
    "least_wear_erases", "Erases of the least worn block that serves." =>
        u64::from(smart.health.wear.min);
    "average_wear_erases", "Erases of a block, on average, rounded down." => smart.health.average_wear();
    "most_wear_erases", "Erases of the most worn block that serves." =>
        u64::from(smart.health.wear.max);
    "condemned_blocks", "Erase blocks in which a program has failed, to be emptied and retired." =>
        u64::from(smart.health.condemned_blocks);
    "factory_bad_blocks", "Retired blocks that were bad when the device was made." =>
        u64::from(smart.factory_bad);
    "wear_used_percent", "Rated erases of a block that are used, on average." =>
        smart.health.percentage_used(smart.rated_wear);
    "is_stuck", "Whether flash has no room for what log and buffers hold." =>
        u64::from(smart.health.is_stuck);
    "retention_days", "Days that the flash has aged by." => u64::from(smart.today.get());
}

impl<'a> Done<'a> {
    /// Since the image was opened.
    pub fn of<B: DataPlane>(soc: &'a Soc<AnyController, B>) -> Self {
        let (controller, ftl) = soc.controller.stats();
        Self {
            controller,
            ftl,
            failures: soc.controller.failures(),
            nand: soc.resources.nand.stats(),
        }
    }
}
