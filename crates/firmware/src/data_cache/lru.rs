//! Least recently used.

use super::order::Order;
use super::policy::{EvictionPolicy, FullSet, PageTag, Shape};
use units::FrameId;

/// The page whose last use is longest ago leaves. 4 B per frame.
#[derive(Clone)]
pub struct Lru {
    order: Order,
}

impl Lru {
    /// For an empty cache.
    pub fn new(shape: Shape) -> Self {
        Self {
            order: Order::new(shape),
        }
    }
}

impl EvictionPolicy for Lru {
    fn insert(&mut self, frame: FrameId, _tag: PageTag) {
        self.order.renew(frame);
    }
    fn arrive(&mut self, frame: FrameId) {
        self.order.renew(frame);
    }
    fn first_use(&mut self, frame: FrameId) {
        self.order.renew(frame);
    }
    #[inline]
    fn touch(&mut self, frame: FrameId) {
        self.order.renew(frame);
    }
    fn victim(&mut self, set: FullSet<'_>) -> Option<FrameId> {
        self.order.oldest_of(set)
    }
    fn evict(&mut self, _frame: FrameId, _tag: PageTag) {}
}
