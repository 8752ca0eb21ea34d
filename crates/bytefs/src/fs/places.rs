//! Blocks by number where numbers lead to places: read, written to the head of a log, moved.

use super::{FileSystem, address};
use crate::gate::join_all;
use crate::layout::{BLOCK, sum};
use crate::segments::{Log, Moved, Policy, Segments};
use crate::state::State;
use crate::stats::Class;
use crate::structures::Structure;
use crate::{BlockNo, FsError, Ino};
use core::ops::Range;
use port::{Acknowledge, Clock, Device, DeviceError};

/// Segments that are cleaned before the next checkpoint frees them.
const AT_A_TIME: u32 = 4;

/// Bytes that go to one place.
struct Piece {
    number: u32,
    places: Range<u32>,
    /// Of the run with this index, from this block on.
    run: usize,
    from: usize,
    is_overwritten: bool,
}

impl Piece {
    fn bytes<'b>(&self, runs: &'b [(BlockNo, Vec<u8>)]) -> &'b [u8] {
        &runs[self.run].1[self.from * BLOCK..][..self.places.len() * BLOCK]
    }
}

/// Says where blocks go: those of `elsewhere` never where they are. None: there is no room.
fn assign(
    segments: &mut Segments,
    runs: &[(BlockNo, Vec<u8>)],
    in_place: bool,
    elsewhere: &[BlockNo],
    may_use_all: bool,
) -> Option<Vec<Piece>> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut add =
        |run: usize, from: usize, number: u32, place: u32, is_overwritten: bool| match pieces
            .last_mut()
        {
            Some(last)
                if last.run == run
                    && last.is_overwritten == is_overwritten
                    && last.number + last.places.len() as u32 == number
                    && last.places.end == place =>
            {
                last.places.end += 1;
            }
            _ => pieces.push(Piece {
                number,
                places: place..place + 1,
                run,
                from,
                is_overwritten,
            }),
        };
    let mut homeless = Vec::new();
    for (run, (first, bytes)) in runs.iter().enumerate() {
        for (from, number) in (0..bytes.len() / BLOCK).zip(first.0..) {
            let place = segments.place(BlockNo(number));
            let stays = |place: &u32| {
                in_place && segments.may_overwrite(*place) && !elsewhere.contains(&BlockNo(number))
            };
            match place.filter(stays) {
                Some(place) => add(run, from, number, place, true),
                None => homeless.push((run, from, number)),
            }
        }
    }
    let wanted = homeless.len() as u32;
    if !may_use_all && wanted > segments.room() {
        return None;
    }
    let taken = segments.take_all(Log::WarmData, wanted)?;
    for ((run, from, number), place) in homeless.into_iter().zip(taken.into_iter().flatten()) {
        add(run, from, number, place, false);
    }
    for piece in pieces.iter().filter(|piece| piece.is_overwritten) {
        segments.overwrite(piece.places.clone());
    }
    Some(pieces)
}

/// A block that cleaning moves: its number, where it was, where it is to be, its bytes.
type Move<'a> = (u32, u32, u32, &'a [u8]);

