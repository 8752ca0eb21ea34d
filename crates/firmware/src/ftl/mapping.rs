//! Which physical page holds which logical page.
//!
//! Behind a trait, because 33 million pages (128 GiB) and more must cost what *changed*, not what
//! exists (D18). [`ImplicitMapping`] is the precondition's formula under a sparse overlay;
//! [`ExplicitMapping`] writes every page down and is its reference in tests.

use super::precondition::Precondition;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use units::{BlockAddr, FlashGeometry, Lpa, Ppa};

/// A partial bijection between logical and physical pages.
pub trait Mapping {
    /// Where a page is, if it is mapped.
    fn lookup(&self, lpa: Lpa) -> Option<Ppa>;
    /// Which page is mapped there, if one is.
    fn reverse(&self, ppa: Ppa) -> Option<Lpa>;
    /// Maps a page to a physical page that nothing is mapped to, or to nowhere. Returns where it
    /// was.
    fn update(&mut self, lpa: Lpa, to: Option<Ppa>) -> Option<Ppa>;
    /// Pages of a block that are mapped.
    fn valid_count(&self, block: BlockAddr) -> u32;
}

type Overlay = HashMap<u32, u32, FxBuildHasher>;

/// Overlay value of a page that is mapped nowhere; no physical page has this number.
const NOWHERE: u32 = u32::MAX;

/// The precondition's formula, except where something has changed since. Memory grows with the
/// pages changed (at most 80 bytes each) and the blocks (2 bytes each).
#[derive(Clone, Debug)]
pub struct ImplicitMapping {
    geometry: FlashGeometry,
    precondition: Precondition,
    /// Every page that has been programmed or trimmed: where it is now.
    moved: Overlay,
    /// Inverse of `moved`: valid pages only, so that an erase has nothing to remove.
    holders: Overlay,
    valid_counts: Vec<u16>,
}

impl ImplicitMapping {
    /// The mapping of a device in the preconditioned state.
    pub fn new(geometry: FlashGeometry, precondition: Precondition) -> Self {
        assert!(
            geometry.page_count() < u64::from(NOWHERE),
            "physical pages have 32-bit numbers"
        );
        let valid_counts = (0..geometry.block_count())
            .map(|block| precondition.valid_count(BlockAddr::new(block)))
            .map(|count| u16::try_from(count).expect("a block has fewer than 65,536 pages"))
            .collect();
        Self {
            geometry,
            precondition,
            moved: Overlay::with_hasher(FxBuildHasher),
            holders: Overlay::with_hasher(FxBuildHasher),
            valid_counts,
        }
    }

    /// Pages whose place differs from the precondition.
    pub fn changed_page_count(&self) -> usize {
        self.moved.len()
    }
}

impl Mapping for ImplicitMapping {
    fn lookup(&self, lpa: Lpa) -> Option<Ppa> {
        match self.moved.get(&key(lpa.get())) {
            Some(&NOWHERE) => None,
            Some(&page) => Some(Ppa::new(u64::from(page))),
            None => self.precondition.lookup(lpa),
        }
    }

    fn reverse(&self, ppa: Ppa) -> Option<Lpa> {
        if let Some(&lpa) = self.holders.get(&key(ppa.get())) {
            return Some(Lpa::new(u64::from(lpa)));
        }
        self.precondition
            .reverse(ppa)
            .filter(|lpa| !self.moved.contains_key(&key(lpa.get())))
    }

    fn update(&mut self, lpa: Lpa, to: Option<Ppa>) -> Option<Ppa> {
        let before = self.lookup(lpa);
        if let Some(page) = before {
            self.holders.remove(&key(page.get()));
            self.valid_counts[self.geometry.block_of(page).index()] -= 1;
        }
        if let Some(page) = to {
            let earlier = self.holders.insert(key(page.get()), key(lpa.get()));
            assert!(
                earlier.is_none(),
                "{page} gets {lpa} while another page is mapped to it"
            );
            self.valid_counts[self.geometry.block_of(page).index()] += 1;
        }
        self.moved
            .insert(key(lpa.get()), to.map_or(NOWHERE, |page| key(page.get())));
        before
    }

    fn valid_count(&self, block: BlockAddr) -> u32 {
        u32::from(self.valid_counts[block.index()])
    }
}

fn key(number: u64) -> u32 {
    u32::try_from(number).expect("page numbers fit in 32 bits")
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
            self.geometry.page_on(block, 0),
            self.geometry.page_on(block, self.geometry.pages_per_block),
        );
        self.backward.range(first..after).count() as u32
    }
}

#[cfg(test)]
mod tests;
