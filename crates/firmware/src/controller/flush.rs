//! Flush on a device without a log, whose data cache has dirty pages, and on one that loses its
//! page buffers with the power.
//!
//! All flushes that have come until a pass begins are one pass over the frames: each page that is
//! dirty goes to flash through a buffer, one in flight as soon as it is here. With a battery they
//! are answered then, since buffers survive. Without, when every program of a buffer taken until
//! the end of the pass is done, and `ssd.flush_cost` later: what the drive does to its own tables.
//! So a flush covers everything that was answered before it came.

use super::Controller;
use crate::cache::Pending;
use crate::log_index::LogIndex;
use crate::platform::{Answer, Breakdown, Platform, Response, Served};
use alloc::vec::Vec;
use units::{FrameId, Time};

/// Flushes that are not answered.
#[derive(Clone, Default)]
pub(super) struct Flushes {
    /// Of this pass.
    current: Vec<Pending>,
    /// Of the next one.
    next: Vec<Pending>,
    /// Frames below have been looked at.
    cursor: usize,
    /// The last buffer that was taken when the pass was over.
    last_buffer: Option<u64>,
}

impl Flushes {
    /// Whether there are any.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.current.len() + self.next.len()
    }

    /// Takes one in.
    pub(super) fn push(&mut self, flush: Pending) {
        if self.current.is_empty() {
            self.current.push(flush);
            (self.cursor, self.last_buffer) = (0, None);
        } else {
            self.next.push(flush);
        }
    }

    /// The pass is over: those who waited for it. The next one begins.
    fn end_pass(&mut self) -> Vec<Pending> {
        (self.cursor, self.last_buffer) = (0, None);
        core::mem::replace(&mut self.current, core::mem::take(&mut self.next))
    }

    /// Nobody waits any more.
    pub(super) fn take_all(&mut self) -> Vec<Pending> {
        let mut all = self.end_pass();
        all.append(&mut self.end_pass());
        all
    }
}

impl<I: LogIndex> Controller<I> {
    /// Does what the flushes that wait allow now.
    #[inline]
    pub(super) fn advance_flushes<P: Platform>(&mut self, now: Time, platform: &mut P) {
        if !self.flushes.is_empty() {
            self.go_on_flushing(now, platform);
        }
    }

    fn go_on_flushing<P: Platform>(&mut self, now: Time, platform: &mut P) {
        while !self.flushes.is_empty() && self.pass_is_over(now, platform) {
            for flush in self.flushes.end_pass() {
                self.answer_flush(now, &flush, platform);
            }
        }
    }

    /// Goes on with the pass; says whether its flushes are done.
    fn pass_is_over<P: Platform>(&mut self, now: Time, platform: &mut P) -> bool {
        // With a log that takes every write no frame is dirty.
        let frames = match self.log.is_none() || self.constants.frames_take_writes {
            true => self.cache.frame_count(),
            false => 0,
        };
        while self.flushes.cursor < frames {
            let frame = FrameId::from_index(self.flushes.cursor);
            if self.cache.is_dirty(frame) && !self.write_frame_back(now, frame, platform) {
                return false;
            }
            self.flushes.cursor += 1;
        }
        let taken = self.back_end.buffers_taken();
        let last = *self.flushes.last_buffer.get_or_insert(taken);
        !self.back_end.has_unsafe_until(last)
    }

    /// Sends a dirty page to flash and leaves it where it is; says whether it is here and there was
    /// a buffer.
    pub(super) fn write_frame_back<P: Platform>(
        &mut self,
        now: Time,
        frame: FrameId,
        platform: &mut P,
    ) -> bool {
        let is_here = self.cache.is_resident(frame);
        let Some(lpa) = self.cache.page_in(frame).filter(|_| is_here) else {
            return false;
        };
        if !self.back_end.has_free_buffer() {
            return false;
        }
        self.program_frame(now, lpa, frame, platform);
        self.unkeep_frame(frame, platform);
        self.cache.mark_clean(frame);
        true
    }

    fn answer_flush<P: Platform>(&mut self, now: Time, flush: &Pending, platform: &mut P) {
        let at = now + self.constants.flush_cost;
        self.stats.served.count(Served::Write);
        let response = Response {
            request: flush.request.id,
            answer: Answer::Written,
            at,
            served: Served::Write,
            breakdown: Breakdown {
                flash: at - flush.arrived,
                ..Breakdown::default()
            },
        };
        self.answer(response, platform);
    }
}
