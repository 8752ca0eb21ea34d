//! What GC still has to do until the host has all the room back that it has written into.

use super::super::allocator::WRITTEN_BLOCKS;
use super::super::config::GcKind;
use super::super::mapping::Mapping;
use super::super::operation::Operation;
use super::{Candidate, Ftl, GcPolicy, Greedy};
use alloc::vec::Vec;
use units::DieId;

/// Work of GC that is begun, and that will have to be done for what has been written.
///
/// Both are counted in units, so that the last block that GC empties counts for as much as is
/// wanted of it: `erased - moved` is the room that is lacking, if there is so much to be gained.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct GcOwed {
    /// Places that are written with units that stay valid.
    pub(crate) moved: u64,
    /// Places that are erased.
    pub(crate) erased: u64,
}

impl GcOwed {
    /// Takes as much as is lacking of a block; returns what is lacking still.
    fn collect(&mut self, valid_places: u32, places: u32, lacking: u32) -> u32 {
        let gain = places - valid_places;
        let wanted = lacking.min(gain);
        let of_block = u64::from(places) * u64::from(wanted);
        let erased = of_block.div_ceil(u64::from(gain.max(1)));
        self.erased += erased;
        self.moved += erased - u64::from(wanted);
        lacking - wanted
    }
}

impl<M: Mapping> Ftl<M> {
    /// What GC would do until each die has the most room that it ever has at rest, if the host
    /// wrote nothing more. Programs in flight may change its choice of victims. Looks at every
    /// block of the dies that lack room.
    pub(crate) fn gc_owed(&self) -> GcOwed {
        let mut owed = GcOwed::default();
        for die in (0..self.geometry.die_count()).map(DieId::new) {
            self.add_gc_owed(die, &mut owed);
        }
        owed
    }

    /// Units that a die takes when GC has just come to rest and nothing is written into the blocks
    /// that it opens next.
    fn most_room(&self) -> u32 {
        let blocks = match self.config.gc {
            GcKind::Incremental => self.config.gc_start_blocks,
            GcKind::Bulk => {
                let (all, dies) = (self.geometry.block_count(), self.geometry.die_count());
                let free = self.config.gc_threshold.rest().of(all.into()) as u32;
                free.div_ceil(dies) + self.config.gc_bulk_blocks.div_ceil(dies)
            }
        };
        (blocks + WRITTEN_BLOCKS) * self.geometry.units_per_block
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
        // What is being programmed is still valid in the victim, and has its place.
        let room = self.allocator.room(die) + self.gc_places_in_flight(die);
        let mut lacking = self.most_room().saturating_sub(room);
        if lacking == 0 {
            return;
        }
        let places = self.geometry.units_per_block;
        let valid_places = |valid: u32| valid.next_multiple_of(self.geometry.units_per_page);
        if let Some(victim) = self.gc.collectors[die.index()].victim {
            let valid = self.mapping.valid_count(victim.block);
            lacking = owed.collect(valid_places(valid), places, lacking);
        }
        let mut candidates: Vec<Candidate> = self.candidates_at_rest(die).collect();
        while lacking > 0 {
            let Some(next) = Greedy.choose(candidates.iter().copied()) else {
                return;
            };
            candidates.retain(|candidate| candidate.block != next.block);
            lacking = owed.collect(valid_places(next.valid), places, lacking);
        }
    }
}
