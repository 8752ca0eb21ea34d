//! The order of the frames of each set: by age or by last use, as the policy renews them.
//!
//! A stamp of 32 bits per frame from one counter. When the counter is used up, the stamps of each
//! set shrink to their ranks, so the order is exact for ever. All tables start as zeroes.

use super::policy::Shape;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use units::FrameId;

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
        if self.last == u32::MAX {
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

    /// The oldest of those frames of a set that may leave.
    #[inline]
    pub(super) fn oldest_that(
        &self,
        set: Range<u32>,
        may_leave: impl Fn(FrameId) -> bool,
    ) -> Option<FrameId> {
        // Stamp and frame in one number, so that no branch depends on the order, which nobody can
        // foresee.
        let stamps = &self.stamps[set.start as usize..set.end as usize];
        let keys = set.zip(stamps).map(|(frame, stamp)| {
            let key = u64::from(*stamp) << 32 | u64::from(frame);
            if may_leave(FrameId::new(frame)) {
                key
            } else {
                u64::MAX
            }
        });
        let oldest = keys.fold(u64::MAX, u64::min);
        (oldest != u64::MAX).then(|| FrameId::new(oldest as u32))
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
        order.age(u32::MAX - 4);
        let frames = |set: u32| (3 * set..3 * set + 3).map(FrameId::new);
        for frame in [2, 0, 4, 1] {
            order.renew(FrameId::new(frame));
        }
        assert_eq!(order.last, u32::MAX);
        order.renew(FrameId::new(2));
        assert_eq!(order.last, 4, "three ranks and one renewal");
        assert_eq!(order.stamps, [2, 3, 4, 0, 3, 0]);
        assert_eq!(order.oldest(frames(0)), Some(FrameId::new(0)));
    }
}
