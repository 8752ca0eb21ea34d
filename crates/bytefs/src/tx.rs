//! An operation on metadata: all of it or nothing, at one moment.
//!
//! It runs on the host's copy under the lock, without waiting. Where it needs what the host has not
//! yet, it ends with [`Stop`], everything that it changed is taken back, and it is run again when
//! that is there. So no operation sees half of another one and none holds a lock while it waits.

use crate::journal::contents::ContentRecords;
use crate::layout::{
    self, BITS_PER_LINE, BLOCK, Geometry, INODE_BYTES, Inode, LINE, Torn, bit_place,
};
use crate::state::State;
use crate::state::blocks::line_of;
use crate::state::extents::Extents;
use crate::state::node::Node;
use crate::{BlockNo, FsError, Ino};
use std::ops::Range;

/// Why an operation did not come to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// It needs a block of metadata; others are likely to be needed soon, and may come along.
    Miss(BlockNo, Vec<BlockNo>),
    /// It needs `least` blocks that read as zeroes; better are `many`, behind each other.
    Fresh { least: usize, many: usize },
    /// The running batch is full.
    Full,
    /// It is refused.
    Error(FsError),
    /// What is on the device contradicts itself: nothing may be changed any more.
    Damaged(String),
}

impl From<FsError> for Stop {
    fn from(error: FsError) -> Self {
        Self::Error(error)
    }
}

pub(crate) type Done<T> = Result<T, Stop>;

enum Undo {
    /// A line of metadata was changed: what it was, and whether the batch had it and its block.
    Line(BlockNo, u8, [u8; LINE], bool, bool),
    TookFresh(BlockNo),
    TookInode(u32),
    GaveInode(u32),
    Orphans(Vec<Ino>),
}

/// Blocks that are made ready at a time, unless a directory asks for more.
pub(crate) const USUAL_FRESH: usize = 64;
/// A directory asks for such a part of its pages.
const RUNS_OF_DIRECTORY: usize = 4;

/// Blocks of metadata beside each other that are read together: as many as Ext4 reads of its table
/// of inodes (`inode_readahead_blks`).
const WINDOW: u32 = 32;
/// So many of them are there before the others are read.
const WANTED: usize = 2;

/// Blocks of metadata that one operation changes at most.
pub(crate) const MOST_BLOCKS: usize = 160;

/// A part of a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub part: usize,
    pub whole: usize,
}

/// An operation under way.
pub(crate) struct Tx<'s> {
    pub state: &'s mut State,
    /// Blocks that it leaves to who has to write back.
    margin: u32,
    undo: Vec<Undo>,
    /// Inodes whose extents were changed.
    touched: Vec<Ino>,
    freed: Vec<(BlockNo, bool)>,
    /// Inodes that are none any more.
    gone: Vec<Ino>,
}

impl<'s> Tx<'s> {
    pub fn new(state: &'s mut State, margin: u32) -> Self {
        Self {
            state,
            margin,
            undo: Vec::new(),
            touched: Vec::new(),
            freed: Vec::new(),
            gone: Vec::new(),
        }
    }

    /// It has come to its end.
    pub fn finish(self) {
        for (block, was_metadata) in self.freed {
            if was_metadata {
                self.state.blocks.forget(block);
            }
            self.state.pending_free += 1;
            self.state.batch.free(block, was_metadata);
        }
        let batch = self.state.batch.id;
        for ino in self.gone {
            let reserved = self.state.reserved;
            self.state.drop_node(ino);
            if let Some(pmem) = &mut self.state.pmem
                && pmem.remove(ino, batch)
            {
                let given = reserved - self.state.reserved;
                self.state.keep_until_durable(given);
            }
        }
    }

    /// Takes everything back.
    pub fn roll_back(self) {
        for step in self.undo.into_iter().rev() {
            match step {
                Undo::Line(block, line, old, was_dirty, was_first) => {
                    let Some(buffer) = self.state.blocks.get_mut(block) else {
                        continue;
                    };
                    let at = usize::from(line) * LINE;
                    buffer.data[at..at + LINE].copy_from_slice(&old);
                    if !was_dirty {
                        buffer.dirty &= !(1 << line);
                        self.state.batch.unmark(block, was_first);
                    }
                }
                Undo::TookFresh(block) => {
                    self.state.blocks.forget(block);
                    self.state.fresh.push_front(block);
                }
                Undo::TookInode(number) => self.state.inodes.give(number),
                Undo::GaveInode(number) => self.state.inodes.take(number),
                Undo::Orphans(old) => self.state.orphans = old,
            }
        }
        for ino in self.touched {
            if let Some(node) = self.state.nodes.get_mut(&ino) {
                node.extents = None;
            }
        }
    }

