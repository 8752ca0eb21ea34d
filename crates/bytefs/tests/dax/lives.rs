//! Random lives of a file system beside a plain model, cut off anywhere.

use super::drive::{
    CALLER, Clock, DIRECT, Fs, Left, Ran, append, create, eager, engine, formatted, run, run_for,
    with, with_safe_log,
};
use bytefs::{Allocate, DaxReport, Ino, Personality, SetAttr, Timestamp, check};
use dax::Settings;
use device::DeviceEngine;
use std::cell::RefCell;
use std::rc::Rc;
use units::{Picos, Stream};

const FILES: usize = 3;
const MOST: usize = 60_000;

/// What a file may be after a power cut.
#[derive(Clone, Default)]
struct Model {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Since the last sync: smallest and largest size, and what was written where.
    sizes: (usize, usize),
    been: Vec<(usize, Vec<u8>)>,
    /// It is being removed and made anew.
    is_replaced: bool,
}

impl Model {
    fn sync(&mut self) {
        self.synced = self.now.clone();
        self.sizes = (self.now.len(), self.now.len());
        self.been.clear();
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[at..end].copy_from_slice(bytes);
        self.been.push((at, bytes.to_vec()));
        self.sizes.1 = self.sizes.1.max(end);
    }

    fn resize(&mut self, size: usize) {
        self.now.resize(size, 0);
        self.sizes = (self.sizes.0.min(size), self.sizes.1.max(size));
    }

    fn check(&self, seen: &[u8], what: &str) {
        let (least, most) = self.sizes;
        assert!(
            (least..=most).contains(&seen.len()),
            "{what}: {} bytes, not {least} to {most}",
            seen.len()
        );
        for (at, byte) in seen.iter().enumerate() {
            let is_synced = self.synced.get(at) == Some(byte);
            // Behind the smallest size there were zeroes.
            let is_hole = at >= least && *byte == 0;
            let has_been = |(begin, bytes): &(usize, Vec<u8>)| {
                at.checked_sub(*begin).and_then(|at| bytes.get(at)) == Some(byte)
            };
            assert!(
                is_synced || is_hole || self.been.iter().any(has_been),
                "{what}: byte {at} is {byte}, was {:?} and never that",
                self.synced.get(at)
            );
        }
    }
}

type Models = RefCell<[Model; FILES]>;

/// Does something many times. What the files may be is known whenever it is cut off: what is asked
/// for is noted before, and what is answered for behind.
async fn live(fs: &Fs, stream: &mut Stream, clock: &Clock, models: &Models) {
    let sync_all = || models.borrow_mut().iter_mut().for_each(Model::sync);
    let mut inos = Vec::new();
    for nth in 0..FILES {
        let name = [b'a' + nth as u8];
        let ino = match fs.lookup(Ino::ROOT, &name).await {
            Ok(attr) => {
                fs.open(attr.ino).await.expect("it is there");
                attr.ino
            }
            Err(_) => create(fs, &name).await,
        };
        inos.push(ino);
    }
    fs.sync().await.expect("a sync");
    sync_all();
    let steps = 20 + stream.below(100);
    for step in 0..steps {
        let nth = stream.below(FILES as u64) as usize;
        let ino = inos[nth];
        let length = models.borrow()[nth].now.len();
        let byte = 1 + stream.below(255) as u8;
        let size = 1 + stream.below(600) as usize;
        match stream.below(32) {
            0..14 => {
                let at = match stream.below(3) {
                    0 => stream.below(length as u64 + 1) as usize,
                    _ => length,
                };
                let at = at.min(MOST - 20_000);
                models.borrow_mut()[nth].put(at, &vec![byte; size]);
                append(fs, ino, at as u64, &vec![byte; size]).await;
                if stream.below(4) > 0 {
                    fs.fsync(ino, true).await.expect("a sync");
                    models.borrow_mut()[nth].sync();
                }
            }
            14..20 => {
                fs.fsync(ino, stream.below(4) > 0).await.expect("a sync");
                models.borrow_mut()[nth].sync();
            }
            20 => {
                let size = stream.below(length as u64 + 3000) as usize;
                let size = size.min(MOST - 20_000);
                models.borrow_mut()[nth].resize(size);
                let set = SetAttr {
                    size: Some(size as u64),
                    ..SetAttr::default()
                };
                fs.setattr(&CALLER, ino, set).await.expect("a size");
            }
            21 => {
                let at = stream.below(30_000);
                let size = 1 + stream.below(9000);
                let end = (at + size).min(length as u64);
                if at < end {
                    models.borrow_mut()[nth].put(at as usize, &vec![0; (end - at) as usize]);
                }
                let hole = fs.fallocate(&CALLER, ino, Allocate::PunchHole, at, size);
                hole.await.expect("a hole");
            }
            22 => {
                let at = stream.below(6) as usize * 4096;
                let bytes = vec![byte; 4096];
                models.borrow_mut()[nth].put(at, &bytes);
                let written = fs.write(&CALLER, ino, at as u64, &bytes, DIRECT).await;
                assert_eq!(written, Ok(4096));
            }
            23 => {
                fs.sync().await.expect("a sync");
                sync_all();
            }
            24..28 => {
                // Everything is old, or nothing.
                let old = [i64::MAX, 0][stream.below(2) as usize];
                fs.flush_old(Timestamp(old))
                    .await
                    .expect("the clock's part");
            }
            28 => {
                let name = [b'a' + nth as u8];
                models.borrow_mut()[nth].is_replaced = true;
                fs.unlink(&CALLER, Ino::ROOT, &name)
                    .await
                    .expect("it had a name");
                fs.release(ino).await.expect("it was open");
                inos[nth] = create(fs, &name).await;
                models.borrow_mut()[nth].now.clear();
                fs.sync().await.expect("a sync");
                models.borrow_mut()[nth].is_replaced = false;
                sync_all();
            }
            _ => {
                let later = port::Clock::now(clock) + Picos::from_micros(stream.below(3_000_000));
                port::Clock::sleep_until(clock, later).await;
            }
        }
        let seen = fs.read(inos[nth], 0, MOST, false).await.expect("a read");
        assert!(
            seen == models.borrow()[nth].now,
            "step {step}: what is read is what was written"
        );
    }
}

