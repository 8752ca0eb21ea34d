//! Buffers of pages that have come from flash and are not in device DRAM yet
//! (`ssd.fill = buffered`).
//!
//! A page that has come has a buffer until its copy in its frame is complete, or until it is given
//! up. The copies go one after the other, and device DRAM takes them behind all that the host waits
//! for; so pages wait here where more come than device DRAM takes.

use crate::config::{Fill, SsdConfig};
use alloc::collections::VecDeque;
use units::{FrameId, Lpa, Time};

/// Copies that device DRAM is given at a time, so that it need not wait for the next one. What is
/// given it cannot be given up any more: with half of the buffers bc was 8 % slower, dlrm a third.
const COPIES: usize = 2;

/// Who has a buffer.
#[derive(Clone)]
pub(crate) struct FillBuffers {
    /// Buffers; none: copies begin at once, and nothing waits.
    most: usize,
    /// Pages whose copy has not begun, in the order in which they came. The frame may have another
    /// page by now.
    waiting: VecDeque<(FrameId, Lpa)>,
    /// When the copies end that have begun.
    copying: VecDeque<Time>,
}

impl FillBuffers {
    /// As many as are configured, all free.
    pub(crate) fn new(ssd: &SsdConfig) -> Self {
        Self {
            most: match ssd.fill {
                Fill::AtOnce => 0,
                Fill::Buffered => ssd.fill_buffers as usize,
            },
            waiting: VecDeque::new(),
            copying: VecDeque::new(),
        }
    }

    /// Whether pages wait in them.
    #[inline]
    pub(crate) fn are_used(&self) -> bool {
        self.most > 0
    }

    /// The first copy gives its buffer back, if it has ended by now: says when.
    #[inline]
    pub(crate) fn release(&mut self, now: Time) -> Option<Time> {
        self.copying.pop_front_if(|end| *end <= now)
    }

    /// A page has come and waits for its copy.
    pub(crate) fn keep(&mut self, frame: FrameId, lpa: Lpa) {
        self.waiting.push_back((frame, lpa));
    }

    /// The page that has waited longest, if device DRAM can be given another copy.
    pub(crate) fn next_copy(&mut self) -> Option<(FrameId, Lpa)> {
        match self.copying.len() < COPIES {
            true => self.waiting.pop_front(),
            false => None,
        }
    }

    /// The page that has waited longest, if more pages have come than there are buffers.
    pub(crate) fn next_to_go(&mut self) -> Option<(FrameId, Lpa)> {
        match self.waiting.len() + self.copying.len() > self.most {
            true => self.waiting.pop_front(),
            false => None,
        }
    }

    /// A copy has begun that ends then. The ends ascend.
    pub(crate) fn begin_copy(&mut self, end: Time) {
        let after = self.copying.back().copied().unwrap_or(end);
        self.copying.push_back(end.max(after));
    }

    /// From when on a page may be fetched: at once, unless copies under way have all buffers.
    pub(crate) fn free_from(&self, at: Time) -> Time {
        match self.copying.len().checked_sub(self.most) {
            None => at,
            Some(beyond) => at.max(self.copying[beyond]),
        }
    }

    /// Whether there is a buffer for one page more.
    pub(crate) fn has_free(&self) -> bool {
        self.waiting.len() + self.copying.len() < self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(most: usize) -> FillBuffers {
        FillBuffers {
            most,
            waiting: VecDeque::new(),
            copying: VecDeque::new(),
        }
    }

    fn at(nanos: u64) -> Time {
        Time::from_picos(nanos * 1000)
    }

    #[test]
    fn a_fetch_waits_while_copies_have_all_buffers() {
        let mut buffers = of(2);
        buffers.begin_copy(at(10));
        assert_eq!(buffers.free_from(at(0)), at(0));
        buffers.begin_copy(at(20));
        buffers.begin_copy(at(30));
        assert!(!buffers.has_free());
        assert_eq!(
            buffers.free_from(at(0)),
            at(20),
            "of three one is left then"
        );
        assert_eq!(buffers.free_from(at(25)), at(25));
        assert_eq!(buffers.release(at(20)), Some(at(10)));
        assert_eq!(buffers.release(at(20)), Some(at(20)));
        assert_eq!(buffers.release(at(20)), None);
        assert!(buffers.has_free());
        assert_eq!(buffers.free_from(at(20)), at(20));
    }

    #[test]
    fn pages_go_to_their_frames_in_order_and_give_way_when_buffers_are_short() {
        let mut buffers = of(3);
        let page = |number| (FrameId::new(number), Lpa::new(number.into()));
        for number in 0..5 {
            let (frame, lpa) = page(number);
            buffers.keep(frame, lpa);
        }
        assert_eq!(buffers.next_copy(), Some(page(0)));
        buffers.begin_copy(at(10));
        assert_eq!(buffers.next_copy(), Some(page(1)));
        buffers.begin_copy(at(20));
        assert_eq!(buffers.next_copy(), None, "two at a time");
        assert_eq!(buffers.next_to_go(), Some(page(2)));
        assert_eq!(buffers.next_to_go(), Some(page(3)));
        assert_eq!(buffers.next_to_go(), None, "two are copied and one waits");
        assert_eq!(buffers.release(at(10)), Some(at(10)));
        assert_eq!(buffers.next_copy(), Some(page(4)));
    }
}
