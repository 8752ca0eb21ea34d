//! A checkpoint: the table of places as it is at one moment, in blocks of the table or in a journal
//! of a few places beside, and a pack that makes it count (F2FS §2.5, §3.4).
//!
//! A block of the table has two copies; that one is written that does not count. The pack says
//! which do; its last block is written when everything else is durable. Packs take turns.

use super::{Log, Moved, Segments};
use crate::layout::{
    BLOCK, COPY_BITS, PLACES, Segmentation, get_u32, get_u64, put_u32, put_u64, sum,
};

const MAGIC_HEAD: u32 = 0x3143_5345;
const MAGIC_JOURNAL: u32 = 0x324a_5345;
const MAGIC_TABLE: u32 = 0x3354_5345;
/// Where bits begin in a block of a pack.
const BITS_AT: usize = 64;
/// Places that the journal of a pack has room for.
const JOURNAL: usize = (BLOCK - 64) / 8;

/// What is written to make a checkpoint count.
pub(crate) struct Checkpoint {
    /// Blocks of the table, and where they go.
    pub tables: Vec<(u32, Vec<u8>)>,
    /// Where the pack goes.
    pub at: u32,
    /// The pack but for its last block.
    pub head: Vec<u8>,
    /// Its last block.
    pub end: Vec<u8>,
    /// Segments that are free when it is durable.
    freed: Vec<u32>,
    /// Its number.
    version: u64,
}

impl Checkpoint {
    /// Where the last block of the pack goes.
    pub fn end_place(&self) -> u32 {
        self.at + (self.head.len() / BLOCK) as u32
    }
}

/// What a pack says.
#[derive(Debug)]
pub(super) struct Pack {
    pub version: u64,
    pub next_record: u32,
    pub copies: Vec<bool>,
    /// Places that the table does not say.
    pub journal: Vec<(u32, u32)>,
}

fn seal_block(block: &mut [u8]) {
    let total = sum(&block[..BLOCK - 4]);
    put_u32(block, BLOCK - 4, total);
}

fn is_whole(block: &[u8]) -> bool {
    get_u32(block, BLOCK - 4) == sum(&block[..BLOCK - 4])
}

impl Pack {
    /// As it is written: all blocks but the last, and the last.
    fn encode(&self, layout: &Segmentation) -> (Vec<u8>, Vec<u8>) {
        let heads = layout.pack as usize - 1;
        let mut head = vec![0; heads * BLOCK];
        for (index, block) in head.chunks_exact_mut(BLOCK).enumerate() {
            put_u32(block, 0, MAGIC_HEAD);
            put_u32(block, 4, index as u32);
            put_u64(block, 8, self.version);
            put_u32(block, 16, self.next_record);
            let first = index * COPY_BITS as usize;
            let bits = self.copies.iter().skip(first).take(COPY_BITS as usize);
            for (bit, copy) in bits.enumerate() {
                block[BITS_AT + bit / 8] |= u8::from(*copy) << (bit % 8);
            }
            seal_block(block);
        }
        let mut end = vec![0; BLOCK];
        put_u32(&mut end, 0, MAGIC_JOURNAL);
        put_u32(&mut end, 4, self.journal.len() as u32);
        put_u64(&mut end, 8, self.version);
        put_u32(&mut end, 16, sum(&head));
        for (index, (number, place)) in self.journal.iter().enumerate() {
            put_u32(&mut end, 32 + index * 8, *number);
            put_u32(&mut end, 36 + index * 8, *place);
        }
        seal_block(&mut end);
        (head, end)
    }

    /// What the blocks of a pack say; none if they are not whole.
    pub fn decode(bytes: &[u8], layout: &Segmentation) -> Option<Self> {
        let (head, end) = bytes.split_at(bytes.len() - BLOCK);
        let count = get_u32(end, 4) as usize;
        let version = get_u64(end, 8);
        let fits = get_u32(end, 0) == MAGIC_JOURNAL && count <= JOURNAL && is_whole(end);
        if !fits || get_u32(end, 16) != sum(head) {
            return None;
        }
        let heads = head.chunks_exact(BLOCK);
        let are_whole = heads.clone().enumerate().all(|(index, block)| {
            let is_mine = get_u32(block, 0) == MAGIC_HEAD && get_u32(block, 4) == index as u32;
            is_mine && get_u64(block, 8) == version && is_whole(block)
        });
        let next_record = get_u32(head, 16);
        if !are_whole || !layout.main.contains(&next_record) {
            return None;
        }
        let bits = heads.flat_map(|block| {
            (0..COPY_BITS as usize).map(|bit| block[BITS_AT + bit / 8] >> (bit % 8) & 1 == 1)
        });
        let entry = |index: usize| {
            let at = 32 + index * 8;
            (get_u32(end, at), get_u32(end, at + 4))
        };
        Some(Self {
            version,
            next_record,
            copies: bits.take(layout.tables as usize).collect(),
            journal: (0..count).map(entry).collect(),
        })
    }
}

/// A block of the table.
fn encode_table(index: u32, version: u64, places: &[u32]) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    put_u32(&mut block, 0, MAGIC_TABLE);
    put_u32(&mut block, 4, index);
    put_u64(&mut block, 8, version);
    for (slot, place) in places.iter().enumerate() {
        put_u32(&mut block, 24 + slot * 4, *place);
    }
    seal_block(&mut block);
    block
}

