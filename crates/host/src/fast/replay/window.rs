//! The records between dispatch and retirement.

use crate::core::window::{NIL, PENDING};
use crate::fast::stream::Record;

/// A record in the window.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) record: Record,
    /// When it is complete, or [`PENDING`]. What holds up nobody is complete at once.
    pub(super) done: u64,
    /// The slot in which it was dispatched.
    pub(super) slot: u64,
    /// Pieces of the thread up to and with its own.
    pub(super) position: u64,
    /// The slot in which it retired.
    pub(super) retired: u64,
    /// It issues in this cycle or later.
    pub(super) issue: u64,
    /// The next one that waits for the same MSHR.
    pub(super) next: u16,
    /// It is in the store queue.
    pub(super) is_queued: bool,
    /// A touch of a line that L1D still has.
    pub(super) is_at_hand: bool,
    /// It waits for its page walk.
    pub(super) walks: bool,
    /// It has found no MSHR, for its page walk or then for its line.
    pub(super) is_refused: bool,
    /// Its page has been translated.
    pub(super) is_translated: bool,
    /// Answered by SkyByte-Delay.
    pub(super) is_delayed: bool,
}

impl Entry {
    pub(super) fn new(record: Record, slot: u64, position: u64) -> Self {
        Self {
            record,
            done: 0,
            slot,
            position,
            retired: 0,
            issue: 0,
            next: NIL,
            is_queued: false,
            is_at_hand: false,
            walks: false,
            is_refused: false,
            is_translated: false,
            is_delayed: false,
        }
    }
}

/// A record that must have retired before another one can be dispatched.
pub(super) struct Before {
    /// The slot in which it did.
    pub(super) retired: Option<u64>,
    /// Pieces between the one that can take its place and the other record.
    pub(super) pieces_after: u64,
}

#[derive(Clone)]
pub(super) struct Window {
    entries: Vec<Entry>,
    mask: u64,
    /// Numbers of the thread's records: the oldest that has not retired, and the next one.
    pub(super) head: u64,
    pub(super) tail: u64,
    /// The first record since the thread has been on the core; older ones are complete.
    first: u64,
    /// The oldest record that a record may still have to wait for to retire.
    pub(super) room_from: u64,
}

impl Window {
    pub(super) fn new(rob: u32) -> Self {
        let capacity = u64::from(rob).next_power_of_two() * 2;
        Self {
            entries: vec![Entry::new(Record::END, 0, 0); capacity as usize],
            mask: capacity - 1,
            head: 0,
            tail: 0,
            first: 0,
            room_from: 0,
        }
    }
    /// A thread begins at its record `number`.
    pub(super) fn restart(&mut self, number: u64) {
        (self.head, self.tail) = (number, number);
        (self.first, self.room_from) = (number, number);
    }
    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }
    #[inline]
    pub(super) fn entry(&mut self, number: u64) -> &mut Entry {
        &mut self.entries[(number & self.mask) as usize]
    }
    #[inline]
    pub(super) fn peek(&self, number: u64) -> &Entry {
        &self.entries[(number & self.mask) as usize]
    }
    #[inline]
    pub(super) fn place(&self, number: u64) -> u16 {
        (number & self.mask) as u16
    }
    #[inline]
    pub(super) fn at(&mut self, place: u16) -> &mut Entry {
        &mut self.entries[usize::from(place)]
    }
    /// The number of the record in the window at a place.
    pub(super) fn number(&self, place: u16) -> u64 {
        self.head + (u64::from(place).wrapping_sub(self.head) & self.mask)
    }
    /// Enters a record and gives its number.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry) -> u64 {
        let number = self.tail;
        *self.entry(number) = entry;
        self.tail += 1;
        number
    }
    /// The oldest record that stands in the way of one at `position`.
    #[inline]
    pub(super) fn leaves_room(&self, position: u64, rob: u64) -> Option<Before> {
        if self.room_from == self.tail {
            return None;
        }
        let entry = self.peek(self.room_from);
        let is_full = self.tail - self.room_from > self.mask;
        if !is_full && entry.position + rob > position {
            return None;
        }
        Some(Before {
            retired: (self.room_from < self.head).then_some(entry.retired),
            pieces_after: position.saturating_sub(entry.position + rob),
        })
    }
    /// The slot before which the pieces of record `number` keep it from retiring, older records
    /// having done so.
    #[inline]
    pub(super) fn held_until(&self, number: u64, width: u64) -> u64 {
        let held = self.peek(number).record.held;
        let back = u64::from(held.back);
        if back == 0 || back > self.mask || number - back < self.first {
            return 0;
        }
        self.peek(number - back).done * width + u64::from(held.after)
    }
    /// When what record `number` depends on is there; not before `cycle`. Nothing if it is not
    /// known.
    #[inline]
    pub(super) fn ready(&self, number: u64, cycle: u64) -> Option<u64> {
        let mut ready = cycle;
        for dependence in self.peek(number).record.depends {
            let back = u64::from(dependence.back);
            if back == 0 {
                break;
            }
            if back > self.mask || number - back < self.first {
                continue;
            }
            let done = self.peek(number - back).done;
            if done >= PENDING {
                return None;
            }
            ready = ready.max(done + u64::from(dependence.after));
        }
        Some(ready)
    }
}
