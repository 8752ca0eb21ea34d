//! Tables of sorted keys on the file system: blocks of 4 KiB with a checksum each, an index and a
//! filter behind them, which stay in memory while the table is open.

use super::{Entry, Error, Shared};
use crate::load::vfs::Vfs;
use bytefs::Ino;
use units::filling::spread;

/// Bytes of a block, about: it ends with the first record that reaches them.
const BLOCK: usize = 4096;
/// Bytes of a write.
const REQUEST: usize = 1 << 20;
/// Bits of the filter for each key, and of them those that a key sets: one wrong yes in 120.
const FILTER_BITS: u64 = 10;
const FILTER_HASHES: u64 = 7;
const MAGIC: u64 = 0x456e_7472_5461_626c;
const FOOTER: usize = 40;

/// Where a block is.
struct Block {
    first: Vec<u8>,
    at: u64,
    size: u32,
}

/// An open table.
pub(crate) struct Table {
    pub number: u64,
    pub ino: Ino,
    pub bytes: u64,
    pub first: Vec<u8>,
    pub last: Vec<u8>,
    blocks: Vec<Block>,
    filter: Vec<u64>,
}

/// A record: lengths of key and value (the largest number for one that is deleted), both.
pub(crate) fn encode(into: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    into.extend((key.len() as u32).to_le_bytes());
    let size = value.map_or(u32::MAX, |value| value.len() as u32);
    into.extend(size.to_le_bytes());
    into.extend(key);
    into.extend(value.unwrap_or_default());
}

/// All records of some bytes; None if they are none.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<Entry>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key_size = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let size = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
        let value_size = if size == u32::MAX { 0 } else { size as usize };
        let key = bytes.get(8..8 + key_size)?.to_vec();
        let end = 8 + key_size + value_size;
        let value = bytes.get(8 + key_size..end)?;
        found.push((key, (size != u32::MAX).then(|| value.to_vec())));
        bytes = &bytes[end..];
    }
    Some(found)
}

fn places(key: &[u8], bits: u64) -> impl Iterator<Item = u64> {
    let folded = key.chunks(8).fold(key.len() as u64, |sum, part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        spread(sum ^ u64::from_le_bytes(word))
    });
    let step = spread(folded) | 1;
    (0..FILTER_HASHES).map(move |nth| folded.wrapping_add(nth.wrapping_mul(step)) % bits)
}

/// Makes a table of records that come in the order of their keys.
#[derive(Default)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    /// Where the block that is being filled begins.
    block: usize,
    blocks: Vec<Block>,
    keys: Vec<Vec<u8>>,
}

impl Builder {
    /// The next record.
    pub fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        if self.block == self.bytes.len() {
            self.blocks.push(Block {
                first: key.to_vec(),
                at: self.block as u64,
                size: 0,
            });
        }
        encode(&mut self.bytes, key, value);
        self.keys.push(key.to_vec());
        if self.bytes.len() - self.block >= BLOCK {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let sum = checksum::crc32c(&self.bytes[self.block..]);
        self.bytes.extend(sum.to_le_bytes());
        if let Some(block) = self.blocks.last_mut() {
            block.size = (self.bytes.len() - self.block) as u32;
        }
        self.block = self.bytes.len();
    }

    /// Bytes so far.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Writes the table and waits until it survives a power cut. It has at least one record.
    pub async fn write<V: Vfs>(mut self, shared: &Shared<V>, number: u64) -> Result<Table, Error> {
        if self.block < self.bytes.len() {
            self.end_block();
        }
        let bits = (self.keys.len() as u64 * FILTER_BITS).next_multiple_of(64);
        let mut filter = vec![0_u64; (bits / 64) as usize];
        for place in self.keys.iter().flat_map(|key| places(key, bits)) {
            filter[(place / 64) as usize] |= 1 << (place % 64);
        }
        let last = self.keys.last().cloned().unwrap_or_default();
        let index_at = self.bytes.len() as u64;
        let mut index = Vec::new();
        for block in &self.blocks {
            let place = [block.at.to_le_bytes(), u64::from(block.size).to_le_bytes()].concat();
            encode(&mut index, &block.first, Some(&place));
        }
        encode(&mut index, &last, Some(&[]));
        index.extend(filter.iter().flat_map(|word| word.to_le_bytes()));
        let sum = checksum::crc32c(&index);
        self.bytes.extend(&index);
        let filter_bytes = filter.len() as u64 * 8;
        for word in [
            index_at,
            index.len() as u64,
            filter_bytes,
            u64::from(sum),
            MAGIC,
        ] {
            self.bytes.extend(word.to_le_bytes());
        }
        let ino = shared.create(&name_of(number)).await?;
        for (nth, part) in self.bytes.chunks(REQUEST).enumerate() {
            shared.write(ino, (nth * REQUEST) as u64, part).await?;
        }
        shared.files.fsync(ino).await?;
        Ok(Table {
            number,
            ino,
            bytes: self.bytes.len() as u64,
            first: self
                .blocks
                .first()
                .map(|block| block.first.clone())
                .unwrap_or_default(),
            last,
            blocks: self.blocks,
            filter,
        })
    }
}

