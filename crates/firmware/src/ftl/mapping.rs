//! Which physical page holds which logical page.
//!
//! Behind a trait, because 33 million pages (128 GiB) and more must cost what *changed*, not what
//! exists (D18). [`ImplicitMapping`] is the precondition's formula under tables of what changed;
//! [`ExplicitMapping`] writes every page down and is its reference in tests.

use super::precondition::Precondition;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use units::{BlockAddr, DieId, FlashGeometry, Locator, Lpa, Ppa};

/// A partial bijection between logical and physical pages.
pub trait Mapping {
    /// Where a page is, if it is mapped.
    fn lookup(&self, lpa: Lpa) -> Option<Ppa>;
    /// Whether a page is mapped: what `lookup` says, without the place.
    fn is_mapped(&self, lpa: Lpa) -> bool {
        self.lookup(lpa).is_some()
    }
    /// Which page is mapped there, if one is.
    fn reverse(&self, ppa: Ppa) -> Option<Lpa>;
    /// The first of these physical pages of a block to which a page is mapped, and that page.
    fn next_held(&self, _block: BlockAddr, from: Ppa, end: Ppa) -> Option<(Ppa, Lpa)> {
        let mut places = (from.get()..end.get()).map(Ppa::new);
        places.find_map(|place| Some((place, self.reverse(place)?)))
    }
    /// Whether the page that was mapped there when it was asked for ([`Mapping::reverse`]) still
    /// is. The block has not been erased since, so nothing else can be mapped there.
    fn still_holds(&self, ppa: Ppa, lpa: Lpa) -> bool {
        self.reverse(ppa) == Some(lpa)
    }
    /// The page is mapped there soon. It is a hint.
    #[inline]
    fn foresee(&self, _lpa: Lpa, _ppa: Ppa) {}
    /// Maps a page to a physical page that nothing is mapped to, or to nowhere. Returns where it
    /// was.
    fn update(&mut self, lpa: Lpa, to: Option<Ppa>) -> Option<Ppa>;
    /// Maps a page that is mapped to `from` to another physical page that nothing is mapped to.
    fn relocate(&mut self, lpa: Lpa, from: Ppa, to: Ppa) {
        let before = self.update(lpa, Some(to));
        debug_assert_eq!(before, Some(from), "{lpa} is somewhere else");
    }
    /// Pages of a block that are mapped.
    fn valid_count(&self, block: BlockAddr) -> u32;
}

/// Forward value of a page that is where the formula says.
const BY_FORMULA: u32 = 0;
/// Forward value of a page that is mapped nowhere; all others are physical pages + `FIRST_PLACE`.
const NOWHERE: u32 = 1;
const FIRST_PLACE: u32 = 2;

/// The precondition's formula, except where something has changed since.
///
/// Places are kept of regions that have changed ([`Places`]). The tables by physical page are as
/// long as the device has pages but begin as zeroes, so the memory they take is what the operating
/// system hands out when they are written, in pieces of its pages. At most that is 4 1/16 bytes per
/// logical page and 4 1/8 per physical page.
#[derive(Clone, Debug)]
pub struct ImplicitMapping {
    locator: Locator,
    precondition: Precondition,
    /// By logical page: where it is now.
    places: Places,
    /// By physical page: the logical page that was mapped to it last, + 1; 0 for none since the
    /// start. Whether it still is there, `stale` says.
    holders: Vec<u32>,
    /// By physical page, one bit: what was mapped there, by formula or holder, no longer is.
    stale: Vec<u64>,
    /// By block, one bit: the formula may have pages in it that are valid, so that it is asked.
    by_formula: Vec<u64>,
    valid_counts: Vec<u32>,
    changed_page_count: u64,
}

impl ImplicitMapping {
    /// The mapping of a device in the preconditioned state.
    pub fn new(geometry: FlashGeometry, precondition: Precondition) -> Self {
        assert!(
            geometry.unit_count() < u64::from(u32::MAX - FIRST_PLACE),
            "physical pages have 32-bit numbers"
        );
        let valid_counts = precondition.valid_counts();
        let pages = index(geometry.unit_count());
        Self {
            locator: Locator::new(&geometry),
            places: Places::new(precondition.logical_page_count()),
            holders: vec![0; pages],
            stale: vec![0; pages.div_ceil(64)],
            by_formula: blocks_of(&geometry, &precondition),
            precondition,
            valid_counts,
            changed_page_count: 0,
        }
    }

    /// Maps a page that is mapped nowhere; quicker than [`Mapping::update`].
    ///
    /// # Errors
    /// The page that is mapped there already.
    pub(super) fn fill_in(&mut self, lpa: Lpa, to: Ppa) -> Result<(), Lpa> {
        let at = index(to.get());
        if self.holders[at] != 0 {
            return Err(Lpa::new(u64::from(self.holders[at] - 1)));
        }
        self.holders[at] = key(lpa.get()) + 1;
        self.valid_counts[self.locator.block_of(to).index()] += 1;
        self.places.set(lpa, key(to.get()) + FIRST_PLACE);
        self.changed_page_count += 1;
        Ok(())
    }

