//! One thread's transactions: latches, undo, journal.

use super::journal::{Deed, Journal};
use super::{Database, Keys, Partition, PartitionId, Slot};
use std::ops::Range;
use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// What a latch allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latch {
    /// To look; others may look too.
    Shared,
    /// To change.
    Exclusive,
}

#[derive(Debug)]
enum Held<'db> {
    Shared(RwLockReadGuard<'db, Partition>),
    Exclusive(RwLockWriteGuard<'db, Partition>),
}

/// How a change is taken back.
#[derive(Debug)]
enum Undo {
    /// Write the row's bytes as they were, kept here among the images.
    Update(PartitionId, Slot, Range<usize>),
    /// Take the row out again.
    Insert(PartitionId, Slot, Keys),
    /// Enter the row again; its slot is not released before the end.
    Remove(PartitionId, Slot, Keys),
}

/// One thread's way to the database. A transaction begins with its first latch and lasts to
/// [`Session::commit`] or [`Session::abort`], which let all latches go.
#[derive(Debug)]
pub struct Session<'db> {
    database: &'db Database,
    held: Vec<(PartitionId, Held<'db>)>,
    undo: Vec<Undo>,
    images: Vec<u8>,
    journal: Option<Journal>,
}

impl<'db> Session<'db> {
    /// A session; with a journal, its changes are written down.
    #[must_use]
    pub fn new(database: &'db Database, journal: Option<Journal>) -> Self {
        Self {
            database,
            held: Vec::with_capacity(64),
            undo: Vec::with_capacity(256),
            images: Vec::with_capacity(1 << 16),
            journal,
        }
    }

    /// Waits for a partition's latch. A transaction takes its latches in ascending order, so that
    /// no two wait for each other.
    pub fn latch(&mut self, id: PartitionId, latch: Latch) {
        let last = self.held.last().map(|(id, _)| *id);
        assert!(last < Some(id), "latches are taken in ascending order");
        let held = match latch {
            Latch::Shared => Held::Shared(self.database.read(id)),
            Latch::Exclusive => Held::Exclusive(self.database.write(id)),
        };
        self.held.push((id, held));
    }

    /// A latched partition.
    #[must_use]
    pub fn partition(&self, id: PartitionId) -> &Partition {
        match &self.held[place(&self.held, id)].1 {
            Held::Shared(guard) => guard,
            Held::Exclusive(guard) => guard,
        }
    }

    /// Changes a row in place.
    pub fn update(&mut self, id: PartitionId, slot: Slot, change: impl FnOnce(&mut [u8])) {
        let row = exclusive(&mut self.held, id).row_mut(slot);
        let before = self.images.len()..self.images.len() + row.len();
        self.images.extend_from_slice(row);
        change(row);
        if let Some(journal) = &mut self.journal {
            journal.row(Deed::Update, id, slot, &self.images[before.clone()], row);
        }
        self.undo.push(Undo::Update(id, slot, before));
    }

    /// Adds a row whose bytes `fill` writes.
    pub fn insert(&mut self, id: PartitionId, keys: Keys, fill: impl FnOnce(&mut [u8])) -> Slot {
        let partition = exclusive(&mut self.held, id);
        let slot = partition.insert(keys, fill);
        if let Some(journal) = &mut self.journal {
            journal.row(Deed::Insert, id, slot, &[], partition.row(slot));
        }
        self.undo.push(Undo::Insert(id, slot, keys));
        slot
    }

    /// Removes a row.
    pub fn remove(&mut self, id: PartitionId, slot: Slot, keys: Keys) {
        let partition = exclusive(&mut self.held, id);
        partition.unlink(keys);
        if let Some(journal) = &mut self.journal {
            journal.row(Deed::Remove, id, slot, partition.row(slot), &[]);
        }
        self.undo.push(Undo::Remove(id, slot, keys));
    }

    /// Ends the transaction; its changes stay.
    pub fn commit(&mut self) {
        for step in self.undo.drain(..) {
            if let Undo::Remove(id, slot, _) = step {
                exclusive(&mut self.held, id).release(slot);
            }
        }
        self.end(Deed::Commit);
    }

    /// Ends the transaction and takes all its changes back, the last first.
    pub fn abort(&mut self) {
        for step in self.undo.drain(..).rev() {
            match step {
                Undo::Update(id, slot, before) => exclusive(&mut self.held, id)
                    .row_mut(slot)
                    .copy_from_slice(&self.images[before]),
                Undo::Insert(id, slot, keys) => {
                    let partition = exclusive(&mut self.held, id);
                    partition.unlink(keys);
                    partition.release(slot);
                }
                Undo::Remove(id, slot, keys) => exclusive(&mut self.held, id).link(keys, slot),
            }
        }
        self.end(Deed::Abort);
    }

    fn end(&mut self, deed: Deed) {
        if let Some(journal) = &mut self.journal {
            journal.ending(deed);
        }
        self.images.clear();
        self.held.clear();
    }

    /// Ends the session and gives its journal back.
    #[must_use]
    pub fn close(self) -> Option<Journal> {
        assert!(
            self.held.is_empty(),
            "a transaction ends before its session"
        );
        self.journal
    }
}

fn place(held: &[(PartitionId, Held<'_>)], id: PartitionId) -> usize {
    let place = held.binary_search_by_key(&id, |(other, _)| *other);
    place.expect("a transaction latches what it uses")
}

fn exclusive<'a>(held: &'a mut [(PartitionId, Held<'_>)], id: PartitionId) -> &'a mut Partition {
    let place = place(held, id);
    match &mut held[place].1 {
        Held::Exclusive(guard) => guard,
        Held::Shared(_) => panic!("a change needs an exclusive latch"),
    }
}
