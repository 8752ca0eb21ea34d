//! The event loop of a device alone.
//!
//! A request of the source is a *command*; it becomes one *operation* of the firmware for each line
//! or page that it touches, and is complete when all of them are answered. A page of which it
//! writes only a part is read first.

use super::event::{Event, Word};
use super::order::Order;
use super::result::Snapshot;
use super::source::{HostRequest, Source};
use super::workload::{Arrivals, Port};
use super::{Progress, Replay};
use crate::config::Migration;
use crate::device::{self, Device};
use crate::error::SimError;
use crate::histogram::LatencyHistogram;
use firmware::{Breakdown, Request, RequestOp, Response, Served};
use soc::{DeviceEvent, EventQueue, Harness};
use units::{LineAddr, Lpa, PageSize, RequestId, Time};

/// Events between two calls of the observer.
const OBSERVED_EVENTS: u64 = 1 << 16;

/// A request of the source under way.
#[derive(Clone, Copy, Debug)]
struct Command {
    arrived: Time,
    /// Operations that are not answered.
    left: u32,
    bytes: u64,
    is_write: bool,
}

/// An operation of the firmware: under way, or waiting for others of its line or page.
#[derive(Clone, Copy, Debug)]
struct Operation {
    command: u32,
    op: RequestOp,
    /// The read part of a page that is written in part.
    is_partial: bool,
    key: LineAddr,
    /// When it came from the source.
    created: Time,
    /// When it was handed to the firmware.
    sent: Time,
    served: Served,
    breakdown: Breakdown,
}

/// What the operations of one direction took, in sum: picoseconds. An open loop that the device
/// cannot follow makes each of millions wait for minutes, which is beyond 64 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// Operations.
    pub count: u64,
    /// Waiting for other operations of the line or page.
    pub order: u128,
    /// The parts that the firmware tells apart.
    pub stall: u128,
    /// Lookups.
    pub index: u128,
    /// Device DRAM.
    pub dram: u128,
    /// Flash.
    pub flash: u128,
}

/// What is measured of one direction.
#[derive(Clone, Debug, Default)]
pub struct Direction {
    /// Time of commands from arrival to completion.
    pub latency: LatencyHistogram,
    /// Bytes that commands moved.
    pub bytes: u64,
    /// Where the time of operations went.
    pub parts: Parts,
}

/// What is measured by the engine.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Reads, writes.
    pub directions: [Direction; 2],
    /// Operations that waited for others of their line or page.
    pub ordered: u64,
    /// Pages that were read because only a part of them was written.
    pub partial_writes: u64,
}

/// What surrounds the device: the queue, and the operations that it answers.
struct Around {
    queue: EventQueue<Word>,
    operations: Vec<Operation>,
    /// Pages offered for promotion, which nobody wants: none, since the device is told so.
    offers: u64,
}

impl Harness for Around {
    #[inline]
    fn now(&self) -> Time {
        self.queue.now()
    }
    #[inline]
    fn schedule(&mut self, at: Time, event: DeviceEvent) {
        self.queue.push(at, Word::of(Event::Device(event)));
    }
    #[inline]
    fn respond(&mut self, response: Response) {
        let operation = &mut self.operations[response.request.index()];
        operation.served = response.served;
        operation.breakdown = response.breakdown;
        let answer = Word::of(Event::Answer(response.request));
        self.queue.push(response.at, answer);
    }
    fn offer_page(&mut self, _at: Time, _lpa: Lpa) {
        self.offers += 1;
    }
}

/// A replay under way.
pub struct Engine {
    pub(super) device: Device,
    around: Around,
    free_operations: Vec<u32>,
    commands: Vec<Command>,
    free_commands: Vec<u32>,
    order: Order,
    freed: Vec<RequestId>,
    source: Source,
    /// The next request of an open loop.
    next: Option<HostRequest>,
    arrivals: Arrivals,
    port: Port,
    page: PageSize,
    /// Base-two logarithm of the bytes of an operation: nothing is divided for a request.
    unit_bits: u32,
    warmup: u64,
    is_audited: bool,
    /// Requests taken from the source and completed.
    taken: u64,
    completed: u64,
    /// When measurement started, and what the device had counted until then.
    pub(super) start: Option<(Time, Snapshot)>,
    /// When the last request was completed.
    pub(super) end: Time,
    pub(super) measured: Measured,
}

