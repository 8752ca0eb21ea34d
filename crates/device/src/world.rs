//! The firmware's world: real bytes, and time that is accounted.
//!
//! Units of the firmware, device DRAM and flash are resources in virtual time, as in the simulator;
//! nothing here waits. What happens at a later time is an event in one queue, in the order (time,
//! order of creation).

use crate::data::{Data, Fetched};
use crate::failing::faults_of;
use firmware::{
    Cell, NandCommand, NandFault, NandOp, NandTag, PagePlace, Platform, PowerLossProtection,
    Record, Response, Timer, Unit, Work, WorkCosts,
};
use nand::{Command, Completion, Day, Fault, Faults, Nand, NandEvent, Operation};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Bytes, BytesPerSec, LineMask, Lpa, Picos, RequestId, Time};

/// Something that happens at a known time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// A request reaches the device.
    Arrive(RequestId),
    /// A phase of the flash's work ends ([`NandEvent::to_bits`]).
    Nand(u64),
    /// A NAND command whose start lay in the future starts.
    NandStart(NandTag),
    /// A timer of the firmware rings.
    Timer(Timer),
    /// The host goes on with its command.
    Next(usize),
    /// The host knows that its command is done.
    Finish(usize),
}

/// A NAND command that is not over.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    command: NandCommand,
    /// What is read is the page that the tables have there.
    is_in_place: bool,
}

/// Everything that the firmware decides about.
#[derive(Debug)]
pub struct World {
    /// Bytes.
    pub data: Data,
    /// Answers of the firmware that nobody has looked at.
    pub answers: Vec<Response>,
    /// Lines that a request moves, by request.
    pub lines: Vec<u64>,
    /// Why the device must stop: the disk is full.
    pub fault: Option<String>,
    /// What the image holds of a device that has stopped.
    kept: &'static str,
    /// The time of the event being handled.
    now: Time,
    queue: BinaryHeap<Reverse<(Time, u64, Event)>>,
    next_event: u64,
    nand: Nand,
    /// How long a day of retention is.
    day: Picos,
    /// By tag: what was asked of the flash.
    commands: Vec<Option<InFlight>>,
    nand_events: Vec<(Time, NandEvent)>,
    completions: Vec<Completion>,
    /// When the lookup pipelines take their next request: log, cache.
    pipelines: [Time; 2],
    /// When each firmware core is free.
    cores: Vec<Time>,
    work: WorkCosts,
    dram_free: Time,
    dram_latency: Picos,
    dram_bandwidth: BytesPerSec,
}

impl World {
    /// Idle, at `now`.
    pub fn new(data: Data, config: &crate::config::DeviceConfig, now: Time) -> Self {
        let mut nand = Nand::new(&config.nand);
        if let Some(faults) = faults_of(config, &data.tables, now) {
            nand = nand.with_faults(faults);
        }
        Self {
            data,
            answers: Vec::new(),
            lines: Vec::new(),
            fault: None,
            kept: match (
                config.ssd.half_slot_count(),
                config.ssd.power_loss_protection,
            ) {
                (1.., PowerLossProtection::Battery) => "everything acknowledged",
                _ => "everything that was flushed",
            },
            now,
            queue: BinaryHeap::new(),
            next_event: 0,
            nand,
            day: config.faults.day,
            commands: Vec::new(),
            nand_events: Vec::new(),
            completions: Vec::new(),
            pipelines: [now; 2],
            cores: vec![now; config.ssd.firmware_cores as usize],
            work: WorkCosts::new(&config.ssd, &config.ftl),
            dram_free: now,
            dram_latency: config.ssd.dram_latency,
            dram_bandwidth: config.device.dram_bandwidth,
        }
    }

    /// The time of the event being handled.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Lets time pass until `at`, if that is later; no event may lie before it.
    pub fn pass(&mut self, at: Time) {
        self.now = self.now.max(at);
    }

