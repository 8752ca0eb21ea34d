//! The write log: section `ssd.log`.

use super::{Cost, check};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use units::address::LINE_BYTES;
use units::{Bytes, Picos, Ratio};

/// How the newest copy of a line in the log is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogIndexKind {
    /// SkyByte's: a hash table of pages, each with one of its lines.
    TwoLevelHash,
    /// ByteFS's: partitions, each with a skip list of pages, each with ordered runs of lines.
    SkipList,
}

/// How the write log gives room back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogMode {
    /// Two halves take turns: a full one is compacted while the other fills; both full, writes
    /// wait.
    Halves,
    /// One ring: half full, it is compacted until it is empty; writes never wait.
    Ring,
}

/// Which writes of lines go to the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogTakes {
    /// All; a page that is cached takes them too.
    All,
    /// Those whose page is not in the data cache. A cached page takes its writes alone and is
    /// dirty; when it leaves, what is dirty of it goes to the log if it is little.
    Absent,
}

units::parameters! {
    /// The write log, with its transactions.
    pub struct LogConfig: "ssd.log" {
        /// Write log, both halves together; 0B means no log: writes go to the data cache.
        size: Bytes, "0B, or two entries up to 2GiB", "SkyByte Table II (D15)";
        /// What the log has at least. The rest of ssd.log.size lies in frames of the data cache,
        /// which the log takes and gives back: it takes one when a page is written again that
        /// compaction has just brought to flash, and gives one back when a page is fetched again
        /// that has just left the data cache. 0B means that the log has all of its size always.
        least: Bytes, "0B, or two entries up to ssd.log.size; with mode = halves, seal_at = 100%, \
            ssd.cache.ways above 1, size at most half of ssd.dram, without tx_log", "ours: 0B";
        /// What a line in the log takes of ssd.log.size.
        entry: Bytes, "64B to 128B", "SkyByte III-B (64B, addresses are in the index); its artifact: 72B";
        /// Share of ssd.dram and of ssd.log.size that designs with a log have.
        design_share: Ratio, "above 0%, at most 100%", "SkyByte Table II (100%); its artifact: 87.5%";
        /// How the log gives room back: in two halves, or as one ring. A ring takes any number of
        /// lines (33 million in each half): ssd.log.size only says when it is compacted. So it is
        /// for simulation alone.
        mode: LogMode, "halves or ring", "SkyByte III-B (halves); its artifact: ring";
        /// Which writes of lines go to the log: all, or those whose page is not in the data cache.
        /// A page that is there is then dirty, as without a log, and lost with the power unless it
        /// was flushed; when it leaves, its dirty lines go to the log or the page to flash
        /// (sparse).
        takes: LogTakes, "all or absent; absent with mode = halves, without tx_log",
            "SkyByte III-B, W2 (all); absent is ours";
        /// Dirty lines of a page that leaves the data cache up to which they go to the log, with
        /// takes = absent; a page with more is programmed.
        sparse: u32, "0 to 64", "ours: 16, a quarter of a page of 4KiB";
        /// Share of a half of the log after which it is compacted, if the other half is free: what
        /// lies beyond is room for writes while that is busy.
        seal_at: Ratio, "above 0%, at most 100%", "SkyByte III-B (100%); ByteFS 4.3 (85%)";
        /// How the newest copy of a line in the log is found. The simulator has two_level_hash: the
        /// other one makes no difference to it but the order of compaction.
        index: LogIndexKind, "two_level_hash or skip_list", "SkyByte III-B (two_level_hash); ByteFS 4.3 (skip_list)";
        /// Latency of a lookup in the log index.
        lookup: Picos, "at most 1ms", "SkyByte V, FPGA prototype";
        /// Commits that the log of transactions has room for, 4 B each; 0B means no transactions.
        tx_log: Bytes, "0B, or 4B to 64MiB; with a log only", "ByteFS 4.3 (2MiB)";
        /// Whether a write to the log also updates and touches its page in the data cache.
        write_updates_cache: bool, "true or false", "SkyByte III-B, W2 (true); its artifact: false";
        /// Whether a write to the log waits for the index lookups.
        write_lookup: Cost, "charged or free", "SkyByte III-B, W3 (charged); its artifact: free";
        /// Whether device DRAM is occupied by log lines that are merged into a page that comes.
        merge_on_fill: Cost, "charged or free", "SkyByte III-B (charged); its artifact: free";
    }
}

impl LogConfig {
    /// Slots of one half; 0 without a log, or if an entry takes nothing.
    pub fn half_slot_count(&self) -> u64 {
        let entries = self.size.get().checked_div(self.entry.get());
        entries.unwrap_or(0) / 2
    }

    /// Whether part of the log lies in frames of the data cache.
    pub fn shares_room(&self) -> bool {
        self.least > Bytes::ZERO && self.half_slot_count() > 0
    }

    /// What lies beside the frames of the data cache.
    pub fn beside_frames(&self) -> Bytes {
        match self.shares_room() {
            true => self.least.min(self.size),
            false => self.size,
        }
    }

    /// Lines of a half after which it is sealed.
    pub fn seal_slot_count(&self) -> u64 {
        self.seal_at.of(self.half_slot_count()).max(1)
    }

    /// Every parameter that is out of range, as a sentence.
    pub(super) fn validate(&self) -> Vec<String> {
        let mut problems: Vec<String> = [
            check::work("ssd.log.lookup", self.lookup),
            check::share("ssd.log.design_share", self.design_share),
            check::share("ssd.log.seal_at", self.seal_at),
            check::number("ssd.log.sparse", self.sparse, 0, 64),
        ]
        .into_iter()
        .flatten()
        .collect();
        let (size, entry, tx_log) = (self.size, self.entry, self.tx_log);
        if !(LINE_BYTES..=LINE_BYTES * 2).contains(&entry) {
            problems.push(format!("ssd.log.entry is {entry}; it must be 64B to 128B"));
        }
        if size > Bytes::ZERO && size.get() / 2 < entry.get() || size > Bytes::from_mib(2048) {
            problems.push(format!(
                "ssd.log.size is {size}; it must be 0B, or two entries up to 2GiB"
            ));
        }
        if tx_log > Bytes::from_mib(64) || (1..4).contains(&tx_log.get()) {
            problems.push(format!(
                "ssd.log.tx_log is {tx_log}; it must be 0B, or 4B to 64MiB"
            ));
        }
        problems
    }
}
