//! The part of the log that lies in frames of the data cache (`ssd.log.least`).
//!
//! [`Room`](crate::policies::room::Room) says how many frames the log should have. Here they change
//! hands: the log takes a frame whose page can leave at once, and gives back what neither half has
//! reached. A half is sealed as soon as it has what the log should have, so a log that has too much
//! gives it back with its next two halves.
//!
//! Invariant: a half has no more lines than half of the log's frames take, and those of its least.

use super::Controller;
use crate::log_index::LogIndex;
use crate::platform::Platform;
use units::{Lpa, Time};

impl<I: LogIndex> Controller<I> {
    /// Brings the log nearer to the room that it should have.
    #[inline]
    pub(super) fn fit_log<P: Platform>(&mut self, now: Time, platform: &mut P) {
        if let Some(room) = &self.room
            && self.fitted != (room.wanted(), room.wanted())
        {
            self.give_frames_back();
            self.take_frames(now, platform);
        }
    }

    /// The log gives back what it should not have and neither half has reached. A half keeps room
    /// for a line, so that it is sealed by a write like any other.
    pub(super) fn give_frames_back(&mut self) {
        let (Some(room), Some(log)) = (&self.room, &self.log) else {
            return;
        };
        let (wanted, used) = (room.wanted(), log.most_used());
        while self.cache.reserved() > wanted && self.half_slots(self.cache.reserved() - 1) > used {
            self.cache.give_back();
            self.stats.log_frames_given += 1;
        }
        self.resize_log(wanted);
    }

    /// The log takes frames until it has what it should have or one cannot be had at once. Nobody
    /// else is about to evict a page.
    fn take_frames<P: Platform>(&mut self, now: Time, platform: &mut P) {
        let wanted = self.fitted.0;
        while self.cache.reserved() < wanted && self.vacate_for_log(now, platform) {
            self.cache.reserve();
            self.stats.log_frames_taken += 1;
        }
        self.resize_log(wanted);
    }

    /// Before the first request the log has all frames that it may have.
    pub(super) fn take_frames_for_log(&mut self) {
        let Some(room) = &self.room else {
            return;
        };
        let wanted = room.wanted();
        while self.cache.reserved() < wanted {
            self.cache.reserve();
        }
        self.resize_log(wanted);
    }

    /// A page that was asked for is fetched.
    #[inline]
    pub(super) fn note_fetched(&mut self, lpa: Lpa) {
        if let Some(room) = self.room.as_mut() {
            room.fetched(lpa);
        }
    }

    /// The log has what its frames take.
    fn resize_log(&mut self, wanted: u32) {
        let reserved = self.cache.reserved();
        if self.fitted == (wanted, reserved) {
            return;
        }
        self.fitted = (wanted, reserved);
        let most = self.half_slots(reserved);
        let seal = self.half_slots(wanted.min(reserved));
        let log = self.log.as_mut().expect("only a log has room");
        log.resize(most, seal);
    }

    /// Lines that each half takes with so many frames.
    fn half_slots(&self, frames: u32) -> u32 {
        let page = self.constants.page.bytes();
        let size = self.constants.log_least + page * u64::from(frames);
        let slots = size / self.constants.log_entry / 2;
        let slots = u32::try_from(slots).expect("validated");
        slots.min(self.constants.log_half_slots)
    }

    /// Frees the frame that is to serve the log next; says whether it is free. A page that is newer
    /// than flash goes there through a buffer, if one is free.
    fn vacate_for_log<P: Platform>(&mut self, now: Time, platform: &mut P) -> bool {
        let frame = self.cache.next_reserved();
        let Some(lpa) = self.cache.page_in(frame) else {
            return true;
        };
        if !self.cache.is_resident(frame) {
            return false;
        }
        if self.cache.is_dirty(frame) {
            if !self.write_frame_back(now, frame, platform) {
                return false;
            }
            self.stats.evictions_dirty += 1;
        } else {
            self.stats.evictions_clean += 1;
        }
        self.evict(lpa, frame);
        true
    }
}
