//! What the simulation asks of a core: threads come, go on, are delayed and leave.

use super::{FastCore, Stop};
use crate::core::CoreStats;
use crate::core::window::PENDING;
use crate::fast::stream::{FilteredThread, Kind};
use crate::miss_path::MissPath;
use crate::port::{HostLine, MissSlot, Pause, Squashed, Uncore};
use units::{CoreId, Lpa, Picos, Time};

impl FastCore {
    /// The core's number.
    pub fn id(&self) -> CoreId {
        self.id
    }
    /// Whether every record has retired: a thread can start.
    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }
    /// Whether a miss still waits under this name.
    pub fn awaits(&self, slot: MissSlot) -> bool {
        self.misses.get(slot).is_some()
    }
    /// Pieces that have been dispatched and have not retired.
    pub fn in_flight(&self) -> u64 {
        match self.window.is_empty() {
            true => 0,
            false => {
                let first = self.window.peek(self.window.head);
                let last = self.window.peek(self.window.tail - 1);
                last.position + u64::from(first.record.pieces) - first.position
            }
        }
    }

    /// A thread begins or resumes: its first record is dispatched at `at` or later.
    pub fn start(&mut self, at: Time, source: &mut FilteredThread) {
        assert!(self.is_empty(), "a thread starts on an empty core");
        self.close();
        let cycle = self.cycle_after(at);
        let slot = cycle * self.width;
        self.front = self.front.max(slot);
        self.retired = self.retired.max(slot);
        self.since = Some(self.retired / self.width);
        self.window.restart(source.at);
        if source.left != Some((self.id, self.fills)) {
            source.resumed = source.pieces;
        }
        self.stop = Stop::None;
    }

    /// Dispatches until the horizon or until something stops it.
    pub fn run<U: Uncore>(
        &mut self,
        now: Time,
        horizon: Time,
        source: &mut FilteredThread,
        uncore: &mut U,
    ) -> Pause {
        self.now = now;
        if self.stop == Stop::Mshr {
            self.front = self.front.max(self.cycle_after(now) * self.width);
        }
        self.stop = Stop::None;
        if let Some(pause) = self.exception() {
            return pause;
        }
        let horizon = self.cycle_after(horizon);
        match self.dispatch(horizon, source, uncore) {
            pause @ (Pause::Waiting | Pause::Horizon { .. }) => self.exception().unwrap_or(pause),
            pause => pause,
        }
    }

    /// The Long Delay Exception, if the oldest record is a load that was answered by SkyByte-Delay.
    pub(super) fn exception(&self) -> Option<Pause> {
        let is_raised = !self.window.is_empty() && {
            let oldest = self.window.peek(self.window.head);
            oldest.is_delayed && oldest.done >= PENDING
        };
        is_raised.then(|| Pause::LongDelay {
            at: self.time(self.retired / self.width),
        })
    }

    /// Retires the sync event that [`Pause::Sync`] stopped at; the next record is dispatched at
    /// `at` or later.
    pub fn complete_sync(&mut self, at: Time, source: &mut FilteredThread) {
        let record = source.record(source.at);
        assert!(
            record.kind == Kind::Sync && self.window.is_empty(),
            "a sync event is reached before it is completed"
        );
        let slot = self.cycle_after(at) * self.width;
        self.retired = self.retired.max(slot);
        self.front = self.front.max(slot);
        self.floor = 0;
        source.pass();
        self.stores.dispatched += u64::from(record.stores);
        self.window.restart(source.at);
        self.count_retired(&record);
    }

    /// Empties the window: the source goes back to the oldest record that has not retired, MSHRs
    /// that only squashed ones wait for are freed and cancelled, retired stores stay.
    pub fn squash<U: Uncore>(
        &mut self,
        now: Time,
        source: &mut FilteredThread,
        uncore: &mut U,
    ) -> Squashed {
        self.now = now.max(self.now);
        let end = self.cycle_after(self.now);
        let end_slot = end * self.width;
        let instructions = self.in_flight();
        if self.window.is_empty() {
            let passed = end_slot.saturating_sub(self.front);
            let gap = source.record(source.at).gap;
            source.taken = (u64::from(source.taken) + passed).min(gap.into()) as u16;
        } else {
            self.rewind(end_slot, source);
        }
        self.retired = self.retired.max(end_slot);
        self.front = self.front.max(end_slot);
        let retired = self.window.head;
        self.window.restart(retired);
        let cancelled = self.cancel_misses(end, uncore);
        (self.floor, self.is_blocked, self.awaited) = (0, false, HostLine::NONE);
        self.queue.clear();
        self.parked.clear();
        source.left = Some((self.id, self.fills));
        self.close();
        self.stop = Stop::None;
        self.write_stores_again(end, uncore);
        self.stats.squashes += 1;
        self.stats.squashed += instructions;
        Squashed {
            instructions,
            cancelled,
            at: self.time(self.retired / self.width),
        }
    }

    /// The source goes back to the oldest record of the window, the gap before which has passed.
    fn rewind(&mut self, end_slot: u64, source: &mut FilteredThread) {
        let mut stores = 0;
        for number in self.window.head..self.window.tail {
            stores += u64::from(self.window.peek(number).record.stores);
        }
        self.stores.squash(self.stores.dispatched - stores);
        let oldest = *self.window.peek(self.window.head);
        if matches!(
            oldest.record.kind,
            Kind::Load | Kind::Touch | Kind::Again | Kind::Store
        ) {
            let since = self.retired.max(oldest.slot);
            let waited = end_slot.saturating_sub(since) / self.width;
            self.stats.memory_bound_cycles += waited;
        }
        source.at = self.window.head;
        source.pieces = oldest.position - u64::from(oldest.record.pieces);
        source.taken = oldest.record.gap;
        let all = source.record(source.at).instructions;
        source.taken_instructions = all - oldest.record.instructions;
    }

    /// The core serves an interrupt: it dispatches nothing for `cost` from `now`, or from where it
    /// has run ahead to. Says until when.
    pub fn interrupt(&mut self, now: Time, cost: Picos) -> Time {
        let from = self.front.max(self.cycle_after(now) * self.width);
        let slots = cost.get().div_ceil(self.timing.period) * self.width;
        self.front = from + slots;
        self.time(self.front.div_ceil(self.width))
    }

    /// Forgets the translation of a data page; no time passes.
    pub fn forget_page(&mut self, page: Lpa) {
        self.tlb.invalidate(page.get() as u32);
    }

    /// What the core has done.
    pub fn stats(&self) -> CoreStats {
        let open = (self.since).map_or(0, |since| self.retired / self.width - since);
        CoreStats {
            active_cycles: self.stats.active_cycles + open,
            ..self.stats
        }
    }
    /// Forgets what was counted, at the end of warm-up.
    pub fn reset_stats(&mut self) {
        self.stats = CoreStats::default();
        self.since = self.since.map(|_| self.retired / self.width);
    }

    /// What is wrong with the core, each as a clause.
    pub fn audit(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.misses.l1_pending() != self.misses.l1_named() {
            problems.push("an L1D MSHR is held by no miss".to_string());
        }
        if self.stores.waiting() > 0 && self.misses.in_use == 0 && !self.stores.is_blocked {
            problems.push("a store waits for nothing".to_string());
        }
        problems
    }
}
