//! A mounted file system.

mod attributes;
mod behind;
mod commit;
mod data;
mod direct;
mod format;
mod load;
mod mount;
mod names;
mod options;
mod past_cache;
mod places;
mod pmem;
pub(crate) mod replay;
mod sizes;
mod sync;
mod wanted;
mod write_back;

pub use format::FormatOptions;
pub(crate) use format::{write_checkpoint, write_twins};
pub(crate) use mount::read_superblock;
pub use options::{DataMode, MountOptions};
pub use pmem::DaxReport;
pub use sizes::MappedExtent;
pub(crate) use write_back::{OVERHEAD_LINES, PAGE_LINES};

use crate::costs::CpuCosts;
use crate::gate::{Bell, Gate};
use crate::journal::Journal;
use crate::layout::BLOCK;
use crate::shortcuts::Shortcuts;
use crate::state::State;
use crate::stats::FsStats;
use crate::structures::Structure;
use crate::tx::{Done, Stop, Tx, USUAL_FRESH};
use crate::{BlockNo, FsError, Ino, Usage};
use core::ops::Range;
use port::{Acknowledge, Clock, Device, PersistenceDomain, Shape};
use rustc_hash::FxHashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::{ByteAddr, Bytes, Picos, TxId};

/// Blocks that are made to read as zeroes at a time: few where little is free, since not every
/// request can be served from them.
const FRESH_AT_A_TIME: core::ops::RangeInclusive<u32> = 16..=USUAL_FRESH as u32;
/// Of what is free, so small a part in between.
const FRESH_SHARE: u32 = 256;
/// Of what is free so small a part, and so many at most, for a large directory.
const FRESH_SHARE_OF_RUN: u32 = 64;
const FRESH_RUN_MOST: u32 = 4096;

/// Blocks that contents and names leave for what says where contents are.
pub(crate) const MARGIN: u32 = 24;

/// Pages of a file in the host's page cache.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CachedPages {
    /// All of them.
    pub pages: u64,
    /// Those that the device has not as they are.
    pub dirty: u64,
}

/// A file system on a device. Every method may be called by many tasks at a time.
pub struct FileSystem<D, C> {
    pub(crate) device: D,
    pub(crate) clock: C,
    pub(crate) shape: Shape,
    pub(crate) costs: CpuCosts,
    pub(crate) is_read_only: bool,
    /// An operation is durable when it is answered.
    pub(crate) is_synchronous: bool,
    /// The host keeps contents of files; else reads and writes of them go to the device.
    pub(crate) caches_contents: bool,
    /// Free blocks are trimmed before lines of them are written; else zeroes are.
    pub(crate) trims: bool,
    /// What a write has changed is durable as a whole (data journaling).
    pub(crate) journals_data: bool,
    /// The log survives a power cut by itself, and blocks do not before a flush: a batch waits for
    /// those that were written before it.
    pub(crate) orders_blocks: bool,
    pub(crate) shortcuts: Shortcuts,
    pub(crate) state: Mutex<State>,
    /// Who makes a batch durable has it.
    journal: Mutex<Option<Journal>>,
    /// Who seals a batch and writes it has it.
    commit_gate: Gate,
    /// Who makes a batch count has it. He has the other one until he gets it, so batches come in
    /// order; and where he gives that back, the next batch is written meanwhile.
    pub(crate) order_gate: Gate,
    /// Rings when a batch is sealed, when one is durable, and when the file system fails.
    progress: Bell,
    fresh_gate: Gate,
    cleaning_gate: Gate,
    /// Blocks of metadata that are being read, and where to wait for them.
    loading: Mutex<FxHashMap<BlockNo, Gate>>,
}

