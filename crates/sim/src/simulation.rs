//! The event loop: cores, threads and OS above the [`Fabric`].

pub(crate) mod delay;
mod interrupts;
mod pace;
mod persist;
#[cfg(test)]
mod persist_tests;
mod switching;

pub use pace::Pace;

use crate::config::{Config, Migration, WarmAccesses, WarmCounts};
use crate::error::SimError;
use crate::event::Event;
use crate::fabric::{Arrived, Fabric};
use crate::migration::{Batches, Scans};
use crate::retry::Lanes;
use crate::warm::{self, WarmFlash};
use delay::DelayPolicy;
use host::core::CoreStats;
use host::os::{Scheduler, SyncEngine, ThreadOrigin};
use host::placement::MigrationKind;
use host::{CoreModel, HostLine, MissSlot, PageNumbers, Pause, SimulatedThread};
use persist::LeftBehind;
use trace::SyncEvent;
use units::{CoreId, Lpa, Picos, ThreadId, Time};

/// How far a core may run ahead of the event loop. Cores meet only in L3 and beyond, where they
/// arrive by event at the exact time; the bound keeps preemption and TLB shootdowns prompt.
const HORIZON: Picos = Picos::from_nanos(1_000);

/// Events between two calls of the observer.
const OBSERVED_EVENTS: u64 = 4096;

/// What the observer is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Whether measurement has begun.
    pub is_measured: bool,
    /// Instructions executed since the start of the phase, squashed ones included.
    pub instructions: u64,
    /// Simulated time of the measured phase.
    pub at: Time,
}

/// What a core is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CoreState {
    /// No thread.
    Idle,
    /// A thread has been picked and starts later.
    Switching,
    /// A thread has been picked and starts when instructions of the one before have retired.
    Draining,
    /// A thread runs or waits for memory.
    Running,
    /// The thread runs no further: an exception, a system call or its end is scheduled.
    Stopping,
}

/// A core and what the simulation knows of it.
#[derive(Clone)]
pub(crate) struct HostCore<C> {
    pub core: C,
    pub state: CoreState,
    /// The thread on the core, or the last one.
    pub thread: ThreadId,
    /// The thread whose instructions are left in the core when it has taken an exception.
    pub remnant: ThreadId,
    /// The line of the latest access that was answered by SkyByte-Delay and delivered all the same.
    pub raised: HostLine,
    /// When the core is through with switching to its thread.
    pub switched: Time,
    /// When the thread that is switched in can start: then, or when its data are there.
    pub starts: Time,
    /// Interrupts that have come to its thread, or to none.
    pub interrupted: interrupts::Unserved,
    /// When it started there.
    pub since: Time,
    epoch: u32,
    pending_sync: Option<SyncEvent>,
}

/// A thread of the capture in this run.
#[derive(Clone)]
pub(crate) struct HostThread<S> {
    pub source: S,
    pub is_present: bool,
    pub finished: Option<Time>,
    pub retired: u64,
    /// Whether the thread's last turn on a core was a retry in vain: it ended by a Long Delay
    /// Exception and had retired nothing.
    pub has_retried: bool,
    /// Turns on a core since it last retired anything; those in closed form are not counted.
    pub vain_turns: u32,
    /// What it has left on its last core and must not overtake.
    pub left_behind: Option<LeftBehind>,
    /// When the data are expected at which the thread goes on, if it then keeps a core waiting.
    pub data_at: Time,
    /// Pieces that it executes again when it goes on, after its squashed work has run on.
    pub replay: u64,
}

impl<S> HostThread<S> {
    /// The exception was taken with so many pieces behind it in the window. The artifact's queue of
    /// what is to be executed again forgets half of what it held, and takes these.
    fn note_replay(&mut self, squashed: u64) {
        self.replay = self.replay / 2 + squashed;
    }
}

/// Threads switched out, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchCounts {
    /// Long Delay Exceptions.
    pub long_delay: u64,
    /// Time slices that ended.
    pub slice: u64,
    /// Threads that blocked in a futex or join.
    pub blocked: u64,
    /// Exceptions of a thread that had run no instruction since it was switched in (D11).
    pub retries: u64,
    /// System calls that did not block.
    pub syscalls: u64,
    /// Threads woken by the device's notice that their page has come.
    pub data_wakes: u64,
}

