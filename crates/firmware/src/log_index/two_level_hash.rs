//! SkyByte's log index: a hash table of pages, each with a small hash table of its logged lines.
//!
//! First level: [`Pages`], LPA → table. Second level: [`Tables`], 4 B entries of line and slot,
//! from four entries doubling up to the lines of a page. SkyByte's are hash tables, three quarters
//! full at most; those of up to sixteen entries need no hashing here and are filled to the last
//! entry.
//!
//! Cost: two cache lines per lookup. Source: SkyByte §III-B, Fig. 12.

mod pages;
mod tables;

use super::{IndexCursor, LogIndex, reserve};
use alloc::vec::Vec;
use core::hint::select_unpredictable;
use pages::{NO_PAGE, Pages};
use tables::{EMPTY, Table, Tables};
use units::{LineInPage, LogSlot, Lpa, PageSize};

/// Entries of a new second-level table, base-two logarithm.
const FIRST_TABLE_BITS: u8 = 2;
/// Entries of a new second-level table (SkyByte §III-B).
pub const FIRST_TABLE_ENTRIES: u32 = 1 << FIRST_TABLE_BITS;
/// The load factor beyond which a second-level table of SkyByte's doubles, numerator and
/// denominator (SkyByte §III-B). Here one that is longer than a cache line does.
pub const FULLEST: (u32, u32) = (3, 4);
/// Bytes of a first-level entry. SkyByte §III-B: 8 B LPA and 8 B pointer.
pub const FIRST_LEVEL_ENTRY_BYTES: u64 = 16;
/// Bytes of a second-level entry. SkyByte §III-B: 6 bits of line, 26 bits of slot.
pub const SECOND_LEVEL_ENTRY_BYTES: u64 = 4;

