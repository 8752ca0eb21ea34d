//! The thesis's policy with thresholds that follow what came of its decisions.
//!
//! Fixed thresholds are a guess at what an upgrade will gain. What it has gained is known later:
//! syncs that did not wait for flash, against the time that moving took. And what was not upgraded
//! says by how many syncs it waited. So each decision that was wrong moves the threshold that made
//! it, and what is wrong again and again moves it later. Thresholds are one for all files: while
//! some upgrades spare more than others lose, what is lost is the price of what is spared, and a
//! threshold that is raised for the ones would keep out the others.

use crate::policy::Lesson;
use crate::{Counts, Policy, Ratio, Verdict};

/// So many syncs have to wait for flash until a threshold that keeps their ranges out goes down.
const PATIENCE: u32 = 8;
/// Each upgrade in vain doubles that, up to here.
const MOST_PATIENCE: u32 = 1024;
/// U is not lowered below, in percent.
const LEAST_UPGRADE: u32 = 10;
/// U is not raised above, in percent; what a user has set above stays.
const MOST_UPGRADE: u32 = 95;
/// F is not raised above, or above four times what is set if that is more.
const MOST_AFTER: u32 = 20;

/// What a range has spared or lost counts the less, the more ranges have left since: with each by
/// so much of it. What the best has spared is spent by a few hundred that lose a thousandth of it.
const FORGETS: u64 = 64;

/// The policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Adaptive {
    set: Ratio,
    now: Ratio,
    /// Syncs that waited since F kept their ranges out, and since U did.
    missed: (u32, u32),
    patience: u32,
    /// What ranges that have left of late have spared less what their moves took, in picoseconds.
    balance: u64,
}

impl Adaptive {
    /// With thresholds to begin with.
    pub const fn new(set: Ratio) -> Self {
        Self {
            set,
            now: set,
            missed: (0, 0),
            patience: PATIENCE,
            balance: 0,
        }
    }

    /// The thresholds as they are.
    pub const fn thresholds(&self) -> &Ratio {
        &self.now
    }

    fn missed(&mut self, counts: Counts) {
        match self.now.metric(counts) {
            None => {
                self.missed.0 += 1;
                if self.missed.0 >= self.patience {
                    self.now.after_writes /= 2;
                    self.missed.0 = 0;
                }
            }
            Some(metric) if metric > u64::from(LEAST_UPGRADE) => {
                self.missed.1 += 1;
                if self.missed.1 >= self.patience {
                    let upgrade = &mut self.now.upgrade_above;
                    *upgrade = (*upgrade - *upgrade / 8).max(LEAST_UPGRADE.min(*upgrade));
                    self.missed.1 = 0;
                }
            }
            // No threshold is low enough.
            Some(_) => {}
        }
        self.keep_order();
    }

    /// An upgrade was not worth it, or there is no room for more.
    fn be_cautious(&mut self) {
        let most = MOST_AFTER.max(self.set.after_writes.saturating_mul(4));
        let Ratio {
            upgrade_above: upgrade,
            downgrade_below: downgrade,
            after_writes: after,
        } = &mut self.now;
        *after = (*after).saturating_mul(2).saturating_add(1).min(most);
        *upgrade += MOST_UPGRADE.saturating_sub(*upgrade).div_ceil(4);
        *downgrade += self
            .set
            .downgrade_below
            .saturating_sub(*downgrade)
            .div_ceil(4);
        self.missed = (0, 0);
        self.keep_order();
    }

    /// D is not above U, and something is above U.
    fn keep_order(&mut self) {
        let most = self.now.most() - 1;
        let upgrade = u64::from(self.now.upgrade_above).min(most);
        self.now.upgrade_above = upgrade as u32;
        self.now.downgrade_below = self.now.downgrade_below.min(self.now.upgrade_above);
    }
}

impl Policy for Adaptive {
    fn judge(&self, counts: Counts) -> Verdict {
        self.now.judge(counts)
    }

    fn metric(&self, counts: Counts) -> Option<u64> {
        self.now.metric(counts)
    }

