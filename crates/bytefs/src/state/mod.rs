//! What the host knows of a mounted file system. One lock guards all of it, and nobody holds the
//! lock while waiting for the device.

pub(crate) mod batch;
pub(crate) mod blocks;
pub(crate) mod extents;
pub(crate) mod node;
pub(crate) mod page_set;
pub(crate) mod pages;
pub(crate) mod pmem;
pub(crate) mod space;

use crate::journal::contents::ContentRecords;
use crate::layout::{BLOCK, Geometry, Superblock};
use crate::segments::Segments;
use crate::stats::Counters;
use crate::{BlockNo, Ino, Usage};
use batch::{Batch, BatchId};
use blocks::Blocks;
use node::Node;
use pages::Clock;
use pmem::Pmem;
use rustc_hash::FxHashMap;
use space::FreeMap;
use std::collections::{BTreeMap, VecDeque};

/// Everything.
pub(crate) struct State {
    pub superblock: Superblock,
    pub geometry: Geometry,
    pub hash_seed: u64,
    pub blocks: Blocks,
    pub space: FreeMap,
    /// Where blocks are, if not where their numbers say.
    pub segments: Option<Segments>,
    pub inodes: FreeMap,
    /// The last generation of an inode, where inodes do not remember theirs.
    pub generation: u32,
    /// Blocks that are taken and read as zeroes on the device: the next of metadata.
    pub fresh: VecDeque<BlockNo>,
    /// Blocks that pages without a place will need.
    pub reserved: u32,
    /// Blocks that are free once a batch is durable.
    pub pending_free: u32,
    pub batch: Batch,
    /// The last batch that is durable.
    pub committed: BatchId,
    /// Blocks that the journal has and their place has not.
    pub checkpoint: BTreeMap<BlockNo, Box<[u8; BLOCK]>>,
    /// The journal of contents, where blocks are kept for one.
    pub records: Option<ContentRecords>,
    /// Pages of a file that may be dirty, where all of them must go with one batch.
    pub dirty_most: Option<usize>,
    pub nodes: FxHashMap<Ino, Node>,
    /// Those that nobody uses go when there are more.
    pub most_nodes: usize,
    /// With logs of inodes: whose blocks of metadata are.
    pub owners: Option<FxHashMap<BlockNo, Ino>>,
    /// Inodes without a name, as their list on the device is.
    pub orphans: Vec<Ino>,
    pub clock: Clock,
    /// The device's persistent memory, where it is used.
    pub pmem: Option<Pmem>,
    /// Barriers of the journal: how many were asked, and the last that was answered.
    pub barriers: (u64, u64),
    /// Blocks of files that may not survive a power cut.
    pub block_writes: BlockWrites,
    /// Why nothing more may be changed.
    pub failed: Option<String>,
    pub counters: Counters,
    /// Lines that one batch may have; blocks, where whole blocks are written.
    pub batch_most: usize,
    /// Whole blocks of metadata are written.
    pub writes_blocks: bool,
    /// Blocks of metadata are read before anybody needs them.
    pub reads_ahead: bool,
    /// A new directory has a block of its own at once.
    pub first_blocks: bool,
    /// Blocks of metadata go to the host's memory, as only simulated runs may have it.
    pub keeps_blocks: bool,
    /// Changed lines from which a page goes by blocks.
    pub block_lines: u32,
}

/// Writes of blocks of files that were answered, by their number: what survives where the device
/// loses what was not flushed.
#[derive(Clone, Copy, Default)]
pub(crate) struct BlockWrites {
    /// The last one.
    pub last: u64,
    /// Up to this one they survive.
    pub flushed: u64,
}

impl State {
    /// How full it is.
    pub fn usage(&self) -> Usage {
        let waiting = self.fresh.len() as u32 + self.pending_free;
        let nodes = self.node_blocks();
        let free = (self.space.free() + waiting).saturating_sub(self.reserved + nodes);
        Usage {
            blocks: u64::from(self.space.len() - nodes),
            free_blocks: u64::from(free),
            inodes: u64::from(self.inodes.len()),
            free_inodes: u64::from(self.inodes.free()),
        }
    }

    /// Blocks that a write without a place may still have.
    pub fn unreserved(&self) -> u32 {
        let free = self.space.free() + self.fresh.len() as u32;
        free.saturating_sub(self.reserved + self.node_blocks())
    }

    /// Whose a block of metadata is: nobody's if it is not known.
    pub fn owner(&self, block: BlockNo) -> Ino {
        let owners = self.owners.as_ref();
        let owner = owners.and_then(|owners| owners.get(&block).copied());
        owner.unwrap_or(Ino::NONE)
    }

    /// A block is an inode's.
    pub fn own(&mut self, ino: Ino, block: BlockNo) {
        if let Some(owners) = &mut self.owners {
            owners.insert(block, ino);
        }
    }

    /// A block is nobody's any more.
    pub fn disown(&mut self, block: BlockNo) {
        if let Some(owners) = &mut self.owners {
            owners.remove(&block);
        }
    }

    /// Blocks that inodes take, where each has one for itself.
    pub fn node_blocks(&self) -> u32 {
        match self.segments {
            Some(_) => self.inodes.len() - self.inodes.free(),
            None => 0,
        }
    }
}
