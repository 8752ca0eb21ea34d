//! A journal of blocks on the host's side, as JBD2 in ordered mode: whole blocks are written twice,
//! once to the journal and later to their places.
//!
//! The first block says where the oldest record begins and its number, in its first line, so that
//! no power cut tears it where the device's blocks are smaller. A record is a block of numbers (of
//! the blocks that follow, and of blocks that are none of metadata any more), those blocks, and a
//! block that ends it, with the sum of all. Records go round.

use crate::fs::{FileSystem, address};
use crate::gate::join_all;
use crate::layout::{
    BLOCK, Geometry, LINE, get_u32, get_u64, is_sealed, put_u32, put_u64, seal, sum,
};
use crate::state::batch::Sealed;
use crate::stats::Class;
use crate::{BlockNo, MountError};
use port::{Acknowledge, Clock, Device, DeviceError, PersistenceDomain};
use std::collections::BTreeMap;
use units::ByteAddr;

const MAGIC_FIRST: u32 = 0x314a_4e45;
const MAGIC_HEAD: u32 = 0x324a_4e45;
const MAGIC_END: u32 = 0x334a_4e45;
/// Numbers that the head of a record has room for.
pub(super) const NUMBERS: usize = (BLOCK - 24) / 4;

/// A record as it was read: its length, its blocks, and those that are none of metadata any more.
type Found = (u32, Vec<(BlockNo, Box<[u8; BLOCK]>)>, Vec<BlockNo>);

pub(crate) struct BlockJournal {
    area: core::ops::Range<u32>,
    /// Where the next record goes, in blocks from the second one of the area.
    head: u32,
    /// Where the oldest one begins that is not in place.
    tail: u32,
    /// The number of the next record.
    sequence: u64,
    /// That of the oldest one.
    oldest: u64,
}

impl BlockJournal {
    pub fn new(geometry: &Geometry) -> Self {
        Self {
            area: geometry.journal.clone(),
            head: 0,
            tail: 0,
            sequence: 1,
            oldest: 1,
        }
    }

    /// Blocks for records.
    fn room(&self) -> u32 {
        (self.area.len() as u32).saturating_sub(1)
    }

    fn free(&self) -> u32 {
        let used = (self.head + self.room() - self.tail) % self.room().max(1);
        self.room().saturating_sub(used + 1)
    }

    fn place(&self, block: u32) -> ByteAddr {
        address(BlockNo(self.area.start + 1 + block % self.room()))
    }

    async fn write<D: Device, C: Clock>(
        fs: &FileSystem<D, C>,
        at: ByteAddr,
        bytes: &[u8],
        class: Class,
        when: Acknowledge,
    ) -> Result<(), DeviceError> {
        fs.spend(fs.costs.request).await;
        fs.device.write_blocks(at, bytes, when).await?;
        fs.spend(fs.costs.switch).await;
        let mut state = fs.state();
        state.counters.class(class).blocks_written += bytes.len() as u64;
        // The kernel asks for none where nothing is volatile.
        let is_asked = fs.shape.block_domain == PersistenceDomain::Flash;
        state.counters.0.flushes += u64::from(when == Acknowledge::Durable && is_asked);
        Ok(())
    }

    /// Writes together what nobody needs in an order; of no class it was counted before.
    async fn write_all<D: Device, C: Clock>(
        fs: &FileSystem<D, C>,
        parts: &[(ByteAddr, &[u8])],
        class: Option<Class>,
    ) -> Result<(), DeviceError> {
        let parts = parts.iter().filter(|(_, bytes)| !bytes.is_empty());
        let accepted = Acknowledge::Accepted;
        let requests = parts.clone().count() as u64;
        fs.spend(fs.costs.request * requests).await;
        let writes = parts.map(|(at, bytes)| {
            if let Some(class) = class {
                fs.state().counters.class(class).blocks_written += bytes.len() as u64;
            }
            fs.device.write_blocks(*at, bytes, accepted)
        });
        let done = join_all(writes.collect()).await;
        fs.spend(fs.costs.switch).await;
        done.into_iter().try_for_each(|result| result.map(|_| ()))
    }

