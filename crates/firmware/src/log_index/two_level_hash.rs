//! SkyByte's log index: a hash table of pages, each with a small hash table of its logged lines.
//!
//! First level: LPA → page entry (16 B). Second level: open addressing with 4 B entries of line
//! number and slot, starting with four entries and doubling when the load factor would exceed 0.75,
//! up to the lines of a page, where a line's home is its own number (D15). Tables of one size lie
//! in one arena with a free list, so a log in steady state allocates nothing.
//!
//! Cost: two probes per lookup. Source: SkyByte §III-B, Fig. 12.

use super::{IndexCursor, LogIndex};
use alloc::vec::Vec;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use rustc_hash::FxBuildHasher;
use units::{LineInPage, LogSlot, Lpa, PageSize};

/// Entries of a new second-level table, base-two logarithm.
const FIRST_TABLE_BITS: u8 = 2;
/// Entries of a new second-level table (SkyByte §III-B).
pub const FIRST_TABLE_ENTRIES: u32 = 1 << FIRST_TABLE_BITS;
/// The load factor beyond which a second-level table doubles, numerator and denominator (SkyByte
/// §III-B).
pub const FULLEST: (u32, u32) = (3, 4);
/// An unused entry. No line and slot have this code: `ControllerConfig::validate` sees to it.
const EMPTY: u32 = u32::MAX;
/// Bytes of a first-level entry. SkyByte §III-B: 8 B LPA and 8 B pointer.
pub const FIRST_LEVEL_ENTRY_BYTES: u64 = 16;
/// Bytes of a second-level entry. SkyByte §III-B: 6 bits of line, 26 bits of slot.
pub const SECOND_LEVEL_ENTRY_BYTES: u64 = 4;

/// A page of the first level. `line_count` 0 marks a page that was removed.
#[derive(Clone)]
struct Page {
    lpa: Lpa,
    table: u32,
    line_count: u16,
    table_bits: u8,
}

/// All second-level tables of one size.
#[derive(Clone, Default)]
struct Arena {
    entries: Vec<u32>,
    free: Vec<u32>,
}

/// The two-level hash index of one half of the log.
#[derive(Clone)]
pub struct TwoLevelHash {
    /// LPA → position in `pages`; never iterated.
    positions: HashMap<Lpa, u32, FxBuildHasher>,
    /// In the order of first logging, removed ones included.
    pages: Vec<Page>,
    /// By base-two logarithm of the table size.
    arenas: Vec<Arena>,
    /// Entries of all tables in use.
    entry_count: u64,
    first_slot: LogSlot,
    line_bits: u8,
}

impl TwoLevelHash {
    fn page(&self, lpa: Lpa) -> Option<&Page> {
        let position = *self.positions.get(&lpa)?;
        Some(&self.pages[position as usize])
    }

    fn table(&self, page: &Page) -> &[u32] {
        let start = page.table as usize;
        &self.arenas[usize::from(page.table_bits)].entries[start..start + (1 << page.table_bits)]
    }

    #[inline]
    fn code(&self, line: LineInPage, slot: LogSlot) -> u32 {
        let offset = slot.get() - self.first_slot.get();
        (offset << self.line_bits) | u32::from(line.get())
    }

    #[inline]
    fn decode(&self, code: u32) -> (LineInPage, LogSlot) {
        let line = (code & ((1 << self.line_bits) - 1)) as u16;
        let slot = self.first_slot.get() + (code >> self.line_bits);
        (LineInPage::new(line), LogSlot::new(slot))
    }

    /// Where the line is in the table, or the free entry where it belongs. Ends, because a table
    /// with all lines of a page has each at home and a smaller one has a free entry.
    #[inline]
    fn probe(table: &[u32], line: LineInPage, line_bits: u8) -> usize {
        let line_mask = (1u32 << line_bits) - 1;
        let mut at = line.index() & (table.len() - 1);
        while table[at] != EMPTY && table[at] & line_mask != u32::from(line.get()) {
            at = (at + 1) & (table.len() - 1);
        }
        at
    }

