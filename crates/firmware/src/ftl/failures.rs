//! What the FTL does when flash fails, and against wearing out early.
//!
//! - A program that fails is done again elsewhere, from its buffer. Its block is *condemned*:
//!   nothing more is written to it, GC empties it before others once the die has more free blocks
//!   than its reserve, and it is retired.
//! - A block that cannot be erased is empty by then and is retired at once.
//! - A read that cannot be corrected, of a page that has moved meanwhile, is done again there. Any
//!   other is done as far as the FTL is concerned: that the register holds poison is a matter of
//!   the bytes, which carry it along ([`Platform::is_poisoned`]).
//! - Blocks that are lost leave over-provisioning smaller. When all dies together have room for
//!   less than the exported pages and two blocks more, the device takes no more writes.
//! - Pages may wait for room and nothing be under way that makes any: every die has lost its
//!   reserve before a block came free. Then the device takes no more writes either, and what waits
//!   goes on waiting in log and buffers.
//! - When the most worn block of a die is `wear_spread` erases ahead of the least worn one that
//!   holds data, that one is emptied, whatever it holds: the cold pages in it go to a worn block.

use super::Ftl;
use super::allocator::{BlockState, units_that_count};
use super::mapping::Mapping;
use super::operation::{Operation, Program};
use super::{Done, Waiting};
use crate::durable::Record;
use crate::platform::{NandFault, NandOp, NandTag, Platform};
use alloc::vec;
use units::{DieId, FlashGeometry, FlashOp, Ppa, Time};

/// Blocks that all dies together must have room for beyond the exported pages, or nothing more may
/// be written. What has been accepted needs room for one flash page, so a block; and another one
/// may fail before all of it is on flash.
const SPARE_BLOCKS: u64 = 2;

/// The pages that this is room for, a flash page at a time.
pub(super) fn least_spare(geometry: &FlashGeometry) -> u64 {
    let beyond_one = u64::from(geometry.units_per_page - 1);
    (SPARE_BLOCKS * u64::from(units_that_count(geometry))).saturating_sub(beyond_one)
}

/// What has failed since the power came on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Failures {
    /// Programs.
    pub programs: u64,
    /// Erases.
    pub erases: u64,
    /// Reads that could not be corrected.
    pub reads: u64,
}

impl<M: Mapping> Ftl<M> {
    /// A read has ended that cannot be corrected.
    #[inline(never)]
    fn end_in_vain<P: Platform>(&mut self, now: Time, tag: NandTag, platform: &mut P) -> Done {
        self.on_nand_done(now, tag, platform)
    }

    /// A NAND operation has failed.
    #[cold]
    pub fn on_nand_failed<P: Platform>(
        &mut self,
        now: Time,
        tag: NandTag,
        fault: NandFault,
        platform: &mut P,
    ) -> Done {
        if fault == NandFault::Uncorrectable {
            self.failures.reads += 1;
            return match self.read_again(now, tag, platform) {
                true => Done::Internal,
                false => self.end_in_vain(now, tag, platform),
            };
        }
        match self.operations.finish(tag) {
            Operation::HostProgram { ppa, program, rest } => {
                self.on_host_program_failed(now, ppa, (program, rest), platform);
            }
            Operation::GcProgram {
                lpa,
                source,
                ppa,
                buffer,
                ..
            } => self.on_gc_program_failed(now, (lpa, source, ppa, buffer), platform),
            Operation::GcPage { ppa, page } => {
                self.on_gathered_failed(now, (ppa, page), platform);
            }
            Operation::Erase { block } => {
                self.failures.erases += 1;
                let die = self.geometry.die_of(block);
                self.estimator.leave(die, FlashOp::Erase, true);
                self.retire_victim(now, die, platform);
            }
            operation => panic!("{tag} failed as {fault:?}, but is {operation:?}"),
        }
        self.see_whether_stuck();
        Done::Internal
    }

