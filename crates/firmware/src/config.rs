//! What the controller can be told: section `ssd` with a group for each component and policy, and
//! what the integrator adds to it.

mod cache;
mod check;
mod compaction;
mod log;
mod prefetch;
mod promotion;
mod renamed;

pub use cache::{CacheConfig, CachePolicy, CleanVictims, VictimOrder};
pub use compaction::{CompactionConfig, CompactionLaunch, CompactionTakes};
pub use log::{LogConfig, LogIndexKind, LogMode, LogTakes};
pub use prefetch::{PrefetchConfig, PrefetcherKind, Throttle};
pub use promotion::{PromotionConfig, PromotionCounts};
pub use renamed::RENAMED;

use crate::data_cache::policy::Shape;
use crate::ftl::FtlConfig;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use units::{Bytes, BytesPerSec, FlashGeometry, PageSize, Picos, Timing};

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
    /// The same for all of the DRAM of a device without a log: dirty frames of the data cache
    /// survive with the page buffers, so a flush brings nothing to flash.
    Dram,
    /// A battery or capacitors for the log, its TxLog and their tables alone: pages in buffers are
    /// gone. What a page in a buffer replaces in the log leaves it when the page is on flash.
    Log,
    /// Nothing: what is not on flash is gone. A flush waits for the programs of all pages before.
    None,
}

impl PowerLossProtection {
    /// Whether page buffers survive.
    pub const fn keeps_buffers(self) -> bool {
        matches!(self, Self::Battery | Self::Dram)
    }

    /// Whether the log survives, if there is one.
    pub const fn keeps_log(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether dirty frames of the data cache survive.
    pub const fn keeps_frames(self) -> bool {
        matches!(self, Self::Dram)
    }
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

/// How long accesses to device DRAM take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DramAccess {
    /// As banks and buses of the section ssd_dram allow.
    Timed,
    /// Always `ssd.dram_latency`, whatever else goes on.
    Constant,
}

/// In which order device DRAM serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DramOrder {
    /// In the order of the calls.
    InTurn,
    /// Copies of pages and merged lines give way to lines that the host waits for.
    LinesFirst,
}

/// Where a read that waited for its page gets its line from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissAnswer {
    /// From device DRAM, when the whole page is there.
    Frame,
    /// From the channel's side, when the line has come from flash.
    Register,
}

/// When pages from flash are copied into device DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// All, when they have come; what they are in meanwhile is not counted.
    AtOnce,
    /// As device DRAM takes them, from buffers; where these are short some are given up.
    Buffered,
}

units::parameters! {
    /// The SSD controller: its DRAM, the mechanisms that live in it, and what they cost.
    pub struct SsdConfig: "ssd" {
        /// Device DRAM, write log and data cache together.
        dram: Bytes, "at least the write log and one page, at most 64GiB", "SkyByte Table II (D15)";
        /// How long accesses to device DRAM take.
        dram_access: DramAccess, "timed or constant", "SkyByte Table II (timed); its artifact: constant";
        /// Time of an access to device DRAM if dram_access is constant.
        dram_latency: Picos, "at most 1ms", "SkyByte's artifact: 46ns";
        /// In which order device DRAM serves: all in turn, or copies of pages and lines that are
        /// merged into them behind the lines that the host waits for.
        dram_order: DramOrder, "in_turn or lines_first", "ours (in_turn): the papers give none";
        /// When a read that waited for its page is answered: when the page is in device DRAM
        /// (`frame`), or when its line has come from flash (`register`).
        miss_answer: MissAnswer, "frame or register", "SkyByte III-B, R3 (frame); register is ours";
        /// When pages from flash are copied into device DRAM: `at_once`, whatever they are in until
        /// then; or `buffered`: as device DRAM takes them, from `fill_buffers` buffers, and where
        /// these are short only pages that the cache's policy knows.
        fill: Fill, "at_once or buffered", "the papers say nothing of it (at_once); buffered is ours";
        /// Pages, with fill = buffered, that have come from flash and whose copy is not complete.
        fill_buffers: u32, "1 to 65536", "ours: 2 MiB (512) hold what 8 cores ask for in 80 us";
        /// Rate at which the pipelined lookups accept reads, one line each.
        read_rate: BytesPerSec, "1MB/s to 1000GB/s, or unlimited", "SkyByte V, FPGA prototype: 11.93 GB/s";
        /// Rate at which the pipelined lookups accept writes, one line each.
        write_rate: BytesPerSec, "1MB/s to 1000GB/s, or unlimited", "SkyByte V, FPGA prototype: 9.37 GB/s";
        /// Page buffers for coalescing and for write-back; a page stays in one until programmed.
        buffers: u32, "1 to 65536", "ours: 256 pages keep 16 channels busy";
        /// Whether reads of a page on its way to flash are served from the buffer that holds it;
        /// otherwise from flash.
        buffer_hits: bool, "true or false", "ours (true); SkyByte's artifact has no buffers: false";
        /// Cores that run compaction, GC and migration.
        firmware_cores: u32, "1 to 64", "SkyByte V: quad-core ARM Cortex A53";
        /// What the SkyByte-Delay answer takes beyond the lookups.
        delay_answer_cost: Picos, "at most 1ms", "SkyByte III-A (0ns); its artifact: 46ns";
        /// When a page written through the block port is acknowledged.
        block_write_ack: BlockWriteAck, "buffered or programmed", "ours: SSDs with power-loss protection answer from a buffer";
        /// What keeps device DRAM when the power goes: `battery` log and page buffers, `dram` page
        /// buffers and frames of the data cache, `log` the log alone, `none` nothing. Where buffers
        /// are lost a page written through (FUA) is answered when it is on flash, and a flush when
        /// all before it are.
        power_loss_protection: PowerLossProtection, "battery, dram, log or none; log with a log only, dram and none without one", "SkyByte III-B, ByteFS 4.2, 4.3 (battery)";
        /// What a flush takes where buffers are lost with the power, beyond the programs that it
        /// waits for.
        flush_cost: Picos, "at most 1s", "ours (0ns): the papers' devices need no flush";
    }
    groups {
        /// The write log, section `ssd.log`.
        log: LogConfig;
        /// The data cache and its MSHRs, section `ssd.cache`.
        cache: CacheConfig;
        /// Fetching ahead, section `ssd.prefetch`.
        prefetch: PrefetchConfig;
        /// Compaction of the log, section `ssd.compaction`.
        compaction: CompactionConfig;
        /// Offering hot pages to the host, section `ssd.promotion`.
        promotion: PromotionConfig;
    }
}

