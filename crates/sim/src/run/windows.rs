//! Measured windows: parts of a capture, evenly spaced, each after functional warm-up.
//!
//! One simulation passes functionally through the whole capture. Where a window begins, a clone of
//! it goes on in detail; the other one does not know. So a window finds caches, log, flash and
//! host pages as the program itself left them, and its cost is the window's alone.

use super::Prepared;
use crate::error::SimError;
use crate::result::RunResult;
use crate::simulation::Progress;
use units::Ratio;

/// Which parts of a capture are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Windows {
    /// How many. The first begins where `run.warmup` ends; together with the end of the capture
    /// they are evenly spaced, in shares of each thread's instructions.
    pub count: u32,
    /// Instructions of each, all threads together, shared out in proportion to what each thread
    /// has to do after warm-up.
    pub instructions: u64,
}

impl Windows {
    /// The share of each thread's instructions that lies before window `index`.
    fn begin(self, warmup: Ratio, index: u32) -> Ratio {
        let (part, whole) = (warmup.numerator(), warmup.denominator());
        // warmup + (1 - warmup) x index / count
        let rest = (whole - part) * u64::from(index);
        let count = u64::from(self.count);
        Ratio::new(part * count + rest, whole * count)
    }
}

impl Prepared {
    /// Checks that the capture has room for the windows.
    ///
    /// # Errors
    /// If there are none, they are empty, or they would overlap.
    pub fn check_windows(&self, windows: Windows) -> Result<(), SimError> {
        self.must_be_detailed("windows of a capture")?;
        let Windows {
            count,
            instructions,
        } = windows;
        let measured: u64 = self
            .guests
            .iter()
            .map(|g| g.measured(self.config.run.warmup))
            .sum();
        let most = measured.checked_div(u64::from(count)).unwrap_or(0);
        if (1..=most).contains(&instructions) {
            return Ok(());
        }
        Err(SimError::Mismatch(format!(
            "{}: {count} windows of {instructions} instructions do not fit in the {measured} \
             instructions after warm-up; choose fewer or shorter ones, at least one of one \
             instruction",
            self.trace_name()
        )))
    }

    /// Runs the windows one after the other. Each result is that of the window: its instructions,
    /// its time, its statistics; `window` says where it lies.
    ///
    /// # Errors
    /// As [`Prepared::check_windows`] and [`Prepared::execute`].
    pub fn execute_windows(
        &self,
        windows: Windows,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Vec<RunResult>, SimError> {
        self.check_windows(windows)?;
        let counts = self.counts();
        let warmup = self.config.run.warmup;
        let left = counts.iter().zip(self.warm_up());
        let measured: Vec<u64> = left.map(|(count, before)| count - before).collect();
        let quota = Ratio::new(windows.instructions, measured.iter().sum());
        let quotas: Vec<u64> = measured.iter().map(|count| quota.of(*count)).collect();
        let mut trunk = self.start();
        let mut done = vec![0; counts.len()];
        let mut results = Vec::with_capacity(windows.count as usize);
        for index in 0..windows.count {
            let targets = self.up_to(windows.begin(warmup, index));
            trunk.warm_to(&targets, &mut done, observe)?;
            let mut branch = trunk.clone();
            branch.end_warm_up();
            branch
                .drain_what_is_left(|rehearsal| rehearsal.run_window(&quotas, observe).map(drop))?;
            let (end, paces) = branch.run_window(&quotas, observe)?;
            branch.audit(end);
            let warmed = done.iter().sum();
            let result = RunResult::new(self, &branch, warmed, end);
            results.push(result.with_window(index, &paces, &measured));
        }
        Ok(results)
    }
}
