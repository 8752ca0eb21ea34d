//! The command layer: a device with its host's link, and the commands under way.
//!
//! Sans-IO, as the firmware is: the owner of the clock hands in times ([`Engine::submit`],
//! [`Engine::advance`]) and asks for deadlines ([`Engine::next_deadline`]); nothing moves because
//! it was looked at. A command is over when the host knows of its end, which is an event at its own
//! time. Operations whose lines overlap, one of them writing, are served in the order in which
//! their commands were submitted; others overlap in time.

mod answers;
mod command;
mod event;
mod link;
mod operation;
mod order;
mod reservations;
mod single;
mod submission;
mod transactions;
mod waiting;

pub use link::LinkConfig;
pub use operation::Parts;

use crate::any_controller::AnyController;
use crate::bytes::DataPlane;
use crate::harness::{DeviceEvent, Harness};
use crate::lockstep::Lockstep;
use crate::platform::{Soc, TimedPlatform};
use crate::queue::EventQueue;
use crate::resources::Resources;
use crate::work_times::GivenTimes;
use command::{Running, State};
use event::{Event, Word};
use firmware::{ControllerConfig, Drain, Durable, Request, Response, UnsoundState};
use link::Link;
use operation::Operation;
use order::Order;
use port::{
    Command, Completion, Conflict, DeviceError, DeviceStats, Finished, Outcome, PersistenceDomain,
    Shape, Ticket, TxLimits,
};
use reservations::Reservations;
use transactions::Transactions;
use units::address::LINE_BYTES;
use units::{ByteAddr, Bytes, Lpa, PageSize, RequestId, Time, TxId};

/// What a device with a host is, beside its [`Soc`].
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The link.
    pub link: LinkConfig,
    /// The logical page: what the firmware is asked for at a time.
    pub page: PageSize,
    /// The block of the block port, which takes any number of them: at most a page. Pages that are
    /// written in part are read first, in the device. None: it takes any range, without bytes.
    pub block: Option<PageSize>,
    /// Bytes of the logical space.
    pub capacity: Bytes,
    /// Bytes of the window behind it: battery-backed memory for the byte port alone.
    pub pmem: Bytes,
    /// Stores reach a write log, which survives a power cut.
    pub has_log: bool,
    /// Page buffers survive a power cut.
    pub has_battery: bool,
    /// Dirty frames of the data cache survive one, so that a store does, once it is persisted.
    pub keeps_frames: bool,
    /// Transactions that may be open at a time.
    pub transactions: u32,
    /// The first name of a transaction that nothing in the device has.
    pub next_transaction: u32,
    /// Why there are no transactions, if there are none.
    pub no_transactions: Option<DeviceError>,
    /// Operations of a block command that are with the device at a time.
    pub operations_at_a_time: u32,
}

/// What the firmware sees of the host: the queue, and the requests that it answers.
#[derive(Clone)]
struct Host<W> {
    queue: EventQueue<Word>,
    operations: Vec<Operation>,
    /// Of each direction: where the time of operations went.
    parts: [Parts; 2],
    partner: W,
}

impl<W> Host<W> {
    /// Keeps an event until its time. One function for all, which takes the word in registers.
    #[inline(never)]
    fn keep(&mut self, at: Time, word: Word) {
        self.queue.push(at, word);
    }

    fn new(now: Time, partner: W) -> Self {
        let mut queue = EventQueue::new();
        queue.advance_to(now);
        Self {
            queue,
            operations: Vec::new(),
            parts: Default::default(),
            partner,
        }
    }
}

impl<W: Lockstep> Harness for Host<W> {
    #[inline]
    fn now(&self) -> Time {
        self.queue.now()
    }
    // In its callers, which know what event it is.
    #[inline(always)]
    fn schedule(&mut self, at: Time, event: DeviceEvent) {
        self.keep(at, Word::of(Event::Device(event)));
    }
    #[inline]
    fn respond(&mut self, response: Response) {
        if self.partner.is_there() {
            self.partner.answered(response);
        }
        let operation = &mut self.operations[response.request.index()];
        operation.take(&response);
        // The host does not wait for what it posts, unless there is no room for it.
        let at = match operation.is_posted() {
            true => self.queue.now(),
            false => response.at,
        };
        self.queue
            .push(at, Word::of(Event::Answer(response.request)));
    }
    fn offer_page(&mut self, _at: Time, lpa: Lpa) {
        panic!("{lpa} is offered to a host that was said to take no pages");
    }
}

