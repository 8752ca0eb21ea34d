//! Random numbers as TPC-C wants them (clauses 2.1.5, 2.1.6, 4.3.2).

use crate::random::{below, hash};

/// A sequence of draws.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    key: u64,
    drawn: u64,
}

/// Parts of last names, by digit.
const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];

/// The constants C of the non-uniform draws, for a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constants {
    customer: u32,
    item: u32,
    /// For last names: of the load and of the run, 65 to 119 apart, but not 96 or 112.
    loaded_name: u32,
    name: u32,
}

impl Constants {
    pub(super) fn new(seed: u64) -> Self {
        let mut draws = Draws::new(seed, 0);
        let loaded_name = draws.between(0, 127);
        Self {
            customer: draws.between(0, 1_023),
            item: draws.between(0, 8_191),
            loaded_name,
            name: loaded_name + 88,
        }
    }
}

impl Draws {
    pub(super) fn new(key: u64, index: u64) -> Self {
        Self {
            key: hash(key, index),
            drawn: 0,
        }
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.drawn += 1;
        hash(self.key, self.drawn)
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + below(self.bits(), u64::from(high - low) + 1) as u32
    }

    /// True `percent` times in a hundred.
    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.between(1, 100) <= percent
    }

    /// NURand(a, low, high) with constant C (clause 2.1.6).
    fn skewed(&mut self, a: u32, low: u32, high: u32, c: u32) -> u32 {
        let both = self.between(0, a) | self.between(low, high);
        (both + c) % (high - low + 1) + low
    }

    pub(super) fn customer(&mut self, constants: &Constants) -> u32 {
        self.skewed(1_023, 1, super::schema::CUSTOMERS, constants.customer)
    }

    pub(super) fn item(&mut self, constants: &Constants) -> u32 {
        self.skewed(8_191, 1, super::schema::ITEMS, constants.item)
    }

    pub(super) fn name(&mut self, constants: &Constants) -> u32 {
        self.skewed(255, 0, 999, constants.name)
    }

    pub(super) fn loaded_name(&mut self, constants: &Constants) -> u32 {
        self.skewed(255, 0, 999, constants.loaded_name)
    }

    /// The numbers from 1 to `count` in random order.
    pub(super) fn permutation(&mut self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<_> = (1..=count).collect();
        for place in (1..numbers.len()).rev() {
            let other = below(self.bits(), place as u64 + 1) as usize;
            numbers.swap(place, other);
        }
        numbers
    }
}

/// Writes the last name of a number below 1,000 (clause 4.3.2.3).
pub(super) fn write_name(text: &mut [u8], number: u32) {
    text.fill(0);
    let mut end = 0;
    for digit in [number / 100, number / 10 % 10, number % 10] {
        let syllable = SYLLABLES[digit as usize].as_bytes();
        text[end..end + syllable.len()].copy_from_slice(syllable);
        end += syllable.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_syllables() {
        let mut text = [1; 16];
        write_name(&mut text, 371);
        assert_eq!(&text, b"PRICALLYOUGHT\0\0\0");
    }

    #[test]
    fn a_permutation_has_every_number_once() {
        let mut numbers = Draws::new(1, 2).permutation(3_000);
        assert!(!numbers.is_sorted());
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=3_000));
    }

    #[test]
    fn skewed_draws_stay_in_bounds_and_prefer_some() {
        let (constants, mut draws) = (Constants::new(5), Draws::new(6, 0));
        let mut counts = vec![0_u32; 3_001];
        for _ in 0..300_000 {
            counts[draws.customer(&constants) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        counts.sort_unstable();
        assert!(
            counts[2_900] > 5 * counts[500].max(1),
            "{} {}",
            counts[2_900],
            counts[500]
        );
    }
}
