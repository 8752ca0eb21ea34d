//! Everything beyond the cores' L2: shared L3, page placement, host DRAM, CXL link, device.
//!
//! One straight line: L2 miss → L3 → placement says host DRAM or device → MemRd over the link →
//! firmware → answer over the link → L3 fill → the cores that wait. The fabric never calls a core;
//! it lists whom the simulation has to tell ([`Fabric::fills`], [`Fabric::delays`]).

mod answers;
mod artifact;
mod hints;
mod host_memory;
mod memory;
mod nodes;
mod page_cache;
mod persist;
pub(crate) mod promotion;
mod uncore;

pub(crate) use hints::{Hints, samples};
pub use host_memory::{Addresses, HostMemory};
pub(crate) use page_cache::PageStore;

use crate::amat::AccessStats;
use crate::config::{Config, MemoryKind, Migration};
use crate::device::{self, Device};
use crate::event::Event;
use crate::in_loop::{Attached, InLoop};
use crate::line_order::LineOrder;
use crate::recorder::Recorder;
use crate::request::{MissRef, Pending, Purpose, Requests};
use crate::simulation::delay::stores_switch;
use cxl::{Link, MessageClass, Ownership};
use dram::Access;
use firmware::{Answer, Request, RequestOp, Response};
use host::cache::Victim;
use host::config::L2Victims;
use host::llc::{L3Access, SharedCache, Waiter};
use host::os::DelayedLine;
use host::placement::{DemotionKind, Location, MigrationKind, PageAccess, Placement, PromotedDirt};
use host::{HostLine, MissKind, MissSlot, Nodes, PageNumbers, Region};
use inloop::What;
pub(crate) use memory::Missed;
use memory::Waiting;
use nand::Completion;
use persist::Persisting;
use soc::{DeviceEvent, EventQueue, Harness};
use std::collections::VecDeque;
use units::{CoreId, LineAddr, LineInPage, Lpa, PageSize, Picos, RequestId, Time};

/// A line of the device's logical space, for pages of the host's size.
pub fn device_line(lpa: Lpa, line: LineInPage) -> LineAddr {
    lpa.line(PageSize::KIB_4, line)
}

/// What an arriving answer means to the simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrived {
    /// A line filled L3; [`Fabric::fills`] lists the cores that wait for it.
    Line,
    /// SkyByte-Delay; [`Fabric::delays`] lists the loads' cores that wait for it.
    Delay(MissRef),
    /// A line of a page under promotion.
    Promotion(LineAddr),
    /// A line of a page under demotion is on the device.
    Demotion(LineAddr),
    /// A page has come to the page cache in host DRAM; [`Fabric::fills`] lists the cores that wait.
    Page(Lpa),
    /// Nobody waits: a write was acknowledged, or the MSHR was freed by a squash.
    Nothing,
}

