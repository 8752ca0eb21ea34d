//! A core: a dataflow model of a finite out-of-order window (architecture B7).
//!
//! Driven by instructions and fills, never by cycles. A piece is dispatched once, in program order;
//! if the cycles of its operands are known, everything about it is computed on the spot: issue,
//! completion, retirement. Otherwise it is parked until the fill that it depends on, directly or
//! through others. So the cost of a run is that of its instructions and misses, however long a miss
//! takes. docs/host.md describes the model.

mod audit;
mod below_l1;
mod caches;
pub(crate) mod calendar;
mod delay;
mod execute;
mod fetched;
mod front;
mod memory;
mod persist;
mod retire;
mod schedulers;
pub(crate) mod stats;
mod store_queue;
mod warm;
pub(crate) mod window;

#[cfg(test)]
mod delay_tests;
#[cfg(test)]
mod persist_tests;
#[cfg(test)]
mod reference_tests;
#[cfg(test)]
mod scheduler_tests;
#[cfg(test)]
mod switch_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use crate::branch::{BranchPredictor, TargetPrediction};
use crate::config::{CpuConfig, StorePolicy};
use crate::miss_path::{MissPath, Timing};
use crate::mshr::Misses;
use crate::page_numbers::PageNumbers;
use crate::port::{HostLine, InstructionSource, MissSlot, Pause, Squashed, Uncore, WarmUncore};
use caches::Caches;
use calendar::Calendar;
use fetched::Fetched;
use front::Front;
use persist::Persists;
use retire::{LoadQueue, Retirement};
use schedulers::Schedulers;
pub use stats::CoreStats;
use std::collections::VecDeque;
use store_queue::StoreQueue;
use units::{CoreId, Time};
use window::{NIL, PENDING, Window, info};

/// Sizes that are not properties of a part.
#[derive(Clone)]
struct Limits {
    rob: u64,
}

/// What `run` stopped at when it returned [`Pause::Waiting`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    /// It has not stopped.
    None,
    /// The reorder buffer is full.
    Window,
    /// The load queue is full.
    Loads,
    /// The store queue is full.
    Stores,
    /// The queue before a scheduler is full.
    Scheduler(schedulers::Class),
    /// A mispredicted branch, or a serialising instruction, is not complete.
    Branch,
    /// Code is on its way.
    Fetch,
    /// There is no MSHR to fetch code with.
    Mshr,
    /// Everything older must retire, be written, and its write-backs be acknowledged first.
    Drain,
    /// The last instruction must retire.
    End,
}

/// One core with its private caches.
#[derive(Clone)]
pub struct Core {
    id: CoreId,
    timing: Timing,
    limits: Limits,
    /// The caller's present.
    now: Time,
    stop: Stop,
    front: Front,
    fetched: Fetched,
    window: Window,
    retirement: Retirement,
    load_queue: LoadQueue,
    /// Nothing if no scheduler has a limit.
    schedulers: Option<Box<Schedulers>>,
    stores: StoreQueue,
    /// A retired store found no MSHR.
    drain_blocked: bool,
    /// Stores are not written before this cycle.
    drain_from: u64,
    /// Cycles for which the store being dispatched waited for room in the store queue.
    store_stall: u64,
    calendar: Calendar,
    caches: Caches,
    misses: Misses,
    /// Places of pieces that found no MSHR, in order of their attempts.
    queue: VecDeque<u16>,
    persists: Persists,
    predictor: BranchPredictor,
    warm_target: Option<TargetPrediction>,
    /// A store is complete when its line is there, not before.
    stores_wait: bool,
    stats: CoreStats,
}

impl Core {
    /// An empty core with cold caches. `config` is one that `CpuConfig::validate` accepts.
    pub fn new(id: CoreId, config: &CpuConfig) -> Self {
        Self {
            id,
            timing: Timing::new(config),
            limits: Limits {
                rob: u64::from(config.rob),
            },
            now: Time::ZERO,
            stop: Stop::None,
            front: Front::new(config.width, config.code_fetch),
            fetched: Fetched::new(
                config.fetch_ahead,
                config.width,
                config.mispredict_penalty.get(),
            ),
            window: Window::new(),
            retirement: Retirement::new(config.width),
            load_queue: LoadQueue::new(config.load_queue),
            schedulers: Schedulers::new(config),
            stores: StoreQueue::new(config.store_queue),
            drain_blocked: false,
            drain_from: 0,
            store_stall: 0,
            calendar: Calendar::new(config),
            caches: Caches::new(config),
            misses: Misses::new(config.l1d_mshrs, config.l2_mshrs, config.store_grants),
            queue: VecDeque::with_capacity(config.rob.next_power_of_two() as usize + 1),
            persists: Persists::default(),
            predictor: BranchPredictor::new(config.history_bits, config.branch_start),
            warm_target: None,
            stores_wait: config.stores == StorePolicy::Waited,
            stats: CoreStats::default(),
        }
    }
    /// Whether every instruction has retired: a thread can start.
    pub fn is_empty(&self) -> bool {
        self.window.is_empty() && self.fetched.is_empty()
    }
    /// The core's number.
    pub fn id(&self) -> CoreId {
        self.id
    }

