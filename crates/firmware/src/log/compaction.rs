//! The halves of the log and what compaction takes from the sealed one: when it is sealed and
//! freed, which pages are on their way to flash, and when their lines leave.

use super::Log;
use crate::config::LogMode;
use crate::durable::{Record, WriteOrder};
use crate::flight_map::{FlightMap, Leaves};
use crate::log_index::{IndexCursor, LogIndex};
use crate::platform::Platform;
use crate::policies::at_hand::AtHand;
use crate::stats::ControllerStats;
use alloc::vec::Vec;
use units::{LineInPage, LineMask, LogSlot, Lpa, Time};

/// The pages of the sealed half that are on their way to flash.
#[derive(Clone)]
pub(super) struct Compaction {
    cursor: IndexCursor,
    started: Time,
    in_flight: u32,
    /// Pages programmed since the last whole batch.
    batch_pages: u32,
    /// Pages that may be in flight at one time.
    batch: u32,
    /// Of pages in flight that lines of the active half go with: the slots before this one.
    merged: FlightMap<Lpa, LogSlot>,
}

impl Compaction {
    pub(super) fn new(batch: u32) -> Self {
        Self {
            cursor: IndexCursor::default(),
            started: Time::ZERO,
            in_flight: 0,
            batch_pages: 0,
            batch,
            merged: FlightMap::new(),
        }
    }

    /// A half has been sealed.
    pub(super) fn begin(&mut self, now: Time) {
        self.cursor = IndexCursor::default();
        self.started = now;
        (self.in_flight, self.batch_pages) = (0, 0);
    }

    pub(super) fn pages_in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether another page may be taken up.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.batch
    }

    pub(super) fn take_up_page(&mut self) {
        self.in_flight += 1;
    }

    /// The page went to the host or was given up meanwhile.
    pub(super) fn give_up_page(&mut self) {
        self.in_flight -= 1;
    }

    /// The page is on flash.
    pub(super) fn end_page(&mut self, stats: &mut ControllerStats) {
        stats.compacted_pages += 1;
        self.in_flight -= 1;
        self.batch_pages += 1;
        if self.batch_pages == self.batch {
            self.batch_pages = 0;
            stats.compaction_batches += 1;
        }
    }

    /// The half is free.
    pub(super) fn end(&self, now: Time, stats: &mut ControllerStats) {
        let time = now - self.started;
        stats.compactions += 1;
        stats.compaction_time += time;
        stats.compaction_time_max = stats.compaction_time_max.max(time);
        if self.batch_pages > 0 {
            stats.compaction_batches += 1;
        }
    }
}

impl<I: LogIndex> Log<I> {
    /// Whether there is a half to seal or to free, or a page to take up.
    #[inline]
    pub(crate) fn wants_turn(&self) -> bool {
        self.lines.should_seal()
            || !self.lines.has_room()
            || self.lines.is_compacting() && self.compaction.pages_in_flight() == 0
    }

    /// Whether a half is being compacted.
    pub(crate) fn is_compacting(&self) -> bool {
        self.lines.is_compacting()
    }

    /// Whether a half is to be sealed before it is full.
    pub(crate) fn is_draining(&self) -> bool {
        self.lines.is_draining()
    }

    /// Pages that compaction has taken up.
    pub(crate) fn pages_in_flight(&self) -> u32 {
        self.compaction.pages_in_flight()
    }

    /// Everything that is logged now is to go to flash, full or not: each page once.
    pub(crate) fn drain(&mut self) {
        self.at_hand = AtHand::default();
        self.lines.drain();
        self.lines.merge_halves();
    }

    /// How many halves will have been freed when what is logged now is on flash: of a drain that
    /// has just been asked for. A ring is freed by and by.
    pub(crate) fn released_when_drained(&self) -> u64 {
        if self.lines.is_ring() {
            return u64::MAX;
        }
        let halves = u64::from(self.lines.is_compacting()) + u64::from(self.lines.is_draining());
        self.released + halves
    }

    /// Whether so many halves were freed, or nothing is on its way to flash.
    #[inline]
    pub(crate) fn is_drained(&self, released: u64) -> bool {
        self.released >= released || !(self.is_compacting() || self.is_draining())
    }

    /// As [`Log::drain`]; of the pages `at_hand`, in ascending order, no older copy is needed.
    pub(crate) fn drain_at_hand(&mut self, at_hand: Vec<Lpa>) {
        self.at_hand = AtHand::new(at_hand);
        self.lines.drain();
    }

    /// Seals the active half if it is full and the other one is free; says whether it did. Open
    /// lines move and are numbered from `order` on.
    pub(crate) fn seal<P: Platform>(
        &mut self,
        now: Time,
        order: &mut WriteOrder,
        stats: &mut ControllerStats,
        platform: &mut P,
    ) -> bool {
        if !self.lines.should_seal() {
            return false;
        }
        let index_memory = self.lines.index_memory();
        self.lines.seal();
        stats.log_fills += 1;
        stats.index_bytes_at_fills += index_memory;
        self.compaction.begin(now);
        if let Some(transactions) = self.transactions.as_mut() {
            transactions.migrate(now, (&mut self.lines, order), stats, platform);
        }
        true
    }

