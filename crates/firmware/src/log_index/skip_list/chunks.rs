//! The chunk lists of all pages: which lines of a page are where in the log, as runs.
//!
//! A list is an array of codes of 4 B in the order of lines: line, slot, and whether the lines up
//! to that of the next code are in the slots that follow. So a chunk, a run of lines whose slots
//! follow each other, is one code if it is one line and else two, its first and its last line; the
//! last one is a code like any other. The codes of a page lie in a block for up to 2^n of them, the
//! smallest that takes them. Eight lines that are written apart take half a cache line.
//!
//! Source: ByteFS §4.3 (chunk entry: 1 B block offset, 4 B log offset, 4 B length), SkyByte §III-B
//! (line and slot in 4 B).

use super::super::blocks::{Block, Blocks};
use super::super::line::Line;
use alloc::vec::Vec;
use core::ops::Range;
use units::{LineInPage, LogSlot};
use wide::i32x8;

/// Base-two logarithm of the codes of the smallest block.
const FIRST_BITS: u8 = 1;
/// Codes of the longest list: as many as a page has lines.
const MOST: usize = 256;

/// A run of lines of a page.
#[derive(Clone, Copy)]
struct Chunk {
    line: u16,
    /// The last line.
    last: u16,
    /// In units of the half, as codes have it.
    slot: u32,
}

impl Chunk {
    fn of_line(line: u16, slot: u32) -> Self {
        let last = line;
        Self { line, last, slot }
    }
    fn slot_of(self, line: u16) -> u32 {
        self.slot + u32::from(line - self.line)
    }
    /// What is left of it up to a line of it.
    fn before(self, line: u16) -> Option<Self> {
        let last = line.checked_sub(1)?;
        (line > self.line).then_some(Self { last, ..self })
    }
    /// What is left of it behind a line of it.
    fn behind(self, line: u16) -> Option<Self> {
        (line < self.last).then(|| Self {
            line: line + 1,
            slot: self.slot_of(line) + 1,
            ..self
        })
    }
    /// Whether a line with this slot continues it.
    fn precedes(self, line: u16, slot: u32) -> bool {
        self.last + 1 == line && self.slot_of(self.last) + 1 == slot
    }
}

/// The lines of a list, one after the other. A loop of its own: iterators within iterators take
/// several times as many instructions, and compaction goes through the lines of every page often.
pub(super) struct Lines<'l> {
    lists: &'l ChunkLists,
    codes: core::slice::Iter<'l, u32>,
    /// Lines of the chunk that was looked at, and the slot of the first of them.
    rest: Range<u16>,
    slot: u32,
}

impl Iterator for Lines<'_> {
    type Item = (LineInPage, LogSlot);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            let code = *self.codes.next()?;
            let first = self.lists.line(code);
            // The last line of a run has a code of its own.
            let end = match ChunkLists::is_run(code) {
                true => self.lists.line(self.codes.as_slice()[0]),
                false => first + 1,
            };
            (self.rest, self.slot) = (first..end, self.lists.slot(code));
        }
        let found = (
            LineInPage::new(self.rest.start),
            self.lists.slot_of(self.slot),
        );
        self.rest.start += 1;
        self.slot += 1;
        Some(found)
    }
}

/// The chunk list of a page: where its block begins, in units of the smallest one << bits of a line
/// | codes less one. The count says how large the block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct List(pub(super) u32);

/// Base-two logarithm of the codes of a block, by those of its list less one: a load is quicker
/// than what not every processor has an instruction for.
const ROOM_BITS: [u8; MOST] = {
    let mut bits = [FIRST_BITS; MOST];
    let mut less_one = 1 << FIRST_BITS;
    while less_one < bits.len() {
        bits[less_one] = (usize::BITS - less_one.leading_zeros()) as u8;
        less_one += 1;
    }
    bits
};

/// Codes of parts of a chunk, a line of which has another slot, and of the chunk before it.
struct Parts {
    codes: [u32; 6],
    count: usize,
}

/// The chunk lists of all pages.
#[derive(Clone)]
pub(super) struct ChunkLists {
    blocks: Blocks,
    line_bits: u32,
    /// The bits of a list that are its count.
    count_mask: u32,
    /// The bits of a code that are its line.
    key_mask: u32,
    slot_shift: u32,
    /// The slot that is 0 in a code, and how far slots are apart.
    first_slot: u32,
    stride: u32,
}

