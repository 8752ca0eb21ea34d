//! Transparent DAX as plain lists.

use dax::{Counts, Dax, Ended, FileId, Move, Policy, Ratio, Settings, Stage, Verdict};
use std::collections::BTreeMap;
use units::{Picos, Time};

pub const ORDER: u32 = 2;
pub const RANGES: u64 = 3;
pub const FILES: usize = 2;
pub const WRITE_DELAY: u64 = 6_400_000;
pub const WRITE_BACK_DELAY: u64 = 3_200_000;
pub const RETRY: u64 = 1_000_000;

pub fn settings() -> Settings {
    Settings {
        order: ORDER,
        write_delay: Picos::new(WRITE_DELAY),
        write_back_delay: Picos::new(WRITE_BACK_DELAY),
        retry: Picos::new(RETRY),
        ..Settings::default()
    }
}

/// One range of the model. Counts are lists of when each ends.
#[derive(Clone, Default, Debug)]
pub struct Modelled {
    pub writes: Vec<u64>,
    pub write_backs: Vec<u64>,
    pub stage: Option<Stage>,
    /// It failed: it is not looked at before.
    not_before: Option<u64>,
}

impl Modelled {
    pub fn stage(&self) -> Stage {
        self.stage.unwrap_or(Stage::Plain)
    }

    pub fn counts(&self) -> Counts {
        Counts {
            writes: self.writes.len() as u32,
            write_backs: self.write_backs.len() as u32,
        }
    }

    pub fn is_known(&self) -> bool {
        self.counts() != Counts::default() || self.stage() != Stage::Plain
    }
}

/// A job of the model: whose, where to, and whether its range is there still.
pub struct Running {
    pub key: (usize, u64),
    pub to: Move,
    pub is_there: bool,
}

/// All that there is to be known.
pub struct Model {
    policy: Ratio,
    pub ranges: BTreeMap<(usize, u64), Modelled>,
    pub mapped: [[bool; (RANGES << ORDER) as usize]; FILES],
    pub running: Vec<Running>,
}

/// When a count that is made now ends: with the slot that it is made in, a delay later.
pub fn end(now: u64, delay: u64) -> u64 {
    let slot = delay / 32;
    (now / slot + 33) * slot
}

impl Model {
    pub fn new(settings: &Settings) -> Self {
        Self {
            policy: settings.policy,
            ranges: BTreeMap::new(),
            mapped: Default::default(),
            running: Vec::new(),
        }
    }

    pub fn at(&mut self, now: u64) {
        for range in self.ranges.values_mut() {
            range.writes.retain(|end| now < *end);
            range.write_backs.retain(|end| now < *end);
        }
    }

    pub fn wrote(&mut self, file: usize, page: u64, pages: u64, now: u64) {
        for page in page..page + pages {
            let range = self.ranges.entry((file, page >> ORDER)).or_default();
            range.writes.push(end(now, WRITE_DELAY));
        }
    }

    pub fn wrote_back(&mut self, file: usize, page: u64, pages: u64, now: u64) {
        let mut touched = Vec::new();
        for page in page..page + pages {
            let key = (file, page >> ORDER);
            let range = self.ranges.entry(key).or_default();
            range.write_backs.push(end(now, WRITE_BACK_DELAY));
            if !touched.contains(&key) {
                touched.push(key);
            }
        }
        for key in touched {
            let pages = (key.1 << ORDER) as usize..((key.1 + 1) << ORDER) as usize;
            let is_mapped = self.mapped[file][pages].iter().all(|is| *is);
            let Some(range) = self.ranges.get_mut(&key) else {
                continue;
            };
            let verdict = self.policy.judge(range.counts());
            let next = match (range.stage(), verdict) {
                (Stage::Plain, Verdict::Upgrade) if !is_mapped => Stage::ToUpgrade,
                (Stage::Upgraded, Verdict::Downgrade) => Stage::ToDowngrade,
                (Stage::ToUpgrade, Verdict::Downgrade) => Stage::Plain,
                (Stage::ToDowngrade, Verdict::Upgrade) => Stage::Upgraded,
                _ => continue,
            };
            range.stage = Some(next);
        }
    }

    pub fn cut(&mut self, file: usize, first: u64) {
        self.ranges.retain(|key, _| key.0 != file || key.1 < first);
        for job in &mut self.running {
            job.is_there &= job.key.0 != file || job.key.1 < first;
        }
    }

