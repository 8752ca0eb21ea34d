//! What the firmware's work occupies: flash, device DRAM, lookup pipelines, firmware cores, bytes.

use crate::bytes::{Begun, DataPlane};
use crate::forecast::Forecast;
use crate::harness::{DeviceEvent, Harness};
use crate::work_times::{GivenTimes, Timed, WorkTimes};
use dram::{Access, Dram, DramLine, DramSpec};
use firmware::{NandCommand, NandOp, NandTag, Unit, Work, WorkCosts};
use nand::{
    Calendar, Command, Day, Faults, Nand, NandConfig, NandEvent, Operation, PhaseEnd, Schedule,
    Transfer,
};
use units::address::LINE_BYTES;
use units::{Bytes, LineInPage, LineMask, PageSize, Picos, Time};

/// What resources are made of.
#[derive(Clone, Debug)]
pub struct ResourceConfig<'a> {
    /// The flash.
    pub nand: &'a NandConfig,
    /// What is read of it at a time (`ftl.mapping_unit`).
    pub mapping_unit: PageSize,
    /// The device's DRAM.
    pub dram: DramSpec,
    /// What every access to it takes instead, if `ssd.dram_access` is constant.
    pub dram_latency: Option<Picos>,
    /// Copies that nobody waits for give way there (`ssd.dram_order`).
    pub lines_first: bool,
    /// Firmware cores (`ssd.firmware_cores`).
    pub firmware_cores: u32,
    /// What the firmware's own work takes.
    pub work: WorkCosts,
    /// From a message to the host (MSI-X) until the host has it.
    pub interrupt_latency: Picos,
    /// Whether the host is told of pages that have come (`os.wake = on_data`).
    pub tells_pages: bool,
    /// Whether the firmware asks when commands will be done (`ftl.estimator = exact`).
    pub forecasts: bool,
    /// What goes wrong in the flash, if anything does, and how its days are counted.
    pub faults: Option<(Faults, Calendar)>,
    /// When the device begins: nothing is busy before.
    pub now: Time,
}

/// The resources of a device in virtual time, and its bytes.
#[derive(Clone, Debug)]
pub struct Resources<B> {
    /// The flash.
    pub nand: Nand,
    /// Log, index and data cache live here.
    pub dram: Dram,
    /// The bytes.
    pub bytes: B,
    dram_latency: Option<Picos>,
    lines_first: bool,
    work: WorkTimes,
    /// Whether what flash operations take is given, too: no model of the flash keeps their time.
    is_flash_measured: bool,
    /// Operations that the measured flash begins in this step.
    begun: Vec<Begun>,
    /// When the lookup pipelines take their next request: log, cache.
    pipelines: [Time; 2],
    /// When each firmware core is free.
    firmware_cores: Vec<Time>,
    /// Commands that start in the future, by tag.
    waiting_commands: Vec<Option<NandCommand>>,
    pub(crate) interrupt_latency: Picos,
    pub(crate) tells_pages: bool,
    forecast: Option<Forecast>,
    /// No end of a command is asked for before, and none is known: what has to start does.
    is_plain: bool,
    calendar: Calendar,
    /// Lines of a codeword, where those that are wanted go first; else none.
    codeword_lines: u16,
}

impl<B: DataPlane> Resources<B> {
    /// Idle resources.
    pub fn new(config: ResourceConfig<'_>, bytes: B) -> Self {
        let mut nand = Nand::new(config.nand, config.mapping_unit);
        let mut calendar = Calendar {
            day: Picos::MAX,
            nanos_before: 0,
        };
        if let Some((faults, of_faults)) = config.faults {
            nand = nand.with_faults(faults);
            calendar = of_faults;
        }
        Self {
            is_plain: !nand.is_split() && !config.forecasts,
            nand,
            dram: Dram::new(&config.dram),
            bytes,
            dram_latency: config.dram_latency,
            lines_first: config.lines_first,
            work: WorkTimes::Constant(config.work),
            is_flash_measured: false,
            begun: Vec::new(),
            pipelines: [config.now; 2],
            firmware_cores: vec![config.now; config.firmware_cores as usize],
            waiting_commands: Vec::new(),
            interrupt_latency: config.interrupt_latency,
            tells_pages: config.tells_pages,
            forecast: config.forecasts.then(Forecast::default),
            calendar,
            codeword_lines: match config.nand.transfer {
                Transfer::Page => 0,
                Transfer::WantedFirst => {
                    let unit = config.mapping_unit.line_count();
                    config.nand.codeword.line_count().min(unit)
                }
            },
        }
    }

    /// The same resources with other bytes.
    pub fn with_bytes<C>(&self, bytes: C) -> Resources<C> {
        Resources {
            nand: self.nand.clone(),
            dram: self.dram.clone(),
            bytes,
            dram_latency: self.dram_latency,
            lines_first: self.lines_first,
            work: self.work.clone(),
            is_flash_measured: self.is_flash_measured,
            begun: self.begun.clone(),
            pipelines: self.pipelines,
            firmware_cores: self.firmware_cores.clone(),
            waiting_commands: self.waiting_commands.clone(),
            interrupt_latency: self.interrupt_latency,
            tells_pages: self.tells_pages,
            forecast: self.forecast.clone(),
            is_plain: self.is_plain,
            calendar: self.calendar,
            codeword_lines: self.codeword_lines,
        }
    }

