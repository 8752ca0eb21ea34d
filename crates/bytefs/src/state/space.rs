//! Which blocks and inodes may be given out.

use std::ops::Range;

/// Numbers whose free ones are counted together.
const CHUNK: u32 = 1 << 15;

/// Numbers that are taken and free, and where each core looks next.
pub(crate) struct FreeMap {
    range: Range<u32>,
    taken: Vec<u64>,
    /// Free numbers of each chunk.
    chunks: Vec<u32>,
    free: u32,
    /// By core.
    hands: Vec<u32>,
}

impl FreeMap {
    /// Of these numbers all are free.
    pub fn new(range: Range<u32>, cores: u32) -> Self {
        let cores = cores.max(1);
        let length = range.end - range.start;
        let share = (length / cores).max(1);
        let hands = (0..cores).map(|core| range.start + core * share % length);
        let mut map = Self {
            hands: hands.collect(),
            taken: vec![0; range.end.div_ceil(64) as usize],
            chunks: vec![0; range.end.div_ceil(CHUNK) as usize],
            free: length,
            range: range.clone(),
        };
        for (chunk, free) in (0..).zip(&mut map.chunks) {
            let begin = (chunk * CHUNK).max(range.start);
            let end = ((chunk + 1) * CHUNK).min(range.end);
            *free = end.saturating_sub(begin);
        }
        map
    }

    /// How many are free.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.range.end - self.range.start
    }

    pub fn is_taken(&self, number: u32) -> bool {
        !self.range.contains(&number)
            || self.taken[(number / 64) as usize] >> (number % 64) & 1 == 1
    }

    /// Takes one that is free.
    pub fn take(&mut self, number: u32) {
        if !self.is_taken(number) {
            self.taken[(number / 64) as usize] |= 1 << (number % 64);
            self.chunks[(number / CHUNK) as usize] -= 1;
            self.free -= 1;
        }
    }

    /// Gives one back.
    pub fn give(&mut self, number: u32) {
        if self.range.contains(&number) && self.is_taken(number) {
            self.taken[(number / 64) as usize] &= !(1 << (number % 64));
            self.chunks[(number / CHUNK) as usize] += 1;
            self.free += 1;
        }
    }

    /// Takes a run of at most `most` from `near` on if that is free, or from where the core's last
    /// one ended; none if nothing is free.
    pub fn take_run(&mut self, near: Option<u32>, core: u32, most: u32) -> Option<Range<u32>> {
        let hand = core as usize % self.hands.len();
        let from = near.filter(|near| !self.is_taken(*near));
        let from = from.unwrap_or(self.hands[hand]);
        let begin = self.next_free(from..self.range.end);
        let begin = begin.or_else(|| self.next_free(self.range.start..from))?;
        let mut end = begin;
        while end - begin < most && !self.is_taken(end) {
            self.take(end);
            end += 1;
        }
        self.hands[hand] = if end < self.range.end {
            end
        } else {
            self.range.start
        };
        Some(begin..end)
    }

    fn next_free(&self, range: Range<u32>) -> Option<u32> {
        let mut number = range.start;
        while number < range.end {
            if number.is_multiple_of(CHUNK) && self.chunks[(number / CHUNK) as usize] == 0 {
                number += CHUNK;
                continue;
            }
            let word = !self.taken[(number / 64) as usize] >> (number % 64);
            if word == 0 {
                number = (number / 64 + 1) * 64;
                continue;
            }
            let found = number + word.trailing_zeros();
            return (found < range.end).then_some(found);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_given_once_and_runs_are_whole() {
        let mut map = FreeMap::new(37..100_000, 3);
        let mut seen = vec![false; 100_000];
        let mut core = 0;
        while let Some(run) = map.take_run(None, core, 1 + core % 700) {
            core += 1;
            assert!(!run.is_empty());
            for number in run {
                assert!(!core::mem::replace(&mut seen[number as usize], true));
            }
        }
        assert_eq!(seen.iter().filter(|seen| **seen).count() as u32, map.len());
        assert_eq!(map.free(), 0);
        map.give(5_000);
        map.give(5_001);
        assert_eq!(map.take_run(Some(60_000), 0, 9), Some(5_000..5_002));
        map.give(7_000);
        assert_eq!(map.take_run(Some(7_000), 1, 9), Some(7_000..7_001));
    }
}
