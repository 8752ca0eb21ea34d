//! What only simulated runs may do: work that ByteFS's artifact saves and its paper asks for, and
//! work that is left out to see what it costs. What a file system with one of them holds does not
//! survive, so none is ever mounted for programs.

use crate::BlockNo;
use crate::layout::{BLOCK, LINE};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::ByteAddr;

/// The work that is saved; none of it by default.
#[derive(Clone, Default, Debug)]
pub struct Shortcuts {
    /// Where contents of files are.
    pub contents: Contents,
    /// How a batch goes to a device with transactions.
    pub batches: Batches,
    /// Where metadata are.
    pub metadata: Metadata,
}

/// Where contents of files are.
#[derive(Clone, Default, Debug)]
pub enum Contents {
    /// On the device.
    #[default]
    Device,
    /// In the host's memory: the device hears nothing of them.
    Host(Arc<HostBlocks>),
}

/// Where metadata are, but for superblocks. What is not on the device goes there at no cost: no
/// file system writes its metadata for less.
#[derive(Clone, Default, Debug)]
pub enum Metadata {
    /// On the device.
    #[default]
    Device,
    /// On the device until [`HostBlocks::begin`], and from then on in the host's memory. What the
    /// host's cache of metadata has not is read from the device all the same.
    Unwritten(Arc<HostBlocks>),
    /// In the host's memory: the device is not asked for them either.
    Host(Arc<HostBlocks>),
}

/// How a batch goes to a device with transactions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Batches {
    /// As a transaction, which is committed.
    #[default]
    Transactions,
    /// As lines of none, which nobody waits for: there is no reservation, no COMMIT, no read that
    /// verifies writes. A power cut leaves any part of a batch.
    Lines,
}

impl Shortcuts {
    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        matches!(self.contents, Contents::Device)
            && self.batches == Batches::Transactions
            && matches!(self.metadata, Metadata::Device)
    }

    /// Whether metadata go to the host, now or later.
    pub(crate) fn keeps_metadata(&self) -> bool {
        !matches!(self.metadata, Metadata::Device)
    }

    /// The metadata that the device has not, if they are on the host.
    pub(crate) fn kept_metadata(&self) -> Option<&HostBlocks> {
        match &self.metadata {
            Metadata::Device => None,
            Metadata::Unwritten(kept) => kept.is_begun.load(Ordering::Relaxed).then_some(kept),
            Metadata::Host(kept) => Some(kept),
        }
    }

    /// The same, if the device is not asked for metadata at all.
    pub(crate) fn free_metadata(&self) -> Option<&HostBlocks> {
        match &self.metadata {
            Metadata::Device | Metadata::Unwritten(_) => None,
            Metadata::Host(kept) => Some(kept),
        }
    }

    /// The contents that the device has not, if they are on the host.
    pub(crate) fn kept(&self) -> Option<&HostBlocks> {
        match &self.contents {
            Contents::Device => None,
            Contents::Host(kept) => Some(kept),
        }
    }
}

/// Blocks that are on the host: from one mount to the next one.
#[derive(Default, Debug)]
pub struct HostBlocks {
    blocks: Mutex<FxHashMap<u32, Box<[u8; BLOCK]>>>,
    /// What is written from now on stays on the host.
    is_begun: AtomicBool,
}

impl HostBlocks {
    fn blocks(&self) -> MutexGuard<'_, FxHashMap<u32, Box<[u8; BLOCK]>>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on metadata are not written: what was, is on the device, and is read from there as
    /// it always is.
    pub fn begin(&self) {
        self.is_begun.store(true, Ordering::Relaxed);
    }

    /// Reads blocks behind each other; what nobody has written reads as zeroes.
    pub(crate) fn read(&self, first: BlockNo, bytes: &mut [u8]) {
        let blocks = self.blocks();
        for (block, part) in (first.0..).zip(bytes.chunks_exact_mut(BLOCK)) {
            match blocks.get(&block) {
                Some(data) => part.copy_from_slice(&data[..]),
                None => part.fill(0),
            }
        }
    }

    /// Reads those blocks of some behind each other that somebody has written; the others stay as
    /// they are.
    pub(crate) fn overlay(&self, first: BlockNo, bytes: &mut [u8]) {
        let blocks = self.blocks();
        for (block, part) in (first.0..).zip(bytes.chunks_exact_mut(BLOCK)) {
            if let Some(data) = blocks.get(&block) {
                part.copy_from_slice(&data[..]);
            }
        }
    }

    /// Writes blocks behind each other.
    pub(crate) fn write(&self, first: BlockNo, bytes: &[u8]) {
        let mut blocks = self.blocks();
        for (block, part) in (first.0..).zip(bytes.chunks_exact(BLOCK)) {
            let data = blocks.entry(block).or_insert_with(|| Box::new([0; BLOCK]));
            data.copy_from_slice(part);
        }
    }

    /// Writes a line.
    pub(crate) fn write_line(&self, at: ByteAddr, line: &[u8; LINE]) {
        let (block, within) = (at.get() / BLOCK as u64, at.get() as usize % BLOCK);
        let mut blocks = self.blocks();
        let data = blocks.entry(block as u32);
        let data = data.or_insert_with(|| Box::new([0; BLOCK]));
        data[within..within + LINE].copy_from_slice(line);
    }

    /// Has blocks read as zeroes.
    pub(crate) fn forget(&self, run: Range<u32>) {
        let mut blocks = self.blocks();
        for block in run {
            blocks.remove(&block);
        }
    }
}
