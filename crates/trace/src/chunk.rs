//! A chunk: some tens of thousands of consecutive blocks of one thread, readable by itself.
//!
//! Four columns, each compressed alone: how many variants were foreseen between two surprises, the
//! surprising variants, the differences of addresses from what was expected, sync events. One
//! checksum covers the head and all columns.

use crate::dictionary::VariantId;
use crate::error::Fault;
use crate::predictor::{AddressPredictor, FlowPredictor};
use crate::wire::{Wire, put_varint, zigzag};

/// Bytes of a chunk's head, checksum included.
pub(crate) const HEAD_BYTES: usize = 68;
/// Blocks after which a writer ends the chunk.
pub const MOST_BLOCKS: u32 = 1 << 16;
const MAGIC: u32 = u32::from_le_bytes(*b"CHNK");
pub(crate) const COLUMNS: usize = 4;
pub(crate) const RUNS: usize = 0;
pub(crate) const SURPRISES: usize = 1;
pub(crate) const ADDRESSES: usize = 2;
pub(crate) const SYNC: usize = 3;

/// A stream: a thread as the recorder numbered it. Streams without instructions get no thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u32);

/// A sync event as the recorder saw it: streams for threads, wakes with the recorder's own count,
/// some of which the file may not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RawSync {
    /// A new thread.
    Create(StreamId),
    /// The thread ends.
    Exit,
    /// Waits for a thread's end.
    Join(StreamId),
    /// Wakes a futex: its number, the stream's wake count.
    Wake(u32, u32),
    /// Slept on a futex: its number, the wake that ended it.
    Wait(u32, Option<(StreamId, u32)>),
    /// Another system call: number, base-two logarithm of its nanoseconds.
    Syscall(u16, u8),
}

/// What the index keeps of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkSummary {
    /// The stream.
    pub stream: StreamId,
    /// Instructions of the stream before the chunk.
    pub first_instruction: u64,
    /// Blocks executed.
    pub blocks: u32,
    /// Instructions executed.
    pub instructions: u32,
    /// Loads, an update counting as one.
    pub loads: u32,
    /// Stores, an update counting as one.
    pub stores: u32,
}

/// Writes the chunks of one stream.
pub struct StreamEncoder {
    summary: ChunkSummary,
    flow: FlowPredictor,
    addresses: AddressPredictor,
    columns: [Vec<u8>; COLUMNS],
    foreseen: u64,
    last_sync: u32,
    compressor: zstd::bulk::Compressor<'static>,
}

/// Compression level of the columns: higher ones gain little and cost the captured program time.
const LEVEL: i32 = 3;

