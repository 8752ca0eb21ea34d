//! SkyByte's log index: a hash table of pages, each with a small hash table of its logged lines.
//!
//! First level: LPA → page entry (16 B with its key). Second level: open addressing with 4 B
//! entries of line and slot, starting with four entries and doubling when the load factor would
//! exceed 0.75, up to the lines of a page, where a line's home is its own number (D15). Tables of
//! one size lie in one arena with a free list, so a log in steady state allocates nothing.
//!
//! Cost: two probes per lookup. Source: SkyByte §III-B, Fig. 12.

use super::{IndexCursor, LogIndex};
use alloc::vec::Vec;
use core::ops::Range;
use hashbrown::HashMap;
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

/// Where the second-level table of a page is: its number among those of its size << 4 | base-two
/// logarithm of its entries. Half as many bits as a pointer, so that a page of the first level and
/// its key take 16 B.
#[derive(Clone, Copy)]
struct Table(u32);

impl Table {
    const SIZE_BITS: u32 = 4;

    fn new(number: u32, bits: u8) -> Self {
        assert!(
            number < 1 << (u32::BITS - Self::SIZE_BITS),
            "a half has fewer than 2^28 pages"
        );
        Self(number << Self::SIZE_BITS | u32::from(bits))
    }
    /// Base-two logarithm of its entries.
    #[inline]
    fn bits(self) -> u8 {
        (self.0 & ((1 << Self::SIZE_BITS) - 1)) as u8
    }
    #[inline]
    fn len(self) -> usize {
        1 << self.bits()
    }
    /// Its entries among those of all tables of its size.
    #[inline]
    fn range(self) -> Range<usize> {
        let start = ((self.0 >> Self::SIZE_BITS) as usize) << self.bits();
        start..start + self.len()
    }
}

/// A page of the first level.
#[derive(Clone, Copy)]
struct Page {
    /// In the order of first logging.
    position: u32,
    table: Table,
}

/// Stands in the order of first logging where a page was removed.
const REMOVED: Lpa = Lpa::new(u64::MAX);

/// All second-level tables of one size.
#[derive(Clone, Default)]
struct Arena {
    entries: Vec<u32>,
    free: Vec<Table>,
}

/// The two-level hash index of one half of the log.
#[derive(Clone)]
pub struct TwoLevelHash {
    /// Never iterated.
    pages: HashMap<Lpa, Page, FxBuildHasher>,
    /// In the order of first logging, with gaps where pages were removed.
    order: Vec<Lpa>,
    /// By base-two logarithm of the table size.
    arenas: Vec<Arena>,
    /// Entries of all tables in use.
    entry_count: u64,
    first_slot: LogSlot,
    line_bits: u8,
}

impl TwoLevelHash {
    #[inline]
    fn table(&self, table: Table) -> &[u32] {
        &self.arenas[usize::from(table.bits())].entries[table.range()]
    }

    #[inline]
    fn table_mut(&mut self, table: Table) -> &mut [u32] {
        &mut self.arenas[usize::from(table.bits())].entries[table.range()]
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

    fn take_table(&mut self, bits: u8) -> Table {
        self.entry_count += 1 << bits;
        let arena = &mut self.arenas[usize::from(bits)];
        if let Some(table) = arena.free.pop() {
            arena.entries[table.range()].fill(EMPTY);
            return table;
        }
        let start = arena.entries.len();
        arena.entries.resize(start + (1 << bits), EMPTY);
        let number = u32::try_from(start >> bits).expect("a half has fewer than 2^32 pages");
        Table::new(number, bits)
    }

    fn give_table(&mut self, table: Table) {
        self.entry_count -= 1 << table.bits();
        self.arenas[usize::from(table.bits())].free.push(table);
    }

    /// Takes a table of twice the size for what is in `old`.
    fn grow(&mut self, old: Table) -> Table {
        let new = self.take_table(old.bits() + 1);
        for at in old.range() {
            let code = self.arenas[usize::from(old.bits())].entries[at];
            if code != EMPTY {
                let (line, line_bits) = (self.decode(code).0, self.line_bits);
                let table = self.table_mut(new);
                let at = Self::probe(table, line, line_bits);
                table[at] = code;
            }
        }
        self.give_table(old);
        new
    }

    /// The table of a page; of a new one, an empty table.
    fn table_of(&mut self, lpa: Lpa) -> Table {
        if let Some(page) = self.pages.get(&lpa) {
            return page.table;
        }
        let position = u32::try_from(self.order.len()).expect("a half has fewer than 2^32 pages");
        let table = self.take_table(FIRST_TABLE_BITS.min(self.line_bits));
        self.pages.insert(lpa, Page { position, table });
        self.order.push(lpa);
        table
    }

    /// Forgets a page of the first level.
    fn remove(&mut self, lpa: Lpa) -> Option<Table> {
        let page = self.pages.remove(&lpa)?;
        self.order[page.position as usize] = REMOVED;
        self.give_table(page.table);
        Some(page.table)
    }
}

impl LogIndex for TwoLevelHash {
    fn new(page: PageSize, first_slot: LogSlot) -> Self {
        let mut arenas = Vec::new();
        arenas.resize_with(usize::from(page.line_bits()) + 1, Arena::default);
        Self {
            pages: HashMap::with_hasher(FxBuildHasher),
            order: Vec::new(),
            arenas,
            entry_count: 0,
            first_slot,
            line_bits: page.line_bits(),
        }
    }

