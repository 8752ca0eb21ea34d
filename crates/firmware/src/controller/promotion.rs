//! Hot pages and their way to host DRAM (SkyByte §III-C, D20).
//!
//! Accesses to a cached page are counted; beyond the threshold the page is offered to the host
//! once. The host copies it line by line through the link with reads that count for nothing, and
//! says when it owns the page. Then frame and log entries are dropped: the copy has the newest
//! bytes of both.

use super::Controller;
use crate::cache::MshrId;
use crate::log_index::LogIndex;
use crate::platform::{Cell, PagePlace, Platform, Request};
use crate::policies::promotion::Use;
use units::{FrameId, LineMask, Lpa, Time};

impl<I: LogIndex> Controller<I> {
    /// A resident page was used: for the eviction policy, the prefetcher's record and hotness.
    #[inline(always)]
    pub(super) fn use_frame<P: Platform>(
        &mut self,
        at: Time,
        frame: FrameId,
        request: Request,
        kind: Use,
        platform: &mut P,
    ) {
        let is_first_use = self.cache.touch(frame);
        let (lpa, _) = self.split(request.line);
        if let Some(threshold) = self.hot_pages.threshold(kind) {
            self.count_use(at, frame, (lpa, threshold), platform);
        }
        // Last, for it may drive out the page itself.
        if is_first_use {
            self.use_prefetched(at, lpa, request.source, platform);
        }
    }

    /// A page has been fetched from flash because the host asked for it, and is used next: what it
    /// has cost so far counts.
    #[inline]
    pub(super) fn count_fetch(&mut self, lpa: Lpa, frame: FrameId) {
        let fetched = self.hot_pages.fetched(lpa);
        self.stats.promotion_recalls += u64::from(fetched.is_recalled);
        self.cache.add_accesses(frame, fetched.uses);
    }

    #[inline]
    fn count_use<P: Platform>(
        &mut self,
        at: Time,
        frame: FrameId,
        (lpa, threshold): (Lpa, u32),
        platform: &mut P,
    ) {
        if self.cache.count_access(frame) > threshold
            && self.cache.offer(frame)
            && self.hot_pages.offer(lpa)
        {
            self.stats.promotions_requested += 1;
            platform.request_promotion(at, lpa);
        }
    }

    /// The host has copied the page and owns it now: frame and log entries are dropped (D20).
    /// Returns whether the page differed from flash, so that its demotion must write it back.
    ///
    /// The host calls this when its requests for the page have been answered.
    pub fn on_promotion_done<P: Platform>(
        &mut self,
        now: Time,
        lpa: Lpa,
        platform: &mut P,
    ) -> bool {
        self.hot_pages.forget(lpa);
        self.stats.promotions_done += 1;
        let mut is_dirty = self.log.as_ref().is_some_and(|log| log.has_page(lpa));
        if let Some(frame) = self.cache.find(lpa) {
            is_dirty |= self.cache.is_dirty(frame);
            if let Some(mshr) = self.give_frame_up(frame, platform) {
                self.save_for_waiters(lpa, (frame, mshr), platform);
            }
        }
        self.drop_logged(lpa, platform);
        self.stats.promotions_dirty += u64::from(is_dirty);
        self.pump_log(now, platform);
        self.resume_misses(now, platform);
        self.settle(now, platform);
        is_dirty
    }

    /// The page of a frame is not needed here: it leaves at once, or, if it is in flight, when
    /// those who wait for it are answered. What ran ahead of it is clean then: it is elsewhere, or
    /// lost.
    pub(super) fn give_frame_up<P: Platform>(
        &mut self,
        frame: FrameId,
        platform: &mut P,
    ) -> Option<MshrId> {
        self.unkeep_frame(frame, platform);
        let in_flight = self.cache.mshr_of(frame);
        match in_flight {
            None => self.cache.remove(frame),
            Some(mshr) => {
                self.cache.mark_clean(frame);
                self.cache.let_pass(mshr);
            }
        }
        in_flight
    }

    /// A fetch of the page is in flight and others wait for it: before its lines leave the log, the
    /// frame takes them.
    fn save_for_waiters<P: Platform>(
        &mut self,
        lpa: Lpa,
        (frame, mshr): (FrameId, MshrId),
        platform: &mut P,
    ) {
        let Some(log) = &self.log else { return };
        let newer = match self.constants.frames_take_writes {
            true => self.cache.written(mshr),
            false => LineMask::EMPTY,
        };
        let mut written = newer;
        for (line, slot) in log.newest_lines(lpa) {
            if newer.contains(line) {
                continue;
            }
            written.insert(line);
            platform.copy_line(Cell::Log(slot), Cell::Page(PagePlace::Frame(frame), line));
        }
        self.cache.add_written(mshr, written);
    }

    /// The host declines the offer of a page; it may be offered again when it is hot again.
    pub fn on_promotion_refused(&mut self, lpa: Lpa) {
        self.hot_pages.forget(lpa);
        self.stats.promotions_refused += 1;
        if let Some(frame) = self.cache.find(lpa) {
            self.cache.cool(frame);
        }
    }
}
