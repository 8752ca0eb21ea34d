//! What becomes of an access that was answered by SkyByte-Delay, and of the thread that made it.
//!
//! The paper's way and the artifact's differ in four places, each a parameter of `os`: whether the
//! line comes with the answer, when the exception is taken, what the squashed work does, and what a
//! thread does that is picked before its data are there. Every combination can be run.

use super::{CoreState, Simulation};
use crate::config::{Config, Migration};
use crate::event::Event;
use crate::recorder::Leave;
use crate::request::MissRef;
use host::config::StorePolicy;
use host::os::{DelayedLine, OsConfig, SquashPolicy, SwitchAt, WakePolicy};
use host::{CoreModel, HostLine, MissKind, MissSlot, Region, SimulatedThread, Squash, Uncore};
use units::{CoreId, Lpa, Picos, ThreadId, Time};

/// How SkyByte-Delay is dealt with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelayPolicy {
    line: DelayedLine,
    at: SwitchAt,
    squash: SquashPolicy,
    wake: WakePolicy,
    /// Whether store misses may be delayed too.
    pub stores_switch: bool,
    /// What a switch costs.
    switch_cost: Picos,
    /// From the host to where the device looks for a page: a thread that waits for one on its core
    /// is told the time that flash takes, and counts it from its request on. Of the way between
    /// core and memory, which is charged before the request, one half is the way back.
    request_path: Picos,
}

impl DelayPolicy {
    /// Loads that miss a page cache in host DRAM: the hardware squashes, the thread waits.
    const AT_THE_PAGE_CACHE: Self = Self {
        line: DelayedLine::Dropped,
        at: SwitchAt::Retire,
        squash: SquashPolicy::AtOnce,
        wake: WakePolicy::OnData,
        stores_switch: false,
        switch_cost: Picos::ZERO,
        request_path: Picos::ZERO,
    };

    pub(crate) fn new(config: &Config) -> Self {
        if config.mechanisms().migration == Migration::HostCache {
            return Self::AT_THE_PAGE_CACHE;
        }
        let OsConfig {
            delayed_line,
            switch_at,
            squash,
            wake,
            ..
        } = config.os;
        Self {
            line: delayed_line,
            at: switch_at,
            squash,
            wake,
            stores_switch: stores_switch(config),
            switch_cost: config.os.switch_cost,
            request_path: config.link.protocol_latency / 2
                + config.ssd.cache.lookup
                + way_back(config, wake),
        }
    }

    /// What the core does with the squashed instructions.
    fn squash(self) -> Squash {
        match (self.squash, self.line) {
            (SquashPolicy::AtOnce, _) => Squash::AtOnce,
            (SquashPolicy::RunsOn, DelayedLine::Dropped) => Squash::MissesRunOn,
            (SquashPolicy::RunsOn, DelayedLine::Delivered) => Squash::RunsOn,
        }
    }

    /// Whether a thread whose turn was in vain does the same again until its page comes.
    pub(crate) fn retries(self) -> bool {
        self.wake == WakePolicy::Requeue && self.line == DelayedLine::Dropped
    }

    fn may_delay(self, kind: MissKind) -> bool {
        match kind {
            MissKind::Load => true,
            MissKind::Ownership => self.stores_switch,
            MissKind::Fetch | MissKind::Walk => false,
        }
    }
}

/// The share of the way between core and memory that an answer still has before it.
fn way_back(config: &Config, wake: WakePolicy) -> Picos {
    let cpu = &config.cpu;
    match wake {
        WakePolicy::HoldCore => {
            cpu.period() * (cpu.l3_latency.get() + cpu.memory_latency.get()) / 2
        }
        _ => Picos::ZERO,
    }
}

/// Whether store misses may be answered by SkyByte-Delay: a store that has retired has nothing to
/// squash, and a device with a log takes the write.
pub(crate) fn stores_switch(config: &Config) -> bool {
    config.os.stores_switch && config.cpu.stores == StorePolicy::Waited && !config.design.write_log
}