/// A run in progress; a clone goes on by itself from there. `S` is the threads' instruction source.
#[derive(Clone)]
pub struct Simulation<S: SimulatedThread> {
    /// Everything beyond the cores.
    pub fabric: Fabric,
    pub(crate) host_cores: Vec<HostCore<S::Core>>,
    pub(crate) host_threads: Vec<HostThread<S>>,
    pub(crate) scheduler: Scheduler,
    sync: SyncEngine,
    resumed: Vec<ThreadId>,
    pub(crate) costs: MigrationCosts,
    /// Pages that migrate together.
    pub(crate) batches: Batches,
    /// What migration has taken from the cores.
    pub(crate) charged: Charged,
    /// Scans of the operating system, if it samples pages.
    pub(crate) scans: Option<Box<Scans>>,
    pub(crate) switches: SwitchCounts,
    pub(crate) lanes: Lanes,
    delay: DelayPolicy,
    /// The cores, if they are to be cold when measurement starts.
    pub(crate) cold_cores: Option<host::CpuConfig>,
    /// Threads that wait for a page on its way to the page cache in host DRAM.
    pub(crate) sleepers: Vec<(Lpa, ThreadId)>,
    /// A thread waits on a core for what it has left on another one.
    moves_wait: bool,
    is_audited: bool,
    /// What chooses the sets of pages and lines, if not their own numbers.
    pub(crate) numbers: Option<PageNumbers>,
    /// Whether warm-up goes past the CPU's caches.
    pub(crate) warms_memory_only: bool,
    /// Whether how often pages were used in warm-up is forgotten after it.
    pub(crate) forgets_warm_counts: bool,
    /// The flash of warm-up, if it takes its time.
    pub(crate) warm_flash: Option<WarmFlash>,
    /// Events handled so far: what a run costs beside its instructions.
    pub events: u64,
}

/// What migration has taken from the cores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charged {
    /// From one core each: handler and page table.
    pub work: Picos,
    /// From all cores.
    pub shootdowns: Picos,
    /// Of both, what has made switches longer.
    pub switching: Picos,
}

/// What migration costs the host, and how it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MigrationCosts {
    pub handler: Picos,
    pub page_table: Picos,
    pub shootdown: Picos,
    /// What isolating and remapping a page takes that the operating system moves by itself.
    pub isolation: Picos,
    pub kind: MigrationKind,
}

impl<S: SimulatedThread> Simulation<S> {
    /// A run of `threads`, each with its origin; absent threads have no instructions to give.
    pub fn new(
        config: &Config,
        page_count: u64,
        threads: Vec<(S, ThreadOrigin)>,
        is_audited: bool,
    ) -> Self {
        let origins: Vec<ThreadOrigin> = threads.iter().map(|(_, origin)| *origin).collect();
        let thread_count = u32::try_from(threads.len()).expect("thread numbers fit in 32 bits");
        let host_cores = (0..config.cpu.cores)
            .map(|index| HostCore {
                core: S::Core::new(CoreId::new(index), &config.cpu),
                state: CoreState::Idle,
                thread: ThreadId::new(0),
                remnant: ThreadId::new(0),
                raised: HostLine::code(0),
                switched: Time::ZERO,
                starts: Time::ZERO,
                interrupted: interrupts::Unserved::default(),
                since: Time::ZERO,
                epoch: 0,
                pending_sync: None,
            })
            .collect();
        let host_threads = threads
            .into_iter()
            .map(|(source, origin)| HostThread {
                source,
                is_present: origin != ThreadOrigin::Absent,
                finished: None,
                retired: 0,
                has_retried: false,
                vain_turns: 0,
                left_behind: None,
                data_at: Time::ZERO,
                replay: 0,
            })
            .collect();
        let mut sync = SyncEngine::new(&origins, config.os.syscall_cost);
        let mut resumed = Vec::new();
        sync.start(&mut resumed);
        let cores = config.cpu.cores;
        let mut scheduler = Scheduler::new(&config.os, cores, thread_count, config.run.seed);
        if config.mechanisms().migration == Migration::HostCache {
            scheduler.yield_in_user_space(config.astriflash.switch_cost);
        }
        let fabric = Fabric::new(config, page_count);
        Self {
            lanes: Lanes::new(config, &fabric.link),
            fabric,
            host_cores,
            host_threads,
            scheduler,
            sync,
            resumed,
            costs: MigrationCosts {
                handler: config.host.handler_cost,
                page_table: config.host.page_table_cost,
                shootdown: config.host.shootdown_cost,
                isolation: config.tpp.migration_cost,
                kind: config.host.migration,
            },
            batches: Batches::new(config),
            scans: Scans::of(config),
            sleepers: Vec::new(),
            switches: SwitchCounts::default(),
            delay: DelayPolicy::new(config),
            cold_cores: (!config.run.warm_caches).then(|| config.cpu.clone()),
            moves_wait: false,
            is_audited,
            numbers: None,
            charged: Charged::default(),
            warms_memory_only: config.run.warm_accesses == WarmAccesses::All,
            forgets_warm_counts: config.run.warm_counts == WarmCounts::Forgotten,
            warm_flash: warm::flash_of(config, thread_count as usize, page_count),
            events: 0,
        }
    }

