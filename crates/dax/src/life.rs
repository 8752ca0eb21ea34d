//! Ranges through their stages.

mod ahead;
mod evict;
mod learn;

use crate::job::{DaxStats, Ended, Job, Move, RangeView};
use crate::policy::{AnyPolicy, Policy, Verdict};
use crate::settings::{BadSetting, Settings};
use crate::spans::{By, Spans};
use crate::stage::Stage;
use crate::trace::{Decision, Trace, What};
use crate::tracker::{Counts, FileId, Footprint, RangeId, Tracker};
use ahead::Stream;
use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::Range;
use learn::Gains;
use units::{Picos, Time};

/// Transparent DAX of one file system.
pub struct Dax<P = AnyPolicy> {
    tracker: Tracker,
    policy: P,
    settings: Settings,
    spans: Vec<Spans>,
    /// How files are appended to, if the policy wants to know.
    streams: Vec<Stream>,
    /// By file: how its decisions call it.
    names: Vec<u64>,
    looks_ahead: bool,
    /// Ranges that are to be moved, and since when.
    queue: VecDeque<(Time, RangeId)>,
    /// Ranges whose job failed, and when they are tried again.
    failed: VecDeque<(Time, RangeId)>,
    /// Ranges that workers have, and since when.
    taken: Vec<(FileId, u32, Time)>,
    /// What upgrades have gained, if the policy wants to know.
    gains: Gains,
    stats: DaxStats,
    trace: Option<Trace>,
}

impl Dax {
    /// With the policy of the settings.
    ///
    /// # Errors
    /// Settings that make no sense.
    pub fn new(settings: &Settings) -> Result<Self, BadSetting> {
        Self::with_policy(settings, settings.chosen())
    }

    /// Changes a setting by its name, as users write it, while it is at work. What was decided
    /// stays so until it is judged anew.
    ///
    /// # Errors
    /// There is no such setting, it cannot be changed, or it makes no sense.
    pub fn change(&mut self, key: &str, value: &str) -> Result<(), BadSetting> {
        if key == "order" {
            return Err(BadSetting::Fixed { key: "order" });
        }
        let kind = self.settings.kind;
        if !kind.judges() && key != "reserve" {
            return Err(BadSetting::Nobody {
                key: key.to_string(),
                kind,
            });
        }
        let mut settings = self.settings;
        settings.set(key, value)?;
        settings.check()?;
        self.settings = settings;
        self.policy = settings.chosen();
        self.tracker.keep_idle(self.policy.lets_go());
        self.looks_ahead = self.policy.looks_ahead();
        if !self.looks_ahead {
            self.streams
                .iter_mut()
                .for_each(|stream| *stream = Stream::default());
        }
        Ok(())
    }
}

impl<P: Policy> Dax<P> {
    /// With a policy of one's own; that of the settings counts for nothing.
    ///
    /// # Errors
    /// Settings that make no sense.
    pub fn with_policy(settings: &Settings, policy: P) -> Result<Self, BadSetting> {
        settings.check()?;
        let (write, write_back) = (settings.write_delay, settings.write_back_delay);
        let mut tracker = Tracker::new(settings.order, write, write_back);
        tracker.keep_idle(policy.lets_go());
        Ok(Self {
            tracker,
            looks_ahead: policy.looks_ahead(),
            policy,
            settings: *settings,
            spans: Vec::new(),
            streams: Vec::new(),
            names: Vec::new(),
            queue: VecDeque::new(),
            failed: VecDeque::new(),
            taken: Vec::new(),
            gains: Gains::default(),
            stats: DaxStats::default(),
            trace: None,
        })
    }

    /// What is set.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Keeps what is judged and decided from now on, for [`Dax::take_trace`].
    pub fn keep_trace(&mut self) {
        self.trace.get_or_insert_default();
    }

    /// What was judged and decided since it was asked for last, and how many of it are lost since
    /// nobody has asked for so long.
    pub fn take_trace(&mut self) -> (Vec<Decision>, u64) {
        self.trace
            .as_mut()
            .map_or_else(Default::default, Trace::take)
    }

