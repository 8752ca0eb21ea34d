//! Metadata on the host: blocks as the device will have them, and which lines it has not yet.

use crate::BlockNo;
use crate::layout::{BLOCK, LINE};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// A block of metadata.
pub(crate) struct Buffer {
    pub data: Box<[u8; BLOCK]>,
    /// Lines that the running batch changes.
    pub dirty: u64,
    /// The last batch that changed it.
    pub batch: u64,
    is_referenced: bool,
    /// It stays: bitmaps.
    is_pinned: bool,
}

/// The blocks.
pub(crate) struct Blocks {
    map: FxHashMap<BlockNo, Buffer>,
    /// Those that may go, in the order of the clock's hand.
    clock: VecDeque<BlockNo>,
    most: usize,
    /// Those that are on their way from the device.
    coming: FxHashSet<BlockNo>,
}

impl Blocks {
    /// None yet, and so many at most, but for those that must stay.
    pub fn new(most: usize) -> Self {
        Self {
            map: FxHashMap::default(),
            clock: VecDeque::new(),
            most,
            coming: FxHashSet::default(),
        }
    }

    pub fn get(&mut self, block: BlockNo) -> Option<&Buffer> {
        let buffer = self.map.get_mut(&block)?;
        buffer.is_referenced = true;
        Some(buffer)
    }

    pub fn get_mut(&mut self, block: BlockNo) -> Option<&mut Buffer> {
        self.map.get_mut(&block)
    }

    pub fn contains(&self, block: BlockNo) -> bool {
        self.map.contains_key(&block)
    }

    /// Adds a block as the device has it; `committed` is the last batch that it has.
    pub fn insert(&mut self, block: BlockNo, data: Box<[u8; BLOCK]>, pin: bool, committed: u64) {
        let buffer = Buffer {
            data,
            dirty: 0,
            batch: 0,
            is_referenced: true,
            is_pinned: pin,
        };
        self.coming.remove(&block);
        if self.map.insert(block, buffer).is_none() && !pin {
            self.clock.push_back(block);
            self.shrink(committed);
        }
    }

    /// Forgets a block that is none of the file system's any more.
    pub fn forget(&mut self, block: BlockNo) {
        self.coming.remove(&block);
        self.map.remove(&block);
    }

    /// A block is asked for from the device.
    pub fn expect(&mut self, block: BlockNo) {
        self.coming.insert(block);
    }

    /// The block has come. Of one that was forgotten or made anew meanwhile it is too old.
    pub fn arrive(&mut self, block: BlockNo, data: Box<[u8; BLOCK]>, committed: u64) {
        if self.coming.remove(&block) && !self.contains(block) {
            self.insert(block, data, false, committed);
        }
    }

    /// The block does not come.
    pub fn give_up(&mut self, block: BlockNo) {
        self.coming.remove(&block);
    }

    fn shrink(&mut self, committed: u64) {
        let mut steps = self.clock.len();
        while self.clock.len() > self.most && steps > 0 {
            steps -= 1;
            let Some(block) = self.clock.pop_front() else {
                return;
            };
            let Some(buffer) = self.map.get_mut(&block) else {
                continue;
            };
            // What the device has not is nowhere else.
            if buffer.dirty != 0 || buffer.batch > committed || buffer.is_referenced {
                buffer.is_referenced = false;
                self.clock.push_back(block);
            } else if !buffer.is_pinned {
                self.map.remove(&block);
            }
        }
    }
}

/// The bytes of a line.
pub(crate) fn line_of(data: &[u8; BLOCK], line: usize) -> [u8; LINE] {
    let mut out = [0; LINE];
    out.copy_from_slice(&data[line * LINE..(line + 1) * LINE]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forgotten_or_made_anew_on_its_way_is_too_old() {
        const BLOCKS: [BlockNo; 3] = [BlockNo(7), BlockNo(8), BlockNo(9)];
        let mut blocks = Blocks::new(8);
        BLOCKS.iter().for_each(|block| blocks.expect(*block));
        blocks.forget(BLOCKS[0]);
        blocks.insert(BLOCKS[1], Box::new([1; BLOCK]), false, 0);
        for block in BLOCKS {
            blocks.arrive(block, Box::new([2; BLOCK]), 0);
        }
        let found = BLOCKS.map(|block| blocks.get(block).map(|buffer| buffer.data[0]));
        assert_eq!(found, [None, Some(1), Some(2)]);
        blocks.give_up(BLOCKS[2]);
        assert!(blocks.contains(BLOCKS[2]), "it had come");
    }
}
