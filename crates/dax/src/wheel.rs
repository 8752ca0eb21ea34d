//! A timer wheel of counts: each ends after the same delay, and those that one range has got within
//! a slot end together.
//!
//! What ends in a slot is a list of blocks of records, and blocks are used again: a count takes no
//! memory of its own, and a range at most one record for each slot. All records of a block are of
//! one slot, and which one that is stands in a table by itself: a range's newest record is looked
//! at only if it is of the slot that is being filled, for an older one is in no cache any more.

use alloc::vec::Vec;
use units::{Picos, Time};

/// Slots of one delay.
const SLOTS_OF_DELAY: u64 = 32;
/// Slots whose counts are alive: those of a delay, and the one that is being filled.
const SLOTS: usize = SLOTS_OF_DELAY as usize + 1;
/// Records of a block: with its head it takes four cache lines.
const RECORDS: usize = 31;
/// A record's place is that of its block and its own within.
const PLACES: u32 = RECORDS as u32 + 1;

/// No record, block or range.
const NONE: u32 = u32::MAX;

/// Counts of one range within one slot.
#[derive(Clone, Copy)]
struct Record {
    range: u32,
    count: u32,
}

const EMPTY: Record = Record {
    range: NONE,
    count: 0,
};

#[derive(Clone)]
struct Block {
    records: [Record; RECORDS],
    len: u32,
    next: u32,
}

const _: () = assert!(size_of::<Block>() == 256);

/// Where a range's newest record is, as far as the range knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u32);

impl Place {
    pub const NOWHERE: Self = Self(NONE);
}

pub(crate) struct Wheel {
    /// What one slot takes.
    slot: Picos,
    /// First blocks of the lists of slots alive: what is in slot `n` is in list `n % SLOTS`.
    lists: [u32; SLOTS],
    blocks: Vec<Block>,
    /// Of each block: the number of its slot, as far as that tells slots alive apart.
    stamps: Vec<u16>,
    free: u32,
    /// The slot that is being filled, its list, and when it ends.
    number: u64,
    list: usize,
    end: Time,
    /// Records in lists.
    records: usize,
    /// What is ending now.
    expired: u32,
}

impl Wheel {
    /// A wheel of counts that end not before a delay, and at most a 32nd of it later. The delay is
    /// rounded up to 32 ps.
    pub fn new(delay: Picos) -> Self {
        let slot = Picos::new(delay.get().div_ceil(SLOTS_OF_DELAY).max(1));
        Self {
            slot,
            lists: [NONE; SLOTS],
            blocks: Vec::new(),
            stamps: Vec::new(),
            free: NONE,
            number: 0,
            list: 0,
            end: Time::from_picos(slot.get()),
            records: 0,
            expired: NONE,
        }
    }

    /// When something may end next: before it there is nothing to do.
    #[inline]
    pub const fn end(&self) -> Time {
        self.end
    }

    /// Counts something of a range whose newest record is at `place`, and says where it is now. A
    /// range has less than 2^32 counts.
    #[inline]
    pub fn count(&mut self, range: u32, count: u32, place: Place) -> Place {
        let (block, at) = (place.0 / PLACES, place.0 % PLACES);
        // A block that is free has the stamp of its last slot.
        if self.stamps.get(block as usize) == Some(&self.stamp())
            && let Some(block) = self.blocks.get_mut(block as usize)
            && let Some(record) = block.records.get_mut(at as usize)
            && record.range == range
        {
            record.count += count;
            return place;
        }
        self.add(range, count)
    }

    const fn stamp(&self) -> u16 {
        self.number as u16
    }

    #[inline]
    fn add(&mut self, range: u32, count: u32) -> Place {
        let first = self.lists[self.list];
        let block = match self.blocks.get(first as usize) {
            Some(block) if (block.len as usize) < RECORDS => first,
            _ => self.begin_block(first),
        };
        let into = &mut self.blocks[block as usize];
        into.records[into.len as usize] = Record { range, count };
        let place = Place(block * PLACES + into.len);
        into.len += 1;
        self.records += 1;
        place
    }