impl StreamEncoder {
    /// An encoder for `stream`.
    pub fn new(stream: StreamId) -> Self {
        let compressor = zstd::bulk::Compressor::new(LEVEL);
        Self {
            summary: ChunkSummary {
                stream,
                first_instruction: 0,
                blocks: 0,
                instructions: 0,
                loads: 0,
                stores: 0,
            },
            flow: FlowPredictor::new(),
            addresses: AddressPredictor::new(),
            columns: Default::default(),
            foreseen: 0,
            last_sync: 0,
            compressor: compressor.expect("the level is one that zstd knows"),
        }
    }
    /// What the open chunk holds.
    pub fn summary(&self) -> &ChunkSummary {
        &self.summary
    }
    /// One more block: its variant, the slot of its first access, and the addresses in order.
    #[inline]
    pub fn block(&mut self, variant: VariantId, first_slot: u32, addresses: &[u64]) {
        if self.flow.expected() == variant.0 {
            self.foreseen += 1;
        } else {
            put_varint(&mut self.columns[RUNS], self.foreseen);
            put_varint(&mut self.columns[SURPRISES], u64::from(variant.0));
            self.foreseen = 0;
        }
        self.flow.learn(variant.0);
        self.addresses.grow(first_slot as usize + addresses.len());
        for (slot, addr) in (first_slot as usize..).zip(addresses) {
            let residual = self.addresses.residual(slot, *addr);
            put_varint(&mut self.columns[ADDRESSES], zigzag(residual));
        }
        self.summary.blocks += 1;
    }
    /// Counts what the last block did, for the index.
    #[inline]
    pub fn count(&mut self, instructions: u32, loads: u32, stores: u32) {
        self.summary.instructions += instructions;
        self.summary.loads += loads;
        self.summary.stores += stores;
    }
    /// A sync event on the last instruction of block number `block` of this chunk, at most one a
    /// block, in order.
    pub fn sync(&mut self, block: u32, event: RawSync) {
        assert!(
            block < self.summary.blocks,
            "the event's block is in the chunk"
        );
        let column = &mut self.columns[SYNC];
        put_varint(column, u64::from(block - self.last_sync));
        self.last_sync = block;
        let (tag, values): (u8, &[u64]) = match event {
            RawSync::Create(child) => (1, &[u64::from(child.0)]),
            RawSync::Exit => (2, &[]),
            RawSync::Join(child) => (3, &[u64::from(child.0)]),
            RawSync::Wake(futex, count) => (4, &[u64::from(futex), u64::from(count)]),
            RawSync::Wait(futex, None) => (5, &[u64::from(futex), 0]),
            RawSync::Wait(futex, Some((by, count))) => (
                5,
                &[u64::from(futex), u64::from(by.0) + 1, u64::from(count)],
            ),
            RawSync::Syscall(number, log2) => (6, &[u64::from(number), u64::from(log2)]),
        };
        column.push(tag);
        for value in values {
            put_varint(column, *value);
        }
    }
    /// Ends the chunk: appends it to `out` and begins the next. Nothing if there is no block.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Option<ChunkSummary> {
        let summary = self.summary;
        if summary.blocks == 0 {
            return None;
        }
        let start = out.len();
        put_head(out, &summary);
        out.resize(start + HEAD_BYTES, 0);
        for (n, column) in self.columns.iter().enumerate() {
            let packed = self
                .compressor
                .compress(column)
                .expect("compression does not fail");
            let lens = start + HEAD_BYTES - 4 - 8 * (COLUMNS - n);
            let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a column is below 4 GiB");
            out[lens..lens + 4].copy_from_slice(&len(column).to_le_bytes());
            out[lens + 4..lens + 8].copy_from_slice(&len(&packed).to_le_bytes());
            out.extend(packed);
        }
        let crc = checksum(&out[start..]);
        out[start + HEAD_BYTES - 4..start + HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
        self.begin_next(&summary);
        Some(summary)
    }

    fn begin_next(&mut self, last: &ChunkSummary) {
        self.summary = ChunkSummary {
            first_instruction: last.first_instruction + u64::from(last.instructions),
            blocks: 0,
            instructions: 0,
            loads: 0,
            stores: 0,
            ..*last
        };
        self.flow.reset();
        self.addresses.reset(0);
        self.columns.iter_mut().for_each(Vec::clear);
        self.foreseen = 0;
        self.last_sync = 0;
    }
}

fn put_head(out: &mut Vec<u8>, summary: &ChunkSummary) {
    out.extend(MAGIC.to_le_bytes());
    out.extend(summary.stream.0.to_le_bytes());
    out.extend(summary.first_instruction.to_le_bytes());
    for count in [
        summary.blocks,
        summary.instructions,
        summary.loads,
        summary.stores,
    ] {
        out.extend(count.to_le_bytes());
    }
}

/// The checksum of a whole chunk: everything but the place of the checksum itself.
fn checksum(chunk: &[u8]) -> u32 {
    let head = checksum::crc32c(&chunk[..HEAD_BYTES - 4]);
    checksum::crc32c_append(head, &chunk[HEAD_BYTES..])
}

/// A column's place in its chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Column {
    pub(crate) raw: u32,
    pub(crate) start: u32,
    pub(crate) packed: u32,
}

/// Largest column: bounds what a crafted file can make the reader allocate.
const MAX_COLUMN: u32 = 64 << 20;

/// Whether a chunk may have so much. Blocks: those of two writers' chunks, and for each byte of
/// addresses one, since repeated string operations are not cut in two and each has an address.
/// Loads and stores: an access may be both, and has an address of a byte and more.
fn may_have(summary: &ChunkSummary, columns: &[Column; COLUMNS]) -> bool {
    let addresses = columns[ADDRESSES].raw;
    let accesses = u64::from(summary.loads) + u64::from(summary.stores);
    let blocks = 1..=2 * MOST_BLOCKS + addresses;
    blocks.contains(&summary.blocks) && accesses <= 2 * u64::from(addresses)
}

