//! Stores that L1D did not have, between dispatch and their write.

use crate::core::window::PENDING;
use crate::port::HostLine;
use std::collections::VecDeque;

/// A store that missed L1D.
#[derive(Clone, Copy)]
pub(super) struct Store {
    /// Its number among all stores that were dispatched.
    number: u64,
    pub(super) line: HostLine,
    /// When it retired, or [`PENDING`].
    retired: u64,
    /// When it was written, or [`PENDING`]. Once freed, when its entry was free.
    written: u64,
}

/// The store queue: entries are freed in order.
#[derive(Clone)]
pub(super) struct Stores {
    queue: VecDeque<Store>,
    capacity: u64,
    /// Stores dispatched so far, those that L1D had included.
    pub(super) dispatched: u64,
    /// Of `queue`: how many have retired, have gone for their line, and are freed.
    retired: usize,
    asked: usize,
    freed: usize,
    last_asked: u64,
    /// When the youngest freed store was written.
    pub(super) last_freed: u64,
    /// A store found no MSHR.
    pub(super) is_blocked: bool,
    /// Stores are not written before this cycle.
    pub(super) not_before: u64,
}

impl Stores {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            queue: VecDeque::with_capacity(capacity as usize + 1),
            capacity: u64::from(capacity),
            dispatched: 0,
            retired: 0,
            asked: 0,
            freed: 0,
            last_asked: 0,
            last_freed: 0,
            is_blocked: false,
            not_before: 0,
        }
    }
    /// Whether every store has been written.
    pub(super) fn is_empty(&self) -> bool {
        self.freed == self.queue.len()
    }
    /// Stores that have retired and are not written.
    pub(super) fn waiting(&self) -> usize {
        self.retired - self.freed
    }
    pub(super) fn has_freed(&self) -> bool {
        self.freed > 0
    }
    /// From when on there is room for `more` stores; nothing if that is not known.
    pub(super) fn room(&mut self, more: u64) -> Option<u64> {
        let mut from = 0;
        while let Some(first) = self.queue.front()
            && first.number + self.capacity <= self.dispatched + more
        {
            if self.freed == 0 {
                return None;
            }
            from = from.max(first.written);
            self.queue.pop_front();
            self.freed -= 1;
            self.retired -= 1;
            self.asked -= 1;
        }
        Some(from)
    }
    /// The store just dispatched misses L1D.
    pub(super) fn push(&mut self, line: HostLine) {
        self.queue.push_back(Store {
            number: self.dispatched,
            line,
            retired: PENDING,
            written: PENDING,
        });
    }
    /// The oldest store of the window retires.
    pub(super) fn retire(&mut self, cycle: u64) {
        self.queue[self.retired].retired = cycle;
        self.retired += 1;
    }
    /// The next store that goes for its line, and when.
    pub(super) fn next(&self) -> Option<(HostLine, u64)> {
        (self.asked < self.retired).then(|| {
            let store = self.queue[self.asked];
            let start = (store.retired + 1).max(self.last_asked + 1);
            (store.line, start.max(self.not_before))
        })
    }
    /// The next store has gone for its line at `cycle`, and has it at `written` if that is known.
    pub(super) fn asked(&mut self, cycle: u64, written: Option<u64>) {
        self.queue[self.asked].written = written.unwrap_or(PENDING);
        self.last_asked = cycle;
        self.asked += 1;
        self.free();
    }
    /// A line that stores wait for has come.
    pub(super) fn filled(&mut self, line: HostLine, cycle: u64) {
        for store in self.queue.range_mut(self.freed..self.asked) {
            if store.line == line && store.written == PENDING {
                store.written = cycle;
            }
        }
        self.free();
    }
    fn free(&mut self) {
        while self.freed < self.asked && self.queue[self.freed].written != PENDING {
            let store = &mut self.queue[self.freed];
            store.written = store.written.max(self.last_freed);
            self.last_freed = store.written;
            self.freed += 1;
        }
    }
    /// Forgets the stores that have not retired; `retired` have, those that L1D had included.
    pub(super) fn squash(&mut self, retired: u64) {
        self.queue.truncate(self.retired);
        self.dispatched = retired;
    }
}
