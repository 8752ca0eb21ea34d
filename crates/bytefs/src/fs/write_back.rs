//! Dirty pages go to the device: by bytes where little of them has changed, by blocks otherwise
//! (§4.6), and before the metadata that makes them seen (ordered mode, §4.7).

use super::{FileSystem, MARGIN, address};
use crate::gate::{Gate, join_all};
use crate::layout::{BLOCK, Extent, LINE, LINES};
use crate::state::State;
use crate::state::batch::BatchId;
use crate::state::node::{Node, Planned, SLOTS_OF_SPLIT};
use crate::state::page_set::run_of;
use crate::state::pages::{InOrder, nonzero};
use crate::state::pmem::DaxAt;
use crate::stats::Class;
use crate::{BlockNo, FsError, Ino};
use core::ops::Range;
use port::{Acknowledge, Clock, Device, Payload, SharedBlock};
use units::{ByteAddr, TxId};

/// Pages that are written back together.
pub(super) const PAGES: usize = 256;
/// Pages that a sync overwrites where they are (the kernel's `min_fsync_blocks`).
const OVERWRITTEN_MOST: usize = 8;

/// Lines of metadata that a batch has for each page that gets a place, and for all together.
pub(crate) const PAGE_LINES: usize = 4;
pub(crate) const OVERHEAD_LINES: usize = 64;

/// Lines that say of a page that it has another place: of extents around it, and of bitmaps.
const REPLACED_LINES: usize = 5;

const PAGE: u64 = BLOCK as u64;

/// A line of a page that has a block: where on the device, its bytes, and the page.
type PageLine = (ByteAddr, [u8; LINE], u64);

/// How pages go to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    /// By lines where few have changed, by blocks otherwise.
    Usual,
    /// The same; with segments a few pages are overwritten where they are.
    InPlace,
    /// By lines, however many.
    ByLines,
}

/// What is to be done with some pages.
#[derive(Default)]
struct Plan {
    /// Runs of blocks, and their pages.
    blocks: Vec<(BlockNo, Vec<SharedBlock>)>,
    /// Lines of pages that have a block.
    lines: Vec<PageLine>,
    /// Blocks of pages that go with the batch, and to their places behind it.
    journaled: Vec<(BlockNo, SharedBlock, u64)>,
    /// Pages of which only some lines are not zero, and that have no block yet.
    sparse: Vec<(u64, SharedBlock, u64)>,
    /// New extents, whose blocks are taken.
    extents: Vec<Extent>,
    /// Pages whose blocks were given but never written to.
    converted: Vec<u64>,
    /// Behind the last byte that these pages bring: a write that comes meanwhile may make the file
    /// longer, and what it wrote is not among them.
    end: u64,
    pages: usize,
    /// Those that were compared with their duplicate, or with zeroes.
    compared: u64,
    /// All of them.
    chosen: Vec<u64>,
    /// Those that have a place and get another one.
    replaced: usize,
    /// Those that are written where they are, for want of another place.
    overwritten: usize,
}

