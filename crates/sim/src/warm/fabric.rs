//! What warm-up runs on: a platform and a fabric where nothing takes time.

use super::WarmFlash;
use crate::fabric::promotion::hand_over;
use crate::fabric::{Fabric, device_line};
use firmware::{
    Cell, Controller, NandCommand, NandOp, NandTag, PagePlace, Platform, Request, RequestOp,
    Response, Timer, Work,
};
use host::cache::Victim;
use host::placement::page_cache::Lookup;
use host::placement::{HintFault, MigrationKind, Reclaimed, Target};
use host::{Access, HostLine, MissKind, Region, WarmUncore};
use inloop::What;
use soc::{DataPlane, NoBytes};
use std::collections::VecDeque;
use units::{Bytes, CoreId, LineAddr, LineInPage, LineMask, Lpa, RequestId, Time};

/// Bytes of a line.
const LINE: u64 = units::address::LINE_BYTES.get();

/// A platform where nothing takes time. There are bytes for a firmware process only.
#[derive(Debug, Default)]
pub(crate) struct InstantPlatform<B = NoBytes> {
    /// The bytes.
    pub(crate) bytes: B,
    nand: VecDeque<NandTag>,
    timers: VecDeque<Timer>,
    offers: VecDeque<Lpa>,
    /// Flash reads so far.
    pub(super) reads: u64,
    /// Hint faults that are to be served.
    faults: VecDeque<(CoreId, Lpa)>,
    /// When pages would come, if that is of interest.
    pub(super) flash: Option<WarmFlash>,
}

impl<B: DataPlane> Platform for InstantPlatform<B> {
    fn charge(&mut self, at: Time, _work: Work) -> Time {
        at
    }
    fn dram(&mut self, at: Time, _address: Bytes, _size: Bytes, _is_write: bool) -> Time {
        at
    }
    fn copy_line(&mut self, from: Cell, to: Cell) {
        self.bytes.copy_line(from, to);
    }
    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        self.bytes.copy_page(from, to, lines);
    }
    fn load_unit(&mut self, ppa: units::Ppa, lpa: Lpa, from: PagePlace) {
        self.bytes.load_unit(ppa, lpa, from);
    }

    fn nand(&mut self, _at: Time, command: NandCommand) {
        self.bytes.nand_begins(command.tag, &command.op);
        self.reads += u64::from(matches!(command.op, NandOp::Read { .. }));
        if let Some(flash) = &mut self.flash {
            flash.take(command);
        }
        self.nand.push_back(command.tag);
    }
    fn respond(&mut self, _response: Response) {}
    fn request_promotion(&mut self, _at: Time, lpa: Lpa) {
        self.offers.push_back(lpa);
    }
    fn wake_at(&mut self, _at: Time, timer: Timer) {
        self.timers.push_back(timer);
    }
}

/// A request, as it was when it was made.
struct Asked {
    lpa: Lpa,
    is_cached: bool,
    /// No page is needed.
    is_by_log: bool,
    is_waited_for: bool,
}

impl<B: DataPlane> InstantPlatform<B> {
    /// To the firmware the page is there; in the time of the flash it may be on its way.
    fn wait_for(&mut self, asked: Asked, controller: &mut Controller) {
        let Some(flash) = &mut self.flash else {
            return;
        };
        if !asked.is_cached && !asked.is_by_log {
            flash.missed(asked.lpa);
        }
        if flash.awaits(asked.lpa) {
            controller.forget_hits(asked.lpa);
            if asked.is_waited_for && !asked.is_by_log {
                flash.wait_for(asked.lpa);
            }
        }
    }
    /// With these bytes.
    pub(crate) fn with_bytes(bytes: B) -> Self {
        Self {
            bytes,
            nand: VecDeque::new(),
            timers: VecDeque::new(),
            offers: VecDeque::new(),
            reads: 0,
            faults: VecDeque::new(),
            flash: None,
        }
    }
    /// The device's offers go to nobody.
    pub(crate) fn forget_offers(&mut self) {
        self.offers.clear();
    }
    /// Lets the firmware finish everything it has begun.
    pub(crate) fn settle(&mut self, controller: &mut Controller) {
        loop {
            if let Some(tag) = self.nand.pop_front() {
                self.bytes.nand_done(tag, None);
                controller.on_nand_done(Time::ZERO, tag, self);
                self.bytes.nand_ends();
            } else if let Some(timer) = self.timers.pop_front() {
                controller.on_timer(Time::ZERO, timer, self);
            } else {
                return;
            }
        }
    }
}

/// The fabric without time.
pub(crate) struct WarmFabric<'a> {
    pub(crate) fabric: &'a mut Fabric,
    pub(crate) platform: &'a mut InstantPlatform,
    pub(crate) migration: MigrationKind,
}