    pub async fn persist<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
        batch: &Sealed,
    ) -> Result<(), DeviceError> {
        // Lines of data are none: this personality writes data by blocks.
        let blocks = &batch.blocks[..];
        let mut revoked = &batch.revoked[..];
        if blocks.len() + revoked.len() > NUMBERS {
            // With nothing older in the journal nothing is to be revoked.
            self.checkpoint(fs).await?;
            revoked = &[];
        }
        // One batch is one record, or recovery might find half of it.
        let numbers = blocks.len() + revoked.len();
        let needed = blocks.len() as u32 + 2;
        if numbers > NUMBERS || needed > self.room() {
            return Err(DeviceError::Stopped {
                reason: format!(
                    "the journal has room for {} blocks and a change needs {needed}; make the file \
                     system with a larger journal",
                    self.room()
                ),
            });
        }
        if numbers == 0 {
            return Ok(());
        }
        if needed > self.free() {
            self.checkpoint(fs).await?;
        }
        let mut record = vec![0; BLOCK];
        put_u32(&mut record, 0, MAGIC_HEAD);
        put_u64(&mut record, 8, self.sequence);
        put_u32(&mut record, 16, blocks.len() as u32);
        put_u32(&mut record, 20, revoked.len() as u32);
        let listed = blocks
            .iter()
            .map(|(block, _)| *block)
            .chain(revoked.iter().copied());
        for (index, block) in listed.enumerate() {
            put_u32(&mut record, 24 + index * 4, block.0);
        }
        for (_, data) in blocks {
            record.extend_from_slice(&data[..]);
        }
        let mut end = vec![0; BLOCK];
        put_u32(&mut end, 0, MAGIC_END);
        put_u64(&mut end, 8, self.sequence);
        put_u32(&mut end, 16, sum(&record));
        // Each block is summed, and copied if the next transaction changes it.
        fs.spend(fs.costs.page * blocks.len() as u64).await;
        // In one piece, or in two around the end of the area.
        let whole = ((self.room() - self.head) as usize * BLOCK).min(record.len());
        let (first, rest) = record.split_at(whole);
        let parts = [(self.place(self.head), first), (self.place(0), rest)];
        Self::write_all(fs, &parts, Some(Class::Journal)).await?;
        // One flush, as JBD2's: the record, and the data that it makes seen, are durable before the
        // block that makes it count.
        fs.barrier().await?;
        let at = self.place(self.head + needed - 1);
        Self::write(fs, at, &end, Class::Journal, Acknowledge::Durable).await?;
        self.head = (self.head + needed) % self.room();
        self.sequence += 1;
        let mut state = fs.state();
        for block in &batch.revoked {
            state.checkpoint.remove(block);
        }
        for (block, data) in &batch.blocks {
            state.checkpoint.insert(*block, data.clone());
        }
        Ok(())
    }

    /// Writes everything to its place and empties the journal.
    pub async fn checkpoint<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
    ) -> Result<(), DeviceError> {
        let blocks = fs.state().checkpoint.clone();
        let parts: Vec<_> = blocks
            .iter()
            .map(|(block, data)| (address(*block), &data[..]))
            .collect();
        fs.note_blocks(&blocks);
        Self::write_all(fs, &parts, None).await?;
        fs.barrier().await?;
        self.tail = self.head;
        self.oldest = self.sequence;
        self.write_first(fs).await?;
        fs.state().checkpoint.clear();
        Ok(())
    }

    /// Writes what the journal has to its place, and leaves the journal as it is: at a sync of
    /// everything the kernel writes back the device's own pages, too. Nobody waits for a flush;
    /// after a power cut the journal still has it all.
    pub async fn write_in_place<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
    ) -> Result<(), DeviceError> {
        let blocks = fs.state().checkpoint.clone();
        let parts: Vec<_> = blocks
            .iter()
            .map(|(block, data)| (address(*block), &data[..]))
            .collect();
        fs.note_blocks(&blocks);
        Self::write_all(fs, &parts, None).await?;
        // Only commits put something there, and none is under way.
        fs.state().checkpoint.clear();
        Ok(())
    }

    async fn write_first<D: Device, C: Clock>(
        &self,
        fs: &FileSystem<D, C>,
    ) -> Result<(), DeviceError> {
        let mut first = vec![0; BLOCK];
        put_u32(&mut first, 0, MAGIC_FIRST);
        put_u64(&mut first, 8, self.oldest);
        put_u32(&mut first, 16, self.tail);
        seal(&mut first[..LINE]);
        let at = address(BlockNo(self.area.start));
        Self::write(fs, at, &first, Class::Journal, Acknowledge::Durable).await
    }

    /// Goes on where the first block of the area says; a new area begins at its first record.
    async fn find_records<D: Device>(&mut self, device: &D) -> Result<(), MountError> {
        let mut first = vec![0; BLOCK];
        let at = address(BlockNo(self.area.start));
        device.read_blocks(at, &mut first).await?;
        let is_new = first.iter().all(|byte| *byte == 0);
        // Older versions had a sum of the whole block instead of one of its line.
        let is_whole =
            is_sealed(&first[..LINE]) || get_u32(&first, BLOCK - 4) == sum(&first[..BLOCK - 4]);
        let is_ours = get_u32(&first, 0) == MAGIC_FIRST && is_whole;
        if !is_ours && !is_new {
            // No power cut leaves it so: its line is written as a whole.
            return Err(MountError::Damaged {
                what: "the first block of the journal".into(),
            });
        }
        (self.tail, self.oldest) = match is_new {
            true => (0, 1),
            false => (get_u32(&first, 16) % self.room(), get_u64(&first, 8)),
        };
        (self.head, self.sequence) = (self.tail, self.oldest);
        Ok(())
    }

    /// Goes on behind the records of earlier mounts: recovery looks for the next one there. A
    /// journal that is damaged begins anew, for behind an unmount nothing of it is needed.
    pub async fn open<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
    ) -> Result<(), MountError> {
        match self.find_records(&fs.device).await {
            Err(error) => super::begin_anew(&fs.device, &self.area, error).await,
            Ok(()) => Ok(()),
        }
    }

    pub async fn replay<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
    ) -> Result<(), MountError> {
        self.find_records(&fs.device).await?;
        let mut found: BTreeMap<BlockNo, Box<[u8; BLOCK]>> = BTreeMap::new();
        while let Some((length, blocks, revoked)) = self.read_record(&fs.device).await? {
            for block in revoked {
                found.remove(&block);
            }
            found.extend(blocks);
            self.head = (self.head + length) % self.room();
            self.sequence += 1;
        }
        let parts: Vec<_> = found
            .iter()
            .map(|(block, data)| (address(*block), &data[..]))
            .collect();
        fs.note_blocks(&found);
        Self::write_all(fs, &parts, None).await?;
        fs.barrier().await?;
        (self.tail, self.oldest) = (self.head, self.sequence);
        Ok(self.write_first(fs).await?)
    }

    /// Whether there are records that are not in their places.
    ///
    /// # Errors
    /// It cannot be said: the journal is damaged, or the device fails.
    pub async fn holds<D: Device>(device: &D, geometry: &Geometry) -> Result<bool, MountError> {
        let mut journal = Self::new(geometry);
        journal.find_records(device).await?;
        Ok(journal.read_record(device).await?.is_some())
    }

    /// The record at the head, if it is whole.
    async fn read_record<D: Device>(&self, device: &D) -> Result<Option<Found>, DeviceError> {
        let mut record = vec![0; BLOCK];
        device
            .read_blocks(self.place(self.head), &mut record)
            .await?;
        let (count, revoked) = (get_u32(&record, 16), get_u32(&record, 20));
        let is_next = get_u32(&record, 0) == MAGIC_HEAD && get_u64(&record, 8) == self.sequence;
        let fits =
            u64::from(count) + u64::from(revoked) <= NUMBERS as u64 && count + 2 <= self.room();
        if !is_next || !fits {
            return Ok(None);
        }
        for block in 1..=count {
            let mut bytes = vec![0; BLOCK];
            device
                .read_blocks(self.place(self.head + block), &mut bytes)
                .await?;
            record.extend_from_slice(&bytes);
        }
        let mut end = vec![0; BLOCK];
        let at = self.place(self.head + count + 1);
        device.read_blocks(at, &mut end).await?;
        let ends = get_u32(&end, 0) == MAGIC_END
            && get_u64(&end, 8) == self.sequence
            && get_u32(&end, 16) == sum(&record);
        if !ends {
            return Ok(None);
        }
        let number = |index: u32| BlockNo(get_u32(&record, 24 + index as usize * 4));
        let blocks = (0..count).zip(record[BLOCK..].chunks_exact(BLOCK));
        let blocks = blocks.map(|(index, data)| {
            let mut copy = Box::new([0; BLOCK]);
            copy.copy_from_slice(data);
            (number(index), copy)
        });
        let revoked = (count..count + revoked).map(number);
        Ok(Some((count + 2, blocks.collect(), revoked.collect())))
    }
}