impl ChunkLists {
    /// For pages of `2^line_bits` lines, in slots from `first_slot` on that are `stride` apart.
    pub(super) fn new(line_bits: u8, first_slot: LogSlot, stride: u32) -> Self {
        Self {
            blocks: Blocks::new(),
            line_bits: u32::from(line_bits),
            count_mask: (1 << line_bits) - 1,
            key_mask: (2 << line_bits) - 2,
            slot_shift: u32::from(line_bits) + 1,
            first_slot: first_slot.get(),
            stride,
        }
    }

    /// Memory of the lists in use.
    pub(super) fn memory(&self) -> u64 {
        self.blocks.used() * size_of::<u32>() as u64
    }

    /// Bytes that it holds.
    pub(super) fn held(&self) -> u64 {
        self.blocks.held()
    }

    /// Extents that there have ever been.
    #[cfg(test)]
    pub(super) fn extents(&self) -> usize {
        self.blocks.extents()
    }

    /// The number that stands for a slot in codes.
    #[inline]
    fn number_of(&self, slot: LogSlot) -> u32 {
        (slot.get() - self.first_slot) / self.stride
    }

    #[inline]
    fn slot_of(&self, number: u32) -> LogSlot {
        LogSlot::new(self.first_slot + number * self.stride)
    }

    fn code(&self, line: u16, slot: u32, is_run: bool) -> u32 {
        debug_assert!(slot < 1 << (u32::BITS - 1) >> self.line_bits);
        slot << self.slot_shift | self.key(line) | u32::from(is_run)
    }

    /// The line of a code, as it is in it.
    #[inline]
    fn key(&self, line: u16) -> u32 {
        u32::from(line) << 1
    }

    #[inline]
    fn line(&self, code: u32) -> u16 {
        ((code & self.key_mask) >> 1) as u16
    }

    #[inline]
    fn slot(&self, code: u32) -> u32 {
        code >> self.slot_shift
    }

    #[inline]
    fn is_run(code: u32) -> bool {
        code & 1 == 1
    }

    /// Codes of a list.
    #[inline]
    fn count(&self, list: List) -> usize {
        (list.0 & self.count_mask) as usize + 1
    }

    /// Where a list's block is, and how large.
    #[inline]
    fn block(&self, list: List) -> Block {
        Block {
            start: ((list.0 >> self.line_bits) as usize) << FIRST_BITS,
            bits: ROOM_BITS[self.count(list) - 1],
        }
    }

    #[inline]
    fn codes(&self, list: List) -> &[u32] {
        &self.blocks.of(self.block(list))[..self.count(list)]
    }

    fn block_mut(&mut self, list: List) -> &mut [u32] {
        self.blocks.of_mut(self.block(list))
    }

    /// A list of so many codes, whatever they are.
    fn take(&mut self, count: usize) -> List {
        // A list may name twice as many units as a half has slots. A page takes less than two for
        // each line that it gets until its half is free, even if all blocks that it grew out of
        // stay in extents that nobody else can use: so there are enough.
        let unit = self.blocks.take(ROOM_BITS[count - 1]).start >> FIRST_BITS;
        assert!(
            unit < 1 << (u32::BITS - self.line_bits),
            "a half has no more lines than its slots can name"
        );
        List((unit as u32) << self.line_bits | (count as u32 - 1))
    }

    /// The list of a page with one line.
    pub(super) fn create(&mut self, line: LineInPage, slot: LogSlot) -> List {
        let list = self.take(1);
        self.block_mut(list)[0] = self.code(line.get(), self.number_of(slot), false);
        list
    }

    /// The list of a page with these lines, in ascending order, each once. What `codes` has does
    /// not matter: it is memory for those of the list.
    pub(super) fn of_lines(
        &mut self,
        lines: &[(LineInPage, LogSlot)],
        codes: &mut Vec<u32>,
    ) -> List {
        codes.clear();
        // The line and the slot that would continue the last chunk, and whether it is a run.
        let (mut next, mut is_run) = (None, false);
        for (line, slot) in lines {
            let (line, slot) = (line.get(), self.number_of(*slot));
            let continues = next == Some((line, slot));
            if continues && is_run {
                // The last line of a run has a code of its own, and those between have none.
                codes.pop();
            } else if let Some(first) = codes.last_mut().filter(|_| continues) {
                *first |= 1;
            }
            codes.push(self.code(line, slot, false));
            (next, is_run) = (Some((line + 1, slot + 1)), continues);
        }
        let list = self.take(codes.len());
        self.block_mut(list)[..codes.len()].copy_from_slice(codes);
        list
    }

