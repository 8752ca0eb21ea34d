//! The simulated device: the firmware, and the resources its [`Platform`] charges.

use crate::event::Event;
use crate::queue::EventQueue;
use crate::request::Requests;
use dram::{Access, Dram, DramLine};
use firmware::{
    Cell, Controller, NandCommand, NandOp, NandTag, PagePlace, Platform, Response, Timer, Unit,
};
use nand::{Command, Completion, Nand, NandEvent, Operation};
use units::address::LINE_BYTES;
use units::{Bytes, LineMask, Lpa, Picos, Time};

/// Firmware, flash, device DRAM and firmware cores.
pub struct Device {
    /// The brain.
    pub controller: Controller,
    /// What it charges.
    pub resources: Resources,
}

/// The resources of a device in virtual time.
pub struct Resources {
    /// The flash.
    pub nand: Nand,
    /// Log, index and data cache live here.
    pub dram: Dram,
    /// When the lookup pipelines take their next request: log, cache.
    pipelines: [Time; 2],
    /// When each firmware core is free.
    firmware_cores: Vec<Time>,
    /// Commands that start in the future, by tag.
    waiting_commands: Vec<Option<NandCommand>>,
    nand_events: Vec<(Time, NandEvent)>,
    completions: Vec<Completion>,
    msix_latency: Picos,
}

impl Resources {
    /// Idle resources.
    pub fn new(config: &crate::config::Config) -> Self {
        Self {
            nand: Nand::new(&config.nand),
            dram: Dram::new(&config.ssd_dram.spec()),
            pipelines: [Time::ZERO; 2],
            firmware_cores: vec![Time::ZERO; config.ssd.firmware_cores as usize],
            waiting_commands: Vec::new(),
            nand_events: Vec::new(),
            completions: Vec::new(),
            msix_latency: config.host.interrupt_latency,
        }
    }

    fn submit(&mut self, now: Time, command: NandCommand, queue: &mut EventQueue<Event>) {
        let operation = match command.op {
            NandOp::Read { ppa } => Operation::Read(ppa),
            NandOp::Program { ppa, .. } => Operation::Program(ppa),
            NandOp::Erase { block } => Operation::Erase(block),
        };
        self.nand.submit(
            now,
            Command {
                tag: command.tag.get(),
                operation,
            },
            &mut self.nand_events,
        );
        self.schedule_nand_events(queue);
    }

    fn schedule_nand_events(&mut self, queue: &mut EventQueue<Event>) {
        for (time, event) in self.nand_events.drain(..) {
            queue.push(time, Event::Nand(event));
        }
    }
}

impl Device {
    /// A preconditioned device with empty DRAM.
    pub fn new(config: &crate::config::Config) -> Self {
        Self {
            controller: Controller::new(&config.controller()),
            resources: Resources::new(config),
        }
    }

    /// Gives the controller a platform in virtual time.
    pub fn with<R>(
        &mut self,
        queue: &mut EventQueue<Event>,
        requests: &mut Requests,
        act: impl FnOnce(&mut Controller, &mut TimedPlatform<'_>) -> R,
    ) -> R {
        let mut platform = TimedPlatform {
            resources: &mut self.resources,
            queue,
            requests,
        };
        act(&mut self.controller, &mut platform)
    }

    /// A phase of the flash's work ends; completions go to the firmware.
    pub fn on_nand(
        &mut self,
        now: Time,
        event: NandEvent,
        queue: &mut EventQueue<Event>,
        requests: &mut Requests,
    ) {
        let resources = &mut self.resources;
        let mut completions = std::mem::take(&mut resources.completions);
        resources
            .nand
            .on_event(now, event, &mut resources.nand_events, &mut completions);
        resources.schedule_nand_events(queue);
        for completion in completions.drain(..) {
            let tag = NandTag::new(completion.tag);
            self.with(queue, requests, |controller, platform| {
                controller.on_nand_done(now, tag, platform);
            });
        }
        self.resources.completions = completions;
    }

    /// A command whose start lay in the future starts.
    pub fn on_nand_start(&mut self, now: Time, tag: NandTag, queue: &mut EventQueue<Event>) {
        let command = self.resources.waiting_commands[tag.index()]
            .take()
            .expect("a command that starts later is kept until then");
        self.resources.submit(now, command, queue);
    }
}

/// The firmware's world in virtual time; its data plane is empty (architecture B2).
pub struct TimedPlatform<'a> {
    resources: &'a mut Resources,
    queue: &'a mut EventQueue<Event>,
    requests: &'a mut Requests,
}

impl Platform for TimedPlatform<'_> {
    fn charge(&mut self, at: Time, unit: Unit, latency: Picos, occupancy: Picos) -> Time {
        let free = match unit {
            Unit::LogLookup => &mut self.resources.pipelines[0],
            Unit::CacheLookup => &mut self.resources.pipelines[1],
            Unit::FirmwareCore => self
                .resources
                .firmware_cores
                .iter_mut()
                .min_by_key(|free| **free)
                .expect("a device has a firmware core"),
        };
        let start = at.max(*free);
        *free = start + occupancy;
        start + latency
    }

    fn dram(&mut self, at: Time, address: Bytes, size: Bytes, is_write: bool) -> Time {
        let access = if is_write {
            Access::Write
        } else {
            Access::Read
        };
        let line = DramLine::at(address);
        let lines = size.get().div_ceil(LINE_BYTES.get());
        if lines == 1 {
            self.resources.dram.access(at, line, access)
        } else {
            self.resources.dram.bulk(at, line, lines, access)
        }
    }

    #[inline]
    fn copy_line(&mut self, _from: Cell, _to: Cell) {}

    #[inline]
    fn copy_page(&mut self, _from: PagePlace, _to: PagePlace, _lines: LineMask) {}

    fn nand(&mut self, at: Time, command: NandCommand) {
        let now = self.queue.now();
        if at <= now {
            self.resources.submit(now, command, self.queue);
            return;
        }
        let index = command.tag.index();
        if index >= self.resources.waiting_commands.len() {
            self.resources.waiting_commands.resize(index + 1, None);
        }
        let replaced = self.resources.waiting_commands[index].replace(command);
        assert!(replaced.is_none(), "a tag names one operation at a time");
        self.queue.push(at, Event::NandStart(command.tag));
    }

    fn respond(&mut self, response: Response) {
        self.requests.answer(response);
        self.queue
            .push(response.at, Event::DeviceSend(response.request));
    }

    fn request_promotion(&mut self, at: Time, lpa: Lpa) {
        self.queue
            .push(at + self.resources.msix_latency, Event::Msix(lpa));
    }

    fn wake_at(&mut self, at: Time, timer: Timer) {
        self.queue.push(at, Event::FirmwareTimer(timer));
    }
}
