//! What becomes of a range whose counts are known.

mod predict;
mod ratio;

pub use predict::Predict;
pub use ratio::Ratio;

use crate::Counts;
use core::fmt;
use core::str::FromStr;

/// What a policy says of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Its pages belong into the device's memory.
    Upgrade,
    /// They belong into the host's.
    Downgrade,
    /// They stay where they are.
    Stay,
}

/// How a file is appended to by writes that are synced.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Appends {
    /// The page behind the last one that was synced.
    pub end: u64,
    /// Syncs in a row that went on where the one before had ended.
    pub steps: u32,
    /// Pages of the largest of the last of them.
    pub reach: u32,
    /// What was written and synced meanwhile, the older the less.
    pub counts: Counts,
}

/// Judges ranges.
pub trait Policy {
    /// What is to become of a range, asked when a sync has written some of it back.
    fn judge(&self, counts: Counts) -> Verdict;

    /// The number that it judges by, in percent, for whoever looks on; None before there is one.
    fn metric(&self, counts: Counts) -> Option<u64> {
        let _ = counts;
        None
    }

    /// Whether it wants to know how files are appended to ([`Policy::ahead`]).
    fn looks_ahead(&self) -> bool {
        false
    }

    /// Whether an upgraded range of which nothing is counted any more is downgraded.
    fn lets_go(&self) -> bool {
        false
    }

    /// How many pages behind the end of an append stream will be written next, and belong into the
    /// device's memory before they are. Asked if it looks ahead, behind each sync.
    fn ahead(&self, appends: &Appends) -> u64 {
        let _ = appends;
        0
    }
}

/// The policies by their names.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PolicyKind {
    /// The thesis's.
    #[default]
    Ratio,
    /// The thesis's, and what append streams will write next.
    Predict,
    /// None: only what programs ask for is in persistent memory.
    Explicit,
    /// None: programs are taken to ask for everything.
    Always,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ratio, Self::Predict, Self::Explicit, Self::Always];

    /// Whether ranges are judged.
    pub const fn judges(self) -> bool {
        matches!(self, Self::Ratio | Self::Predict)
    }

    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ratio => "ratio",
            Self::Predict => "predict",
            Self::Explicit => "explicit",
            Self::Always => "always",
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PolicyKind {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or(())
    }
}

/// Any of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnyPolicy {
    /// [`PolicyKind::Ratio`].
    Ratio(Ratio),
    /// [`PolicyKind::Predict`].
    Predict(Predict),
    /// [`PolicyKind::Explicit`] and [`PolicyKind::Always`].
    Nobody,
}

impl AnyPolicy {
    /// The policy of a kind with these thresholds.
    pub const fn new(kind: PolicyKind, ratio: Ratio) -> Self {
        match kind {
            PolicyKind::Ratio => Self::Ratio(ratio),
            PolicyKind::Predict => Self::Predict(Predict { ratio }),
            PolicyKind::Explicit | PolicyKind::Always => Self::Nobody,
        }
    }

    fn ratio(&self) -> Option<&Ratio> {
        match self {
            Self::Ratio(ratio) | Self::Predict(Predict { ratio }) => Some(ratio),
            Self::Nobody => None,
        }
    }
}

impl Policy for AnyPolicy {
    fn judge(&self, counts: Counts) -> Verdict {
        self.ratio()
            .map_or(Verdict::Stay, |ratio| ratio.judge(counts))
    }

    fn metric(&self, counts: Counts) -> Option<u64> {
        self.ratio()?.metric(counts)
    }

    fn looks_ahead(&self) -> bool {
        matches!(self, Self::Predict(_))
    }

    fn lets_go(&self) -> bool {
        matches!(self, Self::Predict(_))
    }

    fn ahead(&self, appends: &Appends) -> u64 {
        match self {
            Self::Predict(predict) => predict.ahead(appends),
            _ => 0,
        }
    }
}