async fn look(fs: &Fs, models: &Models, what: &str) {
    for nth in 0..FILES {
        let name = [b'a' + nth as u8];
        let found = fs.lookup(Ino::ROOT, &name).await;
        if models.borrow()[nth].is_replaced {
            // The old one, none, or the new one, which is empty.
            continue;
        }
        let attr = found.expect("it was synced");
        let seen = fs.read(attr.ino, 0, MOST, false).await.expect("a read");
        models.borrow()[nth].check(&seen, &format!("{what}, file {nth}"));
    }
    for nth in 0..FILES {
        let name = [b'a' + nth as u8];
        let seen = match fs.lookup(Ino::ROOT, &name).await {
            Ok(attr) => fs.read(attr.ino, 0, MOST, false).await.expect("a read"),
            Err(_) => Vec::new(),
        };
        let mut models = models.borrow_mut();
        models[nth].is_replaced = false;
        models[nth].now = seen;
    }
}

/// What one life of the file system leaves.
struct Life {
    models: Rc<Models>,
    report: Option<DaxReport>,
    ran: Ran,
    /// It ended by itself.
    has_ended: bool,
}

impl Life {
    /// The power goes; of stores to the window that are not persisted some are lost.
    fn power_cycled(&self, seed: u64) -> Left {
        let mut stream = Stream::new(seed, "lost stores");
        let share = stream.below(3);
        self.ran.power_cycled(|| stream.below(2) < share)
    }
}

/// Makes a file system and lives on it until it ends, or the power goes behind so many requests.
fn first_life(seed: u64, of: Personality, requests: u64) -> Life {
    // Some windows have too few frames.
    let pmem = ["16KiB", "64KiB", "256KiB"][seed as usize % 3];
    first_life_on(engine(of, pmem), seed, of, requests)
}

fn first_life_on(engine: DeviceEngine, seed: u64, of: Personality, requests: u64) -> Life {
    let models: Rc<Models> = Rc::default();
    let shared = Rc::clone(&models);
    let (ran, report) = run_for(requests, engine, async move |device, clock| {
        let mut stream = Stream::new(seed, "dax");
        let fs = formatted(&device, &clock, with(Some(eager())), of).await;
        live(&fs, &mut stream, &clock, &shared).await;
        fs.dax_report()
    });
    Life {
        models,
        has_ended: report.is_some(),
        report: report.flatten(),
        ran,
    }
}

/// Looks at what a power cut has left, and lives on.
fn next_life(seed: u64, before: Life, dax: Option<Settings>, requests: u64) -> Life {
    let left = before.power_cycled(seed);
    let models = before.models;
    let shared = Rc::clone(&models);
    let (ran, report) = run_for(requests, left, async move |device, clock| {
        let mut stream = Stream::new(seed, "dax again");
        let fs = Fs::mount(device.any(), clock.clone(), with(dax)).await;
        let fs = fs.expect("it is mounted");
        look(&fs, &shared, &format!("seed {seed}")).await;
        live(&fs, &mut stream, &clock, &shared).await;
        fs.dax_report()
    });
    Life {
        models,
        has_ended: report.is_some(),
        report: report.flatten(),
        ran,
    }
}

