//! Threads, their states, and the cores they run on. One run queue for all cores.

use super::run_queue::{AnyQueue, RunQueue};
use super::{CoreChoice, FreeStart, OsConfig, WakePolicy};
use units::{CoreId, Picos, Stream, ThreadId, Time};

/// What a thread is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadState {
    /// Not created yet.
    NotStarted,
    /// Waiting for a core.
    Runnable,
    /// On a core.
    Running {
        /// Which one.
        core: CoreId,
    },
    /// Waiting for another thread, or for its data.
    Blocked,
    /// At its end.
    Finished,
}

/// A thread put on a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dispatch {
    /// Which thread.
    pub thread: ThreadId,
    /// When its first instruction can enter the core: after the switch.
    pub starts: Time,
}

/// How a core's time was spent; the three add up to the time that has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreTimes {
    /// A thread was on it, executing or waiting for memory.
    pub busy: Picos,
    /// It was switching threads, or served an interrupt meanwhile.
    pub switching: Picos,
    /// No thread was runnable.
    pub idle: Picos,
}

/// What the scheduler did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SchedulerStats {
    /// Threads put on a core.
    pub dispatches: u64,
    /// Dispatches that cost a switch: all but the first of each core, or of each thread.
    pub switches: u64,
    /// Threads that yielded at a Long Delay Exception.
    pub delay_yields: u64,
    /// Threads whose time slice was over while another one waited.
    pub preemptions: u64,
    /// Threads that blocked.
    pub blocks: u64,
    /// Blocked threads that became runnable.
    pub wakes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    state: ThreadState,
    /// Time on cores, switches to it included.
    received: Picos,
    /// Received time as fair queueing counts it: raised to the floor at each start and wake.
    counted: Picos,
    last_core: Option<CoreId>,
}

#[derive(Clone, Copy, Debug)]
struct Core {
    running: Option<ThreadId>,
    /// Whether a thread has run here.
    is_used: bool,
    /// When the statistics began.
    epoch: Time,
    /// When the thread was put here, or when the core fell idle.
    since: Time,
    /// When the switch to the thread ends.
    starts: Time,
    /// Whether the last thread left by itself, at a miss of its data.
    is_yielded: bool,
    slice_start: Time,
    times: CoreTimes,
}

impl Core {
    const UNUSED: Self = Self {
        running: None,
        is_used: false,
        epoch: Time::ZERO,
        since: Time::ZERO,
        starts: Time::ZERO,
        is_yielded: false,
        slice_start: Time::ZERO,
        times: CoreTimes {
            busy: Picos::ZERO,
            switching: Picos::ZERO,
            idle: Picos::ZERO,
        },
    };

    /// The core's times as they are at `now`.
    fn times_at(&self, now: Time) -> CoreTimes {
        let mut times = self.times;
        if self.running.is_some() {
            times.switching += self.starts.min(now).saturating_since(self.since);
            times.busy += now.saturating_since(self.starts.max(self.since));
        } else {
            times.idle += now.saturating_since(self.since);
        }
        times
    }
}

/// Threads, run queue and cores.
///
/// The times handed in for one core do not run backwards; a core that was left at a later time
/// than `now` is taken as free from then on.
#[derive(Clone, Debug)]
pub struct Scheduler {
    wake: WakePolicy,
    free_start: FreeStart,
    core_choice: CoreChoice,
    switch_cost: Picos,
    /// As `switch_cost`, after a thread that yielded for its data.
    yield_cost: Picos,
    time_slice: Picos,
    queue: AnyQueue,
    threads: Vec<Thread>,
    cores: Vec<Core>,
    /// No runnable or running thread has been counted less than this; it never sinks.
    floor: Picos,
    stats: SchedulerStats,
}

