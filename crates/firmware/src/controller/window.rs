//! The window: battery-backed device DRAM that the byte port addresses behind the logical space.
//!
//! It has no log, no cache, no mapping and no flash: a line is where its address says, a store is
//! safe once it is there, and nothing moves by itself. What is in it is the host's to bring to
//! flash (decision D27, but for who writes back).

use super::Controller;
use super::reads::hit_breakdown;
use crate::cache::Pending;
use crate::log_index::LogIndex;
use crate::platform::{Answer, Cell, Platform, Refusal, Request, RequestOp, Response, Served};
use units::{LineAddr, LineInPage, Time, TxId};

impl<I: LogIndex> Controller<I> {
    /// Whether a request is of the window.
    #[inline]
    pub(super) fn is_of_window(&self, request: Request) -> bool {
        let (lpa, _) = self.split(request.line);
        lpa.get() >= self.back_end.logical_page_count()
    }

    /// Reads or writes a run of the window.
    pub(super) fn on_window<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P) {
        if self.is_bad_run(request) {
            return self.refuse(now, request, Refusal::BadRun, platform);
        }
        // Nothing takes a line of the window back.
        if request.op.transaction() != TxId::NONE {
            return self.refuse(now, request, Refusal::Unsupported, platform);
        }
        let lines_of_page = u64::from(self.constants.page.line_count());
        let first = request.line.get() - self.back_end.logical_page_count() * lines_of_page;
        let is_write = matches!(request.op, RequestOp::WriteRun { .. });
        for nth in 0..request.op.line_count(self.constants.page) {
            let host = Cell::HostLine(request.id, LineInPage::new(nth));
            let here = Cell::Window(LineAddr::new(first + u64::from(nth)));
            match is_write {
                true => platform.copy_line(host, here),
                false => platform.copy_line(here, host),
            }
        }
        let size = self.bytes_of(request);
        let address = self.constants.window_base + units::address::LINE_BYTES * first;
        let done = platform.dram(now, address, size, is_write);
        let pending = Pending::ready_at(now, request);
        let (answer, served) = match is_write {
            true => (Answer::Written, Served::Write),
            false => (Answer::Data, Served::CacheHit),
        };
        let response = Response {
            request: request.id,
            answer,
            at: done,
            served,
            breakdown: hit_breakdown(&pending, now, now, done),
        };
        self.answer(response, platform);
    }
}
