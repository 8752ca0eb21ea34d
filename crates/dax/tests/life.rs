//! The stages of ranges against a plain model, in random interleavings of everything that can
//! happen.

use dax::{By, Counts, Dax, Ended, FileId, Job, Move, Policy, Settings, Stage, Verdict};
use std::collections::BTreeMap;
use units::{Picos, Stream, Time};

const ORDER: u32 = 2;
const RANGES: u64 = 3;
const FILES: usize = 2;
const WRITE_DELAY: u64 = 6_400_000;
const WRITE_BACK_DELAY: u64 = 3_200_000;
const RETRY: u64 = 1_000_000;

fn settings() -> Settings {
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
struct Modelled {
    writes: Vec<u64>,
    write_backs: Vec<u64>,
    stage: Option<Stage>,
    /// It failed: it is not looked at before.
    not_before: Option<u64>,
}

impl Modelled {
    fn stage(&self) -> Stage {
        self.stage.unwrap_or(Stage::Plain)
    }

    fn counts(&self) -> Counts {
        Counts {
            writes: self.writes.len() as u32,
            write_backs: self.write_backs.len() as u32,
        }
    }

    fn is_known(&self) -> bool {
        self.counts() != Counts::default() || self.stage() != Stage::Plain
    }
}

/// A job of the model: whose, where to, and whether its range is there still.
struct Running {
    key: (usize, u64),
    to: Move,
    is_there: bool,
}

#[derive(Default)]
struct Model {
    ranges: BTreeMap<(usize, u64), Modelled>,
    mapped: [[bool; (RANGES << ORDER) as usize]; FILES],
    running: Vec<Running>,
}

/// When a count that is made now ends: with the slot that it is made in, a delay later.
fn end(now: u64, delay: u64) -> u64 {
    let slot = delay / 32;
    (now / slot + 33) * slot
}

impl Model {
    fn at(&mut self, now: u64) {
        for range in self.ranges.values_mut() {
            range.writes.retain(|end| now < *end);
            range.write_backs.retain(|end| now < *end);
        }
    }

    fn wrote(&mut self, file: usize, page: u64, pages: u64, now: u64) {
        for page in page..page + pages {
            let range = self.ranges.entry((file, page >> ORDER)).or_default();
            range.writes.push(end(now, WRITE_DELAY));
        }
    }

    fn wrote_back(&mut self, file: usize, page: u64, pages: u64, now: u64) {
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
            let verdict = settings().policy.judge(range.counts());
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

    fn cut(&mut self, file: usize, first: u64) {
        self.ranges.retain(|key, _| key.0 != file || key.1 < first);
        for job in &mut self.running {
            job.is_there &= job.key.0 != file || job.key.1 < first;
        }
    }

    /// Ranges that may be moved now.
    fn movable(&mut self, now: u64) -> Vec<((usize, u64), Move)> {
        for range in self.ranges.values_mut() {
            if range.not_before.is_some_and(|time| time <= now) {
                range.not_before = None;
                let verdict = settings().policy.judge(range.counts());
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

    fn finish(&mut self, at: usize, is_done: bool, now: u64) -> Ended {
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
}

/// One run of many steps; gives how many jobs were seen, well ended, failed and cut off.
fn run(seed: u64, steps: usize) -> [u64; 4] {
    let mut stream = Stream::new(seed, "life");
    let mut dax = Dax::new(&settings()).expect("good settings");
    let mut files: [FileId; FILES] = core::array::from_fn(|_| dax.open());
    let mut model = Model::default();
    let mut jobs: Vec<Job> = Vec::new();
    let mut now = 0;
    let mut seen = [0; 4];
    for step in 0..steps {
        let what = format!("seed {seed}, step {step}");
        now += [0, 1000, 300_000, 3_000_000][stream.below(4) as usize] * stream.below(2);
        let time = Time::from_picos(now);
        model.at(now);
        let file = stream.below(FILES as u64) as usize;
        let page = stream.below(RANGES << ORDER);
        let pages = 1 + stream.below(((RANGES << ORDER) - page).min(6));
        match stream.below(20) {
            0..5 => {
                dax.wrote(files[file], page, pages as u32, time);
                model.wrote(file, page, pages, now);
            }
            5..11 => {
                dax.wrote_back(files[file], page, pages as u32, time);
                model.wrote_back(file, page, pages, now);
            }
            11..14 => {
                let movable = model.movable(now);
                let job = dax.next_job(time);
                assert_eq!(job.is_none(), movable.is_empty(), "{what}: {job:?}");
                if let Some(job) = job {
                    let of = files.iter().position(|id| *id == job.file);
                    let key = (of.expect("a file that is open"), job.pages.start >> ORDER);
                    assert!(movable.contains(&(key, job.to)), "{what}: {job:?}");
                    assert_eq!(job.pages, key.1 << ORDER..(key.1 + 1) << ORDER);
                    let range = model.ranges.get_mut(&key).expect("it is known");
                    range.stage = Some(match job.to {
                        Move::Upgrade => Stage::Upgrading,
                        Move::Downgrade => Stage::Downgrading,
                    });
                    model.running.push(Running {
                        key,
                        to: job.to,
                        is_there: true,
                    });
                    jobs.push(job);
                    seen[0] += 1;
                }
            }
            14..17 if !jobs.is_empty() => {
                let at = stream.below(jobs.len() as u64) as usize;
                let is_done = stream.below(4) > 0;
                let ended = dax.finish(jobs.remove(at), is_done, time);
                assert_eq!(ended, model.finish(at, is_done, now), "{what}");
                seen[match ended {
                    Ended::Moved => 1,
                    Ended::Again => 2,
                    Ended::Gone => 3,
                }] += 1;
            }
            17 if stream.below(4) == 0 => {
                dax.truncate(files[file], page);
                model.cut(file, page.div_ceil(1 << ORDER));
            }
            18 if stream.below(8) == 0 => {
                dax.forget(files[file]);
                files[file] = dax.open();
                model.cut(file, 0);
                model.mapped[file] = Default::default();
            }
            19 => {
                let is_map = stream.below(2) == 0;
                let part = page..page + pages;
                match is_map {
                    true => drop(dax.map(files[file], part.clone())),
                    false => drop(dax.unmap(files[file], part.clone())),
                }
                model.mapped[file][part.start as usize..part.end as usize].fill(is_map);
            }
            _ => {}
        }
        compare(&mut dax, &model, &files, time, &what);
    }
    for job in jobs {
        dax.finish(job, false, Time::from_picos(now));
    }
    // Whatever was under way, in the end nothing is left.
    for file in files {
        dax.forget(file);
    }
    let late = Time::from_picos(now + (1 << 40));
    assert_eq!(dax.next_job(late), None, "seed {seed}: all are gone");
    assert!(dax.is_idle(), "seed {seed}");
    seen
}

fn compare(dax: &mut Dax, model: &Model, files: &[FileId], time: Time, what: &str) {
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

#[test]
fn stages_are_those_of_the_model_in_any_order_of_events() {
    let mut seen = [0; 4];
    for seed in 0..600 {
        let of_run = run(seed, 300);
        for (sum, one) in seen.iter_mut().zip(of_run) {
            *sum += one;
        }
    }
    let [jobs, moved, again, gone] = seen;
    assert!(
        jobs > 2_000 && moved > 1_000 && again > 300 && gone > 30,
        "{jobs} jobs, of which {moved} moved, {again} failed, {gone} were cut off"
    );
}

#[test]
fn a_range_goes_there_and_back() {
    let mut dax = Dax::new(&settings()).expect("good settings");
    let file = dax.open();
    let now = Time::from_picos(0);
    for _ in 0..6 {
        dax.wrote(file, 5, 1, now);
        dax.wrote_back(file, 5, 1, now);
    }
    let job = dax.next_job(now).expect("six synced writes are enough");
    assert_eq!((job.pages.clone(), job.to), (4..8, Move::Upgrade));
    assert_eq!(dax.next_job(now), None, "it is moved once");
    assert_eq!(dax.finish(job, true, now), Ended::Moved);
    assert!(dax.spans(file).has_all(4..8, By::Policy));
    for _ in 0..40 {
        dax.wrote(file, 6, 1, now);
    }
    dax.wrote_back(file, 6, 1, now);
    let job = dax.next_job(now).expect("7 of 41 are too few");
    assert_eq!(job.to, Move::Downgrade);
    assert_eq!(dax.finish(job, false, now), Ended::Again);
    assert_eq!(dax.next_job(now), None, "not at once");
    let later = now + settings().retry;
    assert_eq!(dax.next_retry(), Some(later));
    let job = dax.next_job(later).expect("again");
    assert_eq!(dax.finish(job, true, later), Ended::Moved);
    assert!(dax.spans(file).is_empty());
    let stats = dax.stats();
    assert_eq!(
        (stats.upgrades, stats.downgrades, stats.failures),
        (1, 1, 1)
    );
}

#[test]
fn a_range_that_is_cut_off_while_it_moves_is_not_moved_again_before_that_has_ended() {
    let mut dax = Dax::new(&settings()).expect("good settings");
    let file = dax.open();
    let now = Time::from_picos(0);
    let sync = |dax: &mut Dax| {
        for _ in 0..6 {
            dax.wrote(file, 0, 1, now);
            dax.wrote_back(file, 0, 1, now);
        }
    };
    sync(&mut dax);
    let old = dax.next_job(now).expect("an upgrade");
    dax.truncate(file, 0);
    sync(&mut dax);
    assert_eq!(dax.next_job(now), None, "its pages are under way");
    assert_eq!(dax.finish(old, true, now), Ended::Gone);
    assert!(dax.spans(file).is_empty(), "nothing of the old ones counts");
    let new = dax.next_job(now).expect("now");
    assert_eq!(dax.finish(new, true, now), Ended::Moved);
}
