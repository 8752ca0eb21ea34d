//! Contents of files: read and written through the page cache (§4.6).

use super::wanted::{Need, Run, copy_out};
use super::{FileSystem, MARGIN, address};
use crate::gate::{Gate, Passed, join_all};
use crate::layout::{BLOCK, MOST_PAGES};
use crate::state::State;
use crate::state::pages::{InOrder, Page, page_of};
use crate::tx::{Done, Tx};
use crate::{Attr, BlockNo, Caller, FileKind, FsError, Ino, WriteOptions};
use port::{Clock, Device};
use units::ByteAddr;

/// Largest direct access by bytes (§4.6).
pub(super) const DIRECT_BYTES: usize = 512;
/// Of the cache this share may be dirty before a writer writes back himself.
const DIRTY_SHARE: usize = 4;

const SET_USER: u16 = 0o4000;
const SET_GROUP: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o010;

const PAGE: u64 = BLOCK as u64;

/// Bytes of the largest file.
pub(super) const MOST_BYTES: u64 = MOST_PAGES * PAGE;

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Has a file stay until it is released as often, whatever becomes of its names.
    ///
    /// # Errors
    /// There is no such file.
    pub async fn open(&self, ino: Ino) -> Result<Attr, FsError> {
        self.spend(self.costs.operation).await;
        self.run(|tx| {
            let inode = tx.inode(ino)?;
            let attr = tx.attr(ino)?;
            let is_leaving = tx.state.orphans.contains(&ino);
            let node = tx.node(ino, &inode);
            // Its blocks are being given back, and nobody has it open for whom it would stay.
            if is_leaving && node.opens == 0 {
                return Err(FsError::Stale.into());
            }
            node.opens += 1;
            Ok(attr)
        })
        .await
    }

    /// The opposite of [`FileSystem::open`].
    ///
    /// # Errors
    /// The device fails when a file without names goes.
    pub async fn release(&self, ino: Ino) -> Result<(), FsError> {
        let is_last_of_orphan = {
            let mut state = self.state();
            let is_orphan = state.orphans.contains(&ino);
            state.shrink_nodes();
            match state.nodes.get_mut(&ino) {
                None => false,
                Some(node) => {
                    node.opens = node.opens.saturating_sub(1);
                    let is_closed = node.opens == 0;
                    if node.is_idle() && !is_orphan {
                        state.nodes.remove(&ino);
                    }
                    is_closed && is_orphan
                }
            }
        };
        self.purge_rest(is_last_of_orphan.then_some(ino)).await
    }

    /// Reads at most `size` bytes; less at the end of the file.
    ///
    /// # Errors
    /// It is no regular file; the device fails or has lost the bytes.
    pub async fn read(
        &self,
        ino: Ino,
        at: u64,
        size: usize,
        direct: bool,
    ) -> Result<Vec<u8>, FsError> {
        self.spend(self.costs.operation).await;
        self.need_regular(ino).await?;
        if !self.caches_contents {
            return self.read_past_cache(ino, at, size).await;
        }
        let mut out = vec![0; size];
        // What is copied stays so: with a small cache later pages drive out the first ones.
        let (mut copied, mut missing) = (at, None);
        let mut reads_ahead = !direct;
        loop {
            let need = {
                let mut state = self.state();
                let length = state
                    .nodes
                    .get(&ino)
                    .map(|node| node.size.saturating_sub(at).min(size as u64) as usize);
                length.map(|length| {
                    out.truncate(length);
                    copy_out(&mut state, ino, at, &mut copied, &mut out, reads_ahead)
                })
            };
            match need {
                // Forgotten meanwhile: its extents are read again.
                None | Some(Need::Extents) => self.need_regular(ino).await?,
                Some(Need::Nothing) => break,
                Some(Need::Pages { mut runs, epoch }) => {
                    // Read and gone again, for there was no room: the first alone has it.
                    if missing.replace(runs[0].first) == Some(runs[0].first) {
                        runs.truncate(1);
                    }
                    let is_kept = self.shortcuts.kept().is_some();
                    let has_bytes = self.state().segments.is_none() && !is_kept;
                    if direct && out.len() <= DIRECT_BYTES && has_bytes {
                        let place = address(runs[0].block).get() + at % PAGE;
                        if at % PAGE + out.len() as u64 <= PAGE {
                            self.device.read(ByteAddr::new(place), &mut out).await?;
                            let page = at / PAGE..at / PAGE + 1;
                            let state = self.state();
                            let node = state.nodes.get(&ino);
                            if node.is_some_and(|node| !node.epoch.is_past(epoch, &page)) {
                                break;
                            }
                            continue;
                        }
                    }
                    let end = (at + out.len() as u64).div_ceil(PAGE);
                    let is_more = runs
                        .iter()
                        .any(|run| run.first + u64::from(run.count) > end);
                    // As the kernel: all of them are asked for before any is waited for.
                    let reads = runs.iter().map(|run| {
                        let Run {
                            first,
                            block,
                            count,
                        } = *run;
                        Box::pin(self.read_pages(ino, first, block, count, epoch))
                    });
                    let done = join_all(reads.collect()).await;
                    match done.into_iter().collect::<Result<(), _>>() {
                        Ok(()) => {}
                        // Perhaps of what nobody has asked for.
                        Err(_) if is_more => reads_ahead = false,
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        let pages = (out.len() as u64).div_ceil(PAGE);
        self.spend(self.costs.page * pages).await;
        self.state().counters.0.read += out.len() as u64;
        Ok(out)
    }

    /// Makes sure that the extents of a regular file are on the host.
    pub(super) async fn need_regular(&self, ino: Ino) -> Result<(), FsError> {
        self.run(|tx| tx.need_regular(ino)).await
    }

    /// Reads pages that lie behind each other on the device into the cache, or some of them: those
    /// up to what somebody else is reading. Who called looks again.
    pub(super) async fn read_pages(
        &self,
        ino: Ino,
        first: u64,
        block: BlockNo,
        count: u32,
        epoch: u64,
    ) -> Result<(), FsError> {
        let begun = match self.state().nodes.get_mut(&ino) {
            Some(node) => node.begin_reading(first..first + u64::from(count)),
            // It is to be asked for anew.
            None => return Ok(()),
        };
        let (pages, gate) = match begun {
            Ok(begun) => begun,
            // As for a page that the kernel has locked: who waits looks again.
            Err(gate) => {
                drop(gate.pass().await);
                self.spend(self.costs.switch).await;
                return Ok(());
            }
        };
        let passed = gate.pass().await;
        let coming = Coming {
            fs: self,
            ino,
            gate,
            _passed: passed,
        };
        let mut bytes = vec![0; (pages.end - pages.start) as usize * BLOCK];
        self.read_contents(block, &mut bytes).await?;
        let mut state = self.state();
        let State { nodes, clock, .. } = &mut *state;
        let Some(node) = nodes.get_mut(&ino) else {
            return Ok(());
        };
        if node.epoch.is_past(epoch, &pages) {
            return Ok(());
        }
        for (at, data) in pages.zip(bytes.chunks_exact(BLOCK)) {
            if node.pages.contains_key(&at) {
                continue;
            }
            let mut page = Page::new(page_of(data), true);
            // Behind the end lies what was there before: nobody may see it.
            let end = node.size.saturating_sub(at * PAGE).min(PAGE) as usize;
            if page.data[end..].iter().any(|byte| *byte != 0) {
                page.keep_original();
                clock.duplicates += 1;
                page.bytes_mut()[end..].fill(0);
            }
            node.pages.insert(at, page);
            clock.add(ino, at);
        }
        state.shrink_pages();
        drop(state);
        drop(coming);
        Ok(())
    }

    /// Writes bytes; the file grows if they reach beyond its end.
    ///
    /// # Errors
    /// It is no regular file; no room; too large; the device fails.
    pub async fn write(
        &self,
        caller: &Caller,
        ino: Ino,
        at: u64,
        data: &[u8],
        options: WriteOptions,
    ) -> Result<usize, FsError> {
        self.spend(self.costs.operation).await;
        self.writable()?;
        let end = at
            .checked_add(data.len() as u64)
            .filter(|end| *end <= MOST_BYTES);
        end.ok_or(FsError::TooLarge)?;
        self.need_regular(ino).await?;
        if data.is_empty() {
            return Ok(0);
        }
        if options.kill_privileges {
            self.kill_privileges(ino).await?;
        }
        if options.direct
            && self.caches_contents
            && self.write_direct(caller, ino, at, data).await?
        {
            if options.sync {
                self.fsync(ino, true).await?;
            }
            return Ok(data.len());
        }
        let whole = self.most_at_once().unwrap_or(data.len());
        let mut written = match self.caches_contents || self.is_synchronous {
            true => 0,
            false => self.store_in_place(caller, ino, at, data).await?,
        };
        let mut most = whole;
        while written < data.len() {
            let (begin, size) = (at + written as u64, most.min(data.len() - written));
            let piece = &data[written..written + size];
            match self.write_to_cache(caller, ino, begin, piece).await {
                Ok(()) => written += size,
                // As much of it as there is room for is written.
                Err(FsError::NoSpace) if fits_before(begin, size) > 0 => {
                    most = fits_before(begin, size);
                }
                Err(error) if written == 0 => return Err(error),
                // As a disk that is full: what was written before is there.
                Err(_) => break,
            }
        }
        let data = &data[..written];
        let is_much = {
            let mut state = self.state();
            state.counters.0.written += data.len() as u64;
            state.shrink_pages();
            state.clock.dirty > state.clock.most / DIRTY_SHARE
        };
        if self.is_synchronous {
            self.settle(ino).await?;
        } else if options.sync {
            self.fsync(ino, true).await?;
        } else if is_much || options.direct || !self.caches_contents {
            self.write_back(ino).await?;
        }
        if !self.caches_contents {
            let end = at + data.len() as u64;
            self.forget_written(ino, at / PAGE..end.div_ceil(PAGE));
        }
        Ok(data.len())
    }

    /// Bytes of a write that are durable together, if some must be: a larger one goes in pieces.
    /// Two pages more may be touched: by where it begins, and by a tail that becomes zeroes.
    fn most_at_once(&self) -> Option<usize> {
        let most = self.state().dirty_most;
        most.map(|pages| (pages - 2) * BLOCK)
    }

    pub(super) async fn write_to_cache(
        &self,
        caller: &Caller,
        ino: Ino,
        at: u64,
        data: &[u8],
    ) -> Result<(), FsError> {
        let end = at + data.len() as u64;
        self.need_edges(ino, at, end).await?;
        let pages = (data.len() as u64).div_ceil(PAGE);
        self.spend(self.costs.page * pages).await;
        loop {
            let need = {
                let mut state = self.state();
                match state.nodes.contains_key(&ino) {
                    false => Err(Lacks::Page),
                    true => {
                        let copied = copy_in(&mut state, ino, at, data, caller);
                        if copied.is_ok() {
                            state.note_written(ino, at, data.len() as u64, self.clock.now());
                        }
                        copied
                    }
                }
            };
            match need {
                Ok(()) => return Ok(()),
                Err(Lacks::Page) => {
                    self.need_regular(ino).await?;
                    self.need_edges(ino, at, end).await?;
                }
                Err(Lacks::Space) => {
                    // What was freed is free when that is durable.
                    if self.state().pending_free == 0 {
                        return Err(FsError::NoSpace);
                    }
                    self.commit().await?;
                }
                // What was written before goes with a batch of its own.
                Err(Lacks::Batch) => self.write_back(ino).await?,
            }
        }
    }

    /// Has the pages in the cache that a write changes in part.
    pub(super) async fn need_edges(&self, ino: Ino, at: u64, end: u64) -> Result<(), FsError> {
        loop {
            // They may have been forgotten by an operation that was taken back.
            self.need_regular(ino).await?;
            let need = {
                let state = self.state();
                let Some(node) = state.nodes.get(&ino) else {
                    continue;
                };
                let Some(extents) = &node.extents else {
                    continue;
                };
                let mut edges = Vec::with_capacity(3);
                if !at.is_multiple_of(PAGE) {
                    edges.push(at / PAGE);
                }
                if !end.is_multiple_of(PAGE) {
                    edges.push(end / PAGE);
                }
                // Behind the old end lies what was there before.
                if end > node.size && !node.size.is_multiple_of(PAGE) {
                    edges.push(node.size / PAGE);
                }
                let missing = edges.into_iter().find_map(|page| {
                    let is_cached = node.pages.contains_key(&page);
                    let is_seen = page * PAGE < node.size;
                    let extent = extents.find(page)?;
                    let is_there = extent.is_written && !is_cached && is_seen;
                    is_there.then(|| (page, extent.block_of(page)))
                });
                missing.map(|missing| (missing, node.epoch.now()))
            };
            match need {
                None => return Ok(()),
                Some(((page, block), epoch)) => {
                    self.read_pages(ino, page, block, 1, epoch).await?;
                }
            }
        }
    }

    async fn kill_privileges(&self, ino: Ino) -> Result<(), FsError> {
        let has_some = self
            .run(|tx| Ok(killed(tx.inode(ino)?.mode.permissions).is_some()))
            .await?;
        if !has_some {
            return Ok(());
        }
        self.change(8, |tx| {
            let mut inode = tx.inode(ino)?;
            if let Some(permissions) = killed(inode.mode.permissions) {
                inode.mode.permissions = permissions;
                tx.put_inode(ino, &inode)?;
            }
            Ok(())
        })
        .await
    }

    /// Whether contents may go by bytes.
    pub(super) fn writes_data_bytes(&self) -> bool {
        self.state().superblock.personality.writes_data_bytes()
    }
}

/// Permissions without what a write by others takes away; none if there is nothing to take.
pub(super) fn killed(permissions: u16) -> Option<u16> {
    let mut left = permissions & !SET_USER;
    if permissions & GROUP_EXECUTE != 0 {
        left &= !SET_GROUP;
    }
    (left != permissions).then_some(left)
}

/// Pages that somebody reads or writes past the cache; others wait until it goes.
pub(super) struct Coming<'a, D: Device, C: Clock> {
    pub fs: &'a FileSystem<D, C>,
    pub ino: Ino,
    pub gate: Gate,
    pub _passed: Passed,
}

impl<D: Device, C: Clock> Drop for Coming<'_, D, C> {
    fn drop(&mut self) {
        // Before those who wait look again: they are not to wait for each other.
        if let Some(node) = self.fs.state().nodes.get_mut(&self.ino) {
            node.coming.retain(|(_, other)| !other.is(&self.gate));
        }
    }
}

/// Why bytes cannot be copied into the cache.
enum Lacks {
    /// A page that is changed in part is not there.
    Page,
    /// The device is full.
    Space,
    /// One batch would not have room for all dirty pages of the file.
    Batch,
}

/// Copies bytes into the cache, all or none.
fn copy_in(
    state: &mut State,
    ino: Ino,
    at: u64,
    data: &[u8],
    caller: &Caller,
) -> Result<(), Lacks> {
    let end = at + data.len() as u64;
    let pages = at / PAGE..end.div_ceil(PAGE);
    let room = state.unreserved();
    let compares = state.superblock.personality.writes_data_bytes();
    let lines_most = compares.then_some(state.block_lines);
    let State {
        nodes,
        clock,
        reserved,
        dirty_most,
        ..
    } = state;
    let node = nodes.get_mut(&ino).ok_or(Lacks::Page)?;
    let extents = node.extents.as_ref().ok_or(Lacks::Page)?;
    let touched = (pages.end - pages.start) as usize + 1;
    if dirty_most.is_some_and(|most| node.dirty.len() + touched > most) && !node.dirty.is_empty() {
        return Err(Lacks::Batch);
    }
    let is_whole = |page: u64| page * PAGE >= at && (page + 1) * PAGE <= end;
    // It may have left the cache since the write asked for it: others read meanwhile.
    let tail = node.size / PAGE;
    if end > node.size
        && !node.size.is_multiple_of(PAGE)
        && !is_whole(tail)
        && !node.pages.contains_key(&tail)
        && extents.find(tail).is_some_and(|extent| extent.is_written)
    {
        return Err(Lacks::Page);
    }
    let (mut wanted, mut splitting) = (0, 0);
    let mut ascending = extents.ascending();
    let count = (pages.end - pages.start) as usize;
    let ends = (pages.start, end.saturating_sub(1) / PAGE);
    let mut all_cached = InOrder::of(&mut node.pages, ends, count);
    for page in pages.clone() {
        let cached = all_cached.find(page);
        let is_cached = cached.is_some();
        let extent = ascending.find(page);
        let is_on_device = extent.is_some_and(|extent| extent.is_written);
        if is_on_device && !is_cached && !is_whole(page) && page * PAGE < node.size {
            return Err(Lacks::Page);
        }
        let (is_reserved, splits) =
            cached.map_or((false, false), |page| (page.is_reserved, page.splits));
        wanted += u32::from(extent.is_none() && !is_reserved);
        splitting += u32::from(extent.is_some() && !is_on_device && !splits);
    }
    // Blocks of metadata are needed too: what maps the pages.
    let wanted_all = wanted + node.more_mapping(wanted, splitting);
    if wanted_all > 0 && wanted_all + MARGIN > room {
        return Err(Lacks::Space);
    }
    // The tail of the old last page is zeroes from now on, on the device too.
    if end > node.size && !node.size.is_multiple_of(PAGE) {
        let page = node.size / PAGE;
        let is_different = node
            .pages
            .get(&page)
            .is_some_and(|page| page.original.is_some());
        if is_different && node.dirty.insert(page) {
            clock.dirty += 1;
        }
    }
    if node.dirty.is_empty() {
        node.dirty_since = caller.now;
    }
    clock.dirty += node.dirty.insert_all(pages.clone());
    let mut ascending = extents.ascending();
    let mut all_cached = InOrder::of(&mut node.pages, ends, count);
    let mut fresh = Vec::new();
    for page in pages {
        let extent = ascending.find(page);
        let begin = at.max(page * PAGE);
        let stop = end.min((page + 1) * PAGE);
        let from = &data[(begin - at) as usize..(stop - at) as usize];
        let cached = match all_cached.find(page) {
            Some(cached) => {
                let more = match <&[u8; BLOCK]>::try_from(from) {
                    Ok(whole) => cached.overwrite(whole, lines_most),
                    Err(_) => {
                        let is_kept = compares && cached.keep_original();
                        let place = (begin % PAGE) as usize;
                        cached.bytes_mut()[place..][..from.len()].copy_from_slice(from);
                        isize::from(is_kept)
                    }
                };
                clock.duplicates = clock.duplicates.saturating_add_signed(more);
                cached
            }
            None => {
                clock.add(ino, page);
                let data = if from.len() == BLOCK {
                    page_of(from)
                } else {
                    let mut data = [0; BLOCK];
                    data[(begin % PAGE) as usize..][..from.len()].copy_from_slice(from);
                    page_of(&data)
                };
                // What has no place, or lies behind the end, is not what the device has.
                &mut fresh.push_mut((page, Page::new(data, false))).1
            }
        };
        cached.is_referenced = true;
        if extent.is_none() && !cached.is_reserved {
            cached.is_reserved = true;
            node.reserved += 1;
            *reserved += 1;
        }
        if extent.is_some_and(|extent| !extent.is_written) && !cached.splits {
            cached.splits = true;
            node.splitting += 1;
        }
    }
    node.pages.extend(fresh);
    if node.written_in_order.end != at {
        node.written_in_order.start = at;
    }
    node.written_in_order.end = end;
    node.size = node.size.max(end);
    node.written = Some(caller.now);
    node.keep_for_mapping(reserved);
    Ok(())
}

impl Tx<'_> {
    /// Has a regular file and its extents on the host.
    pub(super) fn need_regular(&mut self, ino: Ino) -> Done<()> {
        let node = self.state.nodes.get(&ino);
        let is_known = node.is_some_and(|node| node.is_regular && node.extents.is_some());
        if is_known {
            return Ok(());
        }
        let inode = self.inode(ino)?;
        match inode.mode.kind {
            FileKind::Regular => self.extents(ino, &inode).map(|_| ()),
            FileKind::Directory => Err(FsError::IsDirectory.into()),
            _ => Err(FsError::Invalid("it is no regular file").into()),
        }
    }

    /// The size of a file, as programs see it.
    pub(super) fn size_of(&mut self, ino: Ino) -> Option<u64> {
        self.state.nodes.get(&ino).map(|node| node.size)
    }
}

/// About half of a write, up to the end of a page; 0 of a write within one page.
fn fits_before(at: u64, size: usize) -> usize {
    let first = PAGE - at % PAGE;
    let half = (at + size as u64 / 2) / PAGE * PAGE;
    let part = half.saturating_sub(at).max(first) as usize;
    if part < size { part } else { 0 }
}