impl Engine {
    /// At the start of time, with an empty device DRAM.
    pub fn new(replay: &Replay, source: Source) -> Self {
        // Nobody switches threads or takes pages over.
        let mut config = replay.config.clone();
        config.design.context_switch = false;
        config.design.migration = Migration::None;
        let workload = &replay.spec.workload;
        let unit = source.port().unit(config.nand.page_size);
        Self {
            device: device::of_config(&config),
            around: Around {
                queue: EventQueue::new(),
                operations: Vec::new(),
                offers: 0,
            },
            free_operations: Vec::new(),
            commands: Vec::new(),
            free_commands: Vec::new(),
            order: Order::default(),
            freed: Vec::new(),
            port: source.port(),
            unit_bits: unit.get().trailing_zeros(),
            source,
            next: None,
            arrivals: workload.arrivals,
            page: config.nand.page_size,
            warmup: workload.warmup,
            is_audited: replay.spec.run.is_audited,
            taken: 0,
            completed: 0,
            start: None,
            end: Time::ZERO,
            measured: Measured::default(),
        }
    }

    /// Requests that arrived with the one before them, because the file stamps them earlier.
    pub fn late(&self) -> u64 {
        self.source.late()
    }

    /// Through which port the requests go.
    pub fn port(&self) -> Port {
        self.port
    }

    /// Requests completed, warm-up included.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Runs until the source has no more requests and all are complete.
    ///
    /// # Errors
    /// A record of the input is wrong, or the observer interrupts.
    pub fn run(&mut self, observe: &mut dyn FnMut(Progress) -> bool) -> Result<(), SimError> {
        if self.warmup == 0 {
            self.start_measurement(Time::ZERO);
        }
        match self.arrivals {
            Arrivals::Closed(depth) => {
                for _ in 0..depth {
                    self.issue_next(Time::ZERO)?;
                }
            }
            Arrivals::Open { .. } => self.await_next()?,
        }
        let mut events = 0u64;
        while let Some((now, event)) = self.around.queue.pop() {
            self.handle(now, event.event())?;
            events += 1;
            if events.is_multiple_of(OBSERVED_EVENTS) && !self.look(now, observe) {
                return Err(SimError::Interrupted);
            }
            if self.completed == self.taken && self.next.is_none() {
                break;
            }
        }
        assert_eq!(self.completed, self.taken, "each request is answered once");
        self.look(self.end, observe);
        Ok(())
    }

    fn look(&mut self, now: Time, observe: &mut dyn FnMut(Progress) -> bool) -> bool {
        if self.is_audited {
            self.audit();
        }
        observe(Progress {
            is_measured: self.start.is_some(),
            requests: self.completed,
            at: now,
        })
    }

    /// Checks what can be checked at any time (B6).
    fn audit(&self) {
        self.device.controller.audit();
        self.device.resources.nand.audit();
        self.device.resources.dram.audit();
        let under_way = (self.commands.len() - self.free_commands.len()) as u64;
        assert_eq!(under_way, self.taken - self.completed, "requests are lost");
        assert_eq!(self.order.is_empty(), under_way == 0, "an order of nothing");
        assert_eq!(self.around.offers, 0, "pages are offered to nobody");
    }

    #[inline]
    fn handle(&mut self, now: Time, event: Event) -> Result<(), SimError> {
        match event {
            Event::Device(event) => {
                self.device.on_event(now, event, &mut self.around);
                Ok(())
            }
            Event::Answer(id) => self.answered(now, id),
            Event::Arrive => {
                let request = self.next.take().expect("it was announced");
                self.issue(now, request);
                self.await_next()
            }
        }
    }

    /// Open loop: schedules the next arrival.
    fn await_next(&mut self) -> Result<(), SimError> {
        self.next = self.source.next()?;
        if let Some(request) = self.next {
            self.around.queue.push(request.at, Word::of(Event::Arrive));
        }
        Ok(())
    }

    /// Closed loop: takes the next request, if there is one.
    #[inline]
    fn issue_next(&mut self, now: Time) -> Result<(), SimError> {
        if let Some(request) = self.source.draw() {
            self.issue(now, request);
        } else if let Some(request) = self.source.next()? {
            self.issue(now, request);
        }
        Ok(())
    }

    /// Turns a request into operations and hands them to the firmware.
    #[inline]
    fn issue(&mut self, now: Time, request: HostRequest) {
        self.taken += 1;
        let unit = self.port.unit(self.page);
        let first = request.offset.get() >> self.unit_bits;
        let end = request.offset + request.size;
        let last = (end.get() - 1) >> self.unit_bits;
        let command = self.open_command(Command {
            arrived: now,
            left: u32::try_from(last - first + 1).expect("a request has few operations"),
            bytes: request.size.get(),
            is_write: request.is_write,
        });
        if first == last && !request.is_write {
            // What asks for lines mostly is this.
            return self.begin(now, command, first, false, false);
        }
        for number in first..=last {
            let is_whole = unit * number >= request.offset && unit * (number + 1) <= end;
            self.begin(now, command, number, request.is_write, is_whole);
        }
    }

