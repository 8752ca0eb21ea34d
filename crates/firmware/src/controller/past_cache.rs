//! Reads past the data cache, at a standstill of a device without a log.
//!
//! Every frame of a set may be dirty there, and no buffer will be free to write one back. The
//! newest bytes of a page that has no frame are then in a buffer or on flash, and stay as they are,
//! for nothing is written any more: they go to the host from there.

use super::Controller;
use super::reads::hit_breakdown;
use crate::back_end::Reader;
use crate::cache::Pending;
use crate::log_index::LogIndex;
use crate::platform::{Breakdown, NandTag, PagePlace, Platform, RequestOp, Served};
use alloc::vec::Vec;
use units::Time;

/// Reads that wait for flash, each with the time at which it was asked.
#[derive(Clone, Default)]
pub(super) struct PastCache(Vec<Option<(Pending, Time)>>);

impl PastCache {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.iter().flatten().count()
    }

    /// Takes one in; gives its place.
    fn enter(&mut self, pending: Pending, since: Time) -> u32 {
        let free = self.0.iter().position(Option::is_none);
        let place = free.unwrap_or(self.0.len());
        if free.is_none() {
            self.0.push(None);
        }
        self.0[place] = Some((pending, since));
        u32::try_from(place).expect("requests have 32-bit numbers")
    }
}

impl<I: LogIndex> Controller<I> {
    /// Serves a read that found no frame.
    pub(super) fn read_past_cache<P: Platform>(
        &mut self,
        now: Time,
        pending: &Pending,
        platform: &mut P,
    ) {
        let at = now.max(pending.miss_ready());
        let (lpa, _) = self.split(pending.request.line);
        let breakdown = hit_breakdown(pending, pending.miss_ready(), at, at);
        match (self.back_end.buffer_with(lpa), pending.request.op) {
            // Who owns a line or takes a page over needs a frame of it.
            (_, RequestOp::Own { .. } | RequestOp::PromotionRead) => {
                self.refuse_waiting(now, pending, platform);
            }
            (Some(buffer), _) => {
                let answer = (at, Served::BufferHit, breakdown);
                self.answer_from(pending, PagePlace::Buffer(buffer), answer, platform);
            }
            (None, _) if !self.back_end.is_mapped(lpa) => {
                let answer = (at, Served::Unmapped, breakdown);
                self.answer_from(pending, PagePlace::Zero, answer, platform);
            }
            (None, _) => {
                let place = self.past_cache.enter(*pending, at);
                let reader = Reader::PastCache(place);
                self.back_end.read(at, lpa, reader, platform);
            }
        }
    }

    /// The page of such a read has come.
    pub(super) fn pass_on<P: Platform>(
        &mut self,
        now: Time,
        place: u32,
        tag: NandTag,
        platform: &mut P,
    ) {
        let waited = self.past_cache.0[place as usize].take();
        let (pending, since) = waited.expect("a read is kept until its page has come");
        let at = now.max(since);
        let breakdown = Breakdown {
            flash: at - since,
            ..hit_breakdown(&pending, pending.miss_ready(), since, since)
        };
        let answer = (at, Served::Flash, breakdown);
        self.answer_from(&pending, PagePlace::Register(tag), answer, platform);
    }
}
