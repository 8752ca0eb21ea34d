//! Extents: runs of blocks that hold runs of a file's pages (§4.5: 16 bytes).

use super::{LINE, LINES, Torn, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64, sum};
use crate::BlockNo;

/// Slots for extents in an inode.
pub const SLOTS_OF_INODE: usize = 2;
/// Slots for extents in a block of them, behind its first line.
pub const SLOTS_OF_BLOCK: usize = (LINES - 1) * LINE / Extent::BYTES;
/// Pages of the largest file, of 1 EiB: offsets of pages have 48 bits.
pub const MOST_PAGES: u64 = 1 << 48;

const UNWRITTEN: u32 = 1 << 31;

/// Pages of a file and the blocks that hold them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First page of the file.
    pub page: u64,
    /// First block.
    pub block: BlockNo,
    /// How many; not 0.
    pub count: u32,
    /// The blocks hold what was written; if not they read as zeroes.
    pub is_written: bool,
}

impl Extent {
    /// Bytes of a slot.
    pub const BYTES: usize = 16;

    /// Behind its last page.
    pub fn end(&self) -> u64 {
        self.page + u64::from(self.count)
    }

    /// The block of a page that lies in it.
    pub fn block_of(&self, page: u64) -> BlockNo {
        BlockNo(self.block.0 + (page - self.page) as u32)
    }

    /// As it is written.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut slot = [0; Self::BYTES];
        put_u64(&mut slot, 0, self.page);
        put_u32(&mut slot, 8, self.block.0);
        let flag = if self.is_written { 0 } else { UNWRITTEN };
        put_u32(&mut slot, 12, self.count | flag);
        let sum = Self::sum_of(&slot);
        put_u16(&mut slot, 6, sum);
        slot
    }

    /// What a slot says: nothing, or an extent; an error if it is not whole.
    pub fn decode(slot: &[u8]) -> Result<Option<Self>, Torn> {
        let count = get_u32(slot, 12);
        if get_u16(slot, 6) != Self::sum_of(slot) {
            return Err(Torn);
        }
        let extent = Self {
            page: get_u64(slot, 0) & (MOST_PAGES - 1),
            block: BlockNo(get_u32(slot, 8)),
            count: count & !UNWRITTEN,
            is_written: count & UNWRITTEN == 0,
        };
        Ok((extent.count > 0).then_some(extent))
    }

    fn sum_of(slot: &[u8]) -> u16 {
        let mut plain = [0; Self::BYTES];
        plain.copy_from_slice(&slot[..Self::BYTES]);
        put_u16(&mut plain, 6, 0);
        sum(&plain) as u16
    }
}
