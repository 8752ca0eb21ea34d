//! Files whose syncs the device's persistent memory answers: what that costs, and what a power cut
//! leaves.

use bytefs::{
    Allocate, Caller, DaxReport, FileSystem, FormatOptions, Ino, MountError, MountOptions,
    Personality, SetAttr, Timestamp, WriteOptions, check,
};
use dax::{Ratio, Settings};
use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Pace};
use port::{Command, Conflict, Device, DeviceError, DeviceStats, Opening, Outcome, Payload, Shape};
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use units::{ByteAddr, Picos, Stream, TxId};
use vtime::{Machine, VirtualClock, VirtualDevice};

/// A device that does so many requests, and of the next ones nothing: as if the power had gone.
#[derive(Clone)]
struct Drive {
    inner: VirtualDevice<DeviceEngine>,
    left: Rc<Cell<u64>>,
}

struct Pending<'a> {
    inner: <VirtualDevice<DeviceEngine> as Device>::Pending<'a>,
    left: &'a Cell<u64>,
    is_asked: bool,
}

impl Future for Pending<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        if !self.is_asked {
            let Some(left) = self.left.get().checked_sub(1) else {
                return Poll::Pending;
            };
            self.left.set(left);
            self.is_asked = true;
        }
        Pin::new(&mut self.inner).poll(context)
    }
}

impl Device for Drive {
    type Pending<'a> = Pending<'a>;

    fn shape(&self) -> Shape {
        self.inner.shape()
    }
    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Pending<'a> {
        Pending {
            inner: self.inner.request(command, at, payload, conflict),
            left: &self.left,
            is_asked: false,
        }
    }
    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        self.inner.open(may_split)
    }
    fn poll_open(
        &self,
        may_split: bool,
        asked: &mut Option<Opening>,
        context: &mut Context<'_>,
    ) -> Poll<Result<TxId, DeviceError>> {
        self.inner.poll_open(may_split, asked, context)
    }
    fn give_up_open(&self, asked: Opening) {
        self.inner.give_up_open(asked);
    }
    fn abandon(&self, tx: TxId) {
        self.inner.abandon(tx);
    }
    fn stats(&self) -> DeviceStats {
        self.inner.stats()
    }
}

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
    engine_with(personality, pmem, &[])
}

fn engine_with(personality: Personality, pmem: &str, sets: &[&str]) -> DeviceEngine {
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
        .chain(sets)
        .map(|set| Layer::assignment(set).expect("an assignment"))
        .collect();
    let config = DeviceConfig::of_preset(preset, &layers).expect("a good device");
    DeviceEngine::in_memory(&config, Pace::None).expect("memory for a small device")
}

/// Runs something on a device that does so many requests; gives what it has ended with, unless it
/// was cut off.
fn run_for<T: 'static>(
    requests: u64,
    engine: DeviceEngine,
    test: impl AsyncFnOnce(Drive, Clock) -> T + 'static,
) -> (Machine<DeviceEngine>, Option<T>) {
    let mut machine = Machine::new(engine, 2);
    let (inner, clock) = (machine.device(), machine.clock());
    let left = Rc::new(Cell::new(requests));
    let device = Drive { inner, left };
    let result = Rc::new(RefCell::new(None));
    let place = Rc::clone(&result);
    machine.spawn("test", async move {
        let done = test(device, clock).await;
        place.replace(Some(done));
    });
    let ended = machine.run();
    let done = result.take();
    assert_eq!(ended.is_ok(), done.is_some(), "{ended:?}");
    (machine, done)
}

