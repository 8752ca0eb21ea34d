//! Where logs of inodes are: the part of the device that other personalities have a journal in.
//!
//! A line that says which logs count, a record of tails, a table of logs with 16 B for each inode,
//! and pages.

use super::group::PAGE_END;
use crate::layout::{BLOCK, Geometry, LINE, Torn, get_u32, put_u32, sum};
use crate::{BlockNo, Ino};
use units::ByteAddr;

/// Bytes of an entry of the table of logs.
pub(crate) const ENTRY: usize = 16;
/// Entries of a line.
pub(crate) const ENTRIES: u32 = (LINE / ENTRY) as u32;
/// Tails are counted in so many bytes.
const STEP: u32 = 8;
/// Fewer pages are none: one operation may need some, and cleaning as many again.
const PAGES_LEAST: u32 = 16;
/// Blocks of the record of tails at most.
const RECORD_MOST: u32 = 64;
/// Lines of the first block before the record begins.
const HEAD_LINES: u32 = 2;

/// Where things are.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    first: u32,
    record: u32,
    table: u32,
    /// Pages of logs.
    pub pages: u32,
    /// Inodes and the log that is nobody's.
    pub numbers: u32,
}

/// What the table says of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Its first page.
    pub head: u32,
    /// Its last page, and the bytes of it that count.
    pub tail: (u32, usize),
}

impl Area {
    /// That of a file system; none if it has no room for logs.
    pub fn of(geometry: &Geometry) -> Option<Self> {
        let blocks = geometry.journal.len() as u32;
        let numbers = geometry.inodes.checked_add(1)?;
        let record = Self::record_blocks(blocks);
        let table = Self::table_blocks(numbers);
        let pages = blocks.checked_sub(record.checked_add(table)?)?;
        // So that a tail is a number of 32 bits.
        let is_small = pages < u32::MAX / (BLOCK as u32 / STEP);
        (pages >= PAGES_LEAST && is_small).then_some(Self {
            first: geometry.journal.start,
            record,
            table,
            pages,
            numbers,
        })
    }

    fn record_blocks(blocks: u32) -> u32 {
        (blocks / 16).clamp(1, RECORD_MOST)
    }

    fn table_blocks(numbers: u32) -> u32 {
        numbers.div_ceil((BLOCK / ENTRY) as u32)
    }

    /// Blocks that must be there for the logs of so many inodes.
    pub fn least(inodes: u32) -> u32 {
        let pages = PAGES_LEAST + Self::table_blocks(inodes.saturating_add(1));
        let enough = (1..=RECORD_MOST).find(|more| Self::record_blocks(pages + more) <= *more);
        pages + enough.unwrap_or(RECORD_MOST)
    }

    /// Lines of a batch, so that the logs and the record have room for it.
    pub fn batch_most(&self) -> usize {
        let by_pages = self.pages / 4 * 3;
        by_pages.min(self.record_most() / 2) as usize
    }

    /// Lines of the table that a record has room for: of each its number and its bytes.
    pub fn record_most(&self) -> u32 {
        let lines = self.record * (BLOCK / LINE) as u32 - HEAD_LINES;
        lines * LINE as u32 / (LINE as u32 + 4) - 1
    }

    fn line(&self, number: u32) -> ByteAddr {
        let at = u64::from(self.first) * BLOCK as u64 + u64::from(number) * LINE as u64;
        ByteAddr::new(at)
    }

    /// The line that says which logs count.
    pub fn head(&self) -> ByteAddr {
        self.line(0)
    }

    /// The line that says whether the record of tails counts.
    pub fn record_head(&self) -> ByteAddr {
        self.line(1)
    }

    /// A line of the record.
    pub fn record(&self, line: u32) -> ByteAddr {
        self.line(HEAD_LINES + line)
    }

    /// The table: its first block, and how many there are.
    pub fn table(&self) -> (BlockNo, u32) {
        (BlockNo(self.first + self.record), self.table)
    }

    /// Lines of the table.
    pub fn table_lines(&self) -> u32 {
        self.table * (BLOCK / LINE) as u32
    }

    /// A line of the table.
    pub fn table_line(&self, line: u32) -> ByteAddr {
        self.line(self.record * (BLOCK / LINE) as u32 + line)
    }

    /// A page of logs.
    pub fn page(&self, page: u32) -> BlockNo {
        BlockNo(self.first + self.record + self.table + page)
    }
}

/// The sum of an entry, which is of its inode, too.
fn entry_sum(ino: Ino, entry: &[u8]) -> u32 {
    let mut bytes = [0; ENTRY];
    bytes[..12].copy_from_slice(&entry[..12]);
    put_u32(&mut bytes, 12, ino.0);
    sum(&bytes)
}

impl Place {
    /// As the table has it.
    pub fn encode(&self, ino: Ino, epoch: u32) -> [u8; ENTRY] {
        let mut entry = [0; ENTRY];
        let (page, used) = self.tail;
        put_u32(&mut entry, 0, self.head + 1);
        put_u32(
            &mut entry,
            4,
            page * (BLOCK as u32 / STEP) + used as u32 / STEP,
        );
        put_u32(&mut entry, 8, epoch);
        let sum = entry_sum(ino, &entry);
        put_u32(&mut entry, 12, sum);
        entry
    }

    /// What an entry says: nothing if it is of no log that counts.
    pub fn decode(ino: Ino, entry: &[u8], epoch: u32, pages: u32) -> Result<Option<Self>, Torn> {
        if entry[..ENTRY].iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if get_u32(entry, 12) != entry_sum(ino, entry) {
            return Err(Torn);
        }
        if get_u32(entry, 8) != epoch {
            return Ok(None);
        }
        let head = get_u32(entry, 0).wrapping_sub(1);
        let tail = get_u32(entry, 4);
        let (page, used) = (
            tail / (BLOCK as u32 / STEP),
            (tail % (BLOCK as u32 / STEP) * STEP) as usize,
        );
        let is_within = head < pages && page < pages && used <= PAGE_END;
        is_within
            .then_some(Some(Self {
                head,
                tail: (page, used),
            }))
            .ok_or(Torn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_of_its_inode_and_of_its_logs() {
        let place = Place {
            head: 3,
            tail: (9, 4032),
        };
        let entry = place.encode(Ino(7), 5);
        assert_eq!(Place::decode(Ino(7), &entry, 5, 10), Ok(Some(place)));
        assert_eq!(Place::decode(Ino(7), &entry, 6, 10), Ok(None));
        assert_eq!(Place::decode(Ino(8), &entry, 5, 10), Err(Torn));
        assert_eq!(Place::decode(Ino(7), &entry, 5, 9), Err(Torn));
        assert_eq!(Place::decode(Ino(7), &[0; ENTRY], 5, 9), Ok(None));
        for bit in 0..ENTRY * 8 {
            let mut broken = entry;
            broken[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Place::decode(Ino(7), &broken, 5, 10), Err(Torn), "{bit}");
        }
    }
}
