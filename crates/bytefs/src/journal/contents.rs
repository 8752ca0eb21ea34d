//! Contents that overwrite others, kept until the batch that they go with is durable (§4.6, data
//! journaling): the part by blocks, for lines are in the batch's transaction themselves.
//!
//! The area has a line that closes a record, and behind its block three parts. A record is a block
//! of numbers and the blocks that go there. It is durable before its batch is committed, and the
//! line is one of that transaction's: so it counts exactly if the batch does. Then the blocks go to
//! their places. The next batch has the line say that nothing counts any more, or which part does:
//! so no record is brought to places that were given to somebody else, and there is at most one.
//!
//! Three parts, for while a batch is being committed the next one is written, and the record before
//! it counts until it is durable.

use super::Line;
use crate::fs::{FileSystem, address};
use crate::gate::join_all;
use crate::layout::{BLOCK, Geometry, LINE, Superblock, get_u32, is_sealed, put_u32, seal, sum};
use crate::state::batch::Sealed;
use crate::stats::Class;
use crate::{BlockNo, MountError};
use core::ops::Range;
use port::{Acknowledge, Clock, Device, DeviceError};
use units::{ByteAddr, TxId};

const PARTS: u32 = 3;
/// Blocks of an area that is of use: each part has room for a page beside those that the ends of a
/// write take (`FileSystem::mount` looks).
pub(crate) const BLOCKS_LEAST: u32 = 1 + PARTS * 6;
/// Bytes of a number.
const NUMBER: usize = 4;

/// A block of contents, and where it goes.
pub(crate) type Content = (BlockNo, Box<[u8; BLOCK]>);

/// The area of a file system that has one, and what is in use of it.
pub(crate) struct ContentRecords {
    area: Range<u32>,
    /// The part of the next record.
    next: u32,
    /// The record of the last batch counts.
    counts: bool,
}

/// What a batch says of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closing {
    /// Its own counts, in this part.
    Part(u32),
    /// None counts any more.
    Nothing,
}

impl ContentRecords {
    /// The area, where transactions are the journal of metadata, and blocks were kept for one.
    pub fn of(superblock: &Superblock, geometry: &Geometry) -> Option<Self> {
        let area = geometry.journal.clone();
        let has_one = superblock.personality.needs_transactions() && !area.is_empty();
        has_one.then_some(Self {
            area,
            next: 0,
            counts: false,
        })
    }

    /// Blocks that a record has room for.
    pub fn room(&self) -> usize {
        (self.part_blocks() as usize)
            .saturating_sub(1)
            .min(BLOCK / NUMBER)
    }

    /// Whether the last batch that was sealed has a record.
    pub fn counts(&self) -> bool {
        self.counts
    }

    fn part_blocks(&self) -> u32 {
        (self.area.len() as u32).saturating_sub(1) / PARTS
    }

    fn place(&self, part: u32) -> ByteAddr {
        address(BlockNo(self.area.start + 1 + part * self.part_blocks()))
    }

    /// Where the line is that closes a record.
    fn end(&self) -> ByteAddr {
        address(BlockNo(self.area.start))
    }

    /// What a batch is to say that is sealed now.
    pub fn seal(&mut self, has_contents: bool) -> Option<Closing> {
        let closing = match (has_contents, self.counts) {
            (true, _) => {
                let part = self.next;
                self.next = (part + 1) % PARTS;
                Some(Closing::Part(part))
            }
            (false, true) => Some(Closing::Nothing),
            (false, false) => None,
        };
        self.counts = has_contents;
        closing
    }

    /// The line that says so.
    fn line(&self, part: u32, blocks: usize, sum: u32) -> Line {
        let mut line = [0; LINE];
        put_u32(&mut line, 0, blocks as u32);
        put_u32(&mut line, 4, part);
        put_u32(&mut line, 8, sum);
        seal(&mut line);
        (self.end(), line)
    }
}

