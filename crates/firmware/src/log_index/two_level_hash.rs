//! SkyByte's log index: a hash table of pages, each with a small hash table of its logged lines.
//!
//! First level: [`Pages`], LPA → table. Second level: [`Tables`], open addressing with 4 B entries
//! of line and slot, starting with four entries and doubling when the load factor would exceed
//! 0.75, up to the lines of a page, where a line's home is its own number (D15).
//!
//! Cost: two cache lines per lookup. Source: SkyByte §III-B, Fig. 12.

mod pages;
mod tables;

use super::{IndexCursor, LogIndex, reserve};
use alloc::vec::Vec;
use core::hint::select_unpredictable;
use pages::Pages;
use tables::{EMPTY, Table, Tables};
use units::{LineInPage, LogSlot, Lpa, PageSize};

/// Entries of a new second-level table, base-two logarithm.
const FIRST_TABLE_BITS: u8 = 2;
/// Entries of a new second-level table (SkyByte §III-B).
pub const FIRST_TABLE_ENTRIES: u32 = 1 << FIRST_TABLE_BITS;
/// The load factor beyond which a second-level table doubles, numerator and denominator (SkyByte
/// §III-B).
pub const FULLEST: (u32, u32) = (3, 4);
/// Bytes of a first-level entry. SkyByte §III-B: 8 B LPA and 8 B pointer.
pub const FIRST_LEVEL_ENTRY_BYTES: u64 = 16;
/// Bytes of a second-level entry. SkyByte §III-B: 6 bits of line, 26 bits of slot.
pub const SECOND_LEVEL_ENTRY_BYTES: u64 = 4;

/// Stands in the order of first logging where a page was removed.
const REMOVED: Lpa = Lpa::new(u64::MAX);

/// The two-level hash index of one half of the log.
#[derive(Clone)]
pub struct TwoLevelHash {
    pages: Pages,
    tables: Tables,
    /// In the order of first logging, with gaps where pages were removed.
    order: Vec<Lpa>,
    /// The page that was written last, and its table: lines of a page are often written together.
    finger: Option<(Lpa, Table)>,
    first_slot: LogSlot,
    line_bits: u8,
}

impl TwoLevelHash {
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

    /// The slot of a line of the page with this table.
    #[inline(always)]
    fn find_in(&self, table: Table, line: LineInPage) -> Option<LogSlot> {
        let code = self.tables.find(table, line);
        (code != EMPTY).then(|| self.decode(code).1)
    }

    /// The table of a page; of a new one, an empty table.
    fn table_of(&mut self, lpa: Lpa) -> Table {
        if let Some((page, table)) = self.finger
            && page == lpa
        {
            return table;
        }
        if let Some(table) = self.pages.find(lpa) {
            self.finger = Some((lpa, table));
            return table;
        }
        let position = u32::try_from(self.order.len()).expect("a half has fewer than 2^32 pages");
        let table = self.tables.take(FIRST_TABLE_BITS.min(self.line_bits));
        self.pages.insert(lpa, table, position);
        reserve(&mut self.order, 1);
        self.order.push(lpa);
        self.finger = Some((lpa, table));
        table
    }
}

impl LogIndex for TwoLevelHash {
    fn new(page: PageSize, first_slot: LogSlot, _stride: u32) -> Self {
        Self {
            pages: Pages::new(),
            tables: Tables::new(page.line_bits()),
            order: Vec::new(),
            finger: None,
            first_slot,
            line_bits: page.line_bits(),
        }
    }

    fn insert(&mut self, lpa: Lpa, line: LineInPage, slot: LogSlot) -> Option<LogSlot> {
        let code = self.code(line, slot);
        let table = self.table_of(lpa);
        let mut at = self.tables.probe(table, line);
        let entries = self.tables.of_mut(table);
        let found = entries[at];
        if found != EMPTY || table.bits() == self.line_bits {
            entries[at] = code;
            return (found != EMPTY).then(|| self.decode(found).1);
        }
        let used = entries.iter().map(|code| u32::from(*code != EMPTY));
        let count = used.sum::<u32>() + 1;
        let mut table = table;
        if count * FULLEST.1 > (table.len() as u32) * FULLEST.0 {
            table = self.tables.grow(table);
            self.pages.set_table(lpa, table);
            self.finger = Some((lpa, table));
            at = self.tables.probe(table, line);
        }
        self.tables.of_mut(table)[at] = code;
        None
    }

    #[inline]
    fn find(&self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        self.find_in(self.pages.find(lpa)?, line)
    }

    #[inline]
    fn find_newest(newer: &Self, older: &Self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        // In which half a page is, no processor can guess: it would wait for one search before it
        // begins the other, or the next lookup.
        let (in_newer, in_older) = (newer.pages.look_up(lpa), older.pages.look_up(lpa));
        let is_newer = in_newer != 0;
        let half = select_unpredictable(is_newer, newer, older);
        let table = select_unpredictable(is_newer, in_newer, in_older);
        let found = half.find_in(Table::from_code(table)?, line);
        if found.is_some() || !is_newer {
            return found;
        }
        older.find_in(Table::from_code(in_older)?, line)
    }

    fn has_page(&self, lpa: Lpa) -> bool {
        self.pages.find(lpa).is_some()
    }

    fn lines(&self, lpa: Lpa) -> impl Iterator<Item = (LineInPage, LogSlot)> + '_ {
        let table = self.pages.find(lpa);
        let codes = table.map_or(&[][..], |table| self.tables.of(table)).iter();
        let used = codes.filter(|code| **code != EMPTY);
        used.map(|code| self.decode(*code))
    }

    fn remove_line(&mut self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        let table = self.pages.find(lpa)?;
        let at = self.tables.probe(table, line);
        let entries = self.tables.of_mut(table);
        let code = core::mem::replace(&mut entries[at], EMPTY);
        if code == EMPTY {
            return None;
        }
        self.tables.close_gap(table, at);
        if self.tables.of(table).iter().all(|code| *code == EMPTY) {
            self.remove_page(lpa);
        }
        Some(self.decode(code).1)
    }

    fn remove_page(&mut self, lpa: Lpa) -> bool {
        let Some((table, position)) = self.pages.remove(lpa) else {
            return false;
        };
        self.finger = None;
        self.order[position as usize] = REMOVED;
        self.tables.give_back(table);
        true
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
        self.pages.count()
    }

    fn reset(&mut self) {
        assert!(
            self.pages.count() == 0,
            "the index of a half is reset only when every page has left it"
        );
        self.order.clear();
    }

    fn memory(&self) -> u64 {
        self.pages.count() as u64 * FIRST_LEVEL_ENTRY_BYTES
            + self.tables.entries() * SECOND_LEVEL_ENTRY_BYTES
    }

    fn memory_held(&self) -> u64 {
        let order = self.order.capacity() * size_of::<Lpa>();
        order as u64 + self.pages.held() + self.tables.held()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: LineInPage = LineInPage::new(5);

    fn index() -> TwoLevelHash {
        TwoLevelHash::new(PageSize::KIB_4, LogSlot::new(1000), 1)
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
            sizes.push(index.tables.extents());
        }
        assert_eq!(sizes[0], sizes[2]);
        assert_eq!(index.memory(), 0);
    }
}