/// The two-level hash index of one half of the log.
#[derive(Clone)]
pub struct TwoLevelHash {
    pages: Pages,
    tables: Tables,
    /// In the order of first logging, with gaps where pages were removed.
    order: Vec<u32>,
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
        let table = self.tables.take_first();
        let page = self.pages.insert(lpa, table, position);
        reserve(&mut self.order, 1);
        self.order.push(page);
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
        let mut table = self.table_of(lpa);
        let before = loop {
            match self.tables.put(table, line, code) {
                Some(before) => break before,
                None => table = self.tables.grow(table),
            }
            self.pages.set_table(lpa, table);
            self.finger = Some((lpa, table));
        };
        (before != EMPTY).then(|| self.decode(before).1)
    }

    #[inline]
    fn foresee(&self, lpa: Lpa) {
        self.pages.foresee(lpa);
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
        let table = self.pages.find(lpa).into_iter();
        let codes = table.flat_map(|table| self.tables.in_order(table));
        codes.map(|code| self.decode(code))
    }

    fn remove_line(&mut self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        let table = self.pages.find(lpa)?;
        let code = self.tables.take_out(table, line);
        if code == EMPTY {
            return None;
        }
        if self.tables.lines(table) == 0 {
            self.remove_page(lpa);
        }
        Some(self.decode(code).1)
    }

    fn remove_page(&mut self, lpa: Lpa) -> bool {
        let Some((table, position)) = self.pages.remove(lpa) else {
            return false;
        };
        self.finger = None;
        self.order[position as usize] = NO_PAGE;
        self.tables.give_back(table);
        true
    }

    fn next_page(&self, cursor: &mut IndexCursor) -> Option<Lpa> {
        while let Some(page) = self.order.get(cursor.0) {
            cursor.0 += 1;
            if *page != NO_PAGE {
                return Some(Lpa::new(u64::from(*page)));
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
            + self.tables.counted() * SECOND_LEVEL_ENTRY_BYTES
    }

    fn memory_held(&self) -> u64 {
        let order = self.order.capacity() * size_of::<u32>();
        order as u64 + self.pages.held() + self.tables.held()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: LineInPage = LineInPage::new(5);
    const LPA: Lpa = Lpa::new(9);

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
    fn tables_count_as_if_they_doubled_when_the_load_would_exceed_three_quarters() {
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
    fn tables_of_a_cache_line_are_filled_to_the_last_entry() {
        let mut index = index();
        let page = Lpa::new(9);
        for line in 0..64u16 {
            let slot = LogSlot::new(1000 + u32::from(line));
            index.insert(page, LineInPage::new(line), slot);
            let table = index.pages.find(page).expect("it is there");
            let most = match line + 1 {
                lines @ ..=16 => usize::from(lines).next_power_of_two().max(4),
                17..=24 => 32,
                _ => 64,
            };
            assert_eq!(table.len(), most, "{} lines", line + 1);
        }
    }

    /// What SkyByte's tables would have is counted by the lines that are there, whatever way they
    /// came and went, as long as no page ever had more than a cache line takes.
    #[test]
    fn a_page_of_few_lines_counts_as_in_the_paper() {
        let mut random = units::Stream::new(1, "two_level_hash/counted");
        for page_size in [64, 256, 512, 1024, 4096, 16_384] {
            let page_size = PageSize::new(units::Bytes::new(page_size)).unwrap();
            let mut index = TwoLevelHash::new(page_size, LogSlot::new(0), 1);
            let page_lines = 1 << page_size.line_bits();
            let mut lines = [const { alloc::collections::BTreeSet::new() }; 40];
            for slot in 0..20_000 {
                let page = random.below(40);
                let line = LineInPage::new(random.below(page_lines.min(16)) as u16);
                let of_page = &mut lines[page as usize];
                match random.below(64) {
                    0 => {
                        assert_eq!(index.remove_page(Lpa::new(page)), !of_page.is_empty());
                        of_page.clear();
                    }
                    1..24 => {
                        let slot = index.remove_line(Lpa::new(page), line);
                        assert_eq!(slot.is_some(), of_page.remove(&line));
                    }
                    _ => {
                        let older = index.insert(Lpa::new(page), line, LogSlot::new(slot));
                        assert_eq!(older.is_none(), of_page.insert(line));
                    }
                }
                let counted = lines.iter().map(|lines| match lines.len() {
                    0 => 0,
                    lines => {
                        let at_most = (lines * 4).div_ceil(3).next_power_of_two().max(4);
                        16 + 4 * (at_most as u64).min(page_lines)
                    }
                });
                assert_eq!(index.memory(), counted.sum::<u64>());
            }
        }
    }

    /// SkyByte's table as a plain one: what the order of a page's lines comes from.
    fn add(table: &mut Vec<Option<(u16, u32)>>, line: u16, slot: u32, page_lines: usize) {
        let place = |table: &[Option<(u16, u32)>], line: u16| {
            let mut at = usize::from(line) % table.len();
            while table[at].is_some_and(|known| known.0 != line) {
                at = (at + 1) % table.len();
            }
            at
        };
        let mut at = place(table, line);
        let lines = table.iter().flatten().count() + 1;
        if table[at].is_none() && table.len() < page_lines && 4 * lines > 3 * table.len() {
            let old = core::mem::replace(table, alloc::vec![None; 2 * table.len()]);
            for known in old.into_iter().flatten() {
                let at = place(table, known.0);
                table[at] = Some(known);
            }
            at = place(table, line);
        }
        table[at] = Some((line, slot));
    }

    #[test]
    fn lines_come_in_the_order_of_the_papers_tables() {
        let mut random = units::Stream::new(1, "two_level_hash/order");
        for page_bytes in [128, 1024, 2048, 4096, 16_384] {
            let page_size = PageSize::new(units::Bytes::new(page_bytes)).unwrap();
            let page_lines = 1 << page_size.line_bits();
            for _ in 0..200 {
                let mut index = TwoLevelHash::new(page_size, LogSlot::new(0), 1);
                let mut table = alloc::vec![None; page_lines.min(4)];
                for slot in 0..random.below(2 * page_lines as u64) as u32 {
                    let line = random.below(page_lines as u64) as u16;
                    add(&mut table, line, slot, page_lines);
                    index.insert(LPA, LineInPage::new(line), LogSlot::new(slot));
                    let found = index.lines(LPA);
                    let found: Vec<_> =
                        found.map(|(line, slot)| (line.get(), slot.get())).collect();
                    let wanted: Vec<_> = table.iter().flatten().copied().collect();
                    assert_eq!(found, wanted, "pages of {page_bytes} B");
                }
            }
        }
    }

    /// A line may have the code of an unused entry where the mask has ones.
    #[test]
    fn the_last_line_of_a_page_is_not_taken_for_an_unused_entry() {
        let mut index = index();
        let last = LineInPage::new(63);
        index.insert(Lpa::new(1), LINE, LogSlot::new(1000));
        assert_eq!(index.find(Lpa::new(1), last), None);
        assert_eq!(index.remove_line(Lpa::new(1), last), None);
        assert_eq!(index.insert(Lpa::new(1), last, LogSlot::new(1001)), None);
        let replaced = index.insert(Lpa::new(1), last, LogSlot::new(1002));
        assert_eq!(replaced, Some(LogSlot::new(1001)));
        assert_eq!(
            index.remove_line(Lpa::new(1), LINE),
            Some(LogSlot::new(1000))
        );
        assert_eq!(index.find(Lpa::new(1), last), Some(LogSlot::new(1002)));
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