impl State {
    /// Counts what cleaning has read and written, nodes apart from all else.
    fn note_cleaned(&mut self, valid: &[(u32, u32)], moves: &[Move<'_>]) {
        let is_node = |state: &Self, number: u32| {
            let segments = state.segments.as_ref();
            segments.is_some_and(|segments| segments.is_node(BlockNo(number)))
        };
        for (number, _) in valid {
            match is_node(self, *number) {
                true => self.counters.metadata_read(Structure::Inodes, BLOCK as u64),
                false => self.counters.class(Class::Data).blocks_read += BLOCK as u64,
            }
        }
        for (number, ..) in moves {
            match is_node(self, *number) {
                true => self
                    .counters
                    .metadata_written(Structure::Inodes, BLOCK as u64),
                false => self.counters.class(Class::Data).blocks_written += BLOCK as u64,
            }
        }
    }
}

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Reads blocks whose numbers are behind each other.
    pub(super) async fn read_numbers(
        &self,
        first: BlockNo,
        bytes: &mut [u8],
    ) -> Result<(), DeviceError> {
        let count = (bytes.len() / BLOCK) as u32;
        let places = || {
            let state = self.state();
            let segments = state.segments.as_ref();
            segments.map(|segments| segments.runs(first, count))
        };
        let Some(mut runs) = places() else {
            return self
                .device
                .read_blocks(address(first), bytes)
                .await
                .map(|_| ());
        };
        loop {
            let mut reads = Vec::with_capacity(runs.len());
            let mut rest = &mut *bytes;
            for (place, length) in &runs {
                let (part, behind) = rest.split_at_mut(*length as usize * BLOCK);
                rest = behind;
                match place {
                    Some(place) => {
                        let at = address(BlockNo(*place));
                        reads.push(self.device.read_blocks(at, part));
                    }
                    None => part.fill(0),
                }
            }
            for done in join_all(reads).await {
                done?;
            }
            // Cleaning may have moved them, and what was read may be another block's.
            match places() {
                Some(now) if now != runs => runs = now,
                _ => return Ok(()),
            }
        }
    }

    /// Reads blocks of contents whose numbers are behind each other.
    pub(super) async fn read_contents(
        &self,
        first: BlockNo,
        bytes: &mut [u8],
    ) -> Result<(), DeviceError> {
        if let Some(kept) = self.shortcuts.kept() {
            kept.read(first, bytes);
            return Ok(());
        }
        if !self.caches_contents {
            self.device.read(address(first), bytes).await?;
            self.state().counters.class(Class::Data).bytes_read += bytes.len() as u64;
            return Ok(());
        }
        self.spend(self.costs.request).await;
        self.read_numbers(first, bytes).await?;
        self.spend(self.costs.switch).await;
        self.state().counters.class(Class::Data).blocks_read += bytes.len() as u64;
        Ok(())
    }

    /// Blocks with a place, of pages whose bytes end at `end`, that hold bytes beyond the length
    /// that the inode knows.
    async fn growing(&self, ino: Ino, pages: &[u64], end: u64) -> Result<Vec<BlockNo>, FsError> {
        self.run(|tx| {
            let inode = tx.inode(ino)?;
            if end <= inode.size {
                return Ok(Vec::new());
            }
            let first = pages.partition_point(|page| *page < inode.size / BLOCK as u64);
            let extents = tx.extents(ino, &inode)?;
            let blocks = pages[first..].iter().filter_map(|page| {
                let extent = extents.find(*page)?;
                Some(extent.block_of(*page))
            });
            let mut blocks: Vec<BlockNo> = blocks.collect();
            if let Some(segments) = &tx.state.segments {
                blocks.retain(|block| segments.place(*block).is_some());
            }
            Ok(blocks)
        })
        .await
    }

