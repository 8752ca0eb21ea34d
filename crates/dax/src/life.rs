//! Ranges through their stages.

use crate::policy::{Policy, Ratio, Verdict};
use crate::settings::{BadSetting, Settings};
use crate::spans::{By, Spans};
use crate::stage::Stage;
use crate::tracker::{Counts, FileId, Footprint, RangeId, Tracker};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use units::{Picos, Time};

/// Where the pages of a range go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// To the device's memory.
    Upgrade,
    /// To the host's.
    Downgrade,
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
    id: RangeId,
    range: u32,
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
    /// Ranges that the policy wanted downgraded.
    pub wanted_downgrades: u64,
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
}

/// Transparent DAX of one file system.
pub struct Dax<P = Ratio> {
    tracker: Tracker,
    policy: P,
    retry: Picos,
    spans: Vec<Spans>,
    queue: VecDeque<RangeId>,
    /// Ranges whose job failed, and when they are tried again.
    failed: VecDeque<(Time, RangeId)>,
    /// Ranges that workers have.
    taken: Vec<(FileId, u32)>,
    stats: DaxStats,
}

impl Dax<Ratio> {
    /// With the thesis's policy.
    ///
    /// # Errors
    /// Settings that make no sense.
    pub fn new(settings: &Settings) -> Result<Self, BadSetting> {
        Self::with_policy(settings, settings.policy)
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
        Ok(Self {
            tracker: Tracker::new(settings.order, write, write_back),
            policy,
            retry: settings.retry,
            spans: Vec::new(),
            queue: VecDeque::new(),
            failed: VecDeque::new(),
            taken: Vec::new(),
            stats: DaxStats::default(),
        })
    }