    /// Pages that have been programmed or trimmed since the start.
    pub fn changed_page_count(&self) -> u64 {
        self.changed_page_count
    }

    #[inline]
    fn place(&self, lpa: Lpa, value: u32) -> Option<Ppa> {
        match value {
            BY_FORMULA => self.precondition.lookup(lpa),
            NOWHERE => None,
            place => Some(Ppa::new(u64::from(place - FIRST_PLACE))),
        }
    }

    /// Notes that a page is no longer mapped there.
    #[inline(always)]
    fn leave(&mut self, page: Ppa) {
        let at = index(page.get());
        self.stale[at / 64] |= 1 << (at % 64);
        let block = self.locator.block_of(page).index();
        self.valid_counts[block] -= 1;
        if self.valid_counts[block] == 0 {
            self.by_formula[block / 64] &= !(1 << (block % 64));
        }
    }

    /// Notes where a page is from now on; returns what was noted before.
    #[inline(always)]
    fn put(&mut self, lpa: Lpa, to: Option<Ppa>) -> u32 {
        let place = to.map_or(NOWHERE, |page| key(page.get()) + FIRST_PLACE);
        let before = self.places.set(lpa, place);
        self.changed_page_count += u64::from(before == BY_FORMULA);
        before
    }

    /// Notes that a page is mapped there now.
    #[inline(always)]
    fn enter(&mut self, page: Ppa, lpa: Lpa) {
        let at = index(page.get());
        let block = self.locator.block_of(page).index();
        let (stale, bit) = (&mut self.stale[at / 64], 1 << (at % 64));
        let holder = &mut self.holders[at];
        let is_by_formula = || {
            self.by_formula[block / 64] >> (block % 64) & 1 == 1
                && self.precondition.reverse(page).is_some()
        };
        assert!(
            *stale & bit != 0 || *holder == 0 && !is_by_formula(),
            "{page} gets {lpa} while another page is mapped to it"
        );
        *stale &= !bit;
        *holder = key(lpa.get()) + 1;
        self.valid_counts[block] += 1;
    }
}

impl Mapping for ImplicitMapping {
    #[inline]
    fn lookup(&self, lpa: Lpa) -> Option<Ppa> {
        self.place(lpa, self.places.get(lpa))
    }

    #[inline]
    fn is_mapped(&self, lpa: Lpa) -> bool {
        match self.places.get(lpa) {
            BY_FORMULA => lpa.get() < self.precondition.mapped_page_count(),
            place => place != NOWHERE,
        }
    }

    #[inline]
    fn reverse(&self, ppa: Ppa) -> Option<Lpa> {
        let at = index(ppa.get());
        if self.stale[at / 64] >> (at % 64) & 1 == 1 {
            return None;
        }
        match self.holders[at] {
            0 => self.precondition.reverse(ppa),
            holder => Some(Lpa::new(u64::from(holder - 1))),
        }
    }

    #[inline]
    fn still_holds(&self, ppa: Ppa, lpa: Lpa) -> bool {
        // One bit says it, where the other direction would cost the formula.
        let at = index(ppa.get());
        let holds = self.stale[at / 64] >> (at % 64) & 1 == 0;
        debug_assert_eq!(holds, self.reverse(ppa) == Some(lpa), "{ppa} was erased");
        holds
    }

    #[inline]
    fn foresee(&self, lpa: Lpa, ppa: Ppa) {
        self.places.foresee(lpa);
        units::foresee(&self.holders[index(ppa.get())]);
    }

    #[inline]
    fn next_held(&self, block: BlockAddr, from: Ppa, end: Ppa) -> Option<(Ppa, Lpa)> {
        let (mut at, end) = (index(from.get()), index(end.get()));
        let block = block.index();
        let is_by_formula = self.by_formula[block / 64] >> (block % 64) & 1 == 1;
        while at < end {
            // A word of them at a time.
            let left = !self.stale[at / 64] >> (at % 64);
            if left == 0 {
                at = (at / 64 + 1) * 64;
                continue;
            }
            at += left.trailing_zeros() as usize;
            if at >= end {
                break;
            }
            let place = Ppa::new(at as u64);
            let held = match self.holders[at] {
                0 if is_by_formula => self.precondition.reverse(place),
                0 => None,
                holder => Some(Lpa::new(u64::from(holder - 1))),
            };
            if let Some(lpa) = held {
                return Some((place, lpa));
            }
            at += 1;
        }
        None
    }

    fn update(&mut self, lpa: Lpa, to: Option<Ppa>) -> Option<Ppa> {
        let before = self.put(lpa, to);
        let before = self.place(lpa, before);
        if let Some(page) = before {
            self.leave(page);
        }
        if let Some(page) = to {
            self.enter(page, lpa);
        }
        before
    }