impl<S: SimulatedThread> Simulation<S> {
    /// Tells the cores whose accesses were answered by SkyByte-Delay (§III-A C3).
    pub(super) fn deliver_delay(&mut self, now: Time, miss: MissRef) {
        match self.delay.line {
            DelayedLine::Dropped => self.drop_delayed(now, miss),
            DelayedLine::Delivered => self.fill_delayed(now, miss),
        }
    }

    /// The line is not coming; the access is re-issued for everybody who cannot switch (D13).
    fn drop_delayed(&mut self, now: Time, miss: MissRef) {
        let mut delays = std::mem::take(&mut self.fabric.delays);
        delays.retain(|waiter| {
            let host_core = &mut self.host_cores[waiter.core.index()];
            // The exception was taken at another answer: what is left in the window has no thread.
            let is_left =
                self.delay.at == SwitchAt::Response && host_core.state != CoreState::Running;
            if !self.delay.may_delay(waiter.kind) || is_left {
                return false;
            }
            let delayed = host_core.core.on_delay(now, waiter.slot, &mut self.fabric);
            if !delayed.other_waits {
                // Nobody waits for the line on this core any more; its MSHR is free.
                self.fabric.cancel(waiter.core, waiter.slot);
            }
            true
        });
        self.fabric.settle_delay(now, miss);
        for waiter in delays.drain(..) {
            self.after_answer(now, waiter.core);
        }
        self.fabric.delays = delays;
    }

    /// The line comes with the answer: for all but the access that asked, if that can switch.
    fn fill_delayed(&mut self, now: Time, miss: MissRef) {
        self.fabric.delays.clear();
        let line = self.fabric.missed_line(miss);
        self.fabric.fill(now, miss);
        let mut fills = std::mem::take(&mut self.fabric.fills);
        for (order, waiter) in fills.drain(..).enumerate() {
            let host_core = &mut self.host_cores[waiter.core.index()];
            let has_thread = matches!(host_core.state, CoreState::Running | CoreState::Stopping);
            let asked = order == 0 && self.delay.may_delay(waiter.kind);
            if asked {
                host_core.raised = line;
                self.put_off(now, waiter.core, waiter.slot);
            }
            let host_core = &mut self.host_cores[waiter.core.index()];
            host_core
                .core
                .on_delivery(now, waiter.slot, asked && has_thread, &mut self.fabric);
            self.after_answer(now, waiter.core);
        }
        self.fabric.fills = fills;
    }

    /// An access of instructions that run on was delayed, and their thread stands on the core and
    /// waits for its data: it takes the exception once more, and now waits for this page.
    fn put_off(&mut self, now: Time, core: CoreId, slot: MissSlot) {
        let host_core = &mut self.host_cores[core.index()];
        let is_waiting = matches!(host_core.state, CoreState::Switching | CoreState::Draining);
        let holds =
            self.delay.wake == WakePolicy::HoldCore && host_core.remnant == host_core.thread;
        if !(is_waiting && holds && self.delay.at == SwitchAt::Response) {
            return;
        }
        let squashed = host_core.core.count_from_first_waiter(slot);
        let (thread, line) = (host_core.thread, host_core.raised);
        self.host_threads[thread.index()].note_replay(squashed);
        let expected = self.line_expected(line);
        let host_core = &mut self.host_cores[core.index()];
        host_core.switched = host_core.switched.max(now + self.delay.switch_cost);
        let starts = expected.max(host_core.switched);
        host_core.starts = starts;
        self.fabric.queue.push(starts, Event::CoreStart(core));
    }

    /// A core has heard of an answer: its thread switches, goes on, or begins.
    fn after_answer(&mut self, now: Time, core: CoreId) {
        let host_core = &self.host_cores[core.index()];
        let is_raised = self.delay.at == SwitchAt::Response
            && host_core.state == CoreState::Running
            && host_core.core.is_delayed();
        if is_raised {
            self.take_exception(now, core);
        } else {
            self.start_if_drained(now, core);
            self.run_core(now, core);
        }
        self.start_moved(now);
    }

