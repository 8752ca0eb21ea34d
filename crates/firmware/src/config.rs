//! What the controller can be told: section `ssd`, and what the integrator adds to it.

use crate::ftl::FtlConfig;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use units::address::LINE_BYTES;
use units::{Bytes, BytesPerSec, FlashGeometry, Picos, Ratio, Timing};

/// Which page leaves the data cache when a set is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CachePolicy {
    /// Every page, as soon as its readers are answered: it passes through a frame and no more
    /// (ByteFS §4.3, coordinated caching).
    None,
    /// The least recently used one.
    Lru,
    /// The first one, in turn, that was not used since its last turn.
    Clock,
    /// Scan-resistant: one that came once and was not fetched again soon after it left (VLDB'94).
    TwoQ,
    /// Scan-resistant: one that nobody returned to, from a short queue (SOSP'23).
    S3Fifo,
}

/// Which pages are fetched ahead of the host's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrefetcherKind {
    /// None.
    None,
    /// Those after the page that was asked for.
    NextN,
    /// Those at the distance at which a core's last pages followed each other.
    Stride,
    /// Those at the one distance that would have brought most pages in time (HPCA'16).
    BestOffset,
    /// Those of the region that were asked for last time.
    Spatial,
}

/// How the newest copy of a line in the log is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogIndexKind {
    /// SkyByte's: a hash table of pages, each with one of its lines.
    TwoLevelHash,
    /// ByteFS's: partitions, each with a skip list of pages, each with ordered runs of lines.
    SkipList,
}

/// When a write of a whole page through the block port is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockWriteAck {
    /// When a controller buffer, which a capacitor or battery protects, has the page.
    Buffered,
    /// When the page is on flash.
    Programmed,
}

/// What keeps device DRAM when the power goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerLossProtection {
    /// A battery or capacitors: log and page buffers survive.
    Battery,
    /// Nothing: what is not on flash is gone. A flush waits for the programs of all pages before.
    None,
}

/// When a page that leaves for another one is sent to flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VictimOrder {
    /// Before the other one is read.
    BeforeRead,
    /// Behind that read.
    BehindRead,
}

/// What happens to a clean page that leaves the data cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleanVictims {
    /// It is dropped: flash has it.
    Drop,
    /// It is programmed like a dirty one, by a device without a log.
    Program,
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

/// Whether some work takes time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    /// It does.
    Charged,
    /// It happens at once and occupies nothing.
    Free,
}

/// Which uses of a cached page make it hot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromotionCounts {
    /// Every read and write of the page while it is cached, or that waits for it.
    Uses,
    /// Only what the data cache serves at once: reads that hit it, and writes if there is no log.
    CacheHits,
}

/// How long accesses to device DRAM take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DramAccess {
    /// As banks and buses of the section ssd_dram allow.
    Timed,
    /// Always `ssd.dram_latency`, whatever else goes on.
    Constant,
}

