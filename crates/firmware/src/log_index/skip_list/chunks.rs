//! The chunk lists of all pages: which lines of a page are where in the log, as runs.
//!
//! A chunk is a run of lines whose slots follow each other: first line (1 B), length (1 B), first
//! slot (4 B). The chunks of a page lie side by side in ascending order and do not overlap, in a
//! piece of an arena for lists of up to 2^n chunks; pieces are reused, so a log in steady state
//! allocates nothing.
//!
//! Source: ByteFS §4.3 (chunk entry: 1 B block offset, 4 B log offset, 4 B length); the length
//! needs no more than 1 B here, for a chunk ends with its page.

use alloc::vec;
use alloc::vec::Vec;
use units::{LineInPage, LogSlot};

/// A run of lines of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Chunk {
    line: u8,
    /// Less one.
    length: u8,
    /// Low half first: a chunk takes 6 B.
    slot: [u16; 2],
}

/// Bytes of a chunk.
pub(super) const CHUNK_BYTES: u64 = size_of::<Chunk>() as u64;

impl Chunk {
    /// The run of `length` lines from `line` on, 1 to 256 of them.
    pub(super) fn new(line: u16, length: u16, slot: u32) -> Self {
        debug_assert!(line < 256 && (1..=256).contains(&length));
        Self {
            line: line as u8,
            length: (length - 1) as u8,
            slot: [slot as u16, (slot >> 16) as u16],
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
    fn slot(self) -> u32 {
        u32::from(self.slot[0]) | u32::from(self.slot[1]) << 16
    }
    #[inline]
    fn slot_of(self, line: u16) -> LogSlot {
        LogSlot::new(self.slot() + u32::from(line - self.first()))
    }
    /// What is left of it up to a line of it.
    fn before(self, line: u16) -> Option<Self> {
        (line > self.first()).then(|| Self::new(self.first(), line - self.first(), self.slot()))
    }
    /// What is left of it behind a line of it.
    fn behind(self, line: u16) -> Option<Self> {
        let slot = self.slot_of(line).get() + 1;
        (line + 1 < self.end()).then(|| Self::new(line + 1, self.end() - line - 1, slot))
    }
    /// Whether a line with this slot continues it.
    fn precedes(self, line: u16, slot: LogSlot) -> bool {
        self.end() == line && self.slot() + u32::from(self.length) + 1 == slot.get()
    }
    /// Its lines with their slots.
    pub(super) fn lines(self) -> impl Iterator<Item = (LineInPage, LogSlot)> {
        (self.first()..self.end()).map(move |line| (LineInPage::new(line), self.slot_of(line)))
    }
}

/// The chunk list of a page: where it is, and how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct List {
    pub(super) start: u32,
    pub(super) count: u16,
    /// Base-two logarithm of the chunks that it has room for.
    pub(super) size_bits: u8,
}

/// All lists with room for one number of chunks.
#[derive(Clone, Default)]
struct Arena {
    chunks: Vec<Chunk>,
    free: Vec<u32>,
}

/// The chunk lists of all pages.
#[derive(Clone)]
pub(super) struct ChunkLists {
    /// By base-two logarithm of the room.
    arenas: Vec<Arena>,
    /// Chunks that the lists in use have room for.
    room: u64,
}

impl ChunkLists {
    /// For pages of `2^line_bits` lines.
    pub(super) fn new(line_bits: u8) -> Self {
        Self {
            arenas: vec![Arena::default(); usize::from(line_bits) + 1],
            room: 0,
        }
    }

    /// Memory of the lists in use.
    pub(super) fn memory(&self) -> u64 {
        self.room * CHUNK_BYTES
    }

    fn take(&mut self, size_bits: u8) -> u32 {
        self.room += 1 << size_bits;
        let arena = &mut self.arenas[usize::from(size_bits)];
        arena.free.pop().unwrap_or_else(|| {
            let start = arena.chunks.len();
            arena
                .chunks
                .resize(start + (1 << size_bits), Chunk::default());
            u32::try_from(start).expect("a half has fewer than 2^32 chunks")
        })
    }

    /// The list of a page with one line.
    pub(super) fn create(&mut self, line: LineInPage, slot: LogSlot) -> List {
        let start = self.take(0);
        self.arenas[0].chunks[start as usize] = Chunk::new(line.get(), 1, slot.get());
        List {
            start,
            count: 1,
            size_bits: 0,
        }
    }

    /// Gives the room of a list back.
    pub(super) fn give_back(&mut self, list: List) {
        self.room -= 1 << list.size_bits;
        self.arenas[usize::from(list.size_bits)]
            .free
            .push(list.start);
    }

