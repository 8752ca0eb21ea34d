//! Files whose syncs the device's persistent memory answers: what that costs, and what a power cut
//! leaves.

use bytefs::{
    Allocate, Caller, DaxReport, FileSystem, FormatOptions, Ino, MountError, MountOptions,
    Personality, SetAttr, Timestamp, WriteOptions, check,
};
use dax::{Ratio, Settings};
use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Pace};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Picos, Stream};
use vtime::{Machine, VirtualClock, VirtualDevice};

type Drive = VirtualDevice<DeviceEngine>;
type Clock = VirtualClock<DeviceEngine>;
type Fs = FileSystem<Drive, Clock>;

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};
const PLAIN: WriteOptions = WriteOptions {
    direct: false,
    sync: false,
    kill_privileges: false,
};
const DIRECT: WriteOptions = WriteOptions {
    direct: true,
    ..PLAIN
};

/// A small drive: `consumer-tlc` for the Ext4-like, `bytefs` for ByteFS.
fn engine(personality: Personality, pmem: &str) -> DeviceEngine {
    let preset = match personality.needs_transactions() {
        true => "bytefs",
        false => "consumer-tlc",
    };
    let pmem = format!("device.pmem={pmem}");
    let small = [
        &pmem,
        "nand.channels=2",
        "nand.chips_per_channel=1",
        "nand.dies_per_chip=1",
        "nand.planes_per_die=1",
        "nand.blocks_per_plane=96",
        "nand.pages_per_block=32",
        "ftl.over_provisioning=50%",
        "ssd.dram=4MiB",
    ];
    let log = ["ssd.log.size=1MiB"];
    let log = log.iter().filter(|_| personality.needs_transactions());
    let layers: Vec<Layer> = small
        .iter()
        .chain(log)
        .map(|set| Layer::assignment(set).expect("an assignment"))
        .collect();
    let config = DeviceConfig::of_preset(preset, &layers).expect("a good device");
    DeviceEngine::in_memory(&config, Pace::None).expect("memory for a small device")
}

fn run<T: 'static>(
    engine: DeviceEngine,
    test: impl AsyncFnOnce(Drive, Clock) -> T + 'static,
) -> (Machine<DeviceEngine>, T) {
    let mut machine = Machine::new(engine, 2);
    let (device, clock) = (machine.device(), machine.clock());
    let result = Rc::new(RefCell::new(None));
    let place = Rc::clone(&result);
    machine.spawn("test", async move {
        let done = test(device, clock).await;
        place.replace(Some(done));
    });
    machine.run().expect("it goes on");
    let done = result.take().expect("it has ended");
    (machine, done)
}

async fn formatted(device: &Drive, clock: &Clock, options: MountOptions, of: Personality) -> Fs {
    let format = FormatOptions {
        inodes: Some(64),
        ..FormatOptions::new(of)
    };
    Fs::format(device, &format).await.expect("there is room");
    let fs = Fs::mount(device.clone(), clock.clone(), options).await;
    fs.expect("it is mounted")
}

fn with(dax: Option<Settings>) -> MountOptions {
    MountOptions {
        dax,
        ..MountOptions::default()
    }
}

/// Ranges of four pages, upgraded by the second synced write.
fn eager() -> Settings {
    Settings {
        order: 2,
        policy: Ratio {
            upgrade_above: 60,
            downgrade_below: 60,
            after_writes: 1,
        },
        retry: Picos::from_micros(100),
        ..Settings::default()
    }
}

async fn create(fs: &Fs, name: &[u8]) -> Ino {
    let made = fs.create(&CALLER, Ino::ROOT, name, 0o600).await;
    let ino = made.expect("there is room").ino;
    fs.open(ino).await.expect("it is there");
    ino
}

async fn append(fs: &Fs, ino: Ino, at: u64, bytes: &[u8]) {
    let written = fs.write(&CALLER, ino, at, bytes, PLAIN).await;
    assert_eq!(written, Ok(bytes.len()));
}

/// Appends of 200 bytes, each with an fdatasync: what all of them took, flushes of the last ones,
/// and what was done.
fn stream(of: Personality, dax: Option<Settings>) -> (Picos, u64, Option<DaxReport>) {
    let (_, done) = run(engine(of, "2MiB"), async move |device, clock| {
        let fs = formatted(&device, &clock, with(dax), of).await;
        let ino = create(&fs, b"log").await;
        fs.sync().await.expect("a sync");
        let begun = port::Clock::now(&clock);
        let mut flushes = 0;
        for nth in 0..400 {
            if nth == 20 {
                flushes = fs.stats().flushes;
            }
            append(&fs, ino, nth * 200, &[nth as u8; 200]).await;
            fs.fsync(ino, true).await.expect("a sync");
        }
        let took = port::Clock::now(&clock) - begun;
        let flushes = fs.stats().flushes - flushes;
        let report = fs.dax_report();
        fs.unmount().await.expect("an unmount");
        (took, flushes, report)
    });
    done
}

