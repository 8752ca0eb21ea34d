//! Records: what an fsync writes instead of a checkpoint (F2FS §2.7, roll-forward recovery).
//!
//! A record is a chain of blocks that are appended to the log of warm nodes. A block is the node of
//! a file whose sync waits: its head is the inode. The room behind it, where F2FS has pointers,
//! holds what else the record says: blocks that have moved, with sums of what they hold, and
//! changed lines of metadata. Every block says where the next one will be, also the last one.

use super::{Moved, Segments};
use crate::BlockNo;
use crate::journal::Line;
use crate::layout::{BLOCK, INODE_BYTES, LINE, get_u32, get_u64, put_u32, put_u64, sum};
use core::ops::Range;
use port::{Device, DeviceError};
use units::ByteAddr;

const MAGIC: u32 = 0x3452_5345;
/// Where the head of a record's block is, and what it says.
const HEAD: usize = INODE_BYTES;
const PAYLOAD: Range<usize> = HEAD + LINE..BLOCK - 4;
const MOVED_BYTES: usize = 16;
const LINE_BYTES: usize = 8 + LINE;

/// A record as it is written.
pub(crate) struct Record {
    /// Blocks, each with its place.
    pub blocks: Vec<(u32, Vec<u8>)>,
    /// How many of them are nodes.
    pub nodes: u32,
}

/// A record as it was read.
#[derive(Default, Debug)]
pub(crate) struct Parsed {
    /// Inodes by block of the table, and their places.
    pub nodes: Vec<(u32, u32)>,
    pub moved: Vec<Moved>,
    pub lines: Vec<(u32, u32, [u8; LINE])>,
    /// Where its blocks are.
    pub places: Vec<u32>,
}

impl Segments {
    /// A record of inodes (blocks of the table), lines, and everything that has moved. None: there
    /// is no room for it.
    pub fn make_record(
        &mut self,
        nodes: &[(BlockNo, [u8; INODE_BYTES])],
        extra: u32,
        lines: &[Line],
    ) -> Option<Record> {
        let mut payload = Vec::with_capacity(8 + lines.len() * LINE_BYTES);
        let mut word = |value: u32| payload.extend_from_slice(&value.to_le_bytes());
        word(self.moved.len() as u32);
        word(lines.len() as u32);
        for moved in &self.moved {
            let words = [moved.number, moved.place, moved.count, moved.sum];
            words.into_iter().for_each(&mut word);
        }
        for (at, line) in lines {
            let (block, offset) = (at.get() / BLOCK as u64, at.get() % BLOCK as u64);
            payload.extend_from_slice(&(block as u32).to_le_bytes());
            payload.extend_from_slice(&(offset as u32 / LINE as u32).to_le_bytes());
            payload.extend_from_slice(line);
        }
        let chunks = payload.len().div_ceil(PAYLOAD.len()).max(1);
        let count = chunks.max(nodes.len() + extra as usize);
        // The first has its place already; one more is for the record behind this one.
        let runs = self.take_all(super::Log::WarmNode, count as u32)?;
        let mut places = vec![self.next_record];
        places.extend(runs.into_iter().flatten());
        let mut blocks = Vec::with_capacity(count);
        let mut chunks = payload.chunks(PAYLOAD.len());
        for index in 0..count {
            let mut block = vec![0; BLOCK];
            let node = nodes.get(index);
            if let Some((_, inode)) = node {
                block[..INODE_BYTES].copy_from_slice(inode);
            }
            let chunk = chunks.next().unwrap_or_default();
            let head = &mut block[HEAD..];
            put_u32(head, 0, MAGIC);
            put_u32(head, 4, node.map_or(0, |(number, _)| number.0));
            put_u64(head, 8, self.version);
            put_u64(head, 16, self.records);
            put_u32(head, 24, index as u32);
            put_u32(head, 28, count as u32);
            put_u32(head, 32, places[index + 1]);
            put_u32(head, 36, chunk.len() as u32);
            block[PAYLOAD][..chunk.len()].copy_from_slice(chunk);
            let total = sum(&block[..BLOCK - 4]);
            put_u32(&mut block, BLOCK - 4, total);
            blocks.push((places[index], block));
        }
        self.next_record = places[count];
        self.records += 1;
        let moved = self.moved.drain(..);
        self.recorded.extend(moved.flat_map(|moved| moved.places()));
        for ((place, _), (number, _)) in blocks.iter().zip(nodes) {
            self.set(number.0, *place);
        }
        Some(Record {
            nodes: nodes.len() as u32,
            blocks,
        })
    }

    /// A record is durable: those before it will never be the last.
    pub fn end_record(&mut self, record: &Record) {
        for (place, _) in &record.blocks {
            self.settle(*place..place + 1);
        }
        let later = self.moved.iter();
        let later = later.flat_map(Moved::places).collect();
        self.recorded = core::mem::replace(&mut self.pending, later);
        let kept = &self.pending;
        self.recorded.retain(|place| !kept.contains(place));
    }

    /// Blocks of pointers that a sync of a file writes in F2FS.
    pub fn take_pointers(&mut self, ino: crate::Ino) -> u32 {
        let blocks = self.pointers.remove(&ino);
        blocks.map_or(0, |blocks| blocks.len() as u32)
    }
}