    /// When the next event is.
    pub fn next_time(&self) -> Option<Time> {
        self.queue.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Keeps an event until its time.
    pub fn schedule(&mut self, at: Time, event: Event) {
        self.next_event += 1;
        self.queue
            .push(Reverse((at.max(self.now), self.next_event, event)));
    }

    /// Takes the next event, whose time it is then.
    pub fn take_event(&mut self) -> Option<Event> {
        let Reverse((at, _, event)) = self.queue.pop()?;
        self.now = at;
        Some(event)
    }

    /// Nothing happens any more.
    pub fn forget_events(&mut self) {
        self.queue.clear();
    }

    /// What the flash did since the image was opened.
    pub fn nand(&self) -> &Nand {
        &self.nand
    }

    /// Blocks that were bad when the device was made.
    pub fn factory_bad(&self) -> u32 {
        let bad = self.nand.faults().map(Faults::factory_bad_blocks);
        bad.map_or(0, |blocks| blocks.fold(0, |count, _| count + 1))
    }

    /// A NAND command that starts later starts.
    pub fn start(&mut self, tag: NandTag) {
        let in_flight = self.commands[tag.index()].expect("a command is kept until it is done");
        self.submit(&in_flight.command);
    }

    fn submit(&mut self, command: &NandCommand) {
        let operation = match command.op {
            NandOp::Read { ppa, .. } => Operation::Read(ppa),
            NandOp::Program { ppa, .. } => Operation::Program(ppa),
            NandOp::Erase { block } => Operation::Erase(block),
        };
        let command = Command {
            tag: command.tag.get(),
            operation,
        };
        let today = self.nand.faults().map(|_| Day::at(self.now, self.day));
        if let Some((faults, today)) = self.nand.faults_mut().zip(today) {
            faults.set_today(today);
        }
        self.nand.submit(self.now, command, &mut self.nand_events);
        self.schedule_nand_events();
    }

    fn schedule_nand_events(&mut self) {
        while let Some((at, event)) = self.nand_events.pop() {
            self.schedule(at, Event::Nand(event.to_bits()));
        }
    }

    /// A phase of the flash's work ends; gives what is done then.
    pub fn on_nand(&mut self, event: u64) -> Vec<Completion> {
        let mut completions = std::mem::take(&mut self.completions);
        let event = NandEvent::from_bits(event);
        self.nand
            .on_event(self.now, event, &mut self.nand_events, &mut completions);
        self.schedule_nand_events();
        completions
    }

    /// Takes the list of [`World::on_nand`] back, to be used again.
    pub fn give_back(&mut self, mut completions: Vec<Completion>) {
        completions.clear();
        self.completions = completions;
    }

    /// A NAND operation is over: how it failed, if it did. What it fetched is in its register until
    /// [`World::settle`].
    pub fn complete(&mut self, tag: NandTag, fault: Option<Fault>) -> Option<NandFault> {
        let command = self.commands[tag.index()].take();
        let in_flight = command.expect("a command is kept until it is done");
        match in_flight.command.op {
            NandOp::Read { ppa, .. } => {
                let is_sound = in_flight.is_in_place && self.data.is_sound(ppa);
                let is_lost = fault.is_some() || !is_sound;
                let fetched = match is_lost {
                    true => Fetched::Poison,
                    false => Fetched::Page(ppa),
                };
                self.data.register = Some((tag, fetched));
                is_lost.then_some(NandFault::Uncorrectable)
            }
            NandOp::Program { ppa, .. } => fault.map(|_| {
                self.data.media.spoil(ppa);
                NandFault::ProgramFailed
            }),
            NandOp::Erase { .. } => fault.map(|_| NandFault::EraseFailed),
        }
    }

    /// The firmware knows of the end.
    pub fn settle(&mut self) {
        self.data.register = None;
    }

    fn stop(&mut self, reason: String) {
        self.fault.get_or_insert(reason);
    }

    /// The data plane of a NAND command; says whether a page that is read is the one that the
    /// tables have there.
    fn move_bytes(&mut self, command: &NandCommand) -> bool {
        match command.op {
            NandOp::Read { ppa, .. } => {
                let holder = self.data.media.holder(ppa);
                return holder.is_some_and(|lpa| self.data.tables.knows(lpa, ppa));
            }
            NandOp::Program { ppa, lpa, from, .. } => self.data.program(ppa, lpa, from),
            NandOp::Erase { block } => self.data.media.erase(block),
        }
        true
    }
}

impl Platform for World {
    #[inline]
    fn charge(&mut self, at: Time, work: Work) -> Time {
        let charge = self.work.of(work);
        let free = match charge.unit {
            Unit::LogLookup => &mut self.pipelines[0],
            Unit::CacheLookup => &mut self.pipelines[1],
            Unit::FirmwareCore => self
                .cores
                .iter_mut()
                .min_by_key(|free| **free)
                .expect("a device has a firmware core"),
        };
        let start = at.max(*free);
        *free = start + charge.occupancy;
        start + charge.latency
    }

    #[inline]
    fn dram(&mut self, at: Time, _address: Bytes, size: Bytes, _is_write: bool) -> Time {
        let start = at.max(self.dram_free);
        self.dram_free = start + self.dram_bandwidth.time_for(size);
        self.dram_free + self.dram_latency
    }

    #[inline]
    fn copy_line(&mut self, from: Cell, to: Cell) {
        self.data.copy_line(from, to);
    }

    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        self.data.copy_page(from, to, lines);
    }

    fn nand(&mut self, at: Time, command: NandCommand) {
        if self.fault.is_some() {
            return;
        }
        let is_in_place = self.move_bytes(&command);
        let index = command.tag.index();
        if index >= self.commands.len() {
            self.commands.resize(index + 1, None);
        }
        let place = &mut self.commands[index];
        assert!(place.is_none(), "a tag names one operation at a time");
        *place = Some(InFlight {
            command,
            is_in_place,
        });
        if at <= self.now {
            self.submit(&command);
        } else {
            self.schedule(at, Event::NandStart(command.tag));
        }
    }

    #[inline]
    fn is_poisoned(&self, request: RequestId) -> bool {
        self.data.is_poisoned(request, self.lines[request.index()])
    }

    #[inline]
    fn respond(&mut self, response: Response) {
        self.answers.push(response);
    }

    fn request_promotion(&mut self, _at: Time, lpa: Lpa) {
        panic!("{lpa} is offered to a host that was said to take no pages");
    }

    #[inline]
    fn record(&mut self, record: Record) {
        // A device that has stopped is one whose power is gone: what it would write from then on
        // may vouch for bytes that are not there.
        if self.fault.is_some() {
            return;
        }
        if let Record::Begun(ppa) = record {
            if let Err(error) = self.data.media.make_room(ppa) {
                self.stop(format!(
                    "the disk has no room for the media file ({error}); make room and open the \
                     image again: {} is in it",
                    self.kept
                ));
                return;
            }
            let today = self.nand.faults().map_or(Day::default(), Faults::today);
            self.data.tables.note_day(ppa, today);
        }
        self.data.tables.record(record);
    }

    fn wake_at(&mut self, at: Time, timer: Timer) {
        self.schedule(at, Event::Timer(timer));
    }
}
