//! Branch prediction: gshare for directions, a target cache by path history for indirect branches.
//! Targets of direct branches and returns are taken as known (a perfect BTB and return stack).

use crate::config::BranchStart;

/// Entries of the target cache.
const TARGETS: usize = 2048;

/// The predictors of one core. Trained in dispatch order; squashed branches train again when they
/// are dispatched again.
#[derive(Clone, Debug)]
pub struct BranchPredictor {
    /// Two-bit counters, four to a byte; 2 and 3 predict taken.
    counters: Vec<u8>,
    mask: u32,
    history: u32,
    /// The history behind the last branch of a group that was predicted wrong.
    recovered: Option<u32>,
    /// The instruction that each path led to last.
    targets: Vec<u32>,
    path: u32,
}

/// A prediction of an indirect branch, to be compared with the instruction that really follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetPrediction {
    entry: u32,
    target: u32,
}

impl BranchPredictor {
    /// A predictor with `history_bits` bits of global history and as many counters as they index;
    /// every counter as `start` says.
    pub fn new(history_bits: u32, start: BranchStart) -> Self {
        assert!(
            (1..=20).contains(&history_bits),
            "gshare has 1 to 20 bits of history"
        );
        let counters = (1usize << history_bits).div_ceil(4);
        Self {
            counters: match start {
                BranchStart::NotTaken => vec![0b0101_0101; counters],
                BranchStart::Taken => vec![0b1111_1111; counters],
            },
            mask: (1 << history_bits) - 1,
            history: 0,
            recovered: None,
            targets: vec![u32::MAX; TARGETS],
            path: 0,
        }
    }
    /// Predicts and trains the conditional branch at `pc`; says whether the prediction was right.
    #[inline]
    pub fn direction(&mut self, pc: u32, taken: bool) -> bool {
        let is_right = self.train(pc, taken);
        self.history = self.history << 1 | u32::from(taken);
        is_right
    }
    /// The same for a branch in a group that is fetched to its end behind a wrong prediction: the
    /// history takes what was predicted, until [`BranchPredictor::recover`].
    pub(crate) fn direction_in_group(&mut self, pc: u32, taken: bool) -> bool {
        let is_right = self.train(pc, taken);
        let (before, taken) = (self.history << 1, u32::from(taken));
        self.history = before | if is_right { taken } else { 1 - taken };
        if !is_right {
            self.recovered = Some(before | taken);
        }
        is_right
    }
    /// The group's branches that were predicted wrong are done: the history is that behind the last
    /// of them, in which those before it stand as predicted, and those behind it not at all.
    pub(crate) fn recover(&mut self) {
        if let Some(history) = self.recovered.take() {
            self.history = history;
        }
    }
    /// Predicts and trains the counter of a branch; says whether the prediction was right.
    #[inline]
    fn train(&mut self, pc: u32, taken: bool) -> bool {
        let index = (pc ^ self.history) & self.mask;
        let shift = (index & 3) * 2;
        let byte = &mut self.counters[(index >> 2) as usize];
        let counter = *byte >> shift & 3;
        let trained = if taken {
            (counter + 1).min(3)
        } else {
            counter.saturating_sub(1)
        };
        *byte = *byte & !(3 << shift) | trained << shift;
        (counter >= 2) == taken
    }
    /// The history, to be gone on with by [`BranchPredictor::foresee`].
    pub(crate) fn ahead(&self) -> u32 {
        self.history
    }
    /// Whether the conditional branch at `pc` would be predicted right after `history`, which goes
    /// on; nothing is trained.
    pub(crate) fn foresee(&self, history: &mut u32, pc: u32, taken: bool) -> bool {
        let index = (pc ^ *history) & self.mask;
        *history = *history << 1 | u32::from(taken);
        let counter = self.counters[(index >> 2) as usize] >> ((index & 3) * 2) & 3;
        (counter >= 2) == taken
    }
    /// Predicts the indirect branch at `pc`.
    pub fn target(&mut self, pc: u32) -> TargetPrediction {
        let entry = (pc ^ pc >> 11 ^ self.path) & (TARGETS as u32 - 1);
        TargetPrediction {
            entry,
            target: self.targets[entry as usize],
        }
    }
    /// Trains with the instruction that really followed; says whether the prediction was right.
    pub fn resolve(&mut self, prediction: TargetPrediction, followed: u32) -> bool {
        self.targets[prediction.entry as usize] = followed;
        self.path = (self.path << 3 ^ followed) & (TARGETS as u32 - 1);
        prediction.target == followed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(predictor: &mut BranchPredictor, outcomes: impl Iterator<Item = bool>) -> usize {
        outcomes
            .filter(|taken| !predictor.direction(0x40, *taken))
            .count()
    }

    #[test]
    fn a_loop_with_a_short_period_is_learnt() {
        let mut predictor = BranchPredictor::new(16, BranchStart::NotTaken);
        wrong(&mut predictor, (0..2000).map(|n| n % 7 != 6));
        assert_eq!(wrong(&mut predictor, (2000..4000).map(|n| n % 7 != 6)), 0);
    }

    /// The history of a branch that is always taken is new for as long as it has bits, and then
    /// the same: weakly not taken it is wrong 16 times and once more, strongly taken never.
    #[test]
    fn a_loop_is_foreseen_from_the_start_if_counters_begin_at_taken() {
        let mut predictor = BranchPredictor::new(16, BranchStart::NotTaken);
        assert_eq!(wrong(&mut predictor, (0..100).map(|_| true)), 16 + 1);
        let mut predictor = BranchPredictor::new(16, BranchStart::Taken);
        assert_eq!(wrong(&mut predictor, (0..100).map(|_| true)), 0);
    }

    #[test]
    fn a_random_branch_is_predicted_half_of_the_time() {
        let mut predictor = BranchPredictor::new(16, BranchStart::NotTaken);
        let mut stream = units::Stream::new(1, "branch");
        let misses = wrong(&mut predictor, (0..20_000).map(|_| stream.bits() & 1 == 1));
        assert!((9_000..11_000).contains(&misses), "{misses}");
    }

    /// Behind a first branch that is foreseen wrong, the group's second is looked up under a
    /// history that has the prediction in it; if that is wrong too, its history stays.
    #[test]
    fn a_group_with_two_wrong_predictions_leaves_the_first_in_the_history_as_predicted() {
        let mut predictor = BranchPredictor::new(16, BranchStart::Taken);
        assert!(!predictor.direction_in_group(0x40, false));
        assert_eq!(predictor.history, 0b1);
        assert!(!predictor.direction_in_group(0x44, false));
        assert_eq!(predictor.history, 0b11);
        assert!(predictor.direction_in_group(0x48, true));
        predictor.recover();
        assert_eq!(predictor.history, 0b10, "not 0b001, what was taken");
        predictor.recover();
        assert_eq!(predictor.history, 0b10);
    }

    #[test]
    fn an_indirect_branch_that_alternates_is_learnt_by_its_path() {
        let mut predictor = BranchPredictor::new(16, BranchStart::NotTaken);
        let mut run = |from: u32| {
            (from..from + 500)
                .filter(|n| {
                    let prediction = predictor.target(0x80);
                    !predictor.resolve(prediction, 100 + n % 3)
                })
                .count()
        };
        run(0);
        assert_eq!(run(500), 0);
    }
}
