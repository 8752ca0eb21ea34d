//! A ring of entries with one writer and one reader, and the bell of its reader.
//!
//! No index is shared. An entry says in its first word in which turn of the ring it was written;
//! the reader knows which turn is due. So one line of the host's caches goes from writer to reader
//! for a request, and there is no index that a hostile process could set.
//!
//! The ring never fills: the client has at most [`ENTRIES`] requests under way, an answered request
//! has been read, and a collected answer makes room for a request.

use crate::breach::Breach;
use crate::layout::{ENTRIES, ENTRY_WORDS, Layout, Side};
use crate::region::Region;
use std::sync::atomic::{Ordering, fence};

/// An entry without its turn. The turn goes into the low half of the first word.
pub type Words = [u64; ENTRY_WORDS];

const TURN: u64 = u32::MAX as u64;

/// Which ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ring {
    /// Requests, from client to server.
    Submissions,
    /// Answers, from server to client.
    Answers,
}

impl Ring {
    const fn begin(self) -> usize {
        match self {
            Self::Submissions => Layout::submissions(),
            Self::Answers => Layout::answers(),
        }
    }
}

/// A place in a ring: which entry, and in which turn it is written next.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    begin: usize,
    count: u64,
}

impl Cursor {
    const fn new(ring: Ring) -> Self {
        Self {
            begin: ring.begin(),
            count: 0,
        }
    }

    #[inline]
    const fn place(&self) -> usize {
        self.begin + (self.count as usize % ENTRIES) * (ENTRY_WORDS * 8)
    }

    /// Memory begins with zeroes: the first turn is 1. Turns have 32 bits and go round.
    #[inline]
    const fn turn(&self) -> u32 {
        ((self.count / ENTRIES as u64) as u32).wrapping_add(1)
    }
}

/// Who writes into a ring.
#[derive(Clone, Debug)]
pub struct Writer(Cursor);

impl Writer {
    /// Of a ring in which nothing was written.
    pub const fn new(ring: Ring) -> Self {
        Self(Cursor::new(ring))
    }

    /// Writes the next entry. The low half of the first word is the ring's.
    #[inline]
    pub fn push(&mut self, region: &Region, words: Words) {
        let place = self.0.place();
        for (index, word) in words.iter().enumerate().skip(1) {
            let to = region.word(place + index * 8);
            to.store(word.to_le(), Ordering::Relaxed);
        }
        let first = words[0] & !TURN | u64::from(self.0.turn());
        region.word(place).store(first.to_le(), Ordering::Release);
        self.0.count += 1;
    }
}

/// Who reads from a ring.
#[derive(Clone, Debug)]
pub struct Reader(Cursor);

impl Reader {
    /// Of a ring in which nothing was written.
    pub const fn new(ring: Ring) -> Self {
        Self(Cursor::new(ring))
    }

    /// The next entry, if it is there; each word is read once.
    ///
    /// # Errors
    /// An entry of a turn that it cannot have.
    #[inline]
    pub fn pop(&mut self, region: &Region) -> Result<Option<Words>, Breach> {
        let place = self.0.place();
        let first = u64::from_le(region.word(place).load(Ordering::Acquire));
        let (found, due) = ((first & TURN) as u32, self.0.turn());
        if found != due {
            let is_old = found == due.wrapping_sub(1);
            return match is_old {
                true => Ok(None),
                false => Err(Breach::Turn { found, due }),
            };
        }
        let mut words = [first & !TURN; ENTRY_WORDS];
        for (index, word) in words.iter_mut().enumerate().skip(1) {
            let from = region.word(place + index * 8);
            *word = u64::from_le(from.load(Ordering::Relaxed));
        }
        self.0.count += 1;
        Ok(Some(words))
    }
}

/// Says that a side is about to sleep. It looks at its ring once more before it does: either it
/// finds what was written, or who writes finds that it sleeps.
pub fn announce_sleep(region: &Region, side: Side) {
    region.word(side.sleeps()).store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// Says that a side is awake.
pub fn announce_awake(region: &Region, side: Side) {
    region.word(side.sleeps()).store(0, Ordering::Relaxed);
}

/// Whether a side sleeps and nobody has rung since it announced that. To be asked after something
/// was written for it; the answer is yes once.
#[inline]
pub fn must_ring(region: &Region, side: Side) -> bool {
    let word = region.word(side.sleeps());
    fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::Relaxed) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::memory;

    #[test]
    fn entries_come_in_order_each_once_turn_after_turn() {
        let region = memory(Layout::least_bytes()).unwrap().1;
        let mut writer = Writer::new(Ring::Answers);
        let mut reader = Reader::new(Ring::Answers);
        assert_eq!(reader.pop(&region), Ok(None));
        for number in 0..1_000_u64 {
            writer.push(&region, [7 << 32, number, 0, 0, 0, 0, 0, !number]);
            let found = reader.pop(&region).unwrap().unwrap();
            assert_eq!(found, [7 << 32, number, 0, 0, 0, 0, 0, !number]);
            assert_eq!(reader.pop(&region), Ok(None));
        }
    }

    #[test]
    fn a_turn_that_was_not_due_is_a_breach() {
        let region = memory(Layout::least_bytes()).unwrap().1;
        let mut reader = Reader::new(Ring::Submissions);
        for wrong in [2, 3, u32::MAX] {
            let word = region.word(Layout::submissions());
            word.store(u64::from(wrong), Ordering::Release);
            let found = reader.pop(&region);
            assert_eq!(
                found,
                Err(Breach::Turn {
                    found: wrong,
                    due: 1
                })
            );
        }
    }

    #[test]
    fn turns_go_round() {
        let region = memory(Layout::least_bytes()).unwrap().1;
        let last = u64::from(u32::MAX) * ENTRIES as u64 - 1;
        let mut writer = Writer::new(Ring::Answers);
        let mut reader = Reader::new(Ring::Answers);
        (writer.0.count, reader.0.count) = (last, last);
        let place = |count: u64| Layout::answers() + (count as usize % ENTRIES) * ENTRY_WORDS * 8;
        let before = reader.0.turn() - 1;
        region
            .word(place(last))
            .store(u64::from(before), Ordering::Relaxed);
        for entry in 0..3 {
            let old = if entry == 0 { before } else { u32::MAX };
            region
                .word(reader.0.place())
                .store(u64::from(old), Ordering::Relaxed);
            assert_eq!(reader.pop(&region), Ok(None));
            writer.push(&region, [0, entry, 0, 0, 0, 0, 0, 0]);
            assert_eq!(reader.pop(&region).unwrap().unwrap()[1], entry);
        }
        assert_eq!(reader.0.turn(), 0);
    }

    #[test]
    fn a_sleeper_is_rung_once() {
        let region = memory(Layout::least_bytes()).unwrap().1;
        assert!(!must_ring(&region, Side::Server));
        announce_sleep(&region, Side::Server);
        assert!(!must_ring(&region, Side::Client));
        assert!(must_ring(&region, Side::Server));
        assert!(!must_ring(&region, Side::Server));
        announce_sleep(&region, Side::Server);
        announce_awake(&region, Side::Server);
        assert!(!must_ring(&region, Side::Server));
    }
}
