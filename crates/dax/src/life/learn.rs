//! What upgrades have gained, for a policy that wants to know.

use super::Dax;
use crate::policy::{Lesson, Policy};
use crate::stage::Stage;
use crate::tracker::{Counts, FileId, RangeId};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use units::{Picos, Time};

/// Ranges that were downgraded last, of which it is known whether they come back.
const REMEMBERED: usize = 64;
/// A span counts for one in so many of a mean.
const WEIGHT: u64 = 8;

/// A mean of the last spans.
#[derive(Clone, Copy, Default)]
struct Mean(Option<Picos>);

impl Mean {
    fn add(&mut self, span: Picos) {
        self.0 = Some(match self.0.map(Picos::get) {
            None => span,
            Some(mean) => Picos::new(mean - mean / WEIGHT + span.get() / WEIGHT),
        });
    }

    fn get(self) -> Picos {
        self.0.unwrap_or(Picos::ZERO)
    }
}

/// What is known of gains and costs.
#[derive(Default)]
pub(super) struct Gains {
    /// By range: syncs that it was served by memory since it is there.
    served: Vec<u32>,
    usual: Mean,
    light: Mean,
    upgrades: Mean,
    left: VecDeque<(Time, FileId, u32)>,
}

impl<P: Policy> Dax<P> {
    /// A sync took so long, and was served by the device's memory alone or not. Told for policies
    /// that learn.
    pub fn timed_sync(&mut self, is_light: bool, took: Picos) {
        if !self.policy.learns() {
            return;
        }
        match is_light {
            true => self.gains.light.add(took),
            false => self.gains.usual.add(took),
        }
    }

    /// A sync of these pages was served by the device's memory alone.
    pub fn served(&mut self, file: FileId, page: u64, pages: u32) {
        if !self.policy.learns() {
            return;
        }
        for (range, _) in self.parts(page, pages) {
            let id = self.tracker.range(file, range);
            if self.tracker.stage(id).is_on_device() {
                let served = self.served_of(id);
                *served = served.saturating_add(1);
            }
            self.tracker.settle(id);
        }
    }

    fn served_of(&mut self, id: RangeId) -> &mut u32 {
        let served = &mut self.gains.served;
        if served.len() <= id as usize {
            served.resize(id as usize + 1, 0);
        }
        &mut served[id as usize]
    }

    /// A range is judged that stays where it is.
    pub(super) fn learn_missed(&mut self, id: RangeId) {
        if self.policy.learns() && self.tracker.stage(id) == Stage::Plain {
            self.policy.learn(Lesson::Missed(self.tracker.counts(id)));
        }
    }

    /// A range is to be upgraded.
    pub(super) fn learn_return(&mut self, file: FileId, range: u32, now: Time) {
        if !self.policy.learns() {
            return;
        }
        let left = &mut self.gains.left;
        let alive = self.settings.write_delay;
        while left.pop_front_if(|(at, ..)| *at + alive < now).is_some() {}
        if let Some(at) = left
            .iter()
            .position(|(_, of, nth)| (*of, *nth) == (file, range))
        {
            left.remove(at);
            self.policy.learn(Lesson::Returned);
        }
    }

    /// A sync found no memory.
    pub(super) fn learn_crowded(&mut self) {
        if self.policy.learns() {
            self.policy.learn(Lesson::Crowded);
        }
    }

    /// A range was upgraded in so long.
    pub(super) fn learn_upgrade(&mut self, id: RangeId, took: Picos) {
        if self.policy.learns() {
            self.gains.upgrades.add(took);
            *self.served_of(id) = 0;
        }
    }

    /// A range that was upgraded is it no more, which took so long.
    pub(super) fn learn_left(&mut self, id: RangeId, took: Picos) {
        if !self.policy.learns() {
            return;
        }
        let served = core::mem::take(self.served_of(id));
        let gains = &self.gains;
        // Nobody knows what a sync spares before one of each was seen.
        let Some(usual) = gains.usual.0 else { return };
        let light = gains.light.get();
        let each = usual.saturating_sub(light).get();
        self.policy.learn(Lesson::Left {
            spared: Picos::new(each.saturating_mul(served.into())),
            moved: took + gains.upgrades.get(),
        });
    }

