//! A core: a dataflow model of a finite out-of-order window (architecture B7).

use crate::config::CpuConfig;
use crate::port::{Delayed, InstructionSource, MissSlot, Pause, Squashed, Uncore, WarmUncore};
use units::{CoreId, Time};

/// What a core has done since `reset_stats`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreStats {
    /// Instructions retired, each once.
    pub instructions: u64,
    /// Pieces retired (µops of instructions with several accesses).
    pub pieces: u64,
    /// Loads retired.
    pub loads: u64,
    /// Stores retired.
    pub stores: u64,
    /// Pieces thrown away by squashes; they are executed again.
    pub squashed: u64,
    /// Squashes.
    pub squashes: u64,
    /// Conditional and indirect branches dispatched.
    pub branches: u64,
    /// Those whose direction or target was predicted wrong.
    pub mispredicts: u64,
    /// Lines of code fetched from L1I.
    pub l1i_hits: u64,
    /// Lines of code that L1I did not have.
    pub l1i_misses: u64,
    /// Accesses of loads and stores that L1D had.
    pub l1d_hits: u64,
    /// Accesses of loads and stores that L1D did not have, merged ones included.
    pub l1d_misses: u64,
    /// Accesses that L2 had.
    pub l2_hits: u64,
    /// Lines that L2 asked the uncore for.
    pub l2_misses: u64,
    /// Accesses to a line that L2 was already waiting for.
    pub l2_merged: u64,
    /// Dirty lines L1D wrote to L2.
    pub l1d_write_backs: u64,
    /// Dirty lines L2 wrote to the uncore.
    pub l2_write_backs: u64,
    /// Loads whose data came from an older store in flight.
    pub forwarded: u64,
    /// Translations that the first-level TLB did not have.
    pub l1_tlb_misses: u64,
    /// Page walks.
    pub walks: u64,
    /// Accesses that found every MSHR taken and waited.
    pub mshr_waits: u64,
    /// Fills that came after their MSHR was freed.
    pub late_fills: u64,
    /// Cycles in which a thread was on the core.
    pub active_cycles: u64,
    /// Of these, cycles bounded by memory (SkyByte §II-C; defined in docs/host.md).
    pub memory_bound_cycles: u64,
}

/// One core with its private caches.
pub struct Core {
    id: CoreId,
    stats: CoreStats,
}

impl Core {
    /// An empty core with cold caches.
    pub fn new(id: CoreId, _config: &CpuConfig) -> Self {
        Self {
            id,
            stats: CoreStats::default(),
        }
    }
    /// The core's number.
    pub fn id(&self) -> CoreId {
        self.id
    }
    /// A thread begins or resumes on this core, whose window is empty: its first instruction is
    /// dispatched at `at` or later.
    pub fn start(&mut self, _at: Time) {}
    /// Dispatches instructions until the horizon or until something stops it. `now` is the
    /// caller's time; nothing is asked of the uncore before it.
    pub fn run<S: InstructionSource, U: Uncore>(
        &mut self,
        _now: Time,
        _horizon: Time,
        _source: &mut S,
        _uncore: &mut U,
    ) -> Pause {
        Pause::Waiting
    }
    /// The line of `slot` has arrived. True if `run` should be called again now; false also for a
    /// slot that was freed.
    pub fn on_fill<S: InstructionSource, U: Uncore>(
        &mut self,
        _now: Time,
        _slot: MissSlot,
        _source: &mut S,
        _uncore: &mut U,
    ) -> bool {
        false
    }
    /// The access of `slot` was answered by SkyByte-Delay.
    pub fn on_delay(&mut self, _slot: MissSlot) -> Delayed {
        Delayed::default()
    }
    /// Retires the instruction that [`Pause::Sync`] stopped at; the next one is dispatched at `at`
    /// or later. Whether the thread then stays or is squashed, it continues after that instruction.
    pub fn complete_sync<S: InstructionSource>(&mut self, _at: Time, _source: &mut S) {}
    /// Empties the window: the source goes back to the oldest unretired instruction (D12), MSHRs
    /// that only squashed instructions wait for are freed and cancelled, retired stores stay.
    pub fn squash<S: InstructionSource, U: Uncore>(
        &mut self,
        _source: &mut S,
        _uncore: &mut U,
    ) -> Squashed {
        Squashed::default()
    }
    /// Executes one instruction functionally: caches, TLB and predictors change, no time passes.
    /// The caller advances the source and handles sync events.
    pub fn warm<S: InstructionSource, W: WarmUncore>(&mut self, _source: &mut S, _uncore: &mut W) {}
    /// What the core has done.
    pub fn stats(&self) -> &CoreStats {
        &self.stats
    }
    /// Forgets what was counted, at the end of warm-up.
    pub fn reset_stats(&mut self) {
        self.stats = CoreStats::default();
    }
    /// Checks the core's invariants; each violation as a sentence.
    pub fn audit(&self) -> Vec<String> {
        Vec::new()
    }
}
