//! A small in-memory database engine: what ycsb and tpcc run on.
//!
//! Tables of rows of one size, cut into partitions. A partition has an arena for its rows, a hash
//! index and an ordered index as its table needs, and one latch. A statement on its own latches the
//! partition it uses; a transaction ([`Session`]) latches what it needs in one order that all keep,
//! changes rows in place, remembers what they were, and lets go at its end. With a [`Journal`]
//! every change is also written down as a line of text.
//!
//! Invariants: a partition's indexes name exactly its live rows; no two sessions wait for each
//! other (latches are taken in ascending [`PartitionId`]); after an abort all rows and indexes hold
//! what they held before.
//!
//! Knows nothing of what its rows mean: [`Column`] does.

pub mod arena;

pub mod hash_index;

pub mod tree;

pub mod table;

pub mod column;

pub mod journal;

pub mod session;

pub use arena::{Arena, Slot};
pub use column::{Column, Field, Text};
pub use hash_index::HashIndex;
pub use journal::Journal;
pub use session::{Latch, Session};
pub use table::{Database, Index, Keys, Partition, PartitionId, Shape, Table};
pub use tree::Tree;
