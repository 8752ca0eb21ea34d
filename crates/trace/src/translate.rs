//! From virtual addresses to canonical ones.

use crate::container::VirtualPage;

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
        Self { regions, maps }
    }

    #[cold]
    fn search(&self, page: u64) -> Option<u64> {
        let map = &self.maps[self.regions.binary_search(&(page / REGION)).ok()?];
        let (word, bit) = place(page);
        let listed = map.listed[word];
        let before = map.before[word] + u64::from((listed & (bit - 1)).count_ones());
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
}

impl Translator {
    pub(crate) fn new() -> Self {
        Self {
            cache: Box::new([(0, 0); ENTRIES]),
        }
    }
    /// The canonical address of `addr`; `None` if its page is not in the list.
    #[inline]
    pub(crate) fn translate(&mut self, pages: &PageIndex, addr: u64) -> Option<u64> {
        let page = addr >> 12;
        let entry = &mut self.cache[page as usize % ENTRIES];
        if entry.0 != page + 1 {
            *entry = (page + 1, pages.search(page)?);
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
        let mut translator = Translator::new();
        for turn in 0..3_u64 {
            for n in 0..600 {
                let addr = ((7 + n * 3) << 12) + turn;
                assert_eq!(translator.translate(&pages, addr), Some((n << 12) + turn));
            }
        }
        assert_eq!(translator.translate(&pages, 8 << 12), None);
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
