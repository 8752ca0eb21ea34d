//! The thesis's policy.

use crate::{Counts, Policy, Verdict};

/// The thesis's policy (§4.2): the share of writes that syncs write back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ratio {
    /// U: upgrade above so many percent.
    pub upgrade_above: u32,
    /// D: downgrade below so many percent.
    pub downgrade_below: u32,
    /// F: nothing before so many writes, and these are not counted.
    pub after_writes: u32,
}

impl Ratio {
    /// The thesis's best settings (chapter 6).
    pub const THESIS: Self = Self {
        upgrade_above: 60,
        downgrade_below: 30,
        after_writes: 5,
    };

    /// What M is at most, where syncs do not write back more than was written: with one write more
    /// than F, each of which was synced.
    pub fn most(&self) -> u64 {
        100 * (u64::from(self.after_writes) + 1)
    }

    /// M: write-backs in percent of the writes beyond F (listing 5.1), rounded down; None before
    /// there is one.
    pub fn metric(&self, counts: Counts) -> Option<u64> {
        let writes = counts.writes.checked_sub(self.after_writes)?;
        (100 * u64::from(counts.write_backs)).checked_div(u64::from(writes))
    }
}

impl Policy for Ratio {
    fn judge(&self, counts: Counts) -> Verdict {
        match self.metric(counts) {
            Some(metric) if metric > u64::from(self.upgrade_above) => Verdict::Upgrade,
            Some(metric) if metric < u64::from(self.downgrade_below) => Verdict::Downgrade,
            _ => Verdict::Stay,
        }
    }

    fn metric(&self, counts: Counts) -> Option<u64> {
        self.metric(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(writes: u32, write_backs: u32) -> Verdict {
        Ratio::THESIS.judge(Counts {
            writes,
            write_backs,
        })
    }

    #[test]
    fn the_ratio_decides_beyond_the_first_writes() {
        assert_eq!(judged(5, 5), Verdict::Stay, "nothing before F writes");
        assert_eq!(judged(6, 6), Verdict::Upgrade);
        assert_eq!(judged(6, 0), Verdict::Downgrade);
        assert_eq!(judged(105, 60), Verdict::Stay, "60 % is not above 60 %");
        assert_eq!(judged(105, 61), Verdict::Upgrade);
        assert_eq!(judged(105, 30), Verdict::Stay, "30 % is not below 30 %");
        assert_eq!(judged(105, 29), Verdict::Downgrade);
        assert_eq!(judged(u32::MAX, u32::MAX), Verdict::Upgrade);
        assert_eq!(judged(0, 0), Verdict::Stay);
    }

    #[test]
    fn nothing_is_above_the_most() {
        for after_writes in 0..20 {
            let ratio = Ratio {
                after_writes,
                ..Ratio::THESIS
            };
            let seen = (0..200).flat_map(|writes| {
                let counts = move |write_backs| Counts {
                    writes,
                    write_backs,
                };
                (0..=writes).filter_map(move |backs| ratio.metric(counts(backs)))
            });
            assert_eq!(seen.max(), Some(ratio.most()));
        }
    }
}
