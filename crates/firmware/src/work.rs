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
    /// A line is appended to the log and its index. Costs nothing but where it is measured: its
    /// device DRAM is charged as such, as it is for the next two.
    LogAppend,
    /// A frame is found for a page, and the page that was there leaves.
    CacheInsert,
    /// Compaction puts the lines of a page together.
    CompactionMerge,
}

/// A piece of work by its number in messages and files.
const BY_CODE: [Work; 7] = [
    Work::LogLookup { is_write: false },
    Work::CacheLookup { is_write: false },
    Work::CompactionStep,
    Work::RelocationStep,
    Work::LogAppend,
    Work::CacheInsert,
    Work::CompactionMerge,
];

impl Work {
    /// How many kinds there are.
    pub const KINDS: usize = BY_CODE.len();

    /// Its number in messages and files.
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            Self::LogLookup { .. } => 0,
            Self::CacheLookup { .. } => 1,
            Self::CompactionStep => 2,
            Self::RelocationStep => 3,
            Self::LogAppend => 4,
            Self::CacheInsert => 5,
            Self::CompactionMerge => 6,
        }
    }

    /// The work of a number, of a request that reads where that matters.
    pub fn of_code(code: u8) -> Option<Self> {
        BY_CODE.get(usize::from(code)).copied()
    }

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LogLookup { .. } => "check log",
            Self::CacheLookup { .. } => "check cache",
            Self::CompactionStep => "compaction step",
            Self::RelocationStep => "relocation step",
            Self::LogAppend => "append",
            Self::CacheInsert => "insert",
            Self::CompactionMerge => "compaction merge",
        }
    }

    /// What it costs where one controller core does the requests' work and the others the rest, and
    /// a core does one thing at a time.
    #[inline]
    pub const fn as_software(self, time: Picos) -> Charge {
        let unit = match self {
            Self::LogLookup { .. }
            | Self::CacheLookup { .. }
            | Self::LogAppend
            | Self::CacheInsert => Unit::CacheLookup,
            Self::CompactionStep | Self::RelocationStep | Self::CompactionMerge => {
                Unit::FirmwareCore
            }
        };
        Charge {
            unit,
            latency: time,
            occupancy: time,
        }
    }
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

    /// What this takes, if anything.
    #[inline]
    pub fn of(&self, work: Work) -> Option<Charge> {
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
        Some(match work {
            Work::LogLookup { is_write } => lookup(Unit::LogLookup, self.log_lookup, is_write),
            Work::CacheLookup { is_write } => {
                lookup(Unit::CacheLookup, self.cache_lookup, is_write)
            }
            Work::CompactionStep => step(self.compaction_step),
            Work::RelocationStep => step(self.relocation_step),
            Work::LogAppend | Work::CacheInsert | Work::CompactionMerge => return None,
        })
    }
}
