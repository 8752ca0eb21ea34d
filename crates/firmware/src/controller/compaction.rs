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
//! At most `ssd.compaction.batch` pages are in flight, each in a buffer, of which
//! `ssd.compaction.leaves` are not for them; each costs a firmware core
//! `ssd.compaction.page_cost`. `ssd.compaction.launch` says when a page is taken up: one after the
//! other, in batches (OpenCXD §V-D), or as they find room.

use super::kept::Draining;
use super::{Controller, slot_address};
use crate::back_end::{Job, Reader};
use crate::config::{CompactionLaunch, LogMode};
use crate::log::Log;
use crate::log_index::LogIndex;
use crate::platform::{BufferId, Cell, NandTag, PagePlace, Platform, Timer};
use crate::work::Work;
use units::address::LINE_BYTES;
use units::{Lpa, Time};

/// Pages that are compacted at a time although every die is busy.
const ALWAYS_LAUNCHED: u32 = 16;

/// What a drain waits for ([`Controller::drain_log`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drain {
    /// Halves of the log that will have been freed.
    released: u64,
}

impl<I: LogIndex> Controller<I> {
    /// Does what the log asks for: seals a full half, launches pages, frees a half that is done,
    /// lets waiting writes in. Does nothing, quickly, while the active half has room and no half
    /// is sealed.
    #[inline]
    pub(super) fn pump_log<P: Platform>(&mut self, now: Time, platform: &mut P) {
        if self.log.as_ref().is_some_and(Log::wants_turn) {
            self.turn_log(now, platform);
        }
    }

    /// As [`Self::turn_log`] without the writes that wait, while a write is being appended.
    #[inline]
    pub(super) fn pump_halves<P: Platform>(&mut self, now: Time, platform: &mut P) {
        if self.log.as_ref().is_some_and(Log::wants_turn) {
            self.turn_halves(now, platform);
        }
    }

    /// Turns the halves and lets waiting writes and commits in.
    pub(super) fn turn_log<P: Platform>(&mut self, now: Time, platform: &mut P) {
        loop {
            self.turn_halves(now, platform);
            let has_resumed = self.resume_write(now, platform);
            if !has_resumed && !self.resume_commit(now, platform) {
                return;
            }
        }
    }

    /// Launches pages, frees a half that is done, seals a full one.
    fn turn_halves<P: Platform>(&mut self, now: Time, platform: &mut P) {
        loop {
            self.launch_pages(now, platform);
            let (Some(log), stats) = (self.log.as_mut(), &mut self.stats) else {
                return;
            };
            log.release(now, stats, platform);
            self.give_frames_back();
            let (Some(log), stats) = (self.log.as_mut(), &mut self.stats) else {
                return;
            };
            if !log.seal(now, &mut self.write_order, stats, platform) {
                return;
            }
        }
    }

    /// L1: starts pages of the sealed half while batch and buffers allow.
    ///
    /// A page waits for a firmware core. What is done with it is decided when the core is done with
    /// its part: device DRAM must not be booked for a time that lies far ahead, or it would keep
    /// the host's accesses of the meantime waiting.
    fn launch_pages<P: Platform>(&mut self, now: Time, platform: &mut P) {
        if self.constants.launch == CompactionLaunch::ChannelParallel && self.has_launched() {
            return;
        }
        while self.back_end.free_buffers() > self.constants.leaves && self.may_launch() {
            let log = &mut self.log;
            let taken = platform.timed(Work::CompactionStep, |_| {
                log.as_mut().and_then(Log::take_up_page)
            });
            let Some(lpa) = taken else {
                return;
            };
            let at = platform.charge(now, Work::CompactionStep);
            let buffer = self.back_end.take_buffer(lpa, Job::Compaction);
            platform.wake_at(at, Timer::new(buffer.get()));
        }
    }

    /// Whether a page may be taken up now. Of those that wait for idle dies a few are always on
    /// their way: with the end of each of them this is asked again.
    #[inline]
    fn may_launch(&self) -> bool {
        match self.constants.launch {
            CompactionLaunch::AtOnce | CompactionLaunch::ChannelParallel => true,
            CompactionLaunch::Sequential => !self.has_launched(),
            CompactionLaunch::IdleDies => {
                self.back_end.ftl().has_idle_die()
                    || self
                        .log
                        .as_ref()
                        .is_some_and(|log| log.pages_in_flight() < ALWAYS_LAUNCHED)
            }
        }
    }

