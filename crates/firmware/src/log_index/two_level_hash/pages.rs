//! The first level: a hash table of pages, laid out so that a lookup has no branch that a processor
//! could guess wrong.
//!
//! A bucket is one cache line: up to seven pages, the tables of all of them, and how many pages
//! passed it by on their way to a bucket further on because it was full. A lookup compares all
//! pages of a bucket at once. It goes on only where a page passed by: one bucket in twenty at the
//! mean load, and never further than once around, for pages that passed by may stay when those that
//! they passed have left. Where too many have, the table is made anew.
//!
//! Sources: SkyByte §III-B (16 B a page); N. Bronson, X. Shi, "Open-sourcing F14", 2019 (buckets
//! that count what passed them by, so that a page leaves without moving others).

use super::tables::Table;
use alloc::vec;
use alloc::vec::Vec;
use units::Lpa;

/// Pages of a bucket.
const WIDTH: usize = 7;
/// What stands where no page is. A device has fewer than 2^32 - 1 pages.
pub(super) const NO_PAGE: u32 = u32::MAX;
/// A page that no device has.
const BEYOND: u32 = u32::MAX - 1;
/// The table doubles when it would be fuller than this many eighths.
const FULLEST_EIGHTHS: usize = 6;

/// A cache line of pages and their tables. The last number of each is not a page: it is what makes
/// eight, and in `tables` counts the pages that passed by.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    pages: [u32; WIDTH + 1],
    tables: [u32; WIDTH + 1],
}

impl Bucket {
    const EMPTY: Self = Self {
        pages: [NO_PAGE; WIDTH + 1],
        tables: [0; WIDTH + 1],
    };

    /// The code of a page's table, 0 if the page is not here.
    #[inline(always)]
    fn table(&self, page: u32) -> u32 {
        let own = self.pages.iter().zip(&self.tables);
        // Masks: a compiler makes branches of an `if`.
        let found = own.map(|(own, table)| table & u32::from(*own == page).wrapping_neg());
        found.fold(0, |all, table| all | table)
    }

    #[inline]
    fn passed(&mut self) -> &mut u32 {
        &mut self.tables[WIDTH]
    }

    /// Where a page is, or with [`NO_PAGE`] where there is room.
    #[inline]
    fn place(&self, page: u32) -> Option<usize> {
        self.pages[..WIDTH].iter().position(|own| *own == page)
    }
}

/// The pages of a half, each with its table and its number in the order of first logging.
#[derive(Clone)]
pub(super) struct Pages {
    /// A power of two of them.
    buckets: Vec<Bucket>,
    /// By bucket and place in it.
    positions: Vec<[u32; WIDTH]>,
    count: usize,
    /// Buckets that its pages passed by, all together.
    passes: usize,
    /// Pages that have left since the table was made.
    left: usize,
}

impl Pages {
    pub(super) fn new() -> Self {
        Self::of_buckets(2)
    }

    fn of_buckets(buckets: usize) -> Self {
        Self {
            buckets: vec![Bucket::EMPTY; buckets],
            positions: vec![[0; WIDTH]; buckets],
            count: 0,
            passes: 0,
            left: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes that it holds.
    pub(super) fn held(&self) -> u64 {
        (size_of_val(&*self.buckets) + size_of_val(&*self.positions)) as u64
    }

    /// The bucket where the way of a page begins (Fibonacci hashing).
    #[inline]
    fn home(&self, page: u32) -> usize {
        let mixed = u64::from(page).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 32) as usize) & (self.buckets.len() - 1)
    }

    #[inline]
    fn key(lpa: Lpa) -> u32 {
        u32::try_from(lpa.get()).unwrap_or(BEYOND).min(BEYOND)
    }

    /// Somebody looks the page up soon.
    #[inline]
    pub(super) fn foresee(&self, lpa: Lpa) {
        units::foresee(&self.buckets[self.home(Self::key(lpa))]);
    }

