//! The thesis's policy, which sees further: what an append stream writes next is in the device's
//! memory before its first write.
//!
//! The ratio alone has to see each range written F times before it decides, and syncs of these
//! writes wait for flash: with small ranges that is most of a log, and with ranges of a page all of
//! it. An append stream says where it goes on, so what is known of it counts for what comes.

use crate::policy::Appends;
use crate::{Counts, Policy, Ratio, Verdict};

/// Beyond the end of a stream it looks this much further than its largest sync.
const FURTHER: u64 = 1;

/// The policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Predict {
    /// Judges ranges, and streams as if each were one.
    pub ratio: Ratio,
}

impl Policy for Predict {
    fn judge(&self, counts: Counts) -> Verdict {
        self.ratio.judge(counts)
    }

    fn metric(&self, counts: Counts) -> Option<u64> {
        self.ratio.metric(counts)
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn lets_go(&self) -> bool {
        true
    }

    fn ahead(&self, appends: &Appends) -> u64 {
        let is_stream = appends.steps >= self.ratio.after_writes;
        match is_stream && self.ratio.judge(appends.counts) == Verdict::Upgrade {
            true => u64::from(appends.reach) + FURTHER,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_ahead_of_streams_that_are_synced() {
        let predict = Predict {
            ratio: Ratio::THESIS,
        };
        let stream = |steps, writes, write_backs| Appends {
            end: 9,
            steps,
            reach: 3,
            counts: Counts {
                writes,
                write_backs,
            },
        };
        assert_eq!(predict.ahead(&stream(5, 6, 6)), 4);
        assert_eq!(predict.ahead(&stream(4, 6, 6)), 0, "it may be none");
        assert_eq!(predict.ahead(&stream(5, 5, 5)), 0, "nothing before F");
        assert_eq!(predict.ahead(&stream(90, 90, 9)), 0, "it is seldom synced");
    }
}
