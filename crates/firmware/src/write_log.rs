//! The double-buffered write log: lines in the order of their writes, in battery-backed DRAM.
//!
//! Two halves of equal size. One is active and takes appends (W1, W3); the other is free or sealed.
//! A sealed half is being compacted; its index loses a page when the page is on flash, and when
//! the last one has gone the half is free. Both halves are looked up; the active one is newer.
//!
//! Invariants: a slot is named by at most one line; every line of an index is in a used slot; a
//! half without used slots has an empty index.
//!
//! Source: SkyByte §III-B, Fig. 11–13.

mod restore;

use crate::config::LogMode;
use crate::log_index::{IndexCursor, LogIndex, TwoLevelHash};
use alloc::vec::Vec;
use units::{LineInPage, LineMask, LogSlot, Lpa, PageSize};

#[derive(Clone)]
struct Half<I> {
    index: I,
    first_slot: u32,
    used: u32,
}

/// The write log.
#[derive(Clone)]
pub struct WriteLog<I = TwoLevelHash> {
    halves: [Half<I>; 2],
    active: usize,
    /// Lines that a half has room for.
    half_slots: u32,
    /// Lines after which it is sealed if the other one is free.
    seal_slots: u32,
    /// Lines that a half takes at most: as many, or in a ring what its index can name.
    most_slots: u32,
    /// How far apart the slots of a half are: those of a ring's halves alternate.
    stride: u32,
    is_ring: bool,
    /// What is in the log goes to flash although it is not full.
    is_draining: bool,
    /// Until the active half is sealed, compaction takes a page's lines of both halves.
    is_merging: bool,
    /// Compaction always does.
    always_merges: bool,
}

/// A ring that is being compacted counts as empty when it holds less than this part of its lines.
const EMPTY_PART: u64 = 10_000;

impl<I: LogIndex> WriteLog<I> {
    /// An empty log with `half_slots` lines in each half.
    pub fn new(half_slots: u32, page: PageSize, mode: LogMode) -> Self {
        assert!(half_slots > 0, "a half of the log holds at least one line");
        let is_ring = mode == LogMode::Ring;
        let (second, stride) = if is_ring { (1, 2) } else { (half_slots, 1) };
        let half = |first_slot| Half {
            index: I::new(page, LogSlot::new(first_slot), stride),
            first_slot,
            used: 0,
        };
        // What an index can name beside the lines of a page: see `LogIndex::new`.
        let nameable = (1 << (31 - page.line_bits())) - 1;
        Self {
            halves: [half(0), half(second)],
            active: 0,
            half_slots,
            seal_slots: half_slots,
            most_slots: if is_ring { nameable } else { half_slots },
            stride,
            is_ring,
            is_draining: false,
            is_merging: false,
            always_merges: false,
        }
    }

    /// The same, of which compaction always takes a page's lines of both halves.
    #[must_use]
    pub fn merging_always(self, always_merges: bool) -> Self {
        Self {
            always_merges: always_merges && !self.is_ring,
            ..self
        }
    }

    /// The same, whose halves are sealed after `slots` lines, at most all.
    #[must_use]
    pub fn sealed_at(self, slots: u32) -> Self {
        let seal_slots = slots.clamp(1, self.half_slots);
        Self { seal_slots, ..self }
    }

    /// From now on a half takes `most` lines and is sealed after `seal`, which is not more. Of no
    /// ring.
    ///
    /// # Panics
    /// If a half has more.
    pub fn resize(&mut self, most: u32, seal: u32) {
        assert!(!self.is_ring && (1..=most).contains(&seal) && most <= self.half_slots);
        assert!(self.most_used() <= most, "what is logged stays");
        (self.most_slots, self.seal_slots) = (most, seal);
    }

    /// Slots that are taken of the half of which more are.
    pub fn most_used(&self) -> u32 {
        self.active().used.max(self.other().used)
    }

    fn active(&self) -> &Half<I> {
        let [first, second] = &self.halves;
        if self.active == 0 { first } else { second }
    }
    fn other(&self) -> &Half<I> {
        let [first, second] = &self.halves;
        if self.active == 0 { second } else { first }
    }
    fn other_mut(&mut self) -> &mut Half<I> {
        &mut self.halves[1 - self.active]
    }

