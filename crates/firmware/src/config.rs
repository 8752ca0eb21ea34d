//! What the controller can be told: section `ssd`, and what the integrator adds to it.

use crate::ftl::{FlashTiming, FtlConfig};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use units::address::LINE_BYTES;
use units::{Bytes, BytesPerSec, FlashGeometry, Picos};

/// Which page leaves the data cache when a set is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CachePolicy {
    /// The least recently used one.
    Lru,
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

units::parameters! {
    /// The SSD controller: its DRAM, the mechanisms that live in it, and what they cost.
    pub struct SsdConfig: "ssd" {
        /// Device DRAM, write log and data cache together.
        dram: Bytes, "at least the write log and one page, at most 64GiB", "SkyByte Table II (D15)";
        /// Write log, both halves together; 0B means no log: writes go to the data cache.
        write_log: Bytes, "0B, or two lines up to 2GiB", "SkyByte Table II (D15)";
        /// Frames of a set of the data cache.
        cache_ways: u32, "1 to 64", "SkyByte Table II";
        /// Which page leaves a full set.
        cache_policy: CachePolicy, "lru", "SkyByte Table II";
        /// Pages that may be on their way from flash to the data cache at one time.
        mshr_count: u32, "1 to 65536", "SkyByte Table II";
        /// Pages fetched after the one that a demand miss fetches (next-N).
        prefetch_pages: u32, "0 to 64", "SkyByte VI-A, Base-CSSD's prefetcher; depth ours (D7)";
        /// Latency of a lookup in the log index.
        log_lookup: Picos, "at most 1ms", "SkyByte V, FPGA prototype";
        /// Latency of a lookup in the data cache.
        cache_lookup: Picos, "at most 1ms", "SkyByte V, FPGA prototype";
        /// Rate at which the pipelined lookups accept reads, one line each.
        read_rate: BytesPerSec, "1MB/s to 1000GB/s", "SkyByte V, FPGA prototype: 11.93 GB/s";
        /// Rate at which the pipelined lookups accept writes, one line each.
        write_rate: BytesPerSec, "1MB/s to 1000GB/s", "SkyByte V, FPGA prototype: 9.37 GB/s";
        /// Page buffers for coalescing and for write-back; a page stays in one until programmed.
        buffers: u32, "1 to 65536", "ours: 256 pages keep 16 channels busy";
        /// Cores that run compaction, GC and migration.
        firmware_cores: u32, "1 to 64", "SkyByte V: quad-core ARM Cortex A53";
        /// Work of a firmware core per compacted page.
        compaction_page_cost: Picos, "at most 1ms", "ours; the paper gives none (D16)";
        /// Pages that compaction may have in flight at one time.
        compaction_batch: u32, "1 to 65536", "ours; SkyByte III-B batches without a number";
        /// When a page written through the block port is acknowledged.
        block_write_ack: BlockWriteAck, "buffered or programmed", "ours: SSDs with power-loss protection answer from a buffer";
        /// Accesses to a cached page beyond which it is offered to the host.
        promotion_threshold: u32, "1 to 1000000", "ours; the paper gives none (D20)";
    }
}

impl SsdConfig {
    /// Frames of the data cache of a device with pages of `page`.
    pub fn frame_count(&self, page: Bytes) -> u64 {
        Bytes::new(self.dram.get().saturating_sub(self.write_log.get())) / page
    }

    /// Slots of one half of the write log; 0 without a log.
    pub fn half_slot_count(&self) -> u64 {
        self.write_log / LINE_BYTES / 2
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
        range("buffers", self.buffers.into(), 1, 65_536);
        range("firmware_cores", self.firmware_cores.into(), 1, 64);
        range("compaction_batch", self.compaction_batch.into(), 1, 65_536);
        let threshold = self.promotion_threshold.into();
        range("promotion_threshold", threshold, 1, 1_000_000);
        for (key, rate) in [
            ("read_rate", self.read_rate),
            ("write_rate", self.write_rate),
        ] {
            if !(1_000_000..=1_000_000_000_000).contains(&rate.get()) {
                problems.push(format!("ssd.{key} is {rate}; it must be 1MB/s to 1000GB/s"));
            }
        }
        let longest = Picos::from_micros(1_000);
        for (key, span) in [
            ("log_lookup", self.log_lookup),
            ("cache_lookup", self.cache_lookup),
            ("compaction_page_cost", self.compaction_page_cost),
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
        let log = self.write_log;
        if log > Bytes::ZERO && log < LINE_BYTES * 2 || log > Bytes::from_mib(2048) {
            problems.push(format!(
                "ssd.write_log is {log}; it must be 0B, or two lines up to 2GiB"
            ));
        }
        problems
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
    /// What the estimator believes of the flash.
    pub timing: FlashTiming,
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
            problems.push(format!(
                "ssd.dram ({}) has no room for a page of {page} beside ssd.write_log ({})",
                self.ssd.dram, self.ssd.write_log
            ));
        }
        // The log index packs line and slot into 32 bits (SkyByte III-B), all ones meaning empty.
        if self.ssd.half_slot_count() >= 1 << (32 - page.line_bits()) {
            problems.push(format!(
                "ssd.write_log ({}) has more slots than the log index can name beside the lines \
                 of a page of {page}",
                self.ssd.write_log
            ));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssd() -> SsdConfig {
        SsdConfig {
            dram: Bytes::from_mib(512),
            write_log: Bytes::from_mib(64),
            cache_ways: 16,
            cache_policy: CachePolicy::Lru,
            mshr_count: 2048,
            prefetch_pages: 1,
            log_lookup: Picos::from_nanos(72),
            cache_lookup: Picos::from_nanos(49),
            read_rate: BytesPerSec::new(11_930_000_000),
            write_rate: BytesPerSec::new(9_370_000_000),
            buffers: 256,
            firmware_cores: 4,
            compaction_page_cost: Picos::from_nanos(500),
            compaction_batch: 256,
            block_write_ack: BlockWriteAck::Buffered,
            promotion_threshold: 64,
        }
    }

    #[test]
    fn log_and_cache_share_the_dram() {
        let ssd = ssd();
        assert_eq!(ssd.validate(), Vec::<String>::new());
        assert_eq!(ssd.half_slot_count(), 524_288);
        assert_eq!(ssd.frame_count(Bytes::from_kib(4)), 114_688);
    }

    #[test]
    fn costs_and_sizes_that_no_run_could_hold_are_refused() {
        let wrong = SsdConfig {
            dram: Bytes::from_mib(64 * 1024 + 1),
            log_lookup: Picos::from_micros(1_001),
            cache_lookup: Picos::MAX,
            compaction_page_cost: Picos::MAX,
            read_rate: BytesPerSec::new(999_999),
            write_rate: BytesPerSec::new(1_000_000_000_001),
            ..ssd()
        };
        assert_eq!(wrong.validate().len(), 6, "{:?}", wrong.validate());
    }

    #[test]
    fn every_parameter_out_of_range_is_named() {
        let wrong = SsdConfig {
            cache_ways: 0,
            mshr_count: 65_537,
            write_log: Bytes::new(64),
            read_rate: BytesPerSec::new(0),
            ..ssd()
        };
        let problems = wrong.validate();
        for key in ["cache_ways", "mshr_count", "write_log", "read_rate"] {
            let named = problems.iter().filter(|text| text.contains(key)).count();
            assert_eq!(named, 1, "{key}: {problems:?}");
        }
        assert_eq!(problems.len(), 4);
    }
}