/// A device and its host's side of the link, in lockstep with `W`.
#[derive(Clone)]
pub struct Engine<B, W = ()> {
    soc: Soc<AnyController, B>,
    host: Host<W>,
    link: Link,
    config: EngineConfig,
    commands: Vec<Running>,
    /// Numbers of commands and operations: the first operation of a command has its number, the
    /// others have numbers that no command has.
    free: Vec<u32>,
    /// Commands that are not done.
    running: u32,
    order: Order,
    freed: Vec<RequestId>,
    transactions: Transactions,
    reservations: Reservations,
    /// Commands that wait for something else than operations, in the order in which they came to.
    waiting: Vec<u32>,
    /// Commands that wait until what was logged before them is on flash.
    draining: Vec<(u32, Drain)>,
    finished: Vec<Finished>,
    stats: DeviceStats,
    /// Operations that waited for others of their lines.
    ordered: u64,
    /// Pages that were read because only a part of them was written.
    partial_writes: u64,
    /// Aborts that have reached the device: what was read before may have been taken back.
    aborts: u64,
    stopped: Option<String>,
    /// Bits of an address within a block of the block port; none if it takes any range.
    rest_of_block: u64,
}

impl<B: DataPlane> Engine<B> {
    /// A preconditioned device with nothing under way, at the start of time.
    pub fn new(
        controller: &ControllerConfig,
        resources: Resources<B>,
        config: EngineConfig,
    ) -> Self {
        Self::in_lockstep(controller, resources, config, ())
    }

    /// A device that takes over at `now` what a power cut has left: of a new device that is
    /// nothing. Its firmware may start work at once.
    ///
    /// # Errors
    /// The tables are damaged.
    pub fn recover(
        controller: &ControllerConfig,
        tables: &impl Durable,
        mut resources: Resources<B>,
        config: EngineConfig,
        now: Time,
    ) -> Result<Self, UnsoundState> {
        let mut host = Host::new(now, ());
        let mut platform = TimedPlatform {
            resources: &mut resources,
            harness: &mut host,
        };
        let controller = AnyController::recover(controller, tables, now, &mut platform)?;
        let soc = Soc {
            controller,
            resources,
        };
        Ok(Self::of_parts(soc, host, config))
    }

    /// The device as it is now, with other bytes: its future is the same.
    pub fn with_bytes<C>(&self, bytes: C) -> Engine<C> {
        Engine {
            soc: Soc {
                controller: self.soc.controller.clone(),
                resources: self.soc.resources.with_bytes(bytes),
            },
            host: self.host.clone(),
            link: self.link.clone(),
            config: self.config.clone(),
            commands: self.commands.clone(),
            free: self.free.clone(),
            running: self.running,
            order: self.order.clone(),
            freed: self.freed.clone(),
            transactions: self.transactions.clone(),
            reservations: self.reservations.clone(),
            waiting: self.waiting.clone(),
            draining: self.draining.clone(),
            finished: self.finished.clone(),
            stats: self.stats,
            ordered: self.ordered,
            partial_writes: self.partial_writes,
            aborts: self.aborts,
            stopped: self.stopped.clone(),
            rest_of_block: self.rest_of_block,
        }
    }
}

impl<B: DataPlane, W: Lockstep> Engine<B, W> {
    /// As [`Engine::new`], with somebody in lockstep. Of commands only reads and writes are such as
    /// a partner hears of.
    pub fn in_lockstep(
        controller: &ControllerConfig,
        resources: Resources<B>,
        config: EngineConfig,
        partner: W,
    ) -> Self {
        let soc = Soc {
            controller: AnyController::new(controller),
            resources,
        };
        Self::of_parts(soc, Host::new(Time::ZERO, partner), config)
    }