    /// The chunks of a list, in ascending order.
    #[inline]
    pub(super) fn chunks(&self, list: List) -> &[Chunk] {
        let start = list.start as usize;
        &self.arenas[usize::from(list.size_bits)].chunks[start..start + usize::from(list.count)]
    }

    /// The place of the chunk that begins last at the line or before it, + 1.
    #[inline]
    fn position(chunks: &[Chunk], line: LineInPage) -> usize {
        let line = line.get();
        if chunks.len() <= 16 {
            // Without a branch for each chunk.
            return chunks
                .iter()
                .map(|chunk| usize::from(chunk.first() <= line))
                .sum();
        }
        chunks.partition_point(|chunk| chunk.first() <= line)
    }

    /// The slot of a line.
    #[inline]
    pub(super) fn find(&self, list: List, line: LineInPage) -> Option<LogSlot> {
        let chunks = self.chunks(list);
        let chunk = chunks[..Self::position(chunks, line)].last()?;
        (line.get() < chunk.end()).then(|| chunk.slot_of(line.get()))
    }

    /// Makes `slot` the place of a line; returns the slot that it replaces.
    pub(super) fn insert(
        &mut self,
        list: &mut List,
        line: LineInPage,
        slot: LogSlot,
    ) -> Option<LogSlot> {
        let (at, line) = (Self::position(self.chunks(*list), line), line.get());
        let chunks = self.chunks_mut(*list);
        if let Some(last) = chunks[..at].last_mut()
            && last.precedes(line, slot)
            && chunks.get(at).is_none_or(|next| next.first() > line)
        {
            chunks[at - 1].length += 1;
            return None;
        }
        let found = chunks[..at].last().copied();
        let Some(covering) = found.filter(|chunk| line < chunk.end()) else {
            self.splice(list, at, 0, &[Chunk::new(line, 1, slot.get())]);
            return None;
        };
        let replaced = covering.slot_of(line);
        self.replace_line(list, at - 1, line, Some(slot));
        Some(replaced)
    }

    /// Takes a line out; returns its slot.
    pub(super) fn remove(&mut self, list: &mut List, line: LineInPage) -> Option<LogSlot> {
        let slot = self.find(*list, line)?;
        let at = Self::position(self.chunks(*list), line) - 1;
        self.replace_line(list, at, line.get(), None);
        Some(slot)
    }

    /// Gives a line of the chunk at `at` another slot, or none: what was before the line joins it
    /// if it can.
    fn replace_line(&mut self, list: &mut List, at: usize, line: u16, slot: Option<LogSlot>) {
        let chunks = self.chunks(*list);
        let old = chunks[at];
        let mut parts = [Chunk::default(); 3];
        let mut count = 0;
        let (mut first, mut gone) = (at, 1);
        let earlier = at.checked_sub(1).map(|before| chunks[before]);
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
                    put(Chunk::new(earlier.first(), length, earlier.slot()));
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

    fn chunks_mut(&mut self, list: List) -> &mut [Chunk] {
        let start = list.start as usize;
        let arena = &mut self.arenas[usize::from(list.size_bits)];
        &mut arena.chunks[start..start + usize::from(list.count)]
    }

    /// Puts chunks in the place of `gone` chunks from `at` on.
    fn splice(&mut self, list: &mut List, at: usize, gone: usize, parts: &[Chunk]) {
        let old_count = usize::from(list.count);
        let count = old_count - gone + parts.len();
        let old = *list;
        list.count = count as u16;
        while count > 1 << list.size_bits {
            list.size_bits += 1;
        }
        if list.size_bits != old.size_bits {
            self.move_list(old, list);
        }
        let start = list.start as usize;
        let room = &mut self.arenas[usize::from(list.size_bits)].chunks[start..];
        room.copy_within(at + gone..old_count, at + parts.len());
        room[at..at + parts.len()].copy_from_slice(parts);
    }

    /// Takes room of the new size for a list and moves its chunks there.
    fn move_list(&mut self, old: List, list: &mut List) {
        list.start = self.take(list.size_bits);
        let (small, large) = self.arenas.split_at_mut(usize::from(list.size_bits));
        let (from, to) = (old.start as usize, list.start as usize);
        let chunks = &small[usize::from(old.size_bits)].chunks[from..from + usize::from(old.count)];
        large[0].chunks[to..to + chunks.len()].copy_from_slice(chunks);
        self.give_back(old);
    }
}
