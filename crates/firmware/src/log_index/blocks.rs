//! Memory of an index: blocks of 2^n codes of 4 B each.
//!
//! Blocks of one size lie in extents of 256 codes. An extent without a block in use serves the size
//! that is asked for next, so what pages leave behind when they grow out of a size is not lost. Up
//! to sixteen codes lie in one cache line. What is not in use keeps the list of itself.
//!
//! Invariants: an extent is in the list of its size if some of its blocks are in use and some are
//! not, in that of empty extents if none is, and else in no list.

use super::line::{Line, codes, codes_mut};
use super::reserve;
use alloc::vec::Vec;
use bytemuck::Zeroable;
use core::ops::Range;

/// Codes of an extent, base-two logarithm: those of the largest block.
const EXTENT_BITS: u8 = 8;
/// Sizes of blocks.
const SIZES: usize = EXTENT_BITS as usize + 1;
/// Stands where there is no extent.
const NONE: u32 = u32::MAX;

/// A block: the first of its codes, and base-two logarithm of how many it has.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) start: usize,
    pub(super) bits: u8,
}

impl Block {
    /// The extent that it is in.
    fn extent(self) -> usize {
        self.start >> EXTENT_BITS
    }
    fn range(self) -> Range<usize> {
        self.start..self.start + (1 << self.bits)
    }
    /// Its number in the extent.
    fn number(self) -> u16 {
        ((self.start % (1 << EXTENT_BITS)) >> self.bits) as u16
    }
}

/// Blocks of one size.
#[derive(Clone, Copy)]
struct Extent {
    /// Base-two logarithm of the codes of a block.
    bits: u8,
    /// Blocks in use.
    used: u16,
    /// Blocks that have been in use since the extent was empty.
    begun: u16,
    /// The first of them that is not in use any more, if `used` is smaller; the first code of each
    /// is the next one.
    free: u16,
    /// Its neighbours in the list that it is in.
    next: u32,
    previous: u32,
}

impl Extent {
    fn blocks(self) -> u16 {
        1 << (EXTENT_BITS - self.bits)
    }
}

/// The blocks of all sizes.
#[derive(Clone)]
pub(super) struct Blocks {
    lines: Vec<Line>,
    extents: Vec<Extent>,
    /// By base-two logarithm of a block's codes: the first extent with blocks in use and others.
    partial: [u32; SIZES],
    /// The first extent with no block in use.
    empty: u32,
    /// Codes of all blocks in use.
    used: u64,
}

impl Blocks {
    pub(super) fn new() -> Self {
        Self {
            lines: Vec::new(),
            extents: Vec::new(),
            partial: [NONE; SIZES],
            empty: NONE,
            used: 0,
        }
    }

    /// Codes of all blocks in use.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Bytes that it holds.
    pub(super) fn held(&self) -> u64 {
        let lines = self.lines.capacity() * size_of::<Line>();
        (lines + self.extents.capacity() * size_of::<Extent>()) as u64
    }

    /// Extents that there have ever been.
    #[cfg(test)]
    pub(super) fn extents(&self) -> usize {
        self.extents.len()
    }

    /// The codes of a block.
    #[inline]
    pub(super) fn of(&self, block: Block) -> &[u32] {
        &codes(&self.lines)[block.range()]
    }

    #[inline]
    pub(super) fn of_mut(&mut self, block: Block) -> &mut [u32] {
        &mut codes_mut(&mut self.lines)[block.range()]
    }

    /// The codes of two blocks, the second one to be written.
    pub(super) fn two(&mut self, from: Block, to: Block) -> (&[u32], &mut [u32]) {
        let both = codes_mut(&mut self.lines).get_disjoint_mut([from.range(), to.range()]);
        let [from, to] = both.expect("they are two blocks");
        (from, to)
    }

    /// The cache line with the code at a place.
    #[inline(always)]
    pub(super) fn line(&self, place: usize) -> &[u32; Line::CODES] {
        &self.lines[place / Line::CODES].codes
    }

    #[inline(always)]
    pub(super) fn line_mut(&mut self, place: usize) -> &mut [u32; Line::CODES] {
        &mut self.lines[place / Line::CODES].codes
    }

    /// A block of `2^bits` codes, whatever they are.
    pub(super) fn take(&mut self, bits: u8) -> Block {
        self.used += 1 << bits;
        let at = match self.partial[usize::from(bits)] {
            NONE => self.begin(bits),
            at => at,
        };
        let extent = &mut self.extents[at as usize];
        let is_new = extent.used == extent.begun;
        let number = if is_new { extent.begun } else { extent.free };
        let block = Block {
            start: ((at as usize) << EXTENT_BITS) + (usize::from(number) << bits),
            bits,
        };
        extent.used += 1;
        if is_new {
            extent.begun += 1;
        } else {
            extent.free = codes(&self.lines)[block.start] as u16;
        }
        if extent.used == extent.blocks() {
            self.unlink(at);
        }
        block
    }