/// The fabric.
#[derive(Clone)]
pub struct Fabric {
    /// What happens next.
    pub queue: EventQueue<Event>,
    /// Where pages live.
    pub placement: Placement,
    /// The device; none in DRAM-Only.
    pub device: Option<Device>,
    /// The firmware process that does the device's work, if the device is in the loop.
    pub(crate) in_loop: Attached,
    /// Requests in flight.
    pub requests: Requests,
    /// The shared cache.
    pub llc: SharedCache,
    /// Host DRAM.
    pub host_dram: HostMemory,
    /// Who is near to what.
    nodes: Nodes,
    /// The CXL link.
    pub link: Link,
    /// What accesses cost.
    pub stats: AccessStats,
    /// What is recorded of the run, if anything.
    pub recorder: Option<Box<Recorder>>,
    /// Cores to be told of a fill.
    pub fills: Vec<Waiter>,
    /// Waiters of an access that was answered by SkyByte-Delay.
    pub delays: Vec<Waiter>,
    /// How often each L3 MSHR has been freed: an answer to an earlier use of it is recognised.
    epochs: Vec<u32>,
    /// L2 misses that found every L3 MSHR taken.
    blocked: VecDeque<(CoreId, MissSlot, HostLine, MissKind)>,
    /// Keeps requests of one line in order.
    order: LineOrder,
    /// Requests that an answer lets go, while they are sent.
    freed: Vec<Pending>,
    /// Reads held back because too many writes are on their way.
    held: VecDeque<Pending>,
    writes_outstanding: u32,
    write_credits: u32,
    l3_latency: Picos,
    /// What the way to L3 takes from each core.
    ring: Vec<Picos>,
    /// Beyond L3, to memory and back.
    memory_latency: Picos,
    l3_interval: Picos,
    /// When the next line can go through L3.
    l3_free: Time,
    may_switch: bool,
    /// The log is brought to flash when measurement starts.
    drains_log: bool,
    stores_switch: bool,
    /// Stores own lines of the device before they come.
    grants: bool,
    delivers_delayed: bool,
    loses_l2_victims: bool,
    write_echo: bool,
    owns_by_write: bool,
    /// What an access to a promoted page takes, if host DRAM does not decide.
    page_latency: Option<Picos>,
    demotion: DemotionKind,
    promoted_dirt: PromotedDirt,
    /// Pages move in no time, so a read may find that its page has gone while it was on its way.
    moves_at_once: bool,
    /// Hint sampling, if the design's migration is TPP.
    pub(crate) hints: Option<Box<Hints>>,
    /// Notices of pages that have come, on their way to the host (`os.wake = on_data`).
    notices: Vec<Lpa>,
    /// Host DRAM as a page cache, if the design has it so.
    pub(crate) page_store: Option<Box<PageStore>>,
    /// Accesses to pages that the operating system has locked, or that are on their way to the page
    /// cache, in order of arrival.
    locked: Vec<(Lpa, Waiting)>,
    /// Lines that were clean when they were to be written back, and whose last write is on its way.
    persisting: Vec<Persisting>,
    /// Data pages that have missed L3, a bit each, to tell compulsory misses from others.
    touched: Vec<u64>,
}

impl Fabric {
    /// An idle fabric for a capture of `page_count` data pages.
    pub fn new(config: &Config, page_count: u64) -> Self {
        let period = config.cpu.clock.period();
        let period = period.expect("a validated clock has a period");
        let span = |cycles: units::Cycles| cycles.span(period);
        let is_ssd = config.design.memory == MemoryKind::Ssd;
        let design = config.mechanisms();
        Self {
            queue: EventQueue::new(),
            placement: promotion::placement_of(config, page_count),
            device: is_ssd.then(|| device::for_pages(config, page_count)),
            in_loop: Attached::default(),
            requests: Requests::default(),
            llc: SharedCache::new(&config.cpu),
            host_dram: HostMemory::new(config),
            nodes: Nodes::new(&config.numa, config.cpu.cores),
            link: Link::new(&config.link),
            stats: AccessStats::default(),
            recorder: None,
            fills: Vec::new(),
            delays: Vec::new(),
            epochs: vec![0; config.cpu.l3_mshrs as usize],
            blocked: VecDeque::new(),
            order: LineOrder::default(),
            freed: Vec::new(),
            held: VecDeque::new(),
            writes_outstanding: 0,
            write_credits: config.link.write_credits,
            l3_latency: span(config.cpu.l3_latency),
            ring: config.cpu.ring(),
            memory_latency: span(config.cpu.memory_latency),
            l3_interval: span(config.cpu.l3_interval),
            l3_free: Time::ZERO,
            may_switch: design.context_switch || design.migration == Migration::HostCache,
            drains_log: is_ssd && config.design.write_log && config.run.drain_log,
            stores_switch: stores_switch(config),
            grants: is_ssd && config.cpu.store_grants > 0,
            delivers_delayed: config.os.delayed_line == DelayedLine::Delivered,
            loses_l2_victims: config.cpu.l2_victims == L2Victims::Lost,
            write_echo: is_ssd && config.link.write_echo,
            owns_by_write: config.link.ownership == Ownership::Write,
            page_latency: (is_ssd && config.host.page_access == PageAccess::Constant)
                .then_some(config.host.page_latency),
            demotion: config.host.demotion,
            promoted_dirt: config.host.promoted_dirt,
            moves_at_once: config.host.migration == MigrationKind::Instant,
            hints: Hints::of(config, page_count),
            notices: Vec::new(),
            page_store: PageStore::of(config),
            locked: Vec::new(),
            persisting: Vec::new(),
            touched: vec![0; page_count.div_ceil(64) as usize],
        }
    }

