//! A batch goes to the logs of the inodes that it changes, and counts when their tails have moved:
//! where these lie in one line by that line, else behind a record that would take them back (NOVA's
//! journal of tails).

use super::Line;
use crate::fs::{FileSystem, address};
use crate::layout::{BLOCK, Geometry, INODE_BYTES, LINE, Superblock, kind_of};
use crate::logs::{
    Area, LineNo, Logs, NOBODY, Prepared, Said, differing, head_epoch, head_line, next_epoch,
    record_head, record_lines, recover,
};
use crate::state::State;
use crate::state::batch::Sealed;
use crate::state::blocks::line_of;
use crate::stats::Class;
use crate::{BlockNo, Ino, MountError};
use port::{Clock, Device, DeviceError};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use units::{ByteAddr, TxId};

type Block = Box<[u8; BLOCK]>;

pub(crate) struct LogJournal {
    logs: Logs,
    /// Blocks of bitmaps that are not as the device has them. They are written at the unmount: in
    /// NOVA, too, free lists are the host's alone until then.
    bitmaps: BTreeSet<BlockNo>,
}

/// What a batch says, by log, and logs of inodes that are none any more.
type Changes = (BTreeMap<Ino, Said>, Vec<Ino>);

fn split(at: ByteAddr) -> LineNo {
    let block = BlockNo((at.get() / BLOCK as u64) as u32);
    (block, (at.get() % BLOCK as u64 / LINE as u64) as u8)
}

fn is_bitmap(geometry: &Geometry, block: BlockNo) -> bool {
    geometry.block_bitmap.contains(&block.0) || geometry.inode_bitmap.contains(&block.0)
}

/// The block of that number, of blocks in ascending order.
fn find(blocks: &[(BlockNo, Block)], block: BlockNo) -> Option<&[u8; BLOCK]> {
    let at = blocks.binary_search_by_key(&block, |(number, _)| *number);
    at.ok().map(|at| &*blocks[at].1)
}

impl LogJournal {
    /// None if there is no room for logs.
    pub fn new(geometry: &Geometry) -> Option<Self> {
        let logs = Logs::new(Area::of(geometry)?, 0);
        let bitmaps = BTreeSet::new();
        Some(Self { logs, bitmaps })
    }

