//! What was judged and decided, for whoever looks on.

use crate::tracker::{Counts, FileId};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use units::Time;

/// Decisions that wait for who asks for them; older ones are lost, and counted.
const MOST: usize = 1 << 16;

/// What has happened to a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A sync has written some of it back, and nothing changes.
    Judged,
    /// It is to be upgraded.
    WantsUpgrade,
    /// It is to be upgraded before anything of it is written.
    Predicted,
    /// It is to be downgraded.
    WantsDowngrade,
    /// It is to be downgraded, since others have more use for its memory.
    Evicted,
    /// It is to be downgraded, since nobody has written it for longer than counts last.
    LetGo,
    /// What was decided is taken back.
    Withdrawn,
    /// It is upgraded.
    Upgraded,
    /// It is downgraded.
    Downgraded,
    /// A move has failed.
    Failed,
}

impl What {
    /// As users read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Judged => "judged",
            Self::WantsUpgrade => "wants-upgrade",
            Self::Predicted => "predicted",
            Self::WantsDowngrade => "wants-downgrade",
            Self::Evicted => "evicted",
            Self::LetGo => "let-go",
            Self::Withdrawn => "withdrawn",
            Self::Upgraded => "upgraded",
            Self::Downgraded => "downgraded",
            Self::Failed => "failed",
        }
    }
}

/// Something that has happened to a range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// When.
    pub at: Time,
    /// Of which file.
    pub file: FileId,
    /// How it was called when it was opened.
    pub name: u64,
    /// Which pages.
    pub pages: Range<u64>,
    /// What is counted of it.
    pub counts: Counts,
    /// By what it is judged, in percent.
    pub metric: Option<u64>,
    /// What.
    pub what: What,
}

/// Decisions that nobody has asked for yet.
#[derive(Default)]
pub(crate) struct Trace {
    decisions: VecDeque<Decision>,
    lost: u64,
}

impl Trace {
    pub fn add(&mut self, decision: Decision) {
        if self.decisions.len() == MOST {
            self.decisions.pop_front();
            self.lost += 1;
        }
        self.decisions.push_back(decision);
    }

    /// Those that there are, and how many were lost before them.
    pub fn take(&mut self) -> (Vec<Decision>, u64) {
        let lost = core::mem::take(&mut self.lost);
        (self.decisions.drain(..).collect(), lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asks_for_is_lost_and_counted() {
        let mut trace = Trace::default();
        let decision = |at| Decision {
            at: Time::from_picos(at),
            file: FileId(0),
            name: 0,
            pages: 0..1,
            counts: Counts::default(),
            metric: None,
            what: What::Judged,
        };
        (0..MOST as u64 + 3).for_each(|at| trace.add(decision(at)));
        let (decisions, lost) = trace.take();
        assert_eq!((decisions.len(), lost), (MOST, 3));
        assert_eq!(decisions[0], decision(3));
        assert_eq!(trace.take(), (Vec::new(), 0));
    }
}
