//! A timer wheel of counts: each ends after the same delay, and those that one range has got within
//! a slot end together.
//!
//! What ends in a slot is a list of blocks of records, and blocks are used again: a count takes no
//! memory of its own, and a range at most one record for each slot. A range keeps where its newest
//! record is, and of which slot that is: of an older one nothing is looked at, for it is in no
//! cache any more.

use alloc::vec::Vec;
use units::{Picos, Time};

/// Slots of one delay.
const SLOTS_OF_DELAY: u64 = 32;
/// Slots whose counts are alive: those of a delay, and the one that is being filled.
const SLOTS: usize = SLOTS_OF_DELAY as usize + 1;
/// Records of a block: with its head it takes four cache lines.
const RECORDS: usize = 31;
/// A record's number is that of its block and its own within.
const NUMBERS: usize = RECORDS + 1;
/// Of a place: the record's number. Above it is the slot's, as far as that tells slots alive apart.
const NUMBER_BITS: u32 = 26;
/// Records from here on have no place: each count there is a record of its own.
const PLACES: usize = (1 << NUMBER_BITS) - NUMBERS;

const _: () = assert!(SLOTS < 1 << (u32::BITS - NUMBER_BITS));

/// No block.
const NONE: u32 = u32::MAX;

/// Counts of one range within one slot.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub range: u32,
    pub count: u32,
}

const EMPTY: Record = Record {
    range: NONE,
    count: 0,
};

#[derive(Clone, Copy)]
struct Block {
    records: [Record; RECORDS],
    /// How many there are, once it is no more filled.
    len: u32,
    next: u32,
}

const _: () = assert!(size_of::<Block>() == 256);

/// Records that end now.
pub(crate) struct Expired(Block);

impl Expired {
    pub fn records(&self) -> &[Record] {
        &self.0.records[..self.0.len as usize]
    }
}

/// Where a range's newest record is, and of which slot. Who has no counts any more is nowhere: else
/// a slot may come that looks the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u32);

impl Place {
    /// No record has this number.
    pub const NOWHERE: Self = Self(u32::MAX);
}

