//! What GC still has to do before it rests.

use super::super::config::GcKind;
use super::super::mapping::Mapping;
use super::super::operation::Operation;
use super::{Candidate, Ftl, GcPolicy, Greedy};
use alloc::vec::Vec;
use units::DieId;

/// Work of GC that is begun, and that will begin as things stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GcOwed {
    /// Units that are to be moved.
    pub moves: u64,
    /// Blocks that are to be erased.
    pub erases: u64,
}

/// The blocks of a die while GC goes on in thought.
struct Ahead {
    free: usize,
    /// Units that the block of GC still takes.
    room: u32,
    units_per_block: u32,
    units_per_page: u32,
}

impl Ahead {
    /// Collects a block with so many valid units.
    fn collect(&mut self, valid: u32, owed: &mut GcOwed) {
        let places = valid.next_multiple_of(self.units_per_page);
        if places > self.room {
            self.free = self.free.saturating_sub(1);
            self.room += self.units_per_block;
        }
        self.room -= places;
        self.free += 1;
        owed.moves += u64::from(valid);
        owed.erases += 1;
    }
}

impl<M: Mapping> Ftl<M> {
    /// What GC does until it rests, if the host wrote nothing more. Programs in flight may change
    /// its choice of victims. Looks at every block of the dies that collect or will.
    pub(crate) fn gc_owed(&self) -> GcOwed {
        let mut owed = GcOwed::default();
        for die in (0..self.geometry.die_count()).map(DieId::new) {
            self.add_gc_owed(die, &mut owed);
        }
        owed
    }

    /// Units of the pages on the die that GC is programming.
    fn gc_places_in_flight(&self, die: DieId) -> u32 {
        let is_of_gc = |operation: &&Operation| match operation {
            Operation::GcProgram { ppa, .. } | Operation::GcPage { ppa, .. } => {
                self.geometry.die_of_unit(*ppa) == die
            }
            _ => false,
        };
        let pages = self.operations.iter().filter(is_of_gc).count() as u32;
        pages * self.geometry.units_per_page
    }

    fn add_gc_owed(&self, die: DieId, owed: &mut GcOwed) {
        let victim = self.gc.collectors[die.index()].victim;
        if victim.is_none() && !self.wants_gc(die) {
            return;
        }
        let mut ahead = Ahead {
            free: self.allocator.free_blocks(die),
            // What is being programmed is still valid in the victim, and has its place.
            room: self.allocator.gc_room(die) + self.gc_places_in_flight(die),
            units_per_block: self.geometry.units_per_block,
            units_per_page: self.geometry.units_per_page,
        };
        let mut quota = self.gc.collectors[die.index()].quota;
        if let Some(victim) = victim {
            ahead.collect(self.mapping.valid_count(victim.block), owed);
            quota = quota.saturating_sub(1);
        }
        let mut candidates: Vec<Candidate> = self.candidates(die).collect();
        loop {
            let goes_on = match self.config.gc {
                GcKind::Incremental => ahead.free < self.config.gc_start_blocks as usize,
                GcKind::Bulk => quota > 0 || ahead.free <= self.config.reserve_blocks as usize,
            };
            let next = Greedy.choose(candidates.iter().copied());
            let Some(next) = next.filter(|_| goes_on) else {
                return;
            };
            candidates.retain(|candidate| candidate.block != next.block);
            ahead.collect(next.valid, owed);
            quota = quota.saturating_sub(1);
        }
    }
}
