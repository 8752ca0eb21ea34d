//! A device from the moment its power comes on: firmware and machine, driven event by event.

use crate::device::Device;
use crate::machine::Machine;
use crate::media::Media;
use crate::power_cutter::{Cut, InFlightChoice, PowerCutter};
use crate::sabotage::{Bug, Misreading, Sabotage, belief};
use firmware::log_index::LogIndex;
use firmware::{Controller, ControllerConfig, NandFault, NandTag, Request, Response};
use units::{DieId, Picos, Time};

/// A small device and what follows from it.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The device.
    pub device: Device,
    /// What its firmware is told.
    pub config: ControllerConfig,
    /// Its exported pages.
    pub page_count: usize,
}

impl Setup {
    /// Of a device without problems.
    pub fn new(device: Device) -> Self {
        Self {
            config: device.config(),
            page_count: device.page_count(),
            device,
        }
    }

    /// Its lines.
    pub fn line_count(&self) -> usize {
        self.page_count * self.device.page_lines as usize
    }
}

/// What the firmware stands on.
pub type PlatformStack = Sabotage<PowerCutter<Machine>>;

/// Firmware and machine.
#[allow(missing_debug_implementations, reason = "the controller has none")]
pub struct PoweredDevice<I> {
    /// The firmware.
    pub controller: Controller<I>,
    /// What it stands on.
    pub platform: PlatformStack,
    now: Time,
}

/// What an event did.
#[derive(Debug)]
pub struct Event {
    /// What would be left at every action, in the order of time.
    pub cuts: Vec<Cut>,
    /// The answers, in the order in which they were given.
    pub answers: Vec<Response>,
}

impl<I: LogIndex> PoweredDevice<I> {
    /// A device that was never used, and whose firmware has a bug.
    pub fn new(setup: &Setup, bug: Option<Bug>, choice: InFlightChoice) -> Self {
        let machine = Machine::new(&setup.device, setup.device.new_media());
        let cutter = PowerCutter::new(machine, choice);
        Self {
            controller: Controller::with_index(&belief(setup, bug)),
            platform: Sabotage::new(cutter, bug, &setup.device, false),
            now: Time::ZERO,
        }
    }

    /// A device whose power has come back, and what its firmware did to recover.
    ///
    /// # Errors
    /// A sentence, if the firmware refuses the tables.
    pub fn recover(
        setup: &Setup,
        media: Media,
        bug: Option<Bug>,
        choice: InFlightChoice,
    ) -> Result<(Self, Event), String> {
        let tables = media.tables.clone();
        let cutter = PowerCutter::new(Machine::new(&setup.device, media), choice);
        let mut platform = Sabotage::new(cutter, bug, &setup.device, true);
        platform.remember(&tables);
        let misreading = Misreading {
            tables: &tables,
            bug,
            second_half: setup.device.half_lines,
        };
        platform.inner.begin();
        let config = belief(setup, bug);
        let controller = Controller::recover(&config, &misreading, Time::ZERO, &mut platform);
        let cuts = platform.inner.end();
        let controller = controller.map_err(|error| format!("recovering, {error}"))?;
        let powered = Self {
            controller,
            platform,
            now: Time::ZERO,
        };
        let answers = Vec::new();
        Ok((powered, Event { cuts, answers }))
    }

    /// The machine.
    pub fn machine(&mut self) -> &mut Machine {
        &mut self.platform.inner.inner
    }

    /// Lets the firmware do something.
    fn event(&mut self, act: impl FnOnce(&mut Controller<I>, Time, &mut PlatformStack)) -> Event {
        self.now += Picos::from_nanos(100);
        self.platform.inner.begin();
        act(&mut self.controller, self.now, &mut self.platform);
        Event {
            cuts: self.platform.inner.end(),
            answers: std::mem::take(&mut self.machine().responses),
        }
    }

    /// A request arrives.
    pub fn send(&mut self, request: Request) -> Event {
        self.platform.note(&request);
        self.event(|controller, now, platform| controller.on_request(now, request, platform))
    }

    /// Everything that is logged is to go to flash.
    pub fn drain(&mut self) -> Event {
        self.event(|controller, now, platform| {
            // When it is over is for who waits for it; the cuts are at any moment of it.
            controller.drain_log(now, platform);
        })
    }

    /// The oldest operation of a die ends, if it has any; a read of what flash has lost fails.
    pub fn finish(&mut self, die: DieId) -> Option<Event> {
        if self.machine().must_fail(die) {
            let (tag, fault) = self.machine().fail_oldest(die)?;
            return Some(self.fail(tag, fault));
        }
        let tag = self.machine().finish_oldest(die)?;
        let event = self.event(|controller, now, platform| {
            controller.on_nand_done(now, tag, platform);
            platform.finished(tag);
        });
        self.machine().forget_register(tag);
        Some(event)
    }

    /// The firmware is told that an operation has failed.
    pub fn fail(&mut self, tag: NandTag, fault: NandFault) -> Event {
        let event = self.event(|controller, now, platform| {
            controller.on_nand_failed(now, tag, fault, platform);
            platform.failed(tag);
        });
        self.machine().forget_register(tag);
        event
    }

    /// The oldest timer rings, if there is any.
    pub fn ring(&mut self) -> Option<Event> {
        let timer = self.machine().next_timer()?;
        Some(self.event(|controller, now, platform| controller.on_timer(now, timer, platform)))
    }

    /// Whatever is due next: a timer, or the end of an operation; none if nothing is.
    pub fn go_on(&mut self) -> Option<Event> {
        let ring = self.ring();
        ring.or_else(|| {
            let die = self.machine().busy_die()?;
            self.finish(die)
        })
    }
}