/// What comes before a plan can be made.
enum Before {
    Plan(Plan),
    /// Lines of a page that goes by blocks now are in a batch that is not durable.
    Commit(BatchId),
    /// Frames of these pages in persistent memory are older than the pages: they must not be when
    /// the pages are on flash.
    Frames,
    /// The extents were forgotten by an operation that was taken back.
    Extents,
    Nothing,
}

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Writes the dirty pages of a file to the device, and has the running batch say where they
    /// are. Durable they are when that batch is, or an earlier one.
    pub(super) async fn write_back(&self, ino: Ino) -> Result<(), FsError> {
        let Some((gate, _)) = self.writing_back(ino) else {
            return Ok(());
        };
        let _passed = gate.pass().await;
        self.write_back_as(ino, How::Usual).await
    }

    /// As [`FileSystem::write_back`], for a sync. With segments a few pages are overwritten where
    /// they are then (the kernel's `F2FS_IPU_FSYNC`).
    pub(super) async fn write_back_synced(&self, ino: Ino, data_only: bool) -> Result<(), FsError> {
        let Some((gate, count)) = self.writing_back(ino) else {
            return Ok(());
        };
        let _passed = gate.pass().await;
        let how = match data_only || count <= OVERWRITTEN_MOST {
            true => How::InPlace,
            false => How::Usual,
        };
        self.write_back_as(ino, how).await
    }

    /// As [`FileSystem::write_back`], by lines alone, by who has passed the file's gate: for a sync
    /// of pages in persistent memory, where that is the log.
    pub(super) async fn write_back_by_lines(&self, ino: Ino) -> Result<(), FsError> {
        self.write_back_as(ino, How::ByLines).await
    }

    /// What to pass before a file's pages are written back, and how many are dirty; none if there
    /// is nothing to wait for. Pages that somebody else writes back are not dirty any more, and in
    /// no batch yet.
    fn writing_back(&self, ino: Ino) -> Option<(Gate, usize)> {
        let state = self.state();
        let node = state.nodes.get(&ino)?;
        let waits = !node.dirty.is_empty() || node.gate.is_closed();
        waits.then(|| (node.gate.clone(), node.dirty.len()))
    }

    /// As [`FileSystem::write_back`], by who has passed the file's gate.
    pub(super) async fn write_back_within(&self, ino: Ino) -> Result<(), FsError> {
        self.write_back_as(ino, How::Usual).await
    }

    async fn write_back_as(&self, ino: Ino, how: How) -> Result<(), FsError> {
        while self.write_back_some(ino, how).await? {}
        Ok(())
    }

    /// Writes back the first dirty pages of a file, as many as go together, or does what must be
    /// done before. Says whether there were some.
    pub(super) async fn write_back_some(&self, ino: Ino, how: How) -> Result<bool, FsError> {
        self.writable()?;
        let is_there = self.state().nodes.contains_key(&ino);
        if is_there {
            // Its extents may have been forgotten by an operation that was taken back.
            self.need_regular(ino).await?;
        }
        let before = {
            let mut state = self.state();
            let before = plan(&mut state, ino, how);
            if let (Before::Plan(plan), Some(pmem)) = (&before, &mut state.pmem) {
                // Lines survive with their batch, and a sync by the log commits that.
                if pmem.at == DaxAt::Window || !plan.blocks.is_empty() {
                    pmem.begin_write_back(ino);
                }
                if how == How::ByLines {
                    pmem.stats.lines += plan.lines_of_pages();
                }
                pmem.take_pages(ino, &plan.chosen);
            }
            before
        };
        match before {
            Before::Frames => self.renew_frames(ino).await?,
            Before::Nothing => return Ok(false),
            Before::Extents => {}
            Before::Commit(batch) => self.commit_through(batch).await?,
            Before::Plan(plan) => {
                let has_blocks = !plan.blocks.is_empty();
                self.carry_out(ino, plan, how).await?;
                self.end_write_back(ino, has_blocks);
            }
        }
        Ok(true)
    }

    async fn carry_out(&self, ino: Ino, plan: Plan, how: How) -> Result<(), FsError> {
        let in_place = how == How::InPlace;
        let kept = self.shortcuts.kept();
        // Without a page cache pages go as NOVA's do, by bytes.
        let by_bytes = self.is_synchronous || !self.caches_contents;
        let requests = match kept.is_some() || by_bytes {
            true => 0,
            false => plan.blocks.len() as u64,
        };
        let cost = self.costs.compare * plan.compared;
        self.spend(cost + self.costs.request * requests).await;
        if let Some(kept) = kept {
            for (block, bytes) in plan.runs() {
                kept.write(block, &bytes);
            }
        } else if self.state().segments.is_some() {
            let pages = (&plan.chosen[..], plan.end);
            self.write_contents(ino, &plan.runs(), pages, in_place)
                .await?;
        } else if by_bytes {
            self.write_by_bytes(&plan.runs()).await?;
            if plan.overwritten > 0 {
                // There may be nothing to be said of them, and so no batch that has them survive.
                let done = self.persist_lines().await;
                done.map_err(|error| self.fail(&error.to_string()))?;
            }
        } else {
            let writes = plan.blocks.iter().map(|(block, pages)| {
                let when = Acknowledge::Accepted;
                self.device.write_shared(address(*block), pages, when)
            });
            for done in join_all(writes.collect()).await {
                done.map_err(|error| self.fail(&error.to_string()))?;
            }
            if !plan.blocks.is_empty() {
                self.note_block_write();
            }
        }
        if requests > 0 {
            self.spend(self.costs.switch).await;
        }
        {
            let mut state = self.state();
            let pages: usize = plan.blocks.iter().map(|(_, pages)| pages.len()).sum();
            let bytes = pages * BLOCK;
            let by_blocks = if by_bytes { 0 } else { bytes };
            if kept.is_none() {
                state.counters.class(Class::Data).blocks_written += by_blocks as u64;
                state.counters.class(Class::Data).bytes_written += (bytes - by_blocks) as u64;
            }
            let by_blocks = by_blocks / BLOCK + plan.journaled.len();
            state.counters.0.pages_by_blocks += by_blocks as u64;
            let by_bytes = plan.pages.saturating_sub(by_blocks);
            state.counters.0.pages_by_bytes += by_bytes as u64;
            if let Some(node) = state.nodes.get_mut(&ino) {
                node.epoch.change(plan.chosen.clone());
            }
        }
        let most = self.state().batch_most.max(1);
        let noted = async {
            // Of a sync by the log all lines go with one batch: it is there whole or not at all.
            if self.journals_data || how == How::ByLines {
                return self.note_metadata(ino, &plan, &plan.lines).await;
            }
            for lines in plan.lines.chunks(most) {
                self.note_lines(ino, lines).await?;
            }
            self.note_metadata(ino, &plan, &[]).await
        };
        let noted = noted.await;
        let mut state = self.state();
        let State {
            nodes, reserved, ..
        } = &mut *state;
        if let Some(node) = nodes.get_mut(&ino) {
            node.planned = Planned::default();
            node.keep_for_mapping(reserved);
            // The old places are somebody else's soon: who began to read there looks again.
            if self.is_synchronous {
                node.epoch.change(plan.chosen);
            }
        }
        drop(state);
        match noted {
            Ok(()) => Ok(()),
            Err(FsError::Stale) => Err(FsError::Stale),
            // The pages are not dirty any more: a later sync would say that they are safe.
            Err(error) => Err(self.fail(&error.to_string())),
        }
    }

    /// Writes whole pages by the byte port. They survive when the batch that shows them does: its
    /// first persist is behind them.
    async fn write_by_bytes(&self, runs: &[(BlockNo, Vec<u8>)]) -> Result<(), FsError> {
        let parts = runs.iter();
        let parts: Vec<(ByteAddr, &[u8])> = parts
            .map(|(block, bytes)| (address(*block), &bytes[..]))
            .collect();
        let done = self.device.write_vectored(&parts, TxId::NONE).await;
        done.map_err(|error| self.fail(&error.to_string()))?;
        Ok(())
    }

    /// Makes a file durable behind a write, where every operation is.
    pub(super) async fn settle(&self, ino: Ino) -> Result<(), FsError> {
        self.write_back(ino).await?;
        self.put_pending_times(ino).await?;
        self.commit().await
    }

    /// Has lines of data go with the running batch.
    async fn note_lines(&self, ino: Ino, lines: &[PageLine]) -> Result<(), FsError> {
        self.run(|tx| {
            tx.need_room(lines.len())?;
            let batch = tx.state.batch.id;
            for (at, line, _) in lines {
                tx.state.batch.add_data(*at, *line);
            }
            if let Some(pmem) = &mut tx.state.pmem {
                pmem.note_batch(ino, batch);
            }
            if let Some(node) = tx.state.nodes.get_mut(&ino) {
                for (_, _, page) in lines {
                    if let Some(page) = node.pages.get_mut(page) {
                        page.batch = batch;
                    }
                }
            }
            Ok(())
        })
        .await
    }

    /// Has the running batch say where pages are, and how long the file is. These lines, and the
    /// blocks that are journaled, go with the same batch.
    async fn note_metadata(
        &self,
        ino: Ino,
        plan: &Plan,
        lines: &[PageLine],
    ) -> Result<(), FsError> {
        let result = self
            .run_within(0, |tx| {
                let replaced = plan.replaced * REPLACED_LINES;
                match self.journals_data {
                    true => tx.need_record_room(plan.journaled.len(), plan.lines_most())?,
                    false => {
                        let sparse = plan.sparse.len() * LINES;
                        tx.need_room(
                            64 + plan.extents.len() * 2 + sparse + replaced + lines.len(),
                        )?;
                    }
                }
                let mut inode = tx.inode(ino)?;
                let old = inode;
                let mut data = lines.to_vec();
                for extent in &plan.extents {
                    if plan.replaced > 0 {
                        let pages = extent.page..extent.end();
                        for old in tx.cut_extents(ino, &mut inode, pages)? {
                            tx.release(old.block.0..old.block.0 + old.count, false)?;
                        }
                    }
                    tx.claim(extent.block.0..extent.block.0 + extent.count)?;
                    tx.add_extent(ino, &mut inode, *extent)?;
                }
                for (page, bytes, mask) in &plan.sparse {
                    let block = tx.take_fresh(false)?;
                    let extent = Extent {
                        page: *page,
                        block,
                        count: 1,
                        is_written: true,
                    };
                    tx.add_extent(ino, &mut inode, extent)?;
                    let lines = (0..LINES).filter(|line| mask >> line & 1 == 1);
                    data.extend(lines.map(|line| {
                        let mut copy = [0; LINE];
                        copy.copy_from_slice(&bytes[line * LINE..(line + 1) * LINE]);
                        let at = address(block).get() + (line * LINE) as u64;
                        (ByteAddr::new(at), copy, *page)
                    }));
                }
                for page in &plan.converted {
                    for extent in tx.cut_extents(ino, &mut inode, *page..page + 1)? {
                        let written = Extent {
                            is_written: true,
                            ..extent
                        };
                        tx.add_extent(ino, &mut inode, written)?;
                    }
                }
                let batch = tx.state.batch.id;
                let (size, is_last) = match tx.state.nodes.get(&ino) {
                    Some(node) => (node.size, node.dirty.is_empty()),
                    None => (inode.size, false),
                };
                let seen = if is_last { size } else { size.min(plan.end) };
                inode.size = inode.size.max(seen);
                if inode != old {
                    tx.put_times(ino, &mut inode);
                    tx.put_inode(ino, &inode)?;
                }
                // From here on nothing can stop it.
                for (at, line, _) in &data {
                    tx.state.batch.add_data(*at, *line);
                }
                for (block, data, _) in &plan.journaled {
                    tx.state.batch.add_content(*block, Box::new(**data));
                }
                if let Some(pmem) = &mut tx.state.pmem
                    && !(data.is_empty() && plan.journaled.is_empty())
                {
                    pmem.note_batch(ino, batch);
                }
                if let Some(node) = tx.state.nodes.get_mut(&ino) {
                    for (.., page) in &plan.journaled {
                        if let Some(page) = node.pages.get_mut(page) {
                            (page.batch, page.as_block) = (batch, batch);
                        }
                    }
                    if inode != old {
                        node.written = None;
                    }
                    for (_, _, page) in &data {
                        if let Some(page) = node.pages.get_mut(page) {
                            page.batch = batch;
                        }
                    }
                }
                Ok(())
            })
            .await;
        if result == Err(FsError::NoSpace) {
            // Room was kept for contents, and some for metadata. The contents are lost, and the
            // next fsync must not say that they are safe.
            return Err(self.fail("the file system is full and cannot say where written pages are"));
        }
        result
    }
}