    #[inline]
    fn begin(&mut self, now: Time, command: u32, number: u64, is_write: bool, is_whole: bool) {
        let is_line = self.port == Port::Line;
        let is_partial = is_write && !is_whole && !is_line;
        let op = match (is_line, is_write && !is_partial) {
            (true, true) => RequestOp::Write,
            (true, false) => RequestOp::Read {
                delay_allowed: false,
            },
            (false, true) => RequestOp::WritePage,
            (false, false) => RequestOp::ReadPage,
        };
        let lines = if is_line {
            1
        } else {
            u64::from(self.page.line_count())
        };
        let operation = Operation {
            command,
            op,
            is_partial,
            key: LineAddr::new(number * lines),
            created: now,
            sent: now,
            served: Served::Unmapped,
            breakdown: Breakdown::default(),
        };
        let id = self.open_operation(operation);
        if self.order.enter(operation.key, id, is_write) {
            self.send(now, id);
        } else {
            self.measured.ordered += 1;
        }
    }

    #[inline]
    fn send(&mut self, now: Time, id: RequestId) {
        let operation = &mut self.around.operations[id.index()];
        operation.sent = now;
        let request = Request {
            id,
            op: operation.op,
            line: operation.key,
            source: None,
        };
        self.device.with(&mut self.around, |controller, platform| {
            controller.on_request(now, request, platform);
        });
    }

    /// An answer leaves the device.
    #[inline]
    fn answered(&mut self, now: Time, id: RequestId) -> Result<(), SimError> {
        let operation = self.around.operations[id.index()];
        self.record_operation(now, &operation);
        if operation.is_partial {
            let operation = &mut self.around.operations[id.index()];
            operation.is_partial = false;
            operation.op = RequestOp::WritePage;
            operation.created = now;
            self.measured.partial_writes += 1;
            self.send(now, id);
            return Ok(());
        }
        self.free_operations.push(id.get());
        let is_write = operation.op.is_write();
        self.order.leave(operation.key, is_write, &mut self.freed);
        while let Some(id) = self.freed.pop() {
            self.send(now, id);
        }
        let command = &mut self.commands[operation.command as usize];
        command.left -= 1;
        if command.left > 0 {
            return Ok(());
        }
        self.complete(now, operation.command)
    }

    #[inline]
    fn complete(&mut self, now: Time, index: u32) -> Result<(), SimError> {
        let command = self.commands[index as usize];
        self.free_commands.push(index);
        self.completed += 1;
        self.end = now;
        if self.start.is_some() {
            let direction = &mut self.measured.directions[usize::from(command.is_write)];
            direction.latency.record(now - command.arrived);
            direction.bytes += command.bytes;
        } else if self.completed == self.warmup {
            self.start_measurement(now);
        }
        match self.arrivals {
            Arrivals::Closed(_) => self.issue_next(now),
            Arrivals::Open { .. } => Ok(()),
        }
    }

    #[inline]
    fn record_operation(&mut self, now: Time, operation: &Operation) {
        let is_write = operation.op.is_write() || operation.is_partial;
        let parts = &mut self.measured.directions[usize::from(is_write)].parts;
        let device = &operation.breakdown;
        let order = operation.sent - operation.created;
        debug_assert_eq!(
            now - operation.created,
            order + device.stall + device.index + device.dram + device.flash,
            "the parts add up"
        );
        parts.count += u64::from(!operation.is_partial);
        for (sum, part) in [
            (&mut parts.order, order),
            (&mut parts.stall, device.stall),
            (&mut parts.index, device.index),
            (&mut parts.dram, device.dram),
            (&mut parts.flash, device.flash),
        ] {
            *sum += u128::from(part.get());
        }
    }

    fn start_measurement(&mut self, now: Time) {
        self.measured = Measured::default();
        self.device.controller.reset_stats();
        self.start = Some((now, Snapshot::of(&self.device.resources)));
    }

    #[inline]
    fn open_command(&mut self, command: Command) -> u32 {
        if let Some(index) = self.free_commands.pop() {
            self.commands[index as usize] = command;
            return index;
        }
        self.commands.push(command);
        let under_way = self.commands.len();
        u32::try_from(under_way - 1).expect("fewer requests are under way than 2^32")
    }

    #[inline]
    fn open_operation(&mut self, operation: Operation) -> RequestId {
        if let Some(index) = self.free_operations.pop() {
            self.around.operations[index as usize] = operation;
            return RequestId::new(index);
        }
        self.around.operations.push(operation);
        RequestId::from_index(self.around.operations.len() - 1)
    }
}
