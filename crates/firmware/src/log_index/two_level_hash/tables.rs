//! The second level: of each page a table of its logged lines, by open addressing.
//!
//! Up to sixteen entries are within one cache line and are compared at once.

use super::super::blocks::{Block, Blocks};
use super::super::line::Line;
use units::LineInPage;

/// Entries of a cache line, base-two logarithm.
const LINE_BITS: u8 = Line::CODES.ilog2() as u8;
/// An unused entry. No line and slot have this code, for a half has not that many slots
/// ([`LogIndex::new`](super::LogIndex::new)).
pub(super) const EMPTY: u32 = u32::MAX;

/// Where the table of a page is: the first of its entries, in units of its size << 4 | base-two
/// logarithm of its entries, plus one. Half as many bits as a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Table(u32);

impl Table {
    const SIZE_BITS: u32 = 4;

    pub(super) fn new(number: u32, bits: u8) -> Self {
        assert!(
            number < 1 << (u32::BITS - Self::SIZE_BITS),
            "a half has fewer than 2^28 pages"
        );
        Self(number << Self::SIZE_BITS | u32::from(bits + 1))
    }
    /// Not 0.
    #[inline]
    pub(super) fn code(self) -> u32 {
        self.0
    }
    /// None of 0.
    #[inline]
    pub(super) fn from_code(code: u32) -> Option<Self> {
        (code != 0).then_some(Self(code))
    }
    /// Base-two logarithm of its entries.
    #[inline]
    pub(super) fn bits(self) -> u8 {
        (self.0 & ((1 << Self::SIZE_BITS) - 1)) as u8 - 1
    }
    #[inline]
    pub(super) fn len(self) -> usize {
        1 << self.bits()
    }
    /// Which share of a cache line it is: 0 all of it, 1 and 2 the halves, 3 to 6 the quarters …
    #[inline]
    fn share(self) -> usize {
        let shares = 1 << (LINE_BITS - self.bits());
        shares - 1 + ((self.0 >> Self::SIZE_BITS) as usize & (shares - 1))
    }
    #[inline]
    fn block(self) -> Block {
        Block {
            start: ((self.0 >> Self::SIZE_BITS) as usize) << self.bits(),
            bits: self.bits(),
        }
    }
}

/// By [`Table::share`]: all bits of the entries that are the table's own.
const OWN: [[u32; Line::CODES]; 2 * Line::CODES - 1] = {
    let mut own = [[0; Line::CODES]; 2 * Line::CODES - 1];
    let mut share = 0;
    while share < own.len() {
        let shares_bits = (share + 1).ilog2();
        let len = Line::CODES >> shares_bits;
        let first = (share + 1 - (1 << shares_bits)) * len;
        let mut at = first;
        while at < first + len {
            own[share][at] = u32::MAX;
            at += 1;
        }
        share += 1;
    }
    own
};

/// The tables of all pages.
#[derive(Clone)]
pub(super) struct Tables {
    blocks: Blocks,
    line_mask: u32,
}

impl Tables {
    /// For pages of `2^line_bits` lines.
    pub(super) fn new(line_bits: u8) -> Self {
        Self {
            blocks: Blocks::new(),
            line_mask: (1 << line_bits) - 1,
        }
    }

    /// Entries of all tables in use.
    pub(super) fn entries(&self) -> u64 {
        self.blocks.used()
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

    /// The entries of a table.
    #[inline]
    pub(super) fn of(&self, table: Table) -> &[u32] {
        self.blocks.of(table.block())
    }

    #[inline]
    pub(super) fn of_mut(&mut self, table: Table) -> &mut [u32] {
        self.blocks.of_mut(table.block())
    }

    /// The code of a line, [`EMPTY`] if it is not there.
    #[inline(always)]
    pub(super) fn find(&self, table: Table, line: LineInPage) -> u32 {
        if table.bits() > LINE_BITS {
            return self.of(table)[self.probe(table, line)];
        }
        let codes = self.blocks.line(table.block().start);
        let line = u32::from(line.get());
        let mut found = 0;
        for (code, own) in codes.iter().zip(&OWN[table.share()]) {
            // Masks: a compiler makes branches of an `if`.
            let is_line = u32::from((code ^ line) & self.line_mask == 0).wrapping_neg();
            // The complement of an unused entry adds nothing.
            found |= !code & is_line & own;
        }
        !found
    }

    /// Where the line is in the table, or the free entry where it belongs. Ends, because a table
    /// with all lines of a page has each at home and a smaller one has a free entry.
    #[inline]
    pub(super) fn probe(&self, table: Table, line: LineInPage) -> usize {
        Self::way(self.of(table), line, self.line_mask)
    }

    #[inline]
    fn way(table: &[u32], line: LineInPage, line_mask: u32) -> usize {
        let mut at = line.index() & (table.len() - 1);
        while table[at] != EMPTY && table[at] & line_mask != u32::from(line.get()) {
            at = (at + 1) & (table.len() - 1);
        }
        at
    }

    /// Moves the entries behind a gap up so that each is found on its way from home.
    pub(super) fn close_gap(&mut self, table: Table, gap: usize) {
        let line_mask = self.line_mask;
        let table = self.of_mut(table);
        let (mut gap, mut at, last) = (gap, gap, table.len() - 1);
        for _ in 0..last {
            at = (at + 1) & last;
            if table[at] == EMPTY {
                return;
            }
            let home = (table[at] & line_mask) as usize & last;
            let (from_home, from_gap) = (at.wrapping_sub(home) & last, at.wrapping_sub(gap) & last);
            if from_home >= from_gap {
                table[gap] = table[at];
                table[at] = EMPTY;
                gap = at;
            }
        }
    }

    /// An empty table of `2^bits` entries.
    pub(super) fn take(&mut self, bits: u8) -> Table {
        let block = self.blocks.take(bits);
        self.blocks.of_mut(block).fill(EMPTY);
        let number = u32::try_from(block.start >> bits).expect("a half has fewer than 2^32 pages");
        Table::new(number, bits)
    }

    pub(super) fn give_back(&mut self, table: Table) {
        self.blocks.give_back(table.block());
    }

    /// A table of twice the size for what is in `old`, which is given back.
    pub(super) fn grow(&mut self, old: Table) -> Table {
        let (new, line_mask) = (self.take(old.bits() + 1), self.line_mask);
        let (from, to) = self.blocks.two(old.block(), new.block());
        for code in from.iter().filter(|code| **code != EMPTY) {
            let line = LineInPage::new((code & line_mask) as u16);
            to[Self::way(to, line, line_mask)] = *code;
        }
        self.give_back(old);
        new
    }
}