impl Scheduler {
    /// `core_count` idle cores and `thread_count` threads that have not started. `seed` is the
    /// run's; only `random` draws from it.
    pub fn new(config: &OsConfig, core_count: u32, thread_count: u32, seed: u64) -> Self {
        let thread = Thread {
            state: ThreadState::NotStarted,
            received: Picos::ZERO,
            counted: Picos::ZERO,
            last_core: None,
        };
        let stream = Stream::new(seed, "host/os/scheduler");
        Self {
            wake: config.wake,
            free_start: config.free_start,
            core_choice: config.core_choice,
            switch_cost: config.switch_cost,
            yield_cost: config.switch_cost,
            time_slice: config.time_slice,
            queue: AnyQueue::new(config.scheduler, thread_count as usize, stream),
            threads: vec![thread; thread_count as usize],
            cores: vec![Core::UNUSED; core_count as usize],
            floor: Picos::ZERO,
            stats: SchedulerStats::default(),
        }
    }

    /// Threads yield for their data to a scheduler of their own, in user space, that knows when the
    /// data comes: each such switch costs `cost`, and a thread waits until [`Self::ready`].
    pub fn yield_in_user_space(&mut self, cost: Picos) {
        self.yield_cost = cost;
        self.wake = WakePolicy::OnData;
    }

    /// A thread that has not started or is blocked becomes runnable. Its counted time is raised to
    /// the least of all runnable and running threads, so that sleep earns no credit.
    pub fn ready(&mut self, thread: ThreadId, now: Time) {
        let state = self.threads[thread.index()].state;
        assert!(
            matches!(state, ThreadState::NotStarted | ThreadState::Blocked),
            "{thread} becomes runnable only when it waits, but it is {state:?}"
        );
        self.stats.wakes += u64::from(state == ThreadState::Blocked);
        self.raise_floor(now);
        let counted = &mut self.threads[thread.index()].counted;
        *counted = (*counted).max(self.floor);
        self.enqueue(thread);
    }

    /// Puts the next runnable thread on `core`, which is free. The switch costs
    /// `os.switch_cost`, except that the first thread of each core, or each thread when it has been
    /// on no core, starts at once (`os.free_start`).
    pub fn pick(&mut self, core: CoreId, now: Time) -> Option<Dispatch> {
        let slot = &mut self.cores[core.index()];
        assert!(
            slot.running.is_none(),
            "{core} is free when a thread is picked"
        );
        let thread = self.queue.pop()?;
        let is_switch = match self.free_start {
            FreeStart::Core => slot.is_used,
            FreeStart::Thread => self.threads[thread.index()].last_core.is_some(),
        };
        let cost = match (is_switch, slot.is_yielded) {
            (false, _) => Picos::ZERO,
            (true, true) => self.yield_cost,
            (true, false) => self.switch_cost,
        };
        let at = now.max(slot.since);
        slot.times.idle += at - slot.since;
        slot.running = Some(thread);
        slot.since = at;
        slot.starts = at + cost;
        slot.slice_start = slot.starts;
        self.stats.dispatches += 1;
        self.stats.switches += u64::from(is_switch);
        slot.is_used = true;
        let starts = slot.starts;
        let entry = &mut self.threads[thread.index()];
        entry.state = ThreadState::Running { core };
        entry.last_core = Some(core);
        Some(Dispatch { thread, starts })
    }

    /// The switch to the thread of `core` ends so much later: the core serves an interrupt, which
    /// counts as switching.
    pub fn put_off(&mut self, core: CoreId, by: Picos) {
        let slot = &mut self.cores[core.index()];
        assert!(slot.running.is_some(), "{core} has a thread to put off");
        slot.starts += by;
        slot.slice_start += by;
    }

    /// The running thread yields at a Long Delay Exception; says whether it is runnable again at
    /// once or blocked until `ready` (D11). The caller then picks for the core that is free.
    pub fn yield_for_data(&mut self, thread: ThreadId, now: Time) -> WakePolicy {
        self.stats.delay_yields += 1;
        let core = self.leave(thread, now);
        self.cores[core.index()].is_yielded = true;
        match self.wake {
            WakePolicy::Requeue | WakePolicy::HoldCore => self.enqueue(thread),
            WakePolicy::OnData | WakePolicy::OnArrival => {
                self.set_state(thread, ThreadState::Blocked);
            }
        }
        self.wake
    }

    /// The running thread gives up its core at the end of its slice and stays runnable.
    pub fn preempt(&mut self, thread: ThreadId, now: Time) {
        self.stats.preemptions += 1;
        self.leave(thread, now);
        self.enqueue(thread);
    }