    /// Writes contents, whose last byte is before `end`: to the head of the log of contents, or
    /// where they are if `in_place` and they have a place. The record with a new length goes in
    /// the same flush, and must not count without the bytes below that: so they go elsewhere, and
    /// the record has their sum.
    pub(super) async fn write_contents(
        &self,
        ino: Ino,
        runs: &[(BlockNo, Vec<u8>)],
        (pages, end): (&[u64], u64),
        in_place: bool,
    ) -> Result<(), FsError> {
        let blocks: usize = runs.iter().map(|(_, bytes)| bytes.len() / BLOCK).sum();
        let growing = self.growing(ino, pages, end).await?;
        let mut is_short = false;
        let pieces = loop {
            let (in_place, elsewhere) = match is_short {
                true => (true, &[][..]),
                false => (in_place, &growing[..]),
            };
            let assigned = match &mut self.state().segments {
                Some(segments) => assign(segments, runs, in_place, elsewhere, is_short),
                None => Some(Vec::new()),
            };
            match assigned {
                Some(pieces) => break pieces,
                None if is_short => {
                    return Err(self.fail("no segment is free for contents that had their room"));
                }
                // Without room contents are written where they are, as F2FS does then.
                None => is_short = !self.make_room(blocks as u32).await?,
            }
        };
        let writes = pieces.iter().map(|piece| {
            let at = address(BlockNo(piece.places.start));
            let when = Acknowledge::Accepted;
            self.device.write_blocks(at, piece.bytes(runs), when)
        });
        let done = join_all(writes.collect()).await;
        let sums = pieces.iter().map(|piece| sum(piece.bytes(runs)));
        let sums: Vec<u32> = sums.collect();
        if let Some(segments) = &mut self.state().segments {
            for (piece, sum) in pieces.iter().zip(sums) {
                if !piece.is_overwritten {
                    segments.note_moved(Moved {
                        number: piece.number,
                        place: piece.places.start,
                        count: piece.places.len() as u32,
                        sum,
                    });
                }
                segments.settle(piece.places.clone());
            }
            // F2FS overwrites those that grow as well, and its pointers stay.
            let is_moved = |piece: &Piece| {
                let mut numbers = piece.number..piece.number + piece.places.len() as u32;
                let is_new = |number: u32| !in_place || !growing.contains(&BlockNo(number));
                !piece.is_overwritten && numbers.any(is_new)
            };
            if pieces.iter().any(is_moved) {
                segments.note_pointers(ino, pages.iter().copied());
            }
        }
        for result in done {
            result.map_err(|error| self.fail(&error.to_string()))?;
        }
        // No record has a sum of what was overwritten.
        if is_short && !growing.is_empty() {
            self.flush_blocks().await?;
        }
        Ok(())
    }

    /// Cleans segments until contents find room for so many blocks; says whether they do.
    async fn make_room(&self, wanted: u32) -> Result<bool, FsError> {
        let _passed = self.cleaning_gate.pass().await;
        let steps = match &self.state().segments {
            Some(segments) => segments.layout.count(),
            None => 0,
        };
        for _ in 0..steps {
            let (room, would_free) = match &self.state().segments {
                Some(segments) => (segments.room(), segments.would_free()),
                None => return Ok(true),
            };
            if room >= wanted {
                return Ok(true);
            }
            if !would_free {
                let mut cleaned = 0;
                while cleaned < AT_A_TIME && self.clean(Policy::Greedy).await? {
                    cleaned += 1;
                }
                if cleaned == 0 {
                    return Ok(false);
                }
            }
            self.checkpoint().await?;
        }
        Ok(false)
    }

    /// Moves what is valid out of a segment; says whether there was one.
    async fn clean(&self, policy: Policy) -> Result<bool, FsError> {
        let valid = match &mut self.state().segments {
            Some(segments) => segments.begin_cleaning(policy),
            None => None,
        };
        let Some(valid) = valid else {
            return Ok(false);
        };
        let moved = self.relocate(&valid).await;
        if let Some(segments) = &mut self.state().segments {
            segments.end_cleaning(valid.len() as u64);
        }
        moved.map_err(|error| self.fail(&error.to_string()))?;
        Ok(true)
    }