impl SsdConfig {
    /// Frames of the data cache of a device with pages of `page`.
    pub fn frame_count(&self, page: Bytes) -> u64 {
        let beside = self.log.beside_frames();
        let beside = beside.get().saturating_add(self.log.tx_log.get());
        Bytes::new(self.dram.get().saturating_sub(beside)) / page
    }

    /// Sets and ways of the data cache, on a device with pages of `page`. The configuration is
    /// valid.
    pub(crate) fn cache_shape(&self, page: PageSize) -> Shape {
        let frames = u32::try_from(self.frame_count(page.bytes())).expect("validated");
        Shape::new(frames, self.cache.ways)
    }

    /// Every parameter that is out of range, as a sentence.
    pub fn validate(&self) -> Vec<String> {
        let mut problems: Vec<String> = [
            check::number("ssd.buffers", self.buffers, 1, 65_536),
            check::number("ssd.firmware_cores", self.firmware_cores, 1, 64),
            check::number("ssd.fill_buffers", self.fill_buffers, 1, 65_536),
            check::rate("ssd.read_rate", self.read_rate),
            check::rate("ssd.write_rate", self.write_rate),
            check::work("ssd.delay_answer_cost", self.delay_answer_cost),
            check::work("ssd.dram_latency", self.dram_latency),
            check::span(
                "ssd.flush_cost",
                self.flush_cost,
                Picos::from_micros(1_000_000),
            ),
        ]
        .into_iter()
        .flatten()
        .collect();
        if self.dram > Bytes::from_mib(64 * 1024) {
            problems.push(format!(
                "ssd.dram is {}; it must be at most 64GiB",
                self.dram
            ));
        }
        problems.extend(self.log.validate());
        problems.extend(self.cache.validate());
        problems.extend(self.prefetch.validate());
        problems.extend(self.compaction.validate());
        problems.extend(self.promotion.validate());
        problems.extend(self.validate_together());
        problems
    }

    /// What a log needs of which a part lies in frames.
    fn validate_shared_room(&self) -> Option<String> {
        let (log, least) = (&self.log, self.log.least);
        if !log.shares_room() {
            return None;
        }
        if least.get() / 2 < log.entry.get() || least > log.size {
            return Some(format!(
                "ssd.log.least is {least}; it must be 0B, or two entries up to ssd.log.size ({})",
                log.size
            ));
        }
        if log.size.get() > self.dram.get() / 2 {
            return Some(format!(
                "ssd.log.least is {least}, so that the log lies in frames of the data cache: \
                 ssd.log.size ({}) must be at most half of ssd.dram ({})",
                log.size, self.dram
            ));
        }
        let goes = log.mode == LogMode::Halves
            && log.seal_at.of(1000) == 1000
            && log.tx_log == Bytes::ZERO
            && self.cache.ways > 1;
        (!goes).then(|| {
            "ssd.log.least needs ssd.log.mode = halves, ssd.log.seal_at = 100%, ssd.log.tx_log = \
             0B and ssd.cache.ways above 1"
                .into()
        })
    }

