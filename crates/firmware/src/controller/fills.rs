//! Pages on their way from their buffers into frames (`ssd.fill = buffered`).
//!
//! The frame is the page's from the start of its fetch on; what waits is the copy in device DRAM.
//! Where buffers are short, a page that the cache's policy does not know yet is given up rather
//! than copied: if it is fetched again, it is known.

use super::Controller;
use crate::log_index::LogIndex;
use crate::platform::Platform;
use units::{FrameId, Lpa, Time};

impl<I: LogIndex> Controller<I> {
    /// From when on there is a buffer for the page of another fetch; none if those in flight have
    /// all.
    #[inline]
    pub(super) fn room_to_fill<P: Platform>(&mut self, at: Time, platform: &mut P) -> Option<Time> {
        match self.fills.are_used() {
            false => Some(at),
            true => self.free_a_buffer(at, platform),
        }
    }

    /// Whether the page of another fetch finds a buffer, and drives none out.
    pub(super) fn has_fill_buffer(&mut self, at: Time) -> bool {
        self.fills.release(at);
        !self.fills.are_used() || self.fills.free_from(at, self.cache.in_flight_count()) == Some(at)
    }

    fn free_a_buffer<P: Platform>(&mut self, at: Time, platform: &mut P) -> Option<Time> {
        self.fills.release(at);
        let in_flight = self.cache.in_flight_count();
        while let Some((frame, lpa)) = self.fills.next_to_go(in_flight) {
            if !self.give_up_fill(frame, lpa) {
                self.copy_fill(at, (frame, lpa), platform);
            }
        }
        self.fills.free_from(at, in_flight)
    }

    /// A page has come; copies begin as device DRAM takes them.
    pub(super) fn keep_fill<P: Platform>(
        &mut self,
        now: Time,
        (lpa, frame): (Lpa, FrameId),
        platform: &mut P,
    ) {
        self.fills.release(now);
        self.fills.keep(frame, lpa);
        while let Some(page) = self.fills.next_copy() {
            self.copy_fill(now, page, platform);
        }
    }

    /// The copy of a page begins, unless it has left its frame.
    fn copy_fill<P: Platform>(&mut self, at: Time, (frame, lpa): (FrameId, Lpa), platform: &mut P) {
        if self.cache.find_resident(lpa) == Some(frame) {
            let (address, size) = (self.frame_address(frame), self.constants.page.bytes());
            let end = platform.dram_behind(at, address, size, true);
            self.fills.begin_copy(end);
        }
    }

    /// Gives a page up that nobody would miss; says whether it did.
    fn give_up_fill(&mut self, frame: FrameId, lpa: Lpa) -> bool {
        let is_here = self.cache.find_resident(lpa) == Some(frame);
        let is_missed = self.cache.is_dirty(frame) || self.cache.is_known(frame);
        if !is_here || is_missed || self.victims.programs(false) {
            return false;
        }
        self.stats.fills_given_up += 1;
        self.evict_clean(lpa, frame);
        true
    }
}