/// Takes the first dirty pages of a file and says how they go.
fn plan(state: &mut State, ino: Ino, how: How) -> Before {
    let most_by_lines = state.most_by_lines();
    let by_bytes = state.superblock.personality.writes_data_bytes();
    let is_elsewhere = state.superblock.personality.is_synchronous();
    let committed = state.committed;
    let State {
        nodes,
        clock,
        space,
        reserved,
        batch_most,
        block_lines,
        fresh,
        segments,
        dirty_most,
        pmem,
        ..
    } = state;
    let journals_data = dirty_most.is_some();
    let Some(node) = nodes.get_mut(&ino) else {
        return Before::Nothing;
    };
    let Node {
        extents: Some(extents),
        pages,
        dirty,
        ..
    } = node
    else {
        return Before::Extents;
    };
    let block_lines = match how {
        How::ByLines => LINES as u32 + 1,
        How::Usual | How::InPlace => *block_lines,
    };
    // Those that go by bytes go with one batch: it must have room for them.
    let most = match how {
        How::ByLines => most_by_lines,
        How::Usual | How::InPlace => *batch_most / block_lines as usize,
    };
    let most = PAGES.min(most).max(1);
    // Small segments: writes under way must not take many.
    let most = match segments {
        Some(segments) => most.min(4 * segments.layout.blocks as usize),
        None => most,
    };
    // All of a file go with one batch: who made them dirty has seen that there is room.
    let most = if journals_data { usize::MAX } else { most };
    let chosen: Vec<u64> = dirty.iter().take(most).collect();
    let Some(last) = chosen.last() else {
        return Before::Nothing;
    };
    if let Some(pmem) = pmem
        && pmem.has_stale_frame(ino, &chosen)
    {
        return Before::Frames;
    }
    // First only looked at: some must wait.
    let mut changes: Vec<u64> = Vec::with_capacity(chosen.len());
    let mut cached = InOrder::of(pages, (chosen[0], *last), chosen.len());
    for at in &chosen {
        let page = cached.find(*at);
        let changed = match by_bytes {
            true => page.as_ref().map_or(0, |page| page.changed(block_lines)),
            false => u64::MAX,
        };
        changes.push(changed);
        if let Some(page) = &page
            && changed.count_ones() >= block_lines
            && page.batch > committed
        {
            return Before::Commit(page.batch);
        }
        // Its block goes to its place when that batch is durable: lines must not be there before.
        if let Some(page) = page
            && page.as_block > committed
        {
            return Before::Commit(page.as_block);
        }
    }
    let mut plan = Plan {
        end: node.size.min((last + 1) * PAGE),
        pages: chosen.len(),
        chosen: chosen.clone(),
        ..Plan::default()
    };
    let mut homeless: Vec<u64> = Vec::new();
    // Blocks for pages that are written elsewhere. Where there are none these are overwritten.
    let free = space.free() + fresh.len() as u32;
    let mut spare = match is_elsewhere {
        true => free.saturating_sub(*reserved + MARGIN),
        false => 0,
    };
    dirty.remove_first(chosen.len());
    clock.dirty -= chosen.len();
    let mut ascending = extents.ascending();
    let mut cached = InOrder::of(pages, (chosen[0], *last), chosen.len());
    for (index, (at, changed)) in chosen.iter().copied().zip(changes).enumerate() {
        let Some(page) = cached.find(at) else {
            continue;
        };
        let was_kept = page.original.take().is_some();
        clock.duplicates -= usize::from(was_kept);
        let was_compared = core::mem::take(&mut page.was_compared) || was_kept;
        page.is_known = true;
        let extent = ascending.find(at);
        // A tail goes with the blocks before it: in their request, and to the block behind them, so
        // that the file is one piece when it is read. By bytes it would take a block elsewhere, a
        // slot for it, and as many programs.
        let follows = how != How::ByLines && at > 0 && homeless.last() == Some(&(at - 1));
        let may_be_sparse = extent.is_none() && !follows;
        plan.compared += u64::from(by_bytes && (was_compared || may_be_sparse));
        match extent {
            Some(extent) if extent.is_written && spare > 0 => {
                spare -= 1;
                plan.replaced += 1;
                homeless.push(at);
            }
            Some(extent) if extent.is_written => {
                plan.overwritten += 1;
                let block = extent.block_of(at);
                if changed.count_ones() < block_lines {
                    plan.add_lines(block, &page.data, changed, at);
                } else if journals_data {
                    plan.journaled.push((block, page.data.clone(), at));
                } else {
                    let behind = || run_of(&chosen[index..], extent.end());
                    plan.add_block(block, &page.data, behind);
                }
            }
            // What is there was never written, and is not zero.
            Some(extent) if how == How::ByLines => {
                plan.converted.push(at);
                plan.add_lines(extent.block_of(at), &page.data, u64::MAX, at);
            }
            Some(extent) => {
                plan.converted.push(at);
                let behind = || run_of(&chosen[index..], extent.end());
                plan.add_block(extent.block_of(at), &page.data, behind);
            }
            None => {
                let mask = match by_bytes && may_be_sparse {
                    true => nonzero(&page.data, block_lines),
                    false => u64::MAX,
                };
                if mask.count_ones() < block_lines {
                    plan.sparse.push((at, page.data.clone(), mask));
                } else {
                    homeless.push(at);
                }
            }
        }
        if page.is_reserved {
            page.is_reserved = false;
            node.reserved -= 1;
            *reserved -= 1;
        }
        node.splitting -= u32::from(core::mem::take(&mut page.splits));
    }
    let mut rest = &homeless[..];
    while let Some(first) = rest.first() {
        let behind = rest
            .iter()
            .zip(*first..)
            .take_while(|(page, next)| *page == next);
        let run = behind.count();
        let goal = plan.extents.last().filter(|extent| extent.end() == *first);
        let goal = goal.map(|extent| extent.block.0 + extent.count);
        let goal = goal.or_else(|| extents.goal(*first));
        // Their blocks were reserved, so some may be in the pool of fresh ones. They may be more
        // than a batch has room for by lines.
        let from_pool = || {
            let block = fresh.pop_front()?;
            Some(block.0..block.0 + 1)
        };
        let blocks = space.take_run(goal, ino.0, run as u32).or_else(from_pool);
        let Some(blocks) = blocks else {
            break;
        };
        let (now, later) = rest.split_at(blocks.len());
        plan.place(&*pages, now, &blocks);
        rest = later;
    }
    if !rest.is_empty() {
        // Their blocks were reserved, so some will be in the pool of fresh ones.
        plan.sparse.extend(rest.iter().filter_map(|at| {
            let page = pages.get(at)?;
            Some((*at, page.data.clone(), u64::MAX))
        }));
    }
    node.planned = plan.planned();
    node.keep_for_mapping(reserved);
    Before::Plan(plan)
}

