//! Where the times of the firmware's own work come from: the configuration, or somebody who has
//! measured them.

use firmware::{Charge, Work, WorkCosts};
use std::collections::VecDeque;
use units::Picos;

/// What the firmware's own work takes.
#[derive(Clone, Debug)]
pub(crate) enum WorkTimes {
    /// What the configuration says.
    Constant(WorkCosts),
    /// What is given, one time for each piece of work in its order.
    Given(Box<GivenTimes>),
}

/// Times of pieces of work that are still to be done, in their order.
#[derive(Clone, Debug, Default)]
pub struct GivenTimes {
    times: VecDeque<(Work, Picos)>,
    taken: u64,
    failure: Option<String>,
}

impl GivenTimes {
    /// The next piece of work is this, and takes so long.
    #[inline]
    pub fn give(&mut self, work: Work, time: Picos) {
        self.times.push_back((work, time));
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.times.len()
    }

    /// Why the times are not of this device, if they are not; its times are worth nothing then.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    #[inline]
    pub(crate) fn next(&mut self, work: Work) -> Charge {
        let time = match self.times.pop_front() {
            Some((found, time)) if found.code() == work.code() => time,
            other => self.mismatch(work, other),
        };
        self.taken += 1;
        work.as_software(time)
    }

    #[cold]
    fn mismatch(&mut self, work: Work, found: Option<(Work, Picos)>) -> Picos {
        let number = self.taken;
        self.failure.get_or_insert_with(|| match found {
            Some((found, _)) => format!(
                "time {number} is of the work \u{201c}{}\u{201d} where the device does \u{201c}{}\u{201d}",
                found.name(),
                work.name()
            ),
            None => format!("there are {number} times, and the device works on"),
        });
        self.times.clear();
        Picos::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_in_order_and_a_strange_one_is_told() {
        let mut times = GivenTimes::default();
        times.give(Work::LogAppend, Picos::from_nanos(7));
        times.give(Work::CompactionStep, Picos::from_nanos(9));
        assert_eq!(times.next(Work::LogAppend).latency, Picos::from_nanos(7));
        assert_eq!(times.failure(), None);
        assert_eq!(times.next(Work::CacheInsert).latency, Picos::ZERO);
        assert!(times.failure().unwrap().contains("compaction step"));
        assert!(times.failure().unwrap().contains("insert"));
    }

    #[test]
    fn the_end_of_the_times_is_told() {
        let mut times = GivenTimes::default();
        times.next(Work::LogAppend);
        let failure = times.failure().unwrap();
        assert!(failure.contains("there are 0 times"), "{failure}");
    }
}