/// Checks a chunk's form and checksum; `chunk` must be exactly the chunk, at byte `at`.
pub(crate) fn check(chunk: &[u8], at: u64) -> Result<(ChunkSummary, [Column; COLUMNS]), Fault> {
    let mut wire = Wire::new(chunk, "instruction stream", at);
    let magic = wire.u32()?;
    let summary = ChunkSummary {
        stream: StreamId(wire.u32()?),
        first_instruction: wire.u64()?,
        blocks: wire.u32()?,
        instructions: wire.u32()?,
        loads: wire.u32()?,
        stores: wire.u32()?,
    };
    let mut columns = [Column::default(); COLUMNS];
    let mut start = HEAD_BYTES as u64;
    for column in &mut columns {
        let (raw, packed) = (wire.u32()?, wire.u32()?);
        *column = Column {
            raw,
            start: start as u32,
            packed,
        };
        start += u64::from(packed);
        if raw > MAX_COLUMN || start > chunk.len() as u64 {
            return Err(wire.damaged());
        }
    }
    let crc = wire.u32()?;
    let sound = magic == MAGIC && start == chunk.len() as u64;
    if sound && may_have(&summary, &columns) && crc == checksum(chunk) {
        Ok((summary, columns))
    } else {
        Err(wire.damaged())
    }
}

/// Reads the next sync event: blocks since the last one, and the event.
pub(crate) fn take_sync(wire: &mut Wire<'_>) -> Result<(u32, RawSync), Fault> {
    let gap = wire.int()?;
    let event = match wire.u8()? {
        1 => RawSync::Create(StreamId(wire.int()?)),
        2 => RawSync::Exit,
        3 => RawSync::Join(StreamId(wire.int()?)),
        4 => RawSync::Wake(wire.int()?, wire.int()?),
        5 => {
            let (futex, by) = (wire.int()?, wire.int::<u32>()?);
            let waker = by.checked_sub(1).map(StreamId);
            let count = if waker.is_some() { wire.int()? } else { 0 };
            RawSync::Wait(futex, waker.map(|stream| (stream, count)))
        }
        6 => RawSync::Syscall(wire.int()?, wire.int()?),
        _ => return Err(wire.damaged()),
    };
    Ok((gap, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk() -> Vec<u8> {
        let mut encoder = StreamEncoder::new(StreamId(4));
        for n in 0..100 {
            encoder.block(
                VariantId(n % 3),
                (n % 3) * 2,
                &[0x7000 + u64::from(n), 0x9000],
            );
            encoder.count(5, 1, 1);
        }
        encoder.sync(99, RawSync::Exit);
        let mut out = Vec::new();
        assert_eq!(encoder.finish(&mut out).unwrap().instructions, 500);
        assert_eq!(
            encoder.finish(&mut out),
            None,
            "an empty chunk is not written"
        );
        assert_eq!(encoder.summary().first_instruction, 500);
        out
    }

    #[test]
    fn a_chunk_tells_what_it_holds() {
        let chunk = chunk();
        let (summary, columns) = check(&chunk, 0).unwrap();
        assert_eq!(
            (summary.stream, summary.blocks, summary.stores),
            (StreamId(4), 100, 100)
        );
        assert!(
            columns[ADDRESSES].raw >= 200,
            "one residual for each access"
        );
        assert!(columns[RUNS].raw < 20, "a loop of three is foreseen");
    }

    #[test]
    fn every_flipped_bit_of_a_chunk_is_found() {
        let good = chunk();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(check(&bad, 0).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn sync_events_are_read_back() {
        let by = Some((StreamId(0), 8));
        let events = [
            (0, RawSync::Create(StreamId(1))),
            (1, RawSync::Wake(3, 8)),
            (4, RawSync::Wait(3, by)),
            (5, RawSync::Wait(9, None)),
            (7, RawSync::Syscall(202, 17)),
            (8, RawSync::Join(StreamId(1))),
            (9, RawSync::Exit),
        ];
        let mut encoder = StreamEncoder::new(StreamId(0));
        for n in 0..10 {
            encoder.block(VariantId(n), 0, &[]);
        }
        for (block, event) in events {
            encoder.sync(block, event);
        }
        let bytes = encoder.columns[SYNC].clone();
        let mut wire = Wire::new(&bytes, "test", 0);
        let mut at = 0;
        for (block, event) in events {
            let (gap, read) = take_sync(&mut wire).unwrap();
            at += gap;
            assert_eq!((at, read), (block, event));
        }
        wire.end().unwrap();
    }
}