    /// Frees the sealed half if every page has left it.
    pub(crate) fn release<P: Platform>(
        &mut self,
        now: Time,
        stats: &mut ControllerStats,
        platform: &mut P,
    ) {
        let is_done = self.lines.is_compacting()
            && self.compaction.pages_in_flight() == 0
            && self.lines.sealed_is_empty()
            && !self.covered.has(|slot| self.lines.is_sealed(slot));
        if !is_done {
            return;
        }
        self.lines.release_sealed();
        self.released += 1;
        if !self.lines.is_draining() {
            // What was to be drained is.
            self.at_hand = AtHand::default();
        }
        if let Some(transactions) = self.transactions.as_mut() {
            transactions.release(platform);
        }
        self.compaction.end(now, stats);
    }

    /// L1: the next page of the sealed half, in the order of first logging, if the batch has room.
    pub(crate) fn take_up_page(&mut self) -> Option<Lpa> {
        if !self.compaction.has_room() || !self.lines.is_compacting() {
            return None;
        }
        let lpa = self.lines.next_sealed_page(&mut self.compaction.cursor)?;
        self.compaction.take_up_page();
        Some(lpa)
    }

    /// A page that was taken up went to the host or was given up meanwhile.
    pub(crate) fn give_up_page(&mut self, lpa: Lpa) {
        self.compaction.merged.change_any(lpa, |_| Leaves::Yes);
        self.compaction.give_up_page();
    }

    /// Whether the sealed half has lines of the page.
    pub(crate) fn has_sealed(&self, lpa: Lpa) -> bool {
        self.lines.has_sealed(lpa)
    }

    /// A page of the sealed half is about to be collected: whether newer lines of the active half
    /// go with it is decided now. Which of them are gone when it is on flash, their slots tell.
    /// None go where one is open: its transaction may go back to the one before.
    pub(crate) fn begin_to_collect(&mut self, lpa: Lpa) {
        if self.lines.is_merging() && !self.has_open(lpa) {
            *self.compaction.merged.entry(lpa) = self.lines.next_slot();
        } else {
            // What was decided before the page was read holds no more: a line may be open now.
            self.compaction.merged.change_any(lpa, |_| Leaves::Yes);
        }
    }

    /// Where the lines of the active half end that go with the page.
    fn merged_before(&self, lpa: Lpa) -> Option<LogSlot> {
        match self.lines.is_ring() {
            true => Some(self.lines.next_slot()),
            false => self.compaction.merged.get(lpa).copied(),
        }
    }

    /// The lines that compaction of a page takes, in place of what `lines` had.
    pub(crate) fn collect_to_compact(&self, lpa: Lpa, lines: &mut Vec<(LineInPage, LogSlot)>) {
        let before = self.merged_before(lpa);
        lines.clear();
        self.lines.collect_to_compact(lpa, before, lines);
    }

    /// Which lines these are.
    pub(crate) fn mask_to_compact(&self, lpa: Lpa) -> LineMask {
        self.lines.mask_to_compact(lpa, self.merged_before(lpa))
    }

    /// Whether these are `all` lines of the page. Most pages have not even the first one, which two
    /// lookups tell without a way through all lines.
    #[inline]
    pub(crate) fn compacts_all(&self, lpa: Lpa, all: LineMask) -> bool {
        let before = self.merged_before(lpa);
        let first = LineInPage::new(0);
        self.lines.compacts_line(lpa, first, before)
            && self.lines.mask_to_compact(lpa, before) == all
    }

    /// Whether compaction of a page needs no older copy of it. Its program goes past a die then.
    #[inline]
    pub(crate) fn is_at_hand(&self, lpa: Lpa) -> bool {
        self.at_hand.has(lpa)
    }

    /// When the lines of a page that is compacted leave the log.
    #[inline]
    pub(crate) fn mode(&self) -> LogMode {
        match self.lines.is_ring() {
            true => LogMode::Ring,
            false => LogMode::Halves,
        }
    }

    /// A page of the sealed half is on flash: its lines leave the half, and then those of the
    /// active half that went with it. The older ones go first, so that no cut brings them back.
    pub(crate) fn drop_compacted_page<P: Platform>(&mut self, lpa: Lpa, platform: &mut P) {
        for (_, slot) in self.lines.sealed_lines(lpa) {
            platform.record(Record::Dropped(slot));
        }
        self.lines.drop_sealed_page(lpa);
        let Some(merged) = self.merged_before(lpa) else {
            return;
        };
        let gone = |slot| platform.record(Record::Dropped(slot));
        self.lines.drop_merged_lines(lpa, merged, gone);
        self.compaction.merged.change(lpa, |_| Leaves::Yes);
    }

    /// A page that was taken up is on flash and its lines have left.
    pub(crate) fn end_page(&mut self, stats: &mut ControllerStats) {
        self.compaction.end_page(stats);
    }
}
