//! Spatial footprint: the pages of a region that were asked for last time.
//!
//! A generation of a region of 64 pages begins with a miss of a page that was already asked for in
//! the one before: the data cache has lost it. Every trigger is told which pages of the former
//! generation have not been asked for in the current one. First touches have no history.
//!
//! Source: S. Somogyi et al., "Spatial Memory Streaming", ISCA 2006, with the region's own address
//! in place of the program counter, which a device never sees, and one generation of memory.

use super::{Plan, Prefetcher, Trigger};
use alloc::vec;
use alloc::vec::Vec;
use units::Lpa;

/// Pages of a region: the bits of a footprint.
const REGION_PAGES: u64 = 64;

#[derive(Clone, Copy, Default)]
struct Region {
    /// Number of the region + 1; 0 = none.
    tag: u64,
    /// Pages asked for in this generation and in the one before.
    current: u64,
    former: u64,
}

/// The regions, direct mapped.
#[derive(Clone)]
pub struct Spatial {
    regions: Vec<Region>,
}

impl Spatial {
    /// Remembers `region_count` regions.
    pub fn new(region_count: u32) -> Self {
        Self {
            regions: vec![Region::default(); region_count as usize],
        }
    }
}

impl Prefetcher for Spatial {
    fn learn(&mut self, trigger: Trigger) -> Plan {
        let number = trigger.lpa.get() / REGION_PAGES;
        let page = 1 << (trigger.lpa.get() % REGION_PAGES);
        let place = number % self.regions.len() as u64;
        let region = &mut self.regions[place as usize];
        if region.tag != number + 1 {
            *region = Region {
                tag: number + 1,
                ..Region::default()
            };
        }
        if trigger.is_miss && region.current & page != 0 {
            region.former = core::mem::take(&mut region.current);
        }
        region.current |= page;
        match region.former & !region.current {
            0 => Plan::Nothing,
            pages => Plan::Footprint {
                first: Lpa::new(number * REGION_PAGES),
                pages,
            },
        }
    }
    fn on_fill(&mut self, _lpa: Lpa, _was_prefetched: bool) {}
}

#[cfg(test)]
mod tests {
    use super::super::testing::miss;
    use super::*;

    #[test]
    fn the_pages_asked_for_last_time_are_planned_when_one_of_them_is_lost() {
        let mut spatial = Spatial::new(4);
        for page in [130, 133, 190] {
            assert_eq!(spatial.learn(miss(0, page)), Plan::Nothing);
        }
        let plan = |pages: &[u64]| Plan::Footprint {
            first: Lpa::new(128),
            pages: pages.iter().map(|page| 1 << (page - 128)).sum(),
        };
        assert_eq!(spatial.learn(miss(0, 133)), plan(&[130, 190]));
        let first_use = Trigger {
            is_miss: false,
            ..miss(0, 190)
        };
        assert_eq!(spatial.learn(first_use), plan(&[130]));
        // Page 133 was not lost again; page 140 is new in this generation.
        assert_eq!(spatial.learn(miss(0, 140)), plan(&[130]));
        assert_eq!(spatial.learn(miss(0, 140)), plan(&[133, 190]));
    }

    #[test]
    fn first_touches_are_not_caught_and_a_region_forgets_what_was_in_its_place() {
        let mut spatial = Spatial::new(1);
        for page in 0..200 {
            assert_eq!(spatial.learn(miss(0, page)), Plan::Nothing);
        }
        assert_eq!(spatial.learn(miss(0, 3)), Plan::Nothing);
    }
}
