//! Least recently used.

use super::EvictionPolicy;
use alloc::vec;
use alloc::vec::Vec;
use units::FrameId;

/// The page whose last use is longest ago leaves.
#[derive(Clone)]
pub struct Lru {
    /// By frame: number of the last use.
    last_use: Vec<u64>,
    uses: u64,
}

impl Lru {
    /// For a cache of `frame_count` frames.
    pub fn new(frame_count: usize) -> Self {
        Self {
            last_use: vec![0; frame_count],
            uses: 0,
        }
    }
}

impl EvictionPolicy for Lru {
    #[inline]
    fn touch(&mut self, frame: FrameId) {
        self.uses += 1;
        self.last_use[frame.index()] = self.uses;
    }
    fn victim(&self, candidates: impl Iterator<Item = FrameId>) -> Option<FrameId> {
        candidates.min_by_key(|frame| self.last_use[frame.index()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_candidate_leaves() {
        let mut lru = Lru::new(4);
        for frame in [2, 0, 3, 1, 2] {
            lru.touch(FrameId::new(frame));
        }
        let candidates = |frames: [u32; 3]| frames.into_iter().map(FrameId::new);
        assert_eq!(lru.victim(candidates([1, 2, 3])), Some(FrameId::new(3)));
        assert_eq!(lru.victim(candidates([1, 2, 0])), Some(FrameId::new(0)));
        assert_eq!(lru.victim(core::iter::empty()), None);
    }
}