    /// A read of a page that is somewhere else by now, where GC or a later write has put it, says
    /// nothing of the page: it is read there. Says whether that is so.
    fn read_again<P: Platform>(&mut self, now: Time, tag: NandTag, platform: &mut P) -> bool {
        let Operation::HostRead {
            lpa,
            ppa,
            owner,
            seen,
        } = self.operations.get(tag)
        else {
            return false;
        };
        let Some(place) = self.mapping.lookup(lpa).filter(|place| *place != ppa) else {
            return false;
        };
        self.operations.finish(tag);
        self.on_host_read(now, ppa, platform);
        let block = self.geometry.block_of(place);
        let die = self.geometry.die_of(block);
        self.stats.host_reads += 1;
        self.gc.begin_host_read(die, block);
        self.estimator.enter(die, FlashOp::Read, false);
        // What it is compared with is still what had taken effect when it was asked for.
        let operation = Operation::HostRead {
            lpa,
            ppa: place,
            owner,
            seen,
        };
        self.submit(now, operation, NandOp::Read { ppa: place }, platform);
        true
    }

    fn on_host_program_failed<P: Platform>(
        &mut self,
        now: Time,
        ppa: Ppa,
        (first, mut rest): (Program, Option<NandTag>),
        platform: &mut P,
    ) {
        let mut programs = vec![first];
        while let Some(tag) = rest {
            let Operation::HostProgram {
                program,
                rest: next,
                ..
            } = self.operations.finish(tag)
            else {
                unreachable!("the units of a flash page are all of the host");
            };
            programs.push(program);
            rest = next;
        }
        let die = self.end_failed_program(ppa, programs.len() as u32, false, platform);
        // What was with them in a flash page is so again, in the old place in the order.
        for program in programs.into_iter().rev() {
            self.allocator.release_page(die);
            self.waiting.push_front(Waiting {
                since: now,
                program,
                lacks_room: true,
            });
        }
        self.advance_gc(now, die, platform);
        self.retry_relocations(now, platform);
        self.submit_waiting(now, platform);
    }

    /// A program of so many units came to nothing and its block is condemned; returns the die it
    /// was on.
    pub(super) fn end_failed_program<P: Platform>(
        &mut self,
        ppa: Ppa,
        units: u32,
        is_gc: bool,
        platform: &mut P,
    ) -> DieId {
        self.failures.programs += 1;
        let block = self.geometry.block_of(ppa);
        let die = self.geometry.die_of(block);
        self.estimator.leave(die, FlashOp::Program, is_gc);
        self.allocator.block_mut(block).programs -= units as u16;
        if !self.allocator.block(block).is_condemned {
            // After a power cut nothing must be written behind what has failed, or in its place.
            platform.record(Record::Condemned(block));
        }
        self.allocator.condemn(block);
        self.count_capacity();
        die
    }

    /// Takes up a condemned block of the die, if it can be emptied: into blocks that the die has in
    /// reserve, or because its collection has nothing to gain elsewhere.
    #[cold]
    pub(super) fn start_condemned(&mut self, die: DieId) -> bool {
        let blocks =
            (0..self.geometry.blocks_per_die()).map(|nth| self.geometry.block_on(die, nth));
        let condemned = blocks.filter(|block| {
            let state = self.allocator.block(*block);
            state.is_condemned && state.state == BlockState::Full && state.programs == 0
        });
        let Some(block) = condemned.min_by_key(|block| self.mapping.valid_count(*block)) else {
            return false;
        };
        let has_reserve = self.allocator.has_more_than_reserve(die);
        if !has_reserve && self.mapping.valid_count(block) > 0 && self.can_gain(die) {
            return false;
        }
        self.begin_victim(die, block);
        true
    }

