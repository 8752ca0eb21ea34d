//! How long a read would take: SkyByte Algorithm 1.
//!
//! The estimate adds up what is queued at the channel (as the paper writes it) or at the die (what
//! the page really waits for, D14). It is an estimate: an operation counts in full until it is
//! done, and channel transfers count nothing.

use super::Estimate;
use super::config::EstimatorKind;
use alloc::vec;
use alloc::vec::Vec;
use units::{DieId, FlashGeometry, FlashOp, Timing};

/// What is queued at one channel or die, the operation being served included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Queue {
    reads: u32,
    programs: u32,
    erases: u32,
    /// Of all these, those that GC asked for.
    gc_ops: u32,
}

impl Queue {
    fn count_mut(&mut self, kind: FlashOp) -> &mut u32 {
        match kind {
            FlashOp::Read => &mut self.reads,
            FlashOp::Program => &mut self.programs,
            FlashOp::Erase => &mut self.erases,
        }
    }
}

/// Counts of the operations queued, per channel or die.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimator {
    kind: EstimatorKind,
    geometry: FlashGeometry,
    timing: Timing,
    queues: Vec<Queue>,
}

impl Estimator {
    /// Empty queues.
    pub fn new(kind: EstimatorKind, geometry: FlashGeometry, timing: Timing) -> Self {
        let queue_count = match kind {
            EstimatorKind::Channel | EstimatorKind::Exact => geometry.channel_count,
            EstimatorKind::Die => geometry.die_count(),
        };
        Self {
            kind,
            geometry,
            timing,
            queues: vec![Queue::default(); queue_count as usize],
        }
    }

    /// An operation of this kind joins the queue of the die.
    pub fn enter(&mut self, die: DieId, kind: FlashOp, is_gc: bool) {
        let queue = self.index(die);
        *self.queues[queue].count_mut(kind) += 1;
        self.queues[queue].gc_ops += u32::from(is_gc);
    }

    /// An operation of this kind is done.
    pub fn leave(&mut self, die: DieId, kind: FlashOp, is_gc: bool) {
        let queue = self.index(die);
        *self.queues[queue].count_mut(kind) -= 1;
        self.queues[queue].gc_ops -= u32::from(is_gc);
    }

    /// Algorithm 1 for a read that joins the queue of the die now.
    pub fn estimate(&self, die: DieId) -> Estimate {
        let queue = &self.queues[self.index(die)];
        Estimate {
            latency: self.timing.expected(FlashOp::Read) * u64::from(queue.reads + 1)
                + self.timing.expected(FlashOp::Program) * u64::from(queue.programs)
                + self.timing.expected(FlashOp::Erase) * u64::from(queue.erases),
            gc_in_progress: queue.gc_ops > 0,
        }
    }

    /// The same estimator with empty queues.
    pub fn emptied(&self) -> Self {
        Self::new(self.kind, self.geometry, self.timing)
    }

    fn index(&self, die: DieId) -> usize {
        match self.kind {
            EstimatorKind::Channel | EstimatorKind::Exact => self.geometry.channel_of(die).index(),
            EstimatorKind::Die => die.index(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::testing;
    use units::Picos;

    fn estimate_after(kind: EstimatorKind, queued: &[(u32, FlashOp, bool)], die: u32) -> Estimate {
        let mut estimator = Estimator::new(kind, testing::GEOMETRY, testing::TIMING);
        for (die, kind, is_gc) in queued {
            estimator.enter(DieId::new(*die), *kind, *is_gc);
        }
        estimator.estimate(DieId::new(die))
    }

    #[test]
    fn an_empty_queue_costs_one_read() {
        let read = testing::TIMING.expected(FlashOp::Read);
        let estimate = estimate_after(EstimatorKind::Channel, &[], 0);
        assert_eq!(
            estimate,
            Estimate {
                latency: read,
                gc_in_progress: false
            }
        );
    }

    #[test]
    fn a_channel_adds_up_all_its_dies_and_a_die_only_itself() {
        // Dies 0 and 2 share channel 0 of the two channels; die 1 is on channel 1.
        let queued = [
            (0, FlashOp::Read, false),
            (2, FlashOp::Program, false),
            (2, FlashOp::Erase, true),
            (1, FlashOp::Erase, false),
        ];
        let [read, program, erase] = FlashOp::ALL.map(|op| testing::TIMING.expected(op));
        let channel = estimate_after(EstimatorKind::Channel, &queued, 0);
        assert_eq!(channel.latency, read * 2 + program + erase);
        assert!(channel.gc_in_progress);
        let die = estimate_after(EstimatorKind::Die, &queued, 0);
        assert_eq!(
            die,
            Estimate {
                latency: read * 2,
                gc_in_progress: false
            }
        );
    }

    #[test]
    fn what_is_done_no_longer_counts() {
        let mut estimator = Estimator::new(EstimatorKind::Die, testing::GEOMETRY, testing::TIMING);
        estimator.enter(DieId::new(0), FlashOp::Erase, true);
        estimator.leave(DieId::new(0), FlashOp::Erase, true);
        assert_eq!(estimator, estimator.emptied());
        assert_eq!(
            estimator.estimate(DieId::new(0)).latency,
            Picos::from_micros(3)
        );
    }
}
