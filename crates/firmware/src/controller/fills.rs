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
    /// From when on a page may be fetched.
    #[inline]
    pub(super) fn room_to_fill<P: Platform>(&mut self, at: Time, platform: &mut P) -> Time {
        match self.fills.are_used() {
            false => at,
            true => {
                self.end_copies(at, platform);
                self.fills.free_from(at)
            }
        }
    }

    /// Whether a page that is fetched ahead drives none out of its buffer.
    pub(super) fn has_fill_buffer<P: Platform>(&mut self, at: Time, platform: &mut P) -> bool {
        self.end_copies(at, platform);
        !self.fills.are_used() || self.fills.has_free()
    }

    /// Copies that have ended by now give their buffers back, and each has another one begin. It is
    /// made good here: what nobody waits for needs no event of its own.
    fn end_copies<P: Platform>(&mut self, now: Time, platform: &mut P) {
        while let Some(end) = self.fills.release(now) {
            self.begin_copies(end, platform);
        }
    }

    fn begin_copies<P: Platform>(&mut self, at: Time, platform: &mut P) {
        while let Some(page) = self.fills.next_copy() {
            self.copy_fill(at, page, platform);
        }
    }

    /// A page has come: it is copied as soon as device DRAM takes it.
    pub(super) fn keep_fill<P: Platform>(
        &mut self,
        now: Time,
        (lpa, frame): (Lpa, FrameId),
        platform: &mut P,
    ) {
        self.end_copies(now, platform);
        self.fills.keep(frame, lpa);
        self.begin_copies(now, platform);
        while let Some((frame, lpa)) = self.fills.next_to_go() {
            if !self.give_up_fill(frame, lpa) {
                self.copy_fill(now, (frame, lpa), platform);
            }
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