impl Plan {
    /// What of it the inode does not tell of yet.
    fn planned(&self) -> Planned {
        let extents = self.extents.iter();
        let placed: u32 = extents.map(|extent| extent.count).sum();
        let sparse = self.sparse.len() as u32;
        let new = self.extents.len() as u32 + sparse;
        let split = self.converted.len() + self.replaced;
        Planned {
            pages: (placed + sparse).saturating_sub(self.replaced as u32),
            slots: new + SLOTS_OF_SPLIT * split as u32,
            blocks: sparse,
        }
    }

    /// Lines that the batch has of it at most.
    fn lines_most(&self) -> usize {
        let sparse = self.sparse.iter();
        let sparse: usize = sparse.map(|(.., mask)| mask.count_ones() as usize).sum();
        let mapped = self.extents.len() + self.sparse.len() + self.converted.len();
        OVERHEAD_LINES + PAGE_LINES * mapped + self.lines.len() + sparse
    }

    /// Lines of pages that it has.
    fn lines_of_pages(&self) -> u64 {
        let sparse = self.sparse.iter();
        let sparse: u64 = sparse.map(|(.., mask)| u64::from(mask.count_ones())).sum();
        self.lines.len() as u64 + sparse
    }

    /// Adds lines of a page to its block.
    fn add_lines(&mut self, block: BlockNo, page: &SharedBlock, mask: u64, at: u64) {
        for line in (0..LINES).filter(|line| mask >> line & 1 == 1) {
            let mut copy = [0; LINE];
            copy.copy_from_slice(&page[line * LINE..(line + 1) * LINE]);
            let place = address(block).get() + (line * LINE) as u64;
            self.lines.push((ByteAddr::new(place), copy, at));
        }
    }

