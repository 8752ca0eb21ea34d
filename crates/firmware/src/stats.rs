//! What the controller counts.

use crate::platform::Served;
use units::Picos;

/// Answers by where they came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServedCounts {
    /// The line was in the write log.
    pub log_hit: u64,
    /// The page was in the data cache.
    pub cache_hit: u64,
    /// The page was in a buffer on its way to flash.
    pub buffer_hit: u64,
    /// The page was fetched from flash.
    pub flash: u64,
    /// The page was already being fetched.
    pub merged_miss: u64,
    /// The page is not mapped.
    pub unmapped: u64,
    /// A write.
    pub write: u64,
}

impl ServedCounts {
    /// Counts one answer.
    #[inline]
    pub(crate) fn count(&mut self, served: Served) {
        *match served {
            Served::LogHit => &mut self.log_hit,
            Served::CacheHit => &mut self.cache_hit,
            Served::BufferHit => &mut self.buffer_hit,
            Served::Flash => &mut self.flash,
            Served::MergedMiss => &mut self.merged_miss,
            Served::Unmapped => &mut self.unmapped,
            Served::Write => &mut self.write,
        } += 1;
    }
    /// All answers.
    pub fn total(&self) -> u64 {
        self.log_hit
            + self.cache_hit
            + self.buffer_hit
            + self.flash
            + self.merged_miss
            + self.unmapped
            + self.write
    }
}

/// Counters of the controller since the last reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ControllerStats {
    /// Reads of lines that arrived.
    pub reads: u64,
    /// Writes of lines that arrived.
    pub writes: u64,
    /// Reads of whole pages through the block port that arrived.
    pub page_reads: u64,
    /// Writes of whole pages through the block port that arrived.
    pub page_writes: u64,
    /// Reads of runs of lines that arrived.
    pub run_reads: u64,
    /// Writes of runs of lines that arrived.
    pub run_writes: u64,
    /// Lines of them.
    pub run_lines: u64,
    /// Pages given up by the host that arrived.
    pub trims: u64,
    /// Flushes that arrived.
    pub flushes: u64,
    /// Transactions that were to be committed.
    pub commits: u64,
    /// Of these, how often one waited for room in the TxLog.
    pub commit_stalls: u64,
    /// Transactions that were to be aborted.
    pub aborts: u64,
    /// Dirty lines of pages that left the data cache and went to the log.
    pub evicted_lines_logged: u64,
    /// Frames of the data cache that the log took.
    pub log_frames_taken: u64,
    /// Frames that it gave back.
    pub log_frames_given: u64,
    /// Lines of open transactions that moved to the other half of the log.
    pub migrated_lines: u64,
    /// Requests that were refused.
    pub refusals: u64,
    /// Reads of a page under promotion that arrived.
    pub promotion_reads: u64,
    /// Requests answered with data or as written, promotion reads left out.
    pub served: ServedCounts,
    /// Reads answered with SkyByte-Delay, first request of a page, because of the estimate.
    pub delays_threshold: u64,
    /// Reads answered with SkyByte-Delay because GC stands before the fetch.
    pub delays_gc: u64,
    /// Reads answered with SkyByte-Delay that found their page in flight.
    pub delays_merged: u64,
    /// Lines appended to the write log.
    pub log_appends: u64,
    /// Halves of the write log that became full.
    pub log_fills: u64,
    /// Halves of the write log that were compacted to the end.
    pub compactions: u64,
    /// Pages that compaction programmed.
    pub compacted_pages: u64,
    /// Pages of those that were taken from the data cache (L2).
    pub compacted_cached_pages: u64,
    /// Distinct lines of those pages that were in the log.
    pub compacted_lines: u64,
    /// Flash reads that compaction needed (L3).
    pub coalescing_reads: u64,
    /// Time from start to end of all finished compactions, one half each.
    pub compaction_time: Picos,
    /// The longest of them.
    pub compaction_time_max: Picos,
    /// Groups of `ssd.compaction.batch` pages (the last of a half may be smaller) programmed.
    pub compaction_batches: u64,
    /// Most memory that the log index took at one time, as the paper counts it: 16 B per page
    /// and 4 B per entry of its table.
    pub index_bytes_peak: u64,
    /// Sum of that memory at the moments when a half became full, for the average.
    pub index_bytes_at_fills: u64,
    /// Pages that came from flash or from a buffer into the data cache.
    pub cache_fills: u64,
    /// Pages from flash that were not copied into device DRAM, for want of buffers. They count as
    /// fills and as evictions, too.
    pub fills_given_up: u64,
    /// Pages that came into the data cache as zeroes, for a write: nobody had written them.
    pub zero_fills: u64,
    /// Pages that were clean when they left the data cache. They are programmed only with
    /// `ssd.cache.clean_victims = program`.
    pub evictions_clean: u64,
    /// Pages that were dirty when they left the data cache: they go to flash, or with
    /// `ssd.log.takes = absent` what is new of them to the log.
    pub evictions_dirty: u64,
    /// Pages fetched ahead.
    pub prefetches: u64,
    /// Pages fetched ahead that were asked for before they left.
    pub prefetches_useful: u64,
    /// Of these, pages that were asked for while they were still on their way.
    pub prefetches_late: u64,
    /// Pages fetched ahead that another page drove out before they were asked for.
    pub prefetches_useless: u64,
    /// Writes that waited for room in the log.
    pub log_stalls: u64,
    /// Time that answered writes waited for room in the log.
    pub log_stall_time: Picos,
    /// Requests that waited for an MSHR, a frame or a buffer.
    pub miss_stalls: u64,
    /// Time that they waited.
    pub miss_stall_time: Picos,
    /// Reads that were answered with a line that had come before the rest of its page.
    pub reads_before_page: u64,
    /// Pages offered to the host.
    pub promotions_requested: u64,
    /// Pages that went to the host.
    pub promotions_done: u64,
    /// Pages that went to the host and differed from flash.
    pub promotions_dirty: u64,
    /// Fetches of pages whose uses before they left the data cache count on.
    pub promotion_recalls: u64,
    /// Offers that the host declined.
    pub promotions_refused: u64,
}
