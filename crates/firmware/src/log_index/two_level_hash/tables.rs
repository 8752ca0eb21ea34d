//! The second level: of each page a table of its logged lines.
//!
//! A table of at most sixteen entries is within one cache line and compared at once, so it needs no
//! order and is filled to its last entry: entries in use first, then the others. A larger one is a
//! hash table with open addressing, which doubles when its load would exceed 0.75, up to the lines
//! of a page, where a line's home is its own number (D15).
//!
//! The modelled device has SkyByte's tables, hash tables from four entries on. So
//! [`Tables::counted`] is what those would take, and lines come in their order
//! ([`Tables::in_order`]): it decides which DRAM banks are read after each other, and with it the
//! simulated time. Neither depends on how a table is kept here.

use super::super::blocks::{Block, Blocks};
use super::super::line::Line;
use super::{FIRST_TABLE_BITS, FULLEST};
use core::array::from_fn;
use core::hint::select_unpredictable;
use units::LineInPage;
use wide::u32x8;

/// Entries of a cache line, base-two logarithm.
const LINE_BITS: u8 = Line::CODES.ilog2() as u8;
/// An unused entry. No line and slot have this code, for a half has not that many slots
/// ([`LogIndex::new`](super::super::LogIndex::new)).
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
    /// Whether it is within a cache line, its entries in use before the others.
    #[inline]
    fn is_dense(self) -> bool {
        self.bits() <= LINE_BITS
    }
    /// Its places in its cache line, a bit each.
    #[inline]
    fn places(self) -> u32 {
        let first = ((self.0 >> Self::SIZE_BITS) << self.bits()) % Line::CODES as u32;
        ((1 << self.len()) - 1) << first
    }
    #[inline]
    fn block(self) -> Block {
        Block {
            start: ((self.0 >> Self::SIZE_BITS) as usize) << self.bits(),
            bits: self.bits(),
        }
    }
}

/// By lines of a page: the entries of its table in SkyByte's layout, as far as a table here is
/// within a cache line.
const COUNTED: [u64; Line::CODES + 1] = {
    let mut counted = [0; Line::CODES + 1];
    let mut lines = 1;
    while lines < counted.len() {
        let mut entries = 1 << FIRST_TABLE_BITS;
        while lines as u64 * FULLEST.1 as u64 > entries * FULLEST.0 as u64 {
            entries *= 2;
        }
        counted[lines] = entries;
        lines += 1;
    }
    counted
};

/// Entries of SkyByte's table for as many lines as a cache line has codes.
const HASHED: usize = COUNTED[Line::CODES] as usize;

/// SkyByte's table of these codes, which came one after the other.
fn hashed(codes: &[u32], line_bits: u8) -> [u32; HASHED] {
    fn put(table: &mut [u32], code: u32, line_mask: u32) {
        let line = LineInPage::new((code & line_mask) as u16);
        table[Tables::way(table, line, line_mask)] = code;
    }
    let line_mask = (1 << line_bits) - 1;
    let (mut table, mut bits) = ([EMPTY; HASHED], FIRST_TABLE_BITS.min(line_bits));
    for (lines, code) in (1..).zip(codes) {
        if bits < line_bits && lines * FULLEST.1 > (1 << bits) * FULLEST.0 {
            bits += 1;
            let old = core::mem::replace(&mut table, [EMPTY; HASHED]);
            for code in old.into_iter().filter(|code| *code != EMPTY) {
                put(&mut table[..1 << bits], code, line_mask);
            }
        }
        put(&mut table[..1 << bits], *code, line_mask);
    }
    table
}

/// The tables of all pages.
#[derive(Clone)]
pub(super) struct Tables {
    blocks: Blocks,
    line_bits: u8,
    counted: u64,
}

impl Tables {
    /// For pages of `2^line_bits` lines.
    pub(super) fn new(line_bits: u8) -> Self {
        Self {
            blocks: Blocks::new(),
            line_bits,
            counted: 0,
        }
    }

    /// Entries of all tables in use. A table of at most sixteen counts what SkyByte's would have to
    /// have for its lines; a longer one its own, which stay when lines leave, as SkyByte's do.
    pub(super) fn counted(&self) -> u64 {
        self.counted
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

    fn line_mask(&self) -> u32 {
        (1 << self.line_bits) - 1
    }

    /// The entries of a table.
    #[inline]
    pub(super) fn of(&self, table: Table) -> &[u32] {
        self.blocks.of(table.block())
    }

    /// The codes of a table in the order of SkyByte's.
    pub(super) fn in_order(&self, table: Table) -> impl Iterator<Item = u32> + '_ {
        let entries = self.of(table);
        let (dense, long) = match table.is_dense() {
            true => (Some(self.hashed(table)), &[][..]),
            false => (None, entries),
        };
        let all = dense.into_iter().flatten().chain(long.iter().copied());
        all.filter(|code| *code != EMPTY)
    }

    /// SkyByte's table of what is in a table of at most sixteen entries.
    fn hashed(&self, table: Table) -> [u32; HASHED] {
        let used = &self.of(table)[..self.lines(table) as usize];
        hashed(used, self.line_bits)
    }

    /// The code of a line, [`EMPTY`] if it is not there.
    #[inline(always)]
    pub(super) fn find(&self, table: Table, line: LineInPage) -> u32 {
        if !table.is_dense() {
            let entries = self.of(table);
            return entries[Self::way(entries, line, self.line_mask())];
        }
        let codes = self.blocks.line(table.block().start);
        let same = places_of(codes, u32::from(line.get()), self.line_mask()) & table.places();
        let code = codes[same.trailing_zeros() as usize % Line::CODES];
        select_unpredictable(same != 0, code, EMPTY)
    }

