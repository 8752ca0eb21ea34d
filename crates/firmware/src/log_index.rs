//! Finds the slot of the write log that holds the newest copy of a line (SkyByte §III-B, ByteFS
//! §4.3).

mod blocks;
mod line;
#[cfg(test)]
mod model;
pub mod skip_list;
pub mod two_level_hash;

pub use skip_list::SkipList;
pub use two_level_hash::TwoLevelHash;

use alloc::vec::Vec;
use units::{LineInPage, LogSlot, Lpa, PageSize};

/// Index of one half of the write log.
///
/// Pages are scanned in an order that depends on nothing but the writes.
pub trait LogIndex {
    /// The index of a half whose slots start at `first_slot` and are `stride` apart, one or two. Of
    /// pages of `2^n` lines it has fewer than `2^(31 - n)` slots.
    fn new(page: PageSize, first_slot: LogSlot, stride: u32) -> Self;
    /// Makes `slot` the place of a line; returns the slot that it replaces.
    fn insert(&mut self, lpa: Lpa, line: LineInPage, slot: LogSlot) -> Option<LogSlot>;
    /// Somebody looks for lines of the page soon. It is a hint.
    #[inline]
    fn foresee(&self, _lpa: Lpa) {}
    /// The slot of a line.
    fn find(&self, lpa: Lpa, line: LineInPage) -> Option<LogSlot>;
    /// The slot of a line in `newer`, or else in `older`, another index of pages of this size.
    #[inline]
    fn find_newest(newer: &Self, older: &Self, lpa: Lpa, line: LineInPage) -> Option<LogSlot>
    where
        Self: Sized,
    {
        newer.find(lpa, line).or_else(|| older.find(lpa, line))
    }
    /// Whether any line of the page is logged.
    fn has_page(&self, lpa: Lpa) -> bool;
    /// The logged lines of a page, each once.
    fn lines(&self, lpa: Lpa) -> impl Iterator<Item = (LineInPage, LogSlot)> + '_;
    /// Forgets a line, and with its last line the page; returns its slot.
    fn remove_line(&mut self, lpa: Lpa, line: LineInPage) -> Option<LogSlot>;
    /// Forgets a page; says whether it was there.
    fn remove_page(&mut self, lpa: Lpa) -> bool;
    /// The first page at or after `cursor` in the order of the index; moves `cursor` past it.
    fn next_page(&self, cursor: &mut IndexCursor) -> Option<Lpa>;
    /// Inserts lines into an empty index, each behind those that it is newer than. Tells of slots
    /// that were replaced, in any order.
    fn fill(&mut self, lines: impl Iterator<Item = Placed> + Clone, replaced: impl FnMut(LogSlot)) {
        lines
            .filter_map(|(lpa, line, slot)| self.insert(lpa, line, slot))
            .for_each(replaced);
    }
    /// Pages with a logged line.
    fn page_count(&self) -> usize;
    /// Makes an empty index ready for a new half.
    ///
    /// # Panics
    /// If a page is still there.
    fn reset(&mut self);
    /// Memory in bytes of what is in use: of the hash as the paper counts it (SkyByte §III-B: 16 B
    /// per page, 4 B per entry of its second-level table), of the skip list as it is.
    fn memory(&self) -> u64;
    /// Bytes that it holds, whether in use or kept for later.
    fn memory_held(&self) -> u64;
}

/// A line and its place in the log.
pub type Placed = (Lpa, LineInPage, LogSlot);

/// How far a scan of the index has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IndexCursor(usize);

/// Makes room for `count` items more. What is kept in reserve is an eighth, where a vector left to
/// itself would double: an index is as large as a large part of a device's memory.
fn reserve<T>(items: &mut Vec<T>, count: usize) {
    if items.capacity() - items.len() < count {
        items.reserve_exact(count.max(items.len() / 8));
    }
}