    fn insert(&mut self, lpa: Lpa, line: LineInPage, slot: LogSlot) -> Option<LogSlot> {
        let (code, line_bits) = (self.code(line, slot), self.line_bits);
        let table = self.table_of(lpa);
        let entries = self.table_mut(table);
        let mut at = Self::probe(entries, line, line_bits);
        let found = entries[at];
        if found != EMPTY || table.bits() == line_bits {
            entries[at] = code;
            return (found != EMPTY).then(|| self.decode(found).1);
        }
        let count = entries
            .iter()
            .map(|code| u32::from(*code != EMPTY))
            .sum::<u32>()
            + 1;
        let mut table = table;
        if count * FULLEST.1 > (table.len() as u32) * FULLEST.0 {
            table = self.grow(table);
            let page = self.pages.get_mut(&lpa).expect("its table is known");
            page.table = table;
            at = Self::probe(self.table(table), line, line_bits);
        }
        self.table_mut(table)[at] = code;
        None
    }

    #[inline]
    fn find(&self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        let entries = self.table(self.pages.get(&lpa)?.table);
        let code = entries[Self::probe(entries, line, self.line_bits)];
        (code != EMPTY).then(|| self.decode(code).1)
    }

    fn has_page(&self, lpa: Lpa) -> bool {
        self.pages.contains_key(&lpa)
    }

    fn lines(&self, lpa: Lpa) -> impl Iterator<Item = (LineInPage, LogSlot)> + '_ {
        self.pages
            .get(&lpa)
            .map_or(&[][..], |page| self.table(page.table))
            .iter()
            .filter(|code| **code != EMPTY)
            .map(|code| self.decode(*code))
    }

    fn remove_line(&mut self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        let (table, line_bits) = (self.pages.get(&lpa)?.table, self.line_bits);
        let entries = self.table_mut(table);
        let at = Self::probe(entries, line, line_bits);
        let code = core::mem::replace(&mut entries[at], EMPTY);
        if code == EMPTY {
            return None;
        }
        Self::close_gap(entries, at, line_bits);
        if entries.iter().all(|code| *code == EMPTY) {
            self.remove(lpa);
        }
        Some(self.decode(code).1)
    }

    fn remove_page(&mut self, lpa: Lpa) -> bool {
        self.remove(lpa).is_some()
    }

    fn next_page(&self, cursor: &mut IndexCursor) -> Option<Lpa> {
        while let Some(lpa) = self.order.get(cursor.0) {
            cursor.0 += 1;
            if *lpa != REMOVED {
                return Some(*lpa);
            }
        }
        None
    }

    fn page_count(&self) -> usize {
        self.pages.len()
    }

    fn reset(&mut self) {
        assert!(
            self.pages.is_empty(),
            "the index of a half is reset only when every page has left it"
        );
        self.order.clear();
    }

    fn memory(&self) -> u64 {
        self.pages.len() as u64 * FIRST_LEVEL_ENTRY_BYTES
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
