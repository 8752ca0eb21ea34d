//! Sizes and blocks of files: cut, given, taken, looked for.

use super::FileSystem;
use super::MARGIN;
use super::data::{MOST_BYTES, killed};
use crate::layout::{BITS_PER_LINE, BLOCK, Extent};
use crate::state::State;
use crate::{Allocate, BlockNo, Caller, FileKind, FsError, Ino, Seek, Timestamp};
use port::{Clock, Device};

const PAGE: u64 = BLOCK as u64;
/// Extents that one step gives back.
const STEP_EXTENTS: usize = 128;
/// Blocks that one step gives back: so that its lines of bitmaps find room in a batch.
const STEP_BLOCKS: u64 = 128 * BITS_PER_LINE as u64;

/// A run of pages of a file and the blocks that hold them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedExtent {
    /// First page of 4 KiB.
    pub page: u64,
    /// First block.
    pub block: BlockNo,
    /// How many.
    pub count: u32,
    /// The blocks hold what was written; if not they read as zeroes.
    pub is_written: bool,
}

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Gives a file another size. Not all at once, if it gives back very many blocks: a power cut
    /// may leave a size in between.
    pub(super) async fn resize(
        &self,
        ino: Ino,
        size: u64,
        now: Timestamp,
        kills: bool,
    ) -> Result<(), FsError> {
        self.resize_within(ino, size, now, kills, false).await
    }

    /// As [`FileSystem::resize`]; or a file that is longer by then stays so, if it `only_grows`:
    /// the kernel's pages come without its lock.
    async fn resize_within(
        &self,
        ino: Ino,
        size: u64,
        now: Timestamp,
        kills: bool,
        only_grows: bool,
    ) -> Result<(), FsError> {
        if size > MOST_BYTES {
            return Err(FsError::TooLarge);
        }
        self.need_regular(ino).await?;
        let gate = match self.state().nodes.get(&ino) {
            Some(node) => node.gate.clone(),
            None => return Err(FsError::Stale),
        };
        let _passed = gate.pass().await;
        self.need_regular(ino).await?;
        let old = self.run(|tx| Ok(tx.size_of(ino).unwrap_or(0))).await?;
        if only_grows && size <= old {
            return self.touch(ino, now).await;
        }
        if size > old {
            // The tail of the old last page is zeroes from now on, on the device too.
            self.need_edges(ino, size, size).await?;
            if let Some(pmem) = &mut self.state().pmem {
                // The size goes with a batch.
                pmem.begin_write_back(ino);
            }
            dirty_tail(&mut self.state(), ino, now);
            self.write_back_within(ino).await?;
        } else {
            self.leave_pmem(ino, size / PAGE..u64::MAX).await?;
            if let Some(pmem) = &mut self.state().pmem {
                pmem.truncate(ino, size.div_ceil(PAGE));
            }
            // A size that the inode does not have yet is given to it with the bytes below it.
            self.settle_size(ino, size).await?;
            self.need_edges(ino, size, size).await?;
            let mut state = self.state();
            zero_tail(&mut state, ino, size);
            if let Some(mut node) = state.nodes.remove(&ino) {
                state.drop_pages(&mut node, size.div_ceil(PAGE)..u64::MAX);
                node.size = size;
                node.epoch.change_all();
                state.nodes.insert(ino, node);
            }
            if let Some(pmem) = &mut state.pmem {
                pmem.drop_pages(ino, size.div_ceil(PAGE)..u64::MAX);
            }
        }
        // Who grows a file keeps what was allocated behind the new end.
        let cuts = size <= old;
        self.cut(ino, size, cuts, |inode| {
            inode.mtime = now;
            inode.ctime = now;
            if let Some(permissions) = killed(inode.mode.permissions).filter(|_| kills) {
                inode.mode.permissions = permissions;
            }
        })
        .await?;
        self.end_write_back(ino, true);
        let mut state = self.state();
        let batch = state.batch.id;
        if let Some(node) = state.nodes.get_mut(&ino) {
            node.size = if cuts { size } else { node.size.max(size) };
            node.written = None;
            node.epoch.change_all();
            // The zeroes behind the end go to the device when the end is there: until then a power
            // cut leaves the file as it was.
            if let Some(page) = node.pages.get_mut(&(size / PAGE)) {
                page.batch = batch;
            }
        }
        Ok(())
    }

    /// Gives the inode the size that programs see, with the bytes below it, if it has neither that
    /// nor `enough`. The caller has passed the file's gate.
    async fn settle_size(&self, ino: Ino, enough: u64) -> Result<(), FsError> {
        let lacks = self
            .run(|tx| {
                let seen = tx.size_of(ino).unwrap_or(0);
                Ok(tx.inode(ino)?.size < seen.min(enough))
            })
            .await?;
        if lacks {
            self.write_back_within(ino).await?;
        }
        Ok(())
    }

    /// Sets a size; gives back what lies behind it, from the end on, if it `cuts`.
    async fn cut(
        &self,
        ino: Ino,
        size: u64,
        cuts: bool,
        mut last: impl FnMut(&mut crate::layout::Inode),
    ) -> Result<(), FsError> {
        loop {
            let is_done = self
                .change(256, |tx| {
                    let mut inode = tx.inode(ino)?;
                    let keep = size.div_ceil(PAGE);
                    let first = match cuts {
                        true => step_begin(tx.extents(ino, &inode)?, keep),
                        false => keep,
                    };
                    let behind = if cuts { first } else { u64::MAX };
                    let is_metadata = inode.mode.kind != FileKind::Regular;
                    for extent in tx.cut_extents(ino, &mut inode, behind..u64::MAX)? {
                        let blocks = extent.block.0..extent.block.0 + extent.count;
                        tx.release(blocks, is_metadata)?;
                    }
                    let is_done = first == keep;
                    // What is left beyond the new size must not be seen if this is the last step
                    // before a power cut.
                    inode.size = match is_done {
                        // Who writes behind the end meanwhile is not cut off.
                        true if !cuts => inode.size.max(size),
                        true => size,
                        false => inode.size.min(first * PAGE).max(size),
                    };
                    if is_done {
                        if size == 0 {
                            tx.free_chain(ino, &mut inode)?;
                        }
                        last(&mut inode);
                    }
                    tx.put_inode(ino, &inode)?;
                    Ok(is_done)
                })
                .await?;
            if is_done {
                return Ok(());
            }
        }
    }

    /// What is left to do for a file without names, if anything.
    pub(super) async fn purge_rest(&self, rest: Option<Ino>) -> Result<(), FsError> {
        match rest {
            Some(ino) => self.purge(ino).await,
            None => Ok(()),
        }
    }

    /// Removes a file without names that nobody has open.
    pub(super) async fn purge(&self, ino: Ino) -> Result<(), FsError> {
        let gate = self.state().nodes.get(&ino).map(|node| node.gate.clone());
        let _passed = match gate {
            Some(gate) => Some(gate.pass().await),
            None => None,
        };
        {
            let mut state = self.state();
            // Somebody else was quicker, or has it open again.
            let is_open = state.nodes.get(&ino).is_some_and(|node| node.opens > 0);
            if is_open || !state.orphans.contains(&ino) {
                return Ok(());
            }
            if let Some(mut node) = state.nodes.remove(&ino) {
                let reserved = state.reserved;
                state.drop_pages(&mut node, 0..u64::MAX);
                state.nodes.insert(ino, node);
                if state.has_frames(ino) {
                    let given = reserved - state.reserved;
                    state.keep_until_durable(given);
                }
            }
        }
        let has_many = self
            .run(|tx| {
                let inode = tx.inode(ino)?;
                Ok(inode.mode.kind == FileKind::Regular && inode.blocks > 0)
            })
            .await?;
        if has_many {
            self.cut(ino, 0, true, |_| {}).await?;
        }
        self.change(256, |tx| {
            let mut inode = tx.inode(ino)?;
            tx.erase(ino, &mut inode)
        })
        .await
    }

    /// Makes bytes of cached pages zero: of pages that are there, or that the device has.
    async fn zero_in_cache(
        &self,
        ino: Ino,
        from: u64,
        to: u64,
        now: Timestamp,
    ) -> Result<(), FsError> {
        self.need_edges(ino, from, to).await?;
        let mut state = self.state();
        let State {
            nodes, clock, pmem, ..
        } = &mut *state;
        let Some(node) = nodes.get_mut(&ino) else {
            return Ok(());
        };
        for at in [from / PAGE, to.saturating_sub(1) / PAGE] {
            let begin = from.max(at * PAGE);
            let end = to.min((at + 1) * PAGE);
            let Some(page) = node.pages.get_mut(&at).filter(|_| begin < end) else {
                continue;
            };
            let range = (begin - at * PAGE) as usize..(end - at * PAGE) as usize;
            if page.data[range.clone()].iter().all(|byte| *byte == 0) {
                continue;
            }
            clock.duplicates += usize::from(page.keep_original());
            page.bytes_mut()[range].fill(0);
            if node.dirty.is_empty() {
                node.dirty_since = now;
            }
            if node.dirty.insert(at) {
                clock.dirty += 1;
            }
            if let Some(pmem) = pmem {
                pmem.change(ino, begin, end - begin);
            }
        }
        Ok(())
    }

    /// Gives or takes blocks of a range of a file.
    ///
    /// # Errors
    /// It is no regular file; no room; too large.
    pub async fn fallocate(
        &self,
        caller: &Caller,
        ino: Ino,
        how: Allocate,
        at: u64,
        size: u64,
    ) -> Result<(), FsError> {
        self.spend(self.costs.operation).await;
        let end = at.checked_add(size).filter(|end| *end <= MOST_BYTES);
        let end = end.ok_or(FsError::TooLarge)?;
        if size == 0 {
            return Err(FsError::Invalid("a range of no bytes"));
        }
        self.writable()?;
        self.need_regular(ino).await?;
        let grows = matches!(how, Allocate::Grow | Allocate::ZeroRange);
        let old = self.run(|tx| Ok(tx.size_of(ino).unwrap_or(0))).await?;
        if matches!(
            how,
            Allocate::PunchHole | Allocate::ZeroRange | Allocate::ZeroRangeKeepSize
        ) {
            self.take_blocks(ino, at, end, caller.now).await?;
        }
        if !matches!(how, Allocate::PunchHole) {
            self.give_blocks(ino, at, end).await?;
        }
        if self.is_synchronous {
            // The ends of a range that became zeroes.
            self.settle(ino).await?;
        }
        if grows && end > old {
            return self.resize_within(ino, end, caller.now, false, true).await;
        }
        self.touch(ino, caller.now).await
    }

    /// Notes that a file has changed, and not its size.
    async fn touch(&self, ino: Ino, now: Timestamp) -> Result<(), FsError> {
        self.change(8, |tx| {
            let mut inode = tx.inode(ino)?;
            tx.put_times(ino, &mut inode);
            inode.mtime = now;
            inode.ctime = now;
            tx.put_inode(ino, &inode)
        })
        .await?;
        if let Some(node) = self.state().nodes.get_mut(&ino) {
            node.written = None;
        }
        Ok(())
    }

    /// Makes a range zeroes, without blocks where whole pages are.
    async fn take_blocks(
        &self,
        ino: Ino,
        at: u64,
        end: u64,
        now: Timestamp,
    ) -> Result<(), FsError> {
        let gate = match self.state().nodes.get(&ino) {
            Some(node) => node.gate.clone(),
            None => return Err(FsError::Stale),
        };
        let _passed = gate.pass().await;
        self.need_regular(ino).await?;
        let (first, last) = (at.div_ceil(PAGE), end / PAGE);
        self.leave_pmem(ino, at / PAGE..end.div_ceil(PAGE)).await?;
        // Pages that make the file longer are dropped below.
        self.settle_size(ino, u64::MAX).await?;
        let is_full = {
            let state = self.state();
            let most = state.dirty_most;
            let node = state.nodes.get(&ino);
            // Two more are dirty behind it.
            most.is_some_and(|most| node.is_some_and(|node| node.dirty.len() + 2 > most))
        };
        if is_full {
            self.write_back_within(ino).await?;
        }
        self.zero_in_cache(ino, at, end, now).await?;
        if first >= last {
            return Ok(());
        }
        loop {
            let is_done = self
                .change(256, |tx| {
                    let mut inode = tx.inode(ino)?;
                    let begin = step_begin_within(tx.extents(ino, &inode)?, first, last);
                    for extent in tx.cut_extents(ino, &mut inode, begin..last)? {
                        let blocks = extent.block.0..extent.block.0 + extent.count;
                        tx.release(blocks, false)?;
                    }
                    tx.put_inode(ino, &inode)?;
                    // Not before: where there is no room for what is split, what was written
                    // last stays. Who reads meanwhile may keep pages of the old blocks.
                    tx.state.forget_pages(ino, begin..last);
                    Ok(begin == first)
                })
                .await?;
            if is_done {
                break;
            }
        }
        self.end_write_back(ino, true);
        Ok(())
    }

    /// Gives blocks to the pages of a range that have none.
    async fn give_blocks(&self, ino: Ino, at: u64, end: u64) -> Result<(), FsError> {
        let gate = match self.state().nodes.get(&ino) {
            Some(node) => node.gate.clone(),
            None => return Err(FsError::Stale),
        };
        let _passed = gate.pass().await;
        self.need_regular(ino).await?;
        let mut next = at / PAGE;
        let last = end.div_ceil(PAGE);
        let mut may_place = true;
        while next < last {
            next = match self.give_some(ino, next, last).await? {
                Some(next) => next,
                // What waits in the range has its blocks promised already: once they are placed,
                // the range needs so many less.
                None if may_place => {
                    may_place = false;
                    self.write_back_within(ino).await?;
                    self.need_regular(ino).await?;
                    next
                }
                None => return Err(FsError::NoSpace),
            };
        }
        Ok(())
    }

    /// Gives the first hole of a range blocks that lie behind each other; says where to go on, or
    /// nothing if there is no room.
    async fn give_some(&self, ino: Ino, from: u64, last: u64) -> Result<Option<u64>, FsError> {
        self.need_regular(ino).await?;
        let taken = {
            let mut state = self.state();
            let room = state.unreserved();
            let State { nodes, space, .. } = &mut *state;
            let Some(extents) = nodes.get(&ino).and_then(|node| node.extents.as_ref()) else {
                return Ok(Some(from));
            };
            if let Some(extent) = extents.find(from) {
                return Ok(Some(extent.end()));
            }
            let hole = extents.next(from).map_or(last, |next| next.page.min(last));
            let wanted = (hole - from).min(STEP_BLOCKS) as u32;
            if wanted + MARGIN > room {
                None
            } else {
                space.take_run(extents.goal(from), ino.0, wanted)
            }
        };
        let Some(blocks) = taken else {
            if self.state().pending_free > 0 {
                self.commit().await?;
                return Ok(Some(from));
            }
            return Ok(None);
        };
        let count = blocks.end - blocks.start;
        let result = self
            .change(256, |tx| {
                let mut inode = tx.inode(ino)?;
                tx.claim(blocks.clone())?;
                let extent = Extent {
                    page: from,
                    block: BlockNo(blocks.start),
                    count,
                    is_written: false,
                };
                tx.add_extent(ino, &mut inode, extent)?;
                tx.put_inode(ino, &inode)
            })
            .await;
        let mut state = self.state();
        let State {
            nodes,
            space,
            reserved,
            ..
        } = &mut *state;
        if result.is_err() {
            blocks.for_each(|block| space.give(block));
            return result.map(|()| None);
        }
        // Pages in the cache have their place now.
        if let Some(node) = nodes.get_mut(&ino) {
            for (_, page) in node.pages.range_mut(from..from + u64::from(count)) {
                if core::mem::take(&mut page.is_reserved) {
                    node.reserved -= 1;
                    *reserved -= 1;
                    // A write may have noted it since the blocks were given.
                    node.splitting += u32::from(!core::mem::replace(&mut page.splits, true));
                }
            }
            node.keep_for_mapping(reserved);
        }
        Ok(Some(from + u64::from(count)))
    }

    /// The next data or hole from a place on.
    ///
    /// # Errors
    /// There is none of it before the end.
    pub async fn seek(&self, ino: Ino, at: u64, what: Seek) -> Result<u64, FsError> {
        self.spend(self.costs.operation).await;
        loop {
            self.need_regular(ino).await?;
            // An operation that was taken back may have forgotten them meanwhile.
            if let Some(found) = seek_in(&self.state(), ino, at, what) {
                return found;
            }
        }
    }

    /// Where a file's pages are.
    ///
    /// # Errors
    /// There is no such file, or it has no extents.
    pub async fn map(&self, ino: Ino) -> Result<Vec<MappedExtent>, FsError> {
        self.run(|tx| {
            let inode = tx.inode(ino)?;
            if matches!(
                inode.mode.kind,
                FileKind::CharDevice | FileKind::BlockDevice
            ) {
                return Ok(Vec::new());
            }
            let extents = tx.extents(ino, &inode)?;
            let mapped = extents.iter().map(|extent| MappedExtent {
                page: extent.page,
                block: extent.block,
                count: extent.count,
                is_written: extent.is_written,
            });
            let mapped: Vec<MappedExtent> = mapped.collect();
            let Some(segments) = &tx.state.segments else {
                return Ok(mapped);
            };
            let mut placed = Vec::new();
            for extent in mapped {
                let mut page = extent.page;
                for (place, count) in segments.runs(extent.block, extent.count) {
                    // Blocks that were given and never written have no place.
                    placed.extend(place.map(|place| MappedExtent {
                        page,
                        block: BlockNo(place),
                        count,
                        ..extent
                    }));
                    page += u64::from(count);
                }
            }
            Ok(placed)
        })
        .await
    }
}

