//! Answers of the device at the host.

use super::memory::{Missed, Waiting};
use super::{Arrived, Fabric};
use crate::recorder::AccessRecord;
use crate::request::{MissRef, Pending, Purpose};
use firmware::{Answer, RequestOp, Response};
use host::HostLine;
use host::placement::Target;
use units::{CoreId, LineAddr, Lpa, PageSize, RequestId, Time};

impl Fabric {
    /// The answer to a request arrives at the host.
    pub fn host_arrive(&mut self, now: Time, id: RequestId) -> Arrived {
        let (pending, response) = self.requests.close(id);
        self.release_line(now, pending.line);
        if !self.persisting.is_empty() {
            self.settle_persisting(now, pending.line);
        }
        match pending.purpose {
            Purpose::WriteBack | Purpose::Demotion | Purpose::Persist(_) => {
                self.stats.device_writes += 1;
                self.writes_outstanding -= 1;
                self.release_held(now);
                if let Purpose::Persist(core) = pending.purpose {
                    self.persisted_on_device(now, core, pending.issued);
                }
                if pending.purpose == Purpose::WriteBack {
                    let lpa = pending.line.lpa(PageSize::KIB_4);
                    let in_page = pending.line.in_page(PageSize::KIB_4);
                    self.echo(now, HostLine::data(lpa, in_page));
                }
                if pending.purpose == Purpose::Demotion {
                    Arrived::Demotion(pending.line)
                } else {
                    Arrived::Nothing
                }
            }
            Purpose::PageWriteBack => {
                self.stats.device_writes += u64::from(PageSize::KIB_4.line_count());
                Arrived::Nothing
            }
            Purpose::PageFill => self.page_arrives(now, &pending, &response),
            Purpose::Promotion => Arrived::Promotion(pending.line),
            Purpose::Miss(miss, line) => self.miss_answered(now, miss, line, &pending, &response),
        }
    }

    /// A request of a line was answered: those that waited for it go.
    pub(super) fn release_line(&mut self, now: Time, line: LineAddr) {
        let mut freed = std::mem::take(&mut self.freed);
        self.order.leave(line, &mut freed);
        for pending in freed.drain(..) {
            self.transmit(pending, now.max(pending.sent));
        }
        self.freed = freed;
    }

    fn miss_answered(
        &mut self,
        now: Time,
        miss: MissRef,
        line: HostLine,
        pending: &Pending,
        response: &Response,
    ) -> Arrived {
        if response.answer == Answer::Delay {
            self.record((pending.issued, now), miss, pending, response);
            if self.delivers_delayed {
                self.stats.delivered(now, line, pending, response);
            } else {
                self.stats.delayed(line, pending, response);
            }
            if !self.is_current(miss) {
                return Arrived::Nothing;
            }
            self.delays.extend(self.llc.waiters(miss.slot));
            return Arrived::Delay(miss);
        }
        if !self.is_current(miss) {
            self.stats.orphans += 1;
            return Arrived::Nothing;
        }
        let hop = self.hop_home(pending.source);
        let first = self.stats.device_read(now, line, hop, pending, response);
        self.record((first, now), miss, pending, response);
        self.fill(now, miss);
        Arrived::Line
    }

    /// Notes a read that was answered, if anybody records.
    #[inline]
    fn record(
        &mut self,
        span: (Time, Time),
        miss: MissRef,
        pending: &Pending,
        response: &Response,
    ) {
        if self.recorder.is_none() {
            return;
        }
        self.record_read(span, self.first_waiter(miss), pending, response);
    }

    /// Notes a page that has come to the page cache, whoever it was fetched for.
    #[cold]
    pub(super) fn record_page(
        &mut self,
        now: Time,
        lpa: Lpa,
        pending: &Pending,
        response: &Response,
    ) {
        let waits = |(page, access): &(Lpa, Waiting)| match access {
            Waiting::Read(missed) if *page == lpa => self.first_waiter(missed.miss),
            _ => None,
        };
        let core = self.locked.iter().find_map(waits);
        self.record_read((pending.issued, now), core, pending, response);
    }

    /// The first core that waits for an L3 miss, if any still does.
    fn first_waiter(&self, miss: MissRef) -> Option<CoreId> {
        let waiters = self.is_current(miss).then(|| self.llc.waiters(miss.slot));
        waiters.and_then(|mut waiters| waiters.next().map(|waiter| waiter.core))
    }

    fn record_read(
        &mut self,
        span: (Time, Time),
        core: Option<CoreId>,
        pending: &Pending,
        response: &Response,
    ) {
        let lpa = pending.line.lpa(PageSize::KIB_4);
        let device = self.device.as_ref();
        let die = device.and_then(|device| device.controller.die_of(lpa));
        let hop = self.hop_home(pending.source);
        let record = AccessRecord::new(span, hop, pending, response, core, die);
        if let Some(recorder) = &mut self.recorder {
            recorder.access(record);
        }
    }

    /// Sends held reads as far as write credits allow, each to where its page is by now.
    fn release_held(&mut self, now: Time) {
        while self.writes_outstanding < self.write_credits {
            let Some(pending) = self.held.pop_front() else {
                break;
            };
            match self.has_moved(&pending) {
                None => self.send(pending, now.max(pending.sent)),
                // A squash may have freed the MSHR meanwhile.
                Some(missed) if self.is_current(missed.miss) => {
                    self.read_memory(now.max(missed.issued), missed);
                }
                Some(_) => {}
            }
        }
    }

    /// The miss of a read that was to go to the device, if its line is not there any more.
    fn has_moved(&mut self, pending: &Pending) -> Option<Missed> {
        let Purpose::Miss(miss, line) = pending.purpose else {
            unreachable!("only misses are held")
        };
        let lpa = pending.line.lpa(PageSize::KIB_4);
        let in_page = pending.line.in_page(PageSize::KIB_4);
        if self.placement.read(lpa, in_page) == Target::Device {
            return None;
        }
        Some(Missed {
            miss,
            line,
            op: pending.op,
            is_first_touch: pending.is_first_touch,
            issued: pending.issued,
        })
    }

    /// After a SkyByte-Delay whose loads have been forgotten by [`Uncore::cancel`]: re-issues the
    /// access if anybody still waits (D13).
    pub fn settle_delay(&mut self, now: Time, miss: MissRef) {
        if !self.is_current(miss) {
            return;
        }
        self.stats.reissued += 1;
        // The page may have moved since.
        let missed = Missed {
            miss,
            line: self.llc.line(miss.slot),
            op: RequestOp::Read {
                delay_allowed: false,
            },
            is_first_touch: false,
            issued: now,
        };
        self.read_memory(now, missed);
    }

    /// A notice of the device has reached the host.
    pub(crate) fn take_notice(&mut self, lpa: Lpa) {
        let at = self.notices.iter().position(|page| *page == lpa);
        self.notices
            .swap_remove(at.expect("a notice that arrives was sent"));
    }

    /// Whether the host will be told of the page: it is on its way from flash, or the notice is.
    pub(crate) fn will_tell_of(&self, lpa: Lpa) -> bool {
        let device = self.device.as_ref();
        device
            .is_some_and(|device| device.resources.tells_pages() && device.controller.tells_of(lpa))
            || self.notices.contains(&lpa)
    }
}
