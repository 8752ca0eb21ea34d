//! Writes: into the log and, if the page is cached, into its frame too (SkyByte §III-B, W1–W3).
//!
//! A write never waits for flash: it is answered when the line is in battery-backed DRAM. Without a
//! log (Base-CSSD) the data cache takes it: the line goes into the page's frame, and on a miss the
//! rest of the page is fetched behind it. A write waits only for room: both halves of the log full,
//! or no frame, MSHR or buffer.

use super::Controller;
use super::slot_address;
use crate::cache::Pending;
use crate::durable::LoggedLine;
use crate::log::LogWrite;
use crate::log_index::LogIndex;
use crate::platform::{
    Answer, Breakdown, Cell, PagePlace, Platform, Request, RequestOp, Response, Served,
};
use crate::policies::promotion::Use;
use crate::work::Work;
use units::{FrameId, LineInPage, Time, TxId};

impl<I: LogIndex> Controller<I> {
    #[inline]
    pub(super) fn on_write<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P) {
        self.stats.writes += 1;
        if let Some(why) = self.conflict(request, TxId::NONE) {
            return self.refuse(now, request, why, platform);
        }
        if self.constants.frames_take_writes {
            let (lpa, _) = self.split(request.line);
            if self.cache.find(lpa).is_some() {
                self.write_to_frame(now, request, platform);
                return self.pump_log(now, platform);
            }
        }
        if let Some(log) = self.log.as_mut() {
            if log.has_room() {
                self.write_to_log(now, now, request, platform);
                self.pump_log(now, platform);
            } else {
                log.wait(LogWrite::new(request, now), &mut self.stats);
            }
            return;
        }
        self.write_to_frame(now, request, platform);
    }

    /// A write on a device without a log.
    pub(super) fn write_to_frame<P: Platform>(
        &mut self,
        now: Time,
        request: Request,
        platform: &mut P,
    ) {
        let pending = self.look_up(now, request, true, platform);
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
        let pending = if self.charges.write_lookup() {
            self.look_up(now, request, true, platform)
        } else {
            Pending::ready_at(now, request)
        };
        let (lpa, line) = self.split(request.line);
        let done = self.append_line(pending.log_ready, request, line, platform);
        if let Some(frame) = self.cache.find(lpa) {
            if self.charges.frame_update() {
                let at = pending.cache_ready;
                self.write_lines(at, frame, request, platform);
                self.use_written(at, frame, request, platform);
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

    /// Appends a line of a write to the active half, which has room; returns when it is there.
    #[inline]
    pub(super) fn append_line<P: Platform>(
        &mut self,
        at: Time,
        request: Request,
        line: LineInPage,
        platform: &mut P,
    ) -> Time {
        let (lpa, _) = self.split(request.line);
        self.write_order = self.write_order.next();
        let logged = LoggedLine {
            lpa,
            line,
            tx: request.op.transaction(),
            order: self.write_order,
        };
        let payload = self.payload(request, line);
        if let Some(room) = self.room.as_mut() {
            room.logged(lpa);
        }
        let log = self.log.as_mut();
        let log = log.expect("only a device with a log writes to it");
        let stats = &mut self.stats;
        let slot = platform.timed(Work::LogAppend, |platform| {
            log.append(logged, payload, stats, platform)
        });
        let at = platform.charge(at, Work::LogAppend);
        Self::move_line(at, slot_address(slot), true, platform)
    }

    /// Goes on with the write that has waited longest for room in the log; says whether there is
    /// room and one.
    pub(super) fn resume_write<P: Platform>(&mut self, now: Time, platform: &mut P) -> bool {
        let next = self.log.as_mut();
        let Some(write) = next.and_then(|log| log.next_write(now, &mut self.stats)) else {
            return false;
        };
        match write.request.op {
            RequestOp::WriteRun { .. } => self.append_run(now, write, platform),
            _ => self.write_to_log(now, write.arrived, write.request, platform),
        }
        true
    }

    /// Writes the lines into a frame, resident or in flight; returns when they are there.
    fn write_lines<P: Platform>(
        &mut self,
        at: Time,
        frame: FrameId,
        request: Request,
        platform: &mut P,
    ) -> Time {
        let (_, first) = self.split(request.line);
        let (address, size) = (self.line_address(frame, first), self.bytes_of(request));
        let done = platform.dram(at, address, size, true);
        self.copy_to_frame(frame, request, platform);
        done
    }

    /// The page of the frame, if it is there, was used by a write: it may leave for what that
    /// brings.
    fn use_written<P: Platform>(
        &mut self,
        at: Time,
        frame: FrameId,
        request: Request,
        platform: &mut P,
    ) {
        if self.cache.is_resident(frame) {
            let kind = match self.log {
                Some(_) if !self.constants.frames_take_writes => Use::Late,
                _ => Use::Hit,
            };
            self.use_frame(at, frame, request, kind, platform);
        }
    }

    /// Data plane of a write to a frame.
    pub(super) fn copy_to_frame<P: Platform>(
        &mut self,
        frame: FrameId,
        request: Request,
        platform: &mut P,
    ) {
        for line in self.lines_of(request) {
            self.copy_line_to_frame(frame, request, line, platform);
        }
    }

    #[inline]
    pub(super) fn copy_line_to_frame<P: Platform>(
        &mut self,
        frame: FrameId,
        request: Request,
        line: LineInPage,
        platform: &mut P,
    ) {
        let to = Cell::Page(PagePlace::Frame(frame), line);
        platform.copy_line(self.payload(request, line), to);
        self.cache.note_write(frame, line);
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
        if self.constants.frames_take_writes {
            for line in self.lines_of(pending.request) {
                self.cache.mark_line_dirty(frame, line);
            }
        }
        let done = self.write_lines(room_at, frame, pending.request, platform);
        // Behind the bytes that it vouches for, and before the page may leave its frame.
        self.dirty_frame(frame, pending.request, platform);
        self.use_written(room_at, frame, pending.request, platform);
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
        if let Some(buffer) = self.back_end.buffer_for_read(lpa) {
            let frame = self.make_room(at, lpa, platform)?;
            return Some((
                frame,
                self.fill_from_buffer(at, lpa, buffer, frame, platform),
            ));
        }
        if !self.back_end.is_mapped(lpa) {
            let frame = self.make_room(at, lpa, platform)?;
            self.cache.install(frame, lpa);
            self.stats.zero_fills += 1;
            let all = self.constants.all_lines;
            platform.copy_page(PagePlace::Zero, PagePlace::Frame(frame), all);
            let (address, size) = (self.frame_address(frame), self.constants.page.bytes());
            return Some((frame, platform.dram(at, address, size, true)));
        }
        let mshr = self.fetch(at, lpa, platform)?;
        self.note_fetched(lpa);
        let frame = self.cache.frame_of(mshr);
        self.prefetch(at, lpa, request.source, platform);
        Some((frame, at))
    }

    pub(super) fn answer_write<P: Platform>(
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