    /// Adds a block. Of a run that begins with it `run` tells about how many blocks it will have.
    fn add_block(&mut self, block: BlockNo, page: &SharedBlock, run: impl FnOnce() -> usize) {
        match self.blocks.last_mut() {
            Some((first, pages)) if first.0 as usize + pages.len() == block.0 as usize => {
                pages.push(page.clone());
            }
            _ => {
                let mut pages = Vec::with_capacity(run());
                pages.push(page.clone());
                self.blocks.push((block, pages));
            }
        }
    }

    /// The blocks with the bytes of each run in one piece.
    fn runs(&self) -> Vec<(BlockNo, Vec<u8>)> {
        let runs = self.blocks.iter();
        runs.map(|(first, pages)| (*first, Payload::Shared(pages).bytes_out().into_owned()))
            .collect()
    }

    fn place(
        &mut self,
        pages: &std::collections::BTreeMap<u64, crate::state::pages::Page>,
        run: &[u64],
        blocks: &Range<u32>,
    ) {
        for (at, block) in run.iter().zip(blocks.clone()) {
            if let Some(page) = pages.get(at) {
                self.add_block(BlockNo(block), &page.data, || blocks.len());
            }
        }
        if let Some(first) = run.first() {
            self.extents.push(Extent {
                page: *first,
                block: BlockNo(blocks.start),
                count: blocks.end - blocks.start,
                is_written: true,
            });
        }
    }
}
