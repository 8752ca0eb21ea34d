//! The simulated device: the firmware, and the resources its [`Platform`] charges.

use crate::recorder::FlashLog;
use dram::{Access, Dram, DramLine};
use firmware::{
    Cell, Controller, DramAccess, EstimatorKind, FirstWrite, NandCommand, NandOp, NandTag,
    PagePlace, Platform, Response, Timer, Unit,
};
use host::os::WakePolicy;
use nand::{Command, Completion, Nand, NandEvent, Operation};
use units::address::LINE_BYTES;
use units::{Bytes, LineMask, Lpa, PageSize, Picos, Time};

/// Something of the device's own that ends or starts at a known time; whoever runs the device
/// brings it back to [`Device::on_event`] then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceEvent {
    /// A phase of the flash's work ends.
    Nand(NandEvent),
    /// A NAND command whose start lay in the future starts.
    NandStart(NandTag),
    /// A NAND command is done, whose end was known when it was submitted.
    NandDone(NandTag),
    /// A timer of the firmware rings.
    Timer(Timer),
}

/// What a device is surrounded by: an event queue, and whoever asks and is answered.
pub trait Surroundings {
    /// The time of the event being handled.
    fn now(&self) -> Time;
    /// Keeps an event of the device until its time.
    fn schedule(&mut self, at: Time, event: DeviceEvent);
    /// Takes an answer, which leaves the device at `response.at`.
    fn respond(&mut self, response: Response);
    /// Takes the offer of a page, which reaches the host at `at`.
    fn offer_page(&mut self, at: Time, lpa: Lpa);
    /// Takes the notice, which reaches the host at `at`, that a page is in device DRAM of which a
    /// read was answered by SkyByte-Delay. Only a host with `os.wake = on_data` is told.
    fn page_arrived(&mut self, at: Time, lpa: Lpa);
}

/// Firmware, flash, device DRAM and firmware cores.
#[derive(Clone)]
pub struct Device {
    /// The brain.
    pub controller: Controller,
    /// What it charges.
    pub resources: Resources,
}

/// The resources of a device in virtual time.
#[derive(Clone)]
pub struct Resources {
    /// The flash.
    pub nand: Nand,
    /// Log, index and data cache live here.
    pub dram: Dram,
    /// What every access takes instead, if `ssd.dram_access` is constant.
    dram_latency: Option<Picos>,
    /// When the lookup pipelines take their next request: log, cache.
    pipelines: [Time; 2],
    /// When each firmware core is free.
    firmware_cores: Vec<Time>,
    /// Commands that start in the future, by tag.
    waiting_commands: Vec<Option<NandCommand>>,
    nand_events: Vec<(Time, NandEvent)>,
    completions: Vec<Completion>,
    msix_latency: Picos,
    /// Whether the host is told of pages that have come (`os.wake = on_data`).
    tells_pages: bool,
    forecast: Option<Forecast>,
    /// Operations that have ended, where somebody wants to know.
    pub flash_log: Option<FlashLog>,
}

impl Resources {
    /// Idle resources.
    pub fn new(config: &crate::config::Config) -> Self {
        Self {
            nand: Nand::new(&config.nand),
            dram: Dram::new(&config.ssd_dram.spec()),
            dram_latency: (config.ssd.dram_access == DramAccess::Constant)
                .then_some(config.ssd.dram_latency),
            pipelines: [Time::ZERO; 2],
            firmware_cores: vec![Time::ZERO; config.ssd.firmware_cores as usize],
            waiting_commands: Vec::new(),
            nand_events: Vec::new(),
            completions: Vec::new(),
            msix_latency: config.host.interrupt_latency,
            tells_pages: config.os.wake == WakePolicy::OnData,
            forecast: (config.ftl.estimator == EstimatorKind::Exact).then(Forecast::default),
            flash_log: None,
        }
    }

    fn submit<S: Surroundings>(&mut self, now: Time, command: NandCommand, around: &mut S) {
        let operation = operation_of(&command);
        self.nand.submit(
            now,
            Command {
                tag: command.tag.get(),
                operation,
            },
            &mut self.nand_events,
        );
        self.schedule_nand_events(around);
    }

    /// Makes a place for a command of this tag that starts later.
    #[cold]
    fn wait_more(&mut self, index: usize) {
        self.waiting_commands.resize(index + 1, None);
    }

    fn schedule_nand_events<S: Surroundings>(&mut self, around: &mut S) {
        for (time, event) in &self.nand_events {
            around.schedule(*time, DeviceEvent::Nand(*event));
        }
        self.nand_events.clear();
    }
}

/// When commands will be done: exact where units serve in order of submission and wait for nothing
/// but each other. A bus that several dies share, or reads that go ahead, are not foreseen.
#[derive(Clone, Default)]
struct Forecast {
    /// By unit: when everything that it was given is done.
    free: Vec<Time>,
    /// By tag.
    ends: Vec<Time>,
}

impl Forecast {
    fn note(&mut self, tag: NandTag, end: Time) {
        if tag.index() >= self.ends.len() {
            self.ends.resize(tag.index() + 1, Time::ZERO);
        }
        self.ends[tag.index()] = end;
    }

    fn add(&mut self, at: Time, command: &NandCommand, nand: &Nand) {
        let operation = operation_of(command);
        let unit = nand.unit_of(operation.block(nand.geometry())) as usize;
        if unit >= self.free.len() {
            self.free.resize(unit + 1, Time::ZERO);
        }
        let end = self.free[unit].max(at) + nand.service_time(operation.kind());
        self.free[unit] = end;
        self.note(command.tag, end);
    }
}

