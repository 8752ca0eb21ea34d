//! The firmware's own work, by name, and what it takes.
//!
//! The firmware says what it does ([`Work`]); what that takes is the platform's to know: a timed
//! platform prices it with [`WorkCosts`], one that runs the firmware for real measures it.

use crate::config::SsdConfig;
use crate::ftl::FtlConfig;
use units::Picos;
use units::address::LINE_BYTES;

/// Units of the device that do the work (D16).
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Unit {
    /// Pipelined log index lookup.
    LogLookup,
    /// Pipelined data cache lookup.
    CacheLookup,
    /// The firmware cores: compaction, GC, migration. FIFO over `ssd.firmware_cores` cores.
    FirmwareCore,
}

/// A piece of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// The log index is looked up for a request, which writes or reads.
    LogLookup {
        /// Whether the request writes.
        is_write: bool,
    },
    /// The data cache is looked up for a request, which writes or reads.
    CacheLookup {
        /// Whether the request writes.
        is_write: bool,
    },
    /// Compaction takes a page up.
    CompactionStep,
    /// Garbage collection moves a page.
    RelocationStep,
}

/// What a piece of work takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Charge {
    /// Who does it.
    pub unit: Unit,
    /// From its start to its end.
    pub latency: Picos,
    /// For how long the unit takes up nothing else.
    pub occupancy: Picos,
}

/// What each piece of work takes, as the configuration says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkCosts {
    log_lookup: Picos,
    cache_lookup: Picos,
    read: Picos,
    write: Picos,
    compaction_step: Picos,
    relocation_step: Picos,
}

impl WorkCosts {
    /// Those of `ssd.log.lookup`, `ssd.cache.lookup`, `ssd.read_rate`, `ssd.write_rate`,
    /// `ssd.compaction.page_cost` and `ftl.gc_page_cost`.
    pub fn new(ssd: &SsdConfig, ftl: &FtlConfig) -> Self {
        Self {
            log_lookup: ssd.log.lookup,
            cache_lookup: ssd.cache.lookup,
            read: ssd.read_rate.time_for(LINE_BYTES),
            write: ssd.write_rate.time_for(LINE_BYTES),
            compaction_step: ssd.compaction.page_cost,
            relocation_step: ftl.gc_page_cost,
        }
    }

    /// What this takes.
    #[inline]
    pub fn of(&self, work: Work) -> Charge {
        let lookup = |unit, latency, is_write| Charge {
            unit,
            latency,
            occupancy: match is_write {
                true => self.write,
                false => self.read,
            },
        };
        let step = |cost| Charge {
            unit: Unit::FirmwareCore,
            latency: cost,
            occupancy: cost,
        };
        match work {
            Work::LogLookup { is_write } => lookup(Unit::LogLookup, self.log_lookup, is_write),
            Work::CacheLookup { is_write } => {
                lookup(Unit::CacheLookup, self.cache_lookup, is_write)
            }
            Work::CompactionStep => step(self.compaction_step),
            Work::RelocationStep => step(self.relocation_step),
        }
    }
}