    /// Moves the entries behind a gap up so that each is found on its way from home.
    fn close_gap(table: &mut [u32], gap: usize, line_bits: u8) {
        let (mut gap, mut at, last) = (gap, gap, table.len() - 1);
        for _ in 0..last {
            at = (at + 1) & last;
            if table[at] == EMPTY {
                return;
            }
            let home = (table[at] & ((1 << line_bits) - 1)) as usize & last;
            let (from_home, from_gap) = (at.wrapping_sub(home) & last, at.wrapping_sub(gap) & last);
            if from_home >= from_gap {
                table[gap] = table[at];
                table[at] = EMPTY;
                gap = at;
            }
        }
    }

    fn take_table(&mut self, bits: u8) -> u32 {
        self.entry_count += 1 << bits;
        let arena = &mut self.arenas[usize::from(bits)];
        if let Some(start) = arena.free.pop() {
            arena.entries[start as usize..start as usize + (1 << bits)].fill(EMPTY);
            return start;
        }
        let start = arena.entries.len();
        arena.entries.resize(start + (1 << bits), EMPTY);
        u32::try_from(start).expect("a half has fewer table entries than 2^32")
    }

    fn give_table(&mut self, start: u32, bits: u8) {
        self.entry_count -= 1 << bits;
        self.arenas[usize::from(bits)].free.push(start);
    }

    /// Doubles the table of the page at `position`.
    fn grow(&mut self, position: usize) {
        let (old, old_bits) = (self.pages[position].table, self.pages[position].table_bits);
        let bits = old_bits + 1;
        let new = self.take_table(bits) as usize;
        for offset in 0..1usize << old_bits {
            let code = self.arenas[usize::from(old_bits)].entries[old as usize + offset];
            if code != EMPTY {
                let line = self.decode(code).0;
                let table = &mut self.arenas[usize::from(bits)].entries[new..new + (1 << bits)];
                let at = Self::probe(table, line, self.line_bits);
                table[at] = code;
            }
        }
        self.give_table(old, old_bits);
        self.pages[position].table = new as u32;
        self.pages[position].table_bits = bits;
    }

    /// The position of the page in `pages`, made if it is new.
    fn position_of(&mut self, lpa: Lpa) -> usize {
        let next = u32::try_from(self.pages.len()).expect("a half has fewer pages than 2^32");
        match self.positions.entry(lpa) {
            Entry::Occupied(found) => *found.get() as usize,
            Entry::Vacant(vacant) => {
                vacant.insert(next);
                let table_bits = FIRST_TABLE_BITS.min(self.line_bits);
                let table = self.take_table(table_bits);
                self.pages.push(Page {
                    lpa,
                    table,
                    line_count: 0,
                    table_bits,
                });
                next as usize
            }
        }
    }
}

impl LogIndex for TwoLevelHash {
    fn new(page: PageSize, first_slot: LogSlot) -> Self {
        let mut arenas = Vec::new();
        arenas.resize_with(usize::from(page.line_bits()) + 1, Arena::default);
        Self {
            positions: HashMap::with_hasher(FxBuildHasher),
            pages: Vec::new(),
            arenas,
            entry_count: 0,
            first_slot,
            line_bits: page.line_bits(),
        }
    }

    fn insert(&mut self, lpa: Lpa, line: LineInPage, slot: LogSlot) -> Option<LogSlot> {
        let position = self.position_of(lpa);
        let code = self.code(line, slot);
        let page = &self.pages[position];
        let (size, count) = (1u32 << page.table_bits, u32::from(page.line_count));
        let table = self.table(page);
        let mut at = Self::probe(table, line, self.line_bits);
        let found = table[at];
        if found == EMPTY {
            self.pages[position].line_count += 1;
            if (count + 1) * FULLEST.1 > size * FULLEST.0 && size < 1 << self.line_bits {
                self.grow(position);
                at = Self::probe(self.table(&self.pages[position]), line, self.line_bits);
            }
        }
        let page = &self.pages[position];
        let arena = &mut self.arenas[usize::from(page.table_bits)];
        arena.entries[page.table as usize + at] = code;
        (found != EMPTY).then(|| self.decode(found).1)
    }

    #[inline]
    fn find(&self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        let table = self.table(self.page(lpa)?);
        let code = table[Self::probe(table, line, self.line_bits)];
        (code != EMPTY).then(|| self.decode(code).1)
    }

    fn has_page(&self, lpa: Lpa) -> bool {
        self.positions.contains_key(&lpa)
    }

