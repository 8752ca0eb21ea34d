//! Pages that have left lately, by set: names without frames.
//!
//! Each set has a ring of its own, so what a set remembers is measured in its own evictions, a busy
//! set cannot push out the memory of a quiet one, and asking costs one host cache line. A name is
//! remembered for as many pushes as the ring has places. The names are exact: 32 bits hold any
//! page.

use super::policy::{PageTag, Shape};
use alloc::vec;
use alloc::vec::Vec;

/// The rings.
#[derive(Clone)]
pub(super) struct Ghosts {
    /// By set and place; 0 = empty.
    tags: Vec<PageTag>,
    /// By set: the place that is overwritten next, which holds the oldest name.
    next: Vec<u8>,
    capacity: usize,
}

impl Ghosts {
    /// Rings of `capacity` names for each set.
    pub(super) fn new(shape: Shape, capacity: u32) -> Self {
        let sets = shape.set_count as usize;
        Self {
            tags: vec![0; sets * capacity as usize],
            next: vec![0; sets],
            capacity: capacity as usize,
        }
    }

    /// Remembers a page that has left; the set's oldest name is forgotten if the ring is full.
    pub(super) fn push(&mut self, set: usize, tag: PageTag) {
        let next = usize::from(self.next[set]);
        self.tags[set * self.capacity + next] = tag;
        self.next[set] = ((next + 1) % self.capacity) as u8;
    }

    /// Forgets a page; says whether it was remembered.
    pub(super) fn take(&mut self, set: usize, tag: PageTag) -> bool {
        let ring = &mut self.tags[set * self.capacity..(set + 1) * self.capacity];
        let found = ring.iter_mut().find(|ghost| **ghost == tag);
        found.map(|ghost| *ghost = 0).is_some()
    }
}