    fn of_parts(soc: Soc<AnyController, B>, host: Host<W>, config: EngineConfig) -> Self {
        let transactions = Transactions::new(
            config.next_transaction,
            config.transactions,
            config.no_transactions.clone(),
        );
        let rest_of_block = config.block.map_or(0, |block| block.bytes().get() - 1);
        Self {
            link: Link::new(config.link, host.queue.now()),
            soc,
            host,
            config,
            commands: Vec::new(),
            free: Vec::new(),
            running: 0,
            order: Order::default(),
            freed: Vec::new(),
            transactions,
            reservations: Reservations::default(),
            waiting: Vec::new(),
            draining: Vec::new(),
            finished: Vec::new(),
            stats: DeviceStats::default(),
            ordered: 0,
            partial_writes: 0,
            aborts: 0,
            stopped: None,
            rest_of_block,
        }
    }

    /// Asks who is in lockstep with the device, or ends it; with the times that the device is
    /// given, if it is.
    pub fn in_step<R>(&mut self, ask: impl FnOnce(&mut W, Option<&mut GivenTimes>) -> R) -> R {
        ask(&mut self.host.partner, self.soc.resources.given_times())
    }

    /// The firmware and what surrounds it.
    pub fn soc(&self) -> &Soc<AnyController, B> {
        &self.soc
    }

    /// The bytes.
    pub fn bytes(&self) -> &B {
        &self.soc.resources.bytes
    }

    /// The bytes, to be changed beside what the firmware keeps there.
    pub fn bytes_mut(&mut self) -> &mut B {
        &mut self.soc.resources.bytes
    }

    /// What the device has done since the engine was made; its clock is the engine's.
    pub fn stats(&self) -> DeviceStats {
        DeviceStats {
            clock: self.host.queue.now(),
            ..self.stats
        }
    }

    /// Where the time of operations went: of reads, of writes.
    pub fn parts(&self) -> &[Parts; 2] {
        &self.host.parts
    }

    /// Operations that waited for others of their lines, and pages read because only a part of them
    /// was written.
    pub fn waits(&self) -> (u64, u64) {
        (self.ordered, self.partial_writes)
    }

    /// Sets all counters of engine and firmware to zero.
    pub fn reset_stats(&mut self) {
        self.soc.controller.reset_stats();
        self.stats = DeviceStats::default();
        self.host.parts = Default::default();
        (self.ordered, self.partial_writes) = (0, 0);
    }

    /// Commands that are not done.
    pub fn running(&self) -> usize {
        self.running as usize
    }

    /// Transactions that are open.
    pub fn open_transactions(&self) -> usize {
        self.transactions.open_count()
    }

    /// Why the device has stopped, if it has.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// The time up to which everything has happened.
    pub fn now(&self) -> Time {
        self.host.queue.now()
    }

    /// When the next thing happens; none before something is submitted if there is none.
    pub fn next_deadline(&mut self) -> Option<Time> {
        self.host.queue.next_time()
    }

    /// Lets everything happen that happens up to `to`, and adds the commands whose end the host
    /// knows then, in the order in which it comes to know.
    pub fn advance(&mut self, to: Time, finished: &mut Vec<Finished>) {
        while let Some((now, word)) = self.host.queue.pop_until(to) {
            self.handle(now, word.event());
        }
        self.host.queue.advance_to(to);
        self.take_finished(finished);
    }

    /// As [`Engine::advance`], but no further than the first time at which the host knows of an
    /// end: for an owner that has nothing to do before. An end that was known at submission is
    /// given before anything happens.
    #[inline]
    pub fn advance_to_end(&mut self, to: Time, finished: &mut Vec<Finished>) {
        if !self.finished.is_empty() {
            return self.take_finished(finished);
        }
        while let Some((now, word)) = self.host.queue.pop_until(to) {
            self.handle(now, word.event());
            if !self.finished.is_empty() && !self.host.queue.has_more_now() {
                return self.take_finished(finished);
            }
        }
        self.host.queue.advance_to(to);
        self.take_finished(finished);
    }

    /// Lets some events happen, and everything else of the last one's time, but nothing behind the
    /// first time at which the host knows of an end. Time passes no further than that. Whether
    /// something happened.
    #[inline]
    pub fn advance_some(&mut self, events: u32, finished: &mut Vec<Finished>) -> bool {
        let mut left = events;
        while let Some((now, word)) = self.host.queue.pop() {
            self.handle(now, word.event());
            left = left.saturating_sub(1);
            let is_enough = left == 0 || !self.finished.is_empty();
            if is_enough && !self.host.queue.has_more_now() {
                self.take_finished(finished);
                return true;
            }
        }
        self.take_finished(finished);
        left < events
    }

