//! When flash has no room left and nothing is under way that could make any ([`Ftl::is_stuck`]):
//! whoever waits for it is answered.
//!
//! What was accepted stays in log, buffers and frames: a battery keeps it (frames only with
//! `ssd.power_loss_protection = dram`), reads find it, past the data cache if need be, and after
//! the power has been off the firmware tries again. What was not is refused. Only a run of lines
//! that had to wait for room may be there in part, as after a power cut, and a page write whose
//! answer waited for its program is read until the power goes; and what was accepted and
//! not flushed may be lost with the power where no battery keeps it. A drain does not end: whoever
//! asked for it sees that the controller [is stuck](Controller::is_stuck) and still
//! [empties the log](Controller::empties_log).
//!
//! [`Ftl::is_stuck`]: crate::ftl::Ftl::is_stuck

use super::Controller;
use crate::cache::Pending;
use crate::log_index::LogIndex;
use crate::platform::{Platform, Refusal};
use units::Time;

impl<I: LogIndex> Controller<I> {
    /// The end of every call: a flash page that nobody fills is closed, and everything that waits
    /// is answered if there is a standstill.
    #[inline]
    pub(super) fn settle<P: Platform>(&mut self, now: Time, platform: &mut P) {
        let is_awaited = !self.flushes.is_empty();
        self.back_end.close_page(now, is_awaited, platform);
        if self.back_end.is_stuck() {
            self.answer_waiting(now, platform);
        }
    }

    #[cold]
    fn answer_waiting<P: Platform>(&mut self, now: Time, platform: &mut P) {
        self.refuse_waiting_for_log(now, platform);
        for pending in self.flushes.take_all() {
            self.refuse_waiting(now, &pending, platform);
        }
        for pending in core::mem::take(&mut self.stalled_misses) {
            match pending.request.op.is_write() {
                true => self.refuse_waiting(now, &pending, platform),
                false => self.stalled_misses.push_back(pending),
            }
        }
        // Reads may still find room where a page was just fetched, but not where all are dirty, as
        // frames are on a device without a log only.
        self.resume_misses(now, platform);
        if self.log.is_none() {
            for pending in core::mem::take(&mut self.stalled_misses) {
                if !self.resolve(now, &pending, platform) {
                    self.read_past_cache(now, &pending, platform);
                }
            }
        }
        self.answer_page_writers(now, platform);
    }

    /// Writes and commits that wait for the log are refused; transactions stay open.
    fn refuse_waiting_for_log<P: Platform>(&mut self, now: Time, platform: &mut P) {
        let Some(log) = self.log.as_mut() else { return };
        let writes = log.give_up_writes();
        let commits = log.give_up_commits();
        let writes = writes.into_iter().map(|it| (it.request, it.arrived));
        let commits = commits
            .into_iter()
            .map(|(request, _, since)| (request, since));
        for (request, arrived) in writes.chain(commits) {
            let pending = Pending::ready_at(arrived, request);
            self.refuse_waiting(now, &pending, platform);
        }
    }

    /// Refuses a request that has waited.
    pub(super) fn refuse_waiting<P: Platform>(
        &mut self,
        now: Time,
        pending: &Pending,
        platform: &mut P,
    ) {
        let why = (Refusal::ReadOnly, now - pending.arrived);
        self.refuse_after(now, pending.request, why, platform);
    }
}
