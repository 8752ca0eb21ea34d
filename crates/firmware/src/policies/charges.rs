//! Which work on lines of the log takes time (`ssd.log.write_lookup`, `ssd.log.merge_on_fill`,
//! `ssd.compaction.copies`, `ssd.log.write_updates_cache`).
//!
//! SkyByte's paper says that all of it does; its artifact leaves these costs out. The bytes are
//! moved either way.

use crate::config::{CompactionConfig, Cost, LogConfig};
use crate::log::slot_address;
use crate::platform::Platform;
use units::address::LINE_BYTES;
use units::{Bytes, LogSlot, Time};

/// Which work takes time.
#[derive(Clone)]
pub(crate) struct Charges {
    write_lookup: Cost,
    merge: Cost,
    compaction: Cost,
    frame_update: Cost,
}

impl Charges {
    pub(crate) fn new(log: &LogConfig, compaction: &CompactionConfig) -> Self {
        Self {
            write_lookup: log.write_lookup,
            merge: log.merge_on_fill,
            compaction: compaction.copies,
            frame_update: match log.write_updates_cache {
                true => Cost::Charged,
                false => Cost::Free,
            },
        }
    }

    /// Whether a write to the log waits for the lookups.
    #[inline]
    pub(crate) fn write_lookup(&self) -> bool {
        self.write_lookup == Cost::Charged
    }

    /// Whether a write to the log is a use of its page in the data cache, and takes time there.
    #[inline]
    pub(crate) fn frame_update(&self) -> bool {
        self.frame_update == Cost::Charged
    }

    /// A line of the log has been merged into a page that comes.
    #[inline]
    pub(crate) fn merge<P: Platform>(&self, at: Time, slot: LogSlot, platform: &mut P) -> Time {
        match self.merge {
            Cost::Charged => platform.dram_behind(at, slot_address(slot), LINE_BYTES, false),
            Cost::Free => at,
        }
    }

    /// Compaction has copied bytes of the log or of a frame.
    #[inline]
    pub(crate) fn compaction<P: Platform>(
        &self,
        at: Time,
        (address, size): (Bytes, Bytes),
        platform: &mut P,
    ) -> Time {
        match self.compaction {
            Cost::Charged => platform.dram_behind(at, address, size, false),
            Cost::Free => at,
        }
    }
}
