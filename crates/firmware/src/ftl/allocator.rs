//! Where the next page goes, and what state each block is in.
//!
//! Host programs are striped round-robin over channels, then dies: consecutive dies are on
//! consecutive channels, and a die without room is passed over. Every die has one open block for
//! the host and one for GC, so that pages that have survived a collection do not mix with new
//! ones. Freed blocks are used oldest first, which levels wear among the blocks that circulate.
//!
//! What is handed out is a flash page at a time, however many of its units are filled.
//!
//! Two rules make GC always able to finish, so that a write never waits for ever:
//! the host never takes the last free blocks of a die (`ftl.reserve_blocks`), and a die never holds
//! more valid pages (programs in flight included) than these and two blocks less than it has: one
//! that the host writes, one that GC writes. Of each block all units but those of a flash page less
//! one count ([`units_that_count`]): so there is a full block of which a flash page's worth is
//! invalid, and whose units fill a flash page less than it has.

mod lost;
mod restored;

use super::mapping::Mapping;
use super::precondition::Precondition;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use units::{BlockAddr, DieId, FlashGeometry, Ppa};

/// Blocks of a die that are never filled with valid pages, beside the reserve: one the host writes
/// and one GC writes.
pub(super) const WRITTEN_BLOCKS: u32 = 2;

/// Units of a block that may be counted on to hold valid pages. If all full blocks together hold
/// fewer than that each, one of them has a flash page's worth of invalid units at least, and GC of
/// it frees more flash pages than it writes.
pub(super) const fn units_that_count(geometry: &FlashGeometry) -> u32 {
    (geometry.units_per_block + 1).saturating_sub(geometry.units_per_page)
}

/// What a block is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockState {
    /// Erased.
    Free,
    /// Being written.
    Open,
    /// Written to the end.
    Full,
    /// Full, and GC is moving its valid pages away or erasing it.
    Victim,
    /// Never used again.
    Retired,
}

/// An erase block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) state: BlockState,
    /// A program of it has failed: nothing more is written to it, and once GC has moved its valid
    /// pages away it is retired.
    pub(super) is_condemned: bool,
    /// Programs in flight: it is no victim before they are done.
    pub(super) programs: u16,
    /// Erases since the start.
    pub(super) wear: u32,
}

/// A block that is being written and the first unit of its next flash page.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: BlockAddr,
    next: u32,
}

/// What a block is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum For {
    Host,
    Gc,
}

/// The writing side of one die.
#[derive(Clone, Debug)]
struct Die {
    free: VecDeque<BlockAddr>,
    host_open: Option<Open>,
    gc_open: Option<Open>,
    /// Valid pages and host programs in flight.
    committed: u32,
    /// Most valid pages that it may come to hold by writes of the host.
    limit: u32,
    condemned: u32,
}

impl Die {
    #[inline(always)]
    fn open_mut(&mut self, whose: For) -> &mut Option<Open> {
        match whose {
            For::Host => &mut self.host_open,
            For::Gc => &mut self.gc_open,
        }
    }
}

/// Blocks of all dies and the round-robin over them.
#[derive(Clone, Debug)]
pub(super) struct Allocator {
    geometry: FlashGeometry,
    blocks: Vec<Block>,
    dies: Vec<Die>,
    /// Bit set of the dies that can take a host page.
    ready: Vec<u64>,
    /// The die whose turn it is.
    next_die: u32,
    free_block_count: u32,
    /// Free blocks of a die that the host leaves to GC.
    reserve: u32,
    /// GC may find no place for a page: blocks are condemned or retired, or a power cut has found
    /// a die without its reserve.
    may_run_out: bool,
    /// The host takes the least worn free block and GC the most worn, instead of the oldest.
    levels_wear: bool,
    /// Blocks whose writing ended early and that have not been taken note of.
    closed: Vec<BlockAddr>,
}