    /// From now on these numbers of pages choose the sets that they and their lines go to. Nothing
    /// is cached.
    pub fn number_pages(&mut self, numbers: &PageNumbers) {
        self.llc.number_pages(numbers);
        self.placement.number_pages(numbers);
        if let Some(store) = &mut self.page_store {
            store.cache.number_pages(numbers);
        }
        if let Some(device) = &mut self.device {
            device.controller.number_pages(numbers.all());
        }
    }

    /// Notes that a page has missed L3; says whether for the first time.
    pub fn touch(&mut self, lpa: Lpa) -> bool {
        let (word, bit) = ((lpa.get() / 64) as usize, 1 << (lpa.get() % 64));
        let is_first = self.touched[word] & bit == 0;
        self.touched[word] |= bit;
        is_first
    }

    /// Starts all counters afresh; contents and time stay.
    pub fn reset_stats(&mut self) {
        self.stats.reset();
        self.llc.reset_stats();
        self.placement.reset_stats();
        if let Some(hints) = &mut self.hints {
            hints.sampler.reset_stats();
        }
        if let Some(store) = &mut self.page_store {
            store.cache.reset_stats();
        }
        if let Some(device) = &mut self.device {
            device.controller.reset_stats();
        }
    }

    /// A core's L2 miss is on its way to L3.
    #[inline]
    fn foresee(&self, line: HostLine) {
        self.llc.foresee(line);
        if let Region::Data(lpa, _) = line.region() {
            self.placement.foresee(lpa);
        }
    }

    /// A core's L2 miss arrives at L3.
    pub fn l3_access(
        &mut self,
        now: Time,
        core: CoreId,
        slot: MissSlot,
        line: HostLine,
        kind: MissKind,
    ) {
        match self.llc.access(line, Waiter { core, slot, kind }) {
            L3Access::Hit => {
                self.note_store(line, kind);
                let at = self.l3_turn(now) + self.l3_latency;
                self.queue.push(at, Event::Fill { core, slot });
            }
            L3Access::Merged(_) => {}
            L3Access::Miss(l3_slot) => {
                let miss = MissRef {
                    slot: l3_slot,
                    epoch: self.epochs[l3_slot.index()],
                };
                let is_granted =
                    self.grants && kind == MissKind::Ownership && self.is_on_device(line);
                // The turn at L3 is the miss's own.
                let granted = self.l3_free.max(now) + self.l3_latency;
                self.start_miss(now, line, miss, kind);
                if is_granted {
                    self.queue.push(granted, Event::Grant { core, slot });
                }
            }
            L3Access::Full => self.blocked.push_back((core, slot, line, kind)),
        }
    }

    /// Whether a line is one of a page that the device has, and not host DRAM.
    fn is_on_device(&self, line: HostLine) -> bool {
        match line.region() {
            Region::Data(lpa, _) => self.placement.locate(lpa) == Location::Device,
            Region::PageTable(_) | Region::Code(_) => false,
        }
    }

    /// Fetches the line of a new L3 miss.
    fn start_miss(&mut self, now: Time, line: HostLine, miss: MissRef, kind: MissKind) {
        let at = self.l3_turn(now) + self.l3_latency + self.memory_latency;
        let Region::Data(lpa, _) = line.region() else {
            let hop = self.hop_of(miss, self.host_dram.node_of_line(line));
            let done = self.host_dram.line(at + hop.there, line, Access::Read);
            self.queue.push(done + hop.back, Event::HostDramDone(miss));
            return;
        };
        let missed = Missed {
            miss,
            line,
            op: self.miss_op(kind),
            is_first_touch: self.touch(lpa),
            issued: at,
        };
        self.read_memory(at, missed);
    }

    /// Sends a request, or keeps it until those of its line that it must not overtake are answered.
    fn send(&mut self, pending: Pending, at: Time) {
        match self.order.enter(pending) {
            Some(pending) => self.transmit(pending, at),
            None => self.stats.ordered += 1,
        }
    }

