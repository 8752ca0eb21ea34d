//! Blocks as records describe them after a power cut.
//!
//! A block of which some pages have begun is written on behind them. A die had at most two of them,
//! one of the host and one of GC; which was whose does not matter, but that there is room in both
//! does: GC of a die without a free block goes on where it was. Further ones, whose writing ended
//! early, are closed.

use super::{Allocator, Block, BlockState, Die, Open};
use crate::durable::BlockRecord;
use crate::ftl::mapping::Mapping;
use alloc::vec;
use alloc::vec::Vec;
use units::{BlockAddr, DieId, FlashGeometry};

impl Allocator {
    /// The blocks of a device of which `records` are known, by block, and that holds what `mapping`
    /// says.
    pub(in crate::ftl) fn restored<M: Mapping>(
        geometry: FlashGeometry,
        records: &[BlockRecord],
        mapping: &M,
        reserve: u32,
    ) -> Self {
        let mut allocator = Self {
            geometry,
            blocks: records
                .iter()
                .map(|record| as_recorded(&geometry, record))
                .collect(),
            dies: Vec::with_capacity(geometry.die_count() as usize),
            ready: vec![0; (geometry.die_count() as usize).div_ceil(64)],
            next_die: 0,
            free_block_count: 0,
            reserve,
            may_run_out: records.iter().any(is_lost),
            levels_wear: false,
            closed: Vec::new(),
        };
        for die in (0..geometry.die_count()).map(DieId::new) {
            allocator.restore_die(die, records, mapping);
            allocator.refresh(die);
        }
        allocator
    }

    fn in_state(&self, blocks: &[BlockAddr], state: BlockState) -> Vec<BlockAddr> {
        let is_so = |block: &&BlockAddr| self.block(**block).state == state;
        blocks.iter().filter(is_so).copied().collect()
    }

    fn restore_die<M: Mapping>(&mut self, die: DieId, records: &[BlockRecord], mapping: &M) {
        let on_die = 0..self.geometry.blocks_per_die();
        let blocks: Vec<BlockAddr> = on_die.map(|nth| self.geometry.block_on(die, nth)).collect();
        let mut free = self.in_state(&blocks, BlockState::Free);
        let mut open = self.in_state(&blocks, BlockState::Open);
        let of_die = |block: &&BlockAddr| is_lost(&records[block.index()]);
        let lost = blocks.iter().filter(of_die).count();
        let condemned = lost - self.in_state(&blocks, BlockState::Retired).len();
        let usable = (blocks.len() - lost) as u32;
        let committed = blocks.iter().map(|block| mapping.valid_count(*block)).sum();
        // In what order they were freed is not known; the least worn come first.
        free.sort_by_key(|block| self.block(*block).wear);
        open.sort_by_key(|block| records[block.index()].begun);
        for early in open.split_off(open.len().min(2)) {
            self.block_mut(early).state = BlockState::Full;
            self.closed.push(early);
        }
        // The host has room in a free block as long as there are more than the reserve.
        let mut open = open.into_iter().map(|block| Open {
            block,
            next: records[block.index()].begun,
        });
        let gc_open = if free.len() <= self.reserve as usize {
            open.next()
        } else {
            None
        };
        let host_open = open.next();
        // Of the block that GC has begun a part may be gone that the rest of its victim needs.
        self.may_run_out |= free.len() < self.reserve as usize;
        self.free_block_count += free.len() as u32;
        self.dies.push(Die {
            free: free.into(),
            host_open,
            gc_open: gc_open.or_else(|| open.next()),
            committed,
            limit: self.limit(usable),
            condemned: condemned as u32,
        });
    }
}

fn is_lost(record: &BlockRecord) -> bool {
    record.is_retired || record.is_condemned
}

fn as_recorded(geometry: &FlashGeometry, record: &BlockRecord) -> Block {
    let state = if record.is_retired {
        BlockState::Retired
    } else if record.is_condemned {
        BlockState::Full
    } else if record.begun == 0 {
        BlockState::Free
    } else if record.begun < geometry.units_per_block {
        BlockState::Open
    } else {
        BlockState::Full
    };
    Block {
        state,
        is_condemned: record.is_condemned && !record.is_retired,
        programs: 0,
        wear: record.wear,
    }
}
