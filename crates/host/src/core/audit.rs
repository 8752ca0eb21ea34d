//! What must hold of a core at any moment.

use super::Core;
use crate::port::HostLine;

impl Core {
    /// Checks the core's invariants; each violation as a sentence.
    pub fn audit(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |holds: bool, sentence: &str| {
            if !holds {
                problems.push(format!("{}: {sentence}", self.id));
            }
        };
        check(
            self.in_flight() <= self.limits.rob,
            "more pieces are in flight than the ROB has entries",
        );
        check(
            self.misses.in_use == self.misses.numbers().count(),
            "the count of L2 MSHRs in use is wrong",
        );
        check(
            self.misses.l1_pending() == self.misses.l1_named(),
            "an L1D MSHR is held by no miss",
        );
        let is_awaited = |line: HostLine| self.misses.find(line).is_some();
        check(
            self.stores.awaited().all(is_awaited),
            "a store waits for a line that nobody fetches",
        );
        check(
            self.schedulers_agree(),
            "an entry of a scheduler is neither free nor held",
        );
        check(
            self.queue.is_empty() || self.misses.in_use > 0,
            "loads wait for an MSHR although none is in use",
        );
        problems
    }
}