    /// Hands a request to the link.
    fn transmit(&mut self, mut pending: Pending, at: Time) {
        let class = match pending.op {
            RequestOp::Write | RequestOp::WritePage => MessageClass::MemWr,
            RequestOp::Read { .. }
            | RequestOp::Own { .. }
            | RequestOp::PromotionRead
            | RequestOp::ReadPage => MessageClass::MemRd,
            op => unreachable!("no simulated host sends {op:?}"),
        };
        pending.sent = at;
        pending.arrived = self.send_messages(at, class, pending.op == RequestOp::WritePage);
        let arrival = pending.arrived;
        if let Some(device) = &self.device {
            device.controller.foresee(pending.line);
        }
        let id = self.requests.open(pending);
        self.queue.push(arrival, Event::DeviceArrive(id));
    }

    /// Puts a message on the link, or one for each line of a page; says when all have arrived.
    fn send_messages(&mut self, at: Time, class: MessageClass, is_page: bool) -> Time {
        let count = if is_page {
            PageSize::KIB_4.line_count()
        } else {
            1
        };
        let mut arrival = at;
        for _ in 0..count {
            arrival = self.link.send(at, class);
        }
        arrival
    }

    /// Sends a request of the migration engine.
    pub fn send_migration(&mut self, now: Time, line: LineAddr, purpose: Purpose) {
        let op = match purpose {
            Purpose::Promotion => RequestOp::PromotionRead,
            _ => RequestOp::Write,
        };
        self.writes_outstanding += u32::from(op == RequestOp::Write);
        let pending = Pending {
            purpose,
            op,
            line,
            source: None,
            is_first_touch: false,
            issued: now,
            sent: now,
            arrived: now,
            response: None,
        };
        self.send(pending, now);
    }

    /// A dirty line that left an L2 arrives at L3.
    pub fn l3_write_back(&mut self, now: Time, line: HostLine) {
        if let Some(victim) = self.llc.write_back(line) {
            self.evict(now, victim);
        }
    }

    fn evict(&mut self, now: Time, victim: Victim) {
        if victim.is_dirty {
            self.write_memory(now, victim.line);
        }
    }

    /// Whether the L3 MSHR still serves the miss it was taken for.
    fn is_current(&self, miss: MissRef) -> bool {
        self.epochs[miss.slot.index()] == miss.epoch
    }

    /// Host DRAM has the line of an L3 miss.
    pub fn host_dram_done(&mut self, now: Time, miss: MissRef) {
        if self.is_current(miss) {
            self.fill(now, miss);
        }
    }

    /// Fills L3 and lists who waits in [`Fabric::fills`].
    pub(crate) fn fill(&mut self, now: Time, miss: MissRef) {
        let victim = self.llc.fill(miss.slot, &mut self.fills);
        self.epochs[miss.slot.index()] += 1;
        if let Some(victim) = victim {
            self.evict(now, victim);
        }
        self.retry_blocked(now);
    }

    /// L2 misses that found no L3 MSHR try again, oldest first, while one is free. Those that hit
    /// by now, or join another miss, leave it to the next.
    fn retry_blocked(&mut self, now: Time) {
        while (self.llc.in_use() as usize) < self.epochs.len()
            && let Some((core, slot, line, kind)) = self.blocked.pop_front()
        {
            self.l3_access(now, core, slot, line, kind);
        }
    }

    /// A request arrives at the device.
    pub fn device_arrive(&mut self, now: Time, id: RequestId) {
        if self.moves_at_once && self.turns_back(now, id) {
            return;
        }
        let pending = self.requests.get(id);
        let request = Request {
            id,
            op: pending.op,
            line: pending.line,
            source: pending.source,
        };
        if let Some(device) = self.in_loop.device() {
            let response = device.answer(now, &request);
            let notice = device.notice_of(&request, &response);
            self.answered_by_device(response, notice);
            return;
        }
        let what = |in_loop: &mut InLoop| in_loop.request(request);
        self.on_device("requests go to a device", now, what, |device, host| {
            device.with(host, |controller, platform| {
                controller.on_request(now, request, platform);
            });
        });
    }

    /// A device of its own has answered.
    #[cold]
    fn answered_by_device(&mut self, response: Response, notice: Option<(Lpa, Time)>) {
        self.requests.answer(response);
        self.queue
            .push(response.at, Event::DeviceSend(response.request));
        if let Some((lpa, at)) = notice
            && !self.notices.contains(&lpa)
        {
            self.notices.push(lpa);
            self.queue.push(at, Event::PageArrived(lpa));
        }
    }