/// A record as it is written.
fn record_of(contents: &[Content]) -> Vec<u8> {
    let mut record = vec![0; BLOCK];
    record.reserve(contents.len() * BLOCK);
    for (index, (block, _)) in contents.iter().enumerate() {
        put_u32(&mut record, index * NUMBER, block.0);
    }
    for (_, data) in contents {
        record.extend_from_slice(&data[..]);
    }
    record
}

/// The record that counts, on a device that was not unmounted; nothing if none does.
///
/// # Errors
/// It is damaged, or the flash has lost some of it; the device fails.
pub(crate) async fn read_record<D: Device>(
    device: &D,
    superblock: &Superblock,
    geometry: &Geometry,
) -> Result<Vec<Content>, MountError> {
    let Some(records) = ContentRecords::of(superblock, geometry) else {
        return Ok(Vec::new());
    };
    let damaged = |what: &str| MountError::Damaged { what: what.into() };
    // What the flash has lost comes back by no second try.
    let failed = |error: DeviceError| match error {
        DeviceError::Lost { at } => MountError::Damaged {
            what: format!(
                "the journal of contents, of which the flash has lost the block at byte {at},"
            ),
        },
        other => other.into(),
    };
    let mut line = [0; LINE];
    let read = device.read(records.end(), &mut line).await;
    read.map_err(failed)?;
    let (count, part) = (get_u32(&line, 0) as usize, get_u32(&line, 4));
    if !is_sealed(&line) || count > records.room() || part >= PARTS {
        return Err(damaged("the line that closes the journal of contents"));
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut record = vec![0; (count + 1) * BLOCK];
    let read = device.read_blocks(records.place(part), &mut record).await;
    read.map_err(failed)?;
    let numbers = (0..count).map(|index| BlockNo(get_u32(&record, index * NUMBER)));
    let numbers: Vec<BlockNo> = numbers.collect();
    let are_of_files = numbers
        .iter()
        .all(|block| geometry.files.contains(&block.0));
    if get_u32(&line, 8) != sum(&record) || !are_of_files {
        return Err(damaged("the journal of contents"));
    }
    let contents = numbers
        .into_iter()
        .zip(record[BLOCK..].as_chunks::<BLOCK>().0);
    let contents = contents.map(|(block, data)| (block, Box::new(*data)));
    Ok(contents.collect())
}

/// Has no record count, on a device that nobody else uses.
pub(crate) async fn give_up_record<D: Device>(
    device: &D,
    geometry: &Geometry,
) -> Result<(), MountError> {
    let end = address(BlockNo(geometry.journal.start));
    device
        .write_blocks(end, &[0; BLOCK], Acknowledge::Durable)
        .await?;
    Ok(())
}

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Writes a batch's record, so that it survives; gives the line that has it count.
    pub(super) async fn write_record(&self, batch: &Sealed) -> Result<Option<Line>, DeviceError> {
        let line = match batch.closing {
            None => None,
            Some(Closing::Nothing) => Some(self.closing_line(0, 0, 0)),
            Some(Closing::Part(part)) => {
                let count = batch.contents.len();
                // Each block is copied and summed.
                self.spend(self.costs.page * count as u64 + self.costs.request)
                    .await;
                let record = record_of(&batch.contents);
                let place = self.state().records.as_ref().map(|all| all.place(part));
                let place = place.unwrap_or(ByteAddr::new(0));
                let when = Acknowledge::Accepted;
                self.device.write_blocks(place, &record, when).await?;
                self.spend(self.costs.switch).await;
                let mut state = self.state();
                state.counters.class(Class::Journal).blocks_written += record.len() as u64;
                drop(state);
                Some(self.closing_line(part, count, sum(&record)))
            }
        };
        // Pages whose first block the batch shows were written before, too.
        if self.journals_data {
            self.barrier().await?;
        }
        Ok(line)
    }

    fn closing_line(&self, part: u32, blocks: usize, sum: u32) -> Line {
        let state = self.state();
        let records = state.records.as_ref();
        let records = records.expect("only a file system with an area seals such a batch");
        records.line(part, blocks, sum)
    }

    /// Brings the blocks of a batch that is durable to their places, so that they survive there.
    pub(crate) async fn put_contents(&self, contents: &[Content]) -> Result<(), DeviceError> {
        if contents.is_empty() {
            return Ok(());
        }
        let follows = |one: &Content, next: &Content| one.0.0 + 1 == next.0.0;
        let runs: Vec<(ByteAddr, Vec<u8>)> = contents
            .chunk_by(follows)
            .map(|run| {
                let bytes = run.iter().flat_map(|(_, data)| &data[..]);
                (address(run[0].0), bytes.copied().collect())
            })
            .collect();
        self.spend(self.costs.request * runs.len() as u64).await;
        let writes = runs
            .iter()
            .map(|(at, bytes)| self.device.write_blocks(*at, bytes, Acknowledge::Accepted));
        for done in join_all(writes.collect()).await {
            done?;
        }
        self.spend(self.costs.switch).await;
        let bytes = (contents.len() * BLOCK) as u64;
        self.state().counters.class(Class::Data).blocks_written += bytes;
        self.barrier().await
    }

    /// Brings the record that counts to its places, whatever way the file system is mounted now.
    pub(crate) async fn replay_contents(&self) -> Result<(), MountError> {
        let (superblock, geometry) = {
            let state = self.state();
            (state.superblock, state.geometry.clone())
        };
        let contents = read_record(&self.device, &superblock, &geometry).await?;
        if contents.is_empty() {
            return Ok(());
        }
        self.put_contents(&contents).await?;
        Ok(self.retire_record().await?)
    }

    /// Has no record count before the file system is given away.
    pub(super) async fn leave_no_record(&self) -> Result<(), DeviceError> {
        let counts = match &mut self.state().records {
            Some(records) => core::mem::take(&mut records.counts),
            None => false,
        };
        match counts {
            true => self.retire_record().await,
            false => Ok(()),
        }
    }

    async fn retire_record(&self) -> Result<(), DeviceError> {
        let line = self.closing_line(0, 0, 0);
        self.write_lines(&[line], TxId::NONE, Class::Journal)
            .await?;
        self.persist_lines().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(blocks: u32) -> ContentRecords {
        ContentRecords {
            area: 2..2 + blocks,
            next: 0,
            counts: false,
        }
    }

    #[test]
    fn parts_of_an_area_lie_behind_each_other_and_within_it() {
        for (blocks, room) in [(1, 0), (6, 0), (7, 1), (64, 20), (1 << 15, 1024)] {
            let records = records(blocks);
            assert_eq!(records.room(), room, "{blocks}");
            let part = u64::from(records.part_blocks());
            let place = |part| records.place(part).get() / BLOCK as u64;
            assert!(place(0) == 3 && place(1) == 3 + part);
            assert!(place(2) + part <= u64::from(2 + blocks));
        }
    }

    #[test]
    fn a_record_counts_until_the_next_batch_and_three_in_a_row_have_parts_of_their_own() {
        let mut records = records(64);
        assert_eq!(records.seal(false), None);
        let sealed = [true, true, false, false, true, true].map(|has| records.seal(has));
        let part = |number| Some(Closing::Part(number));
        let none = Some(Closing::Nothing);
        assert_eq!(sealed, [part(0), part(1), none, None, part(2), part(0)]);
    }

    #[test]
    fn a_line_that_closes_nothing_differs_from_one_that_was_never_written_in_nothing_that_counts() {
        let (at, line) = records(64).line(0, 0, 0);
        assert_eq!(at, address(BlockNo(2)));
        assert!(is_sealed(&line) && line == [0; LINE]);
    }
}
