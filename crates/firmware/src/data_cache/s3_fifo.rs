//! S3-FIFO: three first-in-first-out queues; what nobody returns to leaves quickly.
//!
//! A new page enters the small queue, a tenth of the set. At its end it moves to the main queue if
//! it was returned to more than once, or else leaves and is remembered by name, as many names as
//! the main queue has frames. A page that is fetched while remembered goes to the main queue at
//! once. There a page that was returned to goes to the front again, one return the poorer.
//!
//! The published policy counts requests of whole objects. Here a pass over a page is up to 64 line
//! accesses, which would make every scanned page look popular. So accesses to a page that no access
//! to another page of the set interrupts are one, and those of the fetch are none.
//!
//! Source: J. Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, Alg. 1.

use super::ghosts::Ghosts;
use super::order::Order;
use super::policy::{EvictionPolicy, FullSet, PageTag, Shape};
use alloc::vec;
use alloc::vec::Vec;
use units::FrameId;

/// By frame: in the main queue.
const MAIN: u8 = 1 << 7;
/// The rest of the byte: returns since the page came, at most this.
const MOST_RETURNS: u8 = 3;
/// Returns beyond which a page of the small queue is kept.
const KEPT_ABOVE: u8 = 1;

/// S3-FIFO in each set. 5 B per frame, 4 B per name: 9 B per frame and 2 B per set in all.
#[derive(Clone)]
pub struct S3Fifo {
    /// Both queues by age.
    order: Order,
    states: Vec<u8>,
    /// By set: way + 1 of the page that was used last.
    latest: Vec<u8>,
    ghosts: Ghosts,
    shape: Shape,
}

impl S3Fifo {
    /// For an empty cache.
    pub fn new(shape: Shape) -> Self {
        Self {
            order: Order::new(shape),
            states: vec![0; shape.frame_count()],
            latest: vec![0; shape.set_count as usize],
            ghosts: Ghosts::new(shape, Self::ghost_count(shape.ways)),
            shape,
        }
    }

    /// Frames of the small queue: a tenth, rounded up.
    pub(super) fn small_count(ways: u32) -> u32 {
        ways.div_ceil(10)
    }

    /// Names that are remembered.
    pub(super) fn ghost_count(ways: u32) -> u32 {
        (ways - Self::small_count(ways)).max(1)
    }

    /// Makes the page the one used last; says whether another one was.
    #[inline]
    fn begin_run(&mut self, frame: FrameId) -> bool {
        let way = self.shape.way_of(frame) + 1;
        let latest = &mut self.latest[self.shape.set_of(frame)];
        core::mem::replace(latest, way) != way
    }

    /// The page that would leave next, and has not earned a second chance or has to take it.
    fn candidate(&self, set: FullSet<'_>) -> Option<FrameId> {
        let is_main = |frame: &FrameId| self.states[frame.index()] & MAIN != 0;
        let frames = || set.pages();
        let small_count = frames().filter(|frame| !is_main(frame)).count() as u32;
        let oldest = |main: bool| {
            let of_queue = frames().filter(|frame| is_main(frame) == main && set.may_leave(*frame));
            self.order.oldest(of_queue)
        };
        let main_gives = small_count < Self::small_count(self.shape.ways);
        oldest(main_gives).or_else(|| oldest(!main_gives))
    }
}

impl EvictionPolicy for S3Fifo {
    fn insert(&mut self, frame: FrameId, tag: PageTag) {
        let is_known = self.ghosts.take(self.shape.set_of(frame), tag);
        self.states[frame.index()] = if is_known { MAIN } else { 0 };
        self.order.renew(frame);
        self.begin_run(frame);
    }
    fn arrive(&mut self, _frame: FrameId) {}
    fn first_use(&mut self, frame: FrameId) {
        self.begin_run(frame);
    }
    #[inline]
    fn touch(&mut self, frame: FrameId) {
        if self.begin_run(frame) {
            let state = &mut self.states[frame.index()];
            if *state & !MAIN < MOST_RETURNS {
                *state += 1;
            }
        }
    }
    fn victim(&mut self, set: FullSet<'_>) -> Option<FrameId> {
        // Ends: each turn moves a page to the main queue or takes one of its returns.
        loop {
            let frame = self.candidate(set)?;
            let state = &mut self.states[frame.index()];
            let (is_main, returns) = (*state & MAIN != 0, *state & !MAIN);
            if is_main && returns > 0 {
                *state -= 1;
            } else if !is_main && returns > KEPT_ABOVE {
                *state = MAIN;
            } else {
                return Some(frame);
            }
            self.order.renew(frame);
        }
    }
    fn evict(&mut self, frame: FrameId, tag: PageTag) {
        if self.states[frame.index()] & MAIN == 0 {
            self.ghosts.push(self.shape.set_of(frame), tag);
        }
    }
    fn is_known(&self, frame: FrameId) -> bool {
        let state = self.states[frame.index()];
        state & MAIN != 0 || state > KEPT_ABOVE
    }
}
