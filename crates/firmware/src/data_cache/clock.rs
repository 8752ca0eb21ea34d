//! CLOCK: a second chance for what was used since the hand last came by.
//!
//! The hand of each set moves over its frames. A page that was used loses its mark and stays; the
//! first one without a mark leaves, and the hand goes on behind it. A page comes without a mark and
//! gets it with the access that it was fetched for, so pages fetched ahead in vain leave first.
//!
//! Source: F. J. Corbató, "A Paging Experiment with the Multics System", 1968.

use super::policy::{EvictionPolicy, FullSet, PageTag, Shape};
use alloc::vec;
use alloc::vec::Vec;
use units::FrameId;

/// CLOCK in each set. 1 B per frame and 1 B per set.
#[derive(Clone)]
pub struct Clock {
    /// By frame: used since the hand last came by.
    was_used: Vec<bool>,
    /// By set: the way at which the hand stands.
    hands: Vec<u8>,
    shape: Shape,
}

impl Clock {
    /// For an empty cache.
    pub fn new(shape: Shape) -> Self {
        Self {
            was_used: vec![false; shape.frame_count()],
            hands: vec![0; shape.set_count as usize],
            shape,
        }
    }
}

impl EvictionPolicy for Clock {
    fn insert(&mut self, frame: FrameId, _tag: PageTag) {
        self.was_used[frame.index()] = false;
    }
    fn arrive(&mut self, _frame: FrameId) {}
    fn first_use(&mut self, frame: FrameId) {
        self.was_used[frame.index()] = true;
    }
    #[inline]
    fn touch(&mut self, frame: FrameId) {
        self.was_used[frame.index()] = true;
    }
    fn victim(&mut self, set: FullSet<'_>) -> Option<FrameId> {
        let first = set.frames().start;
        let hand = &mut self.hands[(first / self.shape.ways) as usize];
        // The first round takes every mark, so the second finds a page if one may leave at all.
        for _ in 0..2 * self.shape.ways {
            let frame = FrameId::new(first + u32::from(*hand));
            *hand = ((u32::from(*hand) + 1) % self.shape.ways) as u8;
            if !set.may_leave(frame) {
                continue;
            }
            let was_used = &mut self.was_used[frame.index()];
            if !core::mem::replace(was_used, false) {
                return Some(frame);
            }
        }
        None
    }
    fn evict(&mut self, _frame: FrameId, _tag: PageTag) {}
}
