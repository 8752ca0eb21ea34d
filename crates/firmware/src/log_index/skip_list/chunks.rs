//! The chunk lists of all pages: which lines of a page are where in the log, as runs.
//!
//! A chunk is a run of lines whose slots follow each other: first line (1 B), length (1 B), first
//! slot (4 B). The chunks of a page lie in ascending order and do not overlap, in a block for up to
//! 2^n of them, the smallest that takes them: first all first lines, then all lengths, then all
//! slots, so that one comparison of vectors finds the chunk of a line. Eight chunks are 48 B.
//! Blocks are reused, so a log in steady state allocates nothing.
//!
//! Source: ByteFS §4.3 (chunk entry: 1 B block offset, 4 B log offset, 4 B length); the length
//! needs no more than 1 B here, for a chunk ends with its page.

use super::super::reserve;
use alloc::vec::Vec;
use core::hint::black_box;
use units::{LineInPage, LogSlot};
use wide::u8x16;

/// Bytes of a chunk.
pub(super) const CHUNK_BYTES: usize = 6;
/// What stands for a line in the room of a block that is not used.
const UNUSED: u8 = u8::MAX;
/// Room of the largest block, base-two logarithm: as many chunks as a page has lines.
const MOST_ROOM_BITS: usize = 8;

/// A run of lines of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Chunk {
    line: u8,
    /// Less one.
    length: u8,
    slot: u32,
}

impl Chunk {
    /// The run of `length` lines from `line` on, 1 to 256 of them.
    fn new(line: u16, length: u16, slot: u32) -> Self {
        debug_assert!(line < 256 && (1..=256).contains(&length));
        Self {
            line: line as u8,
            length: (length - 1) as u8,
            slot,
        }
    }
    #[inline]
    fn first(self) -> u16 {
        u16::from(self.line)
    }
    /// The line behind the last one.
    #[inline]
    fn end(self) -> u16 {
        self.first() + u16::from(self.length) + 1
    }
    #[inline]
    fn slot_of(self, line: u16) -> LogSlot {
        LogSlot::new(self.slot + u32::from(line - self.first()))
    }
    /// What is left of it up to a line of it.
    fn before(self, line: u16) -> Option<Self> {
        (line > self.first()).then(|| Self::new(self.first(), line - self.first(), self.slot))
    }
    /// What is left of it behind a line of it.
    fn behind(self, line: u16) -> Option<Self> {
        let slot = self.slot_of(line).get() + 1;
        (line + 1 < self.end()).then(|| Self::new(line + 1, self.end() - line - 1, slot))
    }
    /// Whether a line with this slot continues it.
    fn precedes(self, line: u16, slot: LogSlot) -> bool {
        self.end() == line && self.slot + u32::from(self.length) + 1 == slot.get()
    }
    /// Its lines with their slots.
    fn lines(self) -> impl Iterator<Item = (LineInPage, LogSlot)> {
        (self.first()..self.end()).map(move |line| (LineInPage::new(line), self.slot_of(line)))
    }
}

/// The chunk list of a page: number of its block << bits of a line | chunks less one. The count
/// says how large the block is. A half has no more pages than slots that its log can name, which
/// leave that many bits for a line, so both fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct List(pub(super) u32);

/// Base-two logarithm of the room of a block for so many chunks.
fn room_bits(count: usize) -> usize {
    usize::from(ROOM_BITS[count - 1])
}

/// By number of chunks less one: a load is quicker than what not every processor has an instruction
/// for.
const ROOM_BITS: [u8; 1 << MOST_ROOM_BITS] = {
    let mut bits = [0; 1 << MOST_ROOM_BITS];
    let mut less_one = 0;
    while less_one < bits.len() {
        bits[less_one] = (usize::BITS - less_one.leading_zeros()) as u8;
        less_one += 1;
    }
    bits
};

/// As [`ROOM_BITS`], the room itself.
const ROOM: [u16; 1 << MOST_ROOM_BITS] = {
    let mut room = [0; 1 << MOST_ROOM_BITS];
    let mut less_one = 0;
    while less_one < room.len() {
        room[less_one] = 1 << ROOM_BITS[less_one];
        less_one += 1;
    }
    room
};

