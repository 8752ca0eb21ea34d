//! Retries in closed form (D11).
//!
//! A thread that yielded at a Long Delay Exception is runnable at once, so the scheduler may pick
//! it before its page has come: the load is issued again, answered by SkyByte-Delay again, and the
//! thread yields again without having retired an instruction. While a page is on its way for tens
//! of microseconds this happens every couple of microseconds on every core. Nothing is learnt from
//! it, so it must not cost host time.
//!
//! The first retry is simulated in full: its younger loads start whatever fetches they can. If it
//! retired nothing, the next retries follow in closed form for as long as the firmware says that
//! it would answer so ([`Controller::delays_reads_until`]): the exception comes when the unloaded
//! path to the device and back has been gone; the core executes nothing meanwhile; the scheduler
//! is asked and charged as ever. What is left out: the younger loads of such a retry are not issued
//! again, and its two messages take no bandwidth of the link. Each core's next step is kept in a
//! lane beside the event queue, so a retry costs two scheduler calls and no event.
//!
//! [`Controller::delays_reads_until`]: firmware::Controller::delays_reads_until

use crate::config::Config;
use crate::fabric::device_line;
use crate::simulation::{CoreState, Simulation};
use cxl::MessageClass;
use host::placement::Location;
use host::{CoreModel, HostLine, SimulatedThread};
use units::{CoreId, LineInPage, Lpa, Picos, Time};

/// What a core does next, outside the event queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Its thread, which has retried in vain before, starts.
    Start,
    /// Its thread's retry ends with the exception.
    Exception,
}

/// The next step of each core that retries, and the path of a retry.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    steps: Vec<Option<(Time, Step)>>,
    /// The earliest of them, found anew whenever one changes: the event loop asks at every event.
    earliest: Option<(Time, CoreId, Step)>,
    /// From the start of the thread to the device's decision, from the last core.
    there: Picos,
    /// What each core adds to it.
    ring: Vec<Picos>,
    /// From the device's decision to the exception.
    back: Picos,
    /// What the first line of a split load takes in L1.
    first_line: Picos,
    /// Retries done in closed form, and the time that cores spent in them.
    pub(crate) count: u64,
    pub(crate) time: Picos,
}

impl Lanes {
    pub(crate) fn new(config: &Config, link: &cxl::Link) -> Self {
        let cpu = &config.cpu;
        let period = cpu.clock.period().expect("a validated clock has a period");
        // Dispatch and issue take a cycle each.
        let beyond_l2 = cpu.l3_latency.get() + cpu.memory_latency.get();
        let cycles = 2 + cpu.l1d_latency.get() + cpu.l2_latency.get() + beyond_l2;
        let lookup = match config.design.write_log {
            true => config.ssd.log.lookup.max(config.ssd.cache.lookup),
            false => config.ssd.cache.lookup,
        };
        Self {
            steps: vec![None; cpu.cores as usize],
            earliest: None,
            there: period * cycles
                + link.unloaded(MessageClass::MemRd)
                + lookup
                + config.ssd.delay_answer_cost,
            ring: cpu.ring(),
            back: link.unloaded(MessageClass::Ndr),
            first_line: period * cpu.l1d_latency.get(),
            count: 0,
            time: Picos::ZERO,
        }
    }

    /// The earliest step; of several at one time, that of the lowest core.
    #[inline]
    pub(crate) fn earliest(&self) -> Option<(Time, CoreId, Step)> {
        self.earliest
    }

    fn find_earliest(&mut self) {
        let steps = self.steps.iter().enumerate();
        self.earliest = steps
            .filter_map(|(core, step)| step.map(|(time, step)| (time, core, step)))
            .min_by_key(|(time, core, _)| (*time, *core))
            .map(|(time, core, step)| (time, CoreId::from_index(core), step));
    }

    /// A core's step is taken out to be done.
    fn take(&mut self, core: CoreId) {
        self.steps[core.index()] = None;
        self.find_earliest();
    }

