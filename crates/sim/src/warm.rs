//! Functional warm-up (D5): the first part of each thread's instructions passes through caches,
//! TLBs, predictors, placement and the firmware itself, without time.
//!
//! The firmware runs on a platform where nothing takes time, so what is warmed is the state that
//! the very same code would have reached, not an imitation of it.

use crate::error::SimError;
use crate::fabric::promotion::hand_over;
use crate::fabric::{Fabric, device_line};
use crate::simulation::{Progress, Simulation};
use firmware::{
    Cell, Controller, NandCommand, NandOp, NandTag, PagePlace, Platform, Request, RequestOp,
    Response, Timer, Unit,
};
use host::cache::Victim;
use host::core::Core;
use host::llc::SharedCache;
use host::placement::page_cache::Lookup;
use host::placement::{HintFault, MigrationKind, Reclaimed, Target};
use host::{HostLine, InstructionSource, MissKind, Region, WarmUncore};
use std::collections::VecDeque;
use trace::SyncEvent;
use units::{Bytes, CoreId, LineAddr, LineInPage, LineMask, Lpa, Picos, Ratio, RequestId, Time};

/// Instructions of one thread before the next one takes its turn.
const TURN: u64 = 1_000;

/// A platform where nothing takes time and there are no bytes.
#[derive(Debug, Default)]
struct InstantPlatform {
    nand: VecDeque<NandTag>,
    timers: VecDeque<Timer>,
    offers: VecDeque<Lpa>,
    /// Flash reads so far.
    reads: u64,
    /// Hint faults that are to be served.
    faults: VecDeque<(CoreId, Lpa)>,
}

impl Platform for InstantPlatform {
    fn charge(&mut self, at: Time, _unit: Unit, _latency: Picos, _occupancy: Picos) -> Time {
        at
    }
    fn dram(&mut self, at: Time, _address: Bytes, _size: Bytes, _is_write: bool) -> Time {
        at
    }
    fn copy_line(&mut self, _from: Cell, _to: Cell) {}
    fn copy_page(&mut self, _from: PagePlace, _to: PagePlace, _lines: LineMask) {}
    fn nand(&mut self, _at: Time, command: NandCommand) {
        self.reads += u64::from(matches!(command.op, NandOp::Read { .. }));
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

impl InstantPlatform {
    /// Lets the firmware finish everything it has begun.
    fn settle(&mut self, controller: &mut Controller) {
        loop {
            if let Some(tag) = self.nand.pop_front() {
                controller.on_nand_done(Time::ZERO, tag, self);
            } else if let Some(timer) = self.timers.pop_front() {
                controller.on_timer(Time::ZERO, timer, self);
            } else {
                return;
            }
        }
    }
}

/// The fabric without time.
struct WarmFabric<'a> {
    fabric: &'a mut Fabric,
    platform: &'a mut InstantPlatform,
    migration: MigrationKind,
}

impl WarmFabric<'_> {
    fn request(&mut self, op: RequestOp, line: LineAddr, source: Option<CoreId>) {
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
        device
            .controller
            .on_request(Time::ZERO, request, self.platform);
        self.platform.settle(&mut device.controller);
    }

    fn evict(&mut self, victim: Option<Victim>) {
        let Some(Victim {
            line,
            is_dirty: true,
        }) = victim
        else {
            return;
        };
        if let Region::Data(lpa, in_page) = line.region()
            && !self.warm_page(lpa, true)
            && self.fabric.placement.write(lpa, in_page) == Target::Device
        {
            self.request(RequestOp::Write, device_line(lpa, in_page), None);
        }
    }

    fn promote_offered(&mut self) {
        while let Some(lpa) = self.platform.offers.pop_front() {
            if !self.fabric.placement.is_pinned(lpa) {
                self.make_room(lpa);
            }
            if self.fabric.placement.begin_promotion(lpa).is_err() {
                self.controller().on_promotion_refused(lpa);
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
                is_dirty |= hand_over(dirt, controller, Time::ZERO, chunk, self.platform);
                self.platform.settle(controller);
            }
            self.fabric.placement.finish_promotion(lpa, is_dirty);
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
            self.controller().on_promotion_refused(lpa);
        }
    }