    async fn relocate(&self, valid: &[(u32, u32)]) -> Result<(), DeviceError> {
        let mut blocks: Vec<(u32, u32, Box<[u8; BLOCK]>)> = Vec::with_capacity(valid.len());
        for (number, place) in valid {
            blocks.push((*number, *place, Box::new([0; BLOCK])));
        }
        let reads = blocks.iter_mut().map(|(_, place, data)| {
            self.device
                .read_blocks(address(BlockNo(*place)), &mut data[..])
        });
        for done in join_all(reads.collect()).await {
            done?;
        }
        let mut moves = Vec::with_capacity(blocks.len());
        if let Some(segments) = &mut self.state().segments {
            for (number, place, data) in &mut blocks {
                segments.trim_node(BlockNo(*number), &mut data[..]);
                if segments.place(BlockNo(*number)) != Some(*place) {
                    continue;
                }
                let log = match segments.is_node(BlockNo(*number)) {
                    true => segments.log_of(BlockNo(*number), data),
                    false => Log::ColdData,
                };
                let Some(new) = segments.take(log, 1) else {
                    break;
                };
                moves.push((*number, *place, new.start, &data[..]));
            }
        }
        self.spend(self.costs.request * (valid.len() + moves.len()) as u64)
            .await;
        let writes = moves.iter().map(|(_, _, new, data)| {
            let at = address(BlockNo(*new));
            self.device.write_blocks(at, data, Acknowledge::Accepted)
        });
        let done = join_all(writes.collect()).await;
        self.spend(self.costs.switch).await;
        let sums: Vec<u32> = moves.iter().map(|(.., data)| sum(data)).collect();
        let mut state = self.state();
        state.note_cleaned(valid, &moves);
        if let Some(segments) = &mut state.segments {
            for ((number, old, new, _), sum) in moves.iter().zip(sums) {
                // It may have been written meanwhile, or be nobody's any more.
                if segments.place(BlockNo(*number)) == Some(*old) {
                    segments.note_moved(Moved {
                        number: *number,
                        place: *new,
                        count: 1,
                        sum,
                    });
                }
                segments.settle(*new..new + 1);
            }
        }
        drop(state);
        done.into_iter().try_for_each(|result| result.map(|_| ()))
    }

    /// Has segments for what syncs and checkpoints write: cleans some where there are few and
    /// others have holes. The kernel's `f2fs_balance_fs`.
    pub(super) async fn balance(&self) -> Result<(), FsError> {
        let wanted = match &self.state().segments {
            Some(segments) if segments.wants_balance() => 2 * segments.layout.blocks,
            _ => return Ok(()),
        };
        self.make_room(wanted).await.map(|_| ())
    }

    /// Makes everything durable by a checkpoint, where there are such.
    pub(super) async fn checkpoint(&self) -> Result<(), FsError> {
        {
            let mut state = self.state();
            let is_dirty = !state.checkpoint.is_empty() || !state.batch.is_empty();
            if let Some(segments) = &mut state.segments {
                segments.wants_checkpoint |= is_dirty || segments.is_dirty();
            }
        }
        self.commit().await
    }

    /// The clock asks for what is old: now and then that is a checkpoint. Says whether it was.
    pub(super) async fn beat(&self) -> Result<bool, FsError> {
        let is_due = match &mut self.state().segments {
            None => return Ok(true),
            Some(segments) => {
                segments.beats += 1;
                segments.beats >= BEATS
            }
        };
        if is_due {
            let is_tight = match &self.state().segments {
                Some(segments) => segments.is_tight(),
                None => false,
            };
            if is_tight {
                let _passed = self.cleaning_gate.pass().await;
                self.clean(Policy::CostBenefit).await?;
            }
            self.checkpoint().await?;
        }
        Ok(is_due)
    }

    /// Whether a sync of this file is a checkpoint: it is no regular file or has several names
    /// (the kernel's `need_do_checkpoint`). If not its node is to be in the next record.
    pub(super) async fn wish_sync(&self, ino: Ino) -> Result<(), FsError> {
        if self.state().segments.is_none() {
            return Ok(());
        }
        let rolls_forward = self
            .run(|tx| {
                let inode = tx.inode(ino)?;
                Ok(inode.mode.kind == crate::FileKind::Regular && inode.links == 1)
            })
            .await?;
        let mut state = self.state();
        let is_dirty = !state.checkpoint.is_empty() || !state.batch.is_empty();
        if let Some(segments) = &mut state.segments {
            match rolls_forward {
                true => {
                    segments.synced.insert(ino);
                }
                false => segments.wants_checkpoint |= is_dirty || segments.is_dirty(),
            }
        }
        Ok(())
    }
}

/// Every how many beats of the clock there is a checkpoint: the kernel's clock beats every 5 s, and
/// F2FS makes a checkpoint every 60 s.
const BEATS: u32 = 12;

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
