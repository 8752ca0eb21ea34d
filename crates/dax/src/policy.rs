//! What becomes of a range whose counts are known.

mod adaptive;
mod predict;
mod ratio;

pub use adaptive::Adaptive;
pub use predict::Predict;
pub use ratio::Ratio;

use crate::Counts;
use core::fmt;
use core::str::FromStr;
use units::Picos;

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

/// What came of a decision, or of none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lesson {
    /// A range is not upgraded, with these counts, and a sync of it waits for flash.
    Missed(Counts),
    /// A range that was upgraded is it no more.
    Left {
        /// By how much its syncs were shorter than others.
        spared: Picos,
        /// How long it took to move it there and back.
        moved: Picos,
    },
    /// A range is to be upgraded that was downgraded while its counts of now were alive.
    Returned,
    /// A sync found no room in the device's memory.
    Crowded,
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

    /// Whether it wants to know what came of what it said ([`Policy::learn`]).
    fn learns(&self) -> bool {
        false
    }

    /// What came of it. Told if it learns.
    fn learn(&mut self, lesson: Lesson) {
        let _ = lesson;
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
    /// The thesis's with thresholds that follow what upgrades gain.
    Adaptive,
    /// None: only what programs ask for is in persistent memory.
    Explicit,
    /// None: programs are taken to ask for everything.
    Always,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Ratio,
        Self::Predict,
        Self::Adaptive,
        Self::Explicit,
        Self::Always,
    ];

    /// Whether ranges are judged.
    pub const fn judges(self) -> bool {
        matches!(self, Self::Ratio | Self::Predict | Self::Adaptive)
    }

    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ratio => "ratio",
            Self::Predict => "predict",
            Self::Adaptive => "adaptive",
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
    /// [`PolicyKind::Adaptive`].
    Adaptive(Adaptive),
    /// [`PolicyKind::Explicit`] and [`PolicyKind::Always`].
    Nobody,
}

impl AnyPolicy {
    /// The policy of a kind with these thresholds.
    pub const fn new(kind: PolicyKind, ratio: Ratio) -> Self {
        match kind {
            PolicyKind::Ratio => Self::Ratio(ratio),
            PolicyKind::Predict => Self::Predict(Predict { ratio }),
            PolicyKind::Adaptive => Self::Adaptive(Adaptive::new(ratio)),
            PolicyKind::Explicit | PolicyKind::Always => Self::Nobody,
        }
    }

    /// The thresholds that ranges are judged by now; None: they are not judged.
    pub const fn thresholds(&self) -> Option<&Ratio> {
        match self {
            Self::Ratio(ratio) | Self::Predict(Predict { ratio }) => Some(ratio),
            Self::Adaptive(adaptive) => Some(adaptive.thresholds()),
            Self::Nobody => None,
        }
    }
}

impl Policy for AnyPolicy {
    fn judge(&self, counts: Counts) -> Verdict {
        self.thresholds()
            .map_or(Verdict::Stay, |ratio| ratio.judge(counts))
    }

    fn metric(&self, counts: Counts) -> Option<u64> {
        self.thresholds()?.metric(counts)
    }

    fn looks_ahead(&self) -> bool {
        matches!(self, Self::Predict(_))
    }

    fn lets_go(&self) -> bool {
        matches!(self, Self::Predict(_) | Self::Adaptive(_))
    }

    fn learns(&self) -> bool {
        matches!(self, Self::Adaptive(_))
    }

    fn learn(&mut self, lesson: Lesson) {
        if let Self::Adaptive(adaptive) = self {
            adaptive.learn(lesson);
        }
    }

    fn ahead(&self, appends: &Appends) -> u64 {
        match self {
            Self::Predict(predict) => predict.ahead(appends),
            _ => 0,
        }
    }
}