    /// Whether the host knows the end of a command that was not given yet.
    #[inline]
    pub fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Adds the commands whose end the host knows and that were not given yet: of some, that is
    /// known when they are submitted.
    #[inline]
    pub fn take_finished(&mut self, finished: &mut Vec<Finished>) {
        if finished.is_empty() {
            std::mem::swap(finished, &mut self.finished);
        } else {
            finished.append(&mut self.finished);
        }
    }

    /// What the device is.
    pub fn shape(&self) -> Shape {
        let EngineConfig {
            has_log,
            has_battery,
            keeps_frames,
            ..
        } = self.config;
        let domain = |is_device| match is_device {
            true => PersistenceDomain::Device,
            false => PersistenceDomain::Flash,
        };
        let limits = TxLimits {
            open: self.config.transactions,
            lines: self.soc.controller.most_open_lines(),
        };
        let has_transactions = self.config.no_transactions.is_none();
        Shape {
            capacity: self.config.capacity,
            block: self.block(),
            line: LINE_BYTES,
            byte_domain: domain(has_log || keeps_frames),
            block_domain: domain(has_battery),
            transactions: has_transactions.then_some(limits),
            costs: self.config.link,
            pmem: self.config.pmem,
        }
    }

    /// Opens a transaction. It costs no time: the host numbers them (ByteFS §4.3). Says whether it
    /// may be committed in parts.
    ///
    /// # Errors
    /// A device without transactions, or with as many open ones as it takes.
    pub fn begin(&mut self, may_split: bool) -> Result<TxId, DeviceError> {
        self.transactions.begin(may_split)
    }

    /// Whether the end of a command is known.
    #[inline]
    pub fn is_done(&self, ticket: Ticket) -> bool {
        self.commands[ticket.index()].state == State::Done
    }

    /// What came of a command, if its end is known; the ticket is used up then. Bytes that were
    /// read go to `into`, which is as long as was asked.
    pub fn take(&mut self, ticket: Ticket, into: &mut [u8]) -> Option<Outcome> {
        let running = &mut self.commands[ticket.index()];
        if running.state != State::Done {
            return None;
        }
        running.state = State::Free;
        self.free.push(ticket.get());
        if let Some(error) = running.error.take() {
            return Some(Err(*error));
        }
        let offset = running.offset();
        let result = running.result();
        if !into.is_empty()
            && let Some(buffer) = self.soc.resources.bytes.buffer(ticket.index())
        {
            into.copy_from_slice(&buffer[offset..][..into.len()]);
        }
        Some(Ok(result))
    }

    /// Nobody will ask for a command any more; it is done all the same.
    pub fn abandon(&mut self, ticket: Ticket) {
        let running = &mut self.commands[ticket.index()];
        match running.state {
            State::Free => {}
            State::Done => {
                running.state = State::Free;
                running.error = None;
                self.free.push(ticket.get());
            }
            _ => running.is_abandoned = true,
        }
    }