    /// Whether the host is told of pages that have come (`os.wake = on_data`).
    pub fn tells_pages(&self) -> bool {
        self.tells_pages
    }

    /// The flash's day.
    pub fn today(&self) -> Day {
        self.nand.faults().map_or(Day::default(), Faults::today)
    }

    /// Prices work of the firmware, and holds its unit from `at` on, or from when it is free.
    /// Returns when the work is done. FIFO service, whose end is known at once (architecture B4).
    #[inline]
    pub(crate) fn charge(&mut self, at: Time, work: Work) -> Time {
        let charge = match &mut self.work {
            WorkTimes::Constant(costs) => match costs.of(work) {
                Some(charge) => charge,
                None => return at,
            },
            WorkTimes::Given(times) => times.next(work),
        };
        let free = match charge.unit {
            Unit::LogLookup => &mut self.pipelines[0],
            Unit::CacheLookup => &mut self.pipelines[1],
            Unit::FirmwareCore => self
                .firmware_cores
                .iter_mut()
                .min_by_key(|free| **free)
                .expect("a device has a firmware core"),
        };
        let start = at.max(*free);
        *free = start + charge.occupancy;
        start + charge.latency
    }

    /// From now on the firmware's own work takes what it is told.
    pub fn take_given_times(&mut self) {
        self.work = WorkTimes::Given(Box::default());
    }

    /// From now on an operation of the flash takes what it is told, too, from its start to its end:
    /// a drive behind the firmware has queues of its own. Times are given.
    pub fn measure_flash(&mut self) {
        assert!(matches!(self.work, WorkTimes::Given(_)), "times are given");
        self.is_flash_measured = true;
    }

    /// Whether the firmware's own work takes what it is told.
    #[inline(always)]
    pub fn takes_given_times(&self) -> bool {
        matches!(self.work, WorkTimes::Given(_))
    }

    /// The times that are given, if they are.
    pub fn given_times(&mut self) -> Option<&mut GivenTimes> {
        match &mut self.work {
            WorkTimes::Constant(_) => None,
            WorkTimes::Given(times) => Some(times),
        }
    }

    /// What the work that is charged next took.
    #[inline]
    pub(crate) fn given(&mut self, work: Work, time: Picos) {
        if let WorkTimes::Given(times) = &mut self.work {
            times.give(Timed::Work(work), time);
        }
    }

    pub(crate) fn access_dram(
        &mut self,
        at: Time,
        address: Bytes,
        size: Bytes,
        is_write: bool,
    ) -> Time {
        if let Some(latency) = self.dram_latency {
            return at + latency;
        }
        let access = if is_write {
            Access::Write
        } else {
            Access::Read
        };
        let line = DramLine::at(address);
        let lines = size.get().div_ceil(LINE_BYTES.get());
        match (self.lines_first, lines > 1) {
            (false, false) => self.dram.access(at, line, access),
            (false, true) => self.dram.bulk(at, line, lines, access),
            (true, false) => self.dram.access_ahead(at, line, access),
            (true, true) => self.dram.bulk_ahead(at, line, lines, access),
        }
    }

    /// As [`Resources::access_dram`], for what gives way to others if anything does.
    pub(crate) fn access_dram_behind(
        &mut self,
        at: Time,
        address: Bytes,
        size: Bytes,
        is_write: bool,
    ) -> Time {
        if !self.lines_first || self.dram_latency.is_some() {
            return self.access_dram(at, address, size, is_write);
        }
        let access = match is_write {
            true => Access::Write,
            false => Access::Read,
        };
        let lines = size.get().div_ceil(LINE_BYTES.get());
        self.dram
            .bulk_behind(at, DramLine::at(address), lines, access)
    }

    /// Takes a command of the firmware, which starts at `at` or now. In its callers, which know
    /// what it does.
    #[inline(always)]
    pub(crate) fn take_command<H: Harness>(
        &mut self,
        at: Time,
        command: NandCommand,
        harness: &mut H,
    ) {
        let now = harness.now();
        self.bytes.nand_begins(command.tag, &command.op);
        if self.is_plain && at <= now {
            return self.submit(now, command.tag, operation_of(&command), harness);
        }
        self.take_other(at, command, harness);
    }

    /// A command that starts later, or whose end is to be known.
    #[inline(never)]
    fn take_other<H: Harness>(&mut self, at: Time, command: NandCommand, harness: &mut H) {
        let now = harness.now();
        if !self.is_flash_measured {
            if self.nand.is_split() {
                return self.submit_split(at.max(now), command, harness);
            }
            if let Some(forecast) = &mut self.forecast {
                forecast.add(at.max(now), command.tag, operation_of(&command), &self.nand);
            }
        }
        if at <= now {
            return self.submit(now, command.tag, operation_of(&command), harness);
        }
        let index = command.tag.index();
        if index >= self.waiting_commands.len() {
            self.wait_more(index);
        }
        let place = &mut self.waiting_commands[index];
        assert!(place.is_none(), "a tag names one operation at a time");
        *place = Some(command);
        harness.schedule(at, DeviceEvent::NandStart(command.tag));
    }

