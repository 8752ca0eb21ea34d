//! Writes: into the log and, if the page is cached, into its frame too (SkyByte §III-B, W1–W3).
//!
//! A write never waits for flash: it is answered when the line is in battery-backed DRAM. Without a
//! log (Base-CSSD) the data cache takes it: the line goes into the page's frame, and on a miss the
//! rest of the page is fetched behind it. A write waits only for room: both halves of the log full,
//! or no frame, MSHR or buffer.

use super::Controller;
use super::promotion::Use;
use crate::mshr::Pending;
use crate::platform::{Answer, Breakdown, Cell, PagePlace, Platform, Request, Response, Served};
use units::{FrameId, Time};

impl Controller {
    #[inline]
    pub(super) fn on_write<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P) {
        self.stats.writes += 1;
        if let Some(log) = &self.log {
            if log.has_room() {
                self.write_to_log(now, now, request, platform);
                self.pump_log(now, platform);
            } else {
                self.stats.log_stalls += 1;
                self.stalled_writes.push_back((request, now));
            }
            return;
        }
        let pending = self.look_up(now, request, self.constants.write_occupancy, platform);
        let (lpa, _) = self.split(request.line);
        let overtakes = !self.stalled_misses.is_empty() && self.cache.find(lpa).is_none();
        if overtakes || !self.resolve_write(now, &pending, platform) {
            self.stall(pending);
        }
    }

    /// Appends the line to the active half, which has room, and updates the page's frame (W2).
    pub(super) fn write_to_log<P: Platform>(
        &mut self,
        now: Time,
        arrived: Time,
        request: Request,
        platform: &mut P,
    ) {
        let pending = if self.constants.write_lookup_charged {
            self.look_up(now, request, self.constants.write_occupancy, platform)
        } else {
            Pending::ready_at(now, request)
        };
        let (lpa, line) = self.split(request.line);
        let log = self
            .log
            .as_mut()
            .expect("only a device with a log writes to it");
        let slot = log.append(lpa, line);
        self.stats.log_appends += 1;
        self.stats.index_bytes_peak = self.stats.index_bytes_peak.max(log.index_memory());
        platform.copy_line(Cell::Host(request.id), Cell::Log(slot));
        let slot_address = Self::slot_address(slot);
        let done = Self::move_line(pending.log_ready, slot_address, true, platform);
        if let Some(frame) = self.cache.find(lpa) {
            if self.constants.log_write_updates_cache {
                self.update_frame(pending.cache_ready, frame, request, platform);
            } else {
                self.copy_to_frame(frame, request, platform);
            }
        }
        let breakdown = Breakdown {
            stall: now - arrived,
            index: pending.log_ready - now,
            dram: done - pending.log_ready,
            ..Breakdown::default()
        };
        self.answer_write(request, done, breakdown, platform);
    }

    /// Writes the line into a frame, resident or in flight; returns when it is there.
    fn update_frame<P: Platform>(
        &mut self,
        at: Time,
        frame: FrameId,
        request: Request,
        platform: &mut P,
    ) -> Time {
        let (_, line) = self.split(request.line);
        let done = Self::move_line(at, self.line_address(frame, line), true, platform);
        if !self.copy_to_frame(frame, request, platform) {
            let kind = match self.log {
                Some(_) => Use::Late,
                None => Use::Hit,
            };
            self.use_frame(at, frame, request, kind, platform);
        }
        done
    }

    /// Data plane of a write to a frame; says whether the frame is in flight.
    fn copy_to_frame<P: Platform>(
        &mut self,
        frame: FrameId,
        request: Request,
        platform: &mut P,
    ) -> bool {
        let (_, line) = self.split(request.line);
        let to = Cell::Page(PagePlace::Frame(frame), line);
        platform.copy_line(Cell::Host(request.id), to);
        let Some(mshr) = self.cache.mshr_of(frame) else {
            return false;
        };
        let entry = self.mshrs.get_mut(mshr);
        entry.written.insert(line);
        entry.is_unwanted = false;
        true
    }

    /// A write without a log. Says whether there was room.
    pub(super) fn resolve_write<P: Platform>(
        &mut self,
        now: Time,
        pending: &Pending,
        platform: &mut P,
    ) -> bool {
        let at = now.max(pending.cache_ready);
        let Some((frame, room_at)) = self.frame_for_write(at, pending.request, platform) else {
            return false;
        };
        self.cache.mark_dirty(frame);
        let done = self.update_frame(room_at, frame, pending.request, platform);
        let breakdown = Breakdown {
            stall: at - pending.cache_ready,
            index: pending.cache_ready - pending.arrived,
            dram: done - at,
            ..Breakdown::default()
        };
        self.answer_write(pending.request, done, breakdown, platform);
        true
    }

    /// The frame that takes a write, and when it does: the page's own, or one that is filled from a
    /// buffer, with zeroes, or by a fetch that the write runs ahead of.
    fn frame_for_write<P: Platform>(
        &mut self,
        at: Time,
        request: Request,
        platform: &mut P,
    ) -> Option<(FrameId, Time)> {
        let (lpa, _) = self.split(request.line);
        if let Some(frame) = self.cache.find(lpa) {
            if self.cache.mshr_of(frame).is_some() {
                self.join_prefetch(at, frame, request, platform);
            }
            return Some((frame, at));
        }
        if let Some(buffer) = self.buffer_of(lpa) {
            let frame = self.make_room(at, lpa, platform)?;
            return Some((
                frame,
                self.fill_from_buffer(at, lpa, buffer, frame, platform),
            ));
        }
        if !self.ftl.is_mapped(lpa) {
            let frame = self.make_room(at, lpa, platform)?;
            self.cache.install(frame, lpa, None);
            let all = self.constants.all_lines;
            platform.copy_page(PagePlace::Zero, PagePlace::Frame(frame), all);
            let (address, size) = (self.frame_address(frame), self.constants.page.bytes());
            return Some((frame, platform.dram(at, address, size, true)));
        }
        let mshr = self.fetch(at, lpa, platform)?;
        let frame = self.mshrs.get(mshr).frame;
        self.prefetch(at, lpa, request.source, platform);
        Some((frame, at))
    }

    fn answer_write<P: Platform>(
        &mut self,
        request: Request,
        at: Time,
        breakdown: Breakdown,
        platform: &mut P,
    ) {
        self.stats.served.count(Served::Write);
        let response = Response {
            request: request.id,
            answer: Answer::Written,
            at,
            served: Served::Write,
            breakdown,
        };
        self.answer(response, platform);
    }
}