    /// Lets an event happen. In its callers: as an argument it would be in memory.
    #[inline(always)]
    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Device(event) => self.on_event(now, event),
            Event::Arrive(id) => self.deliver(now, id),
            Event::Answer(id) => self.on_answer(now, id),
            Event::Known(id) => self.on_known(now, id),
            Event::Finish(index) => self.finish(now, index),
            Event::Resume(index) => self.resume(now, index),
        }
        if !self.draining.is_empty() {
            self.end_drains(now);
        }
        self.stop_if_failed();
    }

    /// An event of the device is due.
    #[inline(always)]
    fn on_event(&mut self, now: Time, event: DeviceEvent) {
        if self.host.partner.is_there() {
            return self.on_event_in_step(now, event);
        }
        self.soc.on_event(now, event, &mut self.host);
    }

    #[cold]
    #[inline(never)]
    fn on_event_in_step(&mut self, now: Time, event: DeviceEvent) {
        let times = self.soc.resources.given_times();
        self.host.partner.event(now, times);
        self.soc.on_event(now, event, &mut self.host);
        self.host.partner.acted(now);
    }

    /// A request has reached the device.
    #[inline(always)]
    fn on_request(&mut self, now: Time, request: Request) {
        if self.host.partner.is_there() {
            return self.on_request_in_step(now, request);
        }
        self.soc.on_request(now, request, &mut self.host);
    }

    #[cold]
    #[inline(never)]
    fn on_request_in_step(&mut self, now: Time, request: Request) {
        let times = self.soc.resources.given_times();
        self.host.partner.request(now, request, times);
        self.soc.on_request(now, request, &mut self.host);
        self.host.partner.acted(now);
    }

    #[inline]
    fn stop_if_failed(&mut self) {
        if self.soc.resources.bytes.failure().is_some() && self.stopped.is_none() {
            self.stop();
        }
    }

    /// The device has a fault that it cannot work with: every command ends with it.
    #[cold]
    fn stop(&mut self) {
        let reason = self
            .soc
            .resources
            .bytes
            .failure()
            .unwrap_or_default()
            .to_owned();
        let now = self.now();
        self.stopped = Some(reason.clone());
        for index in 0..self.commands.len() {
            if !matches!(self.commands[index].state, State::Free | State::Done) {
                let reason = reason.clone();
                self.commands[index].error = Some(Box::new(DeviceError::Stopped { reason }));
                self.commands[index].finished = now;
                self.release(index as u32);
            }
        }
        self.waiting.clear();
        self.reservations.clear();
        self.draining.clear();
        self.host.queue = EventQueue::new();
        self.host.queue.advance_to(now);
    }

    /// A command is over; its ticket's owner may take it.
    #[inline]
    fn release(&mut self, index: u32) {
        let running = &self.commands[index as usize];
        self.release_as(index, running.finished, running.error.is_some());
    }

    /// The same of a command of which is known when it was over, and whether it failed.
    #[inline(always)]
    fn release_as(&mut self, index: u32, finished: Time, is_failed: bool) {
        let running = &mut self.commands[index as usize];
        self.running -= 1;
        self.finished.push(Finished {
            ticket: Ticket::new(index),
            command: running.command,
            size: Bytes::new(running.size),
            completion: Completion {
                submitted: running.submitted,
                finished,
            },
            is_failed,
            is_abandoned: running.is_abandoned,
        });
        running.state = State::Done;
        self.soc.resources.bytes.close_shared(index as usize);
        if running.is_abandoned {
            running.state = State::Free;
            if is_failed {
                running.error = None;
            }
            self.free.push(index);
        }
    }

    /// Checks everything that can be checked at any time (B6).
    ///
    /// # Panics
    /// With a sentence, if an invariant is broken.
    pub fn audit(&self) {
        self.soc.controller.audit();
        self.soc.resources.nand.audit();
        self.soc.resources.dram.audit();
        let done = |running: &&Running| matches!(running.state, State::Free | State::Done);
        let over = self.commands.iter().filter(done).count();
        assert_eq!(
            self.commands.len() - over,
            self.running(),
            "commands are lost"
        );
        assert!(
            self.running > 0 || self.order.is_empty(),
            "an order of nothing"
        );
    }
}

impl<B: DataPlane, W: Lockstep> port::Engine for Engine<B, W> {
    fn shape(&self) -> Shape {
        Engine::shape(self)
    }
    fn now(&self) -> Time {
        Engine::now(self)
    }
    fn next_deadline(&mut self) -> Option<Time> {
        Engine::next_deadline(self)
    }
    fn advance(&mut self, to: Time, finished: &mut Vec<Finished>) {
        Engine::advance(self, to, finished);
    }
    fn submit(
        &mut self,
        at: Time,
        command: Command,
        range: (ByteAddr, Bytes),
        conflict: Conflict,
        bytes: &[u8],
    ) -> Result<Ticket, DeviceError> {
        Engine::submit(self, at, command, range, conflict, bytes)
    }
    fn take(&mut self, ticket: Ticket, into: &mut [u8]) -> Option<Outcome> {
        Engine::take(self, ticket, into)
    }
    fn abandon(&mut self, ticket: Ticket) {
        Engine::abandon(self, ticket);
    }
    fn begin(&mut self, may_split: bool) -> Result<TxId, DeviceError> {
        Engine::begin(self, may_split)
    }
    fn stats(&self) -> DeviceStats {
        Engine::stats(self)
    }
}