    fn lose(&mut self, victim: Lpa, promoted: Lpa) {
        self.fabric.placement.copy_at_once(victim);
        self.fabric.placement.finish_demotion(victim);
        let device = self.fabric.device.as_mut();
        let controller = &mut device.expect("a device made the offer").controller;
        if !controller.has_log() {
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

    fn controller(&mut self) -> &mut Controller {
        &mut self
            .fabric
            .device
            .as_mut()
            .expect("a device made the offer")
            .controller
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
            if !self.warm_page(lpa, false)
                && self.fabric.placement.read(lpa, in_page) == Target::Device
            {
                let op = self.fabric.patient_op(kind);
                self.request(op, device_line(lpa, in_page), Some(core));
            }
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

impl<S: InstructionSource> Simulation<S> {
    /// Executes the first `share` of each thread's instructions functionally, threads in turn, then
    /// forgets everything that was counted.
    ///
    /// `instruction_counts` are those of whole threads.
    ///
    /// # Errors
    /// Interrupted by the observer.
    pub fn warm_up(
        &mut self,
        share: Ratio,
        instruction_counts: &[u64],
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<u64, SimError> {
        let mut done = vec![0; instruction_counts.len()];
        let targets = instruction_counts.iter().map(|count| share.of(*count));
        self.warm_to(&targets.collect::<Vec<_>>(), &mut done, observe)?;
        self.end_warm_up();
        Ok(done.iter().sum())
    }

    /// Executes functionally until each thread has done as many instructions as its target says,
    /// or is at its end. `done` is what they have done before, and after.
    ///
    /// # Errors
    /// Interrupted by the observer.
    pub(crate) fn warm_to(
        &mut self,
        targets: &[u64],
        done: &mut [u64],
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        let left = targets.iter().zip(&*done);
        let mut left: Vec<u64> = left.map(|(to, from)| to.saturating_sub(*from)).collect();
        let mut platform = InstantPlatform::default();
        while left.iter().any(|left| *left > 0) {
            for (thread, left) in left.iter_mut().enumerate() {
                let turn = TURN.min(*left);
                if turn == 0 || !self.actors[thread].is_present {
                    *left = 0;
                    continue;
                }
                let reads = platform.reads;
                let executed = self.warm_turn(thread, turn, &mut platform);
                self.warm_scans(executed, platform.reads - reads);
                done[thread] += executed;
                *left = if executed < turn { 0 } else { *left - turn };
            }
            let goes_on = observe(Progress {
                is_measured: false,
                instructions: done.iter().sum(),
                at: Time::ZERO,
            });
            if !goes_on {
                return Err(SimError::Interrupted);
            }
        }
        Ok(())
    }

    /// Up to `turn` instructions of a thread; says how many there were.
    fn warm_turn(&mut self, thread: usize, turn: u64, platform: &mut InstantPlatform) -> u64 {
        let seat_index = thread % self.seats.len();
        let mut executed = 0;
        while executed < turn {
            let actor = &mut self.actors[thread];
            let Some(step) = actor.source.peek() else {
                break;
            };
            if step.has_sync {
                self.warm_sync(thread);
            }
            let mut uncore = WarmFabric {
                fabric: &mut self.fabric,
                platform,
                migration: self.costs.kind,
            };
            let source = &mut self.actors[thread].source;
            self.seats[seat_index].core.warm(source, &mut uncore);
            source.advance();
            executed += u64::from(step.counts);
        }
        executed
    }

    /// Replays what other threads may wait for; nobody waits during warm-up.
    fn warm_sync(&mut self, thread: usize) {
        let event = self.actors[thread]
            .source
            .sync()
            .expect("the step has a sync event");
        if matches!(
            event,
            SyncEvent::ThreadCreate { .. } | SyncEvent::FutexWake { .. }
        ) {
            self.replay_sync(units::ThreadId::from_index(thread), event);
        }
    }

    /// Measurement starts: everything counted is forgotten.
    pub(crate) fn end_warm_up(&mut self) {
        if let Some(config) = &self.cold_cores {
            for seat in &mut self.seats {
                seat.core = Core::new(seat.core.id(), config);
            }
            self.fabric.llc = SharedCache::new(config);
            if let Some(numbers) = &self.numbers {
                for seat in &mut self.seats {
                    seat.core.number_pages(numbers);
                }
                self.fabric.llc.number_pages(numbers);
            }
        }
        for seat in &mut self.seats {
            seat.core.reset_stats();
        }
        for actor in &mut self.actors {
            actor.retired = actor.source.position();
        }
        self.lanes.reset_stats();
        self.fabric.reset_stats();
        self.fabric.drain_log();
    }
}
