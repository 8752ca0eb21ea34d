//! Blocks of metadata come from the device: one that is needed, and with it others that are likely
//! to be needed next.

use super::FileSystem;
use crate::gate::{Gate, Passed, join_all};
use crate::layout::BLOCK;
use crate::structures::Structure;
use crate::{BlockNo, FsError};
use port::{Clock, Device, DeviceError};
use std::collections::hash_map::Entry;
use std::sync::PoisonError;

/// Blocks that lie behind each other, as the device has them.
type Run = (BlockNo, Vec<u8>);

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Reads a block of metadata, and of some others those that nobody has or reads yet.
    pub(super) async fn load(&self, block: BlockNo, others: Vec<BlockNo>) -> Result<(), FsError> {
        if block.0 >= self.state().geometry.blocks {
            let reason =
                format!("a pointer to {block} is damaged; run `entresol fsck` on the image");
            return Err(self.fail(&reason));
        }
        let gate = {
            let mut loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
            loading.entry(block).or_default().clone()
        };
        let passed = gate.pass().await;
        let result = match self.is_here(block) {
            true => Ok(()),
            false => {
                let along = self.begin_along(block, others);
                let done = self.read_metadata(block, &along).await;
                for (block, passed) in along {
                    self.leave(block, passed);
                }
                done
            }
        };
        self.leave(block, passed);
        result.map_err(FsError::from)
    }

    /// Whether the host has a block of metadata. Of one that only the journal has, the place on the
    /// device may be older.
    fn is_here(&self, block: BlockNo) -> bool {
        let mut state = self.state();
        let committed = state.committed.0;
        let waiting = state.checkpoint.get(&block).cloned();
        if let Some(data) = waiting
            && !state.blocks.contains(block)
        {
            state.blocks.insert(block, data, false, committed);
        }
        state.blocks.contains(block)
    }

    /// Those of some blocks that come along with another one, in ascending order: their gates are
    /// closed.
    fn begin_along(&self, block: BlockNo, others: Vec<BlockNo>) -> Vec<(BlockNo, Passed)> {
        let mut loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state();
        let is_free = |other: &BlockNo| {
            *other != block
                && other.0 < state.geometry.blocks
                && !state.blocks.contains(*other)
                && !state.checkpoint.contains_key(other)
        };
        let mut along: Vec<(BlockNo, Passed)> = Vec::new();
        for other in others.into_iter().filter(is_free) {
            if let Entry::Vacant(entry) = loading.entry(other)
                && let Some(passed) = entry.insert(Gate::default()).try_pass()
            {
                along.push((other, passed));
            }
        }
        along.sort_unstable_by_key(|(block, _)| *block);
        along
    }

    /// Whoever waits for a block looks again.
    fn leave(&self, block: BlockNo, passed: Passed) {
        drop(passed);
        let mut loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = loading.get(&block).is_some_and(|gate| !gate.is_closed());
        if is_open {
            loading.remove(&block);
        }
    }

    /// Reads a block and those that come along, each run of them at once.
    async fn read_metadata(
        &self,
        block: BlockNo,
        along: &[(BlockNo, Passed)],
    ) -> Result<(), DeviceError> {
        let mut blocks: Vec<BlockNo> = along.iter().map(|(block, _)| *block).collect();
        let at = blocks.partition_point(|other| *other < block);
        blocks.insert(at, block);
        {
            let mut state = self.state();
            for block in &blocks {
                state.blocks.expect(*block);
            }
        }
        let done = match self.read_runs(&blocks).await {
            // What is wanted may be whole where one that comes along is not.
            Err(_) if blocks.len() > 1 => self.read_runs(&[block]).await,
            done => done,
        };
        let mut state = self.state();
        for (first, bytes) in done.iter().flatten() {
            for (block, data) in (first.0..).map(BlockNo).zip(bytes.chunks_exact(BLOCK)) {
                let mut copy = Box::new([0; BLOCK]);
                copy.copy_from_slice(data);
                if let Some(segments) = &state.segments {
                    segments.trim_node(block, &mut copy[..]);
                }
                let of = Structure::of(&state.geometry, block, Some(&copy));
                state.counters.metadata_read(of, BLOCK as u64);
                let committed = state.committed.0;
                state.blocks.arrive(block, copy, committed);
            }
        }
        for block in blocks {
            state.blocks.give_up(block);
        }
        done.map(|_| ())
    }

    async fn read_runs(&self, blocks: &[BlockNo]) -> Result<Vec<Run>, DeviceError> {
        let runs = blocks.chunk_by(|one, next| one.0 + 1 == next.0);
        let mut runs: Vec<Run> = runs
            .map(|run| (run[0], vec![0; run.len() * BLOCK]))
            .collect();
        if let Some(kept) = self.shortcuts.free_metadata() {
            for (first, bytes) in &mut runs {
                kept.overlay(*first, bytes);
            }
            return Ok(runs);
        }
        self.spend(self.costs.request * runs.len() as u64).await;
        let reads = runs.iter_mut();
        let reads = reads.map(|(first, bytes)| Box::pin(self.read_kept(*first, bytes)));
        let done = join_all(reads.collect()).await;
        self.spend(self.costs.switch).await;
        done.into_iter().collect::<Result<(), _>>()?;
        Ok(runs)
    }

    /// Reads blocks of metadata that lie behind each other from the device; those that only the
    /// host has, as it has them.
    pub(super) async fn read_kept(
        &self,
        first: BlockNo,
        bytes: &mut [u8],
    ) -> Result<(), DeviceError> {
        self.read_numbers(first, bytes).await?;
        if let Some(kept) = self.shortcuts.kept_metadata() {
            kept.overlay(first, bytes);
        }
        Ok(())
    }
}