#[test]
fn an_append_stream_asks_for_no_flush_once_its_range_is_upgraded() {
    let (without, flushes, report) = stream(Personality::Ext4Like, None);
    assert_eq!(report, None);
    assert!(flushes >= 380, "{flushes}");
    let (with, flushes, report) = stream(Personality::Ext4Like, Some(Settings::default()));
    let report = report.expect("it is on");
    assert_eq!(flushes, 0);
    assert_eq!(report.ranges.upgrades, 1);
    assert!(report.pmem.light_syncs >= 390, "{report:?}");
    assert!(with.scale(20, 1) < without, "{with} beside {without}");
    let (.., report) = stream(Personality::ByteFs, Some(Settings::default()));
    assert!(report.expect("it is on").pmem.light_syncs >= 390);
}

#[test]
fn what_cannot_be_mounted_so_says_why() {
    let refused = |of: Personality, pmem: &str, options: MountOptions| {
        let (_, said) = run(engine(of, pmem), async move |device, clock| {
            let format = FormatOptions {
                inodes: Some(64),
                ..FormatOptions::new(of)
            };
            Fs::format(&device, &format).await.expect("there is room");
            let mounted = Fs::mount(device, clock, options).await;
            let refused: Option<MountError> = mounted.err();
            refused.expect("it is refused").to_string()
        });
        assert!(!said.contains('\n'), "{said}");
        said
    };
    let auto = || with(Some(Settings::default()));
    assert!(refused(Personality::Ext4Like, "0B", auto()).contains("device.pmem=64MiB"));
    assert!(refused(Personality::Ext4Like, "4KiB", auto()).contains("this one has 4KiB"));
    assert!(refused(Personality::F2fsLike, "1MiB", auto()).contains("f2fs-like"));
    let mut crossed = Settings::default();
    crossed.policy.upgrade_above = 10;
    let said = refused(Personality::Ext4Like, "1MiB", with(Some(crossed)));
    assert!(said.contains("back and forth"), "{said}");
}

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

/// Does something many times; gives what the files may be.
async fn live(fs: &Fs, stream: &mut Stream, clock: &Clock, models: &mut [Model; FILES]) {
    let mut inos = Vec::new();
    for (nth, model) in models.iter_mut().enumerate() {
        let name = [b'a' + nth as u8];
        let ino = match fs.lookup(Ino::ROOT, &name).await {
            Ok(attr) => {
                fs.open(attr.ino).await.expect("it is there");
                attr.ino
            }
            Err(_) => create(fs, &name).await,
        };
        inos.push(ino);
        model.sync();
    }
    fs.sync().await.expect("a sync");
    let steps = 20 + stream.below(100);
    for step in 0..steps {
        let nth = stream.below(FILES as u64) as usize;
        let (ino, model) = (inos[nth], &mut models[nth]);
        let byte = 1 + stream.below(255) as u8;
        let size = 1 + stream.below(600) as usize;
        match stream.below(32) {
            0..14 => {
                let at = match stream.below(3) {
                    0 => stream.below(model.now.len() as u64 + 1) as usize,
                    _ => model.now.len(),
                };
                let at = at.min(MOST - 20_000);
                append(fs, ino, at as u64, &vec![byte; size]).await;
                model.put(at, &vec![byte; size]);
                if stream.below(4) > 0 {
                    fs.fsync(ino, true).await.expect("a sync");
                    model.sync();
                }
            }
            14..20 => {
                fs.fsync(ino, stream.below(4) > 0).await.expect("a sync");
                model.sync();
            }
            20 => {
                let size = stream.below(model.now.len() as u64 + 3000) as usize;
                let size = size.min(MOST - 20_000);
                let set = SetAttr {
                    size: Some(size as u64),
                    ..SetAttr::default()
                };
                fs.setattr(&CALLER, ino, set).await.expect("a size");
                model.resize(size);
            }
            21 => {
                let at = stream.below(30_000);
                let size = 1 + stream.below(9000);
                let hole = fs.fallocate(&CALLER, ino, Allocate::PunchHole, at, size);
                hole.await.expect("a hole");
                let end = (at + size).min(model.now.len() as u64);
                if at < end {
                    model.put(at as usize, &vec![0; (end - at) as usize]);
                }
            }
            22 => {
                let at = stream.below(6) as usize * 4096;
                let bytes = vec![byte; 4096];
                let written = fs.write(&CALLER, ino, at as u64, &bytes, DIRECT).await;
                assert_eq!(written, Ok(4096));
                model.put(at, &bytes);
            }
            23 => {
                fs.sync().await.expect("a sync");
                models.iter_mut().for_each(Model::sync);
            }
            24..28 => {
                let old = Timestamp(i64::MAX);
                fs.flush_old(old).await.expect("the clock's part");
            }
            28 => {
                let name = [b'a' + nth as u8];
                fs.unlink(&CALLER, Ino::ROOT, &name)
                    .await
                    .expect("it had a name");
                fs.release(ino).await.expect("it was open");
                inos[nth] = create(fs, &name).await;
                models[nth].now.clear();
                fs.sync().await.expect("a sync");
                models.iter_mut().for_each(Model::sync);
            }
            _ => {
                let later = port::Clock::now(clock) + Picos::from_micros(stream.below(3_000_000));
                port::Clock::sleep_until(clock, later).await;
            }
        }
        let seen = fs.read(inos[nth], 0, MOST, false).await.expect("a read");
        assert!(
            seen == models[nth].now,
            "step {step}: what is read is what was written"
        );
    }
}