    /// Gives the room of a list back.
    pub(super) fn give_back(&mut self, list: List) {
        self.blocks.give_back(self.block(list));
    }

    /// The logged lines of a page, in ascending order; none of one that has no list.
    #[inline]
    pub(super) fn lines(&self, list: Option<List>) -> Lines<'_> {
        Lines {
            lists: self,
            codes: list.map_or(&[][..], |list| self.codes(list)).iter(),
            rest: 0..0,
            slot: 0,
        }
    }

    /// The slot of a line.
    #[inline(always)]
    pub(super) fn find(&self, list: List, line: LineInPage) -> Option<LogSlot> {
        if self.count(list) > Line::CODES {
            return self.find_among_many(list, line);
        }
        let (codes, start, at) = self.place_in_line(list, line);
        let code = codes[(start + at.checked_sub(1)?) % Line::CODES];
        self.slot_in(code, line)
    }

    /// As [`Self::find`], of a list that is too long for one comparison.
    #[cold]
    fn find_among_many(&self, list: List, line: LineInPage) -> Option<LogSlot> {
        let at = self.position(list, line).checked_sub(1)?;
        self.slot_in(self.codes(list)[at], line)
    }

    /// The slot of a line that is at or behind that of a code and before that of the next one.
    #[inline(always)]
    fn slot_in(&self, code: u32, line: LineInPage) -> Option<LogSlot> {
        let distance = self.key(line.get()) - (code & self.key_mask);
        let is_there = (distance == 0) | Self::is_run(code);
        is_there.then(|| self.slot_of(self.slot(code) + distance / 2))
    }

    /// How many codes are of the line or one before it.
    #[inline]
    fn position(&self, list: List, line: LineInPage) -> usize {
        if self.count(list) <= Line::CODES {
            return self.place_in_line(list, line).2;
        }
        let codes = self.codes(list);
        codes.partition_point(|code| self.line(*code) <= line.get())
    }

    /// The cache line with a list that is in one, where in it the list begins, and as
    /// [`Self::position`].
    #[inline(always)]
    fn place_in_line(&self, list: List, line: LineInPage) -> (&[u32; Line::CODES], usize, usize) {
        let start = ((list.0 >> self.line_bits) as usize) << FIRST_BITS;
        let codes = self.blocks.line(start);
        let start = start % Line::CODES;
        let behind = behind(codes, self.key_mask, self.key(line.get()));
        // The first that is behind the line, or the end of the list.
        let end = behind >> start | 1 << self.count(list);
        (codes, start, end.trailing_zeros() as usize)
    }

    /// The chunk that the code at a place is of, and where its codes are.
    fn chunk(&self, list: List, at: usize) -> (Chunk, Range<usize>) {
        let codes = self.codes(list);
        let is_last = at > 0 && Self::is_run(codes[at - 1]);
        let first = at - usize::from(is_last);
        let end = first + 1 + usize::from(Self::is_run(codes[first]));
        let chunk = Chunk {
            line: self.line(codes[first]),
            last: self.line(codes[end - 1]),
            slot: self.slot(codes[first]),
        };
        (chunk, first..end)
    }

    /// Makes `slot` the place of a line; returns the slot that it replaces.
    pub(super) fn insert(
        &mut self,
        list: &mut List,
        line: LineInPage,
        slot: LogSlot,
    ) -> Option<LogSlot> {
        let (at, slot) = (self.position(*list, line), self.number_of(slot));
        let line = line.get();
        let code = self.code(line, slot, false);
        let Some(last) = at.checked_sub(1) else {
            self.insert_code(list, at, code);
            return None;
        };
        let before = self.codes(*list)[last];
        let (old_line, old_slot) = (self.line(before), self.slot(before));
        if old_line == line || Self::is_run(before) {
            let (chunk, range) = self.chunk(*list, last);
            self.replace_line(list, chunk, range, line, Some(slot));
            let distance = u32::from(line - old_line);
            return Some(self.slot_of(old_slot + distance));
        }
        if (old_line + 1, old_slot + 1) == (line, slot) {
            if last > 0 && Self::is_run(self.codes(*list)[last - 1]) {
                self.block_mut(*list)[last] = code;
                return None;
            }
            self.block_mut(*list)[last] |= 1;
        }
        self.insert_code(list, at, code);
        None
    }

    /// Takes a line out of a list with more than that; returns its slot.
    pub(super) fn remove(&mut self, list: &mut List, line: LineInPage) -> Option<LogSlot> {
        let slot = self.find(*list, line)?;
        let at = self.position(*list, line) - 1;
        let (chunk, range) = self.chunk(*list, at);
        self.replace_line(list, chunk, range, line.get(), None);
        Some(slot)
    }

    /// Whether a list has one line and no more.
    pub(super) fn is_one_line(&self, list: List) -> bool {
        self.count(list) == 1
    }

    /// Gives a line of a chunk another slot, or none: what was before the line joins it if it can.
    fn replace_line(
        &mut self,
        list: &mut List,
        old: Chunk,
        mut range: Range<usize>,
        line: u16,
        slot: Option<u32>,
    ) {
        let mut own = slot.map(|slot| Chunk::of_line(line, slot));
        let before = old.before(line);
        if let (None, Some(slot), Some(at)) = (before, slot, range.start.checked_sub(1)) {
            let (earlier, codes) = self.chunk(*list, at);
            if earlier.precedes(line, slot) {
                own = Some(Chunk {
                    last: line,
                    ..earlier
                });
                range.start = codes.start;
            }
        }
        let parts = self.parts(&[before, own, old.behind(line)]);
        self.splice(list, range, &parts.codes[..parts.count]);
    }

    /// The codes of chunks.
    fn parts(&self, chunks: &[Option<Chunk>]) -> Parts {
        let (mut codes, mut count) = ([0; 6], 0);
        for chunk in chunks.iter().flatten() {
            let is_run = chunk.last > chunk.line;
            codes[count] = self.code(chunk.line, chunk.slot, is_run);
            count += 1;
            if is_run {
                codes[count] = self.code(chunk.last, chunk.slot_of(chunk.last), false);
                count += 1;
            }
        }
        Parts { codes, count }
    }

    /// Puts a code in front of that at a place.
    fn insert_code(&mut self, list: &mut List, at: usize, code: u32) {
        let count = self.count(*list);
        if 1 << ROOM_BITS[count - 1] == count {
            return self.move_to(list, at..at, &[code]);
        }
        let codes = &mut self.block_mut(*list)[..=count];
        codes.copy_within(at..count, at + 1);
        codes[at] = code;
        list.0 += 1;
    }

    /// Puts codes in the place of others; some are left.
    fn splice(&mut self, list: &mut List, gone: Range<usize>, parts: &[u32]) {
        let old_count = self.count(*list);
        let count = old_count - gone.len() + parts.len();
        if ROOM_BITS[count - 1] != ROOM_BITS[old_count - 1] {
            return self.move_to(list, gone, parts);
        }
        let end = gone.start + parts.len();
        let codes = self.block_mut(*list);
        codes.copy_within(gone.end..old_count, end);
        codes[gone.start..end].copy_from_slice(parts);
        list.0 = list.0 - (old_count as u32 - 1) + (count as u32 - 1);
    }

    /// As [`Self::splice`], where that takes a block of another size.
    fn move_to(&mut self, list: &mut List, gone: Range<usize>, parts: &[u32]) {
        let old_count = self.count(*list);
        let count = old_count - gone.len() + parts.len();
        let end = gone.start + parts.len();
        let new = self.take(count);
        let (from, to) = self.blocks.two(self.block(*list), self.block(new));
        to[..gone.start].copy_from_slice(&from[..gone.start]);
        to[gone.start..end].copy_from_slice(parts);
        to[end..count].copy_from_slice(&from[gone.end..old_count]);
        self.give_back(*list);
        *list = new;
    }
}

/// Which codes of a cache line are of lines behind this one: a bit each.
#[inline(always)]
fn behind(codes: &[u32; Line::CODES], key_mask: u32, key: u32) -> u32 {
    let (mask, key) = (i32x8::splat(key_mask as i32), i32x8::splat(key as i32));
    let [low, high] = [0, Line::CODES / 2].map(|at| {
        let half: [i32; 8] = core::array::from_fn(|nth| codes[at + nth] as i32);
        (i32x8::new(half) & mask).simd_gt(key).to_bitmask() as u32
    });
    low | high << (Line::CODES / 2)
}