    /// Makes `code` the one of a line. Returns the code before it, [`EMPTY`] if there was none, or
    /// nothing at all if the table must grow first.
    #[inline]
    pub(super) fn put(&mut self, table: Table, line: LineInPage, code: u32) -> Option<u32> {
        let line_mask = self.line_mask();
        if !table.is_dense() {
            let entries = self.blocks.of_mut(table.block());
            let at = Self::way(entries, line, line_mask);
            if entries[at] == EMPTY && table.bits() < self.line_bits {
                let used = entries.iter().map(|code| u32::from(*code != EMPTY));
                let lines = used.sum::<u32>() + 1;
                if lines * FULLEST.1 > table.len() as u32 * FULLEST.0 {
                    return None;
                }
            }
            return Some(core::mem::replace(&mut entries[at], code));
        }
        let codes = self.blocks.line_mut(table.block().start);
        let own = table.places();
        let unused = places_of(codes, EMPTY, u32::MAX) & own;
        let same = places_of(codes, u32::from(line.get()), line_mask) & own;
        let place = if same != 0 { same } else { unused };
        let code_there = codes.get_mut(place.trailing_zeros() as usize)?;
        let before = core::mem::replace(code_there, code);
        if before == EMPTY {
            let lines = (own & !unused).count_ones();
            self.counted += self.counted_of(lines + 1) - self.counted_of(lines);
        }
        Some(before)
    }

    /// Forgets a line. Returns its code, [`EMPTY`] if it was not there.
    pub(super) fn take_out(&mut self, table: Table, line: LineInPage) -> u32 {
        let line_mask = self.line_mask();
        if !table.is_dense() {
            let entries = self.blocks.of_mut(table.block());
            let gap = Self::way(entries, line, line_mask);
            let code = core::mem::replace(&mut entries[gap], EMPTY);
            Self::close_gap(entries, gap, line_mask);
            return code;
        }
        let before = self.lines(table);
        let used = &mut self.blocks.of_mut(table.block())[..before as usize];
        let line = u32::from(line.get());
        let Some(at) = used.iter().position(|code| code & line_mask == line) else {
            return EMPTY;
        };
        let last = used.len() - 1;
        used.swap(at, last);
        self.counted -= self.counted_of(before) - self.counted_of(before - 1);
        core::mem::replace(&mut self.blocks.of_mut(table.block())[last], EMPTY)
    }

    /// How many lines are in a table.
    pub(super) fn lines(&self, table: Table) -> u32 {
        let used = self.of(table).iter().map(|code| u32::from(*code != EMPTY));
        used.sum()
    }

    /// What a table of at most sixteen entries counts with so many lines.
    fn counted_of(&self, lines: u32) -> u64 {
        COUNTED[lines as usize].min(1 << self.line_bits)
    }

    /// Where the line is in a hash table, or the unused entry where it belongs. Ends, because a
    /// table with all lines of a page has each at home and a smaller one has an unused entry.
    #[inline]
    fn way(table: &[u32], line: LineInPage, line_mask: u32) -> usize {
        let mut at = line.index() & (table.len() - 1);
        while table[at] != EMPTY && table[at] & line_mask != u32::from(line.get()) {
            at = (at + 1) & (table.len() - 1);
        }
        at
    }

    /// Moves the entries behind a gap up so that each is found on its way from home.
    fn close_gap(table: &mut [u32], gap: usize, line_mask: u32) {
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

    /// The table of a page without lines.
    pub(super) fn take_first(&mut self) -> Table {
        self.take(FIRST_TABLE_BITS.min(self.line_bits))
    }

    /// An empty table of `2^bits` entries.
    fn take(&mut self, bits: u8) -> Table {
        let block = self.blocks.take(bits);
        self.blocks.of_mut(block).fill(EMPTY);
        let number = u32::try_from(block.start >> bits).expect("a half has fewer than 2^32 pages");
        let table = Table::new(number, bits);
        if !table.is_dense() {
            self.counted += 1 << bits;
        }
        table
    }

    /// A table that is not needed any more, with or without lines.
    pub(super) fn give_back(&mut self, table: Table) {
        self.counted -= match table.is_dense() {
            true => self.counted_of(self.lines(table)),
            false => table.len() as u64,
        };
        self.blocks.give_back(table.block());
    }

    /// A table of twice the size for what is in `old`, which is given back.
    pub(super) fn grow(&mut self, old: Table) -> Table {
        let (new, line_mask) = (self.take(old.bits() + 1), self.line_mask());
        if old.is_dense() && !new.is_dense() {
            let entries = self.hashed(old);
            self.blocks.of_mut(new.block()).copy_from_slice(&entries);
            self.give_back(old);
            return new;
        }
        let (from, to) = self.blocks.two(old.block(), new.block());
        if new.is_dense() {
            to[..from.len()].copy_from_slice(from);
            self.counted += self.counted_of(self.lines(new));
        } else {
            for code in from.iter().filter(|code| **code != EMPTY) {
                let line = LineInPage::new((code & line_mask) as u16);
                to[Self::way(to, line, line_mask)] = *code;
            }
        }
        self.give_back(old);
        new
    }
}

/// Which codes of a cache line are `value` where the mask has ones: a bit each.
#[inline(always)]
fn places_of(codes: &[u32; Line::CODES], value: u32, mask: u32) -> u32 {
    let half = |first: usize| {
        let codes = u32x8::new(from_fn(|at| codes[first + at]));
        (codes & u32x8::splat(mask))
            .simd_eq(u32x8::splat(value))
            .to_bitmask()
    };
    half(0) | half(8) << 8
}