/// Where a block begins on the device.
pub(crate) fn address(block: BlockNo) -> ByteAddr {
    ByteAddr::new(u64::from(block.0) * BLOCK as u64)
}

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Gives the device back. What was not made durable before is lost: see
    /// [`FileSystem::unmount`].
    pub fn into_device(self) -> D {
        self.device
    }

    /// Why nothing can be changed any more, if the device has failed or is damaged.
    pub fn failed(&self) -> Option<String> {
        self.state().failed.clone()
    }

    /// How full it is.
    pub fn usage(&self) -> Usage {
        self.state().usage()
    }

    /// Pages of a file that the host has.
    pub fn cached_pages(&self, ino: Ino) -> CachedPages {
        let state = self.state();
        let node = state.nodes.get(&ino);
        node.map_or(CachedPages::default(), |node| CachedPages {
            pages: node.pages.len() as u64,
            dirty: node.dirty.len() as u64,
        })
    }

    /// What it saves as only a simulated run may.
    pub fn shortcuts(&self) -> &Shortcuts {
        &self.shortcuts
    }

    /// What it has done.
    pub fn stats(&self) -> FsStats {
        let state = self.state();
        let segments = state.segments.as_ref();
        FsStats {
            cleaned_segments: segments.map_or(0, |segments| segments.cleaned),
            moved_blocks: segments.map_or(0, |segments| segments.relocated),
            cached_pages: state.clock.cached as u64,
            dirty_pages: state.clock.dirty as u64,
            duplicate_pages: state.clock.duplicates as u64,
            ..state.counters.0
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Option<Journal>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a processor busy.
    pub(crate) async fn spend(&self, cost: Picos) {
        if cost != Picos::ZERO {
            self.clock.spend(cost).await;
        }
    }

    /// From now on nothing is changed: what the device has might contradict what the host has.
    pub(crate) fn fail(&self, reason: &str) -> FsError {
        let mut state = self.state();
        state.failed.get_or_insert_with(|| reason.to_owned());
        drop(state);
        self.progress.ring();
        FsError::Io(reason.to_owned())
    }

    /// Refuses changes where there may be none.
    pub(crate) fn writable(&self) -> Result<(), FsError> {
        if self.is_read_only {
            return Err(FsError::ReadOnly("it was mounted so".into()));
        }
        match &self.state().failed {
            Some(reason) => Err(FsError::ReadOnly(reason.clone())),
            None => Ok(()),
        }
    }

    /// Runs an operation that looks at metadata or changes it, again and again until everything
    /// that it needs is there.
    pub(crate) async fn run<T>(
        &self,
        operation: impl FnMut(&mut Tx<'_>) -> Done<T>,
    ) -> Result<T, FsError> {
        self.run_within(MARGIN, operation).await
    }

    /// As [`FileSystem::run`]; leaves so many blocks to who has to write back.
    pub(crate) async fn run_within<T>(
        &self,
        margin: u32,
        mut operation: impl FnMut(&mut Tx<'_>) -> Done<T>,
    ) -> Result<T, FsError> {
        loop {
            let stop = {
                let mut state = self.state();
                let mut tx = Tx::new(&mut state, margin);
                match operation(&mut tx) {
                    Ok(value) => {
                        tx.finish();
                        return Ok(value);
                    }
                    Err(stop) => {
                        tx.roll_back();
                        stop
                    }
                }
            };
            match stop {
                Stop::Miss(block, others) => self.load(block, others).await?,
                Stop::Fresh { least, many } => self.refill(least, many, margin).await?,
                Stop::Full => self.commit_full().await?,
                Stop::Error(error) => return Err(error),
                Stop::Damaged(what) => {
                    let reason = format!(
                        "{what} is damaged; unmount and run `entresol fsck --repair` on the image"
                    );
                    return Err(self.fail(&reason));
                }
            }
        }
    }

    /// As [`FileSystem::run`], for what changes something: on a file system that may be changed,
    /// and with room in the running batch.
    pub(crate) async fn change<T>(
        &self,
        lines: usize,
        mut operation: impl FnMut(&mut Tx<'_>) -> Done<T>,
    ) -> Result<T, FsError> {
        self.writable()?;
        self.balance().await?;
        self.spend(self.costs.change).await;
        let done = self.run(|tx| {
            tx.need_room(lines)?;
            operation(tx)
        });
        let value = done.await?;
        if self.is_synchronous {
            self.commit().await?;
        }
        Ok(value)
    }

    /// Makes free blocks read as zeroes, so that lines of them can be written: so many at least,
    /// and `many` behind each other if that is a small part of what is free.
    async fn refill(&self, least: usize, many: usize, margin: u32) -> Result<(), FsError> {
        let _passed = self.fresh_gate.pass().await;
        loop {
            let run = {
                let mut state = self.state();
                if state.fresh.len() >= least {
                    return Ok(());
                }
                // Who writes back takes what was kept for it.
                let reserved = if margin > 0 { state.reserved } else { 0 };
                let kept = reserved + margin + state.node_blocks();
                let can = state.space.free().saturating_sub(kept);
                match can {
                    0 => None,
                    can => {
                        let (few, usual) = FRESH_AT_A_TIME.into_inner();
                        let count = (can / FRESH_SHARE).clamp(few, usual).min(can);
                        let many = u32::try_from(many).unwrap_or(u32::MAX);
                        let many = many.min(can / FRESH_SHARE_OF_RUN).min(FRESH_RUN_MOST);
                        state.space.take_run(None, 0, count.max(many))
                    }
                }
            };
            if let Some(run) = run {
                self.trim(run.clone()).await?;
                self.state().fresh.extend(run.map(BlockNo));
                continue;
            }
            // What was freed is free when that is durable.
            if self.state().pending_free == 0 {
                return Err(FsError::NoSpace);
            }
            self.commit().await?;
        }
    }

    /// Has blocks read as zeroes on the device.
    async fn trim(&self, run: Range<u32>) -> Result<(), FsError> {
        // What has no place reads as zeroes.
        if self.state().segments.is_some() {
            return Ok(());
        }
        if self.trims {
            let size = Bytes::new(u64::from(run.end - run.start) * BLOCK as u64);
            self.spend(self.costs.request + self.costs.switch).await;
            let done = self.device.trim(address(BlockNo(run.start)), size).await;
            done.map_err(|error| self.fail(&error.to_string()))?;
            self.state().counters.0.trims += u64::from(run.end - run.start);
        } else {
            self.write_zeroes(&run).await?;
        }
        let kept = [self.shortcuts.kept(), self.shortcuts.kept_metadata()];
        for kept in kept.into_iter().flatten() {
            kept.forget(run.clone());
        }
        Ok(())
    }

    /// Writes zeroes to free blocks: by blocks where a batch is a transaction, whose lines come
    /// behind them, and else by stores, as PMFS and NOVA clear a block.
    async fn write_zeroes(&self, run: &Range<u32>) -> Result<(), FsError> {
        let (at, zeroes) = (address(BlockNo(run.start)), vec![0; run.len() * BLOCK]);
        let (size, by_blocks) = (zeroes.len() as u64, self.shape.transactions.is_some());
        let done = if by_blocks {
            self.spend(self.costs.request).await;
            let when = Acknowledge::Accepted;
            let done = self.device.write_blocks(at, &zeroes, when).await;
            self.spend(self.costs.switch).await;
            done.map(|_| ())
        } else {
            self.device.write(at, &zeroes, TxId::NONE).await.map(|_| ())
        };
        done.map_err(|error| self.fail(&error.to_string()))?;
        {
            // Most of them become names.
            let counters = &mut self.state().counters;
            match by_blocks {
                true => counters.metadata_written(Structure::Entries, size),
                false => counters.metadata_stored(Structure::Entries, size),
            }
        }
        if by_blocks {
            self.note_block_write();
        }
        Ok(())
    }

    /// The running batch has no room: with segments that takes a checkpoint.
    async fn commit_full(&self) -> Result<(), FsError> {
        let id = {
            let mut state = self.state();
            match &mut state.segments {
                Some(segments) => {
                    segments.wants_checkpoint = true;
                    None
                }
                // Freed blocks are given out again when that is durable.
                None => (!state.batch.is_empty()).then_some(state.batch.id),
            }
        };
        match id {
            Some(id) => self.seal(id).await,
            None => self.commit().await,
        }
    }

    /// Waits until what the block port was answered for survives a power cut.
    pub(crate) async fn flush_blocks(&self) -> Result<(), FsError> {
        if self.shape.block_domain == PersistenceDomain::Flash {
            let written = self.state().block_writes.last;
            self.state().counters.0.flushes += 1;
            self.spend(self.costs.request).await;
            let done = self.device.flush().await;
            self.spend(self.costs.switch).await;
            done.map_err(|error| self.fail(&error.to_string()))?;
            self.note_flushed(written);
        }
        Ok(())
    }

    /// Blocks of files were answered for.
    pub(crate) fn note_block_write(&self) {
        self.state().block_writes.last += 1;
    }

    /// What was answered for when a flush was asked for survives.
    pub(crate) fn note_flushed(&self, written: u64) {
        let writes = &mut self.state().block_writes;
        writes.flushed = writes.flushed.max(written);
    }
}
