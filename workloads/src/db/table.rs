//! Tables, their partitions, and the latch round each.

use super::{Arena, HashIndex, Slot, Tree};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Which indexes a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// None: rows are only added.
    None,
    /// By a unique 64-bit key.
    Hash,
    /// By a unique ordered 128-bit key.
    Tree,
    /// Both.
    HashAndTree,
}

/// What a table's partitions look like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The table's name, for sentences.
    pub name: &'static str,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Rows of a partition when the table is loaded: room is made for these.
    pub rows: usize,
    /// Rows allocated at a time.
    pub chunk_rows: usize,
    /// Its indexes.
    pub index: Index,
}

/// A row's keys in its table's indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// Key in the hash index.
    pub hash: Option<u64>,
    /// Key in the tree.
    pub tree: Option<u128>,
}

/// Rows and indexes under one latch.
#[derive(Clone, Debug)]
pub struct Partition {
    rows: Arena,
    hash: Option<HashIndex>,
    tree: Option<Tree>,
}

impl Partition {
    /// An empty partition.
    #[must_use]
    pub fn new(shape: &Shape) -> Self {
        let has_hash = matches!(shape.index, Index::Hash | Index::HashAndTree);
        let has_tree = matches!(shape.index, Index::Tree | Index::HashAndTree);
        Self {
            rows: Arena::new(shape.row_bytes, shape.chunk_rows),
            hash: has_hash.then(|| HashIndex::with_room(shape.rows)),
            tree: has_tree.then(Tree::default),
        }
    }

    /// Adds a row whose bytes `fill` writes over whatever the slot held.
    pub fn insert(&mut self, keys: Keys, fill: impl FnOnce(&mut [u8])) -> Slot {
        let slot = self.rows.take();
        fill(self.rows.row_mut(slot));
        self.link(keys, slot);
        slot
    }

    /// Enters a row into the indexes.
    pub fn link(&mut self, keys: Keys, slot: Slot) {
        assert_eq!(keys.hash.is_some(), self.hash.is_some(), "a key per index");
        assert_eq!(keys.tree.is_some(), self.tree.is_some(), "a key per index");
        if let (Some(index), Some(key)) = (&mut self.hash, keys.hash) {
            index.insert(key, slot);
        }
        if let (Some(tree), Some(key)) = (&mut self.tree, keys.tree) {
            tree.insert(key, slot);
        }
    }

    /// Takes a row out of the indexes; its bytes stay until its slot is released.
    pub fn unlink(&mut self, keys: Keys) {
        if let (Some(index), Some(key)) = (&mut self.hash, keys.hash) {
            index.remove(key).expect("the row is in the index");
        }
        if let (Some(tree), Some(key)) = (&mut self.tree, keys.tree) {
            tree.remove(key).expect("the row is in the tree");
        }
    }

    /// Gives the slot of an unlinked row back.
    pub fn release(&mut self, slot: Slot) {
        self.rows.release(slot);
    }

    /// The row with this key in the hash index.
    #[inline]
    #[must_use]
    pub fn find(&self, key: u64) -> Option<Slot> {
        self.hash
            .as_ref()
            .expect("the table has a hash index")
            .get(key)
    }

    /// The ordered index.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        self.tree.as_ref().expect("the table has an ordered index")
    }

    /// A row's bytes.
    #[inline]
    #[must_use]
    pub fn row(&self, slot: Slot) -> &[u8] {
        self.rows.row(slot)
    }

    /// A row's bytes, to be changed.
    #[inline]
    pub fn row_mut(&mut self, slot: Slot) -> &mut [u8] {
        self.rows.row_mut(slot)
    }

    /// Live rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.rows()
    }

    /// Every row of a partition from which nothing was ever removed.
    pub fn scan(&self) -> impl Iterator<Item = &[u8]> {
        assert_eq!(
            self.rows.rows(),
            self.rows.used() as usize,
            "no slot is free"
        );
        (0..self.rows.used()).map(|index| self.rows.row(Slot::new(index)))
    }

    /// Every row of a partition with an ordered index, in its order.
    pub fn ordered(&self) -> impl Iterator<Item = &[u8]> {
        let all = self.tree().range(0, u128::MAX);
        all.map(|(_, slot)| self.rows.row(slot))
    }

    /// Bytes of rows and indexes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let hash = self.hash.as_ref().map_or(0, HashIndex::bytes);
        self.rows.bytes() + hash + self.tree.as_ref().map_or(0, Tree::bytes)
    }
}

/// A partition of a table. Their order is the order in which latches are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionId {
    /// Which table, by its place in the database.
    pub table: u32,
    /// Which partition of it.
    pub index: u32,
}

/// Partitions of one shape.
#[derive(Debug)]
pub struct Table {
    shape: Shape,
    partitions: Vec<RwLock<Partition>>,
}

impl Table {
    /// A table with these partitions.
    #[must_use]
    pub fn new(shape: Shape, partitions: Vec<Partition>) -> Self {
        Self {
            shape,
            partitions: partitions.into_iter().map(RwLock::new).collect(),
        }
    }

    /// What its partitions look like.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many partitions it has.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Latches a partition to look at it.
    #[inline]
    pub fn read(&self, index: usize) -> RwLockReadGuard<'_, Partition> {
        self.partitions[index]
            .read()
            .expect("no holder of a latch panicked")
    }

    /// Latches a partition to change it.
    #[inline]
    pub fn write(&self, index: usize) -> RwLockWriteGuard<'_, Partition> {
        self.partitions[index]
            .write()
            .expect("no holder of a latch panicked")
    }

    /// Bytes of all partitions.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (0..self.partitions())
            .map(|index| self.read(index).bytes())
            .sum()
    }
}

/// Tables, in the order in which their latches are taken.
#[derive(Debug)]
pub struct Database {
    /// The tables; a [`PartitionId`] names one by its place.
    pub tables: Vec<Table>,
}

impl Database {
    /// Latches a partition to look at it.
    pub fn read(&self, id: PartitionId) -> RwLockReadGuard<'_, Partition> {
        self.tables[id.table as usize].read(id.index as usize)
    }

    /// Latches a partition to change it.
    pub fn write(&self, id: PartitionId) -> RwLockWriteGuard<'_, Partition> {
        self.tables[id.table as usize].write(id.index as usize)
    }

    /// Bytes of all tables.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tables.iter().map(Table::bytes).sum()
    }
}
