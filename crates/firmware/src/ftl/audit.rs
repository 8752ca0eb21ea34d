//! What must hold of the FTL between any two events.

use super::Ftl;
use super::allocator::BlockState;
use super::mapping::Mapping;
use super::operation::Operation;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use units::{BlockAddr, DieId, FlashOp};

/// Up to this many pages all of them are checked; on a larger device those of blocks that are open,
/// being collected, or have been erased.
const FULL_CHECK_PAGES: u64 = 1 << 20;

/// Operations in flight on a block.
#[derive(Clone, Copy, Default)]
struct InFlight {
    reads: u16,
    programs: u16,
    /// Of the host, and relocations from another die: pages that will count as valid here besides
    /// those that do.
    host_programs: u32,
}

impl<M: Mapping> Ftl<M> {
    /// Checks everything that can be checked: invariants 1–8 of docs/ftl.md.
    ///
    /// # Panics
    /// With a sentence, if an invariant is broken.
    pub fn audit(&self) {
        let in_flight = self.audit_queues();
        let victims: BTreeMap<BlockAddr, u32> = self.gc.victims().collect();
        for block in (0..self.geometry.block_count()).map(BlockAddr::new) {
            self.audit_block(block, in_flight.get(&block).copied().unwrap_or_default());
            let is_victim = self.allocator.block(block).state == BlockState::Victim;
            assert_eq!(
                is_victim,
                victims.contains_key(&block),
                "{block:?}: victims are being collected"
            );
        }
        for (block, host_reads) in victims {
            let expected = self.host_reads_of(block);
            assert_eq!(host_reads, expected, "{block:?}: its reads are counted");
        }
        for die in (0..self.geometry.die_count()).map(DieId::new) {
            let on_die = in_flight
                .iter()
                .filter(|(block, _)| self.geometry.die_of(**block) == die);
            let programs = on_die.map(|(_, counts)| counts.host_programs).sum();
            self.allocator.audit_die(die, &self.mapping, programs);
        }
    }

    /// Recounts the operations in flight per queue and per block.
    fn audit_queues(&self) -> BTreeMap<BlockAddr, InFlight> {
        let mut counts: BTreeMap<BlockAddr, InFlight> = BTreeMap::new();
        let mut recount = self.estimator.emptied();
        let mut rests = Vec::new();
        for operation in self.operations.iter() {
            let (block, kind, is_gc) = match *operation {
                Operation::HostRead { ppa, .. } => {
                    (self.geometry.block_of(ppa), FlashOp::Read, false)
                }
                Operation::HostProgram { ppa, .. } => {
                    (self.geometry.block_of(ppa), FlashOp::Program, false)
                }
                Operation::GcRead { source, .. } => {
                    (self.geometry.block_of(source), FlashOp::Read, true)
                }
                Operation::GcProgram { ppa, .. } | Operation::GcPage { ppa, .. } => {
                    (self.geometry.block_of(ppa), FlashOp::Program, true)
                }
                Operation::Erase { block } => (block, FlashOp::Erase, true),
            };
            recount.enter(self.geometry.die_of(block), kind, is_gc);
            if let Operation::HostProgram { rest: Some(_), .. } = operation {
                rests.push(self.geometry.die_of(block));
            }
            let count = counts.entry(block).or_default();
            let (units, home) = match *operation {
                Operation::GcProgram { source, .. } => (1, Some(self.geometry.die_of_unit(source))),
                Operation::GcPage { page, .. } => {
                    let (units, home) = self.gc.units_in(page);
                    (units, Some(home))
                }
                _ => (1, None),
            };
            match kind {
                FlashOp::Read => count.reads += 1,
                FlashOp::Program => count.programs += units as u16,
                FlashOp::Erase => {}
            }
            let is_here = home == Some(self.geometry.die_of(block));
            if kind == FlashOp::Program && !is_here {
                count.host_programs += units;
            }
        }
        // The units of a flash page are one program.
        for die in rests {
            recount.leave(die, FlashOp::Program, false);
        }
        assert_eq!(
            recount, self.estimator,
            "the estimator counts what is in flight"
        );
        counts
    }

    fn audit_block(&self, block: BlockAddr, in_flight: InFlight) {
        let state = self.allocator.block(block);
        assert_eq!(
            state.programs, in_flight.programs,
            "{block:?}: programs in flight are counted"
        );
        if state.state == BlockState::Free {
            let in_use = (in_flight.reads, in_flight.programs);
            assert_eq!(in_use, (0, 0), "{block:?} is free while in use");
        }
        let is_checked = self.geometry.unit_count() <= FULL_CHECK_PAGES
            || state.wear > 0
            || matches!(state.state, BlockState::Open | BlockState::Victim);
        if is_checked {
            self.audit_mapping(block);
        }
    }

    /// The mapping is a bijection on the valid pages of the block, and they are counted.
    fn audit_mapping(&self, block: BlockAddr) {
        let mut valid = 0;
        for page in
            (0..self.geometry.units_per_block).map(|page| self.geometry.unit_on(block, page))
        {
            if let Some(lpa) = self.mapping.reverse(page) {
                valid += 1;
                let place = self.mapping.lookup(lpa);
                assert_eq!(
                    place,
                    Some(page),
                    "{page} holds {lpa}, which is mapped elsewhere"
                );
            }
        }
        assert_eq!(
            valid,
            self.mapping.valid_count(block),
            "{block:?}: valid pages are counted"
        );
        if self.allocator.block(block).state == BlockState::Free {
            assert_eq!(valid, 0, "{block:?} is free but holds valid pages");
        }
    }
}
