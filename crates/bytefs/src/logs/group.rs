//! What a batch appends to a log: a group of changes, with a sum. A change is the words of eight
//! bytes of a line that differ from what they were before.
//!
//! A group lies within a page. The last line of a page says which page is next and where its groups
//! end.

use crate::BlockNo;
use crate::layout::{
    BLOCK, LINE, LINES, Torn, get_u16, get_u32, is_sealed, put_u16, put_u32, seal, sum,
};

/// Where groups of a page end at the latest.
pub(crate) const PAGE_END: usize = BLOCK - LINE;
/// Bytes of a word.
pub(crate) const WORD: usize = 8;
/// Bytes before the changes of a group.
const HEAD: usize = 16;
/// Bytes before the words of a change.
const CHANGE: usize = 8;
/// The number of a line that says that the block is none of metadata any more.
const REVOKED: u8 = u8::MAX;

/// A line of metadata: its block, and which of its lines.
pub(crate) type LineNo = (BlockNo, u8);

/// What a log says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// These words of a line (a bit for each) are those of these bytes.
    Words(LineNo, u8, [u8; LINE]),
    /// A block is none of metadata any more: what was said of it before is void.
    Revoked(BlockNo),
}

/// Bytes that a change of a line takes.
pub(crate) fn change_bytes(words: u8) -> usize {
    CHANGE + words.count_ones() as usize * WORD
}

impl Change {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Words(_, words, _) => change_bytes(*words),
            Self::Revoked(_) => CHANGE,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut head = [0; CHANGE];
        match self {
            Self::Words((block, line), words, bytes) => {
                put_u32(&mut head, 0, block.0);
                (head[4], head[5]) = (*line, *words);
                out.extend_from_slice(&head);
                let all = bytes.chunks_exact(WORD).enumerate();
                let changed = all.filter(|(word, _)| words >> word & 1 == 1);
                changed.for_each(|(_, word)| out.extend_from_slice(word));
            }
            Self::Revoked(block) => {
                put_u32(&mut head, 0, block.0);
                head[4] = REVOKED;
                out.extend_from_slice(&head);
            }
        }
    }

    /// The change with which bytes begin, and how many it takes.
    fn decode(bytes: &[u8]) -> Result<(Self, usize), Torn> {
        let head = bytes.get(..CHANGE).ok_or(Torn)?;
        let (block, line, words) = (BlockNo(get_u32(head, 0)), head[4], head[5]);
        if line == REVOKED {
            return Ok((Self::Revoked(block), CHANGE));
        }
        let size = change_bytes(words);
        let mut rest = bytes.get(CHANGE..size).ok_or(Torn)?.chunks_exact(WORD);
        let mut found = [0; LINE];
        for (word, place) in found.chunks_exact_mut(WORD).enumerate() {
            if words >> word & 1 == 1 {
                place.copy_from_slice(rest.next().ok_or(Torn)?);
            }
        }
        match usize::from(line) < LINES {
            true => Ok((Self::Words((block, line), words, found), size)),
            false => Err(Torn),
        }
    }
}

/// The words in which two lines differ.
pub(crate) fn differing(one: &[u8; LINE], other: &[u8; LINE]) -> u8 {
    let words = one.chunks_exact(WORD).zip(other.chunks_exact(WORD));
    words.enumerate().fold(0, |mask, (word, (one, other))| {
        mask | u8::from(one != other) << word
    })
}

/// As many changes as find room in so many bytes, and how many these are.
pub(crate) fn encode(
    changes: &[Change],
    room: usize,
    (epoch, batch): (u32, u32),
) -> Option<(Vec<u8>, usize)> {
    let mut size = HEAD;
    let fitting = changes.iter().take_while(|change| {
        size += change.bytes();
        size <= room
    });
    let count = fitting.count();
    if count == 0 {
        return None;
    }
    let mut group = vec![0; HEAD];
    for change in &changes[..count] {
        change.encode(&mut group);
    }
    let size = group.len() as u16;
    put_u32(&mut group, 0, batch);
    put_u16(&mut group, 4, size);
    put_u16(&mut group, 6, count as u16);
    put_u32(&mut group, 8, epoch);
    let total = sum(&group);
    put_u32(&mut group, 12, total);
    Some((group, count))
}