/// Where a step begins that gives back from the end on, and not before `keep`.
fn step_begin(extents: &crate::state::extents::Extents, keep: u64) -> u64 {
    step_begin_within(extents, keep, u64::MAX)
}

fn step_begin_within(extents: &crate::state::extents::Extents, keep: u64, end: u64) -> u64 {
    let (mut count, mut blocks) = (0, 0);
    let mut begin = keep;
    for extent in extents.iter().rev().filter(|extent| extent.page < end) {
        if extent.end() <= keep {
            break;
        }
        let first = extent.page.max(keep);
        let last = extent.end().min(end);
        if blocks + (last - first) > STEP_BLOCKS {
            // As much of this one as there is room for.
            return last - (STEP_BLOCKS - blocks);
        }
        blocks += last - first;
        count += 1;
        begin = first;
        if count == STEP_EXTENTS {
            return begin;
        }
    }
    let _ = begin;
    keep
}

/// Behind a new end there are zeroes. The device has them when the file grows again, or when the
/// page is written for another reason.
fn zero_tail(state: &mut State, ino: Ino, size: u64) {
    let State { nodes, clock, .. } = state;
    let page = nodes
        .get_mut(&ino)
        .and_then(|node| node.pages.get_mut(&(size / PAGE)));
    let tail = (size % PAGE) as usize;
    if let Some(page) = page
        && page.data[tail..].iter().any(|byte| *byte != 0)
    {
        clock.duplicates += usize::from(page.keep_original());
        page.bytes_mut()[tail..].fill(0);
    }
}

