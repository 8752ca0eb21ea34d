//! How a batch becomes durable in logs of segments: by a record of what a sync needs, or by a
//! checkpoint of everything (F2FS §2.5, §2.7).

use crate::BlockNo;
use crate::fs::{FileSystem, address};
use crate::gate::join_all;
use crate::layout::{BLOCK, INODE_BYTES};
use crate::segments::{Log, Segments, line_range};
use crate::state::State;
use crate::state::batch::Sealed;
use crate::stats::Class;
use crate::structures::Structure;
use core::ops::Range;
use port::{Acknowledge, Clock, Device, DeviceError, PersistenceDomain};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

type Block = Box<[u8; BLOCK]>;

/// Blocks of metadata and where they go.
type Placed = Vec<(BlockNo, u32)>;

pub(super) async fn persist<D: Device, C: Clock>(
    fs: &FileSystem<D, C>,
    batch: &Sealed,
) -> Result<(), DeviceError> {
    let wants_checkpoint = {
        let mut state = fs.state();
        let State {
            checkpoint,
            segments,
            batch_most,
            ..
        } = &mut *state;
        let Some(segments) = segments else {
            return Ok(());
        };
        for block in &batch.revoked {
            checkpoint.remove(block);
        }
        for (block, data) in &batch.blocks {
            checkpoint.insert(*block, data.clone());
        }
        for block in &batch.freed {
            segments.note_unset(block.0);
        }
        // Records take segments that only a checkpoint frees, and it needs some itself.
        let is_short = segments.free_segments() < segments.layout.kept_free();
        core::mem::take(&mut segments.wants_checkpoint)
            || checkpoint.len() > *batch_most
            || is_short
    };
    if wants_checkpoint {
        return checkpoint(fs).await;
    }
    record(fs, batch).await
}

/// Writes what the syncs that wait need: nodes of their files, and what else has changed in the
/// room that these leave.
async fn record<D: Device, C: Clock>(
    fs: &FileSystem<D, C>,
    batch: &Sealed,
) -> Result<(), DeviceError> {
    let made = {
        let mut state = fs.state();
        let State {
            checkpoint,
            segments,
            ..
        } = &mut *state;
        let Some(segments) = segments else {
            return Ok(());
        };
        let (mut nodes, mut extra) = (Vec::new(), 0);
        for ino in core::mem::take(&mut segments.synced) {
            let number = segments.node_of(ino);
            let is_free = |data: &Block| data.iter().all(|byte| *byte == 0);
            if checkpoint.get(&number).is_some_and(|data| !is_free(data)) {
                // It stays there until it is at its new place, for those who read it meanwhile.
                if let Some(data) = checkpoint.get(&number) {
                    let mut head = [0; INODE_BYTES];
                    head.copy_from_slice(&data[..INODE_BYTES]);
                    nodes.push((number, head));
                }
                extra += segments.take_pointers(ino);
            }
        }
        let is_node = |at: u64| {
            let number = BlockNo((at / BLOCK as u64) as u32);
            nodes
                .binary_search_by_key(&number, |(node, _)| *node)
                .is_ok()
        };
        let lines = batch.lines.iter().filter(|(at, _)| !is_node(at.get()));
        let lines: Vec<_> = lines.copied().collect();
        if nodes.is_empty() && lines.is_empty() && !segments.has_moved() {
            return Ok(());
        }
        let made = segments.make_record(&nodes, extra, &lines);
        let numbers: Vec<BlockNo> = nodes.iter().map(|(number, _)| *number).collect();
        made.map(|made| (made, numbers))
    };
    let Some((made, numbers)) = made else {
        // It frees segments, and says all of it too.
        return checkpoint(fs).await;
    };
    let nodes = made.nodes as usize;
    let (inodes, pointers) = made.blocks[..nodes].split_at(numbers.len().min(nodes));
    note(fs, inodes, Structure::Inodes);
    note(fs, pointers, Structure::Pointers);
    write(fs, &made.blocks[..nodes], None).await?;
    write(fs, &made.blocks[nodes..], Some(Class::Journal)).await?;
    fs.barrier().await?;
    let mut state = fs.state();
    for number in numbers {
        state.checkpoint.remove(&number);
    }
    if let Some(segments) = &mut state.segments {
        segments.end_record(&made);
    }
    Ok(())
}

/// Counts blocks of a structure that are about to be written.
fn note<D: Device, C: Clock>(
    fs: &FileSystem<D, C>,
    blocks: &[(u32, Vec<u8>)],
    structure: Structure,
) {
    let bytes: usize = blocks.iter().map(|(_, bytes)| bytes.len()).sum();
    let counters = &mut fs.state().counters;
    counters.metadata_written(structure, bytes as u64);
}

/// Writes blocks to their places, those behind each other together; of no class they were counted
/// before.
async fn write<D: Device, C: Clock>(
    fs: &FileSystem<D, C>,
    blocks: &[(u32, Vec<u8>)],
    class: Option<Class>,
) -> Result<(), DeviceError> {
    let mut parts: Vec<(u32, Vec<u8>)> = Vec::new();
    for (place, bytes) in blocks {
        match parts.last_mut() {
            Some((first, all)) if *first + (all.len() / BLOCK) as u32 == *place => {
                all.extend_from_slice(bytes);
            }
            _ => parts.push((*place, bytes.clone())),
        }
    }
    fs.spend(fs.costs.request * parts.len() as u64).await;
    let writes = parts.iter().map(|(place, bytes)| {
        if let Some(class) = class {
            fs.state().counters.class(class).blocks_written += bytes.len() as u64;
        }
        let at = address(BlockNo(*place));
        fs.device.write_blocks(at, bytes, Acknowledge::Accepted)
    });
    let done = join_all(writes.collect()).await;
    fs.spend(fs.costs.switch).await;
    done.into_iter().try_for_each(|result| result.map(|_| ()))
}

