//! Every order of a few events, against the plain model: writes, syncs, moves that begin, end well
//! and fail, cuts, removals, explicit mappings, evictions, and time that goes by.
//!
//! DAX_SCHEDULE_STEPS for longer ones (6 are 3.3 million, 7 are 39 million).

use crate::model::{Model, ORDER, Running, compare};
use dax::{Dax, Ended, Job, Move, Ratio, Settings, Stage};
use units::{Picos, Time};

/// Events to choose from.
const CHOICES: u64 = 12;
/// As long as `make test` takes: all of these, and of those that are longer by one such as begin
/// with a write. What else there is to begin with does little where nothing was written.
const STEPS: u32 = 5;
const WRITES: u64 = 4;
const RETRY: u64 = 1_000_000;

/// Each sync upgrades, and each second write without one downgrades.
fn eager() -> Settings {
    Settings {
        order: ORDER,
        policy: Ratio {
            upgrade_above: 67,
            downgrade_below: 67,
            after_writes: 0,
        },
        retry: Picos::new(RETRY),
        // As long as the model has it.
        ..crate::model::settings()
    }
}

struct Bench {
    dax: Dax,
    model: Model,
    files: [dax::FileId; 2],
    jobs: Vec<Job>,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        let settings = eager();
        let mut dax = Dax::new(&settings).expect("good settings");
        let files = core::array::from_fn(|_| dax.open());
        Self {
            model: Model::new(&settings),
            dax,
            files,
            jobs: Vec::new(),
            now: 0,
        }
    }

    fn time(&self) -> Time {
        Time::from_picos(self.now)
    }

    fn put(&mut self, file: usize, page: u64, is_synced: bool) {
        let time = self.time();
        self.dax.wrote(self.files[file], page, 1, time);
        self.model.wrote(file, page, 1, self.now);
        if is_synced {
            self.dax.wrote_back(self.files[file], page, 1, time);
            self.model.wrote_back(file, page, 1, self.now);
        }
    }

    fn begin(&mut self, what: &dyn Fn() -> String) {
        let movable = self.model.movable(self.now);
        let job = self.dax.next_job(self.time());
        assert_eq!(job.is_none(), movable.is_empty(), "{}: {job:?}", what());
        let Some(job) = job else { return };
        let of = self.files.iter().position(|id| *id == job.file);
        let key = (of.expect("a file that is open"), job.pages.start >> ORDER);
        assert!(movable.contains(&(key, job.to)), "{}: {job:?}", what());
        if let Some(range) = self.model.ranges.get_mut(&key) {
            range.stage = Some(match job.to {
                Move::Upgrade => Stage::Upgrading,
                Move::Downgrade => Stage::Downgrading,
            });
        }
        self.model.running.push(Running {
            key,
            to: job.to,
            is_there: true,
        });
        self.jobs.push(job);
    }

    fn end(&mut self, at: usize, is_done: bool, what: &dyn Fn() -> String) {
        let job = self.jobs.remove(at);
        let ended = self.dax.finish(job, is_done, self.time());
        let wanted: Ended = self.model.finish(at, is_done, self.now);
        assert_eq!(ended, wanted, "{}", what());
    }

    fn step(&mut self, choice: u64, what: &dyn Fn() -> String) {
        self.model.at(self.now);
        match choice {
            0 => self.put(0, 0, false),
            1 => self.put(0, 1, true),
            2 => self.put(0, 1 << ORDER, true),
            3 => self.put(1, 0, true),
            4 => self.begin(what),
            5 if !self.jobs.is_empty() => self.end(0, true, what),
            6 if !self.jobs.is_empty() => self.end(self.jobs.len() - 1, false, what),
            7 => {
                self.dax.truncate(self.files[0], 1);
                self.model.cut(0, 1);
            }
            8 => {
                self.dax.forget(self.files[0]);
                self.files[0] = self.dax.open();
                self.model.cut(0, 0);
                self.model.mapped[0] = Default::default();
            }
            9 => {
                // There and back by turns.
                let pages = 0..1 << ORDER;
                let is_map = !self.model.mapped[0][0];
                match is_map {
                    true => drop(self.dax.map(self.files[0], pages.clone())),
                    false => drop(self.dax.unmap(self.files[0], pages.clone())),
                }
                self.model.mapped[0][0..1 << ORDER].fill(is_map);
            }
            10 => {
                let all = |_, _| true;
                let time = self.time();
                let found = self.dax.evict((self.files[1], 0), all, time);
                assert_eq!(found, self.model.evict(1, 0), "{}", what());
            }
            11 => self.now += RETRY,
            _ => {}
        }
    }
}

fn run(schedule: u64, steps: u32) {
    let mut bench = Bench::new();
    let mut rest = schedule;
    for step in 0..steps {
        let what = || format!("schedule {schedule} of {steps} steps, step {step}");
        bench.step(rest % CHOICES, &what);
        rest /= CHOICES;
    }
    // Shorter ones have been compared already.
    let time = bench.time();
    bench.model.at(bench.now);
    let what = format!("schedule {schedule} of {steps} steps");
    compare(&mut bench.dax, &bench.model, &bench.files, time, &what);
}

#[test]
fn every_order_of_events_gives_what_the_model_gives() {
    let steps = std::env::var("DAX_SCHEDULE_STEPS").ok();
    let most = steps
        .as_ref()
        .map_or(STEPS, |steps| steps.parse().expect("a number of steps"));
    let mut done = 0;
    for steps in 1..=most {
        let schedules = CHOICES.pow(steps);
        (0..schedules).for_each(|schedule| run(schedule, steps));
        done += schedules;
    }
    if steps.is_none() {
        let longer = (0..CHOICES.pow(most + 1)).filter(|schedule| schedule % CHOICES < WRITES);
        longer.for_each(|schedule| {
            run(schedule, most + 1);
            done += 1;
        });
        assert!(done > 1_000_000, "{done}");
    }
    println!("{done} schedules");
}
