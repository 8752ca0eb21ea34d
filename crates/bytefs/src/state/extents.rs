//! The extents of an inode: sorted on the host, in slots in any order on the device.
//!
//! Slots lie in the inode and in a list of blocks. The host always has all of an inode's, so no
//! index of them is kept on the device: one change writes one slot, which is one line.

use crate::layout::Inode;
use crate::layout::{Extent, LINE, SLOTS_OF_BLOCK, Torn, get_u32, is_sealed, put_u32, seal};
use crate::state::blocks::line_of;
use crate::tx::{Done, Stop, Tx};
use crate::{BlockNo, FsError, Ino};
use std::ops::Range;

/// Where an extent is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    Inode(usize),
    Block(BlockNo, usize),
}

/// The extents, by page.
#[derive(Clone, Default, Debug)]
pub(crate) struct Extents {
    sorted: Vec<(Extent, Slot)>,
    /// Free slots, the next one last.
    free: Vec<Slot>,
    /// Blocks of slots.
    pub chain: Vec<BlockNo>,
}

/// Extents of pages that are asked for in ascending order: neighbours share a search.
pub(crate) struct Ascending<'e> {
    last: Option<Extent>,
    /// From the last one on.
    rest: &'e [(Extent, Slot)],
}

impl Ascending<'_> {
    /// The extent that holds a page.
    pub fn find(&mut self, page: u64) -> Option<Extent> {
        if self.last.is_none_or(|last| last.end() <= page) {
            let behind = self
                .rest
                .partition_point(|(extent, _)| extent.end() <= page);
            self.rest = &self.rest[behind..];
            self.last = self.rest.first().map(|(extent, _)| *extent);
        }
        self.last.filter(|extent| extent.page <= page)
    }
}

impl Extents {
    /// Reads those of an inode.
    pub fn load(tx: &mut Tx<'_>, ino: Ino, inode: &Inode) -> Done<Self> {
        let mut found = Self::default();
        let damaged = |what: &str| Stop::Damaged(format!("{what} of {ino}"));
        // First the list alone: where a block is missing, all begins anew when it is there, and
        // what was decoded before would have been in vain each time.
        let mut next = inode.extent_block();
        // Whoever goes round in a circle meets one of these again.
        let mut mark = None;
        while let Some(block) = next {
            if !tx.geometry().files.contains(&block.0) || mark == Some(block) {
                return Err(damaged("the list of extents"));
            }
            if found.chain.len().is_power_of_two() {
                mark = Some(block);
            }
            let data = tx.block(block)?;
            if !is_sealed(&data[..LINE]) {
                return Err(damaged("the head of extents"));
            }
            next = Some(BlockNo(get_u32(data, 0))).filter(|block| block.0 != 0);
            found.chain.push(block);
            tx.state.own(ino, block);
        }
        for at in 0..found.chain.len() {
            let block = found.chain[at];
            let data = tx.block(block)?;
            for index in (0..SLOTS_OF_BLOCK).rev() {
                let at = LINE + index * Extent::BYTES;
                let extent = Extent::decode(&data[at..at + Extent::BYTES]);
                let extent = extent.map_err(|Torn| damaged("an extent"))?;
                found.note(extent, Slot::Block(block, index));
            }
        }
        for (index, extent) in inode.slots.iter().enumerate().rev() {
            found.note(*extent, Slot::Inode(index));
        }
        found.sorted.sort_unstable_by_key(|(extent, _)| extent.page);
        let files = &tx.state.geometry.files;
        let is_within = |extent: &Extent| {
            let end = extent.block.0.checked_add(extent.count);
            extent.block.0 >= files.start && end.is_some_and(|end| end <= files.end)
        };
        let overlaps = found
            .sorted
            .windows(2)
            .any(|two| two[0].0.end() > two[1].0.page);
        if overlaps || !found.sorted.iter().all(|(extent, _)| is_within(extent)) {
            return Err(damaged("the extents"));
        }
        Ok(found)
    }

    fn note(&mut self, extent: Option<Extent>, slot: Slot) {
        match extent {
            Some(extent) => self.sorted.push((extent, slot)),
            None => self.free.push(slot),
        }
    }

    /// All of them, by page.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Extent> {
        self.sorted.iter().map(|(extent, _)| extent)
    }

    /// Slots that nothing is in.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The extent that holds a page.
    pub fn find(&self, page: u64) -> Option<Extent> {
        let behind = self
            .sorted
            .partition_point(|(extent, _)| extent.page <= page);
        let extent = self.sorted[..behind].last()?.0;
        (page < extent.end()).then_some(extent)
    }

    /// Finds those of pages that are asked for in ascending order.
    pub fn ascending(&self) -> Ascending<'_> {
        Ascending {
            last: None,
            rest: &self.sorted,
        }
    }

    /// The first extent that holds a page from `page` on.
    pub fn next(&self, page: u64) -> Option<Extent> {
        let at = self
            .sorted
            .partition_point(|(extent, _)| extent.end() <= page);
        self.sorted.get(at).map(|(extent, _)| *extent)
    }

    /// Where a file's next block is best put.
    pub fn goal(&self, page: u64) -> Option<u32> {
        let behind = self
            .sorted
            .partition_point(|(extent, _)| extent.page <= page);
        let extent = self.sorted[..behind].last()?.0;
        Some(extent.block.0 + extent.count)
    }
}

