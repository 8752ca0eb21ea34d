//! As many crash points as asked for: workload after workload, until one fails.

use crate::lab::{Finding, Options, run};
use crate::power_cutter::InFlightChoice;
use crate::sabotage::Bug;
use crate::script::Script;
use crate::shrink::shrink;
use crate::tally::Tally;
use crate::workload::Workload;

/// Steps of each workload.
pub const STEPS: usize = 300;

/// A campaign: the workloads of a seed and those after it.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The seed of the first workload.
    pub seed: u64,
    /// Crash points after which it is enough.
    pub points: u64,
    /// The bug that is planted, if one is.
    pub bug: Option<Bug>,
}

/// A workload that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was found first.
    pub finding: Finding,
}

impl Campaign {
    /// Runs workloads until there are enough points, `go_on` says no, or one fails.
    ///
    /// # Errors
    /// The first failure.
    pub fn run(
        &self,
        tally: &mut Tally,
        mut go_on: impl FnMut(&Tally) -> bool,
    ) -> Result<(), Failure> {
        let mut seed = self.seed;
        while tally.points < self.points && go_on(tally) {
            let (workload, one_of) = Workload::of_campaign(seed, STEPS);
            let options = Options {
                choice: InFlightChoice::InTurn,
                again_of: 8,
                one_of,
                bug: self.bug,
                only: None,
            };
            let found = run(&workload, options, tally);
            found.map_err(|finding| Failure { seed, finding })?;
            seed += 1;
        }
        Ok(())
    }
}

impl Failure {
    /// The smallest script that shows it, and what is then wrong.
    pub fn script(&self, bug: Option<Bug>) -> Option<(Script, Finding)> {
        shrink(&Workload::of_campaign(self.seed, STEPS).0, bug)
    }
}
