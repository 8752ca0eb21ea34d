//! What a thread's transactions changed, as lines of text in a ring.
//!
//! ```text
//! 17 U 6 203 51 2a000000 2b000000 c9a6b7d1
//! ```
//!
//! Serial number of the line; what was done (U update, I insert, R remove, C commit, A abort, the
//! last two without the rest); table, partition, slot in decimal; the row before and after in
//! hexadecimal, `-` where there was none; CRC-32 (IEEE 802.3) of the characters up to there and of
//! the rows' bytes. The ring keeps the newest lines, so that a transaction can be followed and made
//! again from them.

use super::{PartitionId, Slot};
use crate::text::digits;
use std::ops::Range;

const CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ ((crc & 1) * 0xedb8_8320);
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Numbers, letter, CRC, spaces and line break of a line, at most.
const AROUND_ROWS: usize = 90;

#[inline]
fn hexadecimal(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)])
}

/// The CRC after one more byte.
#[inline]
fn after(crc: u32, byte: u8) -> u32 {
    CRC[usize::from(crc as u8 ^ byte)] ^ (crc >> 8)
}

/// What a line says was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A row changed.
    Update,
    /// A row was added.
    Insert,
    /// A row was removed.
    Remove,
    /// A transaction ended well.
    Commit,
    /// A transaction's changes were undone.
    Abort,
}

impl Deed {
    const ALL: [(Self, u8); 5] = [
        (Self::Update, b'U'),
        (Self::Insert, b'I'),
        (Self::Remove, b'R'),
        (Self::Commit, b'C'),
        (Self::Abort, b'A'),
    ];
}

/// A line, read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Serial number in its journal.
    pub serial: u64,
    /// What was done.
    pub deed: Deed,
    /// Where, unless it is the end of a transaction.
    pub place: Option<(PartitionId, Slot)>,
    /// The row before.
    pub before: Vec<u8>,
    /// The row after.
    pub after: Vec<u8>,
}

/// One thread's ring of lines.
#[derive(Debug)]
pub struct Journal {
    /// Line breaks where nothing is written yet.
    ring: Box<[u8]>,
    /// Where the next character goes. A line never goes round the ring's end.
    at: usize,
    crc: u32,
    serial: u64,
}

impl Journal {
    /// An empty ring of `bytes`, to hold many lines.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self {
            ring: vec![b'\n'; bytes].into_boxed_slice(),
            at: 0,
            crc: u32::MAX,
            serial: 0,
        }
    }

    /// Lines ever written.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.serial
    }

    #[inline]
    fn store(&mut self, character: u8) {
        self.ring[self.at] = character;
        self.at += 1;
    }

    /// Stores a character that the CRC covers.
    #[inline]
    fn put(&mut self, character: u8) {
        self.store(character);
        self.crc = after(self.crc, character);
    }

    fn put_number(&mut self, number: u64) {
        for digit in digits(number, &mut [0; 20]) {
            self.put(*digit);
        }
        self.put(b' ');
    }

    fn put_row(&mut self, row: &[u8]) {
        let text = &mut self.ring[self.at..self.at + 2 * row.len()];
        let mut crc = self.crc;
        for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(row) {
            let [upper, lower] = hexadecimal(*byte);
            pair[0] = upper;
            crc = after(crc, *byte);
            pair[1] = lower;
        }
        self.at += 2 * row.len();
        self.crc = crc;
        if row.is_empty() {
            self.put(b'-');
        }
        self.put(b' ');
    }

    /// Begins a line that has rows of so many bytes.
    fn start(&mut self, deed: Deed, row_bytes: usize) {
        let most = 2 * row_bytes + AROUND_ROWS;
        assert!(most <= self.ring.len(), "the ring holds a line");
        if self.at + most > self.ring.len() {
            self.ring[self.at..].fill(b'\n');
            self.at = 0;
        }
        self.put_number(self.serial);
        self.put(Deed::ALL[deed as usize].1);
        self.put(b' ');
    }

    fn end(&mut self) {
        let crc = (!self.crc).to_be_bytes();
        for byte in crc {
            let [upper, lower] = hexadecimal(byte);
            self.store(upper);
            self.store(lower);
        }
        self.store(b'\n');
        self.crc = u32::MAX;
        self.serial += 1;
    }

    /// Writes what became of a row.
    pub fn row(&mut self, deed: Deed, id: PartitionId, slot: Slot, before: &[u8], after: &[u8]) {
        self.start(deed, before.len() + after.len());
        for number in [id.table, id.index, slot.get()] {
            self.put_number(number.into());
        }
        self.put_row(before);
        self.put_row(after);
        self.end();
    }

    /// Writes how a transaction ended.
    pub fn ending(&mut self, deed: Deed) {
        self.start(deed, 0);
        self.end();
    }

    /// The lines that the ring still holds whole, oldest first.
    ///
    /// # Errors
    /// When a line does not match its CRC, or a serial number is missing.
    pub fn read(&self) -> Result<Vec<Line>, String> {
        let (newest, oldest) = self.ring.split_at(self.at);
        let text = [oldest, newest].concat();
        // The first piece is what the newest line left of an old one.
        let whole = text.split(|character| *character == b'\n').skip(1);
        let lines: Vec<_> = whole
            .filter(|line| !line.is_empty())
            .map(|line| parse(line).ok_or_else(|| unreadable(line)))
            .collect::<Result<_, _>>()?;
        let first = self.serial - lines.len() as u64;
        match lines
            .iter()
            .zip(first..)
            .find(|(line, serial)| line.serial != *serial)
        {
            Some((line, serial)) => Err(format!(
                "the journal has line {} where {serial} belongs.",
                line.serial
            )),
            None => Ok(lines),
        }
    }

    /// Changes one character of the newest line, as a fault would.
    pub fn spoil(&mut self) {
        self.ring[self.at - 12] ^= 1;
    }
}