    /// Whether a page is on its way to flash.
    fn has_launched(&self) -> bool {
        self.log
            .as_ref()
            .is_some_and(|log| log.pages_in_flight() > 0)
    }

    /// Starts to bring everything that is logged to flash, full or not; only new lines are logged
    /// from now on. Of a device that keeps frames instead, the dirty ones. Gives what
    /// [`Controller::is_drained`] is to be asked with.
    pub fn drain_log<P: Platform>(&mut self, now: Time, platform: &mut P) -> Drain {
        let mut released = 0;
        if let Some(log) = self.log.as_mut() {
            log.drain();
            released = log.released_when_drained();
            self.pump_log(now, platform);
        }
        if self.constants.keeps_frames {
            self.draining = Some(Draining::default());
            self.drain_frames(now, platform);
        }
        self.settle(now, platform);
        Drain { released }
    }

    /// Whether what was logged when a drain was asked for is on flash, whatever was logged since;
    /// lines of open transactions stay.
    #[inline]
    pub fn is_drained(&self, drain: Drain) -> bool {
        let log = self.log.as_ref();
        log.is_none_or(|log| log.is_drained(drain.released)) && self.draining.is_none()
    }

    /// L2 and L3 for a page whose turn has come.
    pub(super) fn compact_page<P: Platform>(
        &mut self,
        at: Time,
        buffer: BufferId,
        platform: &mut P,
    ) {
        let lpa = self.back_end.page_of(buffer);
        let log = self.log.as_mut().expect("only a log is compacted");
        if !log.has_sealed(lpa) {
            return self.give_up_page(at, buffer, platform);
        }
        log.begin_to_collect(lpa);
        if let Some(frame) = self.cache.find_resident(lpa) {
            self.stats.compacted_cached_pages += 1;
            self.stats.compacted_lines += u64::from(log.mask_to_compact(lpa).count());
            let (from, to) = (PagePlace::Frame(frame), PagePlace::Buffer(buffer));
            platform.copy_page(from, to, self.constants.all_lines);
            if self.cache.is_dirty(frame) {
                // It has lines that the log has not: the buffer is the page from here on.
                let order = &mut self.write_order;
                self.back_end.record_buffer((lpa, buffer), order, platform);
                self.drop_logged(lpa, platform);
                self.cache.mark_clean(frame);
            }
            let moved = (self.frame_address(frame), self.constants.page.bytes());
            let copied = self.charges.compaction(at, moved, platform);
            self.take_when_collected(lpa, platform);
            self.submit(copied, buffer, platform);
        } else if let Some(older) = self.back_end.buffer_with(lpa) {
            // A page written through the block port is on its way to flash.
            self.merge(at, lpa, PagePlace::Buffer(older), buffer, platform);
        } else if !self.back_end.is_mapped(lpa)
            || log.is_at_hand(lpa)
            || self.compacts_all(lpa, platform)
        {
            self.merge(at, lpa, PagePlace::Zero, buffer, platform);
        } else {
            self.stats.coalescing_reads += 1;
            self.back_end
                .read(at, lpa, Reader::Compaction(buffer), platform);
        }
    }

    /// Whether compaction takes all lines of a page. They lie anywhere in the log: where that is of
    /// use they are fetched, so that they are there when the page is.
    fn compacts_all<P: Platform>(&mut self, lpa: Lpa, platform: &mut P) -> bool {
        let log = self.log.as_ref().expect("only a log is compacted");
        let all = self.constants.all_lines;
        if !platform.foresees() {
            return log.compacts_all(lpa, all);
        }
        log.collect_to_compact(lpa, &mut self.collected);
        for (_, slot) in &self.collected {
            platform.foresee(*slot);
        }
        self.collected.len() == all.count() as usize
    }