#[cfg_attr(test, derive(Clone))]
pub(crate) struct Wheel {
    /// What one slot takes.
    slot: Picos,
    blocks: Vec<Block>,
    /// The number of the next record, if the block that is being filled has room for it.
    next: usize,
    /// The slot that is being filled, as places have it.
    stamp: u32,
    /// First blocks of the lists of slots alive: what is in slot `n` is in list `n % SLOTS`.
    lists: [u32; SLOTS],
    free: u32,
    /// The slot that is being filled, its list, and when it ends.
    number: u64,
    list: usize,
    end: Time,
    /// Records in lists, but for those of the block that is being filled.
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
            blocks: Vec::new(),
            next: RECORDS,
            stamp: 0,
            lists: [NONE; SLOTS],
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
        let number = (place.0 ^ self.stamp) as usize;
        if number < PLACES
            && let Some(block) = self.blocks.get_mut(number / NUMBERS)
            && let Some(record) = block.records.get_mut(number % NUMBERS)
        {
            debug_assert_eq!(record.range, range);
            record.count += count;
            return place;
        }
        self.add(range, count)
    }

    #[inline]
    fn add(&mut self, range: u32, count: u32) -> Place {
        if self.next % NUMBERS == RECORDS {
            self.begin_block();
        }
        let number = self.next;
        self.blocks[number / NUMBERS].records[number % NUMBERS] = Record { range, count };
        self.next += 1;
        match number < PLACES {
            true => Place(number as u32 | self.stamp),
            false => Place::NOWHERE,
        }
    }

    #[cold]
    fn begin_block(&mut self) {
        self.end_block();
        let block = match self.blocks.get(self.free as usize) {
            Some(block) => core::mem::replace(&mut self.free, block.next),
            None => {
                self.blocks.push(Block {
                    records: [EMPTY; RECORDS],
                    len: 0,
                    next: NONE,
                });
                self.blocks.len() as u32 - 1
            }
        };
        let first = &mut self.lists[self.list];
        self.blocks[block as usize].next = core::mem::replace(first, block);
        self.next = block as usize * NUMBERS;
    }

    /// The block that is being filled gets no more.
    fn end_block(&mut self) {
        let first = self.lists[self.list];
        if let Some(block) = self.blocks.get_mut(first as usize) {
            block.len = (self.next % NUMBERS) as u32;
            self.records += self.next % NUMBERS;
        }
        self.next = RECORDS;
    }

    /// Begins the slot behind the one that is being filled, if it has begun. What ends then is
    /// fetched before it is called again.
    pub fn turn(&mut self, now: Time) -> bool {
        debug_assert_eq!(self.expired, NONE);
        if now < self.end {
            return false;
        }
        self.end_block();
        // Where nothing is alive, slots without counts are passed over.
        self.number = match self.records {
            0 => now.as_picos() / self.slot.get(),
            _ => self.number + 1,
        };
        let end = (self.number + 1).checked_mul(self.slot.get());
        self.end = Time::from_picos(end.unwrap_or(u64::MAX));
        self.stamp = (self.number as u32) << NUMBER_BITS;
        self.list = (self.number % SLOTS as u64) as usize;
        self.expired = core::mem::replace(&mut self.lists[self.list], NONE);
        true
    }

    /// The next counts that end.
    #[inline]
    pub fn take_expired(&mut self) -> Option<Expired> {
        let at = self.expired;
        let block = self.blocks.get_mut(at as usize)?;
        let ended = Expired(*block);
        self.records -= block.len as usize;
        self.expired = core::mem::replace(&mut block.next, self.free);
        self.free = at;
        Some(ended)
    }

    /// Records in use, and bytes that are held for them.
    pub fn memory(&self) -> (usize, usize) {
        let is_filling = self.lists[self.list] != NONE;
        let filled = if is_filling { self.next % NUMBERS } else { 0 };
        (
            self.records + filled,
            self.blocks.capacity() * size_of::<Block>(),
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
            while let Some(expired) = wheel.take_expired() {
                ended += expired.records().iter().map(|of| of.count).sum::<u32>();
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
        assert_ne!(wheel.count(7, 1, place), place);
        assert_eq!(wheel.memory().0, 2);
        wheel.count(8, 1, Place::NOWHERE);
        assert_eq!(wheel.memory().0, 3);
        assert_eq!(turned(&mut wheel, 1 << 40), 3002);
        assert_eq!(wheel.memory().0, 0);
    }

    #[test]
    fn a_place_is_of_its_slot_alone_as_long_as_its_counts_live() {
        let mut wheel = Wheel::new(DELAY);
        // Blocks that are full, and used again in slots with each stamp.
        for slot in 0..200 {
            turned(&mut wheel, slot * 100);
            let places: Vec<Place> = (0..70)
                .map(|at| wheel.count(at, 1, Place::NOWHERE))
                .collect();
            assert_eq!(wheel.memory().0, 70 * (slot as usize + 1).min(33));
            for later in 1..=32 {
                let mut after = wheel.clone();
                turned(&mut after, (slot + later) * 100);
                let before = after.memory().0;
                after.count(3, 1, places[3]);
                assert_eq!(after.memory().0, before + 1, "slot {slot}, {later} later");
            }
            wheel.count(3, 1, places[3]);
            wheel.count(69, 1, places[69]);
            assert_eq!(wheel.memory().0, 70 * (slot as usize + 1).min(33));
        }
        // With every stamp nowhere is nowhere.
        for slot in 200..264 {
            turned(&mut wheel, slot * 100);
            let before = wheel.memory().0;
            wheel.count(3, 1, Place::NOWHERE);
            assert_eq!(wheel.memory().0, before + 1);
        }
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