units::parameters! {
    /// The SSD controller: its DRAM, the mechanisms that live in it, and what they cost.
    pub struct SsdConfig: "ssd" {
        /// Device DRAM, write log and data cache together.
        dram: Bytes, "at least the write log and one page, at most 64GiB", "SkyByte Table II (D15)";
        /// Write log, both halves together; 0B means no log: writes go to the data cache.
        write_log: Bytes, "0B, or two entries up to 2GiB", "SkyByte Table II (D15)";
        /// Frames of a set of the data cache.
        cache_ways: u32, "1 to 64", "SkyByte Table II";
        /// Share of ssd.dram and of ssd.write_log that designs with a log have.
        log_design_share: Ratio, "above 0%, at most 100%", "SkyByte Table II (100%); its artifact: 87.5%";
        /// What a line in the log takes of ssd.write_log.
        log_entry: Bytes, "64B to 128B", "SkyByte III-B (64B, addresses are in the index); its artifact: 72B";
        /// How the log gives room back: in two halves, or as one ring. A ring takes any number of
        /// lines (33 million in each half): ssd.write_log only says when it is compacted. So it is
        /// for simulation alone.
        log_mode: LogMode, "halves or ring", "SkyByte III-B (halves); its artifact: ring";
        /// Share of a half of the log after which it is compacted, if the other half is free: what
        /// lies beyond is room for writes while that is busy.
        log_seal_at: Ratio, "above 0%, at most 100%", "SkyByte III-B (100%); ByteFS 4.3 (85%)";
        /// How the newest copy of a line in the log is found. The simulator has two_level_hash: the
        /// other one makes no difference to it but the order of compaction.
        log_index: LogIndexKind, "two_level_hash or skip_list", "SkyByte III-B (two_level_hash); ByteFS 4.3 (skip_list)";
        /// Commits that the log of transactions has room for, 4 B each; 0B means no transactions.
        tx_log: Bytes, "0B, or 4B to 64MiB; with a write_log only", "ByteFS 4.3 (2MiB)";
        /// Whether a write to the log also updates and touches its page in the data cache.
        log_write_updates_cache: bool, "true or false", "SkyByte III-B, W2 (true); its artifact: false";
        /// Whether a write to the log waits for the index lookups.
        write_lookup: Cost, "charged or free", "SkyByte III-B, W3 (charged); its artifact: free";
        /// Whether device DRAM is occupied by log lines that are merged into a page that comes.
        merge_on_fill: Cost, "charged or free", "SkyByte III-B (charged); its artifact: free";
        /// What happens to a clean page that leaves the data cache of a device without a log.
        clean_victims: CleanVictims, "drop or program", "SkyByte VI-A (drop); its artifact: program";
        /// Whether a page that leaves for another one is sent to flash before that one is read from
        /// there, or behind.
        victim_order: VictimOrder, "before_read or behind_read",
            "ours (before_read): its estimate counts it; SkyByte's artifact: behind_read";
        /// Whether reads of a page on its way to flash are served from the buffer that holds it;
        /// otherwise from flash.
        buffer_hits: bool, "true or false", "ours (true); SkyByte's artifact has no buffers: false";
        /// Which page leaves a full set.
        cache_policy: CachePolicy, "none, lru, clock, two_q or s3_fifo; none with a write_log only", "SkyByte Table II (lru); ByteFS 4.3 (none)";
        /// Pages that may be on their way from flash to the data cache at one time.
        mshr_count: u32, "1 to 65536", "SkyByte Table II";
        /// Which pages are fetched ahead.
        prefetcher: PrefetcherKind, "none, next_n, stride, best_offset or spatial",
            "SkyByte VI-A says only that there is one (D7)";
        /// Pages fetched ahead at one trigger.
        prefetch_pages: u32, "0 to 64", "SkyByte VI-A, Base-CSSD's prefetcher; depth ours (D7)";
        /// Whether the first use of a page fetched ahead fetches ahead too, as a miss does.
        prefetch_on_first_use: bool, "true or false", "ours: off, next-N on misses only";
        /// MSHRs that are left to demand misses: a page is fetched ahead if more are free.
        prefetch_reserve: u32, "0 to 65535", "ours: 1";
        /// Streams of each core that the stride prefetcher tells apart.
        prefetch_streams: u32, "1 to 64", "ours: 8";
        /// Regions of 64 pages that the spatial prefetcher remembers, 24 B each.
        prefetch_regions: u32, "1 to 1048576", "ours: 4096, 1 GiB of pages";
        /// Latency of a lookup in the log index.
        log_lookup: Picos, "at most 1ms", "SkyByte V, FPGA prototype";
        /// Latency of a lookup in the data cache.
        cache_lookup: Picos, "at most 1ms", "SkyByte V, FPGA prototype";
        /// What the SkyByte-Delay answer takes beyond the lookups.
        delay_answer_cost: Picos, "at most 1ms", "SkyByte III-A (0ns); its artifact: 46ns";
        /// How long accesses to device DRAM take.
        dram_access: DramAccess, "timed or constant", "SkyByte Table II (timed); its artifact: constant";
        /// Time of an access to device DRAM if dram_access is constant.
        dram_latency: Picos, "at most 1ms", "SkyByte's artifact: 46ns";
        /// Rate at which the pipelined lookups accept reads, one line each.
        read_rate: BytesPerSec, "1MB/s to 1000GB/s, or unlimited", "SkyByte V, FPGA prototype: 11.93 GB/s";
        /// Rate at which the pipelined lookups accept writes, one line each.
        write_rate: BytesPerSec, "1MB/s to 1000GB/s, or unlimited", "SkyByte V, FPGA prototype: 9.37 GB/s";
        /// Page buffers for coalescing and for write-back; a page stays in one until programmed.
        buffers: u32, "1 to 65536", "ours: 256 pages keep 16 channels busy";
        /// Cores that run compaction, GC and migration.
        firmware_cores: u32, "1 to 64", "SkyByte V: quad-core ARM Cortex A53";
        /// Work of a firmware core per compacted page.
        compaction_page_cost: Picos, "at most 1ms", "ours; the paper gives none (D16)";
        /// Whether compaction's copies between log, data cache and buffers occupy device DRAM.
        compaction_copies: Cost, "charged or free", "SkyByte III-B (charged); its artifact: free";
        /// Pages that compaction may have in flight at one time.
        compaction_batch: u32, "1 to 65536", "ours; SkyByte III-B batches without a number";
        /// When a page written through the block port is acknowledged.
        block_write_ack: BlockWriteAck, "buffered or programmed", "ours: SSDs with power-loss protection answer from a buffer";
        /// What keeps log and page buffers when the power goes. Without anything a page written
        /// through (FUA) is answered when it is on flash, and a flush when all before it are.
        power_loss_protection: PowerLossProtection, "battery or none; none without a write_log only", "SkyByte III-B, ByteFS 4.3 (battery)";
        /// What a flush takes without protection, beyond the programs that it waits for.
        flush_cost: Picos, "at most 1s", "ours (0ns): the papers' devices need no flush";
        /// Which uses of a cached page count towards promotion_threshold.
        promotion_counts: PromotionCounts, "uses or cache_hits", "ours (uses); SkyByte's artifact: cache_hits";
        /// Accesses to a cached page beyond which it is offered to the host.
        promotion_threshold: u32, "1 to 1000000", "ours; the paper gives none (D20)";
    }
}