/// A group that was read.
pub(crate) struct Group {
    pub batch: u32,
    pub changes: Vec<Change>,
    /// Bytes that it takes.
    pub size: usize,
}

/// The group with which bytes begin.
pub(crate) fn decode(bytes: &[u8], epoch: u32) -> Result<Group, Torn> {
    let head = bytes.get(..HEAD).ok_or(Torn)?;
    let size = usize::from(get_u16(head, 4));
    // One of no bytes would be read again and again.
    if size < HEAD {
        return Err(Torn);
    }
    let mut group = bytes.get(..size).ok_or(Torn)?.to_vec();
    let found = get_u32(&group, 12);
    put_u32(&mut group, 12, 0);
    if found != sum(&group) || get_u32(&group, 8) != epoch {
        return Err(Torn);
    }
    let mut changes = Vec::new();
    let mut at = HEAD;
    for _ in 0..get_u16(&group, 6) {
        let (change, size) = Change::decode(&group[at..])?;
        changes.push(change);
        at += size;
    }
    if at != size {
        return Err(Torn);
    }
    Ok(Group {
        batch: get_u32(&group, 0),
        changes,
        size,
    })
}

/// The last line of a page: the next page, and where its own groups end.
pub(crate) fn link(next: u32, end: usize, epoch: u32) -> [u8; LINE] {
    let mut line = [0; LINE];
    put_u32(&mut line, 0, next + 1);
    put_u32(&mut line, 4, end as u32);
    put_u32(&mut line, 8, epoch);
    seal(&mut line);
    line
}

/// What the last line of a page says.
pub(crate) fn linked(line: &[u8], epoch: u32) -> Result<(u32, usize), Torn> {
    let (next, end) = (get_u32(line, 0), get_u32(line, 4) as usize);
    let is_whole = is_sealed(line) && get_u32(line, 8) == epoch;
    match is_whole && next > 0 && end <= PAGE_END {
        true => Ok((next - 1, end)),
        false => Err(Torn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(count: u32) -> Vec<Change> {
        let line = |number: u32| {
            Change::Words((BlockNo(number), 7), 1 << (number % 8), {
                let mut line = [0; LINE];
                line[number as usize % 8 * WORD] = 1 + number as u8;
                line
            })
        };
        let mut all: Vec<Change> = (0..count).map(line).collect();
        all.push(Change::Revoked(BlockNo(4)));
        all
    }

    #[test]
    fn a_group_is_read_as_it_was_written_and_any_damage_is_told() {
        let changes = changes(9);
        let (bytes, count) = encode(&changes, PAGE_END, (3, 8)).unwrap();
        assert_eq!(count, 10);
        let found = decode(&bytes, 3).unwrap();
        assert_eq!(
            (found.batch, found.changes, found.size),
            (8, changes, bytes.len())
        );
        assert!(decode(&bytes, 4).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&broken, 3).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_group_takes_what_finds_room() {
        let changes = changes(9);
        assert!(encode(&changes, HEAD + CHANGE + WORD - 1, (0, 0)).is_none());
        let (bytes, count) = encode(&changes, HEAD + 3 * (CHANGE + WORD) - 1, (0, 0)).unwrap();
        assert_eq!((bytes.len(), count), (HEAD + 2 * (CHANGE + WORD), 2));
    }

    #[test]
    fn words_that_differ_are_told() {
        let (one, mut other) = ([1; LINE], [1; LINE]);
        assert_eq!(differing(&one, &other), 0);
        (other[0], other[63]) = (2, 2);
        assert_eq!(differing(&one, &other), 0b1000_0001);
    }

    #[test]
    fn a_link_leads_to_the_next_page() {
        assert_eq!(linked(&link(0, 4000, 2), 2), Ok((0, 4000)));
        assert_eq!(linked(&link(0, 4000, 2), 3), Err(Torn));
        assert_eq!(linked(&[0; LINE], 0), Err(Torn));
    }
}