fn run<T: 'static>(
    engine: DeviceEngine,
    test: impl AsyncFnOnce(Drive, Clock) -> T + 'static,
) -> (Machine<DeviceEngine>, T) {
    let (machine, done) = run_for(u64::MAX, engine, test);
    (machine, done.expect("it goes on"))
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

/// Appends of 200 bytes, each with an fdatasync: what one of the last ones takes, flushes of them,
/// and what was done.
fn stream_on(
    of: Personality,
    sets: &[&str],
    dax: Option<Settings>,
) -> (Picos, u64, Option<DaxReport>) {
    let (_, done) = run(engine_with(of, "2MiB", sets), async move |device, clock| {
        let fs = formatted(&device, &clock, with(dax), of).await;
        let ino = create(&fs, b"log").await;
        fs.sync().await.expect("a sync");
        let mut begun = (port::Clock::now(&clock), 0);
        for nth in 0..420 {
            if nth == 20 {
                begun = (port::Clock::now(&clock), fs.stats().flushes);
            }
            append(&fs, ino, nth * 200, &[nth as u8; 200]).await;
            fs.fsync(ino, true).await.expect("a sync");
        }
        let took = (port::Clock::now(&clock) - begun.0) / 400;
        let flushes = fs.stats().flushes - begun.1;
        let report = fs.dax_report();
        fs.unmount().await.expect("an unmount");
        (took, flushes, report)
    });
    done
}

fn stream(of: Personality, dax: Option<Settings>) -> (Picos, u64, Option<DaxReport>) {
    stream_on(of, &[], dax)
}

#[test]
fn an_append_stream_asks_for_no_flush_once_its_range_is_upgraded() {
    let (without, flushes, report) = stream(Personality::Ext4Like, None);
    assert_eq!(report, None);
    assert!(flushes >= 400, "{flushes}");
    let (with, flushes, report) = stream(Personality::Ext4Like, Some(Settings::default()));
    let report = report.expect("it is on");
    assert_eq!(flushes, 0);
    assert_eq!(report.ranges.upgrades, 1);
    assert!(report.pmem.light_syncs >= 410, "{report:?}");
    assert!(with.scale(20, 1) < without, "{with} beside {without}");
    let (.., report) = stream(Personality::ByteFs, Some(Settings::default()));
    assert!(report.expect("it is on").pmem.light_syncs >= 410);
}

/// What a sync of 200 appended bytes takes with drives of different flush costs:
/// `cargo test -p entresol-bytefs --test all dax::a_light -- --nocapture` prints it.
#[test]
fn a_light_sync_takes_what_it_takes_whatever_a_flush_costs() {
    let mut light = Vec::new();
    for cost in ["100us", "1ms", "3500us"] {
        let each = [None, Some(Settings::default())].map(|dax| {
            let flush = format!("ssd.flush_cost={cost}");
            let (took, ..) = stream_on(Personality::Ext4Like, &[&flush], dax);
            took
        });
        println!("flush {cost}: {} a sync, light {}", each[0], each[1]);
        light.push(each[1]);
        let flush: Picos = cost.parse().expect("a span");
        assert!(each[0] > flush && each[1] < Picos::from_micros(20));
    }
    assert!(light.iter().all(|took| *took == light[0]), "{light:?}");
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
                let old = Timestamp(i64::MAX);
                fs.flush_old(old).await.expect("the clock's part");
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
    machine: Machine<DeviceEngine>,
    /// It ended by itself.
    has_ended: bool,
}

/// Makes a file system and lives on it until it ends, or the power goes behind so many requests.
fn first_life(seed: u64, of: Personality, requests: u64) -> Life {
    // Some windows have too few frames.
    let pmem = ["16KiB", "64KiB", "256KiB"][seed as usize % 3];
    let models: Rc<Models> = Rc::default();
    let shared = Rc::clone(&models);
    let (machine, report) = run_for(requests, engine(of, pmem), async move |device, clock| {
        let mut stream = Stream::new(seed, "dax");
        let fs = formatted(&device, &clock, with(Some(eager())), of).await;
        live(&fs, &mut stream, &clock, &shared).await;
        fs.dax_report()
    });
    Life {
        models,
        has_ended: report.is_some(),
        report: report.flatten(),
        machine,
    }
}

/// Looks at what a power cut has left, and lives on.
fn next_life(seed: u64, before: Life, dax: Option<Settings>, requests: u64) -> Life {
    let left = before.machine.engine().power_cycled().expect("it recovers");
    let models = before.models;
    let shared = Rc::clone(&models);
    let (machine, report) = run_for(requests, left, async move |device, clock| {
        let mut stream = Stream::new(seed, "dax again");
        let fs = Fs::mount(device, clock.clone(), with(dax)).await;
        let fs = fs.expect("it is mounted");
        look(&fs, &shared, &format!("seed {seed}")).await;
        live(&fs, &mut stream, &clock, &shared).await;
        fs.dax_report()
    });
    Life {
        models,
        has_ended: report.is_some(),
        report: report.flatten(),
        machine,
    }
}

/// The last power cut: fsck finds nothing, and the files are what they may be.
fn last_look(seed: u64, life: Life) {
    let left = life.machine.engine().power_cycled().expect("it recovers");
    let models = life.models;
    run(left, async move |device, clock| {
        let report = check(&device, false).await.expect("it can be read");
        assert!(report.problems.is_empty(), "seed {seed}: {report:?}");
        let fs = Fs::mount(device, clock, with(None)).await;
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

/// The power goes between any two requests, in the middle of syncs, moves and recoveries.
#[test]
fn what_was_synced_is_there_wherever_in_an_operation_the_power_goes() {
    let mut cut_off = [0; 2];
    for seed in 0..2 * SEEDS {
        let of = [Personality::Ext4Like, Personality::ByteFs][seed as usize % 2];
        let mut stream = Stream::new(seed, "cuts");
        let life = first_life(seed, of, 60 + stream.below(600));
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