    /// A thread that waits for the core to be empty starts if it is.
    pub(super) fn start_if_drained(&mut self, now: Time, core: CoreId) {
        let host_core = &self.host_cores[core.index()];
        if host_core.state == CoreState::Draining && host_core.core.is_empty() {
            self.core_start(now, core);
        }
    }

    /// The Long Delay Exception: squash, yield, pick the next thread (§III-A C3).
    pub(super) fn long_delay(&mut self, now: Time, core: CoreId) {
        if self.delay.squash() != Squash::AtOnce {
            return self.take_exception(now, core);
        }
        self.record_turn(now, core, Leave::LongDelay);
        let left = self.leave_core(now, core);
        self.yield_core(now, core, left.thread, left.has_progressed);
    }

    /// The exception of a delayed access that need not be the oldest.
    fn take_exception(&mut self, now: Time, core: CoreId) {
        let squash = self.delay.squash();
        let host_core = &mut self.host_cores[core.index()];
        let thread = host_core.thread;
        host_core.remnant = thread;
        let source = &mut self.host_threads[thread.index()].source;
        let squashed = host_core.core.except(now, squash, source, &mut self.fabric);
        if squash == Squash::RunsOn {
            self.host_threads[thread.index()].note_replay(squashed.instructions);
        }
        self.record_turn(now, core, Leave::LongDelay);
        let has_progressed = self.note_leaving(core);
        self.yield_core(now, core, thread, has_progressed);
    }

    fn yield_core(&mut self, now: Time, core: CoreId, thread: ThreadId, has_progressed: bool) {
        self.switches.long_delay += 1;
        self.switches.retries += u64::from(!has_progressed);
        let retries = !has_progressed && self.delay.retries() && self.is_patient(thread);
        self.host_threads[thread.index()].has_retried = retries;
        if self.delay.wake == WakePolicy::HoldCore {
            let raised = self.host_cores[core.index()].raised;
            self.host_threads[thread.index()].data_at = match self.delay.squash() {
                Squash::RunsOn => self.line_expected(raised),
                Squash::AtOnce | Squash::MissesRunOn => self.data_expected(thread),
            };
        }
        match self.scheduler.yield_for_data(thread, now) {
            WakePolicy::OnData => self.sleep_for_page(now, thread),
            WakePolicy::OnArrival => {
                let due = self.data_expected(thread).as_picos();
                let due = Time::from_picos(due.saturating_sub(self.delay.switch_cost.get()));
                self.fabric.queue.push(due.max(now), Event::DataDue(thread));
            }
            WakePolicy::Requeue | WakePolicy::HoldCore => {}
        }
        self.dispatch(now, self.scheduler.core_after(core));
    }

    /// The device's notice that a page has come wakes the threads that sleep until then.
    pub(super) fn page_arrived(&mut self, now: Time, lpa: Lpa) {
        self.fabric.take_notice(lpa);
        let asleep = self.sleepers.len();
        self.wake_for_page(now, lpa);
        self.switches.data_wakes += (asleep - self.sleepers.len()) as u64;
    }

    /// When a thread that waits for a line's page on its core goes on.
    fn line_expected(&self, line: HostLine) -> Time {
        match line.region() {
            Region::Data(lpa, _) => self.expected(lpa),
            Region::PageTable(_) | Region::Code(_) => Time::ZERO,
        }
    }

    fn expected(&self, lpa: Lpa) -> Time {
        let at = self.fabric.page_expected(lpa).unwrap_or(Time::ZERO);
        let before = at.as_picos().saturating_sub(self.delay.request_path.get());
        Time::from_picos(before)
    }

    /// The same, for the page of the access at which a thread goes on.
    fn data_expected(&mut self, thread: ThreadId) -> Time {
        let step = self.host_threads[thread.index()].source.peek();
        let accesses = step.map_or([None, None], |step| [step.load, step.store]);
        let expected = accesses.into_iter().flatten().map(|access| {
            let last = access.last();
            let expect = |byte: u64| self.expected(Lpa::new(byte >> 12));
            expect(access.byte).max(expect(last))
        });
        expected.max().unwrap_or(Time::ZERO)
    }
}