    pub fn geometry(&self) -> &Geometry {
        &self.state.geometry
    }

    /// A block of metadata.
    pub fn block(&mut self, block: BlockNo) -> Done<&[u8; BLOCK]> {
        match self.state.blocks.get(block) {
            Some(buffer) => Ok(&buffer.data),
            None => Err(Stop::Miss(block, Vec::new())),
        }
    }

    /// A block of the table of inodes.
    fn inode_block(&mut self, block: BlockNo) -> Done<&[u8; BLOCK]> {
        if self.state.blocks.contains(block) {
            return self.block(block);
        }
        Err(Stop::Miss(block, self.around(block).map(BlockNo).collect()))
    }

    /// Blocks around a missing one that are likely to be wanted: all of its window if some of them
    /// were. Who asks for one here and one there gets no more than that.
    pub fn around(&self, block: BlockNo) -> Range<u32> {
        let Geometry {
            inode_table, files, ..
        } = &self.state.geometry;
        let area = match files.contains(&block.0) {
            true => files,
            false => inode_table,
        };
        let first = block.0 - block.0.saturating_sub(area.start) % WINDOW;
        let window = first..first.saturating_add(WINDOW).min(area.end);
        let is_here = |other: &u32| self.state.blocks.contains(BlockNo(*other));
        let wanted = || window.clone().filter(is_here).take(WANTED).count();
        match self.state.reads_ahead && wanted() == WANTED {
            true => window,
            false => first..first,
        }
    }

    /// Changes bytes of a block of metadata: of whole lines.
    pub fn write(&mut self, block: BlockNo, at: usize, bytes: &[u8]) -> Done<()> {
        debug_assert!(at.is_multiple_of(LINE) && bytes.len().is_multiple_of(LINE));
        let batch = self.state.batch.id;
        let Some(buffer) = self.state.blocks.get_mut(block) else {
            return Err(Stop::Miss(block, Vec::new()));
        };
        for (line, new) in (at / LINE..).zip(bytes.chunks_exact(LINE)) {
            let old = line_of(&buffer.data, line);
            if old == *new {
                continue;
            }
            let (was_dirty, is_first) = (buffer.dirty >> line & 1 == 1, buffer.dirty == 0);
            self.undo
                .push(Undo::Line(block, line as u8, old, was_dirty, is_first));
            buffer.data[line * LINE..(line + 1) * LINE].copy_from_slice(new);
            buffer.batch = batch.0;
            if !was_dirty {
                buffer.dirty |= 1 << line;
                self.state.batch.mark(block, is_first, line, old);
            }
        }
        Ok(())
    }

    fn set_bits(&mut self, area: u32, numbers: Range<u32>, value: bool) -> Done<()> {
        let mut next = numbers.start;
        while next < numbers.end {
            let (block, line, first) = bit_place(next);
            let block = BlockNo(area + block);
            let count = (BITS_PER_LINE - first).min(numbers.end - next);
            let mut bytes = line_of(self.block(block)?, line);
            for bit in first..first + count {
                if layout::is_set(&bytes, bit) == value {
                    let what = format!("the bitmap in {block}, bit {}", next + bit - first);
                    return Err(Stop::Damaged(what));
                }
                layout::set(&mut bytes, bit, value);
            }
            layout::seal_bits(&mut bytes);
            self.write(block, line * LINE, &bytes)?;
            next += count;
        }
        Ok(())
    }

    /// Says on the device that blocks are in use. They were taken before.
    pub fn claim(&mut self, blocks: Range<u32>) -> Done<()> {
        let area = self.geometry().block_bitmap.start;
        self.set_bits(area, blocks, true)
    }

    /// Gives blocks back; they are free when the batch is durable.
    pub fn release(&mut self, blocks: Range<u32>, was_metadata: bool) -> Done<()> {
        let files = self.geometry().files.clone();
        if blocks.start < files.start || blocks.end > files.end {
            return Err(Stop::Damaged(format!(
                "a pointer to block {}",
                blocks.start
            )));
        }
        let area = self.geometry().block_bitmap.start;
        self.set_bits(area, blocks.clone(), false)?;
        let blocks = blocks.map(|block| (BlockNo(block), was_metadata));
        self.freed.extend(blocks);
        Ok(())
    }

    /// A block of zeroes for metadata, or for lines of data. Where more are ready than usual a
    /// directory has asked for them: they are taken from their end, so as not to break its runs.
    pub fn take_fresh(&mut self, is_metadata: bool) -> Done<BlockNo> {
        let ready = self.state.fresh.len();
        let place = if ready > USUAL_FRESH { ready - 1 } else { 0 };
        self.take_fresh_at(place, is_metadata, 0)
    }

