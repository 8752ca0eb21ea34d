//! What is handed out by transparent DAX: work, and what users read.

use crate::stage::Stage;
use crate::tracker::{Counts, FileId, RangeId};
use core::ops::Range;

/// Where the pages of a range go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// To the device's memory.
    Upgrade,
    /// To the host's.
    Downgrade,
}

impl Move {
    /// As users read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Upgrade => "upgrade",
            Self::Downgrade => "downgrade",
        }
    }
}

/// Work for whoever moves pages. It ends with [`Dax::finish`], once.
#[must_use = "a job that does not end keeps its range"]
#[derive(PartialEq, Eq, Debug)]
pub struct Job {
    /// Of which file.
    pub file: FileId,
    /// Which pages.
    pub pages: Range<u64>,
    /// Where to.
    pub to: Move,
    pub(crate) id: RangeId,
    pub(crate) range: u32,
}

/// What has become of a range whose job has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It is where it was to go.
    Moved,
    /// It is where it was, and tried again later.
    Again,
    /// It was cut off meanwhile: nothing of it is to be kept in the device's memory.
    Gone,
}

/// What has happened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DaxStats {
    /// Ranges that the policy wanted upgraded.
    pub wanted_upgrades: u64,
    /// Of them those that it wanted before anything of them was written.
    pub predicted: u64,
    /// Ranges that the policy wanted downgraded.
    pub wanted_downgrades: u64,
    /// Ranges that were to leave since others had more use for their memory.
    pub evictions: u64,
    /// Ranges that were to leave since nobody had written them for longer than counts last.
    pub let_go: u64,
    /// Ranges that were upgraded.
    pub upgrades: u64,
    /// Ranges that were downgraded.
    pub downgrades: u64,
    /// Jobs that failed.
    pub failures: u64,
    /// Decisions that were taken back before a worker began.
    pub withdrawn: u64,
    /// Jobs whose range was cut off meanwhile.
    pub gone: u64,
}

/// A range, as it is told to users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeView {
    /// Its pages.
    pub pages: Range<u64>,
    /// What is counted.
    pub counts: Counts,
    /// Where it is.
    pub stage: Stage,
    /// By what it is judged, in percent.
    pub metric: Option<u64>,
}