    /// A range was downgraded that is written still.
    pub(super) fn remember_left(&mut self, id: RangeId, now: Time) {
        let is_idle = self.tracker.counts(id) == Counts::default();
        let Some((file, range)) = self.tracker.owner(id).filter(|_| !is_idle) else {
            return;
        };
        if self.policy.learns() {
            if self.gains.left.len() == REMEMBERED {
                self.gains.left.pop_front();
            }
            self.gains.left.push_back((now, file, range));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{AnyPolicy, Dax, FileId, PolicyKind, Ratio, Settings};
    use units::{Picos, Time};

    fn at(micros: u64) -> Time {
        Time::from_picos(micros * 1_000_000)
    }

    /// Ranges of four pages; every sync took 100 us, and one by memory 1 us.
    fn learning() -> Dax {
        let settings = Settings {
            kind: PolicyKind::Adaptive,
            order: 2,
            ..Settings::default()
        };
        let mut dax = Dax::new(&settings).expect("good settings");
        dax.timed_sync(false, Picos::from_micros(100));
        dax.timed_sync(true, Picos::from_micros(1));
        dax
    }

    fn now_of(dax: &Dax) -> Ratio {
        let AnyPolicy::Adaptive(policy) = dax.policy() else {
            panic!("it is adaptive");
        };
        *policy.thresholds()
    }

    fn move_all(dax: &mut Dax, begun: Time, ended: Time) {
        while let Some(job) = dax.next_job(begun) {
            let _ = dax.finish(job, true, ended);
        }
    }

    /// Six synced writes have upgraded a range.
    fn upgraded() -> (Dax, FileId) {
        let mut dax = learning();
        let file = dax.open();
        for _ in 0..6 {
            dax.wrote(file, 0, 1, at(0));
            dax.wrote_back(file, 0, 1, at(0));
        }
        move_all(&mut dax, at(0), at(0));
        (dax, file)
    }

    /// So many syncs of an upgraded range are served; it is let go in so long.
    fn life(served: u32, moved: u64) -> Ratio {
        let (mut dax, file) = upgraded();
        (0..served).for_each(|_| dax.served(file, 3, 1));
        let later = 30_000_000;
        move_all(&mut dax, at(later), at(later + moved));
        assert_eq!(dax.stats().downgrades, 1);
        dax.audit(&[file]);
        now_of(&dax)
    }

    #[test]
    fn an_upgrade_is_worth_what_its_syncs_have_spared() {
        assert_eq!(life(2, 100), Ratio::THESIS, "2 of 99 us against 100 us");
        assert_eq!(life(2, 300).after_writes, 11);
        assert_eq!(life(0, 0).after_writes, 11, "in vain");
    }

    #[test]
    fn a_file_that_is_removed_leaves_too() {
        for (served, after) in [(3, 5), (0, 11)] {
            let (mut dax, file) = upgraded();
            (0..served).for_each(|_| dax.served(file, 0, 1));
            dax.forget(file);
            assert_eq!(now_of(&dax).after_writes, after);
            assert!({
                dax.next_job(at(40_000_000));
                dax.is_idle()
            });
        }
    }

    /// A page that is synced behind each write, then seldom, then behind each again.
    #[test]
    fn a_range_that_comes_back_was_sent_away_too_early() {
        let mut dax = learning();
        let file = dax.open();
        let write = |dax: &mut Dax, now, is_synced: bool| {
            dax.wrote(file, 0, 1, now);
            if is_synced {
                dax.wrote_back(file, 0, 1, now);
            }
            move_all(dax, now, now);
        };
        (0..6).for_each(|_| write(&mut dax, at(0), true));
        (0..40).for_each(|_| dax.served(file, 0, 1));
        (0..40).for_each(|_| write(&mut dax, at(1), false));
        write(&mut dax, at(1), true);
        assert_eq!(
            (dax.stats().downgrades, now_of(&dax).downgrade_below),
            (1, 30)
        );
        (0..90).for_each(|_| write(&mut dax, at(2), true));
        assert_eq!(
            (dax.stats().upgrades, now_of(&dax).downgrade_below),
            (2, 22)
        );
    }

    #[test]
    fn others_learn_nothing_and_remember_nothing() {
        let mut dax = Dax::new(&Settings::default()).expect("good settings");
        let file = dax.open();
        dax.timed_sync(false, Picos::from_micros(1));
        dax.served(file, 0, 1);
        assert!(dax.gains.served.is_empty() && dax.gains.usual.0.is_none());
        assert!(dax.is_idle());
    }
}