impl SsdConfig {
    /// Frames of the data cache of a device with pages of `page`.
    pub fn frame_count(&self, page: Bytes) -> u64 {
        let beside = self.write_log.get().saturating_add(self.tx_log.get());
        Bytes::new(self.dram.get().saturating_sub(beside)) / page
    }

    /// Slots of one half of the write log; 0 without a log, or if an entry takes nothing.
    pub fn half_slot_count(&self) -> u64 {
        let entries = self.write_log.get().checked_div(self.log_entry.get());
        entries.unwrap_or(0) / 2
    }

    /// Every parameter that is out of range, as a sentence.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut range = |key: &str, value: u64, low: u64, high: u64| {
            if !(low..=high).contains(&value) {
                problems.push(format!("ssd.{key} is {value}; it must be {low} to {high}"));
            }
        };
        range("cache_ways", self.cache_ways.into(), 1, 64);
        range("mshr_count", self.mshr_count.into(), 1, 65_536);
        range("prefetch_pages", self.prefetch_pages.into(), 0, 64);
        range("prefetch_reserve", self.prefetch_reserve.into(), 0, 65_535);
        range("prefetch_streams", self.prefetch_streams.into(), 1, 64);
        range("prefetch_regions", self.prefetch_regions.into(), 1, 1 << 20);
        range("buffers", self.buffers.into(), 1, 65_536);
        range("firmware_cores", self.firmware_cores.into(), 1, 64);
        range("compaction_batch", self.compaction_batch.into(), 1, 65_536);
        let threshold = self.promotion_threshold.into();
        range("promotion_threshold", threshold, 1, 1_000_000);
        for (key, rate) in [
            ("read_rate", self.read_rate),
            ("write_rate", self.write_rate),
        ] {
            let is_finite = (1_000_000..=1_000_000_000_000).contains(&rate.get());
            if !is_finite && rate != BytesPerSec::UNLIMITED {
                problems.push(format!(
                    "ssd.{key} is {rate}; it must be 1MB/s to 1000GB/s, or unlimited"
                ));
            }
        }
        let longest = Picos::from_micros(1_000);
        for (key, span) in [
            ("log_lookup", self.log_lookup),
            ("cache_lookup", self.cache_lookup),
            ("compaction_page_cost", self.compaction_page_cost),
            ("delay_answer_cost", self.delay_answer_cost),
            ("dram_latency", self.dram_latency),
        ] {
            if span > longest {
                problems.push(format!("ssd.{key} is {span}; it must be at most {longest}"));
            }
        }
        if self.dram > Bytes::from_mib(64 * 1024) {
            problems.push(format!(
                "ssd.dram is {}; it must be at most 64GiB",
                self.dram
            ));
        }
        let (entry, share) = (self.log_entry, self.log_design_share);
        if !(LINE_BYTES..=LINE_BYTES * 2).contains(&entry) {
            problems.push(format!("ssd.log_entry is {entry}; it must be 64B to 128B"));
        }
        if share.numerator() == 0 || !share.is_at_most_one() {
            problems.push(format!(
                "ssd.log_design_share is {share}; it must be above 0%, at most 100%"
            ));
        }
        let log = self.write_log;
        if log > Bytes::ZERO && log.get() / 2 < entry.get() || log > Bytes::from_mib(2048) {
            problems.push(format!(
                "ssd.write_log is {log}; it must be 0B, or two entries up to 2GiB"
            ));
        }
        let sealed = self.log_seal_at;
        if sealed.numerator() == 0 || !sealed.is_at_most_one() {
            problems.push(format!(
                "ssd.log_seal_at is {sealed}; it must be above 0%, at most 100%"
            ));
        }
        problems.extend(self.validate_log_design());
        problems
    }

    /// What goes with a log only, and what does not go with each other.
    fn validate_log_design(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.tx_log > Bytes::from_mib(64) || (1..4).contains(&self.tx_log.get()) {
            problems.push(format!(
                "ssd.tx_log is {}; it must be 0B, or 4B to 64MiB",
                self.tx_log
            ));
        }
        let has_log = self.half_slot_count() > 0;
        if self.tx_log > Bytes::ZERO
            && (!has_log || self.log_mode == LogMode::Ring || !self.buffer_hits)
        {
            problems.push(
                "ssd.tx_log needs ssd.write_log, ssd.log_mode = halves and ssd.buffer_hits = true"
                    .into(),
            );
        }
        if self.power_loss_protection == PowerLossProtection::None && has_log {
            problems.push(format!(
                "ssd.power_loss_protection is none and ssd.write_log is {}, which would be lost \
                 with the power: set it to 0B, or the protection to battery",
                self.write_log
            ));
        }
        if self.flush_cost > Picos::from_micros(1_000_000) {
            problems.push(format!(
                "ssd.flush_cost is {}; it must be at most 1s",
                self.flush_cost
            ));
        }
        if self.cache_policy == CachePolicy::None && !has_log {
            problems.push(
                "ssd.cache_policy is none and there is no ssd.write_log to take lines".into(),
            );
        }
        if self.cache_policy == CachePolicy::None
            && self.prefetcher != PrefetcherKind::None
            && self.prefetch_pages > 0
        {
            problems.push(
                "ssd.cache_policy is none, so nothing can be fetched ahead: set ssd.prefetcher to \
                 none"
                    .into(),
            );
        }
        problems
    }

    /// Lines of a half of the log after which it is sealed.
    pub fn seal_slot_count(&self) -> u64 {
        self.log_seal_at.of(self.half_slot_count()).max(1)
    }
}

