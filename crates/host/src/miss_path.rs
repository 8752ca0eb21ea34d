//! What happens to a line that L1 does not have, up to the request that leaves the core.
//!
//! The detailed core and the core that replays filtered threads differ in who waits for a line and
//! in what is done when it comes; everything between is here, once.

use crate::cache::CacheArray;
use crate::config::CpuConfig;
use crate::core::CoreStats;
use crate::core::window::NIL;
use crate::mshr::{Misses, NoMshr};
use crate::port::{Delayed, HostLine, MissKind, MissSlot, Uncore};
use units::{CoreId, Time};

/// How an access went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Its line, or its translation, is there at this cycle.
    Done(u64),
    /// It must wait for this MSHR.
    Miss(usize),
    /// There is no MSHR.
    Refused,
}

/// Period of the clock in picoseconds; latencies in cycles.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) period: u64,
    pub(crate) l1d: u64,
    pub(crate) l2: u64,
    pub(crate) l2_tlb: u64,
    pub(crate) mispredict: u64,
}

impl Timing {
    pub(crate) fn new(config: &CpuConfig) -> Self {
        Self {
            period: config.period().get(),
            l1d: config.l1d_latency.get(),
            l2: config.l2_latency.get(),
            l2_tlb: config.l2_tlb_latency.get(),
            mispredict: config.mispredict_penalty.get(),
        }
    }
}

/// The parts of a core that a miss passes through.
pub(crate) struct Parts<'a> {
    pub(crate) id: CoreId,
    /// The caller's present.
    pub(crate) now: &'a mut Time,
    pub(crate) timing: Timing,
    pub(crate) l2: &'a mut CacheArray<true>,
    pub(crate) misses: &'a mut Misses,
    pub(crate) stats: &'a mut CoreStats,
}

/// A core as its misses see it.
pub(crate) trait MissPath {
    /// The parts that a miss passes through.
    fn parts(&mut self) -> Parts<'_>;
    /// A line that L2 has goes into L1D for an access of this kind, its data there at `ready`.
    fn fill_l1d_from_l2<U: Uncore>(
        &mut self,
        line: HostLine,
        kind: MissKind,
        ready: u64,
        uncore: &mut U,
    );
    /// Frees an MSHR at `cycle` and gives its line to whatever waits for it.
    fn take_fill<U: Uncore>(&mut self, number: usize, cycle: u64, uncore: &mut U);
    /// Lets whatever waits for an MSHR, or for what is complete at `cycle`, go on.
    fn go_on<U: Uncore>(&mut self, cycle: u64, uncore: &mut U);
    /// Whether dispatch has stopped and what stopped it is over, or an exception is raised.
    fn should_run(&self) -> bool;
    /// Flags the loads of a list of waiters, from this one on.
    fn flag_delayed(&mut self, first: u16);
    /// Whether a write-back waits for the line with the store that fetches it.
    fn write_back_waits(&self, line: HostLine) -> bool;
    /// The stores that wait for the line are written, into a merge buffer, at `cycle`.
    fn take_grant(&mut self, line: HostLine, cycle: u64);

    /// The first cycle that begins at `at` or later.
    #[inline]
    fn cycle_from(&mut self, at: Time) -> u64 {
        at.as_picos().div_ceil(self.parts().timing.period)
    }

    /// Fetches a line that L1D does not have, for a load or for a retired store that asks at cycle
    /// `at`.
    #[inline]
    fn miss_l1d<U: Uncore>(
        &mut self,
        line: HostLine,
        kind: MissKind,
        at: u64,
        uncore: &mut U,
    ) -> Access {
        let parts = self.parts();
        if let Some(number) = parts.misses.find(line) {
            parts.stats.l1d_misses += 1;
            parts.stats.l2_merged += 1;
            if kind == MissKind::Ownership && parts.misses.is_granted(number) {
                return Access::Done(at + parts.timing.l1d);
            }
            return Access::Miss(number);
        }
        let Ok((l1_slot, at)) = parts.misses.l1_slot(at) else {
            return Access::Refused;
        };
        let done = at + parts.timing.l1d + parts.timing.l2;
        if parts.l2.access(line).is_some() {
            parts.stats.l1d_misses += 1;
            parts.stats.l2_hits += 1;
            parts.misses.hold_l1(l1_slot, done);
            self.fill_l1d_from_l2(line, kind, done, uncore);
            return Access::Done(done);
        }
        let outcome = self.request(line, kind, l1_slot, done, uncore);
        if outcome != Access::Refused {
            self.parts().stats.l1d_misses += 1;
        }
        outcome
    }

