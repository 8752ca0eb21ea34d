//! Which pages a drain of the log needs no older copy of (`run.drain_log`).

use alloc::vec::Vec;
use units::Lpa;

/// Pages of which compaction reads no older copy from flash: SkyByte's artifact drains what another
/// run has left, with that run's data cache.
#[derive(Clone, Default)]
pub(crate) struct AtHand {
    /// In ascending order.
    pages: Vec<Lpa>,
    /// Whether the log had no others.
    is_all: bool,
}

impl AtHand {
    /// Of a log with these pages.
    pub(crate) fn new(pages: Vec<Lpa>, mut logged: impl Iterator<Item = Lpa>) -> Self {
        let mut at_hand = Self {
            pages,
            is_all: false,
        };
        at_hand.is_all = logged.all(|lpa| at_hand.has(lpa));
        at_hand
    }

    #[inline]
    pub(crate) fn has(&self, lpa: Lpa) -> bool {
        self.pages.binary_search(&lpa).is_ok()
    }

    /// Whether the artifact maps such a page to a die before it programs it on the next one.
    #[inline]
    pub(crate) fn passes_die(&self, lpa: Lpa) -> bool {
        self.is_all && self.has(lpa)
    }
}