fn unreadable(line: &[u8]) -> String {
    let start = String::from_utf8_lossy(&line[..line.len().min(40)]).into_owned();
    format!("the journal's line `{start}…` does not match its CRC.")
}

fn parse(line: &[u8]) -> Option<Line> {
    let (said, crc) = str::from_utf8(line).ok()?.rsplit_once(' ')?;
    let words: Vec<_> = said.split(' ').collect();
    let letter = words.get(1)?.bytes().next()?;
    let deed = Deed::ALL.iter().find(|(_, other)| *other == letter)?.0;
    let mut parsed = Line {
        serial: words[0].parse().ok()?,
        deed,
        place: None,
        before: Vec::new(),
        after: Vec::new(),
    };
    let mut covered: Vec<_> = words
        .iter()
        .take(5)
        .map(|word| word.as_bytes().to_vec())
        .collect();
    if let [table, index, slot, before, after] = words[2..] {
        let (table, index) = (table.parse().ok()?, index.parse().ok()?);
        let slot = Slot::new(slot.parse().ok()?);
        parsed.place = Some((PartitionId { table, index }, slot));
        parsed.before = bytes(before)?;
        parsed.after = bytes(after)?;
        for (word, row) in [(before, &parsed.before), (after, &parsed.after)] {
            covered.push(if row.is_empty() {
                word.into()
            } else {
                row.clone()
            });
        }
    }
    let bytes = covered.iter().flat_map(|part| part.iter().chain(b" "));
    let expected = !bytes.fold(u32::MAX, |crc, byte| after(crc, *byte));
    (u32::from_str_radix(crc, 16).ok()? == expected).then_some(parsed)
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let pair = |at: Range<usize>| u8::from_str_radix(text.get(at)?, 16).ok();
    match text {
        "-" => Some(Vec::new()),
        _ => (0..text.len())
            .step_by(2)
            .map(|at| pair(at..at + 2))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: PartitionId = PartitionId {
        table: 6,
        index: 203,
    };

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let mut journal = Journal::new(256);
        journal.row(
            Deed::Update,
            PLACE,
            Slot::new(51),
            &[0x2a, 0xff],
            &[0x2b, 0],
        );
        journal.ending(Deed::Commit);
        assert!(journal.ring.starts_with(b"0 U 6 203 51 2aff 2b00 "));
        let lines = journal.read().unwrap();
        assert_eq!(lines[0].place, Some((PLACE, Slot::new(51))));
        assert_eq!(
            (&lines[0].before[..], &lines[0].after[..]),
            (&[0x2a, 0xff][..], &[0x2b, 0][..])
        );
        assert_eq!((lines[1].deed, lines[1].serial), (Deed::Commit, 1));
    }

    #[test]
    fn the_checksum_is_that_of_ethernet() {
        let crc = b"123456789"
            .iter()
            .fold(u32::MAX, |crc, byte| after(crc, *byte));
        assert_eq!(!crc, 0xcbf4_3926);
    }

    #[test]
    fn a_full_ring_keeps_the_newest_lines_whole() {
        let mut journal = Journal::new(1024);
        for value in 0..200 {
            journal.row(
                Deed::Insert,
                PLACE,
                Slot::new(value),
                &[],
                &[value as u8; 9],
            );
        }
        let lines = journal.read().unwrap();
        assert!(lines.len() > 10 && lines.len() < 30);
        assert_eq!(lines.last().unwrap().after, [199; 9]);
        assert_eq!(lines.last().unwrap().serial, 199);
    }

    #[test]
    fn a_changed_character_is_noticed() {
        let mut journal = Journal::new(1024);
        journal.row(Deed::Remove, PLACE, Slot::new(1), &[1, 2, 3], &[]);
        assert!(journal.read().is_ok());
        journal.spoil();
        assert!(
            journal
                .read()
                .unwrap_err()
                .ends_with("does not match its CRC.")
        );
    }
}
