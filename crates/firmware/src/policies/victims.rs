//! What becomes of the page that leaves a full set (`ssd.cache.victim_order`,
//! `ssd.cache.clean_victims`).

use crate::config::{CleanVictims, SsdConfig, VictimOrder};

/// The way of a page out of the data cache.
#[derive(Clone)]
pub(crate) struct VictimPolicy {
    order: VictimOrder,
    clean: CleanVictims,
}

impl VictimPolicy {
    pub(crate) fn new(ssd: &SsdConfig) -> Self {
        Self {
            order: ssd.cache.victim_order,
            // With a log there is nothing in a frame that flash or log has not.
            clean: match ssd.log.half_slot_count() {
                0 => ssd.cache.clean_victims,
                _ => CleanVictims::Drop,
            },
        }
    }

    /// Whether a page is programmed when it leaves.
    #[inline]
    pub(crate) fn programs(&self, is_dirty: bool) -> bool {
        is_dirty || self.clean == CleanVictims::Program
    }

    /// Whether its program comes behind the read of the page that it leaves for.
    #[inline]
    pub(crate) fn goes_behind(&self) -> bool {
        self.order == VictimOrder::BehindRead
    }
}
