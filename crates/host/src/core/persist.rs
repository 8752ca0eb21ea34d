//! Cache line write-backs (`clwb`) and the fences that wait for them (SkyByte §IV).
//!
//! A write-back is dispatched, translated and retired as a store is, has its turn among the stores,
//! and then leaves for the uncore with the newest bytes of its line. What serialises waits until
//! every one that has retired is acknowledged.

use super::{Core, Stop};
use crate::core::stats::CoreStats;
use crate::core::store_queue::Store;
use crate::core::window::PENDING;
use crate::port::{HostLine, InstructionSource, Pause, Step, Uncore};
use crate::program::{Op, Port};
use units::Time;

/// Write-backs of a core on their way.
#[derive(Clone, Default)]
pub(crate) struct Persists {
    /// Retired and not acknowledged.
    awaited: u64,
    /// When the last acknowledgement came.
    pub(crate) acknowledged: u64,
}

impl Persists {
    #[inline]
    pub(crate) fn are_awaited(&self) -> bool {
        self.awaited > 0
    }
    #[cold]
    pub(crate) fn retired(&mut self, stats: &mut CoreStats) {
        stats.write_backs += 1;
        self.awaited += 1;
    }
}

/// Whether the piece writes a line back. At a sync event it does not: such an instruction is the
/// event and nothing else.
#[inline]
pub(super) fn writes_back(step: &Step, op: &Op) -> bool {
    op.is(Op::WRITES_BACK) && step.load.is_some() && !step.has_sync
}

impl Core {
    /// Dispatch has stopped with `pause` before a piece that waits for older ones, or for room in
    /// the load queue. If that is a write-back, it does not, and is dispatched; gives what stops
    /// the core then. Apart from the loop that dispatches, whose every instruction counts.
    #[cold]
    #[inline(never)]
    pub(super) fn pass_write_back<S: InstructionSource, U: Uncore>(
        &mut self,
        pause: Pause,
        horizon: u64,
        source: &mut S,
        uncore: &mut U,
    ) -> Option<Pause> {
        let next = source.peek();
        let next = next.map(|step| (step, source.program().op(step.inst)));
        let Some((step, op)) = next.filter(|(step, op)| writes_back(step, op)) else {
            return Some(pause);
        };
        let before = self.window.tail - self.limits.rob;
        if before >= self.window.head {
            return Some(self.stop(Stop::Window));
        }
        let Some(queue) = self.stores.room_at() else {
            return Some(self.stop(Stop::Stores));
        };
        self.stop = Stop::None;
        let room = self.window.free_from[self.window.place(before)];
        let at = self.front.cycle.max(room).max(queue);
        if at >= horizon {
            return Some(self.reach(at));
        }
        self.front.take_slot(at);
        source.advance();
        self.dispatch_write_back(&step, &op, at, uncore);
        None
    }

    /// Dispatches a write-back at `at`: it takes a place in the store queue, none in the load
    /// queue.
    fn dispatch_write_back<U: Uncore>(&mut self, step: &Step, op: &Op, at: u64, uncore: &mut U) {
        let floor = at + 1;
        let ready = floor
            .max(self.window.data_ready(op))
            .max(self.window.address_ready(op, 0));
        let step = Step {
            load: None,
            store: step.load,
            ..*step
        };
        if ready >= PENDING {
            self.park(step, op, floor, None, uncore);
        } else {
            let done = self.calendar.book(Port::Store, ready) + 1;
            self.park_store(step, op, floor, done, uncore);
        }
    }

    /// A retired write-back has its turn at cycle `at`. If an older store waits for the line, it
    /// waits too.
    #[cold]
    pub(super) fn drain_write_back<U: Uncore>(&mut self, number: u64, at: u64, uncore: &mut U) {
        let Store { lines, .. } = *self.stores.entry(number);
        let line = HostLine::from_raw(lines[0]);
        self.stores.entry(number).lines = [HostLine::NONE; 2];
        let miss = self.misses.find(line);
        if miss.is_some_and(|miss| self.misses.miss(miss).store_waits) {
            self.stores.entry(number).waits = lines;
        } else {
            self.persist(line, at, uncore);
        }
    }

    /// Sends a line that is looked up at cycle `at` on its way to memory; it stays, and is clean.
    #[cold]
    pub(super) fn persist<U: Uncore>(&mut self, line: HostLine, at: u64, uncore: &mut U) {
        let leaves = self.caches.data_at(line, at + self.timing.l1d) + self.timing.l2;
        let is_dirty = self.caches.clean(line);
        uncore.persist(self.time(leaves), self.id, line, is_dirty);
    }

    /// Another core writes a line back: gives up what is newer here, and says whether anything was.
    pub fn give_up_dirt(&mut self, line: HostLine) -> bool {
        self.caches.clean(line)
    }

    /// A write-back has been acknowledged. True if `run` should be called again now.
    pub fn on_persisted(&mut self, now: Time) -> bool {
        self.now = now;
        self.persists.awaited -= 1;
        self.persists.acknowledged = self.cycle_after(now);
        self.stop == Stop::Drain && self.can_continue()
    }

    /// Write-backs that have retired and are not acknowledged.
    pub fn awaited_write_backs(&self) -> u64 {
        self.persists.awaited
    }

    /// Stores and write-backs that have been dispatched so far and are not squashed.
    pub fn dispatched_stores(&self) -> u64 {
        self.stores.dispatched
    }

    /// Whether so many stores have been written, and every write-back that has retired is
    /// acknowledged.
    pub fn has_settled(&self, stores: u64) -> bool {
        self.stores.freed >= stores && self.has_persisted()
    }

    /// Whether every write-back that has retired is acknowledged.
    pub fn has_persisted(&self) -> bool {
        !self.persists.are_awaited()
    }
}