impl Allocator {
    pub(super) fn new(geometry: FlashGeometry, precondition: &Precondition, reserve: u32) -> Self {
        let block = Block {
            state: BlockState::Free,
            is_condemned: false,
            programs: 0,
            wear: 0,
        };
        let mut allocator = Self {
            geometry,
            blocks: vec![block; geometry.block_count() as usize],
            dies: Vec::with_capacity(geometry.die_count() as usize),
            ready: vec![0; (geometry.die_count() as usize).div_ceil(64)],
            next_die: 0,
            free_block_count: 0,
            reserve,
            may_run_out: false,
            levels_wear: false,
            closed: Vec::new(),
        };
        for die in 0..geometry.die_count() {
            allocator.add_die(DieId::new(die), precondition);
        }
        allocator
    }

    fn add_die(&mut self, die: DieId, precondition: &Precondition) {
        let full = precondition.full_blocks();
        for block in 0..full {
            self.block_mut(self.geometry.block_on(die, block)).state = BlockState::Full;
        }
        // A flash page is programmed as a whole.
        let next = precondition
            .open_pages(die)
            .next_multiple_of(self.geometry.units_per_page);
        let open = Open {
            block: self.geometry.block_on(die, full),
            next,
        };
        let is_full = next == self.geometry.units_per_block;
        let host_open = (next > 0 && !is_full).then_some(open);
        if next > 0 {
            self.block_mut(open.block).state = match is_full {
                true => BlockState::Full,
                false => BlockState::Open,
            };
        }
        let first_free = full + u32::from(next > 0);
        let free: VecDeque<_> = (first_free..self.geometry.blocks_per_die())
            .map(|block| self.geometry.block_on(die, block))
            .collect();
        self.free_block_count += free.len() as u32;
        let committed = u32::try_from(precondition.mapped_per_die()).expect("a die is far smaller");
        self.dies.push(Die {
            free,
            host_open,
            gc_open: None,
            committed,
            limit: self.limit(self.geometry.blocks_per_die()),
            condemned: 0,
        });
        self.refresh(die);
    }

