//! Makes a workload that fails as small as it gets: steps are taken out and the device is made
//! simpler for as long as something is still wrong.

use crate::device::Device;
use crate::lab::{Finding, Options, run};
use crate::power_cutter::InFlightChoice;
use crate::sabotage::Bug;
use crate::script::Script;
use crate::tally::Tally;
use crate::workload::Workload;

/// The smallest script found that fails, with what is wrong; none if the workload does not fail
/// with everything tried that may have become of the flash operations.
pub fn shrink(workload: &Workload, bug: Option<Bug>) -> Option<(Script, Finding)> {
    let (options, finding) = how_it_fails(workload, bug)?;
    let mut shrinker = Shrinker {
        workload: workload.clone(),
        options,
        finding,
    };
    shrinker.cut_off();
    loop {
        let before = shrinker.workload.clone();
        shrinker.take_out_steps();
        shrinker.simplify_device();
        if shrinker.workload == before {
            break;
        }
    }
    let script = Script {
        workload: shrinker.workload,
        bug,
        cut: shrinker.finding.cut,
    };
    Some((script, shrinker.finding))
}

/// The least that has to be judged for the workload to fail: the quicker it is, the more can be
/// tried. Nothing but what is read while the power is on, then single cuts, then second ones.
fn how_it_fails(workload: &Workload, bug: Option<Bug>) -> Option<(Options, Finding)> {
    let ways = [
        (InFlightChoice::Never, 0),
        (InFlightChoice::InTurn, 0),
        (InFlightChoice::Each, 0),
        (InFlightChoice::Each, 1),
    ];
    ways.into_iter().find_map(|(choice, again_of)| {
        let options = Options {
            choice,
            again_of,
            one_of: 1,
            bug,
            only: None,
        };
        Some((options, failure(workload, options)?))
    })
}

fn failure(workload: &Workload, options: Options) -> Option<Finding> {
    run(workload, options, &mut Tally::default()).err()
}

struct Shrinker {
    workload: Workload,
    options: Options,
    finding: Finding,
}

impl Shrinker {
    /// Takes `smaller` if it fails; says whether it does.
    fn try_with(&mut self, smaller: Workload) -> bool {
        let Some(finding) = failure(&smaller, self.options) else {
            return false;
        };
        (self.workload, self.finding) = (smaller, finding);
        self.cut_off();
        true
    }

    /// Nothing after the failure matters.
    fn cut_off(&mut self) {
        self.workload.steps.truncate(self.finding.step + 1);
    }

    /// Takes out halves, quarters, … and single steps.
    fn take_out_steps(&mut self) {
        let mut size = self.workload.steps.len().div_ceil(2);
        loop {
            let mut first = 0;
            while first < self.workload.steps.len() {
                let mut smaller = self.workload.clone();
                let end = smaller.steps.len().min(first + size);
                smaller.steps.drain(first..end);
                if !self.try_with(smaller) {
                    first += size;
                }
            }
            if size <= 1 {
                return;
            }
            size = size.div_ceil(2);
        }
    }

    /// Tries the simplest value of every setting.
    fn simplify_device(&mut self) {
        let simplest = Device::simplest();
        for nth in 0..simplest.clone().fields_mut().len() {
            let mut smaller = self.workload.clone();
            let mut wanted = simplest.clone();
            let (_, value) = &wanted.fields_mut()[nth];
            let value = **value;
            *smaller.device.fields_mut()[nth].1 = value;
            if smaller != self.workload && smaller.device.problems().is_empty() {
                self.try_with(smaller);
            }
        }
    }
}
