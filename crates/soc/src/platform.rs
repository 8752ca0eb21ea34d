//! The firmware on its resources: [`Soc`], and the [`Platform`] that the firmware sees.

use crate::bytes::DataPlane;
use crate::harness::{DeviceEvent, Harness};
use crate::resources::Resources;
use firmware::log_index::LogIndex;
use firmware::{
    Cell, Controller, NandCommand, NandFault, NandTag, PagePlace, Platform, Record, Request,
    Response, Timer, Work,
};
use nand::{NandEvent, Part, PhaseEnd};
use units::{Bytes, LineInPage, LineMask, LogSlot, Lpa, Picos, Ppa, RequestId, Time};

/// What firmware is told: the four things that can happen to a device.
pub trait Firmware {
    /// A host request has arrived.
    fn on_request<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P);
    /// A NAND operation is over; how it failed, if it did.
    fn on_nand<P: Platform>(
        &mut self,
        now: Time,
        tag: NandTag,
        fault: Option<NandFault>,
        platform: &mut P,
    );
    /// Lines of a page that is being read have come, before the others.
    fn on_lines<P: Platform>(&mut self, now: Time, tag: NandTag, lines: LineMask, platform: &mut P);
    /// A timer has rung.
    fn on_timer<P: Platform>(&mut self, now: Time, timer: Timer, platform: &mut P);
}

impl<I: LogIndex> Firmware for Controller<I> {
    #[inline(always)]
    fn on_request<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P) {
        Controller::on_request(self, now, request, platform);
    }
    #[inline]
    fn on_nand<P: Platform>(
        &mut self,
        now: Time,
        tag: NandTag,
        fault: Option<NandFault>,
        platform: &mut P,
    ) {
        match fault {
            None => self.on_nand_done(now, tag, platform),
            Some(fault) => self.on_nand_failed(now, tag, fault, platform),
        }
    }
    fn on_lines<P: Platform>(
        &mut self,
        now: Time,
        tag: NandTag,
        lines: LineMask,
        platform: &mut P,
    ) {
        Controller::on_lines(self, now, tag, lines, platform);
    }
    #[inline]
    fn on_timer<P: Platform>(&mut self, now: Time, timer: Timer, platform: &mut P) {
        Controller::on_timer(self, now, timer, platform);
    }
}

/// Firmware with everything that surrounds it in a device.
#[derive(Clone, Debug)]
pub struct Soc<F, B> {
    /// What decides.
    pub controller: F,
    /// What its work occupies.
    pub resources: Resources<B>,
}

impl<F: Firmware, B: DataPlane> Soc<F, B> {
    /// Gives the controller its platform.
    #[inline]
    pub fn with<H: Harness, R>(
        &mut self,
        harness: &mut H,
        act: impl FnOnce(&mut F, &mut TimedPlatform<'_, H, B>) -> R,
    ) -> R {
        let mut platform = TimedPlatform {
            resources: &mut self.resources,
            harness,
        };
        let result = act(&mut self.controller, &mut platform);
        self.resources.end_step(harness);
        result
    }

    /// A request of the host has arrived. In its callers, where the parts of the request are.
    #[inline(always)]
    pub fn on_request<H: Harness>(&mut self, now: Time, request: Request, harness: &mut H) {
        self.with(harness, |controller, platform| {
            controller.on_request(now, request, platform);
        });
    }

    /// The time of an event of the device has come. In its callers, which know what happens.
    #[inline(always)]
    pub fn on_event<H: Harness>(&mut self, now: Time, event: DeviceEvent, harness: &mut H) {
        match event {
            DeviceEvent::Nand(phase) => self.end_phase(now, phase, harness),
            DeviceEvent::NandStart(tag) => {
                self.resources.start_waiting(now, tag, harness);
                self.resources.end_step(harness);
            }
            DeviceEvent::NandDone(tag) => self.end_command(now, tag, None, harness),
            DeviceEvent::Timer(timer) => self.with(harness, |controller, platform| {
                controller.on_timer(now, timer, platform);
            }),
        }
    }

    /// A phase of the flash's work ends; what is done the firmware is told.
    #[inline(always)]
    fn end_phase<H: Harness>(&mut self, now: Time, event: NandEvent, harness: &mut H) {
        match self.resources.end_phase(now, event, harness) {
            PhaseEnd::Nothing => {}
            PhaseEnd::Part(part) => self.bring_lines(now, part, harness),
            PhaseEnd::Done(completion) => {
                harness.observe(&completion);
                let tag = NandTag::new(completion.tag);
                self.end_command(now, tag, completion.fault, harness);
            }
        }
    }

    /// Lines of a page that is being read have come.
    #[inline(never)]
    fn bring_lines<H: Harness>(&mut self, now: Time, part: Part, harness: &mut H) {
        let tag = NandTag::new(part.tag);
        let lines = self.resources.lines_of(part.codewords);
        if self.resources.bytes.nand_brings(tag) {
            self.with(harness, |controller, platform| {
                controller.on_lines(now, tag, lines, platform);
            });
        }
        self.resources.bytes.nand_ends();
    }

    #[inline(always)]
    fn end_command<H: Harness>(
        &mut self,
        now: Time,
        tag: NandTag,
        fault: Option<nand::Fault>,
        harness: &mut H,
    ) {
        let fault = self.resources.bytes.nand_done(tag, fault);
        self.with(harness, |controller, platform| {
            controller.on_nand(now, tag, fault, platform);
        });
        self.resources.bytes.nand_ends();
    }
}

/// What the firmware sees: time that passes, and bytes if there are any (architecture B2).
pub struct TimedPlatform<'a, H, B> {
    pub(crate) resources: &'a mut Resources<B>,
    pub(crate) harness: &'a mut H,
}

