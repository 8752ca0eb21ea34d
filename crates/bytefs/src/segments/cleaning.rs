//! Which segment is cleaned (F2FS §2.6).

use super::Segments;

/// How a victim is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    /// That with the fewest valid blocks: somebody waits for room.
    Greedy,
    /// That with the most room for its cost, and the older the better: nobody waits.
    CostBenefit,
}

impl Segments {
    /// Chooses a segment and says what is to move out of it: numbers and places. None: none would
    /// give room.
    pub fn begin_cleaning(&mut self, policy: Policy) -> Option<Vec<(u32, u32)>> {
        let size = u64::from(self.layout.blocks);
        let now = self.version;
        let candidates = self.segments.iter().enumerate().filter(|(_, segment)| {
            !segment.is_free
                && !segment.is_open
                && segment.busy == 0
                && (1..size).contains(&u64::from(segment.valid))
        });
        let worth = |segment: &super::Segment| {
            let valid = u64::from(segment.valid);
            match policy {
                Policy::Greedy => size - valid,
                // (1 - u) x age / (1 + u), LFS as F2FS takes it.
                Policy::CostBenefit => {
                    let age = 1 + now - segment.written.min(now);
                    (size - valid) * age * 1024 / (size + valid)
                }
            }
        };
        let best =
            candidates.max_by_key(|(index, segment)| (worth(segment), core::cmp::Reverse(*index)));
        let (victim, _) = best?;
        self.victim = Some(victim);
        let first = self.layout.first_of(victim);
        let places = first..first + self.layout.blocks;
        let owner = |place: u32| self.owners[(place - self.layout.main.start) as usize];
        let valid = places.map(|place| (owner(place), place));
        Some(valid.filter(|(number, _)| *number != 0).collect())
    }

    /// A segment was cleaned, or given up.
    pub fn end_cleaning(&mut self, blocks: u64) {
        self.victim = None;
        self.cleaned += 1;
        self.relocated += blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Personality, Superblock};
    use crate::segments::Log;

    fn segments() -> Segments {
        let superblock = Superblock {
            blocks: 4096,
            inodes: 64,
            journal: 0,
            personality: Personality::F2fsLike,
            is_clean: true,
            is_repairing: false,
            mounts: 0,
            uuid: [0; 16],
            created: crate::Timestamp(0),
            checkpoint: 0,
        };
        let geometry = superblock.geometry().unwrap();
        let layout = geometry.segments.clone().unwrap();
        Segments::new(&geometry, &layout)
    }

    /// Fills a segment and leaves so many blocks of it valid.
    fn fill(segments: &mut Segments, number: u32, valid: u32) -> usize {
        let size = segments.layout.blocks;
        let run = segments.take(Log::WarmData, size).unwrap();
        for (number, place) in (number..).zip(run.clone()) {
            segments.set(number, place);
        }
        segments.settle(run.clone());
        (number + valid..number + size).for_each(|number| segments.unset(number));
        segments.layout.segment_of(run.start)
    }

    #[test]
    fn greedy_takes_the_emptiest_and_cost_benefit_an_older_one() {
        let mut segments = segments();
        let old = fill(&mut segments, 1_000, 4);
        segments.version = 50;
        let new = fill(&mut segments, 2_000, 3);
        let victims = [(Policy::Greedy, new), (Policy::CostBenefit, old)];
        for (policy, wanted) in victims {
            let valid = segments.begin_cleaning(policy).unwrap();
            assert_eq!(segments.victim, Some(wanted), "{policy:?}");
            assert_eq!(valid.len() as u32, segments.segments[wanted].valid);
            assert!(!segments.may_overwrite(valid[0].1));
            segments.end_cleaning(0);
        }
    }

    #[test]
    fn a_segment_is_free_when_a_checkpoint_says_that_nothing_is_in_it() {
        let mut segments = segments();
        let segment = fill(&mut segments, 1_000, 1);
        let free = segments.free_segments();
        let first = segments.begin_checkpoint().unwrap();
        segments.unset(1_000);
        segments.end_checkpoint(&first);
        assert!(
            !segments.segments[segment].is_free,
            "the checkpoint still needs it"
        );
        assert!(segments.would_free());
        let second = segments.begin_checkpoint().unwrap();
        assert!(!segments.segments[segment].is_free);
        segments.end_checkpoint(&second);
        assert!(segments.segments[segment].is_free);
        // One is open for records.
        assert_eq!(segments.free_segments(), free);
    }
}