    /// The running thread leaves its core and waits until `ready`.
    pub fn block(&mut self, thread: ThreadId, now: Time) {
        self.stats.blocks += 1;
        self.leave(thread, now);
        self.set_state(thread, ThreadState::Blocked);
    }

    /// The running thread has ended.
    pub fn finish(&mut self, thread: ThreadId, now: Time) {
        self.leave(thread, now);
        self.set_state(thread, ThreadState::Finished);
    }

    /// When the slice of the thread on `core` is over; nothing if the core is free.
    pub fn slice_end(&self, core: CoreId) -> Option<Time> {
        let slot = &self.cores[core.index()];
        slot.running.map(|_| slot.slice_start + self.time_slice)
    }

    /// Whether the thread on `core` must give way: its slice is over and another thread waits,
    /// under `cfs` one that has received less. If none does, a new slice begins.
    pub fn should_preempt(&mut self, core: CoreId, now: Time) -> bool {
        let slot = self.cores[core.index()];
        let Some(thread) = slot.running else {
            return false;
        };
        if now < slot.slice_start + self.time_slice {
            return false;
        }
        let counted = self.counted_at(thread, now);
        let must_yield = match self.queue.least_received() {
            Some(next) => next < (counted, thread),
            None => !self.queue.is_empty(),
        };
        if !must_yield {
            self.cores[core.index()].slice_start = now;
        }
        must_yield
    }

    /// A free core for `thread`: the one it ran on last, unless `os.core_choice` says otherwise, or
    /// else the lowest-numbered.
    pub fn free_core_for(&self, thread: ThreadId) -> Option<CoreId> {
        let last = match self.core_choice {
            CoreChoice::Last => self.threads[thread.index()].last_core,
            CoreChoice::Lowest => None,
        };
        let last = last.filter(|core| self.is_free(*core));
        last.or_else(|| self.lowest_free())
    }

    /// Which core takes the next thread after `left` has lost its own.
    pub fn core_after(&self, left: CoreId) -> CoreId {
        match self.core_choice {
            CoreChoice::Last => left,
            CoreChoice::Lowest => self.lowest_free().unwrap_or(left),
        }
    }

    fn is_free(&self, core: CoreId) -> bool {
        self.cores[core.index()].running.is_none()
    }

    fn lowest_free(&self) -> Option<CoreId> {
        self.core_ids().find(|core| self.is_free(*core))
    }
}

/// What can be asked.
impl Scheduler {
    /// What `thread` is doing.
    pub fn state(&self, thread: ThreadId) -> ThreadState {
        self.threads[thread.index()].state
    }
    /// The thread on `core`.
    pub fn running(&self, core: CoreId) -> Option<ThreadId> {
        self.cores[core.index()].running
    }
    /// Threads that wait for a core.
    pub fn runnable_count(&self) -> usize {
        self.queue.len()
    }
    /// Whether every thread that has started has ended.
    pub fn is_done(&self) -> bool {
        use ThreadState::{Finished, NotStarted};
        self.threads
            .iter()
            .all(|thread| matches!(thread.state, Finished | NotStarted))
    }
    /// Time `thread` has been on cores, switches to it included.
    pub fn received(&self, thread: ThreadId, now: Time) -> Picos {
        self.threads[thread.index()].received + self.current_turn(thread, now)
    }
    /// How `core` spent its time since the start or the last [`reset_stats`](Self::reset_stats).
    pub fn core_times(&self, core: CoreId, now: Time) -> CoreTimes {
        self.cores[core.index()].times_at(now)
    }
    /// Counters since the start or the last reset.
    pub fn stats(&self) -> SchedulerStats {
        self.stats
    }

    /// Starts the statistics afresh at `now`; scheduling does not change.
    pub fn reset_stats(&mut self, now: Time) {
        self.stats = SchedulerStats::default();
        for core in 0..self.cores.len() {
            if let Some(thread) = self.cores[core].running {
                self.charge_turn(thread, now);
            }
            let slot = &mut self.cores[core];
            slot.since = slot.since.max(now);
            slot.epoch = slot.since;
            slot.times = CoreTimes::default();
        }
        for thread in &mut self.threads {
            thread.received = Picos::ZERO;
        }
    }