    /// From now on these numbers of pages choose the sets that they and their lines go to. Nothing
    /// is cached.
    pub fn number_pages(&mut self, numbers: PageNumbers) {
        for host_core in &mut self.host_cores {
            host_core.core.number_pages(&numbers);
        }
        self.fabric.number_pages(&numbers);
        self.numbers = Some(numbers);
    }

    /// Runs every thread to its end; `observe` returns whether to go on.
    ///
    /// # Errors
    /// Interrupted by the observer, or nothing can happen although threads have not ended.
    pub fn run(&mut self, observe: &mut dyn FnMut(Progress) -> bool) -> Result<Time, SimError> {
        self.wake_resumed(Time::ZERO);
        self.start_scans();
        while !self.sync.is_done() {
            self.step(observe)?;
        }
        // What a thread has left on a core that it moved away from can outlast it.
        while self
            .host_cores
            .iter()
            .any(|host_core| !host_core.core.is_empty())
        {
            self.step(observe)?;
        }
        let end = self
            .host_threads
            .iter()
            .filter_map(|host_thread| host_thread.finished)
            .max();
        Ok(end.unwrap_or(Time::ZERO))
    }

    /// What comes next happens: an event, or a retry in closed form.
    #[inline]
    fn step(&mut self, observe: &mut dyn FnMut(Progress) -> bool) -> Result<(), SimError> {
        if let Some((now, core, step)) = self.lanes.earliest()
            && self.fabric.queue.next_time().is_none_or(|next| now < next)
        {
            self.lane_step(now, core, step);
            return Ok(());
        }
        let Some((now, event)) = self.fabric.queue.pop() else {
            return Err(SimError::Deadlock {
                at: self.fabric.queue.now(),
                explanation: self.sync.explain_deadlock(),
            });
        };
        self.events += 1;
        self.handle(now, event);
        if self.events.is_multiple_of(OBSERVED_EVENTS) {
            self.observe(now, observe)?;
        }
        Ok(())
    }

    /// Instructions that all cores have retired since measurement began.
    fn retired(&self) -> u64 {
        let mut cores = CoreStats::default();
        (self.host_cores.iter()).for_each(|host_core| cores.add(&host_core.core.stats()));
        cores.executed()
    }

    /// Lets everything end that is under way when the last thread has ended: posted writes,
    /// compaction, GC, copies of pages. No result counts it; audits want to see it.
    pub fn drain(&mut self) -> Time {
        while let Some((now, event)) = self.fabric.queue.pop() {
            self.handle(now, event);
        }
        self.fabric.queue.now()
    }

    /// Retries of delayed loads in closed form (D11) so far, which are no events.
    pub fn closed_form_retries(&self) -> u64 {
        self.lanes.count
    }

