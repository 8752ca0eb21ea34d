//! Reads: log and data cache are looked up side by side (SkyByte §III-B, R1–R3).
//!
//! A hit costs its own lookup and a line of device DRAM; what misses both costs the larger lookup,
//! then is served from a buffer, from flash, or, if the page is not mapped, as zeroes.

use super::Controller;
use super::slot_address;
use crate::cache::{MshrId, Pending, Waiter};
use crate::log_index::LogIndex;
use crate::platform::{
    Answer, Breakdown, Cell, PagePlace, Platform, Request, RequestOp, Response, Served,
};
use crate::policies::promotion::Use;
use units::{FrameId, LineInPage, LogSlot, Lpa, Time};

impl<I: LogIndex> Controller<I> {
    // In its caller, as is the hit: most requests of most hosts are these.
    #[inline(always)]
    pub(super) fn on_read<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P) {
        match request.op {
            RequestOp::PromotionRead => self.stats.promotion_reads += 1,
            RequestOp::ReadPage => self.stats.page_reads += 1,
            RequestOp::ReadRun { .. } => self.stats.run_reads += 1,
            _ => self.stats.reads += 1,
        }
        let pending = self.look_up(now, request, false, platform);
        let (lpa, _) = self.split(request.line);
        let frame = self.cache.find(lpa);
        if !self.serve_hit(now, &pending, frame, platform) {
            let overtakes = !self.stalled_misses.is_empty() && frame.is_none();
            if overtakes || !self.resolve_miss(now, &pending, frame, platform) {
                self.stall(pending);
            }
        }
        self.take_ownership(request, platform);
    }

    /// A page of which the host owns a line is dirty, as soon as it has a frame.
    #[inline]
    fn take_ownership<P: Platform>(&mut self, request: Request, platform: &mut P) {
        if matches!(request.op, RequestOp::Own { .. }) {
            let (lpa, _) = self.split(request.line);
            if let Some(frame) = self.cache.find(lpa) {
                self.dirty_frame(frame, request, platform);
            }
        }
    }

    /// Serves a read that has been looked up before, or says that there is no room.
    pub(super) fn resolve_read<P: Platform>(
        &mut self,
        now: Time,
        pending: &Pending,
        platform: &mut P,
    ) -> bool {
        let (lpa, _) = self.split(pending.request.line);
        let frame = self.cache.find(lpa);
        let is_served = self.serve_hit(now, pending, frame, platform)
            || self.resolve_miss(now, pending, frame, platform);
        self.take_ownership(pending.request, platform);
        is_served
    }

    /// R1 and R2. The copies in log and frame are equal. The frame is asked first: its lookup takes
    /// no longer than the log's in any preset, which nothing here compares.
    #[inline(always)]
    fn serve_hit<P: Platform>(
        &mut self,
        now: Time,
        pending: &Pending,
        frame: Option<FrameId>,
        platform: &mut P,
    ) -> bool {
        let (lpa, line) = self.split(pending.request.line);
        if let Some(frame) = frame
            && self.holds(frame, line, pending.request.op)
        {
            let ready = pending.cache_ready;
            self.serve_from_frame((ready, now.max(ready)), pending, frame, platform);
            return true;
        }
        match pending.request.op {
            RequestOp::ReadPage => return false,
            // A frame on its way may have some of the lines in a newer version.
            RequestOp::ReadRun { .. } if self.constants.frames_take_writes && frame.is_some() => {
                return false;
            }
            RequestOp::ReadRun { .. } => return self.serve_run_from_log(now, pending, platform),
            _ => {}
        }
        if let Some(slot) = self.find_in_log(lpa, line) {
            self.serve_from_log(now.max(pending.log_ready), pending, slot, platform);
            return true;
        }
        if let Some(frame) = frame
            && self.has_been_brought(frame, line)
            && !self.is_open(lpa, line)
        {
            self.stats.reads_before_page += 1;
            let ready = pending.miss_ready();
            self.serve_from_frame((ready, now.max(ready)), pending, frame, platform);
            return true;
        }
        false
    }

    /// Whether the line has come from flash before the rest of its page. Behind a lookup of the log
    /// that was in vain it is the newest.
    #[inline]
    fn has_been_brought(&self, frame: FrameId, line: LineInPage) -> bool {
        self.cache
            .mshr_of(frame)
            .is_some_and(|mshr| self.cache.brought(mshr).contains(line))
    }

    /// Whether the frame has the newest bytes of the line, or of the page, already.
    #[inline(always)]
    pub(super) fn holds(&self, frame: FrameId, line: LineInPage, op: RequestOp) -> bool {
        let Some(lpa) = self.cache.page_in(frame) else {
            return false;
        };
        match self.cache.mshr_of(frame) {
            None => true,
            // With a log the line is served from there, until compaction takes it away.
            Some(mshr) => {
                let written = self.cache.written(mshr);
                match op {
                    RequestOp::ReadPage => {
                        written == self.constants.all_lines && !self.has_open(lpa)
                    }
                    RequestOp::ReadRun { .. } => self
                        .lines_from(line, op)
                        .all(|line| written.contains(line) && !self.is_open(lpa, line)),
                    _ => written.contains(line) && !self.is_open(lpa, line),
                }
            }
        }
    }

    /// `ready` is when it is known that the frame has the line.
    #[inline(always)]
    fn serve_from_frame<P: Platform>(
        &mut self,
        (ready, at): (Time, Time),
        pending: &Pending,
        frame: FrameId,
        platform: &mut P,
    ) {
        let (_, line) = self.split(pending.request.line);
        let done = match pending.request.op {
            RequestOp::ReadPage => {
                let (address, size) = (self.frame_address(frame), self.constants.page.bytes());
                platform.dram(at, address, size, false)
            }
            RequestOp::ReadRun { .. } => {
                let size = self.bytes_of(pending.request);
                platform.dram(at, self.line_address(frame, line), size, false)
            }
            _ => Self::move_line(at, self.line_address(frame, line), false, platform),
        };
        let breakdown = hit_breakdown(pending, ready, at, done);
        let answer = (done, Served::CacheHit, breakdown);
        self.answer_from_frame(pending, frame, answer, platform);
        if pending.request.op != RequestOp::PromotionRead {
            self.use_frame(at, frame, pending.request, Use::Hit, platform);
        }
    }

    fn serve_from_log<P: Platform>(
        &mut self,
        at: Time,
        pending: &Pending,
        slot: LogSlot,
        platform: &mut P,
    ) {
        let done = Self::move_line(at, slot_address(slot), false, platform);
        let breakdown = hit_breakdown(pending, pending.log_ready, at, done);
        let answer = (done, Served::LogHit, breakdown);
        platform.copy_line(Cell::Log(slot), Cell::Host(pending.request.id));
        self.answer_read(pending, answer, platform);
    }

    /// R3: neither log nor data cache holds the line; the page may have a frame that it is on its
    /// way into. Says whether there was room.
    fn resolve_miss<P: Platform>(
        &mut self,
        now: Time,
        pending: &Pending,
        frame: Option<FrameId>,
        platform: &mut P,
    ) -> bool {
        let at = now.max(pending.miss_ready());
        let (lpa, _) = self.split(pending.request.line);
        if let Some(frame) = frame {
            self.join(at, pending, frame, platform);
            return true;
        }
        if let Some(buffer) = self.back_end.buffer_for_read(lpa) {
            let Some(frame) = self.make_room(at, lpa, platform) else {
                return false;
            };
            let done = self.fill_from_buffer(at, lpa, buffer, frame, platform);
            let breakdown = hit_breakdown(pending, pending.miss_ready(), at, done);
            let answer = (done, Served::BufferHit, breakdown);
            self.answer_from_frame(pending, frame, answer, platform);
            if self.only_passes(lpa) {
                self.cache.remove(frame);
            } else if pending.request.op != RequestOp::PromotionRead {
                self.use_frame(at, frame, pending.request, Use::Late, platform);
            }
            return true;
        }
        if !self.back_end.is_mapped(lpa) {
            self.answer_unmapped(at, pending, platform);
            return true;
        }
        self.fetch_for_read(at, pending, lpa, platform)
    }

    /// The page was never on flash. A line of it is not in the log either; of the whole page some
    /// may be.
    fn answer_unmapped<P: Platform>(&mut self, at: Time, pending: &Pending, platform: &mut P) {
        match pending.request.op {
            RequestOp::ReadPage => return self.answer_unmapped_page(at, pending, platform),
            RequestOp::ReadRun { .. } => return self.answer_unmapped_run(at, pending, platform),
            _ => {}
        }
        let (_, line) = self.split(pending.request.line);
        let from = Cell::Page(PagePlace::Zero, line);
        platform.copy_line(from, Cell::Host(pending.request.id));
        let breakdown = hit_breakdown(pending, pending.miss_ready(), at, at);
        self.answer_read(pending, (at, Served::Unmapped, breakdown), platform);
    }

    fn fetch_for_read<P: Platform>(
        &mut self,
        at: Time,
        pending: &Pending,
        lpa: Lpa,
        platform: &mut P,
    ) -> bool {
        let Some(mshr) = self.fetch(at, lpa, platform) else {
            return false;
        };
        self.note_fetched(lpa);
        let expected = self.cache.expected(mshr);
        if self.delay.delays(at, pending.request.op, expected) {
            match expected {
                (_, true) => self.stats.delays_gc += 1,
                (_, false) => self.stats.delays_threshold += 1,
            }
            self.cache.note_delay(mshr);
            self.answer_delay(at, pending, Served::Flash, platform);
        } else {
            self.wait_for_page(at, pending, mshr, Served::Flash);
        }
        self.want_line(mshr, pending, platform);
        if pending.request.op != RequestOp::ReadPage {
            self.prefetch(at, lpa, pending.request.source, platform);
        }
        true
    }

    /// A miss is answered when its page has come.
    fn wait_for_page(&mut self, since: Time, pending: &Pending, mshr: MshrId, served: Served) {
        let waiter = Waiter {
            pending: *pending,
            since,
            served,
        };
        self.cache.wait(mshr, waiter);
    }

    /// A miss on a page in flight waits for it or is delayed for what remains (D13).
    fn join<P: Platform>(&mut self, at: Time, pending: &Pending, frame: FrameId, platform: &mut P) {
        let mshr = self.cache.mshr_of(frame).expect("a resident page is a hit");
        self.cache.want(mshr);
        let expected = self.cache.expected(mshr);
        if self.delay.delays(at, pending.request.op, expected) {
            self.stats.delays_merged += 1;
            self.cache.note_delay(mshr);
            self.answer_delay(at, pending, Served::MergedMiss, platform);
        } else {
            self.wait_for_page(at, pending, mshr, Served::MergedMiss);
        }
        self.want_line(mshr, pending, platform);
        self.join_prefetch(at, frame, pending.request, platform);
    }

    /// The flash hears which line of a page in flight is asked for.
    #[inline]
    fn want_line<P: Platform>(&self, mshr: MshrId, pending: &Pending, platform: &mut P) {
        let (_, line) = self.split(pending.request.line);
        if pending.request.op != RequestOp::ReadPage {
            platform.wants(self.cache.tag_of(mshr), line);
        }
    }

    fn answer_delay<P: Platform>(
        &mut self,
        at: Time,
        pending: &Pending,
        served: Served,
        platform: &mut P,
    ) {
        let done = at + self.delay.answer_cost();
        let response = Response {
            request: pending.request.id,
            answer: Answer::Delay,
            at: done,
            served,
            breakdown: hit_breakdown(pending, pending.miss_ready(), at, done),
        };
        self.answer(response, platform);
    }
}

/// Where the time went of a request that was ready at `ready`, went on at `at` and needed nothing
/// but device DRAM until `done`.
#[inline]
pub(super) fn hit_breakdown(pending: &Pending, ready: Time, at: Time, done: Time) -> Breakdown {
    Breakdown {
        stall: at - ready,
        index: ready - pending.arrived,
        dram: done - at,
        ..Breakdown::default()
    }
}