/// The places of a block of the table; none if it is not whole.
pub(super) fn decode_table(index: u32, block: &[u8]) -> Option<Vec<u32>> {
    let is_mine = get_u32(block, 0) == MAGIC_TABLE && get_u32(block, 4) == index;
    let slots = 0..PLACES as usize;
    (is_mine && is_whole(block)).then(|| slots.map(|slot| get_u32(block, 24 + slot * 4)).collect())
}

impl Segments {
    /// A block of the table; places that the journal of a pack has are in it as well.
    fn table(&self, index: u32, version: u64) -> Vec<u8> {
        let first = self.places.len().min((index * PLACES) as usize);
        let end = self.places.len().min(first + PLACES as usize);
        encode_table(index, version, &self.places[first..end])
    }

    /// Everything that makes what was written so far count. None if there is no room for a record
    /// behind it.
    pub fn begin_checkpoint(&mut self) -> Option<Checkpoint> {
        if self.next_record == 0 {
            self.next_record = self.take(Log::WarmNode, 1)?.start;
        }
        let version = self.version + 1;
        let mut tables = Vec::new();
        // As long as the journal of the pack has room, the table needs not be written.
        if self.changed.len() > JOURNAL || version == 1 {
            let mut indices: Vec<u32> = self.changed.iter().map(|number| number / PLACES).collect();
            indices.dedup();
            if version == 1 {
                indices = (0..self.layout.tables).collect();
            }
            for index in indices {
                let copy = !self.copies[index as usize];
                tables.push((
                    self.layout.table_place(index, copy),
                    self.table(index, version),
                ));
                self.copies[index as usize] = copy;
                self.unequal.insert(index);
            }
            self.changed.clear();
        }
        let place = |number: &u32| (*number, self.places[*number as usize]);
        let pack = Pack {
            version,
            next_record: self.next_record,
            copies: self.copies.clone(),
            journal: self.changed.iter().map(place).collect(),
        };
        let (head, end) = pack.encode(&self.layout);
        let is_empty = |segment: &super::Segment| {
            segment.valid + segment.busy == 0 && !segment.is_open && !segment.is_free
        };
        let empty = self.segments.iter().enumerate();
        let freed = empty.filter(|(_, segment)| is_empty(segment));
        let freed = freed.map(|(index, _)| index as u32).collect();
        // Records say nothing any more of what has moved.
        self.moved.clear();
        self.is_dirty = false;
        self.pointers.clear();
        Some(Checkpoint {
            tables,
            at: self.layout.packs[1 - self.slot],
            head,
            end,
            freed,
            version,
        })
    }

    /// A checkpoint is durable.
    pub fn end_checkpoint(&mut self, done: &Checkpoint) {
        self.version = done.version;
        self.slot = 1 - self.slot;
        self.records = 0;
        self.beats = 0;
        self.recorded.clear();
        // What has moved meanwhile is what no record says yet.
        self.pending = self.moved.iter().flat_map(Moved::places).collect();
        for segment in &done.freed {
            self.segments[*segment as usize].is_free = true;
            self.free.push_back(*segment);
        }
    }

    /// Whether a checkpoint would free a segment.
    pub fn would_free(&self) -> bool {
        self.segments.iter().any(|segment| {
            segment.valid + segment.busy == 0 && !segment.is_open && !segment.is_free
        })
    }

    /// What makes both copies of everything equal, when nothing is written any more: whatever is
    /// damaged later has a twin.
    pub fn twins(&mut self) -> Vec<(u32, Vec<u8>)> {
        let mut twins = Vec::new();
        for index in core::mem::take(&mut self.unequal) {
            let copy = !self.copies[index as usize];
            twins.push((
                self.layout.table_place(index, copy),
                self.table(index, self.version),
            ));
        }
        let place = |number: &u32| (*number, self.places[*number as usize]);
        let pack = Pack {
            version: self.version,
            next_record: self.next_record,
            copies: self.copies.clone(),
            journal: self.changed.iter().map(place).collect(),
        };
        let (mut head, end) = pack.encode(&self.layout);
        head.extend_from_slice(&end);
        twins.push((self.layout.packs[1 - self.slot], head));
        twins
    }

    /// Takes over what a pack says.
    pub(super) fn adopt(&mut self, pack: &Pack, slot: usize) {
        self.slot = slot;
        self.version = pack.version;
        self.next_record = pack.next_record;
        self.copies.clone_from(&pack.copies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_is_read_as_it_was_written_or_not_at_all() {
        let layout = Segmentation {
            packs: [1, 3],
            pack: 2,
            table: 5,
            tables: 9,
            main: 100..612,
            blocks: 8,
        };
        let pack = Pack {
            version: 77,
            next_record: 200,
            copies: (0..9).map(|bit| bit % 3 == 0).collect(),
            journal: vec![(5, 300), (1_000, 0)],
        };
        let (mut bytes, end) = pack.encode(&layout);
        bytes.extend_from_slice(&end);
        let read = Pack::decode(&bytes, &layout).unwrap();
        assert_eq!((read.version, read.next_record), (77, 200));
        assert_eq!((read.copies, read.journal), (pack.copies, pack.journal));
        for byte in (0..bytes.len()).step_by(61) {
            bytes[byte] ^= 4;
            assert!(Pack::decode(&bytes, &layout).is_none(), "byte {byte}");
            bytes[byte] ^= 4;
        }
        let table = encode_table(3, 77, &[4, 5, 6]);
        assert_eq!(decode_table(3, &table).unwrap()[..4], [4, 5, 6, 0]);
        assert_eq!(decode_table(2, &table), None);
    }
}