    /// A block of zeroes for a page of a directory of so many pages: the one that goes on where the
    /// page before it ends, if it is ready. Blocks behind full buckets begin apart from the
    /// buckets, behind the part of those that are ready that `apart` says, so that both are runs;
    /// and as many are made ready at a time as are a quarter of the directory, so that a large one
    /// has few runs: all extents are read before the first name is found.
    pub fn take_fresh_for(
        &mut self,
        goal: Option<BlockNo>,
        apart: Option<Share>,
        pages: usize,
    ) -> Done<BlockNo> {
        let ready = &self.state.fresh;
        let next = goal.and_then(|goal| ready.iter().position(|block| *block == goal));
        let place = next.unwrap_or(match apart {
            Some(Share { part, whole }) => {
                (ready.len() * part / whole.max(1)).min(ready.len().saturating_sub(1))
            }
            None => 0,
        });
        self.take_fresh_at(place, true, pages / RUNS_OF_DIRECTORY)
    }

    /// The block at a place among those that are ready; where none is, `many` are made ready.
    fn take_fresh_at(&mut self, place: usize, is_metadata: bool, many: usize) -> Done<BlockNo> {
        if self.margin > 0 && self.state.unreserved() <= self.margin {
            return Err(self.no_space());
        }
        let Some(block) = self.state.fresh.remove(place) else {
            let taken = self
                .undo
                .iter()
                .filter(|step| matches!(step, Undo::TookFresh(_)));
            return Err(Stop::Fresh {
                least: taken.count() + 1,
                many,
            });
        };
        self.undo.push(Undo::TookFresh(block));
        if is_metadata {
            let committed = self.state.committed.0;
            let zeroes = Box::new([0; BLOCK]);
            self.state.blocks.insert(block, zeroes, false, committed);
        }
        self.claim(block.0..block.0 + 1)?;
        Ok(block)
    }

    /// There is no room, unless there is some when what was freed is free, which it is once that is
    /// durable.
    fn no_space(&self) -> Stop {
        match self.state.pending_free {
            0 => FsError::NoSpace.into(),
            _ => Stop::Full,
        }
    }

    /// An inode in use.
    pub fn inode(&mut self, ino: Ino) -> Done<Inode> {
        if ino == Ino::NONE || ino.0 > self.geometry().inodes {
            return Err(FsError::Stale.into());
        }
        let (block, at) = self.geometry().inode_place(ino);
        match Inode::decode(&self.inode_block(block)?[at..at + INODE_BYTES]) {
            Ok(Some(inode)) => Ok(inode),
            Ok(None) => Err(FsError::Stale.into()),
            Err(Torn) => Err(Stop::Damaged(ino.to_string())),
        }
    }

    /// Changes an inode.
    pub fn put_inode(&mut self, ino: Ino, inode: &Inode) -> Done<()> {
        let (block, at) = self.geometry().inode_place(ino);
        let (steps, batch) = (self.undo.len(), self.state.batch.id);
        self.write(block, at, &inode.encode())?;
        let is_changed = self.undo.len() > steps;
        if let Some(pmem) = self.state.pmem.as_mut().filter(|_| is_changed) {
            pmem.note_batch(ino, batch);
        }
        Ok(())
    }

    /// A free inode's number, and how often it was given with this time.
    pub fn take_inode(&mut self, core: u32) -> Done<(Ino, u32)> {
        if self.state.segments.is_some() && self.state.unreserved() <= crate::fs::MARGIN {
            return Err(self.no_space());
        }
        let Some(run) = self.state.inodes.take_run(None, core, 1) else {
            return Err(FsError::NoInodes.into());
        };
        let ino = Ino(run.start);
        self.undo.push(Undo::TookInode(run.start));
        let (block, at) = self.geometry().inode_place(ino);
        let generation = match self.state.segments {
            // Nothing is left of an inode that was here before, and nothing needs be read.
            Some(_) => {
                if !self.state.blocks.contains(block) {
                    let committed = self.state.committed.0;
                    let zeroes = Box::new([0; BLOCK]);
                    self.state.blocks.insert(block, zeroes, false, committed);
                }
                self.state.generation = self.state.generation.wrapping_add(1);
                self.state.generation
            }
            None => Inode::generation_of(&self.inode_block(block)?[at..at + INODE_BYTES]),
        };
        let area = self.geometry().inode_bitmap.start;
        self.set_bits(area, run, true)?;
        Ok((ino, generation.wrapping_add(1)))
    }

