//! Requests other than reads and writes of lines and pages: runs, trim, flush, transactions.

use super::Controller;
use super::reads::hit_breakdown;
use crate::cache::Pending;
use crate::log_index::LogIndex;
use crate::platform::{
    Answer, Breakdown, PagePlace, Platform, Refusal, Request, RequestOp, Response, Served,
};
use units::{Lpa, Picos, Time, TxId};

impl<I: LogIndex> Controller<I> {
    /// What the simulated host of SkyByte does not ask for.
    #[cold]
    #[inline(never)]
    pub(super) fn on_command<P: Platform>(
        &mut self,
        now: Time,
        request: Request,
        platform: &mut P,
    ) {
        match request.op {
            RequestOp::ReadRun { .. } | RequestOp::WriteRun { .. }
                if self.is_of_window(request) =>
            {
                self.on_window(now, request, platform);
            }
            RequestOp::ReadRun { .. } => self.on_run_read(now, request, platform),
            RequestOp::WriteRun { tx, .. } => self.on_run_write(now, request, tx, platform),
            RequestOp::Trim => self.on_trim(now, request, platform),
            RequestOp::Flush => self.on_flush(now, request, platform),
            RequestOp::Commit { tx } => self.on_commit(now, (request, tx), platform),
            RequestOp::Abort { tx } => self.on_abort(now, (request, tx), platform),
            _ => unreachable!("reads and writes of lines and pages have their own ways"),
        }
    }

    /// Answers a request that is not done.
    pub(super) fn refuse<P: Platform>(
        &mut self,
        now: Time,
        request: Request,
        why: Refusal,
        platform: &mut P,
    ) {
        self.refuse_after(now, request, (why, Picos::ZERO), platform);
    }

    /// The same, of a request that has waited for so long.
    pub(super) fn refuse_after<P: Platform>(
        &mut self,
        now: Time,
        request: Request,
        (why, stall): (Refusal, Picos),
        platform: &mut P,
    ) {
        self.stats.refusals += 1;
        let response = Response {
            request: request.id,
            answer: Answer::Refused(why),
            at: now,
            served: Served::Write,
            breakdown: Breakdown {
                stall,
                ..Breakdown::default()
            },
        };
        self.answer(response, platform);
    }

    /// With a log that takes every write and buffers that survive, or where frames do, everything
    /// that was answered is in battery-backed DRAM already.
    fn on_flush<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P) {
        self.stats.flushes += 1;
        let pending = Pending::ready_at(now, request);
        let takes_all = self.log.is_some() && !self.constants.frames_take_writes;
        if self.constants.keeps_frames || (takes_all && self.back_end.is_protected()) {
            return self.answer_command(now, &pending, platform);
        }
        self.flushes.push(pending);
        self.advance_flushes(now, platform);
    }

    /// A page is given up: every copy of it goes, and programs that are on their way come to
    /// nothing.
    fn on_trim<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P) {
        self.stats.trims += 1;
        if let Some(why) = self.conflict(request, TxId::NONE) {
            return self.refuse(now, request, why, platform);
        }
        let pending = self.look_up(now, request, true, platform);
        let (lpa, _) = self.split(request.line);
        // The oldest copy goes first: whatever a cut leaves of a line is then its newest copy.
        self.back_end.trim(lpa, platform);
        self.forget_frame(lpa, platform);
        self.hot_pages.start_anew(lpa);
        self.drop_logged(lpa, platform);
        self.answer_command(pending.miss_ready(), &pending, platform);
        self.pump_log(now, platform);
        self.resume_misses(now, platform);
    }

    /// A page that is being fetched, ahead or for a read that was answered with SkyByte-Delay,
    /// comes as zeroes; one that is here leaves.
    fn forget_frame<P: Platform>(&mut self, lpa: Lpa, platform: &mut P) {
        let Some(frame) = self.cache.find(lpa) else {
            return;
        };
        self.unkeep_frame(frame, platform);
        let Some(mshr) = self.cache.mshr_of(frame) else {
            return self.cache.remove(frame);
        };
        let all = self.constants.all_lines;
        platform.copy_page(PagePlace::Zero, PagePlace::Frame(frame), all);
        self.cache.mark_clean(frame);
        self.cache.add_written(mshr, all);
    }

    /// Answers a request that nothing is to be brought for, at `at`.
    pub(super) fn answer_command<P: Platform>(
        &mut self,
        at: Time,
        pending: &Pending,
        platform: &mut P,
    ) {
        self.stats.served.count(Served::Write);
        let response = Response {
            request: pending.request.id,
            answer: Answer::Written,
            at,
            served: Served::Write,
            breakdown: hit_breakdown(pending, pending.miss_ready(), at, at),
        };
        self.answer(response, platform);
    }
}