    /// Whether GC of the die would free a block in the usual way.
    fn can_gain(&self, die: DieId) -> bool {
        let gainful = units_that_count(&self.geometry);
        let mut blocks =
            (0..self.geometry.blocks_per_die()).map(|nth| self.geometry.block_on(die, nth));
        blocks.any(|block| {
            let state = self.allocator.block(block);
            let is_full = state.state == BlockState::Full && !state.is_condemned;
            is_full && (state.programs > 0 || self.mapping.valid_count(block) < gainful)
        })
    }

    /// The die's victim is empty and never used again.
    #[cold]
    pub(super) fn retire_victim<P: Platform>(&mut self, now: Time, die: DieId, platform: &mut P) {
        let block = self.gc.victim_of(die);
        self.gc.end_victim(die);
        self.allocator.retire(block);
        platform.record(Record::Retired(block));
        self.count_capacity();
        self.retry_relocations(now, platform);
        self.submit_waiting(now, platform);
        self.advance_gc(now, die, platform);
    }

    /// Takes up the least worn block of the die that holds data, if it is too far behind.
    #[cold]
    pub(super) fn level_wear(&mut self, die: DieId) {
        if self.gc.has_victim(die) || !self.allocator.has_more_than_reserve(die) {
            return;
        }
        let blocks = || {
            let all =
                (0..self.geometry.blocks_per_die()).map(|nth| self.geometry.block_on(die, nth));
            all.map(|block| (block, *self.allocator.block(block)))
        };
        let resting = blocks().filter(|(_, state)| {
            state.state == BlockState::Full && !state.is_condemned && state.programs == 0
        });
        let serving = blocks().filter(|(_, state)| state.state != BlockState::Retired);
        let coldest = resting.min_by_key(|(_, state)| state.wear);
        let most = serving.map(|(_, state)| state.wear).max();
        if let (Some((block, state)), Some(most)) = (coldest, most)
            && most - state.wear > self.config.wear_spread
        {
            self.stats.wear_victims += 1;
            self.begin_victim(die, block);
        }
    }

    /// What has failed since the power came on.
    pub fn failures(&self) -> Failures {
        self.failures
    }

    /// Whether so many blocks are lost that no more may be written.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only || self.is_stuck
    }

    /// Whether what waits for room waits until the power has been off: nothing is under way that
    /// could make any.
    #[inline]
    pub fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// Looks whether pages wait for ever.
    #[inline]
    pub(super) fn see_whether_stuck(&mut self) {
        if self.allocator.may_run_out() {
            let waits = self.is_page_due() || self.gc.are_waiting_for_room();
            self.is_stuck |= waits && !self.makes_room();
        }
    }

    /// Whether something is under way that may end in a free block or a page less.
    #[cold]
    fn makes_room(&self) -> bool {
        let mut operations = self.operations.iter();
        let is_host_read = |operation: &Operation| matches!(operation, Operation::HostRead { .. });
        !operations.all(is_host_read) || self.gc.waits_for_reads()
    }

    /// Blocks that are never used again.
    pub fn retired_blocks(&self) -> u32 {
        self.allocator.retired_count()
    }

    /// Blocks in which a program has failed, to be emptied and retired.
    pub fn condemned_blocks(&self) -> u32 {
        self.allocator.condemned_count()
    }

    /// Room beyond the exported pages, in percent of what flash without a bad block has.
    pub fn available_spare(&self) -> u32 {
        let (left, whole) = self.spare_pages();
        u32::try_from(left * 100 / whole.max(1)).expect("at most 100")
    }

    /// Pages that the dies have room for beyond the exported ones, and how many there are on flash
    /// without a bad block.
    pub(super) fn spare_pages(&self) -> (u64, u64) {
        let beyond = |capacity: u64| capacity.saturating_sub(self.logical_page_count);
        (
            beyond(self.allocator.capacity()),
            beyond(self.allocator.full_capacity()),
        )
    }

    /// Blocks have been lost.
    pub(super) fn count_capacity(&mut self) {
        self.is_read_only = self.spare_pages().0 < least_spare(&self.geometry);
    }
}

#[cfg(test)]
mod tests;