/// Everything that makes a controller; the integrator puts it together from the sections.
#[derive(Clone, PartialEq, Debug)]
pub struct ControllerConfig {
    /// Section `ssd`.
    pub ssd: SsdConfig,
    /// Section `ftl`.
    pub ftl: FtlConfig,
    /// How the flash is organised.
    pub geometry: FlashGeometry,
    /// What the cells of the flash take, as the estimator believes.
    pub timing: Timing,
    /// Whether a read may be answered with SkyByte-Delay (SkyByte §III-A): the design says.
    pub delay_enabled: bool,
    /// Whether hot pages are offered to the host (SkyByte §III-C): the design says.
    pub promotion_enabled: bool,
    /// `os.switch_threshold`: a read expected to take longer is answered with SkyByte-Delay.
    pub switch_threshold: Picos,
}

impl ControllerConfig {
    /// Every problem of the sections `ssd` and `ftl`, alone and together with the flash, as
    /// sentences.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = self.ssd.validate();
        problems.extend(self.ftl.validate(&self.geometry));
        let page = self.geometry.page_size;
        let frames = self.ssd.frame_count(page.bytes());
        if frames == 0 {
            let ssd = &self.ssd;
            let tx_log = match ssd.tx_log {
                Bytes::ZERO => String::new(),
                size => format!(" and ssd.tx_log ({size})"),
            };
            problems.push(format!(
                "ssd.dram ({}) has no room for a page of {page} beside ssd.write_log ({}){tx_log}",
                ssd.dram, ssd.write_log
            ));
        }
        if self.ssd.tx_log > Bytes::ZERO && self.promotion_enabled {
            problems.push(
                "ssd.tx_log is not 0B, so pages cannot go to the host: switch promotion off".into(),
            );
        }
        // The log indexes pack line and slot into 31 bits of 32 (SkyByte III-B): all ones of the
        // hash mean empty, and the skip list says with one whether a run begins.
        let nameable = 1u64 << (31 - page.line_bits());
        if self.ssd.half_slot_count() >= nameable {
            problems.push(format!(
                "ssd.write_log ({}) has more slots than the log index can name beside the lines \
                 of a page of {page}: it must be below {}",
                self.ssd.write_log,
                Bytes::new(self.ssd.log_entry.get().saturating_mul(2 * nameable))
            ));
        }
        problems
    }
}

#[cfg(test)]
mod tests;
