//! The closed or open loop round a device alone.
//!
//! The source's requests go to the command layer of `soc` over no link: what is measured is the
//! device. A closed loop has as many slots as requests are under way; each answer brings the next
//! request of its slot, and those of one instant go in the order of the slots.

use super::result::Snapshot;
use super::source::{HostRequest, Source};
use super::workload::{Arrivals, Port};
use super::{Progress, Replay};
use crate::device;
use crate::error::SimError;
use crate::histogram::LatencyHistogram;
use crate::in_loop::{self, DeviceSource, Partner, partner_of};
use inloop::Tape;
use port::{Acknowledge, Command, Conflict, Finished, Ticket};
use soc::{EngineConfig, LinkConfig, NoBytes, Parts};
use units::{ByteAddr, Bytes, PageSize, Time};

/// Ends and arrivals between two calls of the observer.
const OBSERVED_STEPS: u64 = 1 << 13;

/// The command layer over a device without bytes, in lockstep with a firmware process if there is
/// one.
pub type Device = soc::Engine<NoBytes, Partner>;

/// What is measured of one direction.
#[derive(Clone, Debug, Default)]
pub struct Direction {
    /// Time of requests from arrival to completion.
    pub latency: LatencyHistogram,
    /// Bytes that requests moved.
    pub bytes: u64,
}

/// What a replay does.
pub struct Engine {
    pub(super) device: Device,
    /// By ticket: which slot a request of a closed loop has.
    slots: Vec<u32>,
    /// Empty: the memory of a list.
    by_slot: Vec<(u32, Finished)>,
    source: Source,
    /// The next request of an open loop.
    next: Option<HostRequest>,
    arrivals: Arrivals,
    port: Port,
    warmup: u64,
    is_audited: bool,
    /// The firmware's times are not the configuration's.
    is_given: bool,
    config_digest: [u8; 16],
    /// Requests taken from the source and completed.
    taken: u64,
    completed: u64,
    /// When measurement started, and what the device had counted until then.
    pub(super) start: Option<(Time, Snapshot)>,
    /// When the last request was completed.
    pub(super) end: Time,
    /// Reads, writes.
    pub(super) directions: [Direction; 2],
}