impl<H: Harness, B: DataPlane> Platform for TimedPlatform<'_, H, B> {
    #[inline]
    fn charge(&mut self, at: Time, work: Work) -> Time {
        self.resources.charge(at, work)
    }

    #[inline(always)]
    fn measures(&self) -> bool {
        self.resources.takes_given_times()
    }

    #[inline(always)]
    fn took(&mut self, work: Work, time: Picos) {
        self.resources.given(work, time);
    }

    #[inline]
    fn dram(&mut self, at: Time, address: Bytes, size: Bytes, is_write: bool) -> Time {
        self.resources.access_dram(at, address, size, is_write)
    }

    #[inline]
    fn dram_behind(&mut self, at: Time, address: Bytes, size: Bytes, is_write: bool) -> Time {
        self.resources
            .access_dram_behind(at, address, size, is_write)
    }

    #[inline(always)]
    fn foresees(&self) -> bool {
        self.resources.bytes.foresees()
    }

    #[inline(always)]
    fn foresee(&mut self, slot: LogSlot) {
        self.resources.bytes.foresee(slot);
    }

    #[inline]
    fn copy_line(&mut self, from: Cell, to: Cell) {
        self.resources.bytes.copy_line(from, to);
    }

    #[inline]
    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        self.resources.bytes.copy_page(from, to, lines);
    }

    #[inline]
    fn load_unit(&mut self, ppa: Ppa, lpa: Lpa, from: PagePlace) {
        self.resources.bytes.load_unit(ppa, lpa, from);
    }

    // In its caller, where the command's parts are: put together in memory and copied as a whole,
    // it would wait for their stores.
    #[inline(always)]
    fn nand(&mut self, at: Time, command: NandCommand) {
        self.resources.take_command(at, command, self.harness);
    }

    fn expected_end(&self, tag: NandTag) -> Option<Time> {
        self.resources.expected_end(tag)
    }

    #[inline]
    fn wants(&mut self, tag: NandTag, line: LineInPage) {
        self.resources.want(tag, line, self.harness);
    }

    #[inline]
    fn is_poisoned(&self, request: RequestId) -> bool {
        self.resources.bytes.is_poisoned(request)
    }

    fn respond(&mut self, response: Response) {
        self.harness.respond(response);
    }

    fn request_promotion(&mut self, at: Time, lpa: Lpa) {
        let reaches = at + self.resources.interrupt_latency;
        self.harness.offer_page(reaches, lpa);
    }

    fn page_arrived(&mut self, at: Time, lpa: Lpa) {
        if self.resources.tells_pages {
            let reaches = at + self.resources.interrupt_latency;
            self.harness.page_arrived(reaches, lpa);
        }
    }

    #[inline]
    fn record(&mut self, record: Record) {
        let today = self.resources.today();
        self.resources.bytes.record(record, today);
    }

    fn wake_at(&mut self, at: Time, timer: Timer) {
        self.harness.schedule(at, DeviceEvent::Timer(timer));
    }
}
