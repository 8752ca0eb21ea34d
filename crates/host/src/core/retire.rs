//! In-order retirement, and which cycles are bounded by memory.

use super::Core;
use crate::core::window::{PENDING, info};
use crate::port::Uncore;

/// The cycle in which the youngest piece retired, and how many retired in it.
#[derive(Clone)]
pub(crate) struct Retirement {
    pub(crate) cycle: u64,
    used: u32,
    width: u32,
    /// Since when a thread has been on the core, up to now; `None` without one.
    pub(crate) since: Option<u64>,
}

impl Retirement {
    pub(crate) fn new(width: u32) -> Self {
        Self {
            cycle: 0,
            used: 0,
            width,
            since: None,
        }
    }
    /// Nothing retires before `cycle`.
    pub(crate) fn not_before(&mut self, cycle: u64) {
        if cycle > self.cycle {
            self.cycle = cycle;
            self.used = 0;
        }
    }
    #[inline]
    fn take_slot(&mut self) -> u64 {
        if self.used == self.width {
            self.cycle += 1;
            self.used = 0;
        }
        self.used += 1;
        self.cycle
    }
}

/// Loads between dispatch and retirement.
#[derive(Clone)]
pub(crate) struct LoadQueue {
    free_from: Vec<u64>,
    mask: u64,
    capacity: u64,
    pub(crate) dispatched: u64,
    pub(crate) retired: u64,
}

impl LoadQueue {
    pub(crate) fn new(capacity: u32) -> Self {
        let size = u64::from(capacity).next_power_of_two();
        Self {
            free_from: vec![0; size as usize],
            mask: size - 1,
            capacity: u64::from(capacity),
            // So that the load one queue back always exists.
            dispatched: size,
            retired: size,
        }
    }
    /// When there is room for one more load, or `None` if that is not known.
    #[inline]
    pub(crate) fn room_at(&self) -> Option<u64> {
        let before = self.dispatched - self.capacity;
        (before < self.retired).then(|| self.free_from[(before & self.mask) as usize])
    }
    #[inline]
    fn retire(&mut self, cycle: u64) {
        self.free_from[(self.retired & self.mask) as usize] = cycle + 1;
        self.retired += 1;
    }
    pub(crate) fn squash(&mut self) {
        self.dispatched = self.retired;
    }
    /// Forgets the youngest `count` loads.
    pub(crate) fn squash_last(&mut self, count: u64) {
        self.dispatched -= count;
    }
}

impl Core {
    /// Retires the oldest piece, which was complete at `done` and may have been waited for since
    /// cycle `since`: the one after its dispatch.
    // As `execute`.
    #[inline(always)]
    pub(super) fn retire<U: Uncore>(&mut self, done: u64, kind: u8, since: u64, uncore: &mut U) {
        if done > self.retirement.cycle {
            if kind & (info::LOAD | info::STORE) != 0 {
                self.note_memory_wait(self.retirement.cycle.max(since), done);
            }
            self.retirement.not_before(done);
        }
        let cycle = self.retirement.take_slot();
        let place = self.window.place(self.window.head);
        self.window.free_from[place] = cycle + 1;
        self.window.head += 1;
        self.stats.pieces += 1;
        self.stats.instructions += u64::from(kind & info::COUNTS);
        if kind & info::LOAD != 0 {
            self.stats.loads += 1;
            self.load_queue.retire(cycle);
        }
        if kind & info::STORE != 0 {
            self.retire_store(cycle, uncore);
        }
    }

    #[inline(never)]
    fn retire_store<U: Uncore>(&mut self, cycle: u64, uncore: &mut U) {
        if let Some((line, start)) = self.stores.next_alone(cycle) {
            let start = start.max(self.drain_from);
            // Nearly always: a store of a line that L1D has, behind stores that are written.
            if let Some(written) = self.caches.store(line, start + 1) {
                self.stats.stores += 1;
                self.stats.l1d_hits += 1;
                return self.stores.write_alone(cycle, start, written);
            }
        }
        let number = self.stores.retired;
        let store = self.stores.entry(number);
        store.retired_at = cycle;
        if store.is_write_back {
            self.persists.retired(&mut self.stats);
        } else {
            self.stats.stores += 1;
        }
        self.stores.retired += 1;
        self.drain_stores(uncore);
    }

    /// Retires every complete piece that has no incomplete one before it.
    pub(super) fn retire_ready<U: Uncore>(&mut self, uncore: &mut U) {
        while !self.window.is_empty() {
            let place = self.window.place(self.window.head);
            let done = self.window.done[place];
            if done >= PENDING {
                break;
            }
            let kind = self.window.info[place];
            let is_parked = kind & info::PARKED != 0;
            let since = if is_parked {
                self.window.parked[place].dispatched
            } else {
                0
            };
            self.retire(done, kind, since, uncore);
        }
    }

    /// Memory holds retirement up in the cycles from `from` up to `to`: those in which nothing but
    /// memory operations executes are bounded by memory.
    #[inline(never)]
    pub(super) fn note_memory_wait(&mut self, from: u64, to: u64) {
        if to > from {
            let executing = self.calendar.execution.count(from, to);
            self.stats.memory_bound_cycles += to - from - executing;
        }
    }
}
