//! Log compaction (SkyByte §III-B, L1–L5, Fig. 13): the sealed half goes to flash page by page.
//!
//! L1 takes pages in the order in which they were first logged. A cached page is copied to a buffer
//! whole (L2): its frame has the newest bytes of every line. Any other page is read from flash
//! (L3), unless all its lines are in the half or it was never on flash, and the lines of the half
//! are merged into it (L4); if the block port has written it and it is still in a buffer, that is
//! where the page comes from. Lines that the active half has in a newer version may or may not be
//! in what is programmed (L5): they stay in the active half and are programmed with it. When the
//! program is done, the page leaves the half's index; when no page is left, the half is free.
//!
//! At most `ssd.compaction_batch` pages are in flight, each in a buffer; each costs a firmware core
//! `ssd.compaction_page_cost`.

use super::{COMPACTION_OWNER, Controller};
use crate::durable::Record;
use crate::ftl::Owner;
use crate::log_index::{IndexCursor, LogIndex};
use crate::page_buffers::Job;
use crate::platform::{BufferId, Cell, NandTag, PagePlace, Platform, Timer, Unit};
use crate::write_log::WriteLog;
use alloc::vec::Vec;
use units::address::LINE_BYTES;
use units::{LineInPage, LineMask, Lpa, Time};

/// How far the compaction of the sealed half has come.
#[derive(Clone, Default)]
pub(super) struct Compaction {
    cursor: IndexCursor,
    started: Time,
    in_flight: u32,
    /// Pages programmed since the last whole batch.
    batch_pages: u32,
}

impl Compaction {
    pub(super) fn pages_in_flight(&self) -> u32 {
        self.in_flight
    }
}

/// Pages of which compaction reads nothing.
#[derive(Clone, Default)]
pub(super) struct AtHand {
    /// In ascending order.
    pages: Vec<Lpa>,
    /// Whether the log had no others.
    pub(super) is_all: bool,
}

impl AtHand {
    #[inline]
    pub(super) fn has(&self, lpa: Lpa) -> bool {
        self.pages.binary_search(&lpa).is_ok()
    }
}

impl<I: LogIndex> Controller<I> {
    /// Does what the log asks for: seals a full half, launches pages, frees a half that is done,
    /// lets waiting writes in. Does nothing, quickly, while the active half has room and no half
    /// is sealed.
    #[inline]
    pub(super) fn pump_log<P: Platform>(&mut self, now: Time, platform: &mut P) {
        if self.log_wants_turn() {
            self.turn_log(now, platform);
        }
    }

    #[inline]
    fn log_wants_turn(&self) -> bool {
        let Some(log) = &self.log else { return false };
        log.should_seal()
            || !log.has_room()
            || log.is_compacting() && self.compaction.in_flight == 0
    }

    /// As [`Self::turn_log`], and lets waiting writes in.
    pub(super) fn turn_log<P: Platform>(&mut self, now: Time, platform: &mut P) {
        loop {
            self.turn_halves(now, platform);
            let has_resumed = self.has_room() && self.resume_write(now, platform);
            if !has_resumed && !self.resume_commit(now, platform) {
                return;
            }
        }
    }

    /// Launches pages, frees a half that is done, seals a full one.
    fn turn_halves<P: Platform>(&mut self, now: Time, platform: &mut P) {
        loop {
            self.launch_pages(now, platform);
            self.release_half(now, platform);
            if !self.seal_half(now, platform) {
                return;
            }
        }
    }

    /// Does what the log asks for while a write is being appended: as [`Self::pump_log`] without
    /// the writes that wait.
    #[inline]
    pub(super) fn pump_halves<P: Platform>(&mut self, now: Time, platform: &mut P) {
        if self.log_wants_turn() {
            self.turn_halves(now, platform);
        }
    }

