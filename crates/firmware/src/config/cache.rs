//! The data cache: section `ssd.cache`.

use super::check;
use alloc::string::String;
use serde::{Deserialize, Serialize};
use units::Picos;

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

units::parameters! {
    /// The data cache and the MSHRs that fill it.
    pub struct CacheConfig: "ssd.cache" {
        /// Frames of a set of the data cache.
        ways: u32, "1 to 64", "SkyByte Table II";
        /// Which page leaves a full set.
        policy: CachePolicy, "none, lru, clock, two_q or s3_fifo; none with a log only", "SkyByte Table II (lru); ByteFS 4.3 (none)";
        /// Pages that may be on their way from flash to the data cache at one time.
        mshr_count: u32, "1 to 65536", "SkyByte Table II";
        /// Latency of a lookup in the data cache.
        lookup: Picos, "at most 1ms", "SkyByte V, FPGA prototype";
        /// What happens to a clean page that leaves the data cache of a device without a log.
        clean_victims: CleanVictims, "drop or program", "SkyByte VI-A (drop); its artifact: program";
        /// Whether a page that leaves for another one is sent to flash before that one is read from
        /// there, or behind.
        victim_order: VictimOrder, "before_read or behind_read",
            "ours (before_read): its estimate counts it; SkyByte's artifact: behind_read";
    }
}

impl CacheConfig {
    /// Every parameter that is out of range, as a sentence.
    pub(super) fn validate(&self) -> impl Iterator<Item = String> {
        [
            check::number("ssd.cache.ways", self.ways, 1, 64),
            check::number("ssd.cache.mshr_count", self.mshr_count, 1, 65_536),
            check::work("ssd.cache.lookup", self.lookup),
        ]
        .into_iter()
        .flatten()
    }
}
