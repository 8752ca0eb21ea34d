//! What changes together: the running batch, and how it becomes writes.
//!
//! Operations change metadata on the host one after the other; the lines that they change are those
//! of the running batch. A batch becomes durable as a whole, and batches become so in order: what a
//! power cut leaves is what some first part of all operations has made.

use super::State;
use super::blocks::line_of;
use crate::BlockNo;
use crate::journal::contents::{Closing, Content, ContentRecords};
use crate::layout::{BLOCK, LINE};
use units::ByteAddr;

/// The number of a batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct BatchId(pub u64);

/// Changes that no device has been told of.
#[derive(Default)]
pub(crate) struct Batch {
    pub id: BatchId,
    /// Blocks with changed lines, in the order of their first change; some were forgotten since.
    blocks: Vec<BlockNo>,
    lines: usize,
    /// Lines of files that go with it.
    data: Vec<(ByteAddr, [u8; LINE])>,
    /// Blocks of files that overwrite others once it is durable.
    contents: Vec<Content>,
    /// Blocks that are free once it is durable.
    freed: Vec<BlockNo>,
    /// Blocks that nobody has and that are kept until it is durable.
    kept: u32,
    /// Those of `freed` which held metadata.
    revoked: Vec<BlockNo>,
    /// Whether `before` is kept.
    keeps_before: bool,
    /// What its lines were before it.
    before: Vec<(ByteAddr, [u8; LINE])>,
}

impl Batch {
    /// The first one.
    pub fn first(keeps_before: bool) -> Self {
        Self {
            id: BatchId(1),
            keeps_before,
            ..Self::default()
        }
    }

    /// How many lines it has.
    pub fn lines(&self) -> usize {
        self.lines + self.data.len()
    }

    /// How many blocks these are in.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lines() == 0 && self.freed.is_empty() && self.contents.is_empty()
    }

    pub fn mark(&mut self, block: BlockNo, is_first: bool, line: usize, old: [u8; LINE]) {
        if is_first {
            self.blocks.push(block);
        }
        if self.keeps_before {
            self.before.push((line_address(block, line), old));
        }
        self.lines += 1;
    }

    pub fn unmark(&mut self, block: BlockNo, was_first: bool) {
        if was_first {
            // It is the last: changes are taken back in the reverse order.
            debug_assert_eq!(self.blocks.last(), Some(&block));
            self.blocks.pop();
        }
        if self.keeps_before {
            self.before.pop();
        }
        self.lines -= 1;
    }

    pub fn add_data(&mut self, at: ByteAddr, line: [u8; LINE]) {
        self.data.push((at, line));
    }

    pub fn add_content(&mut self, block: BlockNo, data: Box<[u8; BLOCK]>) {
        self.contents.push((block, data));
    }

    /// How many blocks of files go with it.
    pub fn contents(&self) -> usize {
        self.contents.len()
    }

    pub fn free(&mut self, block: BlockNo, was_metadata: bool) {
        self.freed.push(block);
        if was_metadata {
            self.revoked.push(block);
        }
    }

    /// So many blocks that nobody has are nobody else's before it is durable.
    pub fn keep(&mut self, blocks: u32) {
        self.kept += blocks;
    }
}

fn line_address(block: BlockNo, line: usize) -> ByteAddr {
    ByteAddr::new(u64::from(block.0) * BLOCK as u64 + (line * LINE) as u64)
}

/// A batch as it is written.
pub(crate) struct Sealed {
    pub id: BatchId,
    /// Lines of metadata, in ascending order: where, and which bytes.
    pub lines: Vec<(ByteAddr, [u8; LINE])>,
    /// Lines of files.
    pub data: Vec<(ByteAddr, [u8; LINE])>,
    /// Blocks of files that overwrite others, in ascending order.
    pub contents: Vec<Content>,
    /// Those of the batch before go to their places until that one is over.
    pub follows_contents: bool,
    /// What it says of records of these.
    pub closing: Option<Closing>,
    /// Blocks that the lines of metadata are of, whole, for who writes blocks.
    pub blocks: Vec<(BlockNo, Box<[u8; BLOCK]>)>,
    /// What lines of metadata were before, for who undoes.
    pub before: Vec<(ByteAddr, [u8; LINE])>,
    /// Blocks of metadata that are none any more.
    pub revoked: Vec<BlockNo>,
    pub freed: Vec<BlockNo>,
    pub kept: u32,
}

impl Sealed {
    /// Whether there is nothing to be written.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.data.is_empty() && self.contents.is_empty()
    }
}

impl State {
    /// Ends the running batch and begins the next one.
    pub fn seal_batch(&mut self) -> Sealed {
        let whole_blocks = self.writes_blocks || self.keeps_blocks || self.owners.is_some();
        let next = Batch {
            id: BatchId(self.batch.id.0 + 1),
            keeps_before: self.batch.keeps_before,
            ..Batch::default()
        };
        let mut batch = core::mem::replace(&mut self.batch, next);
        batch.blocks.sort_unstable();
        batch.contents.sort_unstable_by_key(|(block, _)| *block);
        let follows_contents = self.records.as_ref().is_some_and(ContentRecords::counts);
        let records = self.records.as_mut();
        let closing = records.and_then(|records| records.seal(!batch.contents.is_empty()));
        let mut sealed = Sealed {
            id: batch.id,
            lines: Vec::with_capacity(batch.lines),
            data: batch.data,
            contents: batch.contents,
            follows_contents,
            closing,
            blocks: Vec::new(),
            before: batch.before,
            revoked: batch.revoked,
            freed: batch.freed,
            kept: batch.kept,
        };
        for block in batch.blocks {
            let Some(buffer) = self.blocks.get_mut(block) else {
                continue;
            };
            let mut dirty = core::mem::take(&mut buffer.dirty);
            if dirty != 0 && whole_blocks {
                sealed.blocks.push((block, buffer.data.clone()));
            }
            while dirty != 0 {
                let line = dirty.trailing_zeros() as usize;
                dirty &= dirty - 1;
                let at = line_address(block, line);
                sealed.lines.push((at, line_of(&buffer.data, line)));
            }
        }
        sealed
    }
}
