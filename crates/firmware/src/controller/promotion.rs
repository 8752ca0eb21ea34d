//! Hot pages and their way to host DRAM (SkyByte §III-C, D20).
//!
//! Accesses to a cached page are counted; beyond the threshold the page is offered to the host
//! once. The host copies it line by line through the link with reads that count for nothing, and
//! says when it owns the page. Then frame and log entries are dropped: the copy has the newest
//! bytes of both.

use super::Controller;
use crate::log_index::LogIndex;
use crate::platform::{Cell, PagePlace, Platform, Request};
use units::{FrameId, Lpa, Time};

/// How a resident page was used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The data cache served it at once.
    Hit,
    /// It had to be brought first, or was written by way of the log.
    Late,
}

impl<I: LogIndex> Controller<I> {
    /// A resident page was used: for the eviction policy, the prefetcher's record and hotness.
    #[inline]
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
        if !self.constants.only_hits_count || kind == Use::Hit {
            self.count_use(at, frame, lpa, platform);
        }
        // Last, for it may drive out the page itself.
        if is_first_use {
            self.use_prefetched(at, lpa, request.source, platform);
        }
    }

    #[inline]
    fn count_use<P: Platform>(&mut self, at: Time, frame: FrameId, lpa: Lpa, platform: &mut P) {
        let Some(threshold) = self.constants.promotion_threshold else {
            return;
        };
        if self.cache.count_access(frame) > threshold
            && self.cache.offer(frame)
            && !self.offered_pages.contains(&lpa)
        {
            self.offered_pages.push(lpa);
            self.stats.promotions_requested += 1;
            platform.request_promotion(at, lpa);
        }
    }

    fn forget_offer(&mut self, lpa: Lpa) {
        if let Some(at) = self.offered_pages.iter().position(|page| *page == lpa) {
            self.offered_pages.swap_remove(at);
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
        self.forget_offer(lpa);
        self.stats.promotions_done += 1;
        let mut is_dirty = self.log.as_ref().is_some_and(|log| log.has_page(lpa));
        if let Some(frame) = self.cache.find(lpa) {
            is_dirty |= self.cache.is_dirty(frame);
            match self.cache.mshr_of(frame) {
                None => self.cache.remove(frame),
                Some(mshr) => {
                    self.mshrs.get_mut(mshr).is_unwanted = true;
                    self.save_for_waiters(lpa, frame, platform);
                }
            }
        }
        self.drop_logged(lpa, platform);
        self.stats.promotions_dirty += u64::from(is_dirty);
        self.pump_log(now, platform);
        self.resume_misses(now, platform);
        is_dirty
    }

    /// As [`Controller::on_promotion_done`] for a host that takes no notice of newer bytes
    /// (`host.promoted_dirt = forgotten`): a dirty frame is dropped, and what the log has of the
    /// page stays there until it is compacted.
    ///
    /// Only a simulator may call it: the frame's bytes are lost.
    pub fn on_promotion_forgotten<P: Platform>(&mut self, now: Time, lpa: Lpa, platform: &mut P) {
        self.forget_offer(lpa);
        self.stats.promotions_done += 1;
        if let Some(frame) = self.cache.find(lpa) {
            match self.cache.mshr_of(frame) {
                None => self.cache.remove(frame),
                Some(mshr) => self.mshrs.get_mut(mshr).is_unwanted = true,
            }
        }
        self.resume_misses(now, platform);
    }

    /// Takes a page out of the data cache and programs it, dirty or not (`host.demotion = lost`).
    /// Says whether it did: a page that is not resident, or finds no free buffer, stays.
    pub fn program_resident<P: Platform>(&mut self, now: Time, lpa: Lpa, platform: &mut P) -> bool {
        let resident = self
            .cache
            .find(lpa)
            .filter(|frame| self.cache.mshr_of(*frame).is_none());
        let Some(frame) = resident.filter(|_| self.buffers.has_free()) else {
            return false;
        };
        self.write_back(now, lpa, frame, platform);
        self.cache.remove(frame);
        true
    }

    /// A fetch of the page is in flight and others wait for it: before its lines leave the log, the
    /// frame takes them.
    fn save_for_waiters<P: Platform>(&mut self, lpa: Lpa, frame: FrameId, platform: &mut P) {
        let Some(log) = &self.log else { return };
        let mshr = self.cache.mshr_of(frame).expect("the page is in flight");
        let written = &mut self.mshrs.get_mut(mshr).written;
        for (line, slot) in log.newest_lines(lpa) {
            written.insert(line);
            platform.copy_line(Cell::Log(slot), Cell::Page(PagePlace::Frame(frame), line));
        }
    }

    /// The host declines the offer of a page; it may be offered again when it is hot again.
    pub fn on_promotion_refused(&mut self, lpa: Lpa) {
        self.forget_offer(lpa);
        self.stats.promotions_refused += 1;
        if let Some(frame) = self.cache.find(lpa) {
            self.cache.cool(frame);
        }
    }
}
