//! Moves of promoted pages between the host DRAM of nodes, by the operating system (SkyByte §IV).
//!
//! The page is locked on its way, as any that the operating system migrates: accesses wait. It is
//! in no list meanwhile, so nobody reclaims it.

use super::free::FreePages;
use super::{Entry, HostPage, Location, Placement};
use crate::numa::NodeId;
use units::Lpa;

/// A page on its way from node to node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Move {
    pub lpa: Lpa,
    pub from: HostPage,
    pub to: HostPage,
    is_dirty: bool,
}

impl Placement {
    /// The same, its host pages split over nodes. Pages in sets stay on one node.
    ///
    /// # Panics
    /// If a page has been promoted before.
    #[must_use]
    pub fn on_nodes(mut self, nodes: u32, home: NodeId) -> Self {
        assert!(self.lists.is_empty(), "no page has been promoted");
        if matches!(self.free, FreePages::Any { .. }) {
            let count = self.lists.capacity() as u32;
            self.free = FreePages::on_nodes(count, nodes, home);
        }
        self
    }

    /// Whether the operating system moves pages, which are locked on their way.
    pub fn is_locking(&self) -> bool {
        self.is_locking
    }

    /// Begins to move a page to another node: gives the page of host DRAM there. Nothing happens if
    /// the page is not in host DRAM or is on the node already, or if no page is free there.
    pub fn begin_move(&mut self, lpa: Lpa, node: NodeId) -> Option<HostPage> {
        let Location::Host(from) = self.locate_whole(lpa) else {
            return None;
        };
        if self.free.node_of(from) == node {
            return None;
        }
        let Some(to) = self.free.take_on(node) else {
            self.stats.moves_refused += 1;
            return None;
        };
        let is_dirty = self.lists.is_dirty(from);
        self.lists.remove(from);
        self.moves.push(Move {
            lpa,
            from,
            to,
            is_dirty,
        });
        self.set(lpa, Entry::MOVING);
        Some(to)
    }

    /// From where to where a page moves between nodes, if it does.
    #[inline]
    pub fn moving(&self, lpa: Lpa) -> Option<(HostPage, HostPage)> {
        let found = self.moves.iter().find(|page| page.lpa == lpa)?;
        Some((found.from, found.to))
    }

    /// The page table says the new node from now on, all lines being copied; the page of host DRAM
    /// that held it is free.
    ///
    /// # Panics
    /// If the page is on no such move.
    pub fn finish_move(&mut self, lpa: Lpa) {
        let place = self.moves.iter().position(|page| page.lpa == lpa);
        let moved = self
            .moves
            .remove(place.expect("a move that ends was begun"));
        self.set(lpa, Entry::host(moved.to));
        self.lists.insert(moved.to, lpa);
        if moved.is_dirty {
            self.lists.set_dirty(moved.to);
        }
        self.free.give_back(moved.from);
        self.stats.moves += 1;
    }
}

/// Which node last ran into a hint fault on each page.
#[derive(Clone, Debug)]
pub struct Balancer {
    /// By page; `NOBODY` before the first.
    last: Vec<u8>,
}

const NOBODY: u8 = u8::MAX;

impl Balancer {
    /// No page has faulted.
    pub fn new(page_count: u64) -> Self {
        Self {
            last: vec![NOBODY; page_count as usize],
        }
    }

    /// A hint fault of a core of `node`. Says whether it is the second in a row from there, so that
    /// the page belongs there: one alone may be by chance.
    pub fn on_fault(&mut self, lpa: Lpa, node: NodeId) -> bool {
        let node = node.get() as u8;
        std::mem::replace(&mut self.last[lpa.get() as usize], node) == node
    }
}

#[cfg(test)]
mod tests;