    /// Whether every thread has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.sync.is_done()
    }

    /// Whether nothing is to happen any more.
    pub(crate) fn is_idle(&self) -> bool {
        self.fabric.queue.is_empty() && self.lanes.earliest().is_none()
    }

    fn observe(
        &mut self,
        now: Time,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        if self.is_audited && self.events.is_multiple_of(OBSERVED_EVENTS * 64) {
            self.audit(now);
        }
        let goes_on = observe(Progress {
            is_measured: true,
            instructions: self.retired(),
            at: now,
        });
        match self.fabric.device_failure() {
            Some(failure) => Err(failure),
            None if goes_on => Ok(()),
            None => Err(SimError::Interrupted),
        }
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::CoreRun { core, epoch } => {
                if self.host_cores[core.index()].epoch == epoch {
                    self.run_core(now, core);
                }
            }
            Event::CoreStart(core) => self.core_start(now, core),
            Event::LongDelay(core) => self.long_delay(now, core),
            Event::Sync(core) => self.sync_event(now, core),
            Event::ThreadEnd(core) => self.thread_end(now, core),
            Event::SliceEnd(core) => self.slice_end(now, core),
            Event::L3Access {
                core,
                slot,
                line,
                kind,
            } => {
                // A squash may have freed the MSHR while the request was on its way to L3.
                if self.host_cores[core.index()].core.awaits(slot) {
                    let kind = self.kind_at_l3(core, kind);
                    self.fabric.l3_access(now, core, slot, line, kind);
                }
            }
            Event::L3Persist {
                core,
                line,
                is_dirty,
            } => self.write_line_back(now, core, line, is_dirty),
            Event::Persisted(core) => self.persisted(now, core),
            Event::L3WriteBack(line) => self.fabric.l3_write_back(now, line),
            Event::Grant { core, slot } => self.grant(now, core, slot),
            Event::Fill { core, slot } => self.fill_core(now, core, slot),
            Event::HostDramDone(mshr) => {
                self.fabric.host_dram_done(now, mshr);
                self.deliver_fills(now);
            }
            Event::DeviceArrive(id) => self.fabric.device_arrive(now, id),
            Event::DeviceSend(id) => self.fabric.device_send(now, id),
            Event::HostArrive(id) => self.host_arrive(now, id),
            Event::Device(event) => self.fabric.device_event(now, event),
            Event::DataDue(thread) => self.wake(now, thread),
            Event::PageArrived(lpa) => self.page_arrived(now, lpa),
            Event::Msix(lpa) => self.promotion_offered(now, lpa),
            Event::MigrationStart(lpa) => self.migration_start(now, lpa),
            Event::MigrationCommit(lpa) => self.migration_commit(now, lpa),
            Event::PromotionDone(lpa) => self.promotion_done(now, lpa),
            Event::PageMiss(miss) => {
                if self.fabric.page_missed(miss) {
                    self.deliver_delay(now, miss);
                }
            }
            Event::HintScan => self.hint_scan(now),
            Event::HintFault { core, lpa } => self.hint_fault(now, core, lpa),
        }
    }

    /// Lets a core's thread go on, unless its time slice is over.
    pub(crate) fn run_core(&mut self, now: Time, core: CoreId) {
        if self.host_cores[core.index()].state != CoreState::Running {
            return;
        }
        if self.scheduler.should_preempt(core, now) {
            self.preempt(now, core);
            return;
        }
        let host_core = &mut self.host_cores[core.index()];
        host_core.epoch = host_core.epoch.wrapping_add(1);
        let source = &mut self.host_threads[host_core.thread.index()].source;
        let pause = host_core
            .core
            .run(now, now + HORIZON, source, &mut self.fabric);
        let (at, event) = match pause {
            Pause::Waiting => return,
            Pause::Horizon { at } => (
                at,
                Event::CoreRun {
                    core,
                    epoch: host_core.epoch,
                },
            ),
            Pause::LongDelay { at } => (at, Event::LongDelay(core)),
            Pause::Sync { at, event } => {
                host_core.pending_sync = Some(event);
                (at, Event::Sync(core))
            }
            Pause::End { at } => (at, Event::ThreadEnd(core)),
        };
        if !matches!(pause, Pause::Horizon { .. }) {
            host_core.state = CoreState::Stopping;
        }
        self.fabric.queue.push(at.max(now), event);
    }

    fn host_arrive(&mut self, now: Time, id: units::RequestId) {
        match self.fabric.host_arrive(now, id) {
            Arrived::Line => self.deliver_fills(now),
            Arrived::Delay(mshr) => self.deliver_delay(now, mshr),
            Arrived::Promotion(line) => self.promotion_line(now, line),
            Arrived::Demotion(line) => self.demotion_line(now, line),
            Arrived::Page(lpa) => {
                self.deliver_fills(now);
                self.wake_for_page(now, lpa);
            }
            Arrived::Nothing => {}
        }
    }

    /// Tells the cores whose misses were filled.
    fn deliver_fills(&mut self, now: Time) {
        let mut fills = std::mem::take(&mut self.fabric.fills);
        for waiter in fills.drain(..) {
            self.fill_core(now, waiter.core, waiter.slot);
        }
        self.fabric.fills = fills;
    }

    /// A core owns a line before it comes: what has waited for the store goes on.
    fn grant(&mut self, now: Time, core: CoreId, slot: MissSlot) {
        let host_core = &mut self.host_cores[core.index()];
        if host_core.core.on_grant(now, slot, &mut self.fabric) {
            self.run_core(now, core);
        } else if host_core.state == CoreState::Draining {
            self.start_if_drained(now, core);
        }
        self.start_moved(now);
    }

    fn fill_core(&mut self, now: Time, core: CoreId, slot: MissSlot) {
        let host_core = &mut self.host_cores[core.index()];
        let source = &mut self.host_threads[host_core.thread.index()].source;
        if host_core.core.on_fill(now, slot, source, &mut self.fabric) {
            self.run_core(now, core);
        } else if host_core.state == CoreState::Draining {
            self.start_if_drained(now, core);
        }
        self.start_moved(now);
    }

    /// Replays an event of warm-up; the threads it resumes start with measurement.
    pub(crate) fn replay_sync(&mut self, thread: ThreadId, event: SyncEvent) {
        self.sync.on_event(thread, event, &mut self.resumed);
    }

    /// Checks everything (B6).
    ///
    /// # Panics
    /// With a sentence, if an invariant is broken.
    pub fn audit(&self, now: Time) {
        self.fabric.audit();
        self.scheduler.audit(now);
        self.sync.audit();
        self.audit_write_backs();
        for host_core in &self.host_cores {
            let problems = host_core.core.audit();
            assert!(
                problems.is_empty(),
                "{}: {}",
                host_core.core.id(),
                problems.join("; ")
            );
        }
    }
}
