//! Pages at a constant distance, for each host core.
//!
//! Each core has a few streams: the last page, the distance to the one before, and whether that
//! distance came twice in a row. A page belongs to the stream that expected it, or else to the
//! nearest one within [`WINDOW`] pages; a page far from all of them begins a stream in place of the
//! one used least recently. Two equal distances in a row make a plan.
//!
//! Cores are told apart because their streams interleave at the device in an order of chance, and
//! one core's pages would break another's distances. A CXL.mem request carries no core number: the
//! host bridge is assumed to pass it on (docs/firmware.md). Requests without one share a table.
//!
//! Source: J.-L. Baer, T.-F. Chen, "An Effective On-Chip Preloading Scheme", SC 1991, with the core
//! and the page's neighbourhood in place of the program counter, which a device never sees.

use super::{Plan, Prefetcher, Trigger};
use alloc::vec;
use alloc::vec::Vec;
use units::Lpa;

/// Farther away a page begins a stream of its own.
const WINDOW: u64 = 64;
/// Cores beyond this share the tables of others; 0 is for requests without a core.
const TABLES: u32 = 64;

#[derive(Clone, Copy, Default)]
struct Stream {
    last: Lpa,
    /// 0: not known yet.
    distance: i64,
    /// Whether the distance came at least twice in a row.
    is_sure: bool,
    /// When the stream was used last, by the count of triggers; 0 = never.
    used: u64,
}

impl Stream {
    fn distance_to(&self, lpa: Lpa) -> i64 {
        lpa.get().wrapping_sub(self.last.get()) as i64
    }
    fn expects(&self, lpa: Lpa) -> bool {
        self.distance != 0 && self.distance_to(lpa) == self.distance
    }
}

/// The streams of all cores.
#[derive(Clone)]
pub struct Stride {
    /// By table, `per_core` each.
    streams: Vec<Stream>,
    per_core: usize,
    triggers: u64,
}

impl Stride {
    /// With `per_core` streams for each core.
    pub fn new(per_core: u32) -> Self {
        let count = (TABLES as usize + 1) * per_core as usize;
        Self {
            streams: vec![Stream::default(); count],
            per_core: per_core as usize,
            triggers: 0,
        }
    }

    /// The stream that a page belongs to, or that gives way to a new one.
    fn stream_of(streams: &mut [Stream], lpa: Lpa) -> &mut Stream {
        // The one that expects the page, then the nearest, then the least recently used.
        let rank = |stream: &Stream| {
            let distance = stream.distance_to(lpa).unsigned_abs();
            match stream.used {
                0 => (2, 0),
                _ if stream.expects(lpa) => (0, 0),
                _ if distance <= WINDOW => (1, distance),
                used => (2, used),
            }
        };
        let best = streams.iter_mut().min_by_key(|stream| rank(stream));
        best.expect("a core has a stream")
    }
}

impl Prefetcher for Stride {
    fn learn(&mut self, trigger: Trigger) -> Plan {
        self.triggers += 1;
        let table = trigger.source.map_or(0, |core| 1 + core.get() % TABLES) as usize;
        let streams = &mut self.streams[table * self.per_core..(table + 1) * self.per_core];
        let stream = Self::stream_of(streams, trigger.lpa);
        let distance = stream.distance_to(trigger.lpa);
        if stream.used == 0 || distance.unsigned_abs() > WINDOW && !stream.expects(trigger.lpa) {
            *stream = Stream::default();
        } else if distance != 0 {
            stream.is_sure = distance == stream.distance;
            stream.distance = distance;
        }
        stream.last = trigger.lpa;
        stream.used = self.triggers;
        match stream.is_sure && distance != 0 {
            true => Plan::Stride(stream.distance),
            false => Plan::Nothing,
        }
    }
    fn on_fill(&mut self, _lpa: Lpa, _was_prefetched: bool) {}
}

#[cfg(test)]
mod tests {
    use super::super::testing::miss;
    use super::*;

    fn plans(pages: &[(u32, u64)]) -> Vec<Plan> {
        let mut stride = Stride::new(2);
        let learn = |(core, page): &(u32, u64)| stride.learn(miss(*core, *page));
        pages.iter().map(learn).collect()
    }

    #[test]
    fn two_equal_distances_in_a_row_make_a_plan_forwards_and_backwards() {
        let none = Plan::Nothing;
        let forwards = plans(&[(0, 100), (0, 103), (0, 106), (0, 109)]);
        assert_eq!(forwards, [none, none, Plan::Stride(3), Plan::Stride(3)]);
        let backwards = plans(&[(0, 100), (0, 93), (0, 86)]);
        assert_eq!(backwards, [none, none, Plan::Stride(-7)]);
    }

    #[test]
    fn the_streams_of_a_core_and_of_cores_do_not_break_each_other() {
        // Core 0 walks two arrays in turn, core 1 a third one in between, next to the first.
        let mut pages = Vec::new();
        for step in 0..4 {
            pages.extend([(0, 1000 + step), (1, 1002 + 2 * step), (0, 9000 - step)]);
        }
        let plans = plans(&pages);
        let expected = [Plan::Stride(1), Plan::Stride(2), Plan::Stride(-1)];
        assert_eq!(plans[6..9], expected);
        assert_eq!(plans[9..12], expected);
    }

    #[test]
    fn a_repeated_footprint_without_a_constant_distance_is_not_caught() {
        let pages = [0, 1, 3, 4, 8, 9, 11, 12].map(|page| (0, page));
        let twice = [pages, pages].concat();
        assert!(plans(&twice).iter().all(|plan| *plan == Plan::Nothing));
    }
}
