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
    #[inline(always)]
    fn count_mut(&mut self, kind: FlashOp) -> &mut u32 {
        match kind {
            FlashOp::Read => &mut self.reads,
            FlashOp::Program => &mut self.programs,
            FlashOp::Erase => &mut self.erases,
        }
    }
}

/// What is queued at one die.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Die {
    /// The queue that it counts in: kept, for to find its channel takes a division.
    queue: u32,
    /// Operations, the one being served included.
    operations: u32,
}

/// Counts of the operations queued, per channel or die.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimator {
    kind: EstimatorKind,
    geometry: FlashGeometry,
    timing: Timing,
    queues: Vec<Queue>,
    dies: Vec<Die>,
    /// A bit for each die with none, and how many have none.
    idle: Vec<u64>,
    idle_count: u32,
}

impl Estimator {
    /// Empty queues.
    pub fn new(kind: EstimatorKind, geometry: FlashGeometry, timing: Timing) -> Self {
        let queue_count = match kind {
            EstimatorKind::Channel | EstimatorKind::Exact => geometry.channel_count,
            EstimatorKind::Die | EstimatorKind::Reads => geometry.die_count(),
        };
        let dies = geometry.die_count();
        Self {
            kind,
            geometry,
            timing,
            queues: vec![Queue::default(); queue_count as usize],
            dies: (0..dies)
                .map(|die| Die {
                    queue: die % queue_count,
                    operations: 0,
                })
                .collect(),
            idle: (0..dies.div_ceil(64))
                .map(|word| ones(dies - word * 64))
                .collect(),
            idle_count: dies,
        }
    }

    /// An operation of this kind joins the queue of the die.
    #[inline]
    pub fn enter(&mut self, die: DieId, kind: FlashOp, is_gc: bool) {
        let of_die = &mut self.dies[die.index()];
        of_die.operations += 1;
        let queue = &mut self.queues[of_die.queue as usize];
        *queue.count_mut(kind) += 1;
        queue.gc_ops += u32::from(is_gc);
        if of_die.operations == 1 {
            self.idle[die.index() / 64] &= !(1 << (die.get() % 64));
            self.idle_count -= 1;
        }
    }

    /// An operation of this kind is done.
    #[inline]
    pub fn leave(&mut self, die: DieId, kind: FlashOp, is_gc: bool) {
        let of_die = &mut self.dies[die.index()];
        of_die.operations -= 1;
        let queue = &mut self.queues[of_die.queue as usize];
        *queue.count_mut(kind) -= 1;
        queue.gc_ops -= u32::from(is_gc);
        if of_die.operations == 0 {
            self.idle[die.index() / 64] |= 1 << (die.get() % 64);
            self.idle_count += 1;
        }
    }

    /// The dies with nothing queued, a bit each.
    pub fn idle_dies(&self) -> &[u64] {
        &self.idle
    }

    /// Whether there is one.
    #[inline]
    pub fn has_idle_die(&self) -> bool {
        self.idle_count > 0
    }

    /// Algorithm 1 for a read that joins the queue of the die now.
    pub fn estimate(&self, die: DieId) -> Estimate {
        let queue = &self.queues[self.dies[die.index()].queue as usize];
        if self.kind == EstimatorKind::Reads {
            return Estimate {
                latency: self.timing.expected(FlashOp::Read) * u64::from(queue.reads + 1),
                gc_in_progress: false,
            };
        }
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
}

/// As many ones as there are, at most a word.
const fn ones(count: u32) -> u64 {
    if count >= 64 {
        u64::MAX
    } else {
        (1 << count) - 1
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
    fn reads_that_go_first_wait_for_reads_only() {
        let queued = [
            (0, FlashOp::Read, false),
            (0, FlashOp::Program, false),
            (0, FlashOp::Erase, true),
        ];
        let reads = estimate_after(EstimatorKind::Reads, &queued, 0);
        assert_eq!(
            reads,
            Estimate {
                latency: testing::TIMING.expected(FlashOp::Read) * 2,
                gc_in_progress: false
            }
        );
    }

    #[test]
    fn a_die_is_idle_until_its_first_and_after_its_last_operation() {
        let mut estimator =
            Estimator::new(EstimatorKind::Channel, testing::GEOMETRY, testing::TIMING);
        let all = ones(testing::GEOMETRY.die_count());
        assert_eq!(estimator.idle_dies(), [all]);
        estimator.enter(DieId::new(1), FlashOp::Read, false);
        estimator.enter(DieId::new(1), FlashOp::Program, false);
        estimator.leave(DieId::new(1), FlashOp::Read, false);
        assert_eq!(estimator.idle_dies(), [all & !2]);
        estimator.leave(DieId::new(1), FlashOp::Program, false);
        assert_eq!(estimator.idle_dies(), [all]);
        assert!(estimator.has_idle_die());
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