async fn look(fs: &Fs, models: &[Model; FILES], what: &str) {
    for (nth, model) in models.iter().enumerate() {
        let name = [b'a' + nth as u8];
        let attr = fs.lookup(Ino::ROOT, &name).await.expect("it was synced");
        let seen = fs.read(attr.ino, 0, MOST, false).await.expect("a read");
        model.check(&seen, &format!("{what}, file {nth}"));
    }
}

/// What one life of the file system leaves, by a seed.
struct Life {
    models: [Model; FILES],
    report: Option<DaxReport>,
    machine: Machine<DeviceEngine>,
}

fn first_life(seed: u64, of: Personality) -> Life {
    // Some windows have too few frames.
    let pmem = ["16KiB", "64KiB", "256KiB"][seed as usize % 3];
    let (machine, (models, report)) = run(engine(of, pmem), async move |device, clock| {
        let mut stream = Stream::new(seed, "dax");
        let fs = formatted(&device, &clock, with(Some(eager())), of).await;
        let mut models: [Model; FILES] = Default::default();
        live(&fs, &mut stream, &clock, &mut models).await;
        (models, fs.dax_report())
    });
    Life {
        models,
        report,
        machine,
    }
}

/// Looks at what a power cut has left, and lives on.
fn next_life(seed: u64, before: Life, dax: Option<Settings>) -> Life {
    let left = before.machine.engine().power_cycled().expect("it recovers");
    let models = before.models;
    let (machine, (models, report)) = run(left, async move |device, clock| {
        let mut stream = Stream::new(seed, "dax again");
        let fs = Fs::mount(device, clock.clone(), with(dax)).await;
        let fs = fs.expect("it is mounted");
        look(&fs, &models, &format!("seed {seed}")).await;
        let mut models = models;
        for (nth, model) in models.iter_mut().enumerate() {
            let name = [b'a' + nth as u8];
            let attr = fs.lookup(Ino::ROOT, &name).await.expect("it is there");
            model.now = fs.read(attr.ino, 0, MOST, false).await.expect("a read");
        }
        live(&fs, &mut stream, &clock, &mut models).await;
        (models, fs.dax_report())
    });
    Life {
        models,
        report,
        machine,
    }
}

/// The power goes behind an operation; what was synced is there, whatever moved meanwhile.
#[test]
fn what_was_synced_is_there_after_a_power_cut_wherever_it_was() {
    let mut sums = [0; 5];
    for seed in 0..16 {
        let of = [Personality::Ext4Like, Personality::ByteFs][seed as usize % 2];
        let mut life = first_life(seed, of);
        // With and without persistent memory in use.
        for dax in [Some(eager()), (seed % 4 < 2).then(eager)] {
            if let Some(report) = life.report {
                sums[0] += report.pmem.light_syncs;
                sums[1] += report.ranges.upgrades;
                sums[2] += report.ranges.downgrades;
                sums[3] += report.pmem.without_room;
                sums[4] += report.pmem.recovered;
            }
            life = next_life(seed, life, dax);
        }
        let left = life.machine.engine().power_cycled().expect("it recovers");
        let models = life.models;
        run(left, async move |device, clock| {
            let report = check(&device, false).await.expect("it can be read");
            assert!(report.problems.is_empty(), "seed {seed}: {report:?}");
            let fs = Fs::mount(device, clock, with(None)).await;
            look(
                &fs.expect("it is mounted"),
                &models,
                &format!("seed {seed}, fsck"),
            )
            .await;
        });
    }
    let [light, upgrades, downgrades, without_room, recovered] = sums;
    assert!(
        light > 200 && upgrades > 50 && downgrades > 5 && without_room > 5 && recovered > 20,
        "{light} light syncs, {upgrades} upgrades, {downgrades} downgrades, {without_room} without \
         room, {recovered} pages recovered"
    );
}
