//! How the cores of a run are simulated, and what the fast way cannot do.

use super::{Guest, Prepared};
use crate::config::WarmAccesses;
use crate::error::SimError;
use host::config::{CodeFetch, MemoryIssue, StorePolicy};
use host::os::{DelayedLine, SquashPolicy, SwitchAt};
use std::str::FromStr;

/// How the cores are simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Instruction by instruction.
    #[default]
    Detailed,
    /// From a stream of what leaves L1, filtered once for all designs.
    Fast,
}

impl Mode {
    /// In thousandths: nine of ten ratios of two designs' execution times were nearer to the
    /// detailed mode's, in the study of docs/fast-mode.md.
    pub fn error_milli(self) -> u64 {
        match self {
            Self::Detailed => 0,
            Self::Fast => 50,
        }
    }

    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Detailed => "detailed",
            Self::Fast => "fast",
        }
    }
}

impl Mode {
    /// What the reader of a result must know of how it was made.
    pub(crate) fn warning(self) -> Option<String> {
        (self == Self::Fast).then(|| {
            format!(
                "fast mode: nine of ten ratios of execution times are within {:.1} % of the detailed \
                 mode's in the study of docs/fast-mode.md, the worst is 11 % off; time bound by \
                 memory or compute and counts of L1 are estimates",
                self.error_milli() as f64 / 10.0
            )
        })
    }
}

impl FromStr for Mode {
    type Err = SimError;
    fn from_str(text: &str) -> Result<Self, SimError> {
        match text {
            "detailed" => Ok(Self::Detailed),
            "fast" => Ok(Self::Fast),
            _ => Err(SimError::Config(vec![format!(
                "mode {text} is neither detailed nor fast"
            )])),
        }
    }
}

impl Prepared {
    /// Refuses what only the detailed mode can do.
    pub(super) fn must_be_detailed(&self, what: &str) -> Result<(), SimError> {
        match self.spec.mode {
            Mode::Detailed => Ok(()),
            Mode::Fast => Err(SimError::Config(vec![refusal(what)])),
        }
    }
}

fn refusal(what: &str) -> String {
    format!("mode fast cannot do {what}; use --mode detailed")
}

/// Refuses what the fast mode cannot do.
///
/// # Errors
/// One clause for each obstacle.
pub(super) fn check(run: &Prepared) -> Result<(), SimError> {
    if run.spec.mode == Mode::Detailed {
        return Ok(());
    }
    let refused: Vec<String> = obstacles(run)
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, what)| refusal(what))
        .collect();
    match refused.is_empty() {
        true => Ok(()),
        false => Err(SimError::Config(refused)),
    }
}

fn obstacles(run: &Prepared) -> Vec<(bool, &'static str)> {
    let (cpu, os, warm) = (&run.config.cpu, &run.config.os, &run.config.run);
    let schedulers = [cpu.alu_scheduler, cpu.memory_scheduler, cpu.fp_scheduler];
    vec![
        (run.spec.is_audited, "--audit"),
        (
            run.guests.iter().any(Guest::writes_back),
            "captures with cache line write-backs (clwb)",
        ),
        (cpu.stores != StorePolicy::Posted, "cpu.stores = waited"),
        (
            cpu.memory_issue != MemoryIssue::OutOfOrder,
            "cpu.memory_issue = in_order",
        ),
        (
            cpu.code_fetch != CodeFetch::EachLine,
            "cpu.code_fetch = in_groups",
        ),
        (
            schedulers.iter().any(|entries| *entries > 0),
            "schedulers with a limit (cpu.alu_scheduler and its like)",
        ),
        (cpu.fetch_ahead > 0, "cpu.fetch_ahead above 0"),
        (
            os.delayed_line != DelayedLine::Dropped,
            "os.delayed_line = delivered",
        ),
        (os.switch_at != SwitchAt::Retire, "os.switch_at = response"),
        (os.squash != SquashPolicy::AtOnce, "os.squash = runs_on"),
        (!warm.warm_caches, "run.warm_caches = false"),
        (
            warm.warm_accesses != WarmAccesses::Misses,
            "run.warm_accesses = all",
        ),
        (warm.warm_waits > 0, "run.warm_waits above 0"),
    ]
}