    /// Gives an inode back.
    pub fn free_inode(&mut self, ino: Ino, generation: u32) -> Done<()> {
        let (block, at) = self.geometry().inode_place(ino);
        // One that has a block for itself has none any more: it reads as zeroes.
        let free = match self.state.segments {
            Some(_) => [0; INODE_BYTES],
            None => Inode::free(generation),
        };
        self.write(block, at, &free)?;
        let area = self.geometry().inode_bitmap.start;
        self.set_bits(area, ino.0..ino.0 + 1, false)?;
        self.state.inodes.give(ino.0);
        self.undo.push(Undo::GaveInode(ino.0));
        Ok(())
    }

    /// The extents of an inode, read if they were not.
    pub fn extents(&mut self, ino: Ino, inode: &Inode) -> Done<&mut Extents> {
        let is_known = self
            .state
            .nodes
            .get(&ino)
            .is_some_and(|node| node.extents.is_some());
        if !is_known {
            let extents = Extents::load(self, ino, inode)?;
            self.node(ino, inode).extents = Some(extents);
        }
        match self.node(ino, inode).extents {
            Some(ref mut extents) => Ok(extents),
            None => unreachable!("just read"),
        }
    }

    /// As [`Tx::extents`], to be changed.
    pub fn extents_mut(&mut self, ino: Ino, inode: &Inode) -> Done<&mut Extents> {
        self.touched.push(ino);
        self.extents(ino, inode)
    }

    /// What the host knows of an inode beside its bytes.
    pub fn node(&mut self, ino: Ino, inode: &Inode) -> &mut Node {
        let node = self.state.nodes.entry(ino);
        node.or_insert_with(|| Node::new(inode))
    }

    /// What the host knows of an inode goes when the operation has come to its end.
    pub fn forget_when_done(&mut self, ino: Ino) {
        self.gone.push(ino);
    }

    /// Puts an inode on the list of those without a name, or takes it off.
    pub fn set_orphan(&mut self, ino: Ino, inode: &mut Inode, is_orphan: bool) -> Done<()> {
        let old = self.state.orphans.clone();
        if is_orphan {
            inode.next_orphan = old.first().copied().unwrap_or(Ino::NONE);
            self.put_first_orphan(ino)?;
            self.undo.push(Undo::Orphans(old));
            self.state.orphans.insert(0, ino);
            return Ok(());
        }
        let Some(place) = old.iter().position(|other| *other == ino) else {
            return Ok(());
        };
        match place.checked_sub(1).map(|before| old[before]) {
            None => self.put_first_orphan(inode.next_orphan)?,
            Some(before) => {
                let mut other = self.inode(before)?;
                other.next_orphan = inode.next_orphan;
                self.put_inode(before, &other)?;
            }
        }
        inode.next_orphan = Ino::NONE;
        self.undo.push(Undo::Orphans(old));
        self.state.orphans.remove(place);
        Ok(())
    }

    fn put_first_orphan(&mut self, ino: Ino) -> Done<()> {
        let mut line = line_of(self.block(layout::STATE_BLOCK)?, 0);
        layout::put_u32(&mut line, 0, ino.0);
        layout::seal(&mut line);
        self.write(layout::STATE_BLOCK, 0, &line)
    }

    /// Refuses to go on if the running batch, or the record of its contents, has no room for so
    /// many blocks of contents and lines more.
    pub fn need_record_room(&self, blocks: usize, lines: usize) -> Done<()> {
        let room = self.state.records.as_ref().map_or(0, ContentRecords::room);
        if self.state.batch.contents() + blocks > room && !self.state.batch.is_empty() {
            return Err(Stop::Full);
        }
        self.need_room(lines)
    }

    /// Refuses to go on if the running batch has no room for so many lines more.
    pub fn need_room(&self, lines: usize) -> Done<()> {
        let batch = &self.state.batch;
        let used = match self.state.writes_blocks {
            // Lines of one operation are in few blocks.
            true => {
                // With segments, blocks that only records have are written with the next ones.
                let waiting = match self.state.segments {
                    Some(_) => self.state.checkpoint.len(),
                    None => 0,
                };
                if waiting > 0 && waiting + MOST_BLOCKS > self.state.batch_most {
                    return Err(Stop::Full);
                }
                batch.blocks() + waiting + lines.min(MOST_BLOCKS)
            }
            false => batch.lines() + lines,
        };
        let has_room = used <= self.state.batch_most;
        if has_room || self.state.batch.is_empty() {
            return Ok(());
        }
        Err(Stop::Full)
    }
}
