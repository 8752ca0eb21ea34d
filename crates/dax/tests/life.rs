//! The stages of ranges against a plain model, in random interleavings of everything that can
//! happen.

use crate::model::{FILES, Model, ORDER, RANGES, Running, compare, settings};
use dax::{
    By, Counts, Dax, Ended, FileId, Job, Lesson, Move, Policy, PolicyKind, Settings, Stage, Verdict,
};
use units::{Stream, Time};

/// One run of many steps; gives how many jobs were seen, well ended, failed and cut off.
fn run(seed: u64, steps: usize) -> [u64; 4] {
    let mut stream = Stream::new(seed, "life");
    let mut dax = Dax::new(&settings()).expect("good settings");
    let mut files: [FileId; FILES] = core::array::from_fn(|_| dax.open());
    let mut model = Model::new(&settings());
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

/// Syncs that go the usual way wherever the pages are: they count, and nothing is upgraded or
/// learnt because of them. What one that gains from it finds is judged by all.
#[test]
fn what_is_synced_the_usual_way_whatever_is_upgraded_upgrades_nothing() {
    for kind in [PolicyKind::Ratio, PolicyKind::Predict, PolicyKind::Adaptive] {
        let mut dax = Dax::new(&Settings { kind, ..settings() }).expect("good settings");
        let file = dax.open();
        let now = Time::from_picos(0);
        for page in 0..40 {
            dax.wrote(file, page / 4, 1, now);
            dax.wrote_back_usually(file, page / 4, 1, now);
            assert_eq!(dax.next_job(now), None, "{kind}, {page}");
        }
        assert_eq!(dax.stats().wanted_upgrades, 0, "{kind}");
        let counts = dax.ranges(file, now)[0].counts;
        assert_eq!((counts.writes, counts.write_backs), (16, 16), "{kind}");
        let thresholds = dax.policy().thresholds().copied();
        assert_eq!(
            thresholds,
            Some(settings().policy),
            "{kind}: nothing is learnt"
        );
        dax.wrote(file, 9, 1, now);
        dax.wrote_back(file, 9, 1, now);
        let job = dax.next_job(now).expect("nine writes were synced");
        assert_eq!(job.pages, 8..12, "{kind}");
    }
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

#[test]
fn the_weakest_range_is_evicted_and_none_for_one_that_is_weaker() {
    let mut dax = Dax::new(&settings()).expect("good settings");
    let file = dax.open();
    let now = Time::from_picos(0);
    let page = |range: u64| range << ORDER;
    for (range, syncs) in [(0, 9), (1, 7), (2, 8)] {
        for _ in 0..syncs {
            dax.wrote(file, page(range), 1, now);
            dax.wrote_back(file, page(range), 1, now);
        }
        let job = dax.next_job(now).expect("an upgrade");
        assert_eq!(dax.finish(job, true, now), Ended::Moved);
    }
    let all = |_, _| true;
    assert!(!dax.evict((file, page(1)), all, now), "it is the weakest");
    assert!(
        !dax.evict((file, page(9)), all, now),
        "nothing is known of it"
    );
    for weakest in [1, 2] {
        assert!(dax.evict((file, page(0)), all, now));
        let job = dax.next_job(now).expect("a downgrade");
        assert_eq!((job.pages.start, job.to), (page(weakest), Move::Downgrade));
        assert_eq!(dax.finish(job, true, now), Ended::Moved);
    }
    assert!(!dax.evict((file, page(0)), all, now), "it is alone");
    let none = |_, _| false;
    assert!(!dax.evict((file, page(5)), none, now), "it holds no memory");
    // What a program has asked for drives out what is stronger, and is not driven out.
    dax.map(file, page(5)..page(6));
    assert!(dax.evict((file, page(5)), all, now));
    assert_eq!(dax.stats().evictions, 3);
}

/// Counts syncs that are said to have waited for flash.
#[derive(Default)]
struct Pupil {
    missed: u32,
}

impl Policy for Pupil {
    fn judge(&self, _: Counts) -> Verdict {
        Verdict::Stay
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, lesson: Lesson) {
        self.missed += u32::from(matches!(lesson, Lesson::Missed(_)));
    }
}

/// Syncs of a range that programs have asked for wait for nothing: there is nothing to be learnt.
#[test]
fn a_range_that_is_asked_for_teaches_no_policy_that_its_syncs_wait() {
    let mut dax = Dax::with_policy(&settings(), Pupil::default()).expect("good settings");
    let (asked, other) = (dax.open(), dax.open());
    dax.map(asked, 0..1 << ORDER);
    for (file, missed) in [(asked, 0), (other, 1)] {
        dax.wrote(file, 1, 1, Time::from_picos(0));
        dax.wrote_back(file, 1, 1, Time::from_picos(1));
        assert_eq!(dax.policy().missed, missed);
    }
}