    /// Whether the active half of the log takes another line.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.log.as_ref().is_some_and(WriteLog::has_room)
    }

    /// Seals the active half if it is full and the other one is free; says whether it did.
    fn seal_half<P: Platform>(&mut self, now: Time, platform: &mut P) -> bool {
        let Some(log) = self.log.as_mut() else {
            return false;
        };
        if !log.should_seal() {
            return false;
        }
        let index_memory = log.index_memory();
        log.seal();
        self.stats.log_fills += 1;
        self.stats.index_bytes_at_fills += index_memory;
        self.compaction = Compaction {
            started: now,
            ..Compaction::default()
        };
        self.migrate_open_lines(now, platform);
        true
    }

    /// Frees the sealed half if every page has left it.
    fn release_half<P: Platform>(&mut self, now: Time, platform: &mut P) {
        let Some(log) = self.log.as_mut() else { return };
        if !log.is_compacting() || self.compaction.in_flight > 0 || !log.sealed_is_empty() {
            return;
        }
        log.release_sealed();
        self.release_commits(platform);
        let time = now - self.compaction.started;
        self.stats.compactions += 1;
        self.stats.compaction_time += time;
        self.stats.compaction_time_max = self.stats.compaction_time_max.max(time);
        if self.compaction.batch_pages > 0 {
            self.stats.compaction_batches += 1;
        }
    }

    /// L1: starts pages of the sealed half while batch and buffers allow.
    fn launch_pages<P: Platform>(&mut self, now: Time, platform: &mut P) {
        while self.compaction.in_flight < self.constants.compaction_batch && self.buffers.has_free()
        {
            let Some(log) = self.log.as_ref().filter(|log| log.is_compacting()) else {
                return;
            };
            let Some(lpa) = log.next_sealed_page(&mut self.compaction.cursor) else {
                return;
            };
            self.compaction.in_flight += 1;
            self.launch_page(now, lpa, platform);
        }
    }

    /// A page waits for a firmware core. What is done with it is decided when the core is done with
    /// its part: device DRAM must not be booked for a time that lies far ahead, or it would keep
    /// the host's accesses of the meantime waiting.
    fn launch_page<P: Platform>(&mut self, now: Time, lpa: Lpa, platform: &mut P) {
        let cost = self.constants.compaction_page_cost;
        let at = platform.charge(now, Unit::FirmwareCore, cost, cost);
        let buffer = self.buffers.take(lpa, Job::Compaction);
        platform.wake_at(at, Timer::new(buffer.get()));
    }

    /// Starts to bring everything that is logged to flash, full or not; only new lines are logged
    /// from now on. Of the pages `at_hand`, in ascending order, no older copy is read from flash:
    /// for SkyByte's artifact, which drains what another run has left, with that run's data cache.
    /// If that is all that is logged, each program passes a die.
    pub fn drain_log<P: Platform>(&mut self, now: Time, at_hand: Vec<Lpa>, platform: &mut P) {
        self.at_hand.pages = at_hand;
        let mut lines = self.logged_lines().into_iter();
        self.at_hand.is_all = lines.all(|(lpa, _)| self.at_hand.has(lpa));
        if let Some(log) = self.log.as_mut() {
            log.drain();
            self.pump_log(now, platform);
        }
        self.end_vain_waits(now, platform);
    }

    /// Every line that is in the log and not on flash, each once.
    pub fn logged_lines(&self) -> Vec<(Lpa, LineInPage)> {
        self.log.as_ref().map_or_else(Vec::new, WriteLog::lines)
    }

    /// Whether a page is in the data cache.
    pub fn has_cached(&self, lpa: Lpa) -> bool {
        let frame = self.cache.find(lpa);
        frame.is_some_and(|frame| self.cache.mshr_of(frame).is_none())
    }

    /// L2 and L3 for a page whose turn has come.
    pub(super) fn compact_page<P: Platform>(
        &mut self,
        at: Time,
        buffer: BufferId,
        platform: &mut P,
    ) {
        let (lpa, _) = self.buffers.job(buffer);
        if self.sealed_mask(lpa).is_empty() {
            self.give_up_page(at, buffer, platform);
            return;
        }
        let all = self.constants.all_lines;
        let resident = self.cache.find(lpa);
        if let Some(frame) = resident.filter(|frame| self.cache.mshr_of(*frame).is_none()) {
            self.stats.compacted_cached_pages += 1;
            self.count_lines(lpa);
            let (from, to) = (PagePlace::Frame(frame), PagePlace::Buffer(buffer));
            platform.copy_page(from, to, all);
            let copied = if self.constants.compaction_copies_charged {
                let (address, size) = (self.frame_address(frame), self.constants.page.bytes());
                platform.dram(at, address, size, false)
            } else {
                at
            };
            self.take_from_ring(lpa, platform);
            self.submit(copied, buffer, platform);
        } else if let Some(older) = self.buffers.holding(lpa) {
            // A page written through the block port is on its way to flash.
            self.merge(at, lpa, PagePlace::Buffer(older), buffer, platform);
        } else if self.taken_mask(lpa) == all || !self.ftl.is_mapped(lpa) || self.at_hand.has(lpa) {
            self.merge(at, lpa, PagePlace::Zero, buffer, platform);
        } else {
            self.stats.coalescing_reads += 1;
            let owner = Owner::new(buffer.get() | COMPACTION_OWNER);
            self.ftl.read_for(at, lpa, owner, true, platform);
        }
    }

    fn sealed_mask(&self, lpa: Lpa) -> LineMask {
        let log = self.log.as_ref();
        log.map_or(LineMask::EMPTY, |log| log.sealed_mask(lpa))
    }

    /// The lines of a page that compaction takes now.
    fn taken_mask(&self, lpa: Lpa) -> LineMask {
        let log = self.log.as_ref();
        log.into_iter()
            .flat_map(|log| log.lines_to_compact(lpa))
            .map(|(line, _)| line)
            .collect()
    }

    /// The lines of a page leave a ring when they have been collected; those of a half stay until
    /// the page is on flash.
    fn take_from_ring<P: Platform>(&mut self, lpa: Lpa, platform: &mut P) {
        if self.log.as_ref().is_some_and(WriteLog::is_ring) {
            self.merge_into_fetch(lpa, platform);
            self.drop_logged(lpa, platform);
        }
    }

    fn count_lines(&mut self, lpa: Lpa) {
        self.stats.compacted_lines += u64::from(self.taken_mask(lpa).count());
    }

    /// The coalescing read of a page is done.
    pub(super) fn coalesce<P: Platform>(
        &mut self,
        now: Time,
        buffer: BufferId,
        tag: NandTag,
        platform: &mut P,
    ) {
        let (lpa, _) = self.buffers.job(buffer);
        if self.sealed_mask(lpa).is_empty() {
            self.give_up_page(now, buffer, platform);
            return;
        }
        self.merge(now, lpa, PagePlace::Register(tag), buffer, platform);
    }

    /// The page went to the host or was given up meanwhile: nothing is left to program.
    fn give_up_page<P: Platform>(&mut self, now: Time, buffer: BufferId, platform: &mut P) {
        self.buffers.release(buffer);
        self.compaction.in_flight -= 1;
        self.turn_log(now, platform);
        self.resume_misses(now, platform);
    }

    /// L4 and L5: the page's older bytes and the half's lines of it are put together and
    /// programmed.
    fn merge<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        older: PagePlace,
        buffer: BufferId,
        platform: &mut P,
    ) {
        self.count_lines(lpa);
        let logged = self.taken_mask(lpa);
        let rest = self.constants.all_lines.without(logged);
        platform.copy_page(older, PagePlace::Buffer(buffer), rest);
        let mut merged = at;
        let log = self.log.as_ref().expect("only a log is compacted");
        for (line, slot) in log.lines_to_compact(lpa) {
            let to = Cell::Page(PagePlace::Buffer(buffer), line);
            platform.copy_line(Cell::Log(slot), to);
            if self.constants.compaction_copies_charged {
                let read = platform.dram(at, Self::slot_address(slot), LINE_BYTES, false);
                merged = merged.max(read);
            }
        }
        self.take_from_ring(lpa, platform);
        self.submit(merged, buffer, platform);
    }

    /// A page of the sealed half is on flash: its lines leave the half.
    pub(super) fn finish_page<P: Platform>(&mut self, now: Time, lpa: Lpa, platform: &mut P) {
        if !self.log.as_ref().is_some_and(WriteLog::is_ring) {
            self.merge_into_fetch(lpa, platform);
            let log = self.log.as_mut().expect("only a log is compacted");
            for (_, slot) in log.sealed_lines(lpa) {
                platform.record(Record::Dropped(slot));
            }
            log.drop_sealed_page(lpa);
        }
        self.stats.compacted_pages += 1;
        self.compaction.in_flight -= 1;
        self.compaction.batch_pages += 1;
        if self.compaction.batch_pages == self.constants.compaction_batch {
            self.compaction.batch_pages = 0;
            self.stats.compaction_batches += 1;
        }
        self.turn_log(now, platform);
    }

    /// If a fetch of the page is in flight, which may bring the bytes from before the program, its
    /// frame takes the lines that are about to leave the sealed half, each in its newest version.
    /// Lines written since the fetch began are there already.
    fn merge_into_fetch<P: Platform>(&mut self, lpa: Lpa, platform: &mut P) {
        let Some(frame) = self.cache.find(lpa) else {
            return;
        };
        let Some(mshr) = self.cache.mshr_of(frame) else {
            return;
        };
        let log = self.log.as_ref().expect("only a log is compacted");
        let mut written = self.mshrs.get(mshr).written;
        for (line, sealed) in log.lines_to_compact(lpa) {
            if written.insert(line) {
                let newest = self.find_committed(lpa, line).unwrap_or(sealed);
                let to = Cell::Page(PagePlace::Frame(frame), line);
                platform.copy_line(Cell::Log(newest), to);
            }
        }
        self.mshrs.get_mut(mshr).written = written;
    }
}