/// Chunks that are found with one comparison.
const ONCE: usize = 16;
/// Bytes that are taken at once: the largest block whose chunks are, and then some, so that many a
/// place in them needs no check.
const TAKEN: usize = 128;
const _: () = assert!(ONCE * CHUNK_BYTES <= TAKEN);

/// All blocks with room for `1 << room_bits` chunks.
#[derive(Clone, Default)]
struct Arena {
    /// The blocks, and behind the last one as many bytes as are taken at once.
    bytes: Vec<u8>,
    free: Vec<u32>,
}

/// The chunks of the block at the beginning that begin at `line` or before.
#[inline(always)]
fn begun(block: &[u8], count: usize, line: u8) -> usize {
    if count > ONCE {
        return block[..count]
            .iter()
            .filter(|first| **first <= line)
            .count();
    }
    let lines = block.first_chunk().expect("some are behind the last block");
    begun_at_once(lines, count, line)
}

/// As [`begun`], of so few chunks that one comparison is enough.
#[inline(always)]
fn begun_at_once(lines: &[u8; ONCE], count: usize, line: u8) -> usize {
    let lines = u8x16::new(*lines);
    let begun = lines.min(u8x16::splat(line)).simd_eq(lines).to_bitmask();
    // The first that did not begin, or the end of the list.
    (!begun | 1 << count).trailing_zeros() as usize
}

#[inline]
fn chunk(block: &[u8], room: usize, at: usize) -> Chunk {
    let slot = block[2 * room + 4 * at..].first_chunk();
    Chunk {
        line: block[at],
        length: block[room + at],
        slot: u32::from_le_bytes(*slot.expect("a slot of 4 B")),
    }
}

fn put(block: &mut [u8], room: usize, at: usize, chunk: Chunk) {
    block[at] = chunk.line;
    block[room + at] = chunk.length;
    let place = 2 * room + 4 * at;
    block[place..place + 4].copy_from_slice(&chunk.slot.to_le_bytes());
}

/// The chunk lists of all pages.
#[derive(Clone)]
pub(super) struct ChunkLists {
    /// By base-two logarithm of the room; a power of two of them, which saves a check.
    arenas: [Arena; 16],
    /// Chunks that the blocks in use have room for.
    room: u64,
    line_bits: u32,
    /// The bits of a list that are its count.
    count_bits: u32,
}

impl ChunkLists {
    /// For pages of `2^line_bits` lines.
    pub(super) fn new(line_bits: u8) -> Self {
        Self {
            arenas: Default::default(),
            room: 0,
            line_bits: u32::from(line_bits),
            count_bits: (1 << line_bits) - 1,
        }
    }

    /// Memory of the lists in use.
    pub(super) fn memory(&self) -> u64 {
        self.room * CHUNK_BYTES as u64
    }

    /// Bytes that all arenas hold, with what they have reserved.
    pub(super) fn held(&self) -> u64 {
        let bytes =
            |arena: &Arena| arena.bytes.capacity() + arena.free.capacity() * size_of::<u32>();
        self.arenas.iter().map(bytes).sum::<usize>() as u64
    }

