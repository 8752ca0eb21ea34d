//! Whole pages: the block port.
//!
//! A page read takes the way of a line read: one lookup, then the data cache, a buffer, or flash
//! through an MSHR and a frame; the lines of the log are merged on the way. It is never delayed and
//! starts no prefetch: reading ahead of a block device is its host's business.
//!
//! A page write needs a buffer and nothing else. It replaces every older copy: the page's lines
//! leave the log, its frame, resident or in flight, takes the bytes, and of programs of a page the
//! one submitted later wins. So the buffer is the newest copy until the program is done.

use super::Controller;
use super::reads::hit_breakdown;
use super::slot_address;
use crate::back_end::Job;
use crate::cache::Pending;
use crate::config::BlockWriteAck;
use crate::log_index::LogIndex;
use crate::platform::{
    Answer, Breakdown, BufferId, Cell, PagePlace, Platform, Request, RequestOp, Response, Served,
};
use crate::policies::promotion::Use;
use units::address::LINE_BYTES;
use units::{Lpa, Time, TxId};

impl<I: LogIndex> Controller<I> {
    /// A write of a whole page has arrived.
    pub(super) fn on_page_write<P: Platform>(
        &mut self,
        now: Time,
        request: Request,
        platform: &mut P,
    ) {
        self.stats.page_writes += 1;
        if let Some(why) = self.conflict(request, TxId::NONE) {
            return self.refuse(now, request, why, platform);
        }
        let pending = self.look_up(now, request, true, platform);
        let overtakes = !self.stalled_misses.is_empty();
        if overtakes || !self.resolve_page_write(now, &pending, platform) {
            self.stall(pending);
        }
    }

    /// Takes a page write into a buffer and starts its program. Says whether there was a buffer.
    pub(super) fn resolve_page_write<P: Platform>(
        &mut self,
        now: Time,
        pending: &Pending,
        platform: &mut P,
    ) -> bool {
        if !self.back_end.has_free_buffer() {
            return false;
        }
        let at = now.max(pending.miss_ready());
        let (lpa, _) = self.split(pending.request.line);
        let buffer = self.back_end.take_buffer(lpa, Job::BlockWrite);
        let from = PagePlace::Host(pending.request.id);
        platform.copy_page(from, PagePlace::Buffer(buffer), self.constants.all_lines);
        // From here on the buffer is the page, whatever the log has of it: its order says so.
        let order = &mut self.write_order;
        self.back_end.record_buffer((lpa, buffer), order, platform);
        self.replace_copies(at, (lpa, buffer), pending.request, platform);
        self.submit(at, buffer, platform);
        let goes_through = pending.request.op == RequestOp::WritePageThrough;
        match self.constants.block_write_ack {
            BlockWriteAck::Buffered if self.back_end.is_protected() || !goes_through => {
                self.answer_page_write(at, at, pending, platform);
            }
            _ => self.back_end.keep_writer(at, buffer, *pending),
        }
        self.pump_log(now, platform);
        true
    }

    /// What log and data cache hold of the page gives way to the written bytes.
    fn replace_copies<P: Platform>(
        &mut self,
        at: Time,
        (lpa, buffer): (Lpa, BufferId),
        request: Request,
        platform: &mut P,
    ) {
        match (&mut self.log, self.back_end.is_protected()) {
            // The buffer may be lost, and what it replaces must not be.
            (Some(log), false) => log.cover_page(lpa, self.back_end.age_of(buffer)),
            _ => self.drop_logged(lpa, platform),
        }
        let Some(frame) = self.cache.find(lpa) else {
            return;
        };
        let all = self.constants.all_lines;
        platform.copy_page(PagePlace::Host(request.id), PagePlace::Frame(frame), all);
        let (address, size) = (self.frame_address(frame), self.constants.page.bytes());
        platform.dram(at, address, size, true);
        self.unkeep_frame(frame, platform);
        self.cache.mark_clean(frame);
        match self.cache.mshr_of(frame) {
            Some(mshr) => self.cache.add_written(mshr, all),
            None => self.use_frame(at, frame, request, Use::Late, platform),
        }
    }

    /// The program of a page write is done and its buffer is free.
    pub(super) fn finish_page_write<P: Platform>(
        &mut self,
        now: Time,
        buffer: BufferId,
        platform: &mut P,
    ) {
        if let Some((pending, begun)) = self.back_end.take_writer(buffer) {
            self.answer_page_write(begun, now.max(begun), &pending, platform);
        }
        // Compaction comes before page writes that wait: it may have found no buffer.
        if self.log.is_some() {
            self.turn_log(now, platform);
        }
    }

    /// The programs of page writes wait in vain: if their pages survive in the buffers, they are
    /// done.
    pub(super) fn answer_page_writers<P: Platform>(&mut self, now: Time, platform: &mut P) {
        for (pending, begun) in self.back_end.give_up_writers() {
            match self.back_end.is_protected() {
                true => self.answer_page_write(begun, now.max(begun), &pending, platform),
                false => self.refuse_waiting(now, &pending, platform),
            }
        }
    }

    /// Answers a page write at `done`; what lies between `begun` and that is flash.
    fn answer_page_write<P: Platform>(
        &mut self,
        begun: Time,
        done: Time,
        pending: &Pending,
        platform: &mut P,
    ) {
        self.stats.served.count(Served::Write);
        let ready = pending.miss_ready();
        let response = Response {
            request: pending.request.id,
            answer: Answer::Written,
            at: done,
            served: Served::Write,
            breakdown: Breakdown {
                stall: begun - ready,
                index: ready - pending.arrived,
                flash: done - begun,
                ..Breakdown::default()
            },
        };
        self.answer(response, platform);
    }

    /// A page that was never on flash is read: zeroes, and what the log has of it.
    pub(super) fn answer_unmapped_page<P: Platform>(
        &mut self,
        at: Time,
        pending: &Pending,
        platform: &mut P,
    ) {
        let (lpa, _) = self.split(pending.request.line);
        let to = PagePlace::Host(pending.request.id);
        platform.copy_page(PagePlace::Zero, to, self.constants.all_lines);
        let (mut done, mut served) = (at, Served::Unmapped);
        if let Some(log) = &self.log {
            for (line, slot) in log.newest_lines(lpa) {
                platform.copy_line(Cell::Log(slot), Cell::Page(to, line));
                let read = platform.dram(at, slot_address(slot), LINE_BYTES, false);
                (done, served) = (done.max(read), Served::LogHit);
            }
        }
        let breakdown = hit_breakdown(pending, pending.miss_ready(), at, done);
        self.answer_read(pending, (done, served, breakdown), platform);
    }
}
