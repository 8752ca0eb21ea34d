//! Where segments are, of a file system that writes to logs: behind the superblock two places for a
//! checkpoint, two for each block of the table of places, then segments of one size.

use super::BLOCK;
use core::ops::Range;

/// Places of a block of the table: four bytes each, behind a head and before a sum.
pub const PLACES: u32 = ((BLOCK - 32) / 4) as u32;
/// Bits of a checkpoint's block for which copy of a block of the table counts.
pub const COPY_BITS: u32 = ((BLOCK - 96) * 8) as u32;
/// Logs: hot, warm and cold, of nodes and of data (F2FS §2.3).
pub const LOGS: usize = 6;

/// Blocks of a segment: 2 MiB (F2FS §2.1), less where there would be too few segments.
const SEGMENT_MOST: u32 = 512;
const SEGMENT_LEAST: u32 = 8;
/// Segments that there should be.
const SEGMENTS: u32 = 128;
/// Dirty blocks of metadata that bring about a checkpoint: eight segments of 512 (the kernel's
/// `excess_dirty_nodes`), less on a small device, but room for an operation.
const DIRTY_MOST: u32 = 4096;
const DIRTY_LEAST: u32 = 256;
const DIRTY_SHARE: u32 = 64;
/// Segments that are kept for logs that are open, and for writes under way.
const KEPT: u32 = LOGS as u32 + 16;
/// Of the segments this share is kept beside that, so that cleaning finds few valid blocks: a 50th.
const KEPT_SHARE: u32 = 50;

/// Where segments are, on the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segmentation {
    /// First blocks of the two places for a checkpoint.
    pub packs: [u32; 2],
    /// Blocks of a checkpoint.
    pub pack: u32,
    /// First block of the table: the two copies of its first block, those of its second one, ...
    pub table: u32,
    /// Blocks of the table.
    pub tables: u32,
    /// All segments.
    pub main: Range<u32>,
    /// Blocks of a segment.
    pub blocks: u32,
}

impl Segmentation {
    /// Of a device with so many blocks, for so many numbers of blocks.
    pub(super) fn of(blocks: u32, numbers: u32) -> Option<Self> {
        let tables = numbers.div_ceil(PLACES);
        let pack = tables.div_ceil(COPY_BITS) + 1;
        let table = 1 + 2 * pack;
        let begin = table.checked_add(tables.checked_mul(2)?)?;
        let room = blocks.checked_sub(1)?.checked_sub(begin)?;
        let size = (room / SEGMENTS).max(1);
        // The power of two below it.
        let size = (1 << size.ilog2()).clamp(SEGMENT_LEAST, SEGMENT_MOST);
        let segmentation = Self {
            packs: [1, 1 + pack],
            pack,
            table,
            tables,
            main: begin..begin + room / size * size,
            blocks: size,
        };
        (segmentation.usable() > 0).then_some(segmentation)
    }

    /// Segments.
    pub fn count(&self) -> u32 {
        (self.main.end - self.main.start) / self.blocks
    }

    /// Dirty blocks of metadata that bring about a checkpoint.
    pub fn dirty_most(&self) -> u32 {
        let share = (self.main.end - self.main.start) / DIRTY_SHARE;
        share.clamp(DIRTY_LEAST, DIRTY_MOST)
    }

    /// Free segments without which contents find no room: a checkpoint must find some.
    pub fn kept_free(&self) -> u32 {
        (self.dirty_most() + crate::tx::MOST_BLOCKS as u32).div_ceil(self.blocks) + LOGS as u32
    }

    /// Blocks that may hold something.
    pub fn usable(&self) -> u32 {
        let kept = self.kept_free() + KEPT + self.count() / KEPT_SHARE;
        self.count().saturating_sub(kept) * self.blocks
    }

    /// The segment of a block.
    pub fn segment_of(&self, place: u32) -> usize {
        ((place - self.main.start) / self.blocks) as usize
    }

    /// The first block of a segment.
    pub fn first_of(&self, segment: usize) -> u32 {
        self.main.start + segment as u32 * self.blocks
    }

    /// Where a copy of a block of the table is.
    pub fn table_place(&self, index: u32, copy: bool) -> u32 {
        self.table + 2 * index + u32::from(copy)
    }
}