    /// Begins with empty logs; what those of an earlier mount say is brought to its place first.
    pub async fn open<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
        superblock: &Superblock,
    ) -> Result<(), MountError> {
        let geometry = fs.state().geometry.clone();
        let area = self.logs.area.clone();
        let epoch = if superblock.is_clean {
            let mut head = [0; LINE];
            fs.device.read(area.head(), &mut head).await?;
            let known = head_epoch(&head).unwrap_or_default();
            let epoch = next_epoch(known.max(superblock.checkpoint as u32));
            self.write_head(fs, epoch).await?;
            epoch
        } else {
            let recovered = recover(&fs.device, &geometry, false).await?;
            let bitmaps = geometry.block_bitmap.start..geometry.inode_bitmap.end;
            self.bitmaps = bitmaps.map(BlockNo).collect();
            let mut state = fs.state();
            state.counters.class(Class::Metadata).bytes_written += recovered.written;
            recovered.epoch
        };
        self.logs = Logs::new(area, epoch);
        fs.state().superblock.checkpoint = u64::from(epoch);
        Ok(())
    }

    async fn write_head<D: Device, C: Clock>(
        &self,
        fs: &FileSystem<D, C>,
        epoch: u32,
    ) -> Result<(), DeviceError> {
        let line = (self.logs.area.head(), head_line(epoch));
        fs.write_lines(&[line], TxId::NONE, Class::Metadata).await?;
        fs.persist_lines().await
    }

    /// What a batch says in which logs.
    fn changes(&self, state: &State, batch: &Sealed) -> Changes {
        let geometry = &state.geometry;
        let before: FxHashMap<ByteAddr, [u8; LINE]> = batch.before.iter().copied().collect();
        let mut said: BTreeMap<Ino, Said> = BTreeMap::new();
        let mut dropped = BTreeSet::new();
        for (at, line) in &batch.lines {
            let (block, number) = split(*at);
            if is_bitmap(geometry, block) {
                continue;
            }
            let words = match before.get(at) {
                Some(before) => differing(before, line),
                None => u8::MAX,
            };
            let mut ino = state.owner(block);
            if geometry.inode_table.contains(&block.0) {
                let place = usize::from(number) * LINE / INODE_BYTES;
                let first = (block.0 - geometry.inode_table.start) * geometry.inodes_per_block;
                ino = Ino(first + place as u32);
                let data = find(&batch.blocks, block);
                let is_free = |data: &[u8; BLOCK]| kind_of(&data[place * INODE_BYTES..]).is_none();
                if data.is_some_and(is_free) {
                    dropped.insert(ino);
                    ino = NOBODY;
                }
            }
            if words != 0 {
                *said
                    .entry(ino)
                    .or_default()
                    .words
                    .entry((block, number))
                    .or_default() |= words;
            }
        }
        for block in &batch.revoked {
            let logs = BTreeSet::from([state.owner(*block), NOBODY]);
            let logs = logs.into_iter().filter(|ino| !dropped.contains(ino));
            for ino in logs.filter(|ino| self.logs.says_of(*ino, *block)) {
                said.entry(ino).or_default().revoked.push(*block);
            }
        }
        // What the log of an inode said that is none any more, and is still metadata: its inode,
        // which is free.
        for ino in &dropped {
            let kept = self.logs.words(*ino);
            for (at, words) in kept.filter(|((block, _), _)| !batch.revoked.contains(block)) {
                *said.entry(NOBODY).or_default().words.entry(at).or_default() |= words;
            }
        }
        let dropped = dropped.into_iter().filter(|ino| self.logs.has(*ino));
        (said, dropped.collect())
    }

    fn prepare<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
        batch: &Sealed,
    ) -> Option<Prepared> {
        let state = fs.state();
        let (said, dropped) = self.changes(&state, batch);
        let value = |(block, line): LineNo| {
            let known = find(&batch.blocks, block);
            let known = known.or_else(|| state.checkpoint.get(&block).map(|data| &**data));
            known.map(|data| line_of(data, line.into()))
        };
        // Batches of one number of logs are fewer than 2^32.
        self.logs.prepare(batch.id.0 as u32, said, dropped, &value)
    }

    pub async fn persist<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
        batch: &Sealed,
    ) -> Result<(), DeviceError> {
        if !batch.data.is_empty() {
            return Err(DeviceError::Stopped {
                reason: "contents came with a batch, which logs of inodes have no place for; \
                         report it"
                    .into(),
            });
        }
        let prepared = match self.prepare(fs, batch) {
            Some(prepared) => prepared,
            None => {
                self.bring_home(fs).await?;
                self.prepare(fs, batch).ok_or_else(|| DeviceError::Stopped {
                    reason: format!(
                        "the logs have {} pages and a change needs more; make the file system with \
                         a larger journal",
                        self.logs.area.pages
                    ),
                })?
            }
        };
        self.write(fs, &prepared).await?;
        let mut state = fs.state();
        state.counters.0.cleaned_logs += prepared.cleaned;
        self.logs.finish(prepared);
        for block in &batch.revoked {
            state.checkpoint.remove(block);
            state.disown(*block);
        }
        for (block, data) in &batch.blocks {
            if is_bitmap(&state.geometry, *block) {
                self.bitmaps.insert(*block);
            } else {
                state.checkpoint.insert(*block, data.clone());
            }
        }
        Ok(())
    }

    /// Writes behind tails, then tails.
    async fn write<D: Device, C: Clock>(
        &self,
        fs: &FileSystem<D, C>,
        prepared: &Prepared,
    ) -> Result<(), DeviceError> {
        let area = &self.logs.area;
        let metadata = Class::Metadata;
        if prepared.table.is_empty() {
            return Ok(());
        }
        if prepared.table.len() > area.record_most() as usize {
            return Err(DeviceError::Stopped {
                reason: format!(
                    "the record of tails has room for {} lines and a change needs {}; make the \
                     file system with a larger journal",
                    area.record_most(),
                    prepared.table.len()
                ),
            });
        }
        fs.write_lines(&prepared.lines, TxId::NONE, metadata)
            .await?;
        let is_one = prepared.table.len() == 1;
        if !is_one {
            let old = prepared
                .table
                .iter()
                .map(|(number, old, _)| (*number, *old));
            let old: Vec<(u32, [u8; LINE])> = old.collect();
            let record = record_lines(area, self.logs.epoch, &old);
            fs.write_lines(&record, TxId::NONE, Class::Journal).await?;
        }
        fs.persist_lines().await?;
        let tails = prepared.table.iter();
        let tails = tails.map(|(number, _, new)| (area.table_line(*number), *new));
        let tails: Vec<Line> = tails.collect();
        fs.write_lines(&tails, TxId::NONE, metadata).await?;
        fs.persist_lines().await?;
        if !is_one {
            let head = (area.record_head(), record_head(self.logs.epoch, 0, 0));
            fs.write_lines(&[head], TxId::NONE, Class::Journal).await?;
            fs.persist_lines().await?;
        }
        Ok(())
    }

    /// Brings what logs say to its place, and empties them.
    async fn bring_home<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
    ) -> Result<(), DeviceError> {
        let lines = {
            let state = fs.state();
            let lines = self
                .logs
                .every_line()
                .into_iter()
                .filter_map(|(block, line)| {
                    let data = state.checkpoint.get(&block)?;
                    let at = address(block).get() + u64::from(line) * LINE as u64;
                    Some((ByteAddr::new(at), line_of(data, line.into())))
                });
            lines.collect::<Vec<Line>>()
        };
        fs.write_lines(&lines, TxId::NONE, Class::Metadata).await?;
        fs.persist_lines().await?;
        self.write_head(fs, next_epoch(self.logs.epoch)).await?;
        self.logs.empty();
        let mut state = fs.state();
        state.checkpoint.clear();
        state.counters.0.emptied_logs += 1;
        Ok(())
    }

    /// Leaves empty logs, and bitmaps as they are.
    pub async fn close<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
    ) -> Result<(), DeviceError> {
        let lines = {
            let mut state = fs.state();
            let mut lines: Vec<Line> = Vec::new();
            for block in core::mem::take(&mut self.bitmaps) {
                let Some(buffer) = state.blocks.get(block) else {
                    continue;
                };
                let at = |line: usize| ByteAddr::new(address(block).get() + (line * LINE) as u64);
                let all = 0..BLOCK / LINE;
                lines.extend(all.map(|line| (at(line), line_of(&buffer.data, line))));
            }
            lines
        };
        fs.write_lines(&lines, TxId::NONE, Class::Metadata).await?;
        self.bring_home(fs).await?;
        fs.state().superblock.checkpoint = u64::from(self.logs.epoch);
        Ok(())
    }
}