    /// Asks L2, which answers at cycle `done` if it has it, for a line of code or page table.
    #[inline]
    fn read_l2<U: Uncore>(
        &mut self,
        line: HostLine,
        kind: MissKind,
        done: u64,
        uncore: &mut U,
    ) -> Access {
        let parts = self.parts();
        if parts.l2.access(line).is_some() {
            parts.stats.l2_hits += 1;
            return Access::Done(done);
        }
        if let Some(number) = parts.misses.find(line) {
            parts.stats.l2_merged += 1;
            return Access::Miss(number);
        }
        self.request(line, kind, NIL, done, uncore)
    }

    /// Asks the uncore at cycle `at` for a line that is not under way. `l1_slot`: the L1D MSHR that
    /// is held with it, or `NIL`.
    #[inline]
    fn request<U: Uncore>(
        &mut self,
        line: HostLine,
        kind: MissKind,
        l1_slot: u16,
        at: u64,
        uncore: &mut U,
    ) -> Access {
        let parts = self.parts();
        match parts.misses.allocate(line, kind, l1_slot) {
            Err(NoMshr) => Access::Refused,
            Ok(number) => {
                parts.stats.l2_misses += 1;
                let at = Time::from_picos(at * parts.timing.period).max(*parts.now);
                uncore.read(at, parts.id, parts.misses.name(number), line, kind);
                Access::Miss(number)
            }
        }
    }

    /// The line of `slot` has arrived. True if `run` should be called again now; false also for a
    /// slot that was freed.
    #[inline]
    fn line_arrived<U: Uncore>(&mut self, now: Time, slot: MissSlot, uncore: &mut U) -> bool {
        let parts = self.parts();
        *parts.now = now;
        let Some(number) = parts.misses.get(slot) else {
            parts.stats.late_fills += 1;
            return false;
        };
        let cycle = self.cycle_from(now);
        self.take_fill(number, cycle, uncore);
        self.go_on(cycle, uncore);
        self.should_run()
    }

    /// The core owns the line of `slot`, whose data are on their way: a retired store that waits
    /// for it is written into a merge buffer, if one is free. True if `run` should be called now.
    fn ownership_granted<U: Uncore>(&mut self, now: Time, slot: MissSlot, uncore: &mut U) -> bool {
        let parts = self.parts();
        let Some(number) = parts.misses.get(slot) else {
            return false;
        };
        let line = parts.misses.line(number);
        let is_store = parts.misses.peek(number).store_waits;
        if !is_store || self.write_back_waits(line) {
            return false;
        }
        let cycle = self.cycle_from(now);
        let parts = self.parts();
        *parts.now = now;
        if !parts.misses.grant(number, cycle) {
            return false;
        }
        self.take_grant(line, cycle);
        self.go_on(cycle, uncore);
        self.should_run()
    }

    /// The access of `slot` was answered by SkyByte-Delay. If a load waits, call `run` now.
    ///
    /// Loads that wait are flagged. If nothing else waits, the MSHR is free at once: the line is
    /// not coming, and flagged loads that are not the oldest must not keep the oldest from its own
    /// access.
    fn access_delayed<U: Uncore>(&mut self, now: Time, slot: MissSlot, uncore: &mut U) -> Delayed {
        let parts = self.parts();
        *parts.now = now;
        let Some(number) = parts.misses.get(slot) else {
            return Delayed::default();
        };
        let miss = parts.misses.miss(number);
        miss.is_delayed = true;
        let miss = *miss;
        let is_load = matches!(miss.kind, MissKind::Load | MissKind::Ownership);
        if is_load {
            self.flag_delayed(miss.first);
        }
        let delayed = Delayed {
            load_waits: is_load && miss.first != NIL,
            other_waits: miss.store_waits || !is_load,
        };
        if !delayed.other_waits {
            let cycle = self.cycle_from(now);
            self.parts().misses.free(number, cycle);
            self.go_on(cycle, uncore);
        }
        delayed
    }

    /// Frees the MSHRs that nothing but squashed pieces waits for, and says how many.
    fn cancel_misses<U: Uncore>(&mut self, cycle: u64, uncore: &mut U) -> u64 {
        let Parts { id, misses, .. } = self.parts();
        let mut cancelled = 0;
        for number in 0..misses.top() {
            if !misses.is_used(number) {
                continue;
            }
            let slot = misses.name(number);
            let miss = misses.miss(number);
            miss.first = NIL;
            if !miss.store_waits {
                misses.free(number, cycle);
                uncore.cancel(id, slot);
                cancelled += 1;
            }
        }
        cancelled
    }
}
