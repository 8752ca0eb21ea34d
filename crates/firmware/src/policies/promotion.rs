//! Which pages are hot, and which of them the host has been offered (SkyByte §III-C;
//! `ssd.promotion.threshold`, `counts`, `fetch_uses`, `remembers`).

mod past_uses;

use crate::config::{ControllerConfig, PromotionCounts};
use alloc::vec::Vec;
use past_uses::PastUses;
use units::Lpa;

/// How a resident page was used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// The data cache served it at once.
    Hit,
    /// It had to be brought first, or was written by way of the log.
    Late,
}

/// What a fetch counts as.
pub(crate) struct Fetched {
    /// All that counts from now on.
    pub(crate) uses: u32,
    /// Some of it was before the page left the data cache.
    pub(crate) is_recalled: bool,
}

/// When a page is offered to the host.
#[derive(Clone)]
pub(crate) struct HotPages {
    /// None: pages are not offered.
    threshold: Option<u32>,
    counts: PromotionCounts,
    /// Uses that a fetch counts as.
    fetch_uses: u32,
    /// None: pages that leave the data cache are forgotten.
    past: Option<PastUses>,
    /// Pages that the host has been offered and has not answered for.
    offered: Vec<Lpa>,
}

impl HotPages {
    /// With a data cache of so many frames.
    pub(crate) fn new(config: &ControllerConfig, frames: usize) -> Self {
        let ssd = &config.ssd;
        let remembers = config.promotion_enabled && ssd.promotion.remembers;
        Self {
            threshold: config.promotion_enabled.then_some(ssd.promotion.threshold),
            counts: ssd.promotion.counts,
            fetch_uses: ssd.promotion.fetch_uses,
            past: remembers.then(|| PastUses::new(frames)),
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

    /// A page has been fetched from flash because the host asked for it: the uses that this counts
    /// as, and those of before that count on.
    #[inline]
    pub(crate) fn fetched(&mut self, lpa: Lpa) -> Fetched {
        let recalled = self.past.as_mut().map_or(0, |past| past.take(lpa));
        Fetched {
            uses: self.fetch_uses.saturating_add(recalled),
            is_recalled: recalled > 0,
        }
    }

    /// A page has left the data cache for another one, after so many uses.
    #[inline]
    pub(crate) fn left(&mut self, lpa: Lpa, uses: u32) {
        if let Some(past) = &mut self.past {
            past.remember(lpa, uses);
        }
    }

    /// What pages have been used so far counts no more.
    pub(crate) fn forget_uses(&mut self) {
        if let Some(past) = &mut self.past {
            past.clear();
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

    /// The host has answered: the page starts anew.
    pub(crate) fn forget(&mut self, lpa: Lpa) {
        self.start_anew(lpa);
        if let Some(at) = self.offered.iter().position(|page| *page == lpa) {
            self.offered.swap_remove(at);
        }
    }

    /// What the page was used so far counts no more.
    pub(crate) fn start_anew(&mut self, lpa: Lpa) {
        if let Some(past) = &mut self.past {
            past.take(lpa);
        }
    }
}
