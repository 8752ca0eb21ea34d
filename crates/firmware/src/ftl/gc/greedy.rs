//! Greedy: the block with the fewest valid pages, which frees most for least work.

use super::{Candidate, GcPolicy};

/// Fewest valid pages; among equals the least worn, then the lowest block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl GcPolicy for Greedy {
    fn choose(&self, candidates: impl Iterator<Item = Candidate>) -> Option<Candidate> {
        candidates.min_by_key(|candidate| (candidate.valid, candidate.wear, candidate.block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::BlockAddr;

    fn choose(candidates: &[(u32, u32)]) -> Option<u32> {
        let list = candidates
            .iter()
            .enumerate()
            .map(|(nth, (valid, wear))| Candidate {
                block: BlockAddr::new(nth as u32),
                valid: *valid,
                wear: *wear,
            });
        Greedy.choose(list).map(|candidate| candidate.block.get())
    }

    #[test]
    fn fewest_valid_pages_then_least_wear_then_lowest_block() {
        assert_eq!(choose(&[(3, 0), (2, 9), (5, 0)]), Some(1));
        assert_eq!(choose(&[(2, 4), (2, 3), (2, 3)]), Some(1));
        assert_eq!(choose(&[]), None);
    }
}