    pub(crate) fn set(&mut self, core: CoreId, time: Time, step: Step) {
        let old = self.steps[core.index()].replace((time, step));
        assert!(old.is_none(), "a core does one thing next");
        self.find_earliest();
    }

    /// Whether the core's thread is on its way to an exception.
    pub(crate) fn is_retrying(&self, core: CoreId) -> bool {
        matches!(self.steps[core.index()], Some((_, Step::Exception)))
    }

    /// A thread starts later; false if no step of the core is its start.
    pub(crate) fn put_off(&mut self, core: CoreId, to: Time) -> bool {
        let Some((at, Step::Start)) = &mut self.steps[core.index()] else {
            return false;
        };
        *at = to;
        self.find_earliest();
        true
    }

    pub(crate) fn reset_stats(&mut self) {
        self.count = 0;
        self.time = Picos::ZERO;
    }
}

impl<S: SimulatedThread> Simulation<S> {
    /// Does the earliest step of the lanes.
    pub(crate) fn lane_step(&mut self, now: Time, core: CoreId, step: Step) {
        self.lanes.take(core);
        self.fabric.queue.advance_to(now);
        match step {
            Step::Start => match self.retry_in_vain(now, core) {
                Some(end) => {
                    let comes = self.fabric.queue.next_time().is_some();
                    // A device of its own has said when.
                    let is_told = self.fabric.in_loop.believed().is_some();
                    assert!(comes || is_told, "a page in flight ends by an event");
                    self.lanes.count += 1;
                    self.lanes.time += end - now;
                    self.lanes.set(core, end, Step::Exception);
                }
                None => self.core_start(now, core),
            },
            Step::Exception => {
                self.fabric.stats.delayed += 1;
                self.switches.long_delay += 1;
                self.switches.retries += 1;
                let host_core = &mut self.host_cores[core.index()];
                host_core.state = CoreState::Idle;
                let thread = host_core.thread;
                self.scheduler.yield_for_data(thread, now);
                self.dispatch(now, self.scheduler.core_after(core));
            }
        }
    }

    /// When the exception of a retry that starts now comes, if the retry is in vain.
    fn retry_in_vain(&mut self, now: Time, core: CoreId) -> Option<Time> {
        let host_core = &self.host_cores[core.index()];
        let thread = host_core.thread;
        if !host_core.core.is_empty() {
            return None;
        }
        let load = self.host_threads[thread.index()].source.peek()?.load?;
        let (first, last) = (load.byte / 64, load.last() / 64);
        let hop = self.fabric.hop_home(Some(core));
        let ring = self.lanes.ring[core.index()];
        let decided = now + self.lanes.there + ring + hop.there;
        let back = self.lanes.back + hop.back;
        if let Some(until) = self.delayed_until(first) {
            return (decided < until).then(|| decided + back);
        }
        if first == last {
            return None;
        }
        // A split load asks for its second line once it has the first, which the full retry has
        // brought into L1.
        let decided = decided + self.lanes.first_line;
        let until = self.delayed_until(last)?;
        (decided < until).then(|| decided + back)
    }

    /// Until when a read of this line of the canonical space would be answered by SkyByte-Delay; a
    /// line that is in L3 or in host DRAM would not, and one whose page is armed takes a hint fault
    /// first.
    fn delayed_until(&self, line: u64) -> Option<Time> {
        let (lpa, in_page) = (Lpa::new(line / 64), LineInPage::new((line % 64) as u16));
        let is_on_device = self.fabric.placement.locate(lpa) == Location::Device;
        if !is_on_device
            || self.fabric.is_armed(lpa)
            || self.fabric.llc.holds(HostLine::data(lpa, in_page))
        {
            return None;
        }
        let line = device_line(lpa, in_page);
        if let Some(device) = self.fabric.in_loop.believed() {
            return device.delays_until(line);
        }
        let device = self.fabric.device.as_ref()?;
        device.controller.delays_reads_until(line)
    }
}
