//! What leaves L3: reads and writes of data lines, to host DRAM or to the device.

use super::{Fabric, device_line};
use crate::event::Event;
use crate::request::{MissRef, Pending, Purpose};
use dram::Access;
use firmware::RequestOp;
use host::placement::{HostPage, Target};
use host::{HostLine, Region};
use units::{CoreId, LineInPage, Lpa, Time};

/// A data line that L3 does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missed {
    /// Its MSHR.
    pub miss: MissRef,
    /// Which line.
    pub line: HostLine,
    /// What is asked if the page is on the device; also whether a page cache may say that it has
    /// missed.
    pub op: RequestOp,
    /// Whether the page misses L3 for the first time.
    pub is_first_touch: bool,
    /// When the miss was found.
    pub issued: Time,
}

/// An access that waits until its page is no longer locked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiting {
    Read(Missed),
    /// A line, and the core that waits for it to be written, if one does.
    Write(LineInPage, Option<CoreId>),
}

impl Waiting {
    /// Whether this is a write of the line.
    pub(super) fn writes(&self, line: LineInPage) -> bool {
        matches!(self, Self::Write(written, _) if *written == line)
    }
}

impl Fabric {
    /// When a read that reaches L3 at `now` has its turn.
    pub(super) fn l3_turn(&mut self, now: Time) -> Time {
        let at = now.max(self.l3_free);
        self.l3_free = at + self.l3_interval;
        at
    }

    /// Reads a data line where its page is, from `at` on.
    pub(super) fn read_memory(&mut self, at: Time, missed: Missed) {
        let Region::Data(lpa, in_page) = missed.line.region() else {
            unreachable!("only data lines have a page")
        };
        if self.is_cached(lpa) {
            return self.read_cached(at, missed, lpa, in_page);
        }
        // A store's miss that is a write of the line (`link.ownership`) is one here, too.
        let is_write = matches!(missed.op, RequestOp::Own { .. });
        let target = if is_write {
            self.placement.write(lpa, in_page)
        } else {
            self.placement.read(lpa, in_page)
        };
        match target {
            Target::Host(page) => {
                let hop = self.hop_of(missed.miss, self.host_dram.node_of(page));
                let asked = at + hop.there;
                let done = self.page_access(asked, page, in_page, Access::Read) + hop.back;
                self.stats
                    .host_read(missed.issued, at, hop, missed.line, done);
                self.queue.push(done, Event::HostDramDone(missed.miss));
            }
            Target::Device => {
                let first = self.llc.waiters(missed.miss.slot).next();
                let source = first.map(|waiter| waiter.core);
                let sent = at + self.hop_home(source).there;
                let pending = Pending {
                    purpose: Purpose::Miss(missed.miss, missed.line),
                    op: self.line_op(missed.op),
                    line: device_line(lpa, in_page),
                    source,
                    is_first_touch: missed.is_first_touch,
                    issued: missed.issued,
                    sent,
                    arrived: sent,
                    response: None,
                };
                self.send_read(pending, sent);
            }
            Target::Locked => self.locked.push((lpa, Waiting::Read(missed))),
        }
    }

    /// An access to a line of a page in host DRAM; says when it is done.
    pub(super) fn page_access(
        &mut self,
        at: Time,
        page: HostPage,
        line: LineInPage,
        access: Access,
    ) -> Time {
        match self.page_latency {
            None => self.host_dram.page(at, page, line, access),
            Some(latency) => at + latency,
        }
    }

    /// Sends a read, or holds it back while too many writes are on their way.
    fn send_read(&mut self, pending: Pending, at: Time) {
        if self.writes_outstanding >= self.write_credits {
            self.stats.reads_held += 1;
            self.held.push_back(pending);
        } else {
            self.send(pending, at);
        }
    }

    /// A dirty line leaves L3.
    pub(super) fn write_memory(&mut self, now: Time, line: HostLine) {
        let at = now + self.l3_latency + self.memory_latency;
        match line.region() {
            Region::Data(lpa, in_page) => self.write_data(at, lpa, in_page, None),
            _ => {
                self.host_dram.line(at, line, Access::Write);
            }
        }
    }

    /// Writes a data line where its page is, for a core that waits for it or because it has left
    /// L3.
    pub(super) fn write_data(
        &mut self,
        at: Time,
        lpa: Lpa,
        in_page: LineInPage,
        by: Option<CoreId>,
    ) {
        if self.is_cached(lpa) {
            return self.write_cached(at, lpa, in_page, by);
        }
        match self.placement.write(lpa, in_page) {
            Target::Host(page) => {
                self.stats.host_writes += 1;
                if let Some(core) = by {
                    let hop = self.hop_from(by, self.host_dram.node_of(page));
                    let asked = at + hop.there;
                    let done = self.page_access(asked, page, in_page, Access::Write);
                    return self.persisted_in_host(done + hop.back, core);
                }
                let done = self.page_access(at, page, in_page, Access::Write);
                self.echo(done, HostLine::data(lpa, in_page));
            }
            Target::Device => {
                self.writes_outstanding += 1;
                let sent = at + self.hop_home(by).there;
                let pending = Pending {
                    purpose: by.map_or(Purpose::WriteBack, Purpose::Persist),
                    op: RequestOp::Write,
                    line: device_line(lpa, in_page),
                    source: by,
                    is_first_touch: false,
                    issued: at,
                    sent,
                    arrived: sent,
                    response: None,
                };
                self.send(pending, sent);
            }
            Target::Locked => self.locked.push((lpa, Waiting::Write(in_page, by))),
        }
    }

    /// Takes out what waits for a page, in order of arrival.
    pub(super) fn take_waiting(&mut self, lpa: Lpa) -> Vec<Waiting> {
        let waiting = std::mem::take(&mut self.locked);
        let (mine, others) = waiting.into_iter().partition(|(page, _)| *page == lpa);
        self.locked = others;
        let mine: Vec<(Lpa, Waiting)> = mine;
        mine.into_iter().map(|(_, access)| access).collect()
    }

    /// The page is at its destination: what waited for it goes on, in order of arrival.
    pub(crate) fn unlock(&mut self, now: Time, lpa: Lpa) {
        for access in self.take_waiting(lpa) {
            match access {
                // A squash may have freed the MSHR meanwhile.
                Waiting::Read(missed) if self.is_current(missed.miss) => {
                    self.read_memory(now.max(missed.issued), missed);
                }
                Waiting::Read(_) => {}
                Waiting::Write(in_page, by) => self.write_data(now, lpa, in_page, by),
            }
        }
    }
}
