//! Which pages to fetch ahead: the interface, and the prefetchers by name.
//!
//! A prefetcher sees the demand accesses that found their page absent and the first uses of pages
//! fetched ahead: together they are the misses of a device without one, whatever it has fetched. It
//! answers with a plan; the controller fetches what is mapped, absent and finds room.

pub mod best_offset;
pub mod spatial;
pub mod stride;

use crate::config::{PrefetchConfig, PrefetcherKind};
use best_offset::BestOffset;
use spatial::Spatial;
use stride::Stride;
use units::{CoreId, Lpa};

/// An access that a prefetcher learns from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trigger {
    /// The page.
    pub lpa: Lpa,
    /// On behalf of which host core, if the host says.
    pub source: Option<CoreId>,
    /// Whether the page was absent; or else it was fetched ahead and this is its first use.
    pub is_miss: bool,
}

/// Pages worth fetching after a trigger, nearest first; `ssd.prefetch.pages` limits their number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plan {
    /// None.
    Nothing,
    /// The trigger's page plus once, twice, … this many pages.
    Stride(i64),
    /// Pages of an aligned region of 64: bit *i* is page `first` + *i*. They are fetched in order
    /// from the trigger's page on, then from the start of the region.
    Footprint {
        /// First page of the region.
        first: Lpa,
        /// The pages.
        pages: u64,
    },
}

/// Finds a pattern in the pages that are asked for.
pub trait Prefetcher {
    /// Learns from an access and says what may follow it.
    fn learn(&mut self, trigger: Trigger) -> Plan;
    /// A page has come from flash, fetched ahead or on demand.
    fn on_fill(&mut self, lpa: Lpa, was_prefetched: bool);
}

/// The pages after the one that was asked for.
#[derive(Clone)]
pub struct NextN;

impl Prefetcher for NextN {
    #[inline]
    fn learn(&mut self, _trigger: Trigger) -> Plan {
        Plan::Stride(1)
    }
    #[inline]
    fn on_fill(&mut self, _lpa: Lpa, _was_prefetched: bool) {}
}

/// The prefetchers by name; a match instead of a table of functions.
#[derive(Clone)]
pub(crate) enum AnyPrefetcher {
    None,
    NextN(NextN),
    Stride(Stride),
    BestOffset(BestOffset),
    Spatial(Spatial),
}

impl AnyPrefetcher {
    pub(crate) fn new(prefetch: &PrefetchConfig) -> Self {
        if prefetch.pages == 0 {
            return Self::None;
        }
        match prefetch.kind {
            PrefetcherKind::None => Self::None,
            PrefetcherKind::NextN => Self::NextN(NextN),
            PrefetcherKind::Stride => Self::Stride(Stride::new(prefetch.streams)),
            PrefetcherKind::BestOffset => Self::BestOffset(BestOffset::new()),
            PrefetcherKind::Spatial => Self::Spatial(Spatial::new(prefetch.regions)),
        }
    }
}

impl Prefetcher for AnyPrefetcher {
    #[inline]
    fn learn(&mut self, trigger: Trigger) -> Plan {
        match self {
            Self::None => Plan::Nothing,
            Self::NextN(prefetcher) => prefetcher.learn(trigger),
            Self::Stride(prefetcher) => prefetcher.learn(trigger),
            Self::BestOffset(prefetcher) => prefetcher.learn(trigger),
            Self::Spatial(prefetcher) => prefetcher.learn(trigger),
        }
    }
    #[inline]
    fn on_fill(&mut self, lpa: Lpa, was_prefetched: bool) {
        match self {
            Self::None => {}
            Self::NextN(prefetcher) => prefetcher.on_fill(lpa, was_prefetched),
            Self::Stride(prefetcher) => prefetcher.on_fill(lpa, was_prefetched),
            Self::BestOffset(prefetcher) => prefetcher.on_fill(lpa, was_prefetched),
            Self::Spatial(prefetcher) => prefetcher.on_fill(lpa, was_prefetched),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A miss of a core.
    pub(crate) fn miss(core: u32, page: u64) -> Trigger {
        Trigger {
            lpa: Lpa::new(page),
            source: Some(CoreId::new(core)),
            is_miss: true,
        }
    }
}