    /// What stays for ever says never whether it was worth it.
    fn lets_go(&self) -> bool {
        true
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, lesson: Lesson) {
        match lesson {
            Lesson::Missed(counts) => self.missed(counts),
            Lesson::Left { spared, moved } => {
                self.balance -= self.balance / FORGETS;
                // Nothing is owed: thresholds that were raised have paid for it.
                let balance = self.balance.saturating_add(spared.get());
                self.balance = balance.saturating_sub(moved.get());
                if spared > moved {
                    self.patience = (self.patience / 2).max(PATIENCE);
                } else if self.balance == 0 {
                    self.patience = (self.patience * 2).min(MOST_PATIENCE);
                    self.be_cautious();
                }
            }
            Lesson::Returned => {
                let downgrade = &mut self.now.downgrade_below;
                *downgrade -= downgrade.div_ceil(4);
            }
            Lesson::Crowded => self.be_cautious(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Picos, Stream};

    fn counts(writes: u32, write_backs: u32) -> Counts {
        Counts {
            writes,
            write_backs,
        }
    }

    fn left(spared: u64, moved: u64) -> Lesson {
        Lesson::Left {
            spared: Picos::from_micros(spared),
            moved: Picos::from_micros(moved),
        }
    }

    #[test]
    fn what_waits_lowers_the_threshold_that_keeps_it_out() {
        let mut policy = Adaptive::new(Ratio::THESIS);
        (0..PATIENCE - 1).for_each(|_| policy.learn(Lesson::Missed(counts(2, 2))));
        assert_eq!(*policy.thresholds(), Ratio::THESIS, "it is patient");
        policy.learn(Lesson::Missed(counts(2, 2)));
        assert_eq!(policy.thresholds().after_writes, 2);
        assert_eq!(policy.thresholds().upgrade_above, 60, "U was no obstacle");
        // Ten writes to a sync: M is 10 to 13 %, too low for any U; with five it is 20 to 26 %.
        (0..900).for_each(|_| policy.learn(Lesson::Missed(counts(102, 10))));
        assert_eq!(policy.thresholds().upgrade_above, 60);
        (0..900).for_each(|_| {
            if policy.judge(counts(102, 20)) != Verdict::Upgrade {
                policy.learn(Lesson::Missed(counts(102, 20)));
            }
        });
        assert_eq!(policy.judge(counts(102, 20)), Verdict::Upgrade);
        assert_eq!(policy.judge(counts(102, 9)), Verdict::Downgrade);
    }

    #[test]
    fn upgrades_in_vain_raise_them_and_are_tried_later_each_time() {
        let mut policy = Adaptive::new(Ratio::THESIS);
        policy.learn(left(8, 8));
        let raised = *policy.thresholds();
        assert_eq!((raised.upgrade_above, raised.after_writes), (69, 11));
        (0..2 * PATIENCE - 1).for_each(|_| policy.learn(Lesson::Missed(counts(3, 3))));
        assert_eq!(*policy.thresholds(), raised, "twice as patient");
        policy.learn(Lesson::Missed(counts(3, 3)));
        assert_eq!(policy.thresholds().after_writes, 5);
        policy.learn(Lesson::Crowded);
        assert_eq!(policy.thresholds().after_writes, 11);
    }

    #[test]
    fn what_some_spare_pays_for_others() {
        let mut policy = Adaptive::new(Ratio::THESIS);
        // A log and a table: 300 ms are spared, and thirty times 1 ms is lost.
        for _ in 0..100 {
            policy.learn(left(300_000, 1_000));
            (0..30).for_each(|_| policy.learn(left(0, 1_000)));
            assert_eq!(*policy.thresholds(), Ratio::THESIS);
        }
        // The log is not written any more.
        let lasted = (1..).take_while(|_| {
            policy.learn(left(0, 1_000));
            *policy.thresholds() == Ratio::THESIS
        });
        let lasted = lasted.count();
        assert!((50..400).contains(&lasted), "{lasted}");
        // It is, by a new one that spares little, which pays for little.
        let raised = *policy.thresholds();
        let thresholds = [
            left(3_200, 1_000),
            left(0, 1_000),
            left(0, 1_000),
            left(0, 1_000),
        ];
        let thresholds = thresholds.map(|lesson| {
            policy.learn(lesson);
            policy.thresholds().after_writes
        });
        assert_eq!(thresholds[..2], [raised.after_writes; 2]);
        assert!(thresholds[3] > raised.after_writes, "{thresholds:?}");
    }

    #[test]
    fn who_returns_was_sent_away_too_early() {
        let mut policy = Adaptive::new(Ratio::THESIS);
        policy.learn(Lesson::Returned);
        assert_eq!(policy.thresholds().downgrade_below, 22);
        (0..20).for_each(|_| policy.learn(Lesson::Returned));
        assert_eq!(policy.thresholds().downgrade_below, 0);
        (0..40).for_each(|_| policy.learn(left(0, 1)));
        assert_eq!(
            policy.thresholds().downgrade_below,
            30,
            "not above what is set"
        );
    }

    #[test]
    fn thresholds_make_sense_whatever_is_learnt() {
        let mut random = Stream::new(18, "lessons");
        for set in [
            Ratio::THESIS,
            Ratio {
                upgrade_above: 599,
                downgrade_below: 599,
                after_writes: 5,
            },
            Ratio {
                upgrade_above: 0,
                downgrade_below: 0,
                after_writes: 0,
            },
        ] {
            let mut policy = Adaptive::new(set);
            for _ in 0..20_000 {
                let (writes, backs) = (random.below(40) as u32, random.below(40) as u32);
                policy.learn(match random.below(40) {
                    0 => left(random.below(9), random.below(9)),
                    1 => Lesson::Returned,
                    2 => Lesson::Crowded,
                    _ => Lesson::Missed(counts(writes, backs.min(writes))),
                });
                let now = *policy.thresholds();
                assert!(now.downgrade_below <= now.upgrade_above, "{now:?}");
                assert!(u64::from(now.upgrade_above) < now.most(), "{now:?}");
                assert!(now.after_writes <= 20, "{now:?}");
                assert!(policy.patience <= MOST_PATIENCE);
            }
        }
    }
}
