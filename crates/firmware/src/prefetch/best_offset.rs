//! Best offset: the one distance at which most pages would have come in time.
//!
//! A table remembers from which pages a fetch begun would have ended by now: when a page comes, the
//! page one offset before it is entered (or, while nothing is fetched ahead, the page itself). Each
//! trigger tests one candidate offset *d*: is the page *d* before it in the table? When a candidate
//! has scored [`MOST_SCORE`] or every one was tested [`MOST_ROUNDS`] times, the best becomes the
//! offset; if even that scored next to nothing, fetching ahead pauses for a phase.
//!
//! The published algorithm works on lines within a page, with offsets to 256 and fetches on a miss
//! and on the first use of a line fetched ahead; ours works on pages with offsets to 64, and
//! fetches on first uses if `ssd.prefetch.on_first_use` says so.
//!
//! Source: P. Michaud, "Best-Offset Hardware Prefetching", HPCA 2016, §4.

use super::{Plan, Prefetcher, Trigger};
use alloc::vec;
use alloc::vec::Vec;
use units::Lpa;

/// Numbers to 64 without prime factors beyond 5, as published.
const OFFSETS: [u8; 27] = [
    1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 16, 18, 20, 24, 25, 27, 30, 32, 36, 40, 45, 48, 50, 54, 60,
    64,
];
/// SCOREMAX, ROUNDMAX and BADSCORE of the source.
const MOST_SCORE: u8 = 31;
const MOST_ROUNDS: u8 = 100;
const BAD_SCORE: u8 = 1;
/// Entries of the table of recent requests, direct mapped.
const RECENT: usize = 256;

/// The prefetcher.
#[derive(Clone)]
pub struct BestOffset {
    /// Pages + 1; 0 = empty.
    recent: Vec<u64>,
    scores: [u8; OFFSETS.len()],
    /// The candidate that the next trigger tests, and how often all have been tested.
    candidate: usize,
    rounds: u8,
    /// In force; 0 = nothing is fetched ahead.
    offset: u8,
}

impl BestOffset {
    /// Begins with the next page.
    pub fn new() -> Self {
        Self {
            recent: vec![0; RECENT],
            scores: [0; OFFSETS.len()],
            candidate: 0,
            rounds: 0,
            offset: 1,
        }
    }

    fn place(page: u64) -> usize {
        ((page ^ page >> 8) % RECENT as u64) as usize
    }

    /// Tests the next candidate against the page, and ends the phase when enough is known.
    fn test_candidate(&mut self, page: u64) {
        let before = page.checked_sub(OFFSETS[self.candidate].into());
        let is_hit = before.is_some_and(|before| self.recent[Self::place(before)] == before + 1);
        let score = &mut self.scores[self.candidate];
        *score += u8::from(is_hit);
        let is_best = *score >= MOST_SCORE;
        self.candidate = (self.candidate + 1) % OFFSETS.len();
        self.rounds += u8::from(self.candidate == 0);
        if is_best || self.rounds >= MOST_ROUNDS {
            self.end_phase();
        }
    }

    fn end_phase(&mut self) {
        let mut best = (BAD_SCORE, 0);
        for (score, offset) in self.scores.iter().zip(OFFSETS) {
            if *score > best.0 {
                best = (*score, offset);
            }
        }
        self.offset = best.1;
        self.scores = [0; OFFSETS.len()];
        (self.candidate, self.rounds) = (0, 0);
    }
}

impl Default for BestOffset {
    fn default() -> Self {
        Self::new()
    }
}

impl Prefetcher for BestOffset {
    fn learn(&mut self, trigger: Trigger) -> Plan {
        self.test_candidate(trigger.lpa.get());
        match self.offset {
            0 => Plan::Nothing,
            offset => Plan::Stride(offset.into()),
        }
    }

    fn on_fill(&mut self, lpa: Lpa, was_prefetched: bool) {
        let base = match self.offset {
            0 => Some(lpa.get()),
            offset if was_prefetched => lpa.get().checked_sub(offset.into()),
            _ => None,
        };
        if let Some(page) = base {
            self.recent[Self::place(page)] = page + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::miss;
    use super::*;

    /// Triggers come as given; what is fetched comes `delay` triggers later. Returns the last plan.
    fn replay(pages: impl Iterator<Item = u64>, delay: usize) -> Plan {
        let mut prefetcher = BestOffset::new();
        let mut on_the_way = alloc::collections::VecDeque::new();
        let mut plan = Plan::Nothing;
        for page in pages {
            plan = prefetcher.learn(miss(0, page));
            on_the_way.push_back(match plan {
                Plan::Stride(offset) => (page + offset as u64, true),
                _ => (page, false),
            });
            if on_the_way.len() > delay {
                let (page, was_prefetched) = on_the_way.pop_front().unwrap();
                prefetcher.on_fill(Lpa::new(page), was_prefetched);
            }
        }
        plan
    }

    #[test]
    fn the_offset_grows_until_pages_come_in_time() {
        let walk = || (0..20_000).map(|step| 1000 + 3 * step);
        assert_eq!(replay(walk(), 0), Plan::Stride(3));
        // A fetch takes as long as four more triggers: 12 pages ahead is too late, 15 in time.
        assert_eq!(replay(walk(), 4), Plan::Stride(15));
    }

    #[test]
    fn a_backward_walk_is_not_caught_and_fetching_ahead_pauses() {
        assert_eq!(replay((0..20_000).rev(), 0), Plan::Nothing);
    }
}