    /// The policy, whose thresholds may be changed while it is at work.
    pub fn policy_mut(&mut self) -> &mut P {
        &mut self.policy
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// A file that is watched from now on.
    pub fn open(&mut self) -> FileId {
        let file = self.tracker.open();
        let at = file.0 as usize;
        if at == self.spans.len() {
            self.spans.push(Spans::default());
        }
        file
    }

    /// A file is none any more: what is known of it is forgotten, mappings among it. Jobs under way
    /// end as [`Ended::Gone`].
    pub fn forget(&mut self, file: FileId) {
        self.cut(file, 0);
        self.spans[file.0 as usize] = Spans::default();
        self.tracker.close(file);
    }

    /// Pages of a file are written.
    #[inline]
    pub fn wrote(&mut self, file: FileId, page: u64, pages: u32, now: Time) {
        // Most writes are of one range.
        if let (Some(first), Some(last)) = (
            self.tracker.range_of(page),
            self.tracker.range_of(page + u64::from(pages.max(1)) - 1),
        ) && first == last
            && pages > 0
        {
            self.tracker.count_writes(file, first, pages, now);
        } else {
            for (range, pages) in self.parts(page, pages) {
                self.tracker.count_writes(file, range, pages, now);
            }
        }
    }

    /// A sync writes pages of a file back. Those of a range in one call are judged once.
    pub fn wrote_back(&mut self, file: FileId, page: u64, pages: u32, now: Time) {
        for (range, pages) in self.parts(page, pages) {
            let id = self.tracker.count_write_backs(file, range, pages, now);
            self.judge(file, range, id);
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

    fn judge(&mut self, file: FileId, range: u32, id: RangeId) {
        let verdict = self.policy.judge(self.tracker.counts(id));
        let (stage, counted) = match (self.tracker.stage(id), verdict) {
            (Stage::Plain, Verdict::Upgrade) => {
                let pages = self.tracker.pages_of(range);
                // They are there already.
                if self.spans[file.0 as usize].has_all(pages, By::Request) {
                    return;
                }
                (Stage::ToUpgrade, &mut self.stats.wanted_upgrades)
            }
            (Stage::Upgraded, Verdict::Downgrade) => {
                (Stage::ToDowngrade, &mut self.stats.wanted_downgrades)
            }
            (Stage::ToUpgrade, Verdict::Downgrade) => (Stage::Plain, &mut self.stats.withdrawn),
            (Stage::ToDowngrade, Verdict::Upgrade) => (Stage::Upgraded, &mut self.stats.withdrawn),
            // Who has it finds it as it was.
            _ => return,
        };
        *counted += 1;
        self.tracker.set_stage(id, stage);
        if matches!(stage, Stage::ToUpgrade | Stage::ToDowngrade) {
            self.enqueue(id);
        }
    }

    fn enqueue(&mut self, id: RangeId) {
        // One that was taken back is in line still.
        if !self.tracker.is_queued(id) {
            self.tracker.set_queued(id, true);
            self.queue.push_back(id);
        }
    }

    /// When [`Dax::next_job`] may have one that it has not now; None: not before more is told.
    pub fn next_retry(&self) -> Option<Time> {
        self.failed.front().map(|(time, _)| *time)
    }

    /// The next range to be moved. Who takes it has it until [`Dax::finish`].
    pub fn next_job(&mut self, now: Time) -> Option<Job> {
        self.tracker.advance(now);
        while let Some((_, id)) = self.failed.pop_front_if(|(time, _)| *time <= now) {
            let counts = self.tracker.counts(id);
            // It may not be worth it any more.
            if self.tracker.stage(id) == Stage::ToUpgrade
                && self.policy.judge(counts) != Verdict::Upgrade
            {
                self.tracker.set_stage(id, Stage::Plain);
                self.stats.withdrawn += 1;
            }
            self.queue.push_back(id);
        }
        for _ in 0..self.queue.len() {
            let id = self.queue.pop_front()?;
            let owner = self.tracker.owner(id);
            let (to, stage) = match self.tracker.stage(id) {
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
            if self.taken.contains(&(file, range)) {
                self.queue.push_back(id);
                continue;
            }
            self.tracker.set_queued(id, false);
            self.tracker.set_taken(id, true);
            self.tracker.set_stage(id, stage);
            self.taken.push((file, range));
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

    /// A job has ended, well or not.
    pub fn finish(&mut self, job: Job, is_done: bool, now: Time) -> Ended {
        let Job {
            file, id, range, ..
        } = job;
        self.tracker.advance(now);
        self.taken.retain(|taken| *taken != (file, range));
        self.tracker.set_taken(id, false);
        let spans = &mut self.spans[file.0 as usize];
        let ended = match (self.tracker.owner(id), job.to, is_done) {
            (None, ..) => {
                self.stats.gone += 1;
                Ended::Gone
            }
            (Some(_), Move::Upgrade, true) => {
                spans.add(job.pages, By::Policy);
                self.tracker.set_stage(id, Stage::Upgraded);
                self.stats.upgrades += 1;
                Ended::Moved
            }
            (Some(_), Move::Downgrade, true) => {
                spans.remove(job.pages, By::Policy);
                self.tracker.set_stage(id, Stage::Plain);
                self.stats.downgrades += 1;
                Ended::Moved
            }
            (Some(_), to, false) => {
                let stage = match to {
                    Move::Upgrade => Stage::ToUpgrade,
                    Move::Downgrade => Stage::ToDowngrade,
                };
                self.tracker.set_stage(id, stage);
                self.tracker.set_queued(id, true);
                self.failed.push_back((now + self.retry, id));
                self.stats.failures += 1;
                Ended::Again
            }
        };
        self.tracker.settle(id);
        ended
    }

    /// A file ends at a page now: ranges behind it are forgotten. The one that it ends in stays.
    pub fn truncate(&mut self, file: FileId, pages: u64) {
        let length = self.tracker.pages_of(0).end;
        if let Ok(first) = u32::try_from(pages.div_ceil(length)) {
            self.cut(file, first);
        }
    }

    fn cut(&mut self, file: FileId, first: u32) {
        for (range, id) in self.tracker.ranges_from(file, first) {
            let pages = self.tracker.pages_of(range);
            self.spans[file.0 as usize].remove(pages, By::Policy);
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

    /// The ranges of a file of which something is known.
    pub fn ranges(&mut self, file: FileId, now: Time) -> Vec<RangeView> {
        self.tracker.advance(now);
        let ranges = self.tracker.ranges_from(file, 0).into_iter();
        let view = |(range, id)| RangeView {
            pages: self.tracker.pages_of(range),
            counts: self.tracker.counts(id),
            stage: self.tracker.stage(id),
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
