//! The sections that belong to the simulator itself.

use serde::{Deserialize, Serialize};
use units::Ratio;

units::parameters! {
    /// The run itself.
    pub struct RunConfig: "run" {
        /// Seed of every random stream of the run.
        seed: u64, "any", "our choice: 1";
        /// First part of each thread's instructions, executed functionally to warm caches, TLBs,
        /// branch predictors, device DRAM, write log and host pages before measurement starts. What
        /// of a capture only warms (`trace import --warm-with`) comes before it and does not count.
        warmup: Ratio, "0% to below 100%", "decision D5; SkyByte §VI-A warms with the traces";
        /// Whether caches, TLBs and branch predictors are warm when measurement starts. If not,
        /// they are emptied after warm-up, and dirty lines are lost; device and host pages stay
        /// warm.
        warm_caches: bool, "true or false", "decision D5 (true); SkyByte's artifact: false";
        /// Which loads and stores of warm-up reach device and host DRAM: those that miss the CPU's
        /// caches (`misses`), or all, past the caches, which stay cold (`all`).
        warm_accesses: WarmAccesses, "misses or all", "decision D5 (misses); SkyByte's artifact: all";
        /// Whether the accesses that warm-up has counted of each page in the device's DRAM, by
        /// which pages are offered to the host, count on (`kept`) or are forgotten when measurement
        /// starts (`forgotten`).
        warm_counts: WarmCounts, "kept or forgotten",
            "decision D5 (kept); SkyByte's artifact: forgotten, its snapshot has pages only";
        /// How many accesses of a thread may wait for flash in warm-up before the thread waits. An
        /// instruction then takes a cycle and flash its time, a page is on its way until it has
        /// come, and an access to a page on its way is no hit of the cache. 0: nothing takes time
        /// in warm-up, and a page is there at once.
        warm_waits: u32, "0 to 1024", "decision D5 (0); SkyByte's artifact: 64";
        /// Whether what the measured run leaves in the write log is brought to flash from its start
        /// on, and counted; what warm-up has left goes to flash before, uncounted. If not, what
        /// warm-up has left stays in the log.
        drain_log: bool, "true or false", "decision D5 (false); SkyByte's artifact: true";
        /// What the data cache has when the program begins: nothing (`none`), or in every frame a
        /// page that another program has read (`clean`) or, where frames take writes, written
        /// (`dirty`).
        other_pages: OtherPages, "none, clean or dirty",
            "ours (none); a device in use: dirty; SkyByte's artifact begins with snapshots of other \
             sections, full and 0 to 97% dirty (its warmup_hint files)";
    }
}

/// Which loads and stores of warm-up reach device and host DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmAccesses {
    /// Those that miss the CPU's caches.
    Misses,
    /// All.
    All,
}

/// What becomes of the accesses that warm-up has counted of each page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmCounts {
    /// They count on.
    Kept,
    /// They are forgotten when measurement starts.
    Forgotten,
}

/// What the data cache has when the program begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtherPages {
    /// Nothing.
    None,
    /// In every frame a page of others that is equal to what is on flash.
    Clean,
    /// In every frame a page of others that is newer than flash, if frames take writes.
    Dirty,
}

impl RunConfig {
    /// Range problems, as sentences.
    pub fn validate(&self) -> Vec<String> {
        // Less than all of a thread leaves it an instruction that is measured.
        if self.warmup.numerator() >= self.warmup.denominator() {
            return vec![format!(
                "run.warmup = {} leaves nothing to measure; it must be below 100%",
                self.warmup
            )];
        }
        if self.warm_waits > 1024 {
            let waits = self.warm_waits;
            return vec![format!("run.warm_waits {waits} is not between 0 and 1024")];
        }
        Vec::new()
    }
}

/// Where the data pages live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// On the CXL-SSD, some of them promoted to host DRAM.
    Ssd,
    /// All in host DRAM (DRAM-Only).
    Dram,
}

/// Who moves hot pages to host DRAM, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Migration {
    /// Nobody.
    None,
    /// The device counts accesses and offers hot pages; accesses go on during the move (SkyByte
    /// §III-C).
    Adaptive,
    /// The operating system samples by hint faults and moves pages that it locks (TPP).
    Tpp,
    /// Host DRAM is a page cache in hardware, filled on demand; threads switch in user space when
    /// they miss it (AstriFlash).
    HostCache,
}

units::parameters! {
    /// What the design consists of: a composition of mechanisms, not a mode.
    pub struct DesignConfig: "design" {
        /// Where the data pages live: "ssd" or "dram".
        memory: MemoryKind, "\"ssd\" or \"dram\"", "SkyByte §VI-A; decision D6";
        /// Whether the device keeps the write log of ssd.log.size beside the data cache; without
        /// it the whole ssd.dram is data cache.
        write_log: bool, "true or false", "SkyByte §III-B";
        /// Whether the device may answer SkyByte-Delay and the OS then switches threads.
        context_switch: bool, "true or false", "SkyByte §III-A";
        /// How hot pages come to host DRAM: "none", "adaptive" (the device offers them), "tpp"
        /// (the operating system finds them by hint faults) or "host_cache" (every page that is
        /// missed comes, host DRAM being a cache).
        migration: Migration, "\"none\", \"adaptive\", \"tpp\" or \"host_cache\"", "SkyByte §III-C, §VI-H";
    }
}
