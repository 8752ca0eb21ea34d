//! Which slot holds the row with this key: open addressing, linear probing.
//!
//! Removing shifts later entries back, so that a search ends at the first hole. At least a quarter
//! of the entries is empty.

use super::Slot;

const EMPTY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    slot: u32,
}

const HOLE: Entry = Entry {
    key: 0,
    slot: EMPTY,
};

/// A map from unique keys to slots.
#[derive(Clone, Debug)]
pub struct HashIndex {
    entries: Vec<Entry>,
    shift: u32,
    used: usize,
}

impl HashIndex {
    /// An empty index with room for `keys` keys before it grows.
    #[must_use]
    pub fn with_room(keys: usize) -> Self {
        let count = (keys + keys / 3 + 1).next_power_of_two().max(4);
        Self {
            entries: vec![HOLE; count],
            shift: u64::BITS - count.trailing_zeros(),
            used: 0,
        }
    }

    /// How many keys it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Fibonacci hashing: the upper bits of the key times 2⁶⁴ ÷ golden ratio.
    #[inline]
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    #[inline]
    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.entries.len() - 1)
    }

    /// The entry with this key, or the hole where it would stand.
    #[inline]
    fn find(&self, key: u64) -> usize {
        let mut place = self.home(key);
        loop {
            let entry = self.entries[place];
            if entry.slot == EMPTY || entry.key == key {
                return place;
            }
            place = self.next(place);
        }
    }

    /// The slot under this key.
    #[inline]
    #[must_use]
    pub fn get(&self, key: u64) -> Option<Slot> {
        let slot = self.entries[self.find(key)].slot;
        (slot != EMPTY).then(|| Slot::new(slot))
    }

    /// Adds a key that is not there.
    pub fn insert(&mut self, key: u64, slot: Slot) {
        if (self.used + 1) * 4 > self.entries.len() * 3 {
            self.grow();
        }
        let place = self.find(key);
        assert!(
            self.entries[place].slot == EMPTY,
            "key {key:#x} is in the index already"
        );
        self.entries[place] = Entry {
            key,
            slot: slot.get(),
        };
        self.used += 1;
    }

    fn grow(&mut self) {
        let mut larger = Self::with_room(self.entries.len());
        for entry in self.entries.iter().filter(|entry| entry.slot != EMPTY) {
            let place = larger.find(entry.key);
            larger.entries[place] = *entry;
        }
        larger.used = self.used;
        *self = larger;
    }

    /// Removes a key and says what stood under it.
    pub fn remove(&mut self, key: u64) -> Option<Slot> {
        let mut hole = self.find(key);
        let slot = self.entries[hole].slot;
        if slot == EMPTY {
            return None;
        }
        let mut place = self.next(hole);
        while self.entries[place].slot != EMPTY {
            let home = self.home(self.entries[place].key);
            let mask = self.entries.len() - 1;
            // An entry may move back to the hole if the hole is not before its home.
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(hole) & mask {
                self.entries[hole] = self.entries[place];
                hole = place;
            }
            place = self.next(place);
        }
        self.entries[hole] = HOLE;
        self.used -= 1;
        Some(Slot::new(slot))
    }

    /// Bytes of its entries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::hash;
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry::Vacant;

    #[test]
    fn it_does_what_a_map_does() {
        let (mut index, mut model) = (HashIndex::with_room(2), BTreeMap::new());
        for step in 0..40_000 {
            let (bits, key) = (hash(3, step), hash(4, step) % 500);
            if bits.is_multiple_of(2) {
                assert_eq!(index.remove(key), model.remove(&key), "step {step}");
            } else if let Vacant(place) = model.entry(key) {
                let slot = Slot::new((bits >> 40) as u32);
                index.insert(key, slot);
                place.insert(slot);
            }
            let other = hash(5, step) % 500;
            assert_eq!(index.get(other), model.get(&other).copied(), "step {step}");
            assert_eq!(index.len(), model.len());
        }
        for key in 0..500 {
            assert_eq!(index.get(key), model.get(&key).copied());
        }
    }

    #[test]
    #[should_panic(expected = "is in the index already")]
    fn a_key_stands_for_one_row() {
        let mut index = HashIndex::with_room(8);
        index.insert(5, Slot::new(1));
        index.insert(5, Slot::new(2));
    }
}