    /// The table of a page, if the page is there.
    #[inline]
    pub(super) fn find(&self, lpa: Lpa) -> Option<Table> {
        Table::from_code(self.look_up(lpa))
    }

    /// The code of a page's table, 0 if the page is not there.
    #[inline(always)]
    pub(super) fn look_up(&self, lpa: Lpa) -> u32 {
        let page = Self::key(lpa);
        let mut at = self.home(page);
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            let table = bucket.table(page);
            // In this order: nearly always true, while the other depends on the page.
            if bucket.tables[WIDTH] == 0 || table != 0 {
                return table;
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
        0
    }

    /// Bucket and place of a page that is there, which ends the search.
    fn seek(&self, lpa: Lpa) -> (usize, usize) {
        let page = Self::key(lpa);
        let mut at = self.home(page);
        loop {
            if let Some(place) = self.buckets[at].place(page) {
                return (at, place);
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }

    /// Gives a page that is there another table.
    pub(super) fn set_table(&mut self, lpa: Lpa, table: Table) {
        let (bucket, place) = self.seek(lpa);
        self.buckets[bucket].tables[place] = table.code();
    }

    /// Puts a page that is not there into the table; returns its number.
    pub(super) fn insert(&mut self, lpa: Lpa, table: Table, position: u32) -> u32 {
        let buckets = self.buckets.len();
        if (self.count + 1) * 8 > buckets * WIDTH * FULLEST_EIGHTHS {
            self.make_anew(2 * buckets);
        } else if self.passes > buckets && self.left > buckets {
            // So many have left since that this costs each of them no more than its coming did.
            self.make_anew(buckets);
        }
        let page = Self::key(lpa);
        assert!(page < BEYOND, "a device has fewer than 2^32 - 1 pages");
        self.put(page, table.code(), position);
        page
    }

    fn put(&mut self, page: u32, table: u32, position: u32) {
        let mut at = self.home(page);
        let place = loop {
            match self.buckets[at].place(NO_PAGE) {
                Some(place) => break place,
                None => *self.buckets[at].passed() += 1,
            }
            self.passes += 1;
            at = (at + 1) & (self.buckets.len() - 1);
        };
        let bucket = &mut self.buckets[at];
        (bucket.pages[place], bucket.tables[place]) = (page, table);
        self.positions[at][place] = position;
        self.count += 1;
    }

    fn make_anew(&mut self, buckets: usize) {
        let mut new = Self::of_buckets(buckets);
        for (bucket, positions) in self.buckets.iter().zip(&self.positions) {
            let pages = bucket.pages.iter().zip(&bucket.tables).zip(positions);
            for ((page, table), position) in pages.filter(|((page, _), _)| **page != NO_PAGE) {
                new.put(*page, *table, *position);
            }
        }
        *self = new;
    }

    /// Takes a page out; its table and position, if it was there.
    pub(super) fn remove(&mut self, lpa: Lpa) -> Option<(Table, u32)> {
        let table = self.find(lpa)?;
        let (end, place) = self.seek(lpa);
        self.buckets[end].pages[place] = NO_PAGE;
        self.buckets[end].tables[place] = 0;
        let mut at = self.home(Self::key(lpa));
        while at != end {
            *self.buckets[at].passed() -= 1;
            self.passes -= 1;
            at = (at + 1) & (self.buckets.len() - 1);
        }
        self.count -= 1;
        self.left += 1;
        Some((table, self.positions[end][place]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    /// Pages whose way begins at a bucket.
    fn of_bucket(pages: &Pages, bucket: usize) -> impl Iterator<Item = Lpa> {
        let of_bucket = (0..100_000u32).filter(move |page| pages.home(*page) == bucket);
        of_bucket.map(|page| Lpa::new(u64::from(page)))
    }

    #[test]
    fn pages_of_a_full_bucket_are_found_further_on_and_leave_no_trace() {
        let mut pages = Pages::new();
        let crowd: Vec<Lpa> = of_bucket(&pages, 1).take(10).collect();
        for (nth, lpa) in crowd.iter().enumerate() {
            pages.insert(*lpa, Table::new(nth as u32, 2), nth as u32);
        }
        assert_eq!(pages.buckets.len(), 2, "the crowd is in the smallest table");
        assert_eq!(pages.buckets[1].tables[WIDTH], 3, "three passed by");
        for (nth, lpa) in crowd.iter().enumerate() {
            assert_eq!(pages.find(*lpa), Some(Table::new(nth as u32, 2)));
        }
        // The first leaves its bucket, those that passed it by are still found.
        for (nth, lpa) in crowd.iter().enumerate() {
            let removed = pages.remove(*lpa);
            assert_eq!(removed, Some((Table::new(nth as u32, 2), nth as u32)));
            assert_eq!(pages.find(*lpa), None);
            let left = crowd[nth + 1..].iter();
            assert!(left.clone().all(|lpa| pages.find(*lpa).is_some()));
        }
        let is_empty = |bucket: &Bucket| bucket.tables[WIDTH] == 0 && bucket.place(0).is_none();
        assert!(pages.buckets.iter().all(is_empty));
    }

    #[test]
    fn a_search_ends_where_pages_have_passed_every_bucket() {
        let mut pages = Pages::new();
        for bucket in [0, 1] {
            // The last of them passes its bucket, the others leave.
            let crowd: Vec<Lpa> = of_bucket(&pages, bucket).take(WIDTH + 1).collect();
            for lpa in &crowd {
                pages.insert(*lpa, Table::new(1, 2), 1);
            }
            for lpa in &crowd[..WIDTH] {
                assert!(pages.remove(*lpa).is_some());
            }
        }
        assert_eq!(pages.find(Lpa::new(4000)), None);
        assert_eq!(pages.count(), 2);
    }

    #[test]
    fn what_has_left_does_not_make_searches_long() {
        let mut pages = Pages::of_buckets(64);
        let mut kept = Vec::new();
        for round in 0..4 {
            for bucket in 0..64 {
                let mut crowd: Vec<Lpa> = of_bucket(&pages, bucket)
                    .skip(round * (WIDTH + 1))
                    .take(WIDTH + 1)
                    .collect();
                for lpa in &crowd {
                    pages.insert(*lpa, Table::new(1, 2), 1);
                }
                // The one that passed its bucket stays.
                kept.extend(crowd.pop());
                assert!(crowd.iter().all(|lpa| pages.remove(*lpa).is_some()));
                assert!(pages.passes <= 2 * pages.buckets.len());
            }
        }
        assert_eq!(pages.buckets.len(), 64, "as many as there were");
        assert!(kept.iter().all(|lpa| pages.find(*lpa).is_some()));
        assert_eq!(pages.count(), kept.len());
    }

    #[test]
    fn a_table_that_grows_keeps_its_pages() {
        let (mut pages, mut model) = (Pages::new(), BTreeMap::new());
        let mut random = units::Stream::new(1, "two_level_hash/pages");
        for nth in 0..20_000u32 {
            let lpa = Lpa::new(random.below(8000));
            match model.remove(&lpa) {
                Some(known) if nth % 3 == 0 => assert_eq!(pages.remove(lpa), Some(known)),
                Some((_, position)) => {
                    let table = Table::new(nth, 3);
                    pages.set_table(lpa, table);
                    model.insert(lpa, (table, position));
                }
                None => {
                    assert_eq!(pages.remove(lpa), None);
                    pages.insert(lpa, Table::new(nth, 2), nth);
                    model.insert(lpa, (Table::new(nth, 2), nth));
                }
            }
        }
        assert_eq!(pages.count(), model.len());
        for lpa in (0..8000).map(Lpa::new) {
            assert_eq!(pages.find(lpa), model.get(&lpa).map(|known| known.0));
        }
    }

    #[test]
    fn a_page_that_no_device_has_is_not_there() {
        assert_eq!(Pages::new().find(Lpa::new(u64::from(NO_PAGE))), None);
        assert_eq!(Pages::new().find(Lpa::new(1 << 40)), None);
    }
}