/// The last power cut: fsck finds nothing, and the files are what they may be.
fn last_look(seed: u64, life: Life) {
    let left = life.power_cycled(seed);
    let models = life.models;
    run(left, async move |device, clock| {
        let report = check(&device.any(), false).await.expect("it can be read");
        assert!(report.problems.is_empty(), "seed {seed}: {report:?}");
        let fs = Fs::mount(device.any(), clock, with(None)).await;
        let fs = fs.expect("it is mounted");
        look(&fs, &models, &format!("seed {seed}, fsck")).await;
    });
}

/// The power goes behind an operation; what was synced is there, whatever moved meanwhile.
#[test]
fn what_was_synced_is_there_after_a_power_cut_wherever_it_was() {
    let mut sums = [0; 5];
    for seed in 0..SEEDS {
        let of = [Personality::Ext4Like, Personality::ByteFs][seed as usize % 2];
        let mut life = first_life(seed, of, u64::MAX);
        // With and without persistent memory in use.
        for dax in [Some(eager()), (seed % 4 < 2).then(eager)] {
            if let Some(report) = life.report {
                sums[0] += report.pmem.light_syncs;
                sums[1] += report.ranges.upgrades;
                sums[2] += report.ranges.downgrades;
                sums[3] += report.pmem.without_room;
                sums[4] += report.pmem.recovered;
            }
            life = next_life(seed, life, dax, u64::MAX);
        }
        last_look(seed, life);
    }
    let [light, upgrades, downgrades, without_room, recovered] = sums;
    assert!(
        light > 200 && upgrades > 50 && downgrades > 5 && without_room > 5 && recovered > 20,
        "{light} light syncs, {upgrades} upgrades, {downgrades} downgrades, {without_room} without \
         room, {recovered} pages recovered"
    );
}

const SEEDS: u64 = 16;

/// The same where the device's log is persistent memory and blocks are lost that were not flushed:
/// behind an operation, and between any two requests.
#[test]
fn what_was_synced_to_the_log_is_there_after_a_power_cut() {
    let (mut light, mut upgrades, mut cut_off) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut stream = Stream::new(seed, "cuts of the log");
        let is_cut = seed % 2 == 1;
        let mut requests = |least: u64, most: u64| match is_cut {
            true => least + stream.below(most),
            false => u64::MAX,
        };
        let of = [Personality::ByteFs, Personality::ByteFsLog][seed as usize / 2 % 2];
        let first = first_life_on(with_safe_log(of), seed, of, requests(100, 600));
        let was_synced = first.models.borrow().iter().any(|it| !it.synced.is_empty());
        if !was_synced {
            continue;
        }
        let dax = (seed % 4 < 3).then(eager);
        let second = next_life(seed, first, dax, requests(5, 400));
        cut_off += u64::from(!second.has_ended);
        for report in [&second.report].into_iter().flatten() {
            light += report.pmem.light_syncs;
            upgrades += report.ranges.upgrades;
        }
        last_look(seed, second);
    }
    assert!(
        light > 100 && upgrades > 10 && cut_off > SEEDS / 8,
        "{light} light syncs, {upgrades} upgrades, {cut_off} lives cut off"
    );
}

/// The power goes between any two requests, in the middle of syncs, moves and recoveries.
#[test]
fn what_was_synced_is_there_wherever_in_an_operation_the_power_goes() {
    let mut cut_off = [0; 2];
    for seed in 0..2 * SEEDS {
        let of = [Personality::Ext4Like, Personality::ByteFs][seed as usize % 2];
        let mut stream = Stream::new(seed, "cuts");
        let life = first_life(seed, of, 60 + stream.below(400));
        // Nothing was promised of a file system that is not made yet.
        if life
            .models
            .borrow()
            .iter()
            .all(|model| model.synced.is_empty())
        {
            continue;
        }
        cut_off[0] += u64::from(!life.has_ended);
        // Some recoveries are cut off too.
        let life = next_life(seed, life, Some(eager()), 5 + stream.below(300));
        cut_off[1] += u64::from(!life.has_ended);
        last_look(seed, life);
    }
    assert!(
        cut_off.iter().all(|count| *count > SEEDS / 4),
        "{cut_off:?}"
    );
}
