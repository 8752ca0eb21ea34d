//! Writes: into the log and, if the page is cached, into its frame too (SkyByte §III-B, W1–W3).
//!
//! A write never waits for flash: it is answered when the line is in battery-backed DRAM. Without a
//! log (Base-CSSD) the data cache takes it: the line goes into the page's frame, and on a miss the
//! rest of the page is fetched behind it. A write waits only for room: both halves of the log full,
//! or no frame, MSHR or buffer.

use super::Controller;
use super::promotion::Use;
use crate::durable::{LoggedLine, Record};
use crate::log_index::LogIndex;
use crate::mshr::Pending;
use crate::platform::{
    Answer, Breakdown, Cell, PagePlace, Platform, Request, RequestOp, Response, Served,
};
use units::{FrameId, LineInPage, Time, TxId};

/// A write that waits for room in the log, or a run that is being appended.
#[derive(Clone, Copy)]
pub(super) struct StalledWrite {
    pub(super) request: Request,
    pub(super) arrived: Time,
    /// Since when it has been waiting.
    pub(super) since: Time,
    has_waited: bool,
    /// Lines that are in the log.
    pub(super) appended: u16,
    /// When they are there.
    pub(super) stored: Time,
}

impl StalledWrite {
    pub(super) fn new(request: Request, arrived: Time) -> Self {
        Self {
            request,
            arrived,
            since: arrived,
            has_waited: false,
            appended: 0,
            stored: arrived,
        }
    }
}

impl<I: LogIndex> Controller<I> {
    #[inline]
    pub(super) fn on_write<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P) {
        self.stats.writes += 1;
        if let Some(why) = self.conflict(request, TxId::NONE) {
            return self.refuse(now, request, why, platform);
        }
        if let Some(log) = &self.log {
            if log.has_room() {
                self.write_to_log(now, now, request, platform);
                self.pump_log(now, platform);
            } else {
                self.stall_write(StalledWrite::new(request, now));
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
        let done = self.append_line(pending.log_ready, request, line, platform);
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
        let order = self.next_order();
        let log = self
            .log
            .as_mut()
            .expect("only a device with a log writes to it");
        let (slot, replaced) = log.append(lpa, line);
        self.stats.log_appends += 1;
        self.stats.index_bytes_peak = self.stats.index_bytes_peak.max(log.index_memory());
        platform.copy_line(self.payload(request, line), Cell::Log(slot));
        let tx = request.op.transaction();
        let logged = LoggedLine {
            lpa,
            line,
            tx,
            order,
        };
        // The old copy goes when the new one counts: between the two, the order decides.
        platform.record(Record::Logged(slot, logged));
        let outdated = match self.transactions.as_mut() {
            Some(transactions) if tx != TxId::NONE => {
                transactions.add((lpa, line), tx, slot, replaced)
            }
            _ => replaced,
        };
        if let Some(outdated) = outdated {
            platform.record(Record::Dropped(outdated));
        }
        Self::move_line(at, Self::slot_address(slot), true, platform)
    }

    /// Lets a write wait for room in the log behind those that already wait.
    pub(super) fn stall_write(&mut self, write: StalledWrite) {
        self.stats.log_stalls += 1;
        self.stalled_writes.push_back(write);
    }

    /// Lets a run that there was not room enough for wait before all others.
    pub(super) fn stall_rest(&mut self, write: StalledWrite) {
        self.stats.log_stalls += u64::from(!write.has_waited);
        self.stalled_writes.push_front(write);
    }

    /// Goes on with the write that has waited longest for room in the log; says whether there is
    /// one.
    pub(super) fn resume_write<P: Platform>(&mut self, now: Time, platform: &mut P) -> bool {
        let Some(mut write) = self.stalled_writes.pop_front() else {
            return false;
        };
        let so_far = self.stats.log_stall_time;
        self.stats.log_stall_time = so_far.saturating_add(now - write.since);
        write.has_waited = true;
        match write.request.op {
            RequestOp::WriteRun { .. } => self.append_run(now, write, platform),
            _ => self.write_to_log(now, write.arrived, write.request, platform),
        }
        true
    }

    /// Writes the lines into a frame, resident or in flight; returns when it is there.
    fn update_frame<P: Platform>(
        &mut self,
        at: Time,
        frame: FrameId,
        request: Request,
        platform: &mut P,
    ) -> Time {
        let (_, first) = self.split(request.line);
        let (address, size) = (self.line_address(frame, first), self.bytes_of(request));
        let done = platform.dram(at, address, size, true);
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
    pub(super) fn copy_to_frame<P: Platform>(
        &mut self,
        frame: FrameId,
        request: Request,
        platform: &mut P,
    ) -> bool {
        for line in self.lines_of(request) {
            self.copy_line_to_frame(frame, request, line, platform);
        }
        self.cache.mshr_of(frame).is_some()
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
        if let Some(mshr) = self.cache.mshr_of(frame) {
            let entry = self.mshrs.get_mut(mshr);
            entry.written.insert(line);
            entry.is_unwanted = false;
        }
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