impl Tx<'_> {
    fn put_slot(&mut self, inode: &mut Inode, slot: Slot, extent: Option<Extent>) -> Done<()> {
        match slot {
            Slot::Inode(index) => {
                inode.slots[index] = extent;
                Ok(())
            }
            Slot::Block(block, index) => {
                let at = LINE + index * Extent::BYTES;
                let line = at / LINE;
                let mut bytes = line_of(self.block(block)?, line);
                let encoded = extent.map_or([0; Extent::BYTES], |extent| extent.encode());
                bytes[at % LINE..at % LINE + Extent::BYTES].copy_from_slice(&encoded);
                self.write(block, line * LINE, &bytes)
            }
        }
    }

    /// Adds an extent where there is none. The inode is to be put afterwards.
    pub fn add_extent(&mut self, ino: Ino, inode: &mut Inode, new: Extent) -> Done<()> {
        let extents = self.extents_mut(ino, inode)?;
        let at = extents
            .sorted
            .partition_point(|(extent, _)| extent.page < new.page);
        inode.blocks += new.count;
        if let Some((before, slot)) = at.checked_sub(1).map(|at| extents.sorted[at])
            && before.end() == new.page
            && before.block.0 + before.count == new.block.0
            && before.is_written == new.is_written
            && before.count + new.count < 1 << 30
        {
            let joined = Extent {
                count: before.count + new.count,
                ..before
            };
            extents.sorted[at - 1].0 = joined;
            return self.put_slot(inode, slot, Some(joined));
        }
        let slot = match extents.free.pop() {
            Some(slot) => slot,
            None => self.grow(ino, inode)?,
        };
        let extents = self.extents_mut(ino, inode)?;
        extents.sorted.insert(at, (new, slot));
        self.put_slot(inode, slot, Some(new))
    }

    /// Another block of slots; gives one of them.
    fn grow(&mut self, ino: Ino, inode: &mut Inode) -> Done<Slot> {
        let block = self.take_fresh(true)?;
        self.state.own(ino, block);
        let mut head = [0; LINE];
        put_u32(&mut head, 0, inode.extents_or_rdev);
        seal(&mut head);
        self.write(block, 0, &head)?;
        inode.extents_or_rdev = block.0;
        inode.blocks += 1;
        let extents = self.extents_mut(ino, inode)?;
        extents.chain.insert(0, block);
        let slots = (1..SLOTS_OF_BLOCK).rev();
        extents
            .free
            .extend(slots.map(|index| Slot::Block(block, index)));
        Ok(Slot::Block(block, 0))
    }

    /// Takes pages out of an inode and gives their blocks. The inode is to be put afterwards.
    pub fn cut_extents(
        &mut self,
        ino: Ino,
        inode: &mut Inode,
        pages: Range<u64>,
    ) -> Done<Vec<Extent>> {
        let mut cut = Vec::new();
        loop {
            let extents = self.extents_mut(ino, inode)?;
            let at = extents
                .sorted
                .partition_point(|(extent, _)| extent.end() <= pages.start);
            let Some((extent, slot)) = extents.sorted.get(at).copied() else {
                break;
            };
            if extent.page >= pages.end {
                break;
            }
            let begin = extent.page.max(pages.start);
            let end = extent.end().min(pages.end);
            let part = |begin: u64, end: u64| Extent {
                page: begin,
                block: extent.block_of(begin),
                count: (end - begin) as u32,
                is_written: extent.is_written,
            };
            let before = (begin > extent.page).then(|| part(extent.page, begin));
            let behind = (end < extent.end()).then(|| part(end, extent.end()));
            cut.push(part(begin, end));
            inode.blocks = inode.blocks.saturating_sub((end - begin) as u32);
            match (before, behind) {
                (None, None) => {
                    extents.sorted.remove(at);
                    extents.free.push(slot);
                    self.put_slot(inode, slot, None)?;
                }
                (Some(rest), None) | (None, Some(rest)) => {
                    extents.sorted[at].0 = rest;
                    self.put_slot(inode, slot, Some(rest))?;
                }
                (Some(before), Some(behind)) => {
                    extents.sorted[at].0 = before;
                    self.put_slot(inode, slot, Some(before))?;
                    inode.blocks = inode.blocks.saturating_sub(behind.count);
                    self.add_extent(ino, inode, behind)?;
                }
            }
        }
        Ok(cut)
    }

    /// Gives the blocks of slots back, of an inode that has no extent left.
    pub fn free_chain(&mut self, ino: Ino, inode: &mut Inode) -> Done<()> {
        let extents = self.extents_mut(ino, inode)?;
        if !extents.sorted.is_empty() {
            return Err(FsError::Invalid("extents are left").into());
        }
        let chain = core::mem::take(&mut extents.chain);
        extents.free.retain(|slot| matches!(slot, Slot::Inode(_)));
        for block in &chain {
            self.release(block.0..block.0 + 1, true)?;
        }
        inode.blocks = inode.blocks.saturating_sub(chain.len() as u32);
        inode.extents_or_rdev = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Stream;

    /// Pages in ascending order are found as each of them is alone.
    #[test]
    fn pages_in_ascending_order_are_found_in_their_extents() {
        let mut random = Stream::new(1, "extents");
        for _ in 0..500 {
            let (mut extents, mut page) = (Extents::default(), 0);
            for slot in 0..random.below(6) {
                page += random.below(4);
                let extent = Extent {
                    page,
                    block: BlockNo(1000 + page as u32),
                    count: 1 + random.below(5) as u32,
                    is_written: random.below(2) == 0,
                };
                page = extent.end();
                extents.note(Some(extent), Slot::Inode(slot as usize));
            }
            let mut ascending = extents.ascending();
            for page in (0..page + 3).filter(|_| random.below(3) > 0) {
                let (found, alone) = (ascending.find(page), extents.find(page));
                assert_eq!(found, alone, "page {page} of {extents:?}");
            }
        }
    }
}