    /// A block that is not needed any more.
    pub(super) fn give_back(&mut self, block: Block) {
        self.used -= 1 << block.bits;
        let at = block.extent();
        let extent = &mut self.extents[at];
        let was_full = extent.used == extent.blocks();
        let next_free = core::mem::replace(&mut extent.free, block.number());
        extent.used -= 1;
        let is_empty = extent.used == 0;
        codes_mut(&mut self.lines)[block.start] = u32::from(next_free);
        if is_empty && !was_full {
            self.unlink(at as u32);
        }
        if is_empty || was_full {
            self.link(at as u32, is_empty);
        }
    }

    /// An extent for blocks of this size, linked as such.
    fn begin(&mut self, bits: u8) -> u32 {
        let at = if self.empty == NONE {
            self.extend()
        } else {
            let at = self.empty;
            self.unlink(at);
            at
        };
        self.extents[at as usize] = Extent {
            bits,
            used: 0,
            begun: 0,
            free: 0,
            next: NONE,
            previous: NONE,
        };
        self.link(at, false);
        at
    }

    /// A new extent.
    fn extend(&mut self) -> u32 {
        let at = u32::try_from(self.extents.len()).expect("a half has fewer than 2^32 pages");
        let lines = (1 << EXTENT_BITS) / Line::CODES;
        reserve(&mut self.lines, lines);
        self.lines.resize(self.lines.len() + lines, Line::zeroed());
        reserve(&mut self.extents, 1);
        self.extents.push(Extent {
            bits: 0,
            used: 0,
            begun: 0,
            free: 0,
            next: NONE,
            previous: NONE,
        });
        at
    }

    /// The first extent of the list that an extent is or comes in.
    fn first(&mut self, bits: u8, is_empty: bool) -> &mut u32 {
        if is_empty {
            &mut self.empty
        } else {
            &mut self.partial[usize::from(bits)]
        }
    }

    fn link(&mut self, at: u32, is_empty: bool) {
        let bits = self.extents[at as usize].bits;
        let next = core::mem::replace(self.first(bits, is_empty), at);
        let extent = &mut self.extents[at as usize];
        (extent.previous, extent.next) = (NONE, next);
        if let Some(next) = self.extents.get_mut(next as usize) {
            next.previous = at;
        }
    }

    fn unlink(&mut self, at: u32) {
        let Extent {
            bits,
            previous,
            next,
            ..
        } = self.extents[at as usize];
        if let Some(previous) = self.extents.get_mut(previous as usize) {
            previous.next = next;
        } else {
            let is_empty = self.empty == at;
            *self.first(bits, is_empty) = next;
        }
        if let Some(next) = self.extents.get_mut(next as usize) {
            next.previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Stream;

    /// Blocks of all sizes come and go; each keeps what is written in it, and is in one cache line
    /// if it is no longer than that.
    #[test]
    fn blocks_in_use_are_apart_and_keep_what_is_in_them() {
        let mut random = Stream::new(1, "blocks");
        let mut blocks = Blocks::new();
        let mut in_use: Vec<(Block, u32)> = Vec::new();
        for step in 0..40_000u32 {
            let share = if step / 5000 % 2 == 0 { 70 } else { 30 };
            if random.below(100) < share || in_use.is_empty() {
                let block = blocks.take(random.below(SIZES as u64) as u8);
                let codes = blocks.of_mut(block);
                codes.fill(step);
                assert!(block.bits > 4 || block.start % 16 + codes.len() <= 16);
                in_use.push((block, step));
            } else {
                let (block, mark) = in_use.swap_remove(random.below(in_use.len() as u64) as usize);
                assert!(blocks.of(block).iter().all(|code| *code == mark));
                blocks.give_back(block);
            }
            let used = in_use.iter().map(|(block, _)| 1 << block.bits);
            assert_eq!(blocks.used(), used.sum::<u64>());
        }
        in_use.sort_by_key(|(block, _)| block.start);
        let mut end = 0;
        for (block, mark) in in_use {
            assert!(block.start >= end, "two blocks have a code in common");
            end = block.start + (1 << block.bits);
            assert!(blocks.of(block).iter().all(|code| *code == mark));
        }
    }

    #[test]
    fn what_one_size_has_left_serves_another() {
        let mut blocks = Blocks::new();
        for bits in [1, 8, 3, 0, 5] {
            let count = 10 << (EXTENT_BITS - bits);
            let taken: Vec<Block> = (0..count).map(|_| blocks.take(bits)).collect();
            assert_eq!(blocks.extents(), 10);
            assert_eq!(blocks.used(), 10 << EXTENT_BITS);
            // In an order in which every extent is partly in use for long.
            let late = taken.iter().skip(1).step_by(2);
            for block in taken.iter().step_by(2).chain(late) {
                blocks.give_back(*block);
            }
            assert_eq!(blocks.used(), 0);
        }
    }

    #[test]
    fn the_second_block_of_two_is_written_and_the_first_is_not() {
        let mut blocks = Blocks::new();
        let (small, large) = (blocks.take(1), blocks.take(2));
        blocks.of_mut(small).copy_from_slice(&[7, 8]);
        let (from, to) = blocks.two(small, large);
        to.fill(9);
        to[1..3].copy_from_slice(from);
        assert_eq!(blocks.of(small), [7, 8]);
        assert_eq!(blocks.of(large), [9, 7, 8, 9]);
    }
}
