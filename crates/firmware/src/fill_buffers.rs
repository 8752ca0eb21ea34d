//! Buffers of pages that have come from flash and are not in device DRAM yet
//! (`ssd.fill = buffered`).
//!
//! A page that is fetched has a buffer from the start of its read until its copy in its frame is
//! complete, or until it is given up. The copies go one after the other, and device DRAM takes them
//! behind all that the host waits for; so pages wait here where more come than device DRAM takes.

use crate::config::{Fill, SsdConfig};
use alloc::collections::VecDeque;
use units::{FrameId, Lpa, Time};

/// Copies that device DRAM is given at a time, so that it need not wait for the next one.
const COPIES: usize = 2;

/// Who has a buffer, beside the pages that are on their way from flash.
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

    /// Copies that have ended give their buffers back.
    pub(crate) fn release(&mut self, now: Time) {
        while self.copying.front().is_some_and(|end| *end <= now) {
            self.copying.pop_front();
        }
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

    /// The page that has waited longest, if there are too few buffers for one more fetch beside
    /// those of `in_flight`.
    pub(crate) fn next_to_go(&mut self, in_flight: usize) -> Option<(FrameId, Lpa)> {
        match self.missing(in_flight) {
            0 => None,
            _ => self.waiting.pop_front(),
        }
    }

    /// A copy has begun that ends then. The ends ascend.
    pub(crate) fn begin_copy(&mut self, end: Time) {
        let after = self.copying.back().copied().unwrap_or(end);
        self.copying.push_back(end.max(after));
    }

    /// From when on there is a buffer for one more fetch; none if pages in flight have them all.
    pub(crate) fn free_from(&self, at: Time, in_flight: usize) -> Option<Time> {
        match self.missing(in_flight) {
            0 => Some(at),
            missing => self.copying.get(missing - 1).map(|end| at.max(*end)),
        }
    }

    /// Buffers that are missing for one more fetch.
    fn missing(&self, in_flight: usize) -> usize {
        let taken = in_flight + self.waiting.len() + self.copying.len();
        (taken + 1).saturating_sub(self.most)
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
    fn a_fetch_waits_for_the_copy_whose_buffer_it_gets() {
        let mut buffers = of(3);
        buffers.begin_copy(at(10));
        buffers.begin_copy(at(20));
        assert_eq!(buffers.free_from(at(0), 0), Some(at(0)));
        assert_eq!(buffers.free_from(at(0), 1), Some(at(10)));
        assert_eq!(buffers.free_from(at(15), 2), Some(at(20)));
        assert_eq!(
            buffers.free_from(at(0), 3),
            None,
            "those in flight have them"
        );
        buffers.release(at(10));
        assert_eq!(buffers.free_from(at(12), 1), Some(at(12)));
    }

    #[test]
    fn pages_go_to_their_frames_in_order_and_give_way_when_buffers_are_short() {
        let mut buffers = of(2);
        let page = |number| (FrameId::new(number), Lpa::new(number.into()));
        for number in 0..4 {
            let (frame, lpa) = page(number);
            buffers.keep(frame, lpa);
        }
        assert_eq!(buffers.next_copy(), Some(page(0)));
        buffers.begin_copy(at(10));
        assert_eq!(buffers.next_copy(), Some(page(1)));
        buffers.begin_copy(at(20));
        assert_eq!(buffers.next_copy(), None, "two at a time");
        assert_eq!(buffers.next_to_go(0), Some(page(2)));
        buffers.release(at(20));
        assert_eq!(buffers.next_to_go(0), None, "one waits and one is free");
        assert_eq!(buffers.next_to_go(1), Some(page(3)));
    }
}
