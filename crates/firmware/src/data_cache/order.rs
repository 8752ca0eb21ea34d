//! The order of the frames of each set: by age or by last use, as the policy renews them.
//!
//! A stamp of 31 bits per frame from one counter. When the counter is used up, the stamps of each
//! set shrink to their ranks, so the order is exact for ever. All tables start as zeroes.

use super::policy::{FullSet, Shape};
use super::way_with;
use alloc::vec;
use alloc::vec::Vec;
use units::FrameId;

/// The last stamp. As a signed number, because that is how vectors of them are compared at once.
const LAST: u32 = i32::MAX as u32;

/// The order of the frames of each set.
#[derive(Clone)]
pub(super) struct Order {
    /// By frame; 0 is older than every other.
    stamps: Vec<u32>,
    last: u32,
    ways: usize,
}

impl Order {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            stamps: vec![0; shape.frame_count()],
            last: 0,
            ways: shape.ways as usize,
        }
    }

    /// The frame becomes the youngest of its set.
    #[inline]
    pub(super) fn renew(&mut self, frame: FrameId) {
        if self.last == LAST {
            self.shrink();
        }
        self.last += 1;
        self.stamps[frame.index()] = self.last;
    }

    /// The oldest of some frames of one set.
    #[inline]
    pub(super) fn oldest(&self, frames: impl Iterator<Item = FrameId>) -> Option<FrameId> {
        frames.min_by_key(|frame| self.stamps[frame.index()])
    }

    /// The oldest of those frames of a full set that may leave.
    #[inline]
    pub(super) fn oldest_of(&self, set: FullSet<'_>) -> Option<FrameId> {
        // No branch depends on the order, which nobody can foresee: the least stamp first, then
        // where it is, each a few vector operations.
        let frames = set.frames();
        let stamps = &self.stamps[frames.start as usize..frames.end as usize];
        let keys = stamps.iter().zip(set.stays());
        let least = keys.map(|(stamp, stays)| (stamp | stays) as i32);
        let least = least.fold(i32::MAX, i32::min) as u32;
        if least == LAST {
            // None may leave, or only one with the last stamp before stamps shrink.
            let may_leave = frames
                .map(FrameId::new)
                .filter(|frame| set.may_leave(*frame));
            return self.oldest(may_leave);
        }
        // Stamps of pages in one set differ.
        let way = way_with(stamps, least)?;
        Some(FrameId::new(frames.start + way as u32))
    }

    #[cold]
    fn shrink(&mut self) {
        for set in self.stamps.chunks_mut(self.ways) {
            // A set that was never used stays untouched, in memory too.
            if set.iter().all(|stamp| *stamp == 0) {
                continue;
            }
            let old = set.to_vec();
            for (new, stamp) in set.iter_mut().zip(&old) {
                let older = old.iter().filter(|other| *other < stamp).count();
                *new = if *stamp == 0 { 0 } else { older as u32 + 1 };
            }
        }
        self.last = self.ways as u32;
    }

    #[cfg(test)]
    pub(super) fn age(&mut self, last: u32) {
        self.last = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_outlives_the_counter() {
        let shape = Shape {
            set_count: 2,
            ways: 3,
        };
        let mut order = Order::new(shape);
        order.age(LAST - 4);
        let frames = |set: u32| (3 * set..3 * set + 3).map(FrameId::new);
        for frame in [2, 0, 4, 1] {
            order.renew(FrameId::new(frame));
        }
        assert_eq!(order.last, LAST);
        order.renew(FrameId::new(2));
        assert_eq!(order.last, 4, "three ranks and one renewal");
        assert_eq!(order.stamps, [2, 3, 4, 0, 3, 0]);
        assert_eq!(order.oldest(frames(0)), Some(FrameId::new(0)));
    }

    #[test]
    fn the_oldest_that_may_leave_is_found_among_any_number() {
        for ways in [1, 3, 16, 17, 40, 64] {
            let shape = Shape { set_count: 2, ways };
            let mut order = Order::new(shape);
            // The last renewal gives the last stamp that there is.
            order.age(LAST - ways);
            let turn = |step: u32| FrameId::new(ways + step * 7 % ways);
            (0..ways).for_each(|step| order.renew(turn(step)));
            for left in 0..ways {
                // Only the youngest from `left` on may leave.
                let mut states = vec![4; ways as usize];
                for step in left..ways {
                    states[(turn(step).get() - ways) as usize] = 3;
                }
                let set = FullSet::new(ways, &states, 4);
                assert_eq!(order.oldest_of(set), Some(turn(left)), "{ways} {left}");
            }
            let none = vec![4; ways as usize];
            assert_eq!(order.oldest_of(FullSet::new(ways, &none, 4)), None);
        }
    }
}