    /// A thread begins or resumes on this core, whose window is empty: its first instruction is
    /// dispatched at `at` or later.
    pub fn start(&mut self, at: Time) {
        assert!(self.is_empty(), "a thread starts on an empty core");
        let cycle = self.cycle_after(at);
        self.close();
        self.window.forget_registers();
        self.restart_fetching();
        self.front.group_from = self.window.tail;
        self.front.not_before(cycle);
        self.retirement.not_before(cycle);
        self.retirement.since = Some(self.retirement.cycle);
        self.stop = Stop::None;
    }

    /// Dispatches instructions until the horizon or until something stops it. `now` is the
    /// caller's time; nothing is asked of the uncore before it.
    pub fn run<S: InstructionSource, U: Uncore>(
        &mut self,
        now: Time,
        horizon: Time,
        source: &mut S,
        uncore: &mut U,
    ) -> Pause {
        self.now = now;
        if self.stop == Stop::Mshr {
            self.front.not_before(self.cycle_after(now));
        }
        self.stop = Stop::None;
        if let Some(pause) = self.exception() {
            return pause;
        }
        let horizon = self.cycle_after(horizon);
        let pause = loop {
            let pause = match self.schedulers.is_some() {
                true => self.dispatch::<S, U, true>(horizon, source, uncore),
                false => self.dispatch::<S, U, false>(horizon, source, uncore),
            };
            if !matches!(self.stop, Stop::Loads | Stop::Drain) {
                break pause;
            }
            if let Some(pause) = self.pass_write_back(pause, horizon, source, uncore) {
                break pause;
            }
        };
        match pause {
            Pause::Waiting | Pause::Horizon { .. } => self.exception().unwrap_or(pause),
            _ => pause,
        }
    }

    /// The line of `slot` has arrived. True if `run` should be called again now; false also for a
    /// slot that was freed.
    pub fn on_fill<S: InstructionSource, U: Uncore>(
        &mut self,
        now: Time,
        slot: MissSlot,
        _source: &mut S,
        uncore: &mut U,
    ) -> bool {
        self.line_arrived(now, slot, uncore)
    }

    /// Pieces that have been dispatched and have not retired.
    pub fn in_flight(&self) -> u64 {
        self.window.tail - self.window.head
    }

    /// Whether a miss still waits under this name: false once a squash has freed it.
    pub fn awaits(&self, slot: MissSlot) -> bool {
        self.misses.get(slot).is_some()
    }

    /// Retires the instruction that [`Pause::Sync`] stopped at; the next one is dispatched at `at`
    /// or later. Whether the thread then stays or is squashed, it continues after that instruction.
    pub fn complete_sync<S: InstructionSource>(&mut self, at: Time, source: &mut S) {
        let step = source
            .peek()
            .expect("a sync event is completed at its instruction");
        assert!(
            step.has_sync && self.window.is_empty(),
            "a sync event is reached before it is completed"
        );
        source.advance();
        let cycle = self.cycle_after(at);
        self.retirement.not_before(cycle);
        self.front.not_before(cycle);
        let place = self.window.place(self.window.tail);
        self.window.free_from[place] = self.retirement.cycle + 1;
        self.window.tail += 1;
        self.window.head += 1;
        self.stats.pieces += 1;
        self.stats.instructions += u64::from(step.counts);
    }

    /// Empties the window: the source goes back to the oldest unretired instruction (D12), MSHRs
    /// that only squashed instructions wait for are freed and cancelled, retired stores stay.
    pub fn squash<S: InstructionSource, U: Uncore>(
        &mut self,
        now: Time,
        source: &mut S,
        uncore: &mut U,
    ) -> Squashed {
        self.note_wait_of_oldest(now);
        let end = self.cycle_after(self.now);
        self.retirement.not_before(end);
        let instructions = self.window.squash();
        source.rewind_to(source.position() - instructions);
        let cancelled = self.cancel_misses(end, uncore);
        self.queue.clear();
        self.stores.squash();
        self.load_queue.squash();
        if let Some(schedulers) = &mut self.schedulers {
            schedulers.squash(end);
        }
        self.restart_fetching();
        self.close();
        self.stop = Stop::None;
        self.drain_again(end, uncore);
        self.stats.squashes += 1;
        self.stats.squashed += instructions;
        Squashed {
            instructions,
            cancelled,
            at: self.time(self.retirement.cycle),
        }
    }