fn operation_of(command: &NandCommand) -> Operation {
    match command.op {
        NandOp::Read { ppa } => Operation::Read(ppa),
        NandOp::Program { ppa, .. } => Operation::Program(ppa),
        NandOp::Erase { block } => Operation::Erase(block),
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

    /// An idle device for a program of `page_count` pages.
    pub fn for_pages(config: &crate::config::Config, page_count: u64) -> Self {
        let mut device = Self::new(config);
        if config.ftl.first_write == FirstWrite::BehindPages {
            let size = config.nand.page_size.bytes() / PageSize::KIB_4.bytes();
            let behind = Lpa::new(page_count.div_ceil(size));
            device.controller.write_as_behind(behind);
        }
        device
    }

    /// Whether the host will be told when a page on its way from flash has come.
    pub fn tells_of(&self, lpa: Lpa) -> bool {
        self.resources.tells_pages && self.controller.tells_of(lpa)
    }

    /// Gives the controller a platform in virtual time.
    #[inline]
    pub fn with<S: Surroundings, R>(
        &mut self,
        around: &mut S,
        act: impl FnOnce(&mut Controller, &mut TimedPlatform<'_, S>) -> R,
    ) -> R {
        let mut platform = TimedPlatform {
            resources: &mut self.resources,
            around,
        };
        act(&mut self.controller, &mut platform)
    }

    /// The time of an event of the device has come.
    #[inline]
    pub fn on_event<S: Surroundings>(&mut self, now: Time, event: DeviceEvent, around: &mut S) {
        match event {
            DeviceEvent::Nand(phase) => self.on_nand(now, phase, around),
            DeviceEvent::NandStart(tag) => {
                let command = self.resources.waiting_commands[tag.index()].take();
                let command = command.expect("a command that starts later is kept until then");
                self.resources.submit(now, command, around);
            }
            DeviceEvent::NandDone(tag) => self.with(around, |controller, platform| {
                controller.on_nand_done(now, tag, platform);
            }),
            DeviceEvent::Timer(timer) => self.with(around, |controller, platform| {
                controller.on_timer(now, timer, platform);
            }),
        }
    }

    /// A phase of the flash's work ends; completions go to the firmware.
    fn on_nand<S: Surroundings>(&mut self, now: Time, event: NandEvent, around: &mut S) {
        let resources = &mut self.resources;
        let mut completions = std::mem::take(&mut resources.completions);
        resources
            .nand
            .on_event(now, event, &mut resources.nand_events, &mut completions);
        resources.schedule_nand_events(around);
        if completions.is_empty() {
            resources.completions = completions;
            return;
        }
        if let Some(log) = &mut resources.flash_log {
            completions
                .iter()
                .for_each(|completion| log.push(*completion));
        }
        for completion in completions.drain(..) {
            let tag = NandTag::new(completion.tag);
            self.with(around, |controller, platform| {
                controller.on_nand_done(now, tag, platform);
            });
        }
        self.resources.completions = completions;
    }
}

/// The firmware's world in virtual time; its data plane is empty (architecture B2).
pub struct TimedPlatform<'a, S> {
    resources: &'a mut Resources,
    around: &'a mut S,
}

impl<S: Surroundings> TimedPlatform<'_, S> {
    /// A command to flash whose units serve reads and changes apart: its end is known.
    fn nand_split(&mut self, at: Time, command: NandCommand) {
        let operation = operation_of(&command);
        let nand = &mut self.resources.nand;
        let end = nand.submit_split(at, operation, command.is_compaction);
        if let Some(forecast) = &mut self.resources.forecast {
            forecast.note(command.tag, end);
        }
        self.around
            .schedule(end, DeviceEvent::NandDone(command.tag));
    }
}

impl<S: Surroundings> Platform for TimedPlatform<'_, S> {
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
        if let Some(latency) = self.resources.dram_latency {
            return at + latency;
        }
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

    // In its caller, where the command's parts are: put together in memory and copied as a whole,
    // it would wait for their stores.
    #[inline]
    fn nand(&mut self, at: Time, command: NandCommand) {
        let now = self.around.now();
        if self.resources.nand.is_split() {
            return self.nand_split(at.max(now), command);
        }
        if let Some(forecast) = &mut self.resources.forecast {
            forecast.add(at.max(now), &command, &self.resources.nand);
        }
        if at <= now {
            self.resources.submit(now, command, self.around);
            return;
        }
        let index = command.tag.index();
        if index >= self.resources.waiting_commands.len() {
            self.resources.wait_more(index);
        }
        let place = &mut self.resources.waiting_commands[index];
        assert!(place.is_none(), "a tag names one operation at a time");
        *place = Some(command);
        self.around
            .schedule(at, DeviceEvent::NandStart(command.tag));
    }

    fn expected_end(&self, tag: NandTag) -> Option<Time> {
        let forecast = self.resources.forecast.as_ref()?;
        Some(forecast.ends[tag.index()])
    }

    fn respond(&mut self, response: Response) {
        self.around.respond(response);
    }

    fn request_promotion(&mut self, at: Time, lpa: Lpa) {
        self.around
            .offer_page(at + self.resources.msix_latency, lpa);
    }

    fn page_arrived(&mut self, at: Time, lpa: Lpa) {
        if self.resources.tells_pages {
            let reaches = at + self.resources.msix_latency;
            self.around.page_arrived(reaches, lpa);
        }
    }

    fn wake_at(&mut self, at: Time, timer: Timer) {
        self.around.schedule(at, DeviceEvent::Timer(timer));
    }
}