    /// Checks the invariants S1 to S4 of `docs/os.md`; panics at the first that does not hold.
    pub fn audit(&self, now: Time) {
        let count = |wanted: fn(&ThreadState) -> bool| {
            let states = self.threads.iter().map(|thread| thread.state);
            states.filter(wanted).count()
        };
        let is_runnable = |state: &ThreadState| *state == ThreadState::Runnable;
        let is_running = |state: &ThreadState| matches!(state, ThreadState::Running { .. });
        assert_eq!(
            count(is_runnable),
            self.queue.len(),
            "every runnable thread is in the queue once"
        );
        let running = self.cores.iter().filter(|core| core.running.is_some());
        assert_eq!(
            count(is_running),
            running.count(),
            "every running thread has a core of its own"
        );
        self.audit_times(now);
    }

    fn audit_times(&self, now: Time) {
        let mut on_cores = Picos::ZERO;
        for core in self.core_ids() {
            let slot = &self.cores[core.index()];
            let times = slot.times_at(now);
            if let Some(thread) = slot.running {
                assert_eq!(
                    self.state(thread),
                    ThreadState::Running { core },
                    "thread and core agree"
                );
            }
            on_cores += times.busy + times.switching;
            assert_eq!(
                times.busy + times.switching + times.idle,
                now.max(slot.since).saturating_since(slot.epoch),
                "the times of {core} add up to the time that has passed"
            );
        }
        let threads = (0..self.threads.len()).map(ThreadId::from_index);
        let received: Picos = threads.map(|thread| self.received(thread, now)).sum();
        assert_eq!(received, on_cores, "threads receive what cores give");
    }
}

/// The parts.
impl Scheduler {
    fn core_ids(&self) -> impl Iterator<Item = CoreId> + use<> {
        (0..self.cores.len()).map(CoreId::from_index)
    }
    fn set_state(&mut self, thread: ThreadId, state: ThreadState) {
        self.threads[thread.index()].state = state;
    }
    fn enqueue(&mut self, thread: ThreadId) {
        let entry = &mut self.threads[thread.index()];
        entry.state = ThreadState::Runnable;
        self.queue.push(thread, entry.counted);
    }
    fn core_of(&self, thread: ThreadId) -> Option<CoreId> {
        match self.threads[thread.index()].state {
            ThreadState::Running { core } => Some(core),
            _ => None,
        }
    }
    /// Time since the thread was put on the core it is on.
    fn current_turn(&self, thread: ThreadId, now: Time) -> Picos {
        self.core_of(thread).map_or(Picos::ZERO, |core| {
            now.saturating_since(self.cores[core.index()].since)
        })
    }
    fn counted_at(&self, thread: ThreadId, now: Time) -> Picos {
        self.threads[thread.index()].counted + self.current_turn(thread, now)
    }
    /// Books the turn so far on the thread.
    fn charge_turn(&mut self, thread: ThreadId, now: Time) {
        let turn = self.current_turn(thread, now);
        let entry = &mut self.threads[thread.index()];
        entry.received += turn;
        entry.counted += turn;
    }

    /// Takes the thread off its core and books its turn.
    fn leave(&mut self, thread: ThreadId, now: Time) -> CoreId {
        let core = self
            .core_of(thread)
            .expect("a thread that leaves a core is running");
        let now = now.max(self.cores[core.index()].since);
        self.charge_turn(thread, now);
        let slot = &mut self.cores[core.index()];
        slot.times = slot.times_at(now);
        slot.running = None;
        slot.is_yielded = false;
        slot.since = now;
        core
    }

    fn raise_floor(&mut self, now: Time) {
        let running = self.cores.iter().filter_map(|core| core.running);
        let least_running = running.map(|thread| self.counted_at(thread, now)).min();
        let least_waiting = self.queue.least_received().map(|(received, _)| received);
        let least = [least_running, least_waiting].into_iter().flatten().min();
        self.floor = self.floor.max(least.unwrap_or(Picos::ZERO));
    }
}

#[cfg(test)]
mod tests;
