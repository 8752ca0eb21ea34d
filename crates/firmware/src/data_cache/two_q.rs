//! 2Q: a page must come back after it has left the short queue to be kept for long.
//!
//! A new page enters A1in, first in first out, a quarter of the set. Uses there change nothing: the
//! many line accesses of one pass over a page are one use. What leaves A1in is remembered by name
//! in A1out, half as many names as the set has frames; a page that is fetched while remembered goes
//! to Am, which is LRU. So a scan passes through a quarter of each set and leaves the rest alone.
//!
//! Source: T. Johnson, D. Shasha, "2Q: A Low Overhead High Performance Buffer Management
//! Replacement Algorithm", VLDB 1994 (full version; Kin = 25 %, Kout = 50 %).

use super::ghosts::Ghosts;
use super::order::Order;
use super::policy::{EvictionPolicy, FullSet, PageTag, Shape};
use alloc::vec;
use alloc::vec::Vec;
use units::FrameId;

/// 2Q in each set. 5 B per frame, 4 B per name: 7 B per frame and 1 B per set in all.
#[derive(Clone)]
pub struct TwoQ {
    /// A1in by age, Am by last use.
    order: Order,
    /// By frame: in Am.
    is_hot: Vec<bool>,
    ghosts: Ghosts,
    shape: Shape,
}

impl TwoQ {
    /// For an empty cache.
    pub fn new(shape: Shape) -> Self {
        Self {
            order: Order::new(shape),
            is_hot: vec![false; shape.frame_count()],
            ghosts: Ghosts::new(shape, Self::ghost_count(shape.ways)),
            shape,
        }
    }

    /// Kin: A1in gives up a page when it has more than this.
    pub(super) fn cold_count(ways: u32) -> u32 {
        (ways / 4).max(1)
    }

    /// Kout: names in A1out.
    pub(super) fn ghost_count(ways: u32) -> u32 {
        ways.div_ceil(2)
    }
}

impl EvictionPolicy for TwoQ {
    fn insert(&mut self, frame: FrameId, tag: PageTag) {
        let set = self.shape.set_of(frame);
        self.is_hot[frame.index()] = self.ghosts.take(set, tag);
        self.order.renew(frame);
    }
    fn arrive(&mut self, _frame: FrameId) {}
    fn first_use(&mut self, _frame: FrameId) {}
    #[inline]
    fn touch(&mut self, frame: FrameId) {
        if self.is_hot[frame.index()] {
            self.order.renew(frame);
        }
    }
    fn victim(&mut self, set: FullSet<'_>) -> Option<FrameId> {
        let is_hot = |frame: &FrameId| self.is_hot[frame.index()];
        let frames = || set.pages();
        let cold_count = frames().filter(|frame| !is_hot(frame)).count() as u32;
        let oldest = |hot: bool| {
            let of_queue = frames().filter(|frame| is_hot(frame) == hot && set.may_leave(*frame));
            self.order.oldest(of_queue)
        };
        let hot_gives = cold_count <= Self::cold_count(self.shape.ways);
        oldest(hot_gives).or_else(|| oldest(!hot_gives))
    }
    fn evict(&mut self, frame: FrameId, tag: PageTag) {
        if !self.is_hot[frame.index()] {
            self.ghosts.push(self.shape.set_of(frame), tag);
        }
    }
}