    /// Whether the active half takes another line.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.active().used < self.most_slots
    }

    /// How many lines the active half takes.
    pub fn room(&self) -> u32 {
        self.most_slots - self.active().used
    }

    /// Whether it is time to seal the active half: it is full, a ring is half full, or the log is
    /// being drained; and no half is sealed.
    #[inline]
    pub fn should_seal(&self) -> bool {
        !self.is_compacting()
            && (self.active().used >= self.seal_slots || self.is_draining && self.active().used > 0)
    }

    /// Everything that is logged now is to go to flash.
    pub fn drain(&mut self) {
        self.is_draining = self.active().used > 0;
    }

    /// Until the active half is sealed, a page of the sealed half takes its lines of both with it:
    /// as all are to go to flash, each page that both halves have is programmed once less.
    pub fn merge_halves(&mut self) {
        self.is_merging = !self.is_ring && self.is_draining && self.is_compacting();
    }

    /// Whether it is so.
    pub fn is_merging(&self) -> bool {
        self.is_merging || self.always_merges
    }

    /// The slot that the next line of the active half gets.
    pub fn next_slot(&self) -> LogSlot {
        let half = self.active();
        LogSlot::new(half.first_slot + half.used * self.stride)
    }

    /// Appends a line to the active half and indexes it (W1, W3). Returns its slot and the one that
    /// it replaces in the same half.
    ///
    /// # Panics
    /// If the half is full.
    pub fn append(&mut self, lpa: Lpa, line: LineInPage) -> (LogSlot, Option<LogSlot>) {
        assert!(
            self.has_room(),
            "a line is appended only where there is room"
        );
        let slot = self.next_slot();
        let half = &mut self.halves[self.active];
        half.used += 1;
        let replaced = half.index.insert(lpa, line, slot);
        (slot, replaced)
    }

    /// Slots of both halves that have been taken since their half was free.
    pub fn used_slots(&self) -> u32 {
        self.halves.iter().map(|half| half.used).sum()
    }

    /// Slots that both halves take.
    pub fn slot_count(&self) -> u32 {
        2 * self.half_slots.min(self.most_slots)
    }

    /// The slot with the newest copy of a line.
    #[inline]
    pub fn find(&self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        let (active, other) = (self.active(), self.other());
        if other.used == 0 {
            return active.index.find(lpa, line);
        }
        I::find_newest(&active.index, &other.index, lpa, line)
    }

    /// Somebody looks for lines of the page soon.
    #[inline]
    pub fn foresee(&self, lpa: Lpa) {
        for half in &self.halves {
            half.index.foresee(lpa);
        }
    }

    /// The slot of a line in the sealed half.
    pub fn find_sealed(&self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        self.other().index.find(lpa, line)
    }

    /// Takes the newest copy of a line out of the active half; before it there was `older`.
    pub fn retract(&mut self, lpa: Lpa, line: LineInPage, older: Option<LogSlot>) {
        Self::put_back(&mut self.halves[self.active].index, lpa, line, older);
    }

    /// As [`Self::retract`], of the sealed half.
    pub fn retract_sealed(&mut self, lpa: Lpa, line: LineInPage, older: Option<LogSlot>) {
        Self::put_back(&mut self.other_mut().index, lpa, line, older);
    }

    fn put_back(index: &mut I, lpa: Lpa, line: LineInPage, older: Option<LogSlot>) {
        match older {
            Some(slot) => index.insert(lpa, line, slot),
            None => index.remove_line(lpa, line),
        };
    }

    /// Whether what is logged is to be compacted although it is not full.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Whether any line of the page is in the log.
    pub fn has_page(&self, lpa: Lpa) -> bool {
        self.active().index.has_page(lpa) || self.other().index.has_page(lpa)
    }

    /// The newest copy of every logged line of a page, each line once.
    pub fn newest_lines(&self, lpa: Lpa) -> impl Iterator<Item = (LineInPage, LogSlot)> + '_ {
        let active = &self.active().index;
        let older = self.sealed_lines(lpa);
        older
            .filter(move |(line, _)| active.find(lpa, *line).is_none())
            .chain(active.lines(lpa))
    }

    /// Whether a slot is one of the sealed half. Of no ring.
    pub fn is_sealed(&self, slot: LogSlot) -> bool {
        let first = self.other().first_slot;
        self.is_compacting() && (first..first + self.half_slots).contains(&slot.get())
    }

    /// The slots of every copy of a page's lines, an older one before the newer one of its line.
    pub fn slots(&self, lpa: Lpa) -> impl Iterator<Item = LogSlot> + '_ {
        let active = self.active().index.lines(lpa);
        self.sealed_lines(lpa).chain(active).map(|(_, slot)| slot)
    }

    /// Forgets a page in both halves (D20); says whether any line of it was there.
    pub fn drop_page(&mut self, lpa: Lpa) -> bool {
        let [first, second] = &mut self.halves;
        let in_first = first.index.remove_page(lpa);
        second.index.remove_page(lpa) || in_first
    }

    /// Whether a half is sealed, that is, being compacted.
    pub fn is_compacting(&self) -> bool {
        self.other().used > 0
    }

    /// Seals the active half and makes the free one active.
    ///
    /// # Panics
    /// If the other one is not free, or it is not time.
    pub fn seal(&mut self) {
        assert!(!self.is_compacting(), "one half is compacted at a time");
        assert!(self.should_seal(), "a half is sealed when it is full");
        self.active = 1 - self.active;
        self.is_draining &= self.is_ring;
        self.is_merging = false;
    }

    /// Whether compaction of a page takes its lines of both halves, at once.
    #[inline]
    pub fn is_ring(&self) -> bool {
        self.is_ring
    }

    /// The lines that compaction of a page takes: those of the sealed half, and if `before` is not
    /// none, newer ones of the active half in slots before it. They are put behind what is there.
    pub fn collect_to_compact(
        &self,
        lpa: Lpa,
        before: Option<LogSlot>,
        lines: &mut Vec<(LineInPage, LogSlot)>,
    ) {
        // Each index is searched once, so the newer ones are found first and come last.
        let begin = lines.len();
        let mut newer = LineMask::EMPTY;
        if let Some(before) = before {
            for (line, slot) in self.merged_lines(lpa, before) {
                newer.insert(line);
                lines.push((line, slot));
            }
        }
        let count = lines.len() - begin;
        for (line, slot) in self.sealed_lines(lpa) {
            if !newer.contains(line) {
                lines.push((line, slot));
            }
        }
        lines[begin..].rotate_left(count);
    }

    /// Which lines these are.
    pub fn mask_to_compact(&self, lpa: Lpa, before: Option<LogSlot>) -> LineMask {
        let mut lines = self.sealed_mask(lpa);
        if let Some(before) = before {
            for (line, _) in self.merged_lines(lpa, before) {
                lines.insert(line);
            }
        }
        lines
    }

    /// The lines of a page in the active half, in slots before this one.
    pub fn merged_lines(
        &self,
        lpa: Lpa,
        before: LogSlot,
    ) -> impl Iterator<Item = (LineInPage, LogSlot)> + '_ {
        let lines = self.active().index.lines(lpa);
        lines.filter(move |(_, slot)| *slot < before)
    }

    /// Whether compaction of a page takes this line.
    pub fn compacts_line(&self, lpa: Lpa, line: LineInPage, before: Option<LogSlot>) -> bool {
        let is_before = |slot| before.is_some_and(|before| slot < before);
        self.find_sealed(lpa, line).is_some()
            || before.is_some() && self.active().index.find(lpa, line).is_some_and(is_before)
    }

    /// Forgets the lines of a page in the active half that are in slots before this one, because
    /// they are on flash; `gone` is told of each slot. Mostly that is all lines of the page.
    pub fn drop_merged_lines(&mut self, lpa: Lpa, before: LogSlot, mut gone: impl FnMut(LogSlot)) {
        let index = &mut self.halves[self.active].index;
        let (mut dropped, mut are_all) = (LineMask::EMPTY, true);
        for (line, slot) in index.lines(lpa) {
            if slot < before {
                gone(slot);
                dropped.insert(line);
            } else {
                are_all = false;
            }
        }
        if are_all {
            index.remove_page(lpa);
            return;
        }
        for line in dropped.iter() {
            index.remove_line(lpa, line);
        }
    }

    /// The next page of the sealed half, in the order of first logging (L1).
    pub fn next_sealed_page(&self, cursor: &mut IndexCursor) -> Option<Lpa> {
        self.other().index.next_page(cursor)
    }

    /// The logged lines of a page in the sealed half.
    pub fn sealed_lines(&self, lpa: Lpa) -> impl Iterator<Item = (LineInPage, LogSlot)> + '_ {
        self.other().index.lines(lpa)
    }

    /// Whether the sealed half has lines of the page.
    pub fn has_sealed(&self, lpa: Lpa) -> bool {
        self.other().index.has_page(lpa)
    }

    /// Which lines of a page are in the sealed half.
    pub fn sealed_mask(&self, lpa: Lpa) -> LineMask {
        self.sealed_lines(lpa).map(|(line, _)| line).collect()
    }

    /// Every logged line, each once.
    pub fn lines(&self) -> Vec<(Lpa, LineInPage)> {
        let mut lines = Vec::new();
        for half in &self.halves {
            let mut cursor = IndexCursor::default();
            while let Some(lpa) = half.index.next_page(&mut cursor) {
                let of_page = half.index.lines(lpa).map(|(line, _)| (lpa, line));
                lines.extend(of_page);
            }
        }
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// Forgets a page of the sealed half, because it is on flash.
    pub fn drop_sealed_page(&mut self, lpa: Lpa) -> bool {
        self.other_mut().index.remove_page(lpa)
    }

    /// Whether every page has left the sealed half.
    pub fn sealed_is_empty(&self) -> bool {
        self.other().index.page_count() == 0
    }

    /// Frees the sealed half.
    ///
    /// # Panics
    /// If a page is still in it.
    pub fn release_sealed(&mut self) {
        let half = self.other_mut();
        half.index.reset();
        half.used = 0;
        let lines = u64::from(self.half_slots) * 2;
        if self.is_ring {
            self.is_draining = u64::from(self.active().used) * EMPTY_PART > lines;
        }
    }

    /// Memory of both indices in bytes, as the paper counts it.
    pub fn index_memory(&self) -> u64 {
        self.active().index.memory() + self.other().index.memory()
    }

    /// Bytes that the indexes of both halves hold, whether in use or kept for later.
    pub fn index_memory_held(&self) -> u64 {
        self.active().index.memory_held() + self.other().index.memory_held()
    }

    /// Checks the invariants of the module.
    ///
    /// # Panics
    /// With a sentence, if one is broken.
    pub fn audit(&self) {
        for half in &self.halves {
            assert!(half.used <= self.most_slots, "a half overflows");
            let mut slots: Vec<u32> = Vec::new();
            let mut cursor = IndexCursor::default();
            let mut page_count = 0;
            while let Some(lpa) = half.index.next_page(&mut cursor) {
                page_count += 1;
                slots.extend(half.index.lines(lpa).map(|(_, slot)| slot.get()));
            }
            assert_eq!(page_count, half.index.page_count(), "the scan misses pages");
            let line_count = slots.len();
            slots.sort_unstable();
            slots.dedup();
            assert_eq!(line_count, slots.len(), "two lines share a slot of the log");
            let used = half.first_slot..half.first_slot + half.used * self.stride;
            let all_used = slots.iter().all(|slot| used.contains(slot));
            assert!(all_used, "a line is indexed at an unused slot");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const A: LineInPage = LineInPage::new(0);
    const B: LineInPage = LineInPage::new(9);

    #[test]
    fn the_active_half_is_newer_than_the_sealed_one() {
        let mut log = WriteLog::<TwoLevelHash>::new(2, PageSize::KIB_4, LogMode::Halves);
        log.append(Lpa::new(3), A);
        log.append(Lpa::new(3), B);
        log.seal();
        let newer = log.append(Lpa::new(3), A).0;
        assert_eq!(log.find(Lpa::new(3), A), Some(newer));
        assert_eq!(log.find(Lpa::new(3), B), Some(LogSlot::new(1)));
        let mut lines: Vec<_> = log.newest_lines(Lpa::new(3)).collect();
        lines.sort_unstable();
        assert_eq!(lines, [(A, newer), (B, LogSlot::new(1))]);
        assert_eq!(log.sealed_mask(Lpa::new(3)).count(), 2);
        log.audit();
    }

    #[test]
    fn an_empty_log_has_nothing_to_drain() {
        let mut log = WriteLog::<TwoLevelHash>::new(2, PageSize::KIB_4, LogMode::Ring);
        log.drain();
        log.append(Lpa::new(3), A);
        assert!(!log.should_seal(), "what comes later is not drained");
        log.drain();
        assert!(log.should_seal());
    }

    #[test]
    fn halves_take_turns_and_forget_what_was_dropped() {
        let mut log = WriteLog::<TwoLevelHash>::new(1, PageSize::KIB_4, LogMode::Halves);
        for turn in 0..4u32 {
            let (slot, _) = log.append(Lpa::new(7), A);
            assert_eq!(slot, LogSlot::new(turn % 2));
            assert!(!log.has_room());
            log.seal();
            assert!(log.is_compacting() && !log.sealed_is_empty());
            assert!(log.drop_sealed_page(Lpa::new(7)));
            log.release_sealed();
            assert!(!log.is_compacting() && !log.has_page(Lpa::new(7)));
            log.audit();
        }
    }

    /// Slots 0 2 4 and 1 3 5: a ring of 2 lines takes 5 in a row, and its second half does not get
    /// in the way of the first.
    #[test]
    fn a_ring_is_sealed_half_full_and_takes_more_than_it_has() {
        let mut log = WriteLog::<TwoLevelHash>::new(1, PageSize::KIB_4, LogMode::Ring);
        assert_eq!(log.append(Lpa::new(7), A), (LogSlot::new(0), None));
        assert!(log.should_seal() && log.has_room());
        log.seal();
        for slot in [1, 3, 5, 7] {
            assert!(log.has_room() && !log.should_seal());
            assert_eq!(log.append(Lpa::new(7), B).0, LogSlot::new(slot));
        }
        log.append(Lpa::new(8), A);
        let (next, mut taken) = (log.next_slot(), Vec::new());
        log.collect_to_compact(Lpa::new(7), Some(next), &mut taken);
        assert_eq!(taken, [(A, LogSlot::new(0)), (B, LogSlot::new(7))]);
        log.audit();
        assert!(log.drop_page(Lpa::new(7)));
        log.release_sealed();
        // Page 8 is there still, so compaction goes on.
        assert!(log.should_seal());
    }

    #[test]
    fn a_log_that_is_drained_is_sealed_before_it_is_full_and_only_once() {
        let mut log = WriteLog::<TwoLevelHash>::new(4, PageSize::KIB_4, LogMode::Halves);
        log.append(Lpa::new(7), A);
        assert!(!log.should_seal());
        log.drain();
        assert!(log.should_seal());
        log.seal();
        log.append(Lpa::new(7), A);
        log.drop_sealed_page(Lpa::new(7));
        log.release_sealed();
        assert!(!log.should_seal());
    }

    #[test]
    fn a_page_takes_its_lines_of_both_halves_until_the_drained_half_is_sealed() {
        let mut log = WriteLog::<TwoLevelHash>::new(2, PageSize::KIB_4, LogMode::Halves);
        let page = Lpa::new(7);
        log.append(page, A);
        log.append(page, B);
        log.seal();
        log.merge_halves();
        assert!(!log.is_merging(), "nothing is drained");
        let newer = log.append(page, A).0;
        log.drain();
        log.merge_halves();
        assert!(log.is_merging());
        let before = log.next_slot();
        assert!(before > newer);
        let newest = log.append(page, B).0;
        let mut lines = vec![(B, newest)];
        log.collect_to_compact(page, Some(before), &mut lines);
        // Those of the sealed half come first.
        assert_eq!(
            lines,
            [(B, newest), (B, LogSlot::new(1)), (A, newer)],
            "what was there stays"
        );
        assert_eq!(log.mask_to_compact(page, Some(before)).count(), 2);
        assert_eq!(log.mask_to_compact(page, None).count(), 2);
        assert!(log.compacts_line(page, B, None) && log.compacts_line(page, A, None));
        log.drop_sealed_page(page);
        assert!(!log.compacts_line(page, A, None) && log.compacts_line(page, A, Some(before)));
        let mut gone = Vec::new();
        log.drop_merged_lines(page, before, |slot| gone.push(slot));
        assert_eq!(gone, [newer], "what came later stays");
        assert!(log.compacts_line(page, B, Some(log.next_slot())));
        assert!(!log.compacts_line(page, B, Some(newest)), "it came later");
        assert!(!log.compacts_line(page, A, Some(log.next_slot())));
        assert_eq!((log.find(page, A), log.find(page, B)), (None, Some(newest)));
        log.release_sealed();
        log.seal();
        assert!(!log.is_merging());
        log.audit();
    }

    #[test]
    #[should_panic(expected = "one half is compacted at a time")]
    fn a_half_is_not_sealed_while_the_other_is_compacted() {
        let mut log = WriteLog::<TwoLevelHash>::new(1, PageSize::KIB_4, LogMode::Halves);
        log.append(Lpa::new(1), A);
        log.seal();
        log.append(Lpa::new(1), A);
        log.seal();
    }
}