    fn lines(&self, lpa: Lpa) -> impl Iterator<Item = (LineInPage, LogSlot)> + '_ {
        self.page(lpa)
            .map_or(&[][..], |page| self.table(page))
            .iter()
            .filter(|code| **code != EMPTY)
            .map(|code| self.decode(*code))
    }

    fn remove_line(&mut self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        let position = *self.positions.get(&lpa)? as usize;
        let page = &mut self.pages[position];
        let (start, size) = (page.table as usize, 1usize << page.table_bits);
        let table = &mut self.arenas[usize::from(page.table_bits)].entries[start..start + size];
        let at = Self::probe(table, line, self.line_bits);
        let code = core::mem::replace(&mut table[at], EMPTY);
        if code == EMPTY {
            return None;
        }
        Self::close_gap(table, at, self.line_bits);
        page.line_count -= 1;
        if page.line_count == 0 {
            let (table, bits) = (page.table, page.table_bits);
            self.positions.remove(&lpa);
            self.give_table(table, bits);
        }
        Some(self.decode(code).1)
    }

    fn remove_page(&mut self, lpa: Lpa) -> bool {
        let Some(position) = self.positions.remove(&lpa) else {
            return false;
        };
        let page = &mut self.pages[position as usize];
        page.line_count = 0;
        let (table, bits) = (page.table, page.table_bits);
        self.give_table(table, bits);
        true
    }

    fn next_page(&self, cursor: &mut IndexCursor) -> Option<Lpa> {
        while let Some(page) = self.pages.get(cursor.0) {
            cursor.0 += 1;
            if page.line_count > 0 {
                return Some(page.lpa);
            }
        }
        None
    }

    fn page_count(&self) -> usize {
        self.positions.len()
    }

    fn reset(&mut self) {
        assert!(
            self.positions.is_empty(),
            "the index of a half is reset only when every page has left it"
        );
        self.pages.clear();
    }

    fn memory(&self) -> u64 {
        self.positions.len() as u64 * FIRST_LEVEL_ENTRY_BYTES
            + self.entry_count * SECOND_LEVEL_ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: LineInPage = LineInPage::new(5);

    fn index() -> TwoLevelHash {
        TwoLevelHash::new(PageSize::KIB_4, LogSlot::new(1000))
    }

    #[test]
    fn a_line_written_twice_keeps_the_newest_slot() {
        let mut index = index();
        assert_eq!(index.insert(Lpa::new(1), LINE, LogSlot::new(1000)), None);
        let replaced = index.insert(Lpa::new(1), LINE, LogSlot::new(1007));
        assert_eq!(replaced, Some(LogSlot::new(1000)));
        assert_eq!(index.find(Lpa::new(1), LINE), Some(LogSlot::new(1007)));
    }

    #[test]
    fn tables_double_when_the_load_would_exceed_three_quarters() {
        let mut index = index();
        let mut sizes = Vec::new();
        for line in 0..64u16 {
            let slot = LogSlot::new(1000 + u32::from(line));
            index.insert(Lpa::new(9), LineInPage::new(line), slot);
            sizes.push((index.memory() - 16) / 4);
        }
        let size_at = |lines: usize| sizes[lines - 1];
        assert_eq!([size_at(1), size_at(3), size_at(4)], [4, 4, 8]);
        assert_eq!([size_at(6), size_at(7), size_at(12)], [8, 16, 16]);
        assert_eq!([size_at(13), size_at(25), size_at(64)], [32, 64, 64]);
    }

    #[test]
    fn the_worst_case_of_the_paper_is_32_bytes_per_page() {
        let mut index = index();
        for page in 0..100 {
            index.insert(Lpa::new(page), LINE, LogSlot::new(1000 + page as u32));
        }
        assert_eq!(index.memory(), 100 * 32);
    }

    #[test]
    fn a_log_in_steady_state_reuses_its_tables() {
        let mut index = index();
        let mut sizes = Vec::new();
        for _ in 0..3 {
            for slot in 0..500u32 {
                let line = LineInPage::new((slot % 37) as u16);
                index.insert(
                    Lpa::new(u64::from(slot % 23)),
                    line,
                    LogSlot::new(1000 + slot),
                );
            }
            for page in 0..23 {
                assert!(index.remove_page(Lpa::new(page)));
            }
            index.reset();
            sizes.push(index.arenas.iter().map(|a| a.entries.len()).sum::<usize>());
        }
        assert_eq!(sizes[0], sizes[2]);
        assert_eq!(index.memory(), 0);
    }
}