/// A block of the record `number` behind a checkpoint: its node, chunk, count of blocks, next
/// place.
fn decode(block: &[u8], version: u64, number: u64, index: u32) -> Option<(u32, &[u8], u32, u32)> {
    let head = &block[HEAD..];
    let is_mine = get_u32(head, 0) == MAGIC
        && get_u64(head, 8) == version
        && get_u64(head, 16) == number
        && get_u32(head, 24) == index;
    let used = get_u32(head, 36) as usize;
    let is_whole = get_u32(block, BLOCK - 4) == sum(&block[..BLOCK - 4]);
    (is_mine && is_whole && used <= PAYLOAD.len()).then(|| {
        let chunk = &block[PAYLOAD][..used];
        (
            get_u32(head, 4),
            chunk,
            get_u32(head, 28),
            get_u32(head, 32),
        )
    })
}

/// What the payload of a record says; none if it is not one.
fn parse(payload: &[u8], mut parsed: Parsed) -> Option<Parsed> {
    if payload.len() < 8 {
        return None;
    }
    let (moved, lines) = (get_u32(payload, 0) as usize, get_u32(payload, 4) as usize);
    let wanted = moved.checked_mul(MOVED_BYTES)?;
    let wanted = wanted.checked_add(lines.checked_mul(LINE_BYTES)?)?;
    if payload.len() != wanted.checked_add(8)? {
        return None;
    }
    let (of_moved, of_lines) = payload[8..].split_at(moved * MOVED_BYTES);
    parsed.moved = of_moved
        .chunks_exact(MOVED_BYTES)
        .map(|bytes| Moved {
            number: get_u32(bytes, 0),
            place: get_u32(bytes, 4),
            count: get_u32(bytes, 8),
            sum: get_u32(bytes, 12),
        })
        .collect();
    parsed.lines = of_lines
        .chunks_exact(LINE_BYTES)
        .map(|bytes| {
            let mut line = [0; LINE];
            line.copy_from_slice(&bytes[8..]);
            (get_u32(bytes, 0), get_u32(bytes, 4), line)
        })
        .collect();
    Some(parsed)
}

/// Reads the records behind the last checkpoint, in order: those that are whole. The last of them
/// counts only if what it says has moved is there: it may not have been answered for.
pub(crate) async fn records_of<D: Device>(
    device: &D,
    segments: &Segments,
) -> Result<Vec<Parsed>, DeviceError> {
    let mut found = Vec::new();
    let mut place = segments.next_record;
    while let Some((record, next)) = read(device, segments, place, found.len() as u64).await? {
        found.push(record);
        place = next;
    }
    if let Some(last) = found.last()
        && !is_there(device, last).await?
    {
        found.pop();
    }
    Ok(found)
}

async fn read<D: Device>(
    device: &D,
    segments: &Segments,
    first: u32,
    number: u64,
) -> Result<Option<(Parsed, u32)>, DeviceError> {
    let main = &segments.layout.main;
    let (mut place, mut count) = (first, 1);
    let mut parsed = Parsed::default();
    let mut payload = Vec::new();
    let mut block = vec![0; BLOCK];
    while (parsed.places.len() as u32) < count {
        if !main.contains(&place) {
            return Ok(None);
        }
        let at = ByteAddr::new(u64::from(place) * BLOCK as u64);
        device.read_blocks(at, &mut block).await?;
        let index = parsed.places.len() as u32;
        let Some((node, chunk, blocks, next)) = decode(&block, segments.version, number, index)
        else {
            return Ok(None);
        };
        count = blocks.min(main.len() as u32);
        payload.extend_from_slice(chunk);
        if node != 0 {
            parsed.nodes.push((node, place));
        }
        parsed.places.push(place);
        place = next;
    }
    let is_within = |parsed: &Parsed| {
        let numbers = segments.places.len() as u64;
        let fits = |first: u32, count: u32, end: u64| u64::from(first) + u64::from(count) <= end;
        let moved = parsed.moved.iter().all(|moved| {
            let is_place = moved.place == 0
                || (moved.place >= main.start
                    && fits(moved.place, moved.count, u64::from(main.end)));
            is_place && fits(moved.number, moved.count, numbers)
        });
        let nodes = parsed.nodes.iter().map(|(number, _)| BlockNo(*number));
        let lines = parsed
            .lines
            .iter()
            .all(|(block, line, _)| u64::from(*block) < numbers && (*line as usize) < BLOCK / LINE);
        moved && lines && nodes.into_iter().all(|number| segments.is_node(number))
    };
    Ok(parse(&payload, parsed)
        .filter(is_within)
        .map(|parsed| (parsed, place)))
}

async fn is_there<D: Device>(device: &D, record: &Parsed) -> Result<bool, DeviceError> {
    for moved in record.moved.iter().filter(|moved| moved.place != 0) {
        let mut bytes = vec![0; moved.count as usize * BLOCK];
        let at = ByteAddr::new(u64::from(moved.place) * BLOCK as u64);
        device.read_blocks(at, &mut bytes).await?;
        if sum(&bytes) != moved.sum {
            return Ok(false);
        }
    }
    Ok(true)
}
