//! What a simulation asks of a core, whichever way that executes its thread.

use crate::config::CpuConfig;
use crate::core::{Core, CoreStats};
use crate::fast::{FastCore, FilteredThread};
use crate::miss_path::MissPath;
use crate::page_numbers::PageNumbers;
use crate::port::{
    Delayed, HostLine, InstructionSource, MissSlot, Pause, Squash, Squashed, Uncore, WarmUncore,
};
use crate::thread::TracedThread;
use units::{CoreId, Lpa, Picos, Time};

/// A thread, and the kind of core that executes it.
pub trait SimulatedThread: InstructionSource + Sized {
    /// The core.
    type Core: CoreModel<Self>;
    /// Measurement starts.
    fn start_counting(&mut self) {}
    /// What was counted of the measured part before the run, and not by its cores.
    fn counted_before(&self) -> CoreStats {
        CoreStats::default()
    }
}

impl SimulatedThread for TracedThread {
    type Core = Core;
}

/// What a core of the fast mode would do if it were not refused before the run.
const REFUSED: &str = "the fast mode refuses what the artifact's core and line write-backs need";

/// A core with private caches: the methods of [`Core`], where they are documented. What has a body
/// here need not be had by cores of the fast mode.
#[expect(missing_docs, reason = "documented at `Core`")]
pub trait CoreModel<S>: Clone {
    fn new(id: CoreId, config: &CpuConfig) -> Self;
    fn id(&self) -> CoreId;
    fn is_empty(&self) -> bool;
    fn in_flight(&self) -> u64;
    fn awaits(&self, slot: MissSlot) -> bool;
    fn stats(&self) -> CoreStats;
    fn reset_stats(&mut self);
    fn audit(&self) -> Vec<String>;
    fn number_pages(&mut self, numbers: &PageNumbers);
    /// Executes the next instructions functionally, at most so many, and says how many.
    fn warm<W: WarmUncore>(&mut self, source: &mut S, uncore: &mut W, most: u64) -> u64;
    fn start(&mut self, at: Time, source: &mut S);
    fn run<U: Uncore>(&mut self, now: Time, horizon: Time, source: &mut S, uncore: &mut U)
    -> Pause;
    fn on_fill<U: Uncore>(
        &mut self,
        now: Time,
        slot: MissSlot,
        source: &mut S,
        uncore: &mut U,
    ) -> bool;
    fn on_delay<U: Uncore>(&mut self, now: Time, slot: MissSlot, uncore: &mut U) -> Delayed;
    fn on_grant<U: Uncore>(&mut self, now: Time, slot: MissSlot, uncore: &mut U) -> bool;
    fn complete_sync(&mut self, at: Time, source: &mut S);
    fn squash<U: Uncore>(&mut self, now: Time, source: &mut S, uncore: &mut U) -> Squashed;
    fn interrupt(&mut self, now: Time, cost: Picos) -> Time;
    fn forget_page(&mut self, _page: Lpa) {}
    fn on_delivery<U: Uncore>(
        &mut self,
        _now: Time,
        _slot: MissSlot,
        _may_raise: bool,
        _uncore: &mut U,
    ) -> bool {
        unreachable!("{REFUSED}")
    }
    fn count_from_first_waiter(&self, _slot: MissSlot) -> u64 {
        unreachable!("{REFUSED}")
    }
    fn is_delayed(&self) -> bool {
        unreachable!("{REFUSED}")
    }
    fn except<U: Uncore>(
        &mut self,
        _now: Time,
        _squash: Squash,
        _source: &mut S,
        _uncore: &mut U,
    ) -> Squashed {
        unreachable!("{REFUSED}")
    }
    fn replay(&mut self, _pieces: u64, _source: &mut S) {
        unreachable!("{REFUSED}")
    }
    fn give_up_dirt(&mut self, _line: HostLine) -> bool {
        false
    }
    fn on_persisted(&mut self, _now: Time) -> bool {
        unreachable!("{REFUSED}")
    }
    fn awaited_write_backs(&self) -> u64 {
        0
    }
    fn has_settled(&self, _stores: u64) -> bool {
        true
    }
    fn dispatched_stores(&self) -> u64 {
        0
    }
}