/// The old last page has another tail than the device: it is to be written.
fn dirty_tail(state: &mut State, ino: Ino, now: Timestamp) {
    let State { nodes, clock, .. } = state;
    let Some(node) = nodes.get_mut(&ino) else {
        return;
    };
    if node.size.is_multiple_of(PAGE) {
        return;
    }
    let at = node.size / PAGE;
    let is_different = node
        .pages
        .get(&at)
        .is_some_and(|page| page.original.is_some());
    if is_different && !node.dirty.contains(at) {
        if node.dirty.is_empty() {
            node.dirty_since = now;
        }
        node.dirty.insert(at);
        clock.dirty += 1;
    }
}

/// The next data or hole of a file whose extents are known; nothing if they are not.
fn seek_in(state: &State, ino: Ino, at: u64, what: Seek) -> Option<Result<u64, FsError>> {
    let node = state.nodes.get(&ino)?;
    let extents = node.extents.as_ref()?;
    if at >= node.size {
        return Some(Err(FsError::BehindEnd));
    }
    let mut page = at / PAGE;
    let end = node.size.div_ceil(PAGE);
    while page < end {
        let extent = extents.find(page).filter(|extent| extent.is_written);
        // One that is being written back is not dirty any more, and has no place yet.
        let is_data = extent.is_some() || node.pages.contains_key(&page);
        if is_data == (what == Seek::Data) {
            return Some(Ok((page * PAGE).max(at)));
        }
        // To the next place where that may change.
        page = match (extent, what) {
            (Some(extent), _) => extent.end(),
            (None, Seek::Hole) => page + 1,
            (None, Seek::Data) => {
                let next = extents
                    .next(page + 1)
                    .map_or(end, |next| next.page.max(page + 1));
                let cached = node.pages.range(page + 1..).next();
                next.min(cached.map_or(end, |(page, _)| *page))
                    .max(page + 1)
            }
        };
    }
    Some(match what {
        Seek::Data => Err(FsError::BehindEnd),
        Seek::Hole => Ok(node.size),
    })
}
