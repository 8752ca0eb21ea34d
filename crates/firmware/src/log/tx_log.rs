//! The TxLog: which transactions are committed whose lines are still in the log (ByteFS §4.3).
//!
//! A ring of entries in battery-backed DRAM. A commit takes the next entry; when the half of the
//! log that was active at the commit has been compacted, the entry is free again, in order. What
//! is open when a half is sealed moves to the other one, so all lines of a transaction are in the
//! half that is active at its commit.

use crate::durable::Record;
use crate::platform::Platform;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;
use units::TxId;

/// The TxLog.
#[derive(Clone)]
pub(super) struct TxLog {
    capacity: u32,
    next: u32,
    /// In the order of commits.
    entries: VecDeque<(u32, TxId)>,
    /// Entries whose lines are in the sealed half: the first so many.
    sealed: usize,
    /// Never iterated.
    names: HashSet<TxId, FxBuildHasher>,
}

impl TxLog {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            capacity,
            next: 0,
            entries: VecDeque::new(),
            sealed: 0,
            names: HashSet::with_hasher(FxBuildHasher),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() as u32 >= self.capacity
    }

    pub(super) fn has(&self, tx: TxId) -> bool {
        self.names.contains(&tx)
    }

    /// Commits a transaction; returns its entry.
    pub(super) fn commit<P: Platform>(&mut self, tx: TxId, platform: &mut P) -> u32 {
        assert!(!self.is_full(), "a commit waits for an entry");
        let at = self.next;
        platform.record(Record::Committed { at, tx });
        self.next = (at + 1) % self.capacity;
        self.entries.push_back((at, tx));
        self.names.insert(tx);
        at
    }

    /// The half that was active is sealed.
    pub(super) fn seal(&mut self) {
        self.sealed = self.entries.len();
    }

    /// The sealed half is free.
    pub(super) fn release<P: Platform>(&mut self, platform: &mut P) {
        for (at, tx) in self.entries.drain(..core::mem::take(&mut self.sealed)) {
            platform.record(Record::Forgotten { at });
            self.names.remove(&tx);
        }
    }

    /// Takes the entries over that survived a power cut, in ascending order of places; says whether
    /// there is room for them. They count until the half that is active now has been compacted.
    pub(super) fn restore(&mut self, entries: Vec<(u32, TxId)>) -> bool {
        let count = self.capacity;
        if entries.iter().any(|(at, _)| *at >= count) {
            return false;
        }
        let is_taken = |at: u32| entries.binary_search_by_key(&at, |entry| entry.0).is_ok();
        // The ring goes on behind an entry whose next one is free.
        let last = entries.iter().map(|(at, _)| *at);
        let last = last.into_iter().find(|at| !is_taken((at + 1) % count));
        self.next = last.map_or(0, |at| (at + 1) % count);
        self.names.extend(entries.iter().map(|(_, tx)| *tx));
        let split = entries.partition_point(|(at, _)| *at < self.next);
        let (after, before) = entries.split_at(split);
        self.entries = before.iter().chain(after).copied().collect();
        true
    }
}