    #[cold]
    fn begin_block(&mut self, next: u32) -> u32 {
        let block = match self.blocks.get(self.free as usize) {
            Some(block) => core::mem::replace(&mut self.free, block.next),
            None => {
                self.blocks.push(Block {
                    records: [EMPTY; RECORDS],
                    len: 0,
                    next: NONE,
                });
                self.stamps.push(0);
                self.blocks.len() as u32 - 1
            }
        };
        self.stamps[block as usize] = self.stamp();
        self.blocks[block as usize].next = next;
        self.lists[self.list] = block;
        block
    }

    /// Begins the slot behind the one that is being filled, if it has begun. What ends then is
    /// fetched before it is called again.
    pub fn turn(&mut self, now: Time) -> bool {
        debug_assert_eq!(self.expired, NONE);
        if now < self.end {
            return false;
        }
        // Where nothing is alive, slots without counts are passed over.
        self.number = match self.records {
            0 => now.as_picos() / self.slot.get(),
            _ => self.number + 1,
        };
        let end = (self.number + 1).checked_mul(self.slot.get());
        self.end = Time::from_picos(end.unwrap_or(u64::MAX));
        self.list = (self.number % SLOTS as u64) as usize;
        self.expired = core::mem::replace(&mut self.lists[self.list], NONE);
        true
    }

    /// The next counts that end: whose, and how many.
    #[inline]
    pub fn take_expired(&mut self) -> Option<(u32, u32)> {
        loop {
            let at = self.expired;
            let block = self.blocks.get_mut(at as usize)?;
            if block.len > 0 {
                block.len -= 1;
                self.records -= 1;
                // The range may believe that its newest record is here.
                let record = &mut block.records[block.len as usize];
                let ended = core::mem::replace(record, EMPTY);
                return Some((ended.range, ended.count));
            }
            self.expired = core::mem::replace(&mut block.next, self.free);
            self.free = at;
        }
    }

    /// Records in use, and bytes that are held for them.
    pub fn memory(&self) -> (usize, usize) {
        let stamps = self.stamps.capacity() * size_of::<u16>();
        (
            self.records,
            self.blocks.capacity() * size_of::<Block>() + stamps,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Picos = Picos::new(3200);

    fn turned(wheel: &mut Wheel, now: u64) -> u32 {
        let mut ended = 0;
        while wheel.turn(Time::from_picos(now)) {
            while let Some((_, count)) = wheel.take_expired() {
                ended += count;
            }
        }
        ended
    }

    #[test]
    fn a_count_ends_behind_its_delay_and_within_a_slot() {
        for made in [0, 1, 99, 100, 101, 3200, 12_345] {
            let mut wheel = Wheel::new(DELAY);
            turned(&mut wheel, made);
            wheel.count(7, 1, Place::NOWHERE);
            assert_eq!(turned(&mut wheel, made + 3199), 0, "made at {made}");
            assert_eq!(turned(&mut wheel, made + 3300), 1, "made at {made}");
        }
    }

    #[test]
    fn counts_of_a_range_within_a_slot_share_a_record() {
        let mut wheel = Wheel::new(DELAY);
        let mut place = Place::NOWHERE;
        for _ in 0..1000 {
            place = wheel.count(7, 3, place);
        }
        assert_eq!(wheel.memory().0, 1);
        turned(&mut wheel, 100);
        place = wheel.count(7, 1, place);
        assert_eq!(wheel.memory().0, 2);
        // Of another range that has its place by mistake.
        wheel.count(8, 1, place);
        assert_eq!(wheel.memory().0, 3);
        assert_eq!(turned(&mut wheel, 1 << 40), 3002);
        assert_eq!(wheel.memory().0, 0);
    }

    #[test]
    fn blocks_are_used_again() {
        let mut wheel = Wheel::new(DELAY);
        for round in 0..100 {
            for range in 0..500 {
                wheel.count(range, 1, Place::NOWHERE);
            }
            turned(&mut wheel, (round + 1) * 3300);
        }
        let (_, bytes) = wheel.memory();
        assert!(bytes <= 2 * 64 * 258, "{bytes} bytes for 1000 records");
    }
}