impl WarmFabric<'_> {
    pub(super) fn request(&mut self, op: RequestOp, line: LineAddr, source: Option<CoreId>) {
        let device = self
            .fabric
            .device
            .as_mut()
            .expect("device pages live on a device");
        let request = Request {
            id: RequestId::new(0),
            op,
            line,
            source,
        };
        if self.fabric.in_loop.warm(request) {
            return;
        }
        let controller = &mut device.controller;
        let timed = self.platform.flash.as_mut();
        let asked = timed.map(|flash| {
            flash.begin();
            Asked {
                lpa: controller.page_of(line),
                is_cached: controller.has_cached(line),
                is_by_log: controller.is_served_by_log(line, op),
                is_waited_for: source.is_some(),
            }
        });
        controller.on_request(Time::ZERO, request, self.platform);
        self.platform.settle(controller);
        if let Some(asked) = asked {
            self.platform.wait_for(asked, controller);
        }
    }

    /// A load or store that no cache is asked for.
    pub(super) fn access(&mut self, core: CoreId, access: Access, is_write: bool) {
        let last = access.last();
        for number in access.byte / LINE..=last / LINE {
            let Region::Data(lpa, in_page) = HostLine::of_byte(number * LINE).region() else {
                unreachable!("loads and stores are of data")
            };
            self.walked(core, lpa);
            self.fabric.touch(lpa);
            if self.warm_page(lpa, is_write) {
                continue;
            }
            let (target, op) = if is_write {
                let target = self.fabric.placement.write(lpa, in_page);
                (target, RequestOp::Write)
            } else {
                let target = self.fabric.placement.read(lpa, in_page);
                (target, self.fabric.patient_op(MissKind::Load))
            };
            if target == Target::Device {
                self.request(op, device_line(lpa, in_page), Some(core));
            }
            self.promote_offered();
        }
    }

    /// What is in the log goes to flash.
    pub(super) fn empty_log(&mut self) {
        let device = self.fabric.device.as_mut().expect("a device has the log");
        device.controller.drain_log(Time::ZERO, self.platform);
        self.platform.settle(&mut device.controller);
    }

    /// A data line that L3 does not have is read where its page is.
    #[inline]
    pub(crate) fn fetch(&mut self, core: CoreId, place: (Lpa, LineInPage), kind: MissKind) {
        let (lpa, in_page) = place;
        if !self.warm_page(lpa, false) && self.fabric.placement.read(lpa, in_page) == Target::Device
        {
            let op = self.fabric.patient_op(kind);
            self.request(op, device_line(lpa, in_page), Some(core));
        }
    }

    fn evict(&mut self, victim: Option<Victim>) {
        if let Some(Victim {
            line,
            is_dirty: true,
        }) = victim
        {
            self.write(line);
        }
    }

    /// A dirty line leaves L3 for where its page is.
    #[inline]
    pub(crate) fn write(&mut self, line: HostLine) {
        if let Region::Data(lpa, in_page) = line.region()
            && !self.warm_page(lpa, true)
            && self.fabric.placement.write(lpa, in_page) == Target::Device
        {
            self.request(RequestOp::Write, device_line(lpa, in_page), None);
        }
    }

    /// Pages that the device has offered go to the host.
    #[inline]
    pub(crate) fn promote_offered(&mut self) {
        while let Some(lpa) = self.platform.offers.pop_front() {
            if !self.fabric.placement.is_pinned(lpa) {
                self.make_room(lpa);
            }
            if self.fabric.placement.begin_promotion(lpa).is_err() {
                self.refuse(lpa);
                continue;
            }
            while let Some((chunk, line)) = self.fabric.placement.next_line(lpa) {
                self.fabric.placement.line_copied(chunk, line);
            }
            let dirt = self.fabric.promoted_dirt();
            let device = self
                .fabric
                .device
                .as_mut()
                .expect("a device made the offer");
            let controller = &mut device.controller;
            let mut is_dirty = false;
            for chunk in self.fabric.placement.chunks(lpa) {
                self.fabric.in_loop.tell(What::Promoted(chunk));
                is_dirty |= hand_over(dirt, controller, Time::ZERO, chunk, self.platform);
                self.platform.settle(controller);
            }
            self.fabric.placement.finish_promotion(lpa, is_dirty);
        }
    }

    /// No page that the device has offered goes to the host; it may offer each again.
    pub(crate) fn refuse_offered(&mut self) {
        while let Some(lpa) = self.platform.offers.pop_front() {
            self.refuse(lpa);
        }
    }

    fn make_room(&mut self, promoted: Lpa) {
        while self.fabric.placement.wants_reclaim(promoted) {
            match self.fabric.placement.reclaim(promoted) {
                Reclaimed::Dropped(_) => {}
                Reclaimed::Copying(lpa) if self.fabric.loses_demotions() => {
                    self.lose(lpa, promoted);
                }
                Reclaimed::Copying(lpa) => {
                    while let Some((chunk, line)) = self.fabric.placement.next_line(lpa) {
                        self.request(RequestOp::Write, device_line(chunk, line), None);
                        self.fabric.placement.line_copied(chunk, line);
                    }
                    self.fabric.placement.finish_demotion(lpa);
                    self.decline(lpa);
                }
                Reclaimed::PlbFull | Reclaimed::Nothing => break,
            }
        }
    }

    /// The device may take a page's way back for heat. Where nothing takes time, the page would
    /// come and go for ever.
    fn decline(&mut self, demoted: Lpa) {
        let number_of = |lpa| self.fabric.placement.number_of(lpa);
        let number = number_of(demoted);
        let offers = std::mem::take(&mut self.platform.offers);
        let (declined, others) = offers
            .into_iter()
            .partition(|lpa| number_of(*lpa) == number);
        self.platform.offers = others;
        let declined: VecDeque<Lpa> = declined;
        for lpa in declined {
            self.refuse(lpa);
        }
    }

    fn lose(&mut self, victim: Lpa, promoted: Lpa) {
        self.fabric.placement.copy_at_once(victim);
        self.fabric.placement.finish_demotion(victim);
        let device = self.fabric.device.as_mut();
        let controller = &mut device.expect("a device made the offer").controller;
        if !controller.has_log() {
            self.fabric.in_loop.tell(What::Program(promoted));
            controller.program_resident(Time::ZERO, promoted, self.platform);
            self.platform.settle(controller);
        }
    }

    /// An access to a page if host DRAM is a cache, which the page then is in; says whether it is.
    fn warm_page(&mut self, lpa: Lpa, is_write: bool) -> bool {
        let is_pinned = self.fabric.placement.is_pinned(lpa);
        let Some(store) = self.fabric.page_store.as_mut().filter(|_| !is_pinned) else {
            return false;
        };
        if store.cache.access(lpa, is_write) == Lookup::Absent {
            let begun = store.cache.begin_fill(lpa);
            store.cache.filled(lpa);
            store.cache.access(lpa, is_write);
            let first = LineInPage::new(0);
            if let Some(victim) = begun.and_then(|begun| begun.dirty_victim) {
                self.request(RequestOp::WritePage, device_line(victim, first), None);
            }
            self.request(RequestOp::ReadPage, device_line(lpa, first), None);
        }
        true
    }

    /// Pages that the operating system found hot: as in the measured part, without time, and
    /// therefore without a limit to the rate.
    fn serve_faults(&mut self) {
        while let Some((core, lpa)) = self.platform.faults.pop_front() {
            if !self.fabric.is_sampled(lpa) {
                self.balance(core, lpa);
                continue;
            }
            let Some(hints) = &mut self.fabric.hints else {
                return;
            };
            if hints.sampler.on_fault(Time::MAX, lpa) != HintFault::Promote {
                continue;
            }
            self.make_room(lpa);
            let node = self.fabric.node_of(core);
            let begun = self.fabric.placement.begin_promotion_near(lpa, node);
            if begun.is_ok() {
                self.copy_locked(lpa);
                self.fabric.placement.finish_promotion(lpa, true);
                let hints = self.fabric.hints.as_mut().expect("a fault was a hint");
                hints.sampler.promoted(Time::ZERO, lpa);
            }
        }
    }

    /// The device reads what is copied, unless nothing is.
    fn copy_locked(&mut self, lpa: Lpa) {
        if self.migration == MigrationKind::Instant {
            return self.fabric.placement.copy_at_once(lpa);
        }
        while let Some((chunk, line)) = self.fabric.placement.next_line(lpa) {
            self.request(RequestOp::PromotionRead, device_line(chunk, line), None);
            self.fabric.placement.line_copied(chunk, line);
        }
    }

    fn balance(&mut self, core: CoreId, lpa: Lpa) {
        if let Some(node) = self.fabric.wanted_on(core, lpa)
            && self.fabric.placement.begin_move(lpa, node).is_some()
        {
            self.fabric.placement.finish_move(lpa);
        }
    }

    /// The host does not take a page.
    fn refuse(&mut self, lpa: Lpa) {
        self.fabric.refuse_page(lpa);
    }
}

impl WarmUncore for WarmFabric<'_> {
    fn read(&mut self, core: CoreId, line: HostLine, kind: MissKind) {
        let (was_hit, victim) = self.fabric.llc.warm_read(line);
        self.evict(victim);
        if was_hit {
            self.fabric.note_store(line, kind);
            return;
        }
        if let Region::Data(lpa, in_page) = line.region() {
            self.fabric.touch(lpa);
            self.fetch(core, (lpa, in_page), kind);
        }
        self.promote_offered();
    }

    fn write_back(&mut self, _core: CoreId, line: HostLine) {
        if self.fabric.loses_l2_victims() {
            return;
        }
        let victim = self.fabric.llc.write_back(line);
        self.evict(victim);
        self.promote_offered();
    }

    fn persist(&mut self, _core: CoreId, line: HostLine, is_dirty: bool) {
        let is_dirty = self.fabric.llc.clean(line) || is_dirty;
        self.evict(Some(Victim { line, is_dirty }));
        self.promote_offered();
    }

    fn walked(&mut self, core: CoreId, page: Lpa) {
        if let Some(hints) = &mut self.fabric.hints
            && hints.sampler.take_armed(page)
        {
            self.platform.faults.push_back((core, page));
            self.serve_faults();
        }
    }
}
