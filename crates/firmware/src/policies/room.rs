//! How many frames of the data cache the log should have (`ssd.log.least`).
//!
//! The log and the data cache share DRAM as the two lists of ARC do (Megiddo and Modha 2003): each
//! remembers the pages that it has just let go, and whoever is asked for one of them would have
//! had it with more room. A page that is fetched again although it left the cache a short time ago
//! moves a frame to the cache; a page that is written again although compaction has just brought
//! it to flash, so that it will be programmed twice, moves one to the log. A short time is what the
//! other side's room would have bridged.

use crate::config::SsdConfig;
use alloc::vec;
use alloc::vec::Vec;
use units::{Lpa, PageSize};

/// Pages that have just left, with when: a table by hash, of which each place has the last page.
#[derive(Clone)]
struct Recent {
    places: Vec<Place>,
    shift: u32,
}

#[derive(Clone, Copy, Default)]
struct Place {
    /// LPA + 1; 0 = empty.
    tag: u32,
    at: u32,
}

impl Recent {
    fn new(pages: u32) -> Self {
        let bits = pages.max(2).next_power_of_two().trailing_zeros() + 1;
        Self {
            places: vec![Place::default(); 1 << bits],
            shift: u32::BITS - bits,
        }
    }

    fn place(&mut self, tag: u32) -> &mut Place {
        // 2^32 over the golden ratio: neighbours in number are far apart.
        let place = tag.wrapping_mul(0x9E37_79B9) >> self.shift;
        &mut self.places[place as usize]
    }

    fn add(&mut self, lpa: Lpa, at: u32) {
        let tag = lpa.get() as u32 + 1;
        *self.place(tag) = Place { tag, at };
    }

    /// Forgets the page; says since when it is away, if that is known.
    fn take(&mut self, lpa: Lpa) -> Option<u32> {
        let tag = lpa.get() as u32 + 1;
        let place = self.place(tag);
        (place.tag == tag).then(|| core::mem::take(place).at)
    }
}

/// Who should have how many frames.
#[derive(Clone)]
pub(crate) struct Room {
    /// Frames that the log has at most.
    most: u32,
    wanted: u32,
    lines_of_frame: u32,
    /// Pages that left the data cache, by the number of those that did.
    left: Recent,
    left_count: u32,
    /// Pages that compaction brought to flash, by the number of lines logged.
    compacted: Recent,
    logged_count: u32,
}

impl Room {
    /// For a log that has all of its size; None if that never changes.
    pub(crate) fn new(ssd: &SsdConfig, page: PageSize) -> Option<Self> {
        if !ssd.log.shares_room() {
            return None;
        }
        let in_32_bits = |count: u64| u32::try_from(count).expect("validated");
        let most = in_32_bits((ssd.log.size - ssd.log.least) / page.bytes());
        Some(Self {
            most,
            wanted: most,
            lines_of_frame: in_32_bits(page.bytes() / ssd.log.entry),
            left: Recent::new(most),
            left_count: 0,
            compacted: Recent::new(most.saturating_mul(4)),
            logged_count: 0,
        })
    }

    /// Frames that the log should have.
    pub(crate) fn wanted(&self) -> u32 {
        self.wanted
    }

    /// A page has left the data cache for another one.
    pub(crate) fn left(&mut self, lpa: Lpa) {
        self.left_count = self.left_count.wrapping_add(1);
        self.left.add(lpa, self.left_count);
    }

    /// A page is fetched because it was asked for.
    pub(crate) fn fetched(&mut self, lpa: Lpa) {
        let Some(at) = self.left.take(lpa) else {
            return;
        };
        // As many frames as the log has would have kept it so long.
        if self.left_count.wrapping_sub(at) <= self.wanted {
            self.wanted = self.wanted.saturating_sub(1);
        }
    }

    /// Compaction has brought a page to flash.
    pub(crate) fn compacted(&mut self, lpa: Lpa) {
        self.compacted.add(lpa, self.logged_count);
    }

    /// A line of the page is logged.
    pub(crate) fn logged(&mut self, lpa: Lpa) {
        self.logged_count = self.logged_count.wrapping_add(1);
        let Some(at) = self.compacted.take(lpa) else {
            return;
        };
        let bridged = (self.most - self.wanted).saturating_mul(self.lines_of_frame);
        if self.logged_count.wrapping_sub(at) <= bridged {
            self.wanted = self.most.min(self.wanted + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of eight frames at most, none of which it has always.
    fn room() -> Room {
        Room {
            most: 8,
            wanted: 4,
            lines_of_frame: 64,
            left: Recent::new(8),
            left_count: 0,
            compacted: Recent::new(32),
            logged_count: 0,
        }
    }

    #[test]
    fn a_page_that_the_logs_frames_would_have_kept_moves_one_to_the_cache() {
        let mut room = room();
        (0..5).for_each(|page| room.left(Lpa::new(page)));
        // Five have left since, and the log has four frames.
        room.left(Lpa::new(5));
        room.fetched(Lpa::new(0));
        assert_eq!(room.wanted(), 4);
        room.fetched(Lpa::new(5));
        assert_eq!(room.wanted(), 3);
        // It has come, and is away no longer.
        room.fetched(Lpa::new(5));
        assert_eq!(room.wanted(), 3);
        room.fetched(Lpa::new(9));
        assert_eq!(room.wanted(), 3);
    }

    #[test]
    fn a_page_that_more_log_would_have_kept_moves_one_to_the_log() {
        let mut room = room();
        (0..2).for_each(|page| room.compacted(Lpa::new(page)));
        room.logged(Lpa::new(1));
        assert_eq!(room.wanted(), 5);
        room.logged(Lpa::new(1));
        assert_eq!(room.wanted(), 5);
        // Three frames that it has not take 192 lines.
        (0..192).for_each(|_| room.logged(Lpa::new(7)));
        room.logged(Lpa::new(0));
        assert_eq!(room.wanted(), 5);
    }

    #[test]
    fn there_is_an_end_to_both_sides() {
        let mut room = room();
        for page in (0..20).map(Lpa::new) {
            room.left(page);
            room.fetched(page);
        }
        assert_eq!(room.wanted(), 0);
        room.left(Lpa::new(1));
        room.fetched(Lpa::new(1));
        assert_eq!(room.wanted(), 0);
        for page in (0..20).map(Lpa::new) {
            room.compacted(page);
            room.logged(page);
        }
        assert_eq!(room.wanted(), 8);
    }
}
