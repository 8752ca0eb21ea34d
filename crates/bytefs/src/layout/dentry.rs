//! Names in directories: entries of 64 to 320 bytes in buckets by hash (§4.5).
//!
//! A directory is a file of buckets by linear hashing: bucket `b` is its page `b`, and blocks
//! behind full buckets are pages from [`OVERFLOW`] on. The first line of a block says which block
//! is behind it. Buckets are gone through in the order of reversed hashes, which stays when one is
//! split.

use super::{LINE, Torn, get_u16, get_u32, put_u16, put_u32, sum};
use crate::{FileKind, Ino};

/// Longest name.
pub const NAME_MOST: usize = 255;
/// Bytes before a name.
const HEAD: usize = 8;

/// What begins at a line of a directory's block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span<'a> {
    /// So many free lines.
    Free(usize),
    /// A name, and its lines.
    Entry(Entry<'a>, usize),
}

/// A name and what has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Which file.
    pub ino: Ino,
    /// Its kind.
    pub kind: FileKind,
    /// The name.
    pub name: &'a [u8],
}

/// Lines that an entry with such a name takes.
pub fn span_of(name: usize) -> usize {
    (HEAD + name).div_ceil(LINE)
}

impl<'a> Entry<'a> {
    /// As it is written: whole lines.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.resize(begin + span_of(self.name.len()) * LINE, 0);
        let entry = &mut out[begin..];
        put_u32(entry, 0, self.ino.0);
        entry[4] = (self.kind.mode() >> 12) as u8;
        entry[5] = self.name.len() as u8;
        entry[HEAD..HEAD + self.name.len()].copy_from_slice(self.name);
        let sum = head_sum(entry, self.name.len());
        put_u16(entry, 6, sum);
    }
}

/// The first line of so many free ones.
pub(crate) fn free_span(lines: usize) -> [u8; LINE] {
    let mut line = [0; LINE];
    if lines > 1 {
        line[5] = lines as u8;
        let sum = head_sum(&line, 0);
        put_u16(&mut line, 6, sum);
    }
    line
}

/// What begins at a line: `lines` are all from there to the block's end. An error if it is not
/// whole.
pub(crate) fn span_at(lines: &[u8]) -> Result<Span<'_>, Torn> {
    let ino = Ino(get_u32(lines, 0));
    let length = usize::from(lines[5]);
    if ino == Ino::NONE {
        if get_u16(lines, 6) != head_sum(lines, 0) || length * LINE > lines.len() {
            return Err(Torn);
        }
        return Ok(Span::Free(length.max(1)));
    }
    let span = span_of(length);
    if length == 0 || span * LINE > lines.len() || get_u16(lines, 6) != head_sum(lines, length) {
        return Err(Torn);
    }
    let kind = FileKind::of_mode(u16::from(lines[4]) << 12).ok_or(Torn)?;
    let name = &lines[HEAD..HEAD + length];
    Ok(Span::Entry(Entry { ino, kind, name }, span))
}

fn head_sum(entry: &[u8], name: usize) -> u16 {
    let mut head = [0; HEAD];
    head[..6].copy_from_slice(&entry[..6]);
    (sum(&head) ^ sum(&entry[HEAD..HEAD + name]).rotate_left(16)) as u16
}

/// The hash of a name; `seed` is the file system's.
pub fn hash(seed: u64, name: &[u8]) -> u64 {
    let mut hash = seed ^ 0xcbf2_9ce4_8422_2325;
    for byte in name {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // FNV alone leaves the low bits to the last bytes.
    hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ hash >> 32
}

/// The bucket of a hash among so many.
pub fn bucket_of(hash: u64, buckets: u32) -> u32 {
    let mask = u64::from(buckets.max(1).next_power_of_two()) - 1;
    let bucket = hash & mask;
    if bucket < u64::from(buckets.max(1)) {
        bucket as u32
    } else {
        (bucket & mask >> 1) as u32
    }
}

/// Bits of a place in a directory: what is left of an `off_t` beside "." and "..".
const COOKIE_BITS: u32 = 62;

/// Where a name stands in the order in which a directory is read.
pub fn cookie_of(hash: u64) -> u64 {
    hash.reverse_bits() >> (64 - COOKIE_BITS)
}

/// The bucket that holds what stands at a place, and the place behind all that it holds; none
/// behind the last.
pub fn next_cookie(cookie: u64, buckets: u32) -> (u32, Option<u64>) {
    let buckets = buckets.max(1);
    let hash = (cookie << (64 - COOKIE_BITS)).reverse_bits();
    let bucket = bucket_of(hash, buckets);
    let bits = buckets.next_power_of_two().trailing_zeros();
    // Buckets that were not split yet hold twice as much.
    let half = buckets.next_power_of_two() >> 1;
    let is_split = bits == 0 || bucket >= half || bucket + half < buckets;
    let bits = if is_split { bits } else { bits - 1 };
    let width = 1_u64 << (COOKIE_BITS - bits);
    let end = (cookie / width + 1) * width;
    (bucket, (end < 1 << COOKIE_BITS).then_some(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        for length in [1, 55, 56, 57, 120, 255] {
            let name = vec![b'n'; length];
            let entry = Entry {
                ino: Ino(5),
                kind: FileKind::Symlink,
                name: &name,
            };
            let mut lines = Vec::new();
            entry.encode(&mut lines);
            assert_eq!(lines.len(), span_of(length) * LINE);
            let span = Span::Entry(entry, span_of(length));
            assert_eq!(span_at(&lines), Ok(span));
            for bit in 0..(HEAD + length) * 8 {
                let mut broken = lines.clone();
                broken[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(span_at(&broken), Ok(span), "bit {bit}");
            }
        }
        assert_eq!(span_at(&[0; 64]), Ok(Span::Free(1)));
        let mut lines = [0; 192];
        lines[..64].copy_from_slice(&free_span(3));
        assert_eq!(span_at(&lines), Ok(Span::Free(3)));
        assert_eq!(span_at(&lines[..128]), Err(Torn));
    }

    #[test]
    fn places_go_through_every_bucket_once_and_hold_what_hashes_there() {
        for buckets in 1..70 {
            let mut seen = vec![false; buckets as usize];
            let mut cookie = 0;
            loop {
                let (bucket, end) = next_cookie(cookie, buckets);
                assert!(!core::mem::replace(&mut seen[bucket as usize], true));
                for name in 0..200_u32 {
                    let hash = hash(3, &name.to_le_bytes());
                    let place = cookie_of(hash);
                    let is_within = place >= cookie && end.is_none_or(|end| place < end);
                    assert_eq!(is_within, bucket_of(hash, buckets) == bucket, "{buckets}");
                }
                match end {
                    Some(end) => cookie = end,
                    None => break,
                }
            }
            assert!(seen.iter().all(|seen| *seen));
        }
    }
}
