//! Which pages a drain of the log needs no older copy of (`run.drain_log`).

use alloc::vec::Vec;
use units::Lpa;

/// Pages of which compaction reads no older copy from flash: SkyByte's artifact drains what another
/// run has left, with that run's data cache. It maps such a page to a die at that moment, and
/// programs it on the next one; a page that it reads is mapped before.
#[derive(Clone, Default)]
pub(crate) struct AtHand {
    /// In ascending order.
    pages: Vec<Lpa>,
}

impl AtHand {
    /// These pages, in ascending order.
    pub(crate) fn new(pages: Vec<Lpa>) -> Self {
        Self { pages }
    }

    #[inline]
    pub(crate) fn has(&self, lpa: Lpa) -> bool {
        self.pages.binary_search(&lpa).is_ok()
    }
}
