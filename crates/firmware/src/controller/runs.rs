//! Runs: consecutive lines of one page, through the byte port.
//!
//! A read of a run takes the way of a line read with one lookup: from the frame, from the log if
//! that has every line, or with the page from a buffer or flash. A write of a run is as many line
//! writes with one answer: a device with a log appends line after line, and when both halves are
//! full the rest of the run waits; one without writes into the frame.
//!
//! Source: ByteFS §4.3 (entries of any size), §4.4 (the byte interface).

use super::Controller;
use super::reads::hit_breakdown;
use super::slot_address;
use crate::cache::Pending;
use crate::log::LogWrite;
use crate::log_index::LogIndex;
use crate::platform::{Breakdown, Cell, PagePlace, Platform, Refusal, Request, RequestOp, Served};
use crate::policies::promotion::Use;
use units::address::LINE_BYTES;
use units::{Bytes, LineInPage, Time, TxId};

impl<I: LogIndex> Controller<I> {
    /// A read of a run has arrived.
    pub(super) fn on_run_read<P: Platform>(
        &mut self,
        now: Time,
        request: Request,
        platform: &mut P,
    ) {
        if self.is_bad_run(request) {
            return self.refuse(now, request, Refusal::BadRun, platform);
        }
        self.on_read(now, request, platform);
    }

    /// A write of a run has arrived.
    pub(super) fn on_run_write<P: Platform>(
        &mut self,
        now: Time,
        request: Request,
        tx: TxId,
        platform: &mut P,
    ) {
        self.stats.run_writes += 1;
        self.stats.run_lines += u64::from(request.op.line_count(self.constants.page));
        if self.is_bad_run(request) {
            return self.refuse(now, request, Refusal::BadRun, platform);
        }
        let refused = self.conflict(request, tx).or_else(|| match tx {
            TxId::NONE => None,
            tx => match self.log.as_mut() {
                None => Some(Refusal::Unsupported),
                Some(log) => log.admit(request, tx).err(),
            },
        });
        if let Some(why) = refused {
            return self.refuse(now, request, why, platform);
        }
        let Some(log) = self.log.as_mut() else {
            return self.write_to_frame(now, request, platform);
        };
        let run = LogWrite::new(request, now);
        match log.has_no_waiting_write() {
            true => self.append_run(now, run, platform),
            false => log.wait(run, &mut self.stats),
        }
    }

    /// What updating the frame of a run's page costs, if there is one.
    fn charge_frame<P: Platform>(&mut self, at: Time, request: Request, platform: &mut P) {
        if !self.charges.frame_update() {
            return;
        }
        let (lpa, first) = self.split(request.line);
        let Some(frame) = self.cache.find(lpa) else {
            return;
        };
        let (address, size) = (self.line_address(frame, first), self.bytes_of(request));
        platform.dram(at, address, size, true);
        if self.cache.is_resident(frame) {
            self.use_frame(at, frame, request, Use::Late, platform);
        }
    }

    pub(super) fn is_bad_run(&self, request: Request) -> bool {
        let (_, first) = self.split(request.line);
        let count = request.op.line_count(self.constants.page);
        count == 0 || count > self.constants.page.line_count() - first.get()
    }

    /// The lines of a request of lines, in ascending order.
    #[inline]
    pub(super) fn lines_of(&self, request: Request) -> impl Iterator<Item = LineInPage> + use<I> {
        request.lines(self.constants.page)
    }

    /// As many lines from `first` on as a request is of.
    #[inline]
    pub(super) fn lines_from(
        &self,
        first: LineInPage,
        op: RequestOp,
    ) -> impl Iterator<Item = LineInPage> + use<I> {
        let count = op.line_count(self.constants.page);
        (first.get()..first.get() + count).map(LineInPage::new)
    }

    /// What the lines of a request of lines take.
    #[inline]
    pub(super) fn bytes_of(&self, request: Request) -> Bytes {
        LINE_BYTES * u64::from(request.op.line_count(self.constants.page))
    }