    fn tell(&mut self, id: RangeId, what: What, at: Time) {
        let Some(trace) = &mut self.trace else {
            return;
        };
        let Some((file, range)) = self.tracker.owner(id) else {
            return;
        };
        let counts = self.tracker.counts(id);
        trace.add(Decision {
            at,
            file,
            name: self.names[file.0 as usize],
            pages: self.tracker.pages_of(range),
            counts,
            metric: self.policy.metric(counts),
            what,
        });
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// A file that is watched from now on.
    pub fn open(&mut self) -> FileId {
        self.open_as(0)
    }

    /// As [`Dax::open`], of a name that decisions about it say. Its number may be another file's
    /// before they are read.
    pub fn open_as(&mut self, name: u64) -> FileId {
        let file = self.tracker.open();
        let at = file.0 as usize;
        if at == self.spans.len() {
            self.spans.push(Spans::default());
            self.streams.push(Stream::default());
            self.names.push(name);
        }
        self.names[at] = name;
        file
    }

    /// A file is none any more: what is known of it is forgotten, mappings among it. Jobs under way
    /// end as [`Ended::Gone`].
    pub fn forget(&mut self, file: FileId) {
        self.cut(file, 0);
        self.spans[file.0 as usize] = Spans::default();
        self.streams[file.0 as usize] = Stream::default();
        self.tracker.close(file);
    }

    /// Pages of a file are written.
    #[inline]
    pub fn wrote(&mut self, file: FileId, page: u64, pages: u32, now: Time) {
        // Most writes are of one range.
        match self.tracker.only_range_of(page, pages) {
            Some(range) => self.tracker.count_writes(file, range, pages, now),
            None => {
                for (range, pages) in self.parts(page, pages) {
                    self.tracker.count_writes(file, range, pages, now);
                }
            }
        }
        if self.looks_ahead {
            self.streams[file.0 as usize].wrote(pages);
        }
    }

    /// A sync writes pages of a file back. Those of a range in one call are judged once.
    pub fn wrote_back(&mut self, file: FileId, page: u64, pages: u32, now: Time) {
        self.count_sync(file, (page, pages), true, now);
    }

    /// As [`Dax::wrote_back`], by a sync that takes the usual way wherever the pages are. It
    /// counts, and no range is upgraded for it.
    pub fn wrote_back_usually(&mut self, file: FileId, page: u64, pages: u32, now: Time) {
        self.count_sync(file, (page, pages), false, now);
    }

    fn count_sync(&mut self, file: FileId, synced: (u64, u32), may_gain: bool, now: Time) {
        let (page, pages) = synced;
        for (range, pages) in self.parts(page, pages) {
            let id = self.tracker.count_write_backs(file, range, pages, now);
            self.judge(file, range, id, may_gain, now);
        }
        if self.looks_ahead && pages > 0 {
            self.look_ahead(file, synced, may_gain, now);
        }
    }

    /// Ranges that pages lie in, with how many in each.
    fn parts(&self, page: u64, pages: u32) -> impl Iterator<Item = (u32, u32)> + use<P> {
        let end = page.saturating_add(u64::from(pages));
        let length = self.tracker.pages_of(0).end;
        let mut next = page;
        core::iter::from_fn(move || {
            let range = u32::try_from(next / length).ok().filter(|_| next < end)?;
            let until = ((next / length + 1) * length).min(end);
            let part = (until - next) as u32;
            next = until;
            Some((range, part))
        })
    }

    fn judge(&mut self, file: FileId, range: u32, id: RangeId, may_gain: bool, now: Time) {
        let verdict = self.policy.judge(self.tracker.counts(id));
        if self.trace.is_some() {
            self.tell(id, What::Judged, now);
        }
        let (stage, what) = match (self.tracker.stage(id), verdict) {
            // Nor is there anything to be learnt of it.
            (Stage::Plain, _) if !may_gain => return,
            // They are there already.
            (Stage::Plain, _) if self.is_asked_for(file, range) => return,
            (Stage::Plain, Verdict::Upgrade) => {
                self.learn_return(file, range, now);
                (Stage::ToUpgrade, What::WantsUpgrade)
            }
            (Stage::Upgraded, Verdict::Downgrade) => (Stage::ToDowngrade, What::WantsDowngrade),
            (Stage::ToUpgrade, Verdict::Downgrade) => (Stage::Plain, What::Withdrawn),
            (Stage::ToDowngrade, Verdict::Upgrade) => (Stage::Upgraded, What::Withdrawn),
            // Who has it finds it as it was.
            _ => {
                self.learn_missed(id);
                return;
            }
        };
        self.decide(id, stage, what, now);
    }

    /// Whether programs have asked for all pages of a range.
    fn is_asked_for(&self, file: FileId, range: u32) -> bool {
        let pages = self.tracker.pages_of(range);
        self.spans[file.0 as usize].has_all(pages, By::Request)
    }

    /// Sets the stage of a range that nobody has, and has it moved if it is to be.
    fn decide(&mut self, id: RangeId, stage: Stage, what: What, now: Time) {
        let stats = &mut self.stats;
        match what {
            What::WantsUpgrade => stats.wanted_upgrades += 1,
            What::Predicted => {
                stats.wanted_upgrades += 1;
                stats.predicted += 1;
            }
            What::WantsDowngrade => stats.wanted_downgrades += 1,
            What::Evicted => stats.evictions += 1,
            What::LetGo => stats.let_go += 1,
            _ => stats.withdrawn += 1,
        }
        self.tell(id, what, now);
        self.tracker.set_stage(id, stage);
        if matches!(stage, Stage::ToUpgrade | Stage::ToDowngrade) {
            self.enqueue(id, now);
        }
    }

    fn enqueue(&mut self, id: RangeId, now: Time) {
        // One that was taken back is in line still.
        if !self.tracker.is_queued(id) {
            self.tracker.set_queued(id, true);
            self.queue.push_back((now, id));
        }
    }

    /// When [`Dax::next_job`] may have one that it has not now; None: not before more is told.
    pub fn next_retry(&self) -> Option<Time> {
        self.failed.front().map(|(time, _)| *time)
    }

    /// The next range to be moved. Who takes it has it until [`Dax::finish`].
    pub fn next_job(&mut self, now: Time) -> Option<Job> {
        self.tracker.advance(now);
        self.let_go(now);
        while let Some((since, id)) = self.failed.pop_front_if(|(time, _)| *time <= now) {
            let counts = self.tracker.counts(id);
            // It may not be worth it any more.
            if self.tracker.stage(id) == Stage::ToUpgrade
                && self.policy.judge(counts) != Verdict::Upgrade
            {
                self.decide(id, Stage::Plain, What::Withdrawn, now);
            }
            self.queue.push_back((since, id));
        }
        for _ in 0..self.queue.len() {
            let (since, id) = self.queue.pop_front()?;
            let owner = self.tracker.owner(id);
            let (to, stage) = match self.tracker.stage(id) {
                Stage::ToUpgrade if now < since + self.settings.wait => {
                    self.queue.push_back((since, id));
                    continue;
                }
                Stage::ToUpgrade => (Move::Upgrade, Stage::Upgrading),
                Stage::ToDowngrade => (Move::Downgrade, Stage::Downgrading),
                _ => {
                    self.tracker.set_queued(id, false);
                    self.tracker.settle(id);
                    continue;
                }
            };
            let Some((file, range)) = owner else {
                continue;
            };
            // One that was cut off may be moving still.
            if self.is_with_a_worker(file, range) {
                self.queue.push_back((since, id));
                continue;
            }
            self.tracker.set_queued(id, false);
            self.tracker.set_taken(id, true);
            self.tracker.set_stage(id, stage);
            self.taken.push((file, range, now));
            return Some(Job {
                file,
                pages: self.tracker.pages_of(range),
                to,
                id,
                range,
            });
        }
        None
    }

    fn is_with_a_worker(&self, file: FileId, range: u32) -> bool {
        let mut taken = self.taken.iter();
        taken.any(|(of, nth, _)| (*of, *nth) == (file, range))
    }

    /// Upgraded ranges of which nothing is counted any more are to be downgraded, if the policy has
    /// it so.
    fn let_go(&mut self, now: Time) {
        for id in self.tracker.take_idle() {
            let is_idle = self.tracker.counts(id) == Counts::default();
            if is_idle && self.is_ahead(id, now) {
                self.tracker.settle(id);
                continue;
            }
            match self.tracker.stage(id) {
                Stage::Upgraded if is_idle => {
                    self.decide(id, Stage::ToDowngrade, What::LetGo, now);
                }
                // It is upgraded later, and idle then.
                Stage::ToUpgrade | Stage::Upgrading if is_idle => self.tracker.put_idle(id),
                _ => self.tracker.settle(id),
            }
        }
    }

    /// A job has ended, well or not.
    pub fn finish(&mut self, job: Job, is_done: bool, now: Time) -> Ended {
        let Job {
            file,
            id,
            range,
            to,
            ..
        } = job;
        self.tracker.advance(now);
        let mut took = Picos::ZERO;
        self.taken.retain(|(of, nth, since)| {
            let is_it = (*of, *nth) == (file, range);
            if is_it {
                took = now.saturating_since(*since);
            }
            !is_it
        });
        self.tracker.set_taken(id, false);
        let spans = &mut self.spans[file.0 as usize];
        let ended = match (self.tracker.owner(id), to, is_done) {
            (None, ..) => {
                self.stats.gone += 1;
                Ended::Gone
            }
            (Some(_), Move::Upgrade, true) => {
                spans.add(job.pages, By::Policy);
                self.tracker.set_stage(id, Stage::Upgraded);
                self.stats.upgrades += 1;
                self.learn_upgrade(id, took);
                // Its stream may be none any more.
                if self.looks_ahead && self.tracker.counts(id) == Counts::default() {
                    self.tracker.put_idle(id);
                }
                Ended::Moved
            }
            (Some(_), Move::Downgrade, true) => {
                spans.remove(job.pages, By::Policy);
                self.tracker.set_stage(id, Stage::Plain);
                self.stats.downgrades += 1;
                self.learn_left(id, took);
                self.remember_left(id, now);
                Ended::Moved
            }
            (Some(_), to, false) => {
                let stage = match to {
                    Move::Upgrade => Stage::ToUpgrade,
                    Move::Downgrade => Stage::ToDowngrade,
                };
                self.tracker.set_stage(id, stage);
                self.tracker.set_queued(id, true);
                self.failed.push_back((now + self.settings.retry, id));
                self.stats.failures += 1;
                Ended::Again
            }
        };
        self.tell(
            id,
            match (ended, to) {
                (Ended::Moved, Move::Upgrade) => What::Upgraded,
                (Ended::Moved, Move::Downgrade) => What::Downgraded,
                _ => What::Failed,
            },
            now,
        );
        self.tracker.settle(id);
        ended
    }

    /// A file ends at a page now: ranges behind it are forgotten. The one that it ends in stays.
    pub fn truncate(&mut self, file: FileId, pages: u64) {
        let length = self.tracker.pages_of(0).end;
        if let Ok(first) = u32::try_from(pages.div_ceil(length)) {
            self.cut(file, first);
            self.streams[file.0 as usize].truncate(pages);
        }
    }

    fn cut(&mut self, file: FileId, first: u32) {
        for (range, id) in self.tracker.ranges_from(file, first) {
            let pages = self.tracker.pages_of(range);
            self.spans[file.0 as usize].remove(pages, By::Policy);
            if self.tracker.stage(id).is_on_device() {
                self.learn_left(id, Picos::ZERO);
            }
            self.tracker.remove(id);
        }
    }

    /// A program asks for pages in persistent memory; gives those that are not there yet.
    pub fn map(&mut self, file: FileId, pages: Range<u64>) -> Vec<Range<u64>> {
        self.spans[file.0 as usize].add(pages, By::Request)
    }

    /// A program needs pages there no more; gives those that nobody else wants there.
    pub fn unmap(&mut self, file: FileId, pages: Range<u64>) -> Vec<Range<u64>> {
        self.spans[file.0 as usize].remove(pages, By::Request)
    }

    /// Which pages of a file are in persistent memory.
    pub fn spans(&self, file: FileId) -> &Spans {
        &self.spans[file.0 as usize]
    }

    /// Whether a range of a file is counted, upgraded or on its way.
    pub fn has_ranges(&self, file: FileId) -> bool {
        !self.tracker.ranges_from(file, 0).is_empty()
    }

    /// The ranges of a file of which something is known.
    pub fn ranges(&mut self, file: FileId, now: Time) -> Vec<RangeView> {
        self.tracker.advance(now);
        let ranges = self.tracker.ranges_from(file, 0).into_iter();
        let view = |(range, id)| RangeView {
            pages: self.tracker.pages_of(range),
            counts: self.tracker.counts(id),
            stage: self.tracker.stage(id),
            metric: self.policy.metric(self.tracker.counts(id)),
        };
        ranges.map(view).collect()
    }

    /// What has happened.
    pub const fn stats(&self) -> DaxStats {
        self.stats
    }

    /// What memory it takes.
    pub fn footprint(&self) -> Footprint {
        self.tracker.footprint()
    }

    /// Whether nothing is known of any file, mappings apart.
    pub fn is_idle(&self) -> bool {
        self.tracker.footprint().ranges == 0 && self.taken.is_empty()
    }

    /// Checks what must hold between its parts; for tests.
    ///
    /// # Panics
    /// It does not hold.
    pub fn audit(&self, files: &[FileId]) {
        self.tracker.audit();
        for file in files {
            for (range, id) in self.tracker.ranges_from(*file, 0) {
                let stage = self.tracker.stage(id);
                let pages = self.tracker.pages_of(range);
                let spans = self.spans(*file);
                let is_there = spans.has_all(pages, By::Policy);
                assert_eq!(is_there, stage.is_on_device(), "range {range} is {stage}");
                assert_eq!(self.tracker.is_taken(id), stage.is_moving());
                let waits = matches!(stage, Stage::ToUpgrade | Stage::ToDowngrade);
                assert!(
                    !waits || self.tracker.is_queued(id),
                    "range {range} waits in no line"
                );
            }
        }
    }
}