    /// Ranges that may be moved now.
    pub fn movable(&mut self, now: u64) -> Vec<((usize, u64), Move)> {
        for range in self.ranges.values_mut() {
            if range.not_before.is_some_and(|time| time <= now) {
                range.not_before = None;
                let verdict = self.policy.judge(range.counts());
                if range.stage() == Stage::ToUpgrade && verdict != Verdict::Upgrade {
                    range.stage = Some(Stage::Plain);
                }
            }
        }
        let free = self.ranges.iter().filter(|(key, range)| {
            range.not_before.is_none() && self.running.iter().all(|job| job.key != **key)
        });
        let movable = free.filter_map(|(key, range)| match range.stage() {
            Stage::ToUpgrade => Some((*key, Move::Upgrade)),
            Stage::ToDowngrade => Some((*key, Move::Downgrade)),
            _ => None,
        });
        movable.collect()
    }

    pub fn finish(&mut self, at: usize, is_done: bool, now: u64) -> Ended {
        let job = self.running.remove(at);
        let range = self.ranges.get_mut(&job.key).filter(|_| job.is_there);
        let Some(range) = range else {
            return Ended::Gone;
        };
        let (there, back) = match job.to {
            Move::Upgrade => (Stage::Upgraded, Stage::ToUpgrade),
            Move::Downgrade => (Stage::Plain, Stage::ToDowngrade),
        };
        range.stage = Some(if is_done { there } else { back });
        match is_done {
            true => Ended::Moved,
            false => {
                range.not_before = Some(now + RETRY);
                Ended::Again
            }
        }
    }

    /// The weakest upgraded range leaves for a page; says whether there is one.
    pub fn evict(&mut self, file: usize, page: u64) -> bool {
        let key = (file, page >> ORDER);
        let own = self.ranges.get(&key);
        let own = own.map_or(0, |range| range.write_backs.len());
        let is_requested = self.mapped[file][page as usize];
        let limit = if is_requested { usize::MAX } else { own };
        let mapped = &self.mapped;
        let is_mapped = |(file, range): &(usize, u64)| {
            let pages = (range << ORDER) as usize..((range + 1) << ORDER) as usize;
            mapped[*file][pages].iter().all(|is| *is)
        };
        let others = self.ranges.iter_mut();
        let upgraded = others.filter(|(other, range)| {
            **other != key && range.stage() == Stage::Upgraded && !is_mapped(other)
        });
        let weakest = upgraded.min_by_key(|(_, range)| range.write_backs.len());
        match weakest.filter(|(_, range)| range.write_backs.len() < limit) {
            Some((_, range)) => {
                range.stage = Some(Stage::ToDowngrade);
                true
            }
            None => false,
        }
    }
}

/// Asserts that both say the same.
pub fn compare(dax: &mut Dax, model: &Model, files: &[FileId], time: Time, what: &str) {
    dax.audit(files);
    for (file, id) in files.iter().enumerate() {
        let views = dax.ranges(*id, time);
        let seen: Vec<_> = views
            .iter()
            .map(|view| (view.pages.start >> ORDER, view.counts, view.stage))
            .collect();
        let ranges = model.ranges.iter();
        let of_file = ranges.filter(|(key, range)| key.0 == file && range.is_known());
        let expected: Vec<_> = of_file
            .map(|(key, range)| (key.1, range.counts(), range.stage()))
            .collect();
        // A range that failed, and is plain again, is known until its line has come.
        let known = seen
            .iter()
            .filter(|(_, counts, stage)| *counts != Counts::default() || *stage != Stage::Plain);
        assert_eq!(known.copied().collect::<Vec<_>>(), expected, "{what}");
        for page in 0..RANGES << ORDER {
            let range = model.ranges.get(&(file, page >> ORDER));
            let is_upgraded = range.is_some_and(|range| range.stage().is_on_device());
            let is_mapped = model.mapped[file][page as usize];
            let span = dax.spans(*id).find(page);
            let reasons = span.map(|span| (span.is_requested, span.is_upgraded));
            let expected = Some((is_mapped, is_upgraded)).filter(|_| is_mapped || is_upgraded);
            assert_eq!(reasons, expected, "{what}, page {page}");
        }
    }
}