    /// Something of the device's own ends or starts.
    pub fn device_event(&mut self, now: Time, event: DeviceEvent) {
        let what = |_: &mut InLoop| What::Event;
        self.on_device(
            "device events come from a device",
            now,
            what,
            |device, host| {
                device.on_event(now, event, host);
            },
        );
    }

    /// Lets the device act, which there is because of `why`. In the loop the firmware process does
    /// it first: `what`.
    #[inline]
    fn on_device<R>(
        &mut self,
        why: &str,
        now: Time,
        what: impl FnOnce(&mut InLoop) -> What,
        act: impl FnOnce(&mut Device, &mut HostSide<'_>) -> R,
    ) -> R {
        let device = self.device.as_mut().expect(why);
        let is_in_loop = self.in_loop.get().is_some();
        if is_in_loop {
            self.in_loop.precede(now, what, device);
        }
        let mut host = HostSide {
            queue: &mut self.queue,
            requests: &mut self.requests,
            notices: &mut self.notices,
            recorder: &mut self.recorder,
            in_loop: &mut self.in_loop,
        };
        let result = act(device, &mut host);
        if is_in_loop {
            self.in_loop.follow(now);
        }
        result
    }

    /// The answer to a request leaves the device.
    pub fn device_send(&mut self, now: Time, id: RequestId) {
        let pending = self.requests.get(id);
        let is_page = pending.op == RequestOp::ReadPage;
        let response = pending.response.expect("an answer that leaves was given");
        let source = pending.source;
        let class = match response.answer {
            Answer::Data => MessageClass::Drs,
            Answer::Written | Answer::Delay => MessageClass::Ndr,
            answer => unreachable!("no request of a simulated host is answered with {answer:?}"),
        };
        let arrival = self.send_messages(now, class, is_page);
        let back = self.hop_home(source).back;
        self.queue.push(arrival + back, Event::HostArrive(id));
    }

    /// Checks what can be checked at any time (B6).
    pub fn audit(&self) {
        self.requests.audit();
        self.stats.audit();
        self.order.audit(self.requests.open_count());
        self.audit_persisting();
        let problems = self.llc.audit();
        assert!(problems.is_empty(), "L3: {}", problems.join("; "));
        self.placement.audit();
        if let Some(hints) = &self.hints {
            let is_on_device = |lpa| self.placement.locate(lpa) == Location::Device;
            hints.sampler.audit(is_on_device);
        }
        if let Some(store) = &self.page_store {
            store.cache.audit();
        }
        self.link.audit();
        self.host_dram.audit();
        if let Some(device) = &self.device {
            device.controller.audit();
            device.resources.nand.audit();
            device.resources.dram.audit();
        }
    }
}

/// The host as the device sees it.
struct HostSide<'a> {
    queue: &'a mut EventQueue<Event>,
    requests: &'a mut Requests,
    notices: &'a mut Vec<Lpa>,
    recorder: &'a mut Option<Box<Recorder>>,
    in_loop: &'a mut Attached,
}

impl Harness for HostSide<'_> {
    fn now(&self) -> Time {
        self.queue.now()
    }
    fn schedule(&mut self, at: Time, event: DeviceEvent) {
        self.queue.push(at, Event::Device(event));
    }
    fn respond(&mut self, response: Response) {
        if let Some(in_loop) = self.in_loop.get() {
            in_loop.note_response(&response);
        }
        self.requests.answer(response);
        self.queue
            .push(response.at, Event::DeviceSend(response.request));
    }
    fn offer_page(&mut self, at: Time, lpa: Lpa) {
        if let Some(in_loop) = self.in_loop.get() {
            in_loop.seen.offered.push((lpa, at));
        }
        self.queue.push(at, Event::Msix(lpa));
    }
    fn page_arrived(&mut self, at: Time, lpa: Lpa) {
        if let Some(in_loop) = self.in_loop.get() {
            in_loop.seen.arrived.push((lpa, at));
        }
        self.notices.push(lpa);
        self.queue.push(at, Event::PageArrived(lpa));
    }
    #[inline]
    fn observe(&mut self, completion: &Completion) {
        if let Some(recorder) = self.recorder {
            recorder.flash_operation(*completion);
        }
    }
}

#[cfg(test)]
mod tests;