    /// What goes with a log only, and what does not go with each other.
    fn validate_together(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let has_log = self.log.half_slot_count() > 0;
        problems.extend(self.validate_shared_room());
        if self.log.tx_log > Bytes::ZERO
            && (!has_log || self.log.mode == LogMode::Ring || !self.buffer_hits)
        {
            problems.push(
                "ssd.log.tx_log needs ssd.log.size, ssd.log.mode = halves and ssd.buffer_hits = \
                 true"
                    .into(),
            );
        }
        if self.power_loss_protection == PowerLossProtection::None && has_log {
            problems.push(format!(
                "ssd.power_loss_protection is none and ssd.log.size is {}, which would be lost \
                 with the power: set it to 0B, or the protection to battery",
                self.log.size
            ));
        }
        if self.power_loss_protection == PowerLossProtection::Dram && has_log {
            problems.push(format!(
                "ssd.power_loss_protection is dram, for devices without a log, and ssd.log.size is \
                 {}: set it to 0B, or the protection to battery",
                self.log.size
            ));
        }
        if self.power_loss_protection.keeps_frames() && self.fill == Fill::Buffered {
            problems.push(
                "ssd.power_loss_protection is dram and ssd.fill is buffered: what is written to a \
                 page that waits in a buffer would not survive; set ssd.fill to at_once"
                    .into(),
            );
        }
        if has_log && self.compaction.leaves >= self.buffers {
            problems.push(format!(
                "ssd.compaction.leaves is {} of the {} ssd.buffers, so that compaction could have \
                 none: it must be below ssd.buffers",
                self.compaction.leaves, self.buffers
            ));
        }
        if self.power_loss_protection == PowerLossProtection::Log
            && (!has_log || self.log.mode == LogMode::Ring || self.log.takes == LogTakes::Absent)
        {
            problems.push(
                "ssd.power_loss_protection is log, which needs ssd.log.size, ssd.log.mode = halves \
                 and ssd.log.takes = all"
                    .into(),
            );
        }
        if self.cache.policy == CachePolicy::None && !has_log {
            problems
                .push("ssd.cache.policy is none and there is no ssd.log.size to take lines".into());
        }
        if self.cache.policy == CachePolicy::None
            && self.prefetch.kind != PrefetcherKind::None
            && self.prefetch.pages > 0
        {
            problems.push(
                "ssd.cache.policy is none, so nothing can be fetched ahead: set ssd.prefetch.kind \
                 to none"
                    .into(),
            );
        }
        if self.log.takes == LogTakes::Absent
            && has_log
            && (self.log.mode == LogMode::Ring
                || self.log.tx_log > Bytes::ZERO
                || !self.buffer_hits
                || self.cache.policy == CachePolicy::None)
        {
            problems.push(
                "ssd.log.takes is absent, which needs ssd.log.mode = halves, ssd.log.tx_log = 0B, \
                 ssd.buffer_hits = true and an ssd.cache.policy"
                    .into(),
            );
        }
        problems
    }
}

/// Everything that makes a controller; the integrator puts it together from the sections.
#[derive(Clone, PartialEq, Debug)]
pub struct ControllerConfig {
    /// Section `ssd` with its groups.
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
    /// Page buffers of the controller and, behind them, of garbage collection.
    pub fn buffer_count(&self) -> u64 {
        let of_gc = u64::from(self.ftl.gc_buffers) * u64::from(self.geometry.units_per_page);
        u64::from(self.ssd.buffers) + of_gc
    }

    /// Every problem of the sections `ssd` and `ftl`, alone and together with the flash, as
    /// sentences.
    pub fn validate(&self) -> Vec<String> {
        let mut problems = self.ssd.validate();
        problems.extend(self.ftl.validate(&self.geometry));
        let page = self.geometry.unit_size;
        let frames = self.ssd.frame_count(page.bytes());
        if frames == 0 {
            let ssd = &self.ssd;
            let tx_log = match ssd.log.tx_log {
                Bytes::ZERO => String::new(),
                size => format!(" and ssd.log.tx_log ({size})"),
            };
            let log = match ssd.log.size {
                Bytes::ZERO => String::new(),
                _ => format!(
                    ": set ssd.log.size with it, an eighth of ssd.dram ({}) as in SkyByte",
                    Bytes::new(ssd.dram.get() / 8)
                ),
            };
            problems.push(format!(
                "ssd.dram ({}) has no room for a page of {page} beside ssd.log.size \
                 ({}){tx_log}{log}",
                ssd.dram, ssd.log.size
            ));
        }
        if self.ssd.log.tx_log > Bytes::ZERO && self.promotion_enabled {
            problems.push(
                "ssd.log.tx_log is not 0B, so pages cannot go to the host: switch promotion off"
                    .into(),
            );
        }
        // The log indexes pack line and slot into 31 bits of 32 (SkyByte III-B): all ones of the
        // hash mean empty, and the skip list says with one whether a run begins.
        let nameable = 1u64 << (31 - page.line_bits());
        if self.ssd.log.half_slot_count() >= nameable {
            problems.push(format!(
                "ssd.log.size ({}) has more slots than the log index can name beside the lines \
                 of a page of {page}: it must be below {}",
                self.ssd.log.size,
                Bytes::new(self.ssd.log.entry.get().saturating_mul(2 * nameable))
            ));
        }
        problems
    }
}

#[cfg(test)]
mod tests;
