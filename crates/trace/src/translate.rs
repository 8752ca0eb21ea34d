//! From virtual addresses to canonical ones.

use crate::container::VirtualPage;
use std::sync::Arc;

/// Entries of the cache of translations.
const ENTRIES: usize = 256;

/// Pages of a region, which has a bit for each.
const REGION: u64 = 512;
const WORDS: usize = REGION as usize / 64;

/// Which pages are listed before a page of the list: a search among regions and a count of bits, in
/// place of a search among pages, which takes a miss of the host's caches at each of its steps. One
/// process per capture: the address space is the list's first.
pub(crate) struct PageIndex {
    /// Numbers of the regions with a listed page, ascending.
    regions: Vec<u64>,
    maps: Vec<Region>,
    /// Whether every page of such a region counts as listed.
    is_whole: bool,
    page_count: u64,
}

#[derive(Clone, Copy)]
struct Region {
    listed: [u64; WORDS],
    /// Pages listed before those of each word.
    before: [u64; WORDS],
}

impl PageIndex {
    /// `pages` is in ascending order.
    pub(crate) fn new(pages: &[VirtualPage]) -> Self {
        let (mut regions, mut maps) = (Vec::new(), Vec::new());
        let space = pages.first().map(|first| first.space);
        let of_space = pages.iter().take_while(|page| Some(page.space) == space);
        for (number, VirtualPage { page, .. }) in (0..).zip(of_space) {
            if regions.last() != Some(&(page / REGION)) {
                regions.push(page / REGION);
                maps.push(Region {
                    listed: [0; WORDS],
                    before: [number; WORDS],
                });
            }
            let Some(map) = maps.last_mut() else { continue };
            let (word, bit) = place(*page);
            map.listed[word] |= bit;
            map.before[word + 1..].fill(number + 1);
        }
        Self {
            regions,
            maps,
            is_whole: false,
            page_count: pages.len() as u64,
        }
    }

    /// The same, as if every page of a region were listed of which one is.
    pub(crate) fn whole(pages: &[VirtualPage]) -> Self {
        let mut index = Self::new(pages);
        for (first, map) in (0..).step_by(REGION as usize).zip(&mut index.maps) {
            for (before, word) in map.before.iter_mut().zip((first..).step_by(64)) {
                *before = word;
            }
        }
        index.is_whole = true;
        index.page_count = index.regions.len() as u64 * REGION;
        index
    }

    /// Pages that are listed.
    pub(crate) fn page_count(&self) -> u64 {
        self.page_count
    }

    /// The virtual number of each page that is listed. `pages` are those it was made of.
    pub(crate) fn page_numbers(&self, pages: &[VirtualPage]) -> Vec<u64> {
        if self.is_whole {
            let first = self.regions.iter().map(|region| region * REGION);
            return first.flat_map(|page| page..page + REGION).collect();
        }
        pages.iter().map(|page| page.page).collect()
    }

    #[cold]
    fn search(&self, page: u64) -> Option<u64> {
        let map = &self.maps[self.regions.binary_search(&(page / REGION)).ok()?];
        let (word, bit) = place(page);
        let listed = map.listed[word];
        let counted = if self.is_whole { u64::MAX } else { listed };
        let before = map.before[word] + u64::from((counted & (bit - 1)).count_ones());
        (listed & bit != 0).then_some(before)
    }
}

/// Word and bit of a page in its region.
fn place(page: u64) -> (usize, u64) {
    ((page % REGION / 64) as usize, 1 << (page % 64))
}

/// Translates with a direct-mapped cache before the index.
#[derive(Clone)]
pub(crate) struct Translator {
    /// Virtual page + 1 (0: empty), canonical page.
    cache: Box<[(u64, u64); ENTRIES]>,
    pages: Arc<PageIndex>,
    /// The canonical number of the list's first page.
    first: u64,
}

impl Translator {
    pub(crate) fn new(pages: Arc<PageIndex>) -> Self {
        Self {
            pages,
            cache: Box::new([(0, 0); ENTRIES]),
            first: 0,
        }
    }
    /// Canonical pages begin so many further. Nothing has been translated yet.
    pub(crate) fn place_behind(&mut self, pages: u64) {
        self.first = pages;
    }
    /// The canonical address of `addr`; `None` if its page is not in the list.
    #[inline]
    pub(crate) fn translate(&mut self, addr: u64) -> Option<u64> {
        let page = addr >> 12;
        let entry = &mut self.cache[page as usize % ENTRIES];
        if entry.0 != page + 1 {
            *entry = (page + 1, self.first + self.pages.search(page)?);
        }
        Some(entry.1 << 12 | addr & 0xfff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_cache_gives_what_the_list_gives() {
        let page = |n: u64| VirtualPage {
            space: 0,
            page: 7 + n * 3,
        };
        let pages = PageIndex::new(&(0..600).map(page).collect::<Vec<_>>());
        let mut translator = Translator::new(Arc::new(pages));
        for turn in 0..3_u64 {
            for n in 0..600 {
                let addr = ((7 + n * 3) << 12) + turn;
                assert_eq!(translator.translate(addr), Some((n << 12) + turn));
            }
        }
        assert_eq!(translator.translate(8 << 12), None);
    }

    #[test]
    fn whole_regions_follow_one_another_with_each_page_at_its_place() {
        let pages = [1, 511, 512, 2_048, 2_700].map(|page| VirtualPage { space: 3, page });
        let index = PageIndex::whole(&pages);
        let places = pages.map(|page| index.search(page.page));
        assert_eq!(places, [1, 511, 512, 1_024, 1_536 + 140].map(Some));
        assert_eq!(index.page_count(), 4 * 512);
        let numbers = index.page_numbers(&pages);
        assert_eq!(numbers.len(), 4 * 512);
        for page in pages {
            let place = index.search(page.page).unwrap();
            assert_eq!(numbers[place as usize], page.page);
        }
        assert_eq!(PageIndex::new(&pages).page_numbers(&pages)[2], 512);
        // Only what was touched is ever asked for.
        assert_eq!(index.search(2), None);
        assert_eq!(PageIndex::whole(&[]).page_count(), 0);
    }

    proptest! {
        #[test]
        fn the_index_gives_the_place_in_the_list(
            listed in prop::collection::btree_set((3_u32..5, 0_u64..3_000), 0..400),
        ) {
            let pages: Vec<_> =
                listed.into_iter().map(|(space, page)| VirtualPage { space, page }).collect();
            let index = PageIndex::new(&pages);
            let space = pages.first().map_or(3, |first| first.space);
            for page in 0..3_001 {
                let place = pages.binary_search(&VirtualPage { space, page });
                prop_assert_eq!(index.search(page), place.ok().map(|at| at as u64));
            }
        }
    }
}