    pub(super) fn block(&self, block: BlockAddr) -> &Block {
        &self.blocks[block.index()]
    }
    pub(super) fn block_mut(&mut self, block: BlockAddr) -> &mut Block {
        &mut self.blocks[block.index()]
    }
    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }
    /// Units of a block, from its first on, that have been handed out since its last erase.
    pub(super) fn begun(&self, block: BlockAddr) -> u32 {
        let die = &self.dies[self.geometry.die_of(block).index()];
        let is_it = |open: &&Open| open.block == block;
        let open = die.host_open.iter().chain(&die.gc_open).find(is_it);
        match (self.block(block).state, open) {
            (BlockState::Free, _) => 0,
            (_, Some(open)) => open.next,
            (_, None) => self.geometry.units_per_block,
        }
    }
    /// Erased blocks of a die.
    pub(super) fn free_blocks(&self, die: DieId) -> usize {
        self.dies[die.index()].free.len()
    }
    /// Units that the erased blocks of a die and those that it writes still take.
    pub(super) fn room(&self, die: DieId) -> u32 {
        let die = &self.dies[die.index()];
        let left = |open: &Open| self.geometry.units_per_block - open.next;
        let in_open: u32 = die.host_open.iter().chain(&die.gc_open).map(left).sum();
        die.free.len() as u32 * self.geometry.units_per_block + in_open
    }
    /// Blocks of the device that are not erased.
    pub(super) fn used_block_count(&self) -> u32 {
        self.geometry.block_count() - self.free_block_count
    }

    /// The first unit of the next flash page for a program of the host, if any die has room. So
    /// many units of it count as committed.
    pub(super) fn take_host_page(&mut self, units: u32) -> Option<Ppa> {
        let die = self.next_ready_die()?;
        self.next_die = (die.get() + 1) % self.geometry.die_count();
        Some(self.take_page_on(die, units))
    }

    /// The next flash page of a die that has room.
    #[inline]
    fn take_page_on(&mut self, die: DieId, units: u32) -> Ppa {
        let page = self.next_page(die, For::Host);
        self.dies[die.index()].committed += units;
        self.refresh(die);
        page
    }

    /// The first unit of the next flash page for the relocation of so many units of the die: on the
    /// die, where there always is one (see the module) unless blocks or pages of it have been lost.
    pub(super) fn take_gc_page(&mut self, die: DieId, units: u32) -> Option<Ppa> {
        let state = &self.dies[die.index()];
        let has_place = state.gc_open.is_some() || !state.free.is_empty();
        if !has_place || self.is_over(die) {
            return self.take_refuge(die, has_place, units);
        }
        Some(self.take_own_gc_page(die))
    }

    fn take_own_gc_page(&mut self, die: DieId) -> Ppa {
        let page = self.next_page(die, For::Gc);
        self.refresh(die);
        page
    }

    /// The next flash page of the open block of a die; of a new one if there is none.
    #[inline(always)]
    fn next_page(&mut self, die: DieId, whose: For) -> Ppa {
        let (step, units) = (self.geometry.units_per_page, self.geometry.units_per_block);
        match self.dies[die.index()].open_mut(whose) {
            Some(open) if open.next + step < units => {
                let page = self.geometry.unit_on(open.block, open.next);
                open.next += step;
                page
            }
            _ => self.turn_block(die, whose),
        }
    }

    /// The first flash page of a block, or its last one.
    #[inline(never)]
    fn turn_block(&mut self, die: DieId, whose: For) -> Ppa {
        let open = self.dies[die.index()].open_mut(whose).take();
        let open = open.unwrap_or_else(|| self.open_block(die, whose));
        let (page, rest) = self.advance(open);
        *self.dies[die.index()].open_mut(whose) = rest;
        page
    }

    /// As [`Allocator::take_gc_page`] for a die that has too little left for what it holds, or
    /// whose GC had begun the last free block when the power was cut: on another die that has room,
    /// where the units count as committed; else in the host's block.
    #[cold]
    fn take_refuge(&mut self, die: DieId, has_place: bool, units: u32) -> Option<Ppa> {
        let is_over = self.is_over(die);
        if let Some(open) = self.dies[die.index()].host_open.take_if(|_| !is_over) {
            let (page, rest) = self.advance(open);
            self.dies[die.index()].host_open = rest;
            self.refresh(die);
            return Some(page);
        }
        match self.next_ready_die() {
            Some(other) => Some(self.take_page_on(other, units)),
            None => has_place.then(|| self.take_own_gc_page(die)),
        }
    }

    /// A valid page of the die has become invalid, or a program into it came to nothing.
    pub(super) fn release_page(&mut self, die: DieId) {
        self.dies[die.index()].committed -= 1;
        self.refresh(die);
    }

    /// A block has been erased; returns how often by now.
    pub(super) fn release_block(&mut self, block: BlockAddr) -> u32 {
        let erased = self.block_mut(block);
        assert!(
            erased.state == BlockState::Victim,
            "only a victim is erased"
        );
        erased.state = BlockState::Free;
        erased.wear += 1;
        let wear = erased.wear;
        let die = self.geometry.die_of(block);
        self.dies[die.index()].free.push_back(block);
        self.free_block_count += 1;
        self.refresh(die);
        wear
    }

    fn open_block(&mut self, die: DieId, whose: For) -> Open {
        if self.levels_wear {
            self.bring_forward(die, whose);
        }
        let free = self.dies[die.index()].free.pop_front();
        let block = free.unwrap_or_else(|| panic!("{die} has no free block to open"));
        self.free_block_count -= 1;
        self.block_mut(block).state = BlockState::Open;
        Open { block, next: 0 }
    }

    /// Takes the next flash page of an open block; returns what is left of it.
    fn advance(&mut self, open: Open) -> (Ppa, Option<Open>) {
        let page = self.geometry.unit_on(open.block, open.next);
        let next = open.next + self.geometry.units_per_page;
        if next == self.geometry.units_per_block {
            self.block_mut(open.block).state = BlockState::Full;
            return (page, None);
        }
        (page, Some(Open { next, ..open }))
    }

    fn has_room(&self, die: DieId) -> bool {
        let die = &self.dies[die.index()];
        let has_place = die.host_open.is_some() || die.free.len() > self.reserve as usize;
        die.committed + self.beyond_one() < die.limit && has_place
    }

    /// How many more units than one a flash page may bring.
    #[inline]
    const fn beyond_one(&self) -> u32 {
        self.geometry.units_per_page - 1
    }

    fn refresh(&mut self, die: DieId) {
        let (word, bit) = (die.index() / 64, die.get() % 64);
        let has_room = self.has_room(die);
        self.ready[word] = (self.ready[word] & !(1 << bit)) | (u64::from(has_room) << bit);
    }

    /// The next program goes to `die`, if that has room.
    pub(super) fn go_on_at(&mut self, die: DieId) {
        self.next_die = die.get();
    }

    /// The next program goes past the die that it would have gone to, if another one has room.
    pub(super) fn pass_die(&mut self) {
        if let Some(die) = self.next_ready_die() {
            self.next_die = (die.get() + 1) % self.geometry.die_count();
        }
    }

    /// The next program goes to the first of these dies that has room from the one on whose turn
    /// it is; if none has, it goes there.
    pub(super) fn go_to_one_of(&mut self, dies: &[u64]) {
        if let Some(die) = self.next_ready_die_of(|word| dies[word]) {
            self.next_die = die.get();
        }
    }

    /// The first die with room from `next_die` on, round the device.
    fn next_ready_die(&self) -> Option<DieId> {
        self.next_ready_die_of(|_| u64::MAX)
    }

    /// The same, among those of which a word has a bit.
    #[inline]
    fn next_ready_die_of(&self, of_word: impl Fn(usize) -> u64) -> Option<DieId> {
        let (start, bit) = (self.next_die as usize / 64, self.next_die % 64);
        let words = self.ready.len();
        (0..=words).find_map(|step| {
            let word = (start + step) % words;
            let below = (1u64 << bit) - 1;
            let mask = match step {
                0 => !below,
                _ if step == words => below,
                _ => u64::MAX,
            };
            let found = self.ready[word] & mask & of_word(word);
            (found != 0).then(|| DieId::from_index(word * 64 + found.trailing_zeros() as usize))
        })
    }

    /// Checks the counts of a die against its blocks.
    ///
    /// # Panics
    /// With a sentence, if they disagree.
    pub(super) fn audit_die<M: Mapping>(&self, die: DieId, mapping: &M, host_programs: u32) {
        let state = &self.dies[die.index()];
        let blocks =
            (0..self.geometry.blocks_per_die()).map(|block| self.geometry.block_on(die, block));
        let (mut free, mut open, mut valid) = (0, 0, 0);
        for block in blocks {
            match self.block(block).state {
                BlockState::Free => free += 1,
                BlockState::Open => open += 1,
                _ => {}
            }
            valid += mapping.valid_count(block);
        }
        assert_eq!(
            free,
            state.free.len(),
            "{die}: free blocks are those in the free list"
        );
        let expected_open =
            usize::from(state.host_open.is_some()) + usize::from(state.gc_open.is_some());
        assert_eq!(
            open, expected_open,
            "{die}: open blocks are the host's and GC's"
        );
        assert_eq!(
            state.committed,
            valid + host_programs,
            "{die}: committed pages are the valid ones and the host programs in flight"
        );
        let usable = self.usable_blocks(die);
        assert_eq!(state.limit, self.limit(usable), "{die}: its limit");
        let has_lost = usable < self.geometry.blocks_per_die();
        assert!(
            has_lost || state.committed <= state.limit,
            "{die} holds more pages than GC can move"
        );
        let bit = self.ready[die.index() / 64] >> (die.get() % 64) & 1;
        assert_eq!(
            bit == 1,
            self.has_room(die),
            "{die}: the ready bit says whether it has room"
        );
    }

    /// Most valid pages of a die with this many blocks to use.
    fn limit(&self, usable_blocks: u32) -> u32 {
        let kept = WRITTEN_BLOCKS + self.reserve;
        usable_blocks.saturating_sub(kept) * units_that_count(&self.geometry)
    }

    /// Whether emptying a block that gives none back leaves the die its reserve.
    pub(super) fn has_more_than_reserve(&self, die: DieId) -> bool {
        self.free_blocks(die) > self.reserve as usize
    }
}

#[cfg(test)]
mod tests;
