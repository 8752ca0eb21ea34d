//! Stores between dispatch and their write to L1D, and the table by which loads find them.

use crate::core::window::PENDING;
use crate::port::{Access, HostLine};

const NONE: u32 = HostLine::NONE;
/// Entries of the forwarding table.
const WORDS: usize = 256;
/// No store.
pub(crate) const NO_STORE: u64 = u64::MAX;

/// A store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    /// Lines still to write; the second of a store that is not split is none.
    pub(crate) lines: [u32; 2],
    /// Lines whose fill it waits for.
    pub(super) waits: [u32; 2],
    /// When the lines written so far were written.
    written: u64,
    /// When it was written, or [`PENDING`]. Once freed, when its entry was free.
    pub(crate) written_at: u64,
    /// When its data and address were known, or [`PENDING`].
    pub(crate) data_at: u64,
    pub(crate) retired_at: u64,
    /// Its place in the window while that is not complete.
    pub(crate) place: u16,
    /// It writes nothing: its line is to be written back to memory.
    pub(crate) is_write_back: bool,
}

/// Where a load gets its data from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Forward {
    /// From the cache.
    Cache,
    /// From a store whose data is there at this cycle.
    Known(u64),
    /// From the store at this place of the window, once that is complete.
    Pending(usize),
}

#[derive(Clone)]
pub(crate) struct StoreQueue {
    entries: Vec<Store>,
    mask: u64,
    capacity: u64,
    /// Numbers of the next store to dispatch, retire, write and free.
    pub(crate) dispatched: u64,
    pub(crate) retired: u64,
    pub(crate) drained: u64,
    pub(crate) freed: u64,
    /// When the youngest write to L1D started.
    last_drain: u64,
    /// When the youngest freed store was written.
    pub(crate) last_freed: u64,
    /// Word and the youngest store that wrote it.
    words: Box<[(u64, u64); WORDS]>,
}