    /// A command that starts later starts.
    #[inline(never)]
    pub(crate) fn start_waiting<H: Harness>(&mut self, now: Time, tag: NandTag, harness: &mut H) {
        let command = self.waiting_commands[tag.index()].take();
        let command = command.expect("a command that starts later is kept until then");
        self.submit(now, command.tag, operation_of(&command), harness);
    }

    // With the parts of a command, which are in registers.
    #[inline(never)]
    fn submit<H: Harness>(
        &mut self,
        now: Time,
        tag: NandTag,
        operation: Operation,
        harness: &mut H,
    ) {
        if self.is_flash_measured {
            let at = now;
            self.begun.push(Begun { tag, at, operation });
            return;
        }
        let calendar = self.calendar;
        if let Some(faults) = self.nand.faults_mut() {
            faults.set_today(calendar.today(now));
        }
        let tag = tag.get();
        let command = Command { tag, operation };
        self.nand.submit(now, command, &mut OfFlash(harness));
    }

    /// A command to flash whose units serve reads and changes apart: its end is known.
    fn submit_split<H: Harness>(&mut self, at: Time, command: NandCommand, harness: &mut H) {
        let operation = operation_of(&command);
        let end = self.nand.submit_split(at, operation, command.is_compaction);
        if let Some(forecast) = &mut self.forecast {
            forecast.note(command.tag, end);
        }
        harness.schedule(end, DeviceEvent::NandDone(command.tag));
    }

    /// The firmware has done one thing. What the measured flash began meanwhile ends after what it
    /// took; all of it is performed together.
    #[inline(always)]
    pub(crate) fn end_step<H: Harness>(&mut self, harness: &mut H) {
        self.bytes.end_step();
        if !self.begun.is_empty() {
            self.perform_begun(harness);
        }
    }

    #[cold]
    #[inline(never)]
    fn perform_begun<H: Harness>(&mut self, harness: &mut H) {
        let WorkTimes::Given(times) = &mut self.work else {
            unreachable!("a flash is measured where times are given");
        };
        self.bytes.perform(&self.begun, times);
        for begun in self.begun.drain(..) {
            let took = times.next_flash(begun.operation.kind());
            self.nand.count_measured(begun.operation, took);
            harness.schedule(begun.at + took, DeviceEvent::NandDone(begun.tag));
        }
    }

    /// Makes a place for a command of this tag that starts later.
    #[cold]
    fn wait_more(&mut self, index: usize) {
        self.waiting_commands.resize(index + 1, None);
    }

    /// Somebody waits for a line of what the command of this tag reads.
    #[inline]
    pub(crate) fn want<H: Harness>(&mut self, tag: NandTag, line: LineInPage, harness: &mut H) {
        if self.codeword_lines > 0 && !self.is_flash_measured {
            let codeword = line.get() / self.codeword_lines;
            let now = harness.now();
            let events = &mut OfFlash(harness);
            self.nand.want(now, tag.get(), codeword.into(), events);
        }
    }

    /// The lines of codewords, a bit each.
    pub(crate) fn lines_of(&self, codewords: u64) -> LineMask {
        let mut lines = LineMask::EMPTY;
        for codeword in (0..u64::BITS as u16).filter(|bit| codewords >> bit & 1 == 1) {
            let first = codeword * self.codeword_lines;
            let of_codeword = first..first + self.codeword_lines;
            of_codeword.for_each(|line| _ = lines.insert(LineInPage::new(line)));
        }
        lines
    }

    /// A phase of the flash's work ends: what it brings.
    #[inline(always)]
    pub(crate) fn end_phase<H: Harness>(
        &mut self,
        now: Time,
        event: NandEvent,
        harness: &mut H,
    ) -> PhaseEnd {
        self.nand.end_phase(now, event, &mut OfFlash(harness))
    }

    pub(crate) fn expected_end(&self, tag: NandTag) -> Option<Time> {
        Some(self.forecast.as_ref()?.end_of(tag))
    }
}

/// Events of the flash are events of the device.
struct OfFlash<'a, H>(&'a mut H);

impl<H: Harness> Schedule for OfFlash<'_, H> {
    #[inline(always)]
    fn schedule(&mut self, at: Time, event: NandEvent) {
        self.0.schedule(at, DeviceEvent::Nand(event));
    }
}

#[inline(always)]
fn operation_of(command: &NandCommand) -> Operation {
    match command.op {
        NandOp::Read { ppa } => Operation::Read(ppa),
        NandOp::Program { ppa, .. } => Operation::Program(ppa),
        NandOp::Erase { block } => Operation::Erase(block),
    }
}