    fn relocate(&mut self, lpa: Lpa, from: Ppa, to: Ppa) {
        debug_assert_eq!(self.lookup(lpa), Some(from), "{lpa} is somewhere else");
        self.leave(from);
        self.enter(to, lpa);
        self.put(lpa, Some(to));
    }

    #[inline]
    fn valid_count(&self, block: BlockAddr) -> u32 {
        self.valid_counts[block.index()]
    }
}

/// A bit for each block that the formula may have pages in.
fn blocks_of(geometry: &FlashGeometry, precondition: &Precondition) -> Vec<u64> {
    let mut blocks = vec![0; (geometry.block_count() as usize).div_ceil(64)];
    for die in (0..geometry.die_count()).map(DieId::new) {
        let open = u32::from(precondition.open_pages(die) > 0);
        for nth in 0..precondition.full_blocks() + open {
            let block = geometry.block_on(die, nth).index();
            blocks[block / 64] |= 1 << (block % 64);
        }
    }
    blocks
}

/// Logical pages of a region, whose places fill four lines of the host's caches.
const REGION: usize = 64;

/// Where logical pages are, in regions that are there once something in them has changed. A table
/// of all pages would be spread by random writes: each to a page of memory of its own, which the
/// operating system has to clear first.
#[derive(Clone, Debug)]
struct Places {
    /// By region: its number in `regions`, + 1; 0 if nothing in it has changed.
    numbers: Vec<u32>,
    regions: Vec<[u32; REGION]>,
}

impl Places {
    fn new(pages: u64) -> Self {
        Self {
            numbers: vec![0; index(pages).div_ceil(REGION)],
            regions: Vec::new(),
        }
    }
    #[inline]
    fn get(&self, lpa: Lpa) -> u32 {
        let at = index(lpa.get());
        match self.numbers[at / REGION] {
            0 => BY_FORMULA,
            number => self.regions[number as usize - 1][at % REGION],
        }
    }
    #[inline]
    fn foresee(&self, lpa: Lpa) {
        let at = index(lpa.get());
        if let Some(number) = self.numbers[at / REGION].checked_sub(1) {
            units::foresee(&self.regions[number as usize][at % REGION]);
        }
    }
    /// Returns what was there before.
    #[inline]
    fn set(&mut self, lpa: Lpa, place: u32) -> u32 {
        let at = index(lpa.get());
        let number = match self.numbers[at / REGION] {
            0 => self.add(at / REGION),
            number => number as usize - 1,
        };
        core::mem::replace(&mut self.regions[number][at % REGION], place)
    }
    /// Something changes in a region for the first time: its number.
    #[cold]
    fn add(&mut self, region: usize) -> usize {
        self.regions.push([BY_FORMULA; REGION]);
        self.numbers[region] = key(self.regions.len() as u64);
        self.regions.len() - 1
    }
}

#[inline]
fn key(number: u64) -> u32 {
    u32::try_from(number).expect("page numbers fit in 32 bits")
}

#[inline]
fn index(number: u64) -> usize {
    usize::try_from(number).expect("the tables of a device fit in memory")
}

/// Every mapped page written down, both ways.
#[derive(Clone, Debug)]
pub struct ExplicitMapping {
    geometry: FlashGeometry,
    forward: BTreeMap<Lpa, Ppa>,
    backward: BTreeMap<Ppa, Lpa>,
}

impl ExplicitMapping {
    /// The mapping of a device in the preconditioned state.
    pub fn new(geometry: FlashGeometry, precondition: &Precondition) -> Self {
        let forward: BTreeMap<Lpa, Ppa> = (0..precondition.mapped_page_count())
            .filter_map(|page| Some((Lpa::new(page), precondition.lookup(Lpa::new(page))?)))
            .collect();
        let backward = forward.iter().map(|(lpa, ppa)| (*ppa, *lpa)).collect();
        Self {
            geometry,
            forward,
            backward,
        }
    }
}

impl Mapping for ExplicitMapping {
    fn lookup(&self, lpa: Lpa) -> Option<Ppa> {
        self.forward.get(&lpa).copied()
    }
    fn reverse(&self, ppa: Ppa) -> Option<Lpa> {
        self.backward.get(&ppa).copied()
    }
    fn update(&mut self, lpa: Lpa, to: Option<Ppa>) -> Option<Ppa> {
        let before = self.forward.remove(&lpa);
        if let Some(page) = before {
            self.backward.remove(&page);
        }
        if let Some(page) = to {
            self.forward.insert(lpa, page);
            let earlier = self.backward.insert(page, lpa);
            assert!(
                earlier.is_none(),
                "{page} gets {lpa} while another page is mapped to it"
            );
        }
        before
    }
    fn valid_count(&self, block: BlockAddr) -> u32 {
        let (first, after) = (
            self.geometry.unit_on(block, 0),
            self.geometry.unit_on(block, self.geometry.units_per_block),
        );
        self.backward.range(first..after).count() as u32
    }
}

#[cfg(test)]
mod tests;