/// Gives blocks places in their logs. None: there is no room. Blocks of zeroes get none.
pub(crate) fn place(segments: &mut Segments, blocks: &BTreeMap<BlockNo, Block>) -> Option<Placed> {
    let mut by_log: BTreeMap<Log, Vec<BlockNo>> = BTreeMap::new();
    for (number, data) in blocks {
        if data.iter().any(|byte| *byte != 0) {
            by_log
                .entry(segments.log_of(*number, data))
                .or_default()
                .push(*number);
        }
    }
    let mut placed = Vec::with_capacity(blocks.len());
    for (log, numbers) in by_log {
        let runs = segments.take_all(log, numbers.len() as u32)?;
        placed.extend(numbers.into_iter().zip(runs.into_iter().flatten()));
    }
    Some(placed)
}

/// Blocks are at their places, and those of zeroes at none.
pub(crate) fn settle(segments: &mut Segments, blocks: &BTreeMap<BlockNo, Block>, placed: &Placed) {
    for (number, data) in blocks {
        if data.iter().all(|byte| *byte == 0) {
            segments.unset(number.0);
        }
    }
    for (number, place) in placed {
        segments.set(number.0, *place);
        segments.settle(*place..place + 1);
    }
}

fn no_room() -> DeviceError {
    DeviceError::Stopped {
        reason: "no segment is free for a checkpoint; remove files or make a larger device".into(),
    }
}

/// Everything that was changed up to now, and a pack that makes it count.
async fn checkpoint<D: Device, C: Clock>(fs: &FileSystem<D, C>) -> Result<(), DeviceError> {
    let (blocks, placed) = {
        let mut state = fs.state();
        let blocks = state.checkpoint.clone();
        let Some(segments) = &mut state.segments else {
            return Ok(());
        };
        segments.synced.clear();
        let placed = place(segments, &blocks).ok_or_else(no_room)?;
        (blocks, placed)
    };
    let written: Vec<(u32, Vec<u8>)> = placed
        .iter()
        .map(|(number, place)| (*place, blocks[number].to_vec()))
        .collect();
    for (number, _) in &placed {
        fs.note_block(*number, &blocks[number]);
    }
    write(fs, &written, None).await?;
    let pack = {
        let mut state = fs.state();
        state.checkpoint.clear();
        let Some(segments) = &mut state.segments else {
            return Ok(());
        };
        settle(segments, &blocks, &placed);
        segments.begin_checkpoint().ok_or_else(no_room)?
    };
    note(fs, &pack.tables, Structure::Bitmaps);
    write(fs, &pack.tables, None).await?;
    let head = [(pack.at, pack.head.clone())];
    write(fs, &head, Some(Class::Journal)).await?;
    fs.barrier().await?;
    let at = address(BlockNo(pack.end_place()));
    let durable = Acknowledge::Durable;
    fs.spend(fs.costs.request).await;
    fs.device.write_blocks(at, &pack.end, durable).await?;
    fs.spend(fs.costs.switch).await;
    let mut state = fs.state();
    state.counters.class(Class::Journal).blocks_written += BLOCK as u64;
    let is_asked = fs.shape.block_domain == PersistenceDomain::Flash;
    state.counters.0.flushes += u64::from(is_asked);
    if let Some(segments) = &mut state.segments {
        segments.end_checkpoint(&pack);
    }
    Ok(())
}

/// Has records say what the last checkpoint does not, and makes another one.
pub(super) async fn replay<D: Device, C: Clock>(fs: &FileSystem<D, C>) -> Result<(), DeviceError> {
    let Some(mut segments) = fs.state().segments.take() else {
        return Ok(());
    };
    let mut blocks: BTreeMap<BlockNo, Block> = BTreeMap::new();
    for record in crate::segments::records_of(&fs.device, &segments).await? {
        // What is free from now on has no lines. What was only moved, by cleaning, has them still.
        for moved in record.moved.iter().filter(|moved| moved.place == 0) {
            for number in moved.number..moved.number + moved.count {
                blocks.remove(&BlockNo(number));
            }
        }
        segments.roll_forward(&record);
        for (number, _) in &record.nodes {
            blocks.remove(&BlockNo(*number));
        }
        for (number, line, bytes) in &record.lines {
            let number = BlockNo(*number);
            let data = match blocks.entry(number) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    let mut data = Box::new([0; BLOCK]);
                    if let Some(place) = segments.place(number) {
                        let at = address(BlockNo(place));
                        fs.device.read_blocks(at, &mut data[..]).await?;
                        segments.trim_node(number, &mut data[..]);
                    }
                    unknown.insert(data)
                }
            };
            let range: Range<usize> = line_range(*line);
            data[range].copy_from_slice(bytes);
        }
    }
    segments.leave_records();
    {
        let mut state = fs.state();
        state.segments = Some(segments);
        state.checkpoint = blocks;
    }
    checkpoint(fs).await
}

/// Makes both copies of everything equal.
pub(super) async fn close<D: Device, C: Clock>(fs: &FileSystem<D, C>) -> Result<(), DeviceError> {
    let twins = {
        let mut state = fs.state();
        let twins = state.segments.as_mut().map(Segments::twins);
        state.superblock.checkpoint = state.segments.as_ref().map_or(0, |found| found.version);
        twins.unwrap_or_default()
    };
    note(fs, &twins, Structure::Bitmaps);
    write(fs, &twins, None).await?;
    fs.barrier().await
}
