//! What only a simulator does to a device: SkyByte's artifact, and questions that change nothing.
//!
//! A host cannot ask for any of it. The simulator uses it to do what the artifact's host does
//! (`host.promoted_dirt`, `host.demotion`, `run.drain_log`, numbers of pages of its own), to begin
//! with what others have left (`run.other_pages`), and to know the outcome of reads that a host
//! repeats while it waits.

use super::Controller;
use crate::log_index::LogIndex;
use crate::platform::{Platform, RequestOp};
use alloc::vec::Vec;
use units::{LineAddr, LineInPage, Lpa, Time};

impl<I: LogIndex> Controller<I> {
    /// From now on page 0, 1, 2, … has the set in the data cache that the page with the first,
    /// second, … of these numbers would have: a host that does not number its pages by their
    /// place. None of these pages is cached.
    pub fn number_pages(&mut self, numbers: impl Iterator<Item = u64>) {
        self.cache.number_pages(numbers);
    }

    /// The next program goes where page `lpa` would be, behind all pages of the program.
    pub fn start_programs_behind(&mut self, lpa: Lpa) {
        self.back_end.ftl_mut().start_programs_behind(lpa);
    }

    /// Every frame gets a page behind `lpa`, as if others had used the device before; with
    /// `are_written` pages are newer than flash, if frames take writes. The cache is empty.
    pub fn fill_cache_behind(&mut self, lpa: Lpa, are_written: bool) {
        let are_dirty = are_written && (self.log.is_none() || self.constants.frames_take_writes);
        let lines = self.constants.page.line_count();
        self.cache.fill_behind(lpa, are_dirty.then_some(lines));
    }

    /// Every line that is in the log and not on flash, each once.
    pub fn logged_lines(&self) -> Vec<(Lpa, LineInPage)> {
        self.log.as_ref().map_or_else(Vec::new, |log| log.lines())
    }

    /// As [`Controller::drain_log`] for SkyByte's artifact, which drains what another run has left,
    /// with that run's data cache: of the pages `at_hand`, in ascending order, no older copy is
    /// read from flash, and each of their programs passes a die.
    pub fn drain_log_at_hand<P: Platform>(
        &mut self,
        now: Time,
        at_hand: Vec<Lpa>,
        platform: &mut P,
    ) {
        if let Some(log) = self.log.as_mut() {
            log.drain_at_hand(at_hand);
            self.pump_log(now, platform);
        }
        self.settle(now, platform);
    }

    /// Whether compaction of all that is logged would read nothing of the page: it is in the data
    /// cache, or every line of it is logged.
    pub fn compacts_without_read(&self, lpa: Lpa) -> bool {
        let mut lines = self.constants.all_lines.iter();
        self.cache.find_resident(lpa).is_some()
            || lines.all(|line| self.find_in_log(lpa, line).is_some())
    }

    /// The device's page that a line is of.
    pub fn page_of(&self, line: LineAddr) -> Lpa {
        self.split(line).0
    }

    /// Whether the page of a line is in the data cache.
    pub fn has_cached(&self, line: LineAddr) -> bool {
        self.cache.find_resident(self.split(line).0).is_some()
    }

    /// Whether the log serves a request of a line without its page.
    pub fn is_served_by_log(&self, line: LineAddr, op: RequestOp) -> bool {
        let (lpa, in_page) = self.split(line);
        self.has_log() && op == RequestOp::Write || self.find_in_log(lpa, in_page).is_some()
    }

    /// The page has not come yet, so what was counted of it are no hits. Where all accesses count,
    /// they are counted.
    pub fn forget_hits(&mut self, lpa: Lpa) {
        if self.hot_pages.counts_hits()
            && let Some(frame) = self.cache.find(lpa)
        {
            self.cache.cool(frame);
        }
    }

    /// No page in the data cache has been accessed so far, as far as promotion goes.
    pub fn forget_accesses(&mut self) {
        self.cache.forget_accesses();
        self.hot_pages.forget_uses();
    }

    /// As [`Controller::on_promotion_done`] for a host that takes no notice of newer bytes
    /// (`host.promoted_dirt = forgotten`): a dirty frame is dropped, and what the log has of the
    /// page stays there until it is compacted. The frame's bytes are lost.
    pub fn on_promotion_forgotten<P: Platform>(&mut self, now: Time, lpa: Lpa, platform: &mut P) {
        self.hot_pages.forget(lpa);
        self.stats.promotions_done += 1;
        if let Some(frame) = self.cache.find(lpa) {
            self.give_frame_up(frame, platform);
        }
        self.resume_misses(now, platform);
        self.settle(now, platform);
    }

    /// Takes a page out of the data cache and programs it, dirty or not (`host.demotion = lost`).
    /// Says whether it did: a page that is not resident, or finds no free buffer, stays.
    pub fn program_resident<P: Platform>(&mut self, now: Time, lpa: Lpa, platform: &mut P) -> bool {
        let resident = self.cache.find_resident(lpa);
        let Some(frame) = resident.filter(|_| self.back_end.has_free_buffer()) else {
            return false;
        };
        self.stats.evictions_dirty += 1;
        self.program_frame(now, lpa, frame, platform);
        self.give_frame_up(frame, platform);
        self.settle(now, platform);
        true
    }

    /// Whether a page is in flight whose arrival will be told to the host
    /// ([`Platform::page_arrived`]).
    pub fn tells_of(&self, lpa: Lpa) -> bool {
        let in_flight = self.cache.find_in_flight(lpa);
        in_flight.is_some_and(|(_, mshr)| self.cache.has_delayed(mshr))
    }

    /// When a page in flight is expected in the data cache; nothing if none is.
    pub fn page_expected(&self, lpa: Lpa) -> Option<Time> {
        let (_, mshr) = self.cache.find_in_flight(lpa)?;
        Some(self.cache.expected(mshr).0)
    }

    /// Whether a demand read of the line would now be answered by SkyByte-Delay because its page is
    /// in flight, and if so, until which instant of its miss that stays so as long as nothing
    /// changes on the device.
    pub fn delays_reads_until(&self, line: LineAddr) -> Option<Time> {
        let (lpa, in_page) = self.split(line);
        let (frame, mshr) = self.cache.find_in_flight(lpa)?;
        let read = RequestOp::Read {
            delay_allowed: true,
        };
        if self.holds(frame, in_page, read) || self.find_in_log(lpa, in_page).is_some() {
            return None;
        }
        self.delay.delays_until(self.cache.expected(mshr))
    }
}
