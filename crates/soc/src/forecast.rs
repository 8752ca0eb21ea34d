//! When NAND commands will be done, where that is certain (`ftl.estimator = exact`).

use firmware::NandTag;
use nand::{Nand, Operation};
use units::Time;

/// When commands will be done: exact where units serve in order of submission and wait for nothing
/// but each other. A bus that several dies share, or reads that go ahead, are not foreseen.
#[derive(Clone, Default, Debug)]
pub(crate) struct Forecast {
    /// By unit: when everything that it was given is done.
    free: Vec<Time>,
    /// By tag.
    ends: Vec<Time>,
}

impl Forecast {
    /// The command of this tag will be done at `end`.
    pub fn note(&mut self, tag: NandTag, end: Time) {
        if tag.index() >= self.ends.len() {
            self.ends.resize(tag.index() + 1, Time::ZERO);
        }
        self.ends[tag.index()] = end;
    }

    /// A command is handed over at `at`, behind all that its unit was given before.
    pub fn add(&mut self, at: Time, tag: NandTag, operation: Operation, nand: &Nand) {
        let unit = nand.unit_of(operation.block(nand.geometry())) as usize;
        if unit >= self.free.len() {
            self.free.resize(unit + 1, Time::ZERO);
        }
        let end = self.free[unit].max(at) + nand.service_time(operation.kind());
        self.free[unit] = end;
        self.note(tag, end);
    }

    /// When the command of this tag will be done.
    pub fn end_of(&self, tag: NandTag) -> Time {
        self.ends[tag.index()]
    }
}
