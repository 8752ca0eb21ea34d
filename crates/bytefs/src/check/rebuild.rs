//! Builds directories anew whose blocks do not fit together, from the names that were found in
//! them: in blocks that nobody has, so that the old ones stay until the inode leads to the new
//! ones.

use super::repair::write;
use super::walk::{Name, Walk};
use crate::MountError;
use crate::dir::OVERFLOW;
use crate::layout::{
    self, BLOCK, Entry, Extent, Inode, LINE, LINES, SLOTS_OF_BLOCK, SLOTS_OF_INODE, bucket_of,
    put_u32, seal, span_of,
};
use crate::{BlockNo, Ino};
use port::Device;
use std::collections::BTreeMap;

/// Lines of a bucket that its names take on average: what is more than fits goes behind it.
const LINES_OF_BUCKET: usize = LINES * 2 / 3;

/// A page of a directory: its number and what it holds.
type Page = (u64, Box<[u8; BLOCK]>);

/// A directory that is written, but that no inode leads to yet.
pub(super) struct Built {
    buckets: u32,
    overflows: u32,
    slots: [Option<Extent>; SLOTS_OF_INODE],
    first_list: u32,
    pub blocks: Vec<BlockNo>,
}

impl Built {
    /// Has an inode lead to it.
    pub fn put(&self, inode: &mut Inode) {
        inode.buckets = self.buckets;
        inode.overflows = self.overflows;
        inode.slots = self.slots;
        inode.extents_or_rdev = self.first_list;
    }
}

/// Writes all directories that are to be built anew. One for which there is no room stays as it is,
/// and comes back.
pub(super) async fn directories<D: Device>(
    walk: &mut Walk<'_, D>,
) -> Result<(BTreeMap<Ino, Built>, Vec<Ino>), MountError> {
    let mut free = free_blocks(walk);
    let (mut built, mut without) = (BTreeMap::new(), Vec::new());
    for (ino, names) in core::mem::take(&mut walk.rebuilt) {
        let seed = walk.superblock.hash_seed();
        let (buckets, pages) = pages_of(&names, seed);
        let overflows = pages.len() as u32 - buckets;
        let lists = pages.len().saturating_sub(SLOTS_OF_INODE);
        let most = pages.len() + lists.div_ceil(SLOTS_OF_BLOCK);
        if free.len() < most {
            without.push(ino);
            continue;
        }
        let mut blocks: Vec<BlockNo> = Vec::new();
        let mut extents: Vec<Extent> = Vec::new();
        for (page, bytes) in &pages {
            let Some(block) = free.pop() else { break };
            write(walk, block, &bytes[..]).await?;
            blocks.push(block);
            match extents.last_mut() {
                Some(last) if last.end() == *page && last.block_of(*page) == block => {
                    last.count += 1;
                }
                _ => extents.push(Extent {
                    page: *page,
                    block,
                    count: 1,
                    is_written: true,
                }),
            }
        }
        let (of_inode, of_lists) = extents.split_at(extents.len().min(SLOTS_OF_INODE));
        let mut first_list = 0;
        for part in of_lists.chunks(SLOTS_OF_BLOCK) {
            let Some(block) = free.pop() else { break };
            let mut bytes = [0; BLOCK];
            put_u32(&mut bytes, 0, first_list);
            seal(&mut bytes[..LINE]);
            let slots = bytes[LINE..].chunks_exact_mut(Extent::BYTES);
            for (slot, extent) in slots.zip(part) {
                slot.copy_from_slice(&extent.encode());
            }
            write(walk, block, &bytes).await?;
            blocks.push(block);
            first_list = block.0;
        }
        let mut slots = [None; SLOTS_OF_INODE];
        for (slot, extent) in slots.iter_mut().zip(of_inode) {
            *slot = Some(*extent);
        }
        let done = Built {
            buckets,
            overflows,
            slots,
            first_list,
            blocks,
        };
        built.insert(ino, done);
    }
    Ok((built, without))
}

/// Blocks of files that nobody has, the first one last.
fn free_blocks<D: Device>(walk: &Walk<'_, D>) -> Vec<BlockNo> {
    let files = walk.geometry.files.clone().rev();
    let free = files.filter(|block| !walk.owners.contains_key(block));
    free.map(BlockNo).collect()
}

/// How many buckets, and all pages: buckets, and those behind full ones.
fn pages_of(names: &[Name], seed: u64) -> (u32, Vec<Page>) {
    let lines: usize = names.iter().map(|(name, ..)| span_of(name.len())).sum();
    let buckets = lines.div_ceil(LINES_OF_BUCKET) as u32;
    let mut pages: Vec<Page> = Vec::new();
    pages.extend((0..u64::from(buckets)).map(|page| (page, Box::new([0; BLOCK]))));
    // By bucket: its last page among all, and the next free line of that.
    let mut ends: Vec<(usize, usize)> = (0..buckets as usize).map(|page| (page, 1)).collect();
    for (name, ino, kind) in names {
        let (ino, kind) = (*ino, *kind);
        let bucket = bucket_of(layout::hash(seed, name), buckets) as usize;
        let (page, line) = &mut ends[bucket];
        let span = span_of(name.len());
        if *line + span > LINES {
            let number = (pages.len() - buckets as usize) as u32 + 1;
            let head = &mut pages[*page].1[..LINE];
            put_u32(head, 0, number);
            seal(head);
            (*page, *line) = (pages.len(), 1);
            pages.push((OVERFLOW + u64::from(number) - 1, Box::new([0; BLOCK])));
        }
        let mut bytes = Vec::new();
        Entry { ino, kind, name }.encode(&mut bytes);
        pages[*page].1[*line * LINE..][..bytes.len()].copy_from_slice(&bytes);
        *line += span;
    }
    (buckets, pages)
}
