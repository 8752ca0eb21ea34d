//! Which pages are hot, and which of them the host has been offered (SkyByte §III-C;
//! `ssd.promotion.threshold`, `ssd.promotion.counts`).

use crate::config::{ControllerConfig, PromotionCounts};
use alloc::vec::Vec;
use units::Lpa;

/// How a resident page was used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// The data cache served it at once.
    Hit,
    /// It had to be brought first, or was written by way of the log.
    Late,
}

/// When a page is offered to the host.
#[derive(Clone)]
pub(crate) struct HotPages {
    /// None: pages are not offered.
    threshold: Option<u32>,
    counts: PromotionCounts,
    /// Pages that the host has been offered and has not answered for.
    offered: Vec<Lpa>,
}

impl HotPages {
    pub(crate) fn new(config: &ControllerConfig) -> Self {
        let ssd = &config.ssd;
        Self {
            threshold: config.promotion_enabled.then_some(ssd.promotion.threshold),
            counts: ssd.promotion.counts,
            offered: Vec::new(),
        }
    }

    /// The number of uses beyond which a page is hot, if this use counts.
    #[inline]
    pub(crate) fn threshold(&self, kind: Use) -> Option<u32> {
        match self.counts {
            PromotionCounts::CacheHits if kind == Use::Late => None,
            _ => self.threshold,
        }
    }

    /// Whether only hits of the data cache count.
    pub(crate) fn counts_hits(&self) -> bool {
        self.counts == PromotionCounts::CacheHits
    }

    /// Notes an offer; says whether the host has none of the page.
    pub(crate) fn offer(&mut self, lpa: Lpa) -> bool {
        let is_new = !self.offered.contains(&lpa);
        if is_new {
            self.offered.push(lpa);
        }
        is_new
    }

    /// The host has answered.
    pub(crate) fn forget(&mut self, lpa: Lpa) {
        if let Some(at) = self.offered.iter().position(|page| *page == lpa) {
            self.offered.swap_remove(at);
        }
    }
}
