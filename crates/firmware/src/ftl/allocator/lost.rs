//! Blocks that fail, and those that wear out early because others rest.

use super::{Allocator, BlockState, For, units_that_count};
use alloc::vec::Vec;
use core::cmp::Reverse;
use units::{BlockAddr, DieId};

impl Allocator {
    /// Whether free blocks are chosen by wear.
    pub(in crate::ftl) fn level_wear(&mut self, levels_wear: bool) {
        self.levels_wear = levels_wear;
    }

    /// Puts the free block of the die that is to be opened next in front.
    #[cold]
    pub(super) fn bring_forward(&mut self, die: DieId, whose: For) {
        let wear = |nth: &usize| self.block(self.dies[die.index()].free[*nth]).wear;
        let all = 0..self.dies[die.index()].free.len();
        let next = match whose {
            For::Host => all.min_by_key(wear),
            For::Gc => all.min_by_key(|nth| Reverse(wear(nth))),
        };
        let free = &mut self.dies[die.index()].free;
        if let Some(block) = next.and_then(|next| free.remove(next)) {
            free.push_front(block);
        }
    }

    /// A program of the block has failed: nothing more is written to it.
    pub(in crate::ftl) fn condemn(&mut self, block: BlockAddr) {
        let state = self.block(block).state;
        assert!(
            matches!(state, BlockState::Open | BlockState::Full),
            "programs in flight are of blocks that are open or full"
        );
        if self.block(block).is_condemned {
            return;
        }
        let die = self.geometry.die_of(block);
        let of_die = &mut self.dies[die.index()];
        of_die.host_open.take_if(|open| open.block == block);
        of_die.gc_open.take_if(|open| open.block == block);
        of_die.condemned += 1;
        let condemned = self.block_mut(block);
        condemned.state = BlockState::Full;
        condemned.is_condemned = true;
        self.lose(die);
    }

    /// An emptied block is never used again.
    pub(in crate::ftl) fn retire(&mut self, block: BlockAddr) {
        let die = self.geometry.die_of(block);
        let retired = self.block_mut(block);
        assert_eq!(retired.state, BlockState::Victim, "it is empty");
        retired.state = BlockState::Retired;
        if retired.is_condemned {
            self.dies[die.index()].condemned -= 1;
        } else {
            self.lose(die);
        }
    }

    /// The die has a block less to use.
    fn lose(&mut self, die: DieId) {
        self.may_run_out = true;
        let of_die = &mut self.dies[die.index()];
        of_die.limit = of_die
            .limit
            .saturating_sub(units_that_count(&self.geometry));
        self.refresh(die);
    }

    /// Whether the die has blocks that are to be emptied and retired.
    #[inline]
    pub(in crate::ftl) fn has_condemned(&self, die: DieId) -> bool {
        self.dies[die.index()].condemned > 0
    }

    /// Whether the die holds more pages than it should, after the loss of a block.
    #[inline]
    pub(in crate::ftl) fn is_over(&self, die: DieId) -> bool {
        let die = &self.dies[die.index()];
        die.committed > die.limit
    }

    /// Whether GC may find no place for a page.
    #[inline]
    pub(in crate::ftl) fn may_run_out(&self) -> bool {
        self.may_run_out
    }

    /// Blocks of the die that serve.
    pub(super) fn usable_blocks(&self, die: DieId) -> u32 {
        let blocks = 0..self.geometry.blocks_per_die();
        let is_usable = |block: &u32| {
            let block = self.block(self.geometry.block_on(die, *block));
            !block.is_condemned && block.state != BlockState::Retired
        };
        blocks.filter(is_usable).count() as u32
    }

    /// Pages that the host may fill on all dies together, a flash page at a time.
    pub(in crate::ftl) fn capacity(&self) -> u64 {
        let of_die = |die: &super::Die| u64::from(die.limit.saturating_sub(self.beyond_one()));
        self.dies.iter().map(of_die).sum()
    }

    /// Pages that the host might fill if no block were lost.
    pub(in crate::ftl) fn full_capacity(&self) -> u64 {
        let of_die = self.limit(self.geometry.blocks_per_die());
        u64::from(of_die.saturating_sub(self.beyond_one())) * u64::from(self.geometry.die_count())
    }

    /// Blocks that are never used again.
    pub(in crate::ftl) fn retired_count(&self) -> u32 {
        let is_retired = |block: &&super::Block| block.state == BlockState::Retired;
        self.blocks.iter().filter(is_retired).count() as u32
    }

    /// Blocks that are to be emptied and retired.
    pub(in crate::ftl) fn condemned_count(&self) -> u32 {
        self.dies.iter().map(|die| die.condemned).sum()
    }

    /// Blocks whose writing ended early since this was asked last.
    pub(in crate::ftl) fn take_closed(&mut self) -> Vec<BlockAddr> {
        core::mem::take(&mut self.closed)
    }
}