impl<S: InstructionSource> CoreModel<S> for Core {
    #[inline]
    fn new(id: CoreId, config: &CpuConfig) -> Self {
        Core::new(id, config)
    }
    #[inline]
    fn id(&self) -> CoreId {
        Core::id(self)
    }
    #[inline]
    fn is_empty(&self) -> bool {
        Core::is_empty(self)
    }
    #[inline]
    fn in_flight(&self) -> u64 {
        Core::in_flight(self)
    }
    #[inline]
    fn awaits(&self, slot: MissSlot) -> bool {
        Core::awaits(self, slot)
    }
    #[inline]
    fn stats(&self) -> CoreStats {
        Core::stats(self)
    }
    #[inline]
    fn reset_stats(&mut self) {
        Core::reset_stats(self)
    }
    #[inline]
    fn audit(&self) -> Vec<String> {
        Core::audit(self)
    }
    #[inline]
    fn number_pages(&mut self, numbers: &PageNumbers) {
        Core::number_pages(self, numbers)
    }
    #[inline]
    fn warm<W: WarmUncore>(&mut self, source: &mut S, uncore: &mut W, _most: u64) -> u64 {
        let counts = source.peek().is_some_and(|step| step.counts);
        self.warm(source, uncore);
        source.advance();
        u64::from(counts)
    }
    #[inline]
    fn start(&mut self, at: Time, _source: &mut S) {
        self.start(at);
    }
    #[inline]
    fn run<U: Uncore>(
        &mut self,
        now: Time,
        horizon: Time,
        source: &mut S,
        uncore: &mut U,
    ) -> Pause {
        Core::run(self, now, horizon, source, uncore)
    }
    #[inline]
    fn on_fill<U: Uncore>(
        &mut self,
        now: Time,
        slot: MissSlot,
        source: &mut S,
        uncore: &mut U,
    ) -> bool {
        Core::on_fill(self, now, slot, source, uncore)
    }
    #[inline]
    fn on_delay<U: Uncore>(&mut self, now: Time, slot: MissSlot, uncore: &mut U) -> Delayed {
        Core::on_delay(self, now, slot, uncore)
    }
    #[inline]
    fn on_grant<U: Uncore>(&mut self, now: Time, slot: MissSlot, uncore: &mut U) -> bool {
        self.ownership_granted(now, slot, uncore)
    }
    #[inline]
    fn complete_sync(&mut self, at: Time, source: &mut S) {
        Core::complete_sync(self, at, source)
    }
    #[inline]
    fn squash<U: Uncore>(&mut self, now: Time, source: &mut S, uncore: &mut U) -> Squashed {
        Core::squash(self, now, source, uncore)
    }
    #[inline]
    fn interrupt(&mut self, now: Time, cost: Picos) -> Time {
        Core::interrupt(self, now, cost)
    }
    #[inline]
    fn forget_page(&mut self, page: Lpa) {
        Core::forget_page(self, page)
    }
    #[inline]
    fn on_delivery<U: Uncore>(
        &mut self,
        now: Time,
        slot: MissSlot,
        may_raise: bool,
        uncore: &mut U,
    ) -> bool {
        Core::on_delivery(self, now, slot, may_raise, uncore)
    }
    #[inline]
    fn count_from_first_waiter(&self, slot: MissSlot) -> u64 {
        Core::count_from_first_waiter(self, slot)
    }
    #[inline]
    fn is_delayed(&self) -> bool {
        Core::is_delayed(self)
    }
    #[inline]
    fn except<U: Uncore>(
        &mut self,
        now: Time,
        squash: Squash,
        source: &mut S,
        uncore: &mut U,
    ) -> Squashed {
        Core::except(self, now, squash, source, uncore)
    }
    #[inline]
    fn replay(&mut self, pieces: u64, source: &mut S) {
        Core::replay(self, pieces, source)
    }
    #[inline]
    fn give_up_dirt(&mut self, line: HostLine) -> bool {
        Core::give_up_dirt(self, line)
    }
    #[inline]
    fn on_persisted(&mut self, now: Time) -> bool {
        Core::on_persisted(self, now)
    }
    #[inline]
    fn awaited_write_backs(&self) -> u64 {
        Core::awaited_write_backs(self)
    }
    #[inline]
    fn has_settled(&self, stores: u64) -> bool {
        Core::has_settled(self, stores)
    }
    #[inline]
    fn dispatched_stores(&self) -> u64 {
        Core::dispatched_stores(self)
    }
}

impl CoreModel<FilteredThread> for FastCore {
    fn new(id: CoreId, config: &CpuConfig) -> Self {
        FastCore::new(id, config)
    }
    fn id(&self) -> CoreId {
        FastCore::id(self)
    }
    fn is_empty(&self) -> bool {
        FastCore::is_empty(self)
    }
    fn in_flight(&self) -> u64 {
        FastCore::in_flight(self)
    }
    fn awaits(&self, slot: MissSlot) -> bool {
        FastCore::awaits(self, slot)
    }
    fn stats(&self) -> CoreStats {
        FastCore::stats(self)
    }
    fn reset_stats(&mut self) {
        FastCore::reset_stats(self)
    }
    fn audit(&self) -> Vec<String> {
        FastCore::audit(self)
    }
    fn number_pages(&mut self, numbers: &PageNumbers) {
        FastCore::number_pages(self, numbers)
    }
    fn warm<W: WarmUncore>(
        &mut self,
        source: &mut FilteredThread,
        uncore: &mut W,
        most: u64,
    ) -> u64 {
        self.warm(source, uncore, most)
    }
    fn start(&mut self, at: Time, source: &mut FilteredThread) {
        self.start(at, source);
    }
    fn run<U: Uncore>(
        &mut self,
        now: Time,
        horizon: Time,
        source: &mut FilteredThread,
        uncore: &mut U,
    ) -> Pause {
        FastCore::run(self, now, horizon, source, uncore)
    }
    fn on_fill<U: Uncore>(
        &mut self,
        now: Time,
        slot: MissSlot,
        _source: &mut FilteredThread,
        uncore: &mut U,
    ) -> bool {
        self.line_arrived(now, slot, uncore)
    }
    fn on_delay<U: Uncore>(&mut self, now: Time, slot: MissSlot, uncore: &mut U) -> Delayed {
        self.access_delayed(now, slot, uncore)
    }
    fn on_grant<U: Uncore>(&mut self, now: Time, slot: MissSlot, uncore: &mut U) -> bool {
        self.ownership_granted(now, slot, uncore)
    }
    fn complete_sync(&mut self, at: Time, source: &mut FilteredThread) {
        FastCore::complete_sync(self, at, source)
    }
    fn squash<U: Uncore>(
        &mut self,
        now: Time,
        source: &mut FilteredThread,
        uncore: &mut U,
    ) -> Squashed {
        FastCore::squash(self, now, source, uncore)
    }
    fn interrupt(&mut self, now: Time, cost: Picos) -> Time {
        FastCore::interrupt(self, now, cost)
    }
    fn forget_page(&mut self, page: Lpa) {
        FastCore::forget_page(self, page);
    }
}