    /// The payload of a line of a request of lines.
    #[inline]
    pub(super) fn payload(&self, request: Request, line: LineInPage) -> Cell {
        match request.op {
            RequestOp::ReadRun { .. } | RequestOp::WriteRun { .. } => {
                let (_, first) = self.split(request.line);
                Cell::HostLine(request.id, LineInPage::new(line.get() - first.get()))
            }
            _ => Cell::Host(request.id),
        }
    }

    /// Copies the lines of a run from a page to the payload.
    pub(super) fn copy_run<P: Platform>(
        &self,
        request: Request,
        from: PagePlace,
        platform: &mut P,
    ) {
        for line in self.lines_of(request) {
            let to = self.payload(request, line);
            platform.copy_line(Cell::Page(from, line), to);
        }
    }

    /// Answers a read of a run from the log if that has every line of it; says whether it did.
    pub(super) fn serve_run_from_log<P: Platform>(
        &mut self,
        now: Time,
        pending: &Pending,
        platform: &mut P,
    ) -> bool {
        let (lpa, _) = self.split(pending.request.line);
        let mut lines = self.lines_of(pending.request);
        if !lines.all(|line| self.find_in_log(lpa, line).is_some()) {
            return false;
        }
        let at = now.max(pending.log_ready);
        let done = self.copy_logged_lines(at, pending.request, platform);
        let breakdown = hit_breakdown(pending, pending.log_ready, at, done);
        self.answer_read(pending, (done, Served::LogHit, breakdown), platform);
        true
    }

    /// Answers a read of a run of a page that was never on flash: zeroes, and what the log has.
    pub(super) fn answer_unmapped_run<P: Platform>(
        &mut self,
        at: Time,
        pending: &Pending,
        platform: &mut P,
    ) {
        self.copy_run(pending.request, PagePlace::Zero, platform);
        let done = self.copy_logged_lines(at, pending.request, platform);
        let served = match done > at {
            true => Served::LogHit,
            false => Served::Unmapped,
        };
        let breakdown = hit_breakdown(pending, pending.miss_ready(), at, done);
        self.answer_read(pending, (done, served, breakdown), platform);
    }

    /// Copies those lines of a run that the log has to the payload; says when that is done.
    fn copy_logged_lines<P: Platform>(
        &mut self,
        at: Time,
        request: Request,
        platform: &mut P,
    ) -> Time {
        let (lpa, _) = self.split(request.line);
        let mut done = at;
        for line in self.lines_of(request) {
            if let Some(slot) = self.find_in_log(lpa, line) {
                platform.copy_line(Cell::Log(slot), self.payload(request, line));
                let address = slot_address(slot);
                done = done.max(Self::move_line(at, address, false, platform));
            }
        }
        done
    }

    /// Appends the lines of a run that are not in the log yet, as far as there is room, and answers
    /// the run with its last line.
    pub(super) fn append_run<P: Platform>(
        &mut self,
        now: Time,
        mut run: LogWrite,
        platform: &mut P,
    ) {
        let request = run.request;
        let pending = if self.charges.write_lookup() {
            self.look_up(now, request, true, platform)
        } else {
            Pending::ready_at(now, request)
        };
        run.stored = run.stored.max(pending.log_ready);
        let (lpa, first) = self.split(request.line);
        while run.appended < request.op.line_count(self.constants.page) {
            if let Some(log) = self.log.as_mut().filter(|log| !log.has_room()) {
                run.since = now;
                return log.wait_with_rest(run, &mut self.stats);
            }
            let line = LineInPage::new(first.get() + run.appended);
            let stored = self.append_line(pending.log_ready, request, line, platform);
            run.stored = run.stored.max(stored);
            run.appended += 1;
            // Before compaction, which takes a cached page from its frame.
            // A frame has committed lines only.
            if self.is_open(lpa, line) {
                self.clear_frame(lpa);
            } else if let Some(frame) = self.cache.find(lpa) {
                self.copy_line_to_frame(frame, request, line, platform);
            }
            self.pump_halves(now, platform);
        }
        self.charge_frame(pending.cache_ready, request, platform);
        let breakdown = Breakdown {
            stall: now - run.arrived,
            index: pending.log_ready - now,
            dram: run.stored - pending.log_ready,
            ..Breakdown::default()
        };
        self.answer_write(request, run.stored, breakdown, platform);
    }
}