impl Engine {
    /// At the start of time, with an empty device DRAM.
    ///
    /// # Errors
    /// The times are to come from somewhere, and there is nobody.
    pub fn new(replay: &Replay, source: Source, times: &DeviceSource) -> Result<Self, SimError> {
        let config = replay.config_of_device();
        let workload = &replay.spec.workload;
        let engine = EngineConfig {
            link: LinkConfig::DIRECT,
            page: config.ftl.mapping_unit,
            capacity: replay.capacity(),
            pmem: Bytes::ZERO,
            has_battery: true,
            keeps_frames: false,
            has_log: config.design.write_log,
            transactions: 0,
            next_transaction: 1,
            no_transactions: None,
            operations_at_a_time: u32::MAX,
            block: None,
        };
        let mut resources = device::resources(&config);
        let pages = replay.capacity() / PageSize::KIB_4.bytes();
        let partner = partner_of(&mut resources, &config, pages, times)?;
        Ok(Self {
            device: Device::in_lockstep(&config.controller(), resources, engine, partner),
            slots: Vec::new(),
            by_slot: Vec::new(),
            port: source.port(),
            source,
            next: None,
            arrivals: workload.arrivals,
            warmup: workload.warmup,
            is_audited: replay.spec.run.is_audited,
            is_given: !matches!(times, DeviceSource::Modelled),
            config_digest: in_loop::digest(&config),
            taken: 0,
            completed: 0,
            start: None,
            end: Time::ZERO,
            directions: Default::default(),
        })
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

    /// Where the time of the device's operations went: of reads, of writes.
    pub fn parts(&self) -> &[Parts; 2] {
        self.device.parts()
    }

    /// Runs until the source has no more requests and all are complete.
    ///
    /// Gives the times of the firmware process, if there is one.
    ///
    /// # Errors
    /// A record of the input is wrong, there is no going on with the firmware process or with the
    /// recorded times, or the observer interrupts.
    pub fn run(
        &mut self,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Option<Tape>, SimError> {
        if self.warmup == 0 {
            self.start_measurement(Time::ZERO);
        }
        match self.arrivals {
            Arrivals::Closed(depth) => {
                for slot in 0..depth {
                    self.issue_next(Time::ZERO, slot)?;
                }
            }
            Arrivals::Open { .. } => self.next = self.source.next()?,
        }
        let mut steps = 0u64;
        let mut finished: Vec<Finished> = Vec::new();
        while self.completed < self.taken || self.next.is_some() {
            // A file may stamp a request earlier than the one before it.
            let arrival = self.next.map_or(Time::MAX, |request| request.at);
            let until = arrival.max(self.device.now());
            self.device.advance_to_end(until, &mut finished);
            let now = self.device.now();
            match finished.as_slice() {
                [done] => {
                    let (slot, done) = (self.slots[done.ticket.index()], *done);
                    self.complete(now, &done, slot)?;
                }
                [] => assert!(self.next.is_some(), "what is under way ends"),
                _ => self.complete_all(now, &finished)?,
            }
            finished.clear();
            while let Some(request) = self.next.filter(|request| request.at <= now) {
                self.issue(now, request, 0);
                self.next = self.source.next()?;
            }
            if self.is_given {
                self.check_times()?;
            }
            steps += 1;
            if steps.is_multiple_of(OBSERVED_STEPS) && !self.look(now, observe) {
                return Err(SimError::Interrupted);
            }
        }
        self.look(self.end, observe);
        let digest = self.config_digest;
        self.device
            .in_step(|partner, times| partner.end(times, digest))
    }

    /// Whether there is going on with what gives the times.
    #[cold]
    fn check_times(&mut self) -> Result<(), SimError> {
        match self.device.in_step(|partner, times| partner.failure(times)) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Those of one instant, in the order of their slots. A slot is read before the next request
    /// takes the ticket over.
    fn complete_all(&mut self, now: Time, finished: &[Finished]) -> Result<(), SimError> {
        let mut by_slot = std::mem::take(&mut self.by_slot);
        let slot = |done: &Finished| self.slots[done.ticket.index()];
        by_slot.extend(finished.iter().map(|done| (slot(done), *done)));
        by_slot.sort_unstable_by_key(|(slot, _)| *slot);
        for (slot, done) in by_slot.drain(..) {
            self.complete(now, &done, slot)?;
        }
        self.by_slot = by_slot;
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
        self.device.audit();
        let under_way = self.device.running() as u64;
        assert_eq!(under_way, self.taken - self.completed, "requests are lost");
        let link = self.parts().iter().map(|parts| parts.link).sum::<u128>();
        assert_eq!(link, 0, "the parts of each operation's time add up");
    }

    /// Closed loop: takes the next request of a slot, if there is one.
    #[inline(always)]
    fn issue_next(&mut self, now: Time, slot: u32) -> Result<(), SimError> {
        let request = match self.source.draw() {
            Some(request) => Some(request),
            None => self.source.next()?,
        };
        if let Some(request) = request {
            self.issue(now, request, slot);
        }
        Ok(())
    }

    /// Hands a request to the device.
    #[inline(always)]
    fn issue(&mut self, now: Time, request: HostRequest, slot: u32) {
        self.taken += 1;
        let command = match (self.port, request.is_write) {
            (Port::Line, false) => Command::ReadLines,
            (Port::Line, true) => Command::WriteLines,
            (Port::Block, false) => Command::ReadBlocks,
            (Port::Block, true) => Command::WriteBlocks(Acknowledge::Accepted),
        };
        let range = (ByteAddr::new(request.offset.get()), request.size);
        let device = &mut self.device;
        let ticket = device.submit_abandoned(now, command, range, Conflict::Refuse, &[]);
        let ticket = ticket.expect("the source has checked its requests");
        match self.slots.get_mut(ticket.index()) {
            Some(place) => *place = slot,
            None => self.add_slot(ticket, slot),
        }
    }

    /// No ticket with this number was seen before.
    #[cold]
    fn add_slot(&mut self, ticket: Ticket, slot: u32) {
        self.slots.resize(ticket.index() + 1, slot);
    }

    /// A request is over. In the loop of the run, as is what follows from it: on their way through
    /// calls a request and its end would be in memory.
    #[inline(always)]
    fn complete(&mut self, now: Time, done: &Finished, slot: u32) -> Result<(), SimError> {
        assert!(
            !done.is_failed,
            "flash that does not fail answers every request"
        );
        self.completed += 1;
        self.end = now;
        if self.start.is_some() {
            let direction = &mut self.directions[usize::from(done.command.is_write())];
            direction.latency.record(done.completion.took());
            direction.bytes += done.size.get();
        } else if self.completed == self.warmup {
            self.start_measurement(now);
        }
        match self.arrivals {
            Arrivals::Closed(_) => self.issue_next(now, slot),
            Arrivals::Open { .. } => Ok(()),
        }
    }

    fn start_measurement(&mut self, now: Time) {
        self.directions = Default::default();
        self.device.reset_stats();
        self.start = Some((now, Snapshot::of(&self.device.soc().resources)));
    }
}