    /// The coalescing read of a page is done.
    pub(super) fn coalesce<P: Platform>(
        &mut self,
        now: Time,
        buffer: BufferId,
        tag: NandTag,
        platform: &mut P,
    ) {
        let lpa = self.back_end.page_of(buffer);
        let log = self.log.as_mut().expect("only a log is compacted");
        if !log.has_sealed(lpa) {
            return self.give_up_page(now, buffer, platform);
        }
        log.begin_to_collect(lpa);
        self.merge(now, lpa, PagePlace::Register(tag), buffer, platform);
    }

    /// The page went to the host or was given up meanwhile: nothing is left to program.
    fn give_up_page<P: Platform>(&mut self, now: Time, buffer: BufferId, platform: &mut P) {
        let lpa = self.back_end.page_of(buffer);
        self.back_end.release_buffer(buffer);
        if let Some(log) = self.log.as_mut() {
            log.give_up_page(lpa);
        }
        self.turn_log(now, platform);
        self.advance_flushes(now, platform);
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
        let log = self.log.as_ref().expect("only a log is compacted");
        let all = self.constants.all_lines;
        // The whole page in one piece costs less than what is left between the lines of the log,
        // which come on top. Zeroes are left out where lines take their place.
        let copied = match older {
            PagePlace::Zero => all.without(log.mask_to_compact(lpa)),
            _ => all,
        };
        platform.copy_page(older, PagePlace::Buffer(buffer), copied);
        let (collected, charges) = (&mut self.collected, &self.charges);
        let mut merged = platform.timed(Work::CompactionMerge, |platform| {
            log.collect_to_compact(lpa, collected);
            // They lie anywhere in the log: one copy right behind the other, none of which waits
            // for the memory of the one before.
            for (line, slot) in &*collected {
                let to = Cell::Page(PagePlace::Buffer(buffer), *line);
                platform.copy_line(Cell::Log(*slot), to);
            }
            collected.iter().fold(at, |merged, (_, slot)| {
                let moved = (slot_address(*slot), LINE_BYTES);
                merged.max(charges.compaction(at, moved, platform))
            })
        });
        self.stats.compacted_lines += self.collected.len() as u64;
        merged = merged.max(platform.charge(at, Work::CompactionMerge));
        self.take_when_collected(lpa, platform);
        self.submit(merged, buffer, platform);
    }

    /// The lines of a page leave a ring when they have been collected; those of a half stay until
    /// the page is on flash.
    fn take_when_collected<P: Platform>(&mut self, lpa: Lpa, platform: &mut P) {
        if self.log.as_ref().map(Log::mode) == Some(LogMode::Ring) {
            self.merge_into_fetch(lpa, platform);
            self.drop_logged(lpa, platform);
        }
    }

    /// A page of the sealed half is on flash: its lines leave the half.
    pub(super) fn finish_page<P: Platform>(&mut self, now: Time, lpa: Lpa, platform: &mut P) {
        if self.log.as_ref().map(Log::mode) == Some(LogMode::Halves) {
            self.merge_into_fetch(lpa, platform);
            let log = self.log.as_mut().expect("only a log is compacted");
            log.drop_compacted_page(lpa, platform);
        }
        let log = self.log.as_mut().expect("only a log is compacted");
        log.end_page(&mut self.stats);
        if let Some(room) = self.room.as_mut() {
            room.compacted(lpa);
        }
        self.turn_log(now, platform);
    }

    /// If a fetch of the page is in flight, which may bring the bytes from before the program, its
    /// frame takes the lines that are about to leave the sealed half, each in its newest version.
    /// Lines written since the fetch began are there already.
    fn merge_into_fetch<P: Platform>(&mut self, lpa: Lpa, platform: &mut P) {
        let Some((frame, mshr)) = self.cache.find_in_flight(lpa) else {
            return;
        };
        let log = self.log.as_ref().expect("only a log is compacted");
        let mut written = self.cache.written(mshr);
        log.collect_to_compact(lpa, &mut self.collected);
        for (line, sealed) in &self.collected {
            let line = *line;
            if written.insert(line) {
                let newest = log.find_committed(lpa, line).unwrap_or(*sealed);
                let to = Cell::Page(PagePlace::Frame(frame), line);
                platform.copy_line(Cell::Log(newest), to);
            }
        }
        self.cache.add_written(mshr, written);
    }
}