impl StoreQueue {
    pub(crate) fn new(capacity: u32) -> Self {
        let size = u64::from(capacity).next_power_of_two();
        let store = Store {
            lines: [NONE; 2],
            waits: [NONE; 2],
            written: 0,
            written_at: 0,
            data_at: 0,
            retired_at: 0,
            place: 0,
            is_write_back: false,
        };
        Self {
            entries: vec![store; size as usize],
            mask: size - 1,
            capacity: u64::from(capacity),
            // So that the store one queue back always exists.
            dispatched: size,
            retired: size,
            drained: size,
            freed: size,
            last_drain: 0,
            last_freed: 0,
            words: Box::new([(u64::MAX, NO_STORE); WORDS]),
        }
    }
    #[inline]
    pub(crate) fn entry(&mut self, number: u64) -> &mut Store {
        &mut self.entries[(number & self.mask) as usize]
    }
    /// When there is room for one more store, or `None` if that is not known.
    #[inline]
    pub(crate) fn room_at(&self) -> Option<u64> {
        let before = self.dispatched - self.capacity;
        (before < self.freed).then(|| self.entries[(before & self.mask) as usize].written_at)
    }
    /// Whether every store has been written.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.freed == self.dispatched
    }
    /// Enters a store whose data and address are known at `data_at`, or [`PENDING`], and returns
    /// its number.
    // As `Core::execute`.
    #[inline(always)]
    pub(crate) fn push(&mut self, access: Access, place: usize, data_at: u64) -> u64 {
        let number = self.dispatched;
        self.dispatched += 1;
        let last = access.last();
        let first_line = HostLine::of_byte(access.byte).get();
        let last_line = HostLine::of_byte(last).get();
        *self.entry(number) = Store {
            lines: [
                first_line,
                if last_line == first_line {
                    NONE
                } else {
                    last_line
                },
            ],
            waits: [NONE; 2],
            written: 0,
            written_at: PENDING,
            data_at,
            retired_at: 0,
            place: place as u16,
            is_write_back: false,
        };
        let (first_word, last_word) = (access.byte / 8, last / 8);
        self.words[(first_word % WORDS as u64) as usize] = (first_word, number);
        if first_word != last_word {
            for word in first_word + 1..=last_word {
                self.words[(word % WORDS as u64) as usize] = (word, number);
            }
        }
        number
    }
    /// Enters a write-back of the line of `byte` and returns its number: it has its turn among the
    /// stores, and no load takes data from it.
    pub(crate) fn push_write_back(&mut self, byte: u64, place: usize) -> u64 {
        let number = self.dispatched;
        self.dispatched += 1;
        *self.entry(number) = Store {
            lines: [HostLine::of_byte(byte).get(), NONE],
            waits: [NONE; 2],
            written: 0,
            written_at: PENDING,
            data_at: PENDING,
            retired_at: 0,
            place: place as u16,
            is_write_back: true,
        };
        number
    }
    /// The youngest store so far to `word` that may still be in flight, or [`NO_STORE`].
    #[inline]
    pub(crate) fn youngest(&self, word: u64) -> u64 {
        let (stored, number) = self.words[(word % WORDS as u64) as usize];
        if stored == word { number } else { NO_STORE }
    }
    /// Where a load at `at`, for which [`StoreQueue::youngest`] gave `number`, gets its data.
    #[inline]
    pub(crate) fn forward(&self, number: u64, at: u64) -> Forward {
        if number == NO_STORE || self.dispatched - number > self.mask {
            return Forward::Cache;
        }
        let store = &self.entries[(number & self.mask) as usize];
        if store.written_at <= at {
            Forward::Cache
        } else if store.data_at < PENDING {
            Forward::Known(store.data_at.max(at))
        } else {
            Forward::Pending(usize::from(store.place))
        }
    }
    /// The oldest store retires at `cycle`: if it is one of a single line, and nothing before it is
    /// still to be written, its line and when its write can start.
    #[inline]
    pub(super) fn next_alone(&self, cycle: u64) -> Option<(HostLine, u64)> {
        let store = &self.entries[(self.retired & self.mask) as usize];
        let is_plain = store.lines[0] != NONE && store.lines[1] == NONE && !store.is_write_back;
        (is_plain && self.drained == self.retired).then(|| {
            (
                HostLine::from_raw(store.lines[0]),
                cycle.max(self.last_drain) + 1,
            )
        })
    }
    /// That store, which waits for no other line, retired at `cycle`, and was written at `written`
    /// by a write that started at `start`.
    #[inline]
    pub(super) fn write_alone(&mut self, cycle: u64, start: u64, written: u64) {
        let (number, last_freed) = (self.retired, self.last_freed);
        let store = self.entry(number);
        store.retired_at = cycle;
        store.written = store.written.max(written);
        store.lines[0] = NONE;
        let written_at = store.written.max(cycle);
        store.written_at = written_at.max(last_freed);
        self.last_drain = start;
        self.retired += 1;
        self.drained += 1;
        if self.freed == number {
            self.last_freed = written_at.max(last_freed);
            self.freed += 1;
        } else {
            self.entry(number).written_at = written_at;
        }
    }
    /// The oldest retired store that is to be written, and when its write can start.
    #[inline]
    pub(crate) fn next_drain(&self) -> Option<(u64, u64)> {
        let store = &self.entries[(self.drained & self.mask) as usize];
        (self.drained < self.retired)
            .then(|| (self.drained, store.retired_at.max(self.last_drain) + 1))
    }
    /// A line of the store was written at `cycle`.
    #[inline]
    pub(crate) fn line_written(&mut self, number: u64, cycle: u64) {
        let store = self.entry(number);
        store.written = store.written.max(cycle);
        store.lines = [store.lines[1], NONE];
    }
    /// A line of the store will be written when it is filled.
    pub(crate) fn line_awaited(&mut self, number: u64) {
        let store = self.entry(number);
        let line = store.lines[0];
        store.waits[usize::from(store.waits[0] != NONE)] = line;
        store.lines = [store.lines[1], NONE];
    }
    /// Every line of the oldest undrained store was written or is awaited.
    #[inline]
    pub(crate) fn drained_one(&mut self, start: u64) {
        self.last_drain = start;
        let store = self.entry(self.drained);
        if store.waits[0] == NONE {
            // A store that had its line before it retired is written when it retires.
            store.written_at = store.written.max(store.retired_at);
        }
        self.drained += 1;
        self.free_written();
    }
    /// A line that stores wait for was filled at `cycle`; says how many write-backs waited for it.
    pub(crate) fn line_filled(&mut self, line: HostLine, cycle: u64) -> usize {
        let mut write_backs = 0;
        for number in self.freed..=self.drained.min(self.dispatched - 1) {
            let is_drained = number < self.drained;
            let store = self.entry(number);
            if store.waits.contains(&line.get()) {
                let [first, second] = store.waits;
                store.waits = if first == line.get() {
                    [second, NONE]
                } else {
                    [first, NONE]
                };
                store.written = store.written.max(cycle);
                write_backs += usize::from(store.is_write_back);
                if is_drained && store.waits[0] == NONE {
                    store.written_at = store.written;
                }
            }
        }
        self.free_written();
        write_backs
    }
    /// Frees the oldest stores that are written, in order.
    #[inline]
    fn free_written(&mut self) {
        while self.freed < self.drained {
            let before = self.last_freed;
            let store = self.entry(self.freed);
            if store.written_at == PENDING {
                break;
            }
            store.written_at = store.written_at.max(before);
            self.last_freed = store.written_at;
            self.freed += 1;
        }
    }
    /// Forgets the stores that have not retired.
    pub(crate) fn squash(&mut self) {
        self.squash_last(self.dispatched - self.retired);
    }
    /// Forgets the youngest `count` stores, none of which has retired.
    pub(crate) fn squash_last(&mut self, count: u64) {
        let left = self.dispatched - count;
        // Their entries had been free when they were dispatched, and are again.
        for number in left..self.dispatched {
            self.entry(number).written_at = 0;
        }
        self.dispatched = left;
        self.words.fill((u64::MAX, NO_STORE));
    }
    /// Whether a write-back waits for the line.
    pub(crate) fn write_back_waits(&self, line: HostLine) -> bool {
        (self.freed..self.dispatched.min(self.drained + 1))
            .map(|number| &self.entries[(number & self.mask) as usize])
            .any(|store| store.is_write_back && store.waits.contains(&line.get()))
    }
    /// Lines that stores wait for.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = HostLine> + '_ {
        (self.freed..self.dispatched.min(self.drained + 1))
            .flat_map(|number| self.entries[(number & self.mask) as usize].waits)
            .filter(|line| *line != NONE)
            .map(HostLine::from_raw)
    }
}