/// The name of a table's file.
pub(crate) fn name_of(number: u64) -> String {
    format!("{number:06}.table")
}

impl Table {
    /// Opens a table that was written.
    pub async fn open<V: Vfs>(shared: &Shared<V>, number: u64) -> Result<Self, Error> {
        let name = name_of(number);
        let damaged = || Error::damaged(&name);
        let (ino, bytes) = shared
            .files
            .lookup(shared.directory, name.as_bytes())
            .await?;
        shared.files.open(ino).await?;
        let at = bytes.checked_sub(FOOTER as u64).ok_or_else(damaged)?;
        let footer = shared.read(ino, at, FOOTER).await?;
        let words: Vec<u64> = footer
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
            .collect();
        let [index_at, size, filter_bytes, sum, MAGIC] = words[..] else {
            return Err(damaged());
        };
        let index = shared.read(ino, index_at, size as usize).await?;
        let is_sound = index.len() as u64 == size && u64::from(checksum::crc32c(&index)) == sum;
        let split = index.len().checked_sub(filter_bytes as usize);
        let (true, Some(split)) = (is_sound, split) else {
            return Err(damaged());
        };
        let filter = index[split..].chunks_exact(8);
        let filter = filter.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        let mut records = decode(&index[..split]).ok_or_else(damaged)?;
        let (last, _) = records.pop().ok_or_else(damaged)?;
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        let block = |(first, place): Entry| {
            let place = place?;
            let (at, size) = (word(place.get(..8)?)?, word(place.get(8..16)?)?);
            Some(Block {
                first,
                at,
                size: size as u32,
            })
        };
        let blocks: Option<Vec<Block>> = records.into_iter().map(block).collect();
        let blocks = blocks.ok_or_else(damaged)?;
        Ok(Self {
            number,
            ino,
            bytes,
            first: blocks
                .first()
                .map(|block| block.first.clone())
                .unwrap_or_default(),
            last,
            filter: filter.collect(),
            blocks,
        })
    }

    /// Blocks.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// The block in which a key is if it is there.
    pub fn block_of(&self, key: &[u8]) -> usize {
        let after = self.blocks.partition_point(|block| block.first[..] <= *key);
        after.saturating_sub(1)
    }

    /// Whether ranges of keys overlap.
    pub fn overlaps(&self, first: &[u8], last: &[u8]) -> bool {
        self.first[..] <= *last && *first <= self.last[..]
    }

    /// The records of a block.
    pub async fn read_block<V: Vfs>(
        &self,
        shared: &Shared<V>,
        nth: usize,
    ) -> Result<Vec<Entry>, Error> {
        let block = &self.blocks[nth];
        let mut bytes = shared.read(self.ino, block.at, block.size as usize).await?;
        let damaged = || Error::damaged(&name_of(self.number));
        let end = bytes.len().checked_sub(4).ok_or_else(damaged)?;
        let sum = bytes.split_off(end);
        if checksum::crc32c(&bytes).to_le_bytes()[..] != sum[..] {
            return Err(damaged());
        }
        decode(&bytes).ok_or_else(damaged)
    }

    /// The value of a key; Some(None) if it was deleted, None if it is not here.
    pub async fn get<V: Vfs>(
        &self,
        shared: &Shared<V>,
        key: &[u8],
    ) -> Result<Option<Option<Vec<u8>>>, Error> {
        if !self.overlaps(key, key) || !self.may_have(key) {
            return Ok(None);
        }
        let entries = self.read_block(shared, self.block_of(key)).await?;
        let found = entries.into_iter().find(|(other, _)| other[..] == *key);
        Ok(found.map(|(_, value)| value))
    }

    fn may_have(&self, key: &[u8]) -> bool {
        let bits = self.filter.len() as u64 * 64;
        let is_set = |place: u64| self.filter[(place / 64) as usize] >> (place % 64) & 1 == 1;
        places(key, bits).all(is_set)
    }
}