    /// What holds retirement up has held it up until `now`, when the window is squashed.
    fn note_wait_of_oldest(&mut self, now: Time) {
        self.now = now.max(self.now);
        let end = self.cycle_after(self.now);
        if !self.window.is_empty() {
            // The oldest piece is not complete, so it was parked.
            let place = self.window.place(self.window.head);
            if self.window.info[place] & (info::LOAD | info::STORE) != 0 {
                let since = self.window.parked[place].dispatched;
                self.note_memory_wait(self.retirement.cycle.max(since), end);
            }
        } else if matches!(self.stop, Stop::Stores | Stop::Drain) {
            // Nothing is left but stores that wait for their lines.
            self.note_memory_wait(self.retirement.cycle, end);
        }
    }

    /// Executes one instruction functionally: caches, TLB and predictors change, no time passes.
    /// The caller advances the source and handles sync events.
    pub fn warm<S: InstructionSource, W: WarmUncore>(&mut self, source: &mut S, uncore: &mut W) {
        self.warm_step(source, uncore);
    }
    /// From now on these numbers of pages choose the sets of their lines. Nothing is cached.
    pub fn number_pages(&mut self, numbers: &PageNumbers) {
        self.caches.number_pages(numbers);
    }
    /// Forgets the translation of a data page; no time passes.
    pub fn forget_page(&mut self, page: units::Lpa) {
        self.caches.tlb.invalidate(page.get() as u32);
    }
    /// The core serves an interrupt: it dispatches nothing for `cost` from `now`, or from where it
    /// has run ahead to. Says until when.
    pub fn interrupt(&mut self, now: Time, cost: units::Picos) -> Time {
        let from = self.front.cycle.max(self.cycle_after(now));
        let until = from + cost.get().div_ceil(self.timing.period);
        self.front.not_before(until);
        self.time(until)
    }

    /// What the core has done.
    pub fn stats(&self) -> CoreStats {
        let open = self
            .retirement
            .since
            .map_or(0, |since| self.retirement.cycle - since);
        CoreStats {
            active_cycles: self.stats.active_cycles + open,
            ..self.stats
        }
    }
    /// Forgets what was counted, at the end of warm-up.
    pub fn reset_stats(&mut self) {
        self.stats = CoreStats::default();
        self.retirement.since = self.retirement.since.map(|_| self.retirement.cycle);
    }

    /// The first cycle that begins at `at` or later.
    fn cycle_after(&self, at: Time) -> u64 {
        at.as_picos().div_ceil(self.timing.period)
    }
    /// The Long Delay Exception, if the oldest unretired piece is a load that was answered by
    /// SkyByte-Delay.
    fn exception(&self) -> Option<Pause> {
        if self.window.is_empty() {
            return None;
        }
        let place = self.window.place(self.window.head);
        let is_raised =
            self.window.info[place] & info::DELAYED != 0 && self.window.done[place] >= PENDING;
        is_raised.then(|| Pause::LongDelay {
            at: self.time(self.retirement.cycle),
        })
    }
    fn stop(&mut self, stop: Stop) -> Pause {
        self.stop = stop;
        Pause::Waiting
    }
    fn reach(&mut self, cycle: u64) -> Pause {
        Pause::Horizon {
            at: self.time(cycle),
        }
    }
    fn end(&mut self) -> Pause {
        if !self.window.is_empty() {
            return self.stop(Stop::End);
        }
        self.close();
        Pause::End {
            at: self.time(self.retirement.cycle),
        }
    }
    /// The thread leaves: the cycles it had are counted.
    fn close(&mut self) {
        if let Some(since) = self.retirement.since.take() {
            self.stats.active_cycles += self.retirement.cycle - since;
        }
    }
    /// Whether what stopped `run` is over.
    fn can_continue(&self) -> bool {
        match self.stop {
            Stop::None | Stop::Mshr => true,
            Stop::Window => self.window.tail - self.limits.rob < self.window.head,
            Stop::Loads => self.load_queue.room_at().is_some(),
            Stop::Stores => self.stores.room_at().is_some(),
            Stop::Scheduler(class) => {
                (self.schedulers.as_ref()).is_none_or(|schedulers| schedulers.has_room(class))
            }
            Stop::Branch => self.front.blocked == NIL,
            Stop::Fetch => self.front.awaited == HostLine::NONE,
            Stop::Drain => {
                self.window.is_empty() && self.stores.is_empty() && !self.persists.are_awaited()
            }
            Stop::End => self.window.is_empty(),
        }
    }
    fn drain_again<U: Uncore>(&mut self, cycle: u64, uncore: &mut U) {
        if self.drain_blocked {
            self.drain_blocked = false;
            self.drain_from = cycle;
            self.drain_stores(uncore);
        }
    }
}