    /// Bytes that blocks have ever taken.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.arenas.iter().map(|arena| arena.bytes.len()).sum()
    }

    /// Chunks of a list.
    #[inline]
    pub(super) fn count(&self, list: List) -> usize {
        (list.0 & self.count_bits) as usize + 1
    }

    #[inline]
    fn bytes_of(&self, list: List) -> core::ops::Range<usize> {
        let size = CHUNK_BYTES << room_bits(self.count(list));
        let start = (list.0 >> self.line_bits) as usize * size;
        start..start + size
    }

    #[inline]
    fn block(&self, list: List) -> &[u8] {
        let arena = &self.arenas[room_bits(self.count(list))];
        &arena.bytes[self.bytes_of(list)]
    }

    fn block_mut(&mut self, list: List) -> &mut [u8] {
        let (bytes, room_bits) = (self.bytes_of(list), room_bits(self.count(list)));
        &mut self.arenas[room_bits].bytes[bytes]
    }

    /// A list of so many chunks, whatever they are.
    fn take(&mut self, count: usize) -> List {
        let (arena, size) = (
            &mut self.arenas[room_bits(count)],
            CHUNK_BYTES << room_bits(count),
        );
        self.room += 1 << room_bits(count);
        let block = arena.free.pop().unwrap_or_else(|| {
            let block = arena.bytes.len().saturating_sub(TAKEN) / size;
            reserve(&mut arena.bytes, size + TAKEN);
            arena.bytes.resize((block + 1) * size + TAKEN, UNUSED);
            u32::try_from(block).expect("a half has fewer than 2^32 pages")
        });
        debug_assert!(u64::from(block) < 1 << (u32::BITS - self.line_bits));
        List(block << self.line_bits | (count as u32 - 1))
    }

    /// The list of a page with one line.
    pub(super) fn create(&mut self, line: LineInPage, slot: LogSlot) -> List {
        let list = self.take(1);
        put(
            self.block_mut(list),
            1,
            0,
            Chunk::new(line.get(), 1, slot.get()),
        );
        list
    }

    /// Gives the room of a list back.
    pub(super) fn give_back(&mut self, list: List) {
        let room_bits = room_bits(self.count(list));
        self.room -= 1 << room_bits;
        self.arenas[room_bits].free.push(list.0 >> self.line_bits);
    }

    /// The chunk at a place of a list.
    #[inline]
    fn chunk(&self, list: List, at: usize) -> Chunk {
        chunk(self.block(list), 1 << room_bits(self.count(list)), at)
    }

    /// The logged lines of a page, in ascending order.
    pub(super) fn lines(&self, list: List) -> impl Iterator<Item = (LineInPage, LogSlot)> + '_ {
        (0..self.count(list)).flat_map(move |at| self.chunk(list, at).lines())
    }

    /// The place of the chunk that begins last at the line or before it, + 1.
    #[inline]
    fn position(&self, list: List, line: LineInPage) -> usize {
        begun(
            self.block_and_more(list),
            self.count(list),
            line.get() as u8,
        )
    }

    /// The slot of a line.
    #[inline(always)]
    pub(super) fn find(&self, list: List, line: LineInPage) -> Option<LogSlot> {
        let count = self.count(list);
        if count > ONCE {
            return self.find_among_many(list, line);
        }
        let (room_bits, room) = (ROOM_BITS[count - 1], usize::from(ROOM[count - 1]));
        let bytes = &self.arenas[usize::from(room_bits) % 16].bytes;
        let start = (list.0 >> self.line_bits) as usize * (CHUNK_BYTES * room);
        let block = bytes.get(start..start + TAKEN);
        let block: &[u8; TAKEN] = block
            .and_then(<[u8]>::first_chunk)
            .expect("some are behind");
        let lines = block.first_chunk().expect("more are taken");
        let at = begun_at_once(lines, count, line.get() as u8).checked_sub(1)?;
        // Half of the blocks lie in two cache lines. With this, the load of the second one need not
        // wait for what the comparison in the first one says.
        black_box(block[(room * CHUNK_BYTES - 1) % TAKEN]);
        let length = block[(room + at) % TAKEN];
        let slot = block[2 * room + 4 * at..].first_chunk();
        let chunk = Chunk {
            line: block[at % TAKEN],
            length,
            slot: u32::from_le_bytes(*slot.expect("a slot of 4 B")),
        };
        (line.get() < chunk.end()).then(|| chunk.slot_of(line.get()))
    }

    /// As [`Self::find`], of a list that is too long for one comparison.
    #[cold]
    fn find_among_many(&self, list: List, line: LineInPage) -> Option<LogSlot> {
        let at = self.position(list, line).checked_sub(1)?;
        let chunk = self.chunk(list, at);
        (line.get() < chunk.end()).then(|| chunk.slot_of(line.get()))
    }

    /// The block of a list and what is behind it.
    #[inline]
    fn block_and_more(&self, list: List) -> &[u8] {
        let arena = &self.arenas[room_bits(self.count(list))];
        &arena.bytes[self.bytes_of(list).start..]
    }

    /// Makes `slot` the place of a line; returns the slot that it replaces.
    pub(super) fn insert(
        &mut self,
        list: &mut List,
        line: LineInPage,
        slot: LogSlot,
    ) -> Option<LogSlot> {
        let (at, line) = (self.position(*list, line), line.get());
        let found = at.checked_sub(1).map(|at| self.chunk(*list, at));
        if let Some(last) = found
            && last.precedes(line, slot)
        {
            let room = 1 << room_bits(self.count(*list));
            self.block_mut(*list)[room + at - 1] += 1;
            return None;
        }
        let Some(covering) = found.filter(|chunk| line < chunk.end()) else {
            self.splice(list, at, 0, &[Chunk::new(line, 1, slot.get())]);
            return None;
        };
        self.replace_line(list, at - 1, line, Some(slot));
        Some(covering.slot_of(line))
    }

    /// Takes a line out of a list with more than that; returns its slot.
    pub(super) fn remove(&mut self, list: &mut List, line: LineInPage) -> Option<LogSlot> {
        let slot = self.find(*list, line)?;
        let at = self.position(*list, line) - 1;
        self.replace_line(list, at, line.get(), None);
        Some(slot)
    }

    /// Whether a list has one line and no more.
    pub(super) fn is_one_line(&self, list: List) -> bool {
        self.count(list) == 1 && self.chunk(list, 0).length == 0
    }

    /// Gives a line of the chunk at `at` another slot, or none: what was before the line joins it
    /// if it can.
    fn replace_line(&mut self, list: &mut List, at: usize, line: u16, slot: Option<LogSlot>) {
        let old = self.chunk(*list, at);
        let mut parts = [Chunk::default(); 3];
        let mut count = 0;
        let (mut first, mut gone) = (at, 1);
        let earlier = at.checked_sub(1).map(|before| self.chunk(*list, before));
        let mut put = |chunk: Chunk| {
            parts[count] = chunk;
            count += 1;
        };
        if let Some(before) = old.before(line) {
            put(before);
        }
        if let Some(slot) = slot {
            match earlier.filter(|it| it.precedes(line, slot)) {
                Some(earlier) => {
                    let length = u16::from(earlier.length) + 2;
                    put(Chunk::new(earlier.first(), length, earlier.slot));
                    (first, gone) = (at - 1, 2);
                }
                None => put(Chunk::new(line, 1, slot.get())),
            }
        }
        if let Some(behind) = old.behind(line) {
            put(behind);
        }
        self.splice(list, first, gone, &parts[..count]);
    }

    /// Puts chunks in the place of `gone` chunks from `at` on; some are left.
    fn splice(&mut self, list: &mut List, at: usize, gone: usize, parts: &[Chunk]) {
        let old_count = self.count(*list);
        let count = old_count - gone + parts.len();
        let room = 1 << room_bits(count);
        if room == 1 << room_bits(old_count) {
            let block = self.block_mut(*list);
            if at + gone < old_count && gone != parts.len() {
                for (start, size) in [(0, 1), (room, 1), (2 * room, 4)] {
                    let moved = start + (at + gone) * size..start + old_count * size;
                    block.copy_within(moved, start + (at + parts.len()) * size);
                }
            }
            for (nth, part) in parts.iter().enumerate() {
                put(block, room, at + nth, *part);
            }
            (count..old_count).for_each(|at| block[at] = UNUSED);
            list.0 = list.0 + count as u32 - old_count as u32;
        } else {
            *list = self.move_list(*list, at, gone, parts);
        }
    }

    /// The list in a block of another size, with other chunks in the place of `gone` from `at` on.
    fn move_list(&mut self, old: List, at: usize, gone: usize, parts: &[Chunk]) -> List {
        let old_count = self.count(old);
        let count = old_count - gone + parts.len();
        let new = self.take(count);
        let (from, to) = (room_bits(old_count), room_bits(count));
        let (from_bytes, to_bytes) = (self.bytes_of(old), self.bytes_of(new));
        let [from_arena, to_arena] = self
            .arenas
            .get_disjoint_mut([from, to])
            .expect("blocks of different sizes");
        let source = &from_arena.bytes[from_bytes];
        let target = &mut to_arena.bytes[to_bytes];
        let before = (0..at).map(|nth| chunk(source, 1 << from, nth));
        let behind = (at + gone..old_count).map(|nth| chunk(source, 1 << from, nth));
        let all = before.chain(parts.iter().copied()).chain(behind);
        for (nth, chunk) in all.enumerate() {
            put(target, 1 << to, nth, chunk);
        }
        target[count..1 << to].fill(UNUSED);
        self.give_back(old);
        new
    }
}
