//! What pages that have left the data cache were used there (`ssd.promotion.remembers`).
//!
//! A table of two places for each frame, in which a page's number says its only place: it is
//! bounded, costs one access, and forgets by itself. Of pages that share a place the latest to
//! leave is remembered.

use alloc::vec;
use alloc::vec::Vec;
use units::Lpa;

/// Places for each frame of the data cache.
const PLACES_PER_FRAME: usize = 2;

/// Uses of pages that have left.
#[derive(Clone)]
pub(super) struct PastUses {
    /// By place: LPA + 1, 0 = nobody.
    pages: Vec<u32>,
    /// By place: the uses of that page.
    uses: Vec<u32>,
}

impl PastUses {
    /// Of a data cache of so many frames.
    pub(super) fn new(frames: usize) -> Self {
        let places = frames * PLACES_PER_FRAME;
        Self {
            pages: vec![0; places],
            uses: vec![0; places],
        }
    }

    /// A page has left behind so many uses.
    pub(super) fn remember(&mut self, lpa: Lpa, uses: u32) {
        let (place, name) = self.place_of(lpa);
        (self.pages[place], self.uses[place]) = (name, uses);
    }

    /// The uses of a page that have not been taken yet.
    pub(super) fn take(&mut self, lpa: Lpa) -> u32 {
        let (place, name) = self.place_of(lpa);
        match self.pages[place] == name {
            true => core::mem::take(&mut self.uses[place]),
            false => 0,
        }
    }

    /// Nothing is remembered of any page.
    pub(super) fn clear(&mut self) {
        self.pages.fill(0);
    }

    /// Where a page is remembered, and the name it has there.
    fn place_of(&self, lpa: Lpa) -> (usize, u32) {
        // The data cache names pages by 32 bits as well. The product scatters neighbours (Knuth,
        // multiplicative hashing); its high half scales it to the table.
        let name = lpa.get() as u32 + 1;
        let hash = u64::from(name.wrapping_mul(0x9e37_79b1));
        let place = (hash * self.pages.len() as u64) >> 32;
        (place as usize, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    #[test]
    fn of_two_pages_in_one_place_the_latest_is_remembered() {
        let mut past = PastUses::new(1);
        let place = |past: &PastUses, page| past.place_of(Lpa::new(page)).0;
        let other = (1..).find(|page| place(&past, *page) == place(&past, 0));
        let (first, second) = (Lpa::new(0), Lpa::new(other.unwrap()));
        past.remember(first, 7);
        past.remember(second, 9);
        assert_eq!((past.take(first), past.take(second)), (0, 9));
        assert_eq!(past.take(second), 0, "uses are taken once");
    }

    #[test]
    fn nothing_outlives_a_clear() {
        let mut past = PastUses::new(4);
        past.remember(Lpa::new(3), 7);
        past.clear();
        assert_eq!(past.take(Lpa::new(3)), 0);
    }

    proptest! {
        /// Beside a plain map: what a page is remembered with is what it has last left with, or
        /// nothing; and with room for all, it is never nothing.
        #[test]
        fn what_is_remembered_is_what_a_page_left_with(
            frames in 1usize..64,
            steps in prop::collection::vec((any::<bool>(), 0u64..48, 1u32..100), 1..400),
        ) {
            let mut past = PastUses::new(frames);
            let mut model: BTreeMap<u64, u32> = BTreeMap::new();
            let mut holders: BTreeMap<usize, u64> = BTreeMap::new();
            for (leaves, page, uses) in steps {
                let lpa = Lpa::new(page);
                if leaves {
                    past.remember(lpa, uses);
                    model.insert(page, uses);
                    holders.insert(past.place_of(lpa).0, page);
                    continue;
                }
                let holds = holders.get(&past.place_of(lpa).0) == Some(&page);
                let expected = model.remove(&page).unwrap_or(0);
                prop_assert_eq!(past.take(lpa), if holds { expected } else { 0 });
            }
        }
    }
}
