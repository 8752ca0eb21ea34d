//! One sequence on a device in virtual time, and the power cut behind each request.

use crate::crash::ace::Sequence;
use crate::crash::bug::{Bug, Sabotaged};
use crate::crash::cut::Judge;
use crate::crash::driver::Driver;
use crate::crash::image::Image;
use crate::crash::journal::{Journal, Recorder, SharedJournal};
use crate::crash::judge::{Files, mount_options};
use crate::crash::model::{Model, errno};
use crate::crash::op::{Op, data};
use crate::crash::oracle::{History, histories};
use crate::crash::power::Power;
use crate::crash::tasks::{Tasks, run_one};
use bytefs::layout::Superblock;
use bytefs::{DataMode, DaxReport, FormatOptions, MountOptions, Personality};
use dax::{PolicyKind, Ratio, Settings};
use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, DeviceFileError, Pace};
use port::{Acknowledge, AnyClock, AnyDevice, Device, Shape};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use units::{ByteAddr, Bytes};
use vtime::Machine;

/// What is tried at each cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Units that may have happened or not of which every subset is tried.
    pub every_subset_of: u32,
    /// Subsets by chance where there are more.
    pub samples: u32,
    /// Subsets by chance of lines and blocks of units.
    pub torn: u32,
    /// Every how many cuts the device itself is cut and recovered; 0: never.
    pub device_every: u32,
    /// Every how many states the power is cut again at every request of the recovery; 0: never.
    pub recovery_every: u32,
    /// Inodes of the file system: few come back soon.
    pub inodes: u32,
    /// Bytes of the journal on the host's side, or of logs of inodes; unless said as many as a new
    /// file system has.
    pub journal: Option<Bytes>,
    /// How file systems are mounted, and whether each write is judged as a whole.
    pub data: DataMode,
    /// Who decides what is in persistent memory; None: it is not used, and the device has none.
    pub dax: Option<PolicyKind>,
    /// Operations that take room may be refused for want of it, and have done nothing then but the
    /// first bytes of a write.
    pub may_lack_room: bool,
    /// Of the device the log alone survives a power cut, and is what persistent memory there is.
    pub safe_log: bool,
    /// The bug that is planted, if one is.
    pub bug: Option<Bug>,
}

impl Options {
    /// Everything, as the campaign runs it.
    pub const FULL: Self = Self {
        every_subset_of: 6,
        samples: 64,
        torn: 4,
        device_every: 1,
        recovery_every: 2,
        inodes: 64,
        journal: None,
        data: DataMode::Ordered,
        dax: None,
        may_lack_room: false,
        safe_log: false,
        bug: None,
    };
}

/// What was tried.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Sequences.
    pub sequences: u64,
    /// Requests behind which the power was cut.
    pub cuts: u64,
    /// Cuts with what of the requests in flight had happened.
    pub points: u64,
    /// Different bytes among them, each of which was recovered and looked at.
    pub states: u64,
    /// Cuts of the device itself.
    pub device_cuts: u64,
    /// Points within recoveries.
    pub recovery_points: u64,
    /// Most units at a cut.
    pub units: u64,
    /// Operations that were refused for want of room.
    pub refused: u64,
    /// What was done with persistent memory.
    pub moves: Moves,
}

/// What sequences have done with persistent memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Moves {
    /// Syncs that the window has answered alone.
    pub light_syncs: u64,
    /// Syncs that found no frames.
    pub without_room: u64,
    /// Ranges that were upgraded.
    pub upgrades: u64,
    /// Ranges that were downgraded.
    pub downgrades: u64,
    /// Of them those that were evicted.
    pub evictions: u64,
}

impl Moves {
    fn of(report: &DaxReport) -> Self {
        Self {
            light_syncs: report.pmem.light_syncs,
            without_room: report.pmem.without_room,
            upgrades: report.ranges.upgrades,
            downgrades: report.ranges.downgrades,
            evictions: report.ranges.evictions,
        }
    }

    fn add(&mut self, other: &Self) {
        self.light_syncs += other.light_syncs;
        self.without_room += other.without_room;
        self.upgrades += other.upgrades;
        self.downgrades += other.downgrades;
        self.evictions += other.evictions;
    }
}

impl Tally {
    /// Adds what another has tried.
    pub fn add(&mut self, other: &Self) {
        self.sequences += other.sequences;
        self.cuts += other.cuts;
        self.points += other.points;
        self.states += other.states;
        self.device_cuts += other.device_cuts;
        self.recovery_points += other.recovery_points;
        self.units = self.units.max(other.units);
        self.refused += other.refused;
        self.moves.add(&other.moves);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sequences, {} cuts, {} points, {} of them different and recovered; {} cuts of the \
             device itself, {} points within recoveries; at most {} units at a cut",
            self.sequences,
            self.cuts,
            self.points,
            self.states,
            self.device_cuts,
            self.recovery_points,
            self.units
        )?;
        match self.refused {
            0 => Ok(()),
            refused => write!(f, "; {refused} operations refused for want of room"),
        }
    }
}

/// A sequence, a cut, and what is wrong behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What was done.
    pub sequence: Box<Sequence>,
    /// Where the power was cut; empty if nothing was cut.
    pub cut: String,
    /// What is wrong.
    pub how: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}# {}\n# {}", self.sequence, self.cut, self.how)
    }
}

/// A device with an empty file system, from which every sequence begins.
pub struct Lab {
    engine: DeviceEngine,
    pub(super) image: Image,
    pub(super) shape: Shape,
    pub(super) options: Options,
    /// Operations are durable when they are answered, and are judged so.
    is_synchronous: bool,
}

/// Of a few megabytes.
const SMALL: [&str; 11] = [
    "nand.channels=2",
    "nand.chips_per_channel=1",
    "nand.dies_per_chip=1",
    "nand.planes_per_die=1",
    "nand.blocks_per_plane=96",
    "nand.pages_per_block=8",
    "ftl.over_provisioning=40%",
    "ftl.gc_buffers=4",
    "ssd.buffers=8",
    "ssd.compaction.batch=4",
    "ssd.cache.mshr_count=4",
];

/// Memory of three frames: soon there are none.
const WINDOW: &str = "device.pmem=20KiB";

/// How ranges are judged: the first sync upgrades, and a page that is written twice between syncs
/// downgrades.
fn eager(kind: PolicyKind) -> Settings {
    Settings {
        kind,
        order: 2,
        policy: Ratio {
            upgrade_above: 80,
            downgrade_below: 80,
            after_writes: 0,
        },
        ..Settings::default()
    }
}

/// What of a small device survives a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Protection {
    /// All that it has taken if it has a log, else what is on flash.
    #[default]
    Usual,
    /// There is no log; blocks that it has taken, and lines that are on flash.
    Blocks,
    /// The log, and what is on flash.
    Log,
    /// There is no log; blocks that it has taken, and lines that were persisted.
    Dram,
}

impl Protection {
    /// As scripts say it.
    const NAMES: [(Self, &str); 4] = [
        (Self::Usual, "usual"),
        (Self::Blocks, "blocks"),
        (Self::Log, "log"),
        (Self::Dram, "dram"),
    ];

    /// As scripts say it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

impl std::str::FromStr for Protection {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let found = Self::NAMES.iter().find(|(_, of)| *of == name);
        found.map(|(protection, _)| *protection).ok_or(())
    }
}

/// The small device of a file system, with or without a window, and what of it survives a power
/// cut; without a log only for personalities that need no transactions.
///
/// # Errors
/// A value of it is out of range.
pub fn device_of(
    personality: Personality,
    has_window: bool,
    protection: Protection,
) -> Result<DeviceConfig, DeviceFileError> {
    let window = match (protection, has_window) {
        (Protection::Log, _) => Some(SAFE_LOG),
        (_, has_window) => has_window.then_some(WINDOW),
    };
    let (preset, more) = match (personality.needs_transactions(), protection) {
        (true, _) => ("bytefs", &LOG[..]),
        (false, Protection::Blocks) => ("bytefs-cache", &BLOCKS[..]),
        (false, Protection::Dram) => ("bytefs-cache", &DRIVE[..]),
        (false, _) => ("consumer-tlc", &DRIVE[..]),
    };
    let more: Vec<&str> = more.iter().copied().chain(window).collect();
    small(preset, &more)
}

const SAFE_LOG: &str = "ssd.power_loss_protection=log";
const LOG: [&str; 3] = [
    "ssd.log.size=128KiB",
    "ssd.log.tx_log=8KiB",
    "ssd.dram=300KiB",
];
const DRIVE: [&str; 1] = ["ssd.dram=256KiB"];
const BLOCKS: [&str; 2] = [DRIVE[0], "ssd.power_loss_protection=battery"];

/// A small device with a log, so little of it that it is compacted meanwhile.
///
/// # Errors
/// A value is out of range.
pub fn small_device() -> Result<DeviceConfig, DeviceFileError> {
    small("bytefs", &LOG)
}

/// A small device without log, transactions and battery: nothing survives for certain that was not
/// flushed.
///
/// # Errors
/// A value is out of range.
pub fn small_drive() -> Result<DeviceConfig, DeviceFileError> {
    small("consumer-tlc", &DRIVE)
}

/// A small device without log and transactions, as competitors have it in the paper: a battery
/// keeps the blocks that it has accepted, and lines that were persisted.
///
/// # Errors
/// A value is out of range.
pub fn small_cache() -> Result<DeviceConfig, DeviceFileError> {
    small("bytefs-cache", &DRIVE)
}

fn small(preset: &str, more: &[&str]) -> Result<DeviceConfig, DeviceFileError> {
    let sets = SMALL.iter().chain(more);
    let layers: Result<Vec<Layer>, _> = sets.map(|set| Layer::assignment(set)).collect();
    DeviceConfig::of_preset(preset, &layers.map_err(DeviceFileError::from)?)
}

/// The journal of contents, where nothing else is said: for files of some pages.
const SMALL_JOURNAL: Bytes = Bytes::from_kib(256);

/// What free blocks hold: nobody may ever read it.
const STALE: u32 = u32::MAX;
/// Blocks that are aged at a time.
const AGED: u32 = 64;

/// Makes a file system, whose free blocks hold what was there before.
async fn made_and_aged(device: &AnyDevice, format: &FormatOptions) -> Result<(), String> {
    let made = Files::format(device, format).await;
    made.map_err(|error| error.to_string())?;
    let mut superblock = [0; 4096];
    let said = |error: port::DeviceError| error.to_string();
    device
        .read_blocks(ByteAddr::new(0), &mut superblock)
        .await
        .map_err(said)?;
    let geometry = Superblock::decode(&superblock)
        .ok()
        .and_then(|found| found.geometry());
    let geometry = geometry.ok_or("the superblock cannot be read")?;
    let mut files = geometry.unused_when_new();
    while !files.is_empty() {
        let count = AGED.min(files.end - files.start);
        let at = u64::from(files.start) * 4096;
        let bytes = data(STALE, at, count as usize * 4096);
        let when = Acknowledge::Accepted;
        device
            .write_blocks(ByteAddr::new(at), &bytes, when)
            .await
            .map_err(said)?;
        files.start += count;
    }
    device.flush().await.map(|_| ()).map_err(said)
}

impl Lab {
    /// Makes the device and the file system.
    ///
    /// # Errors
    /// What refuses to be made.
    pub fn new(
        config: &DeviceConfig,
        personality: Personality,
        options: Options,
    ) -> Result<Self, String> {
        let engine = DeviceEngine::in_memory(config, Pace::None);
        let engine = engine.map_err(|error| error.to_string())?;
        let journal = SharedJournal::default();
        let recorder = Recorder::new(engine, journal.clone(), None);
        let mut machine = Machine::new(recorder, 1);
        let device = AnyDevice::new(machine.device());
        let mut format = FormatOptions::new(personality);
        format.inodes = Some(options.inodes);
        format.journal = options.journal.or(match options.data {
            DataMode::Ordered => None,
            DataMode::Journal => Some(SMALL_JOURNAL),
        });
        let made: Rc<RefCell<Result<(), String>>> = Rc::new(RefCell::new(Ok(())));
        let result = Rc::clone(&made);
        machine.spawn("format", async move {
            *result.borrow_mut() = made_and_aged(&device, &format).await;
        });
        machine.run().map_err(|error| error.to_string())?;
        made.borrow().clone()?;
        let recorder = machine.engine();
        let shape = port::Engine::shape(&*recorder);
        let mut power = Power::new(Image::new(shape.capacity + shape.pmem), &shape);
        journal
            .lock()
            .events
            .iter()
            .for_each(|event| power.apply(event));
        if !power.units().is_empty() {
            return Err("a file system is made and not all of it survives".to_owned());
        }
        let engine = recorder
            .engine()
            .snapshot()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            engine,
            image: power.image().clone(),
            shape,
            options,
            is_synchronous: personality.is_synchronous(),
        })
    }

    /// Blocks that no file has when a sequence begins.
    pub fn free_blocks(&self) -> u64 {
        let mut superblock = [0; 4096];
        self.image.read(0, &mut superblock);
        let geometry = Superblock::decode(&superblock)
            .ok()
            .and_then(|found| found.geometry());
        geometry.map_or(0, |geometry| geometry.files.len() as u64)
    }

    /// Does a sequence, cuts the power behind each of its requests, and judges what is left.
    ///
    /// # Errors
    /// What is wrong first.
    pub fn run(&self, sequence: &Sequence, tally: &mut Tally) -> Result<(), Finding> {
        let finding = |cut: String, how: String| Finding {
            sequence: Box::new(sequence.clone()),
            cut,
            how,
        };
        tally.sequences += 1;
        let record = self.record(sequence);
        let record = record.map_err(|how| finding("nothing was cut".to_owned(), how))?;
        tally.moves.add(&record.moves);
        tally.refused += record.refused;
        if record.journal.splits > 0 {
            let how = "the device committed a transaction in parts".to_owned();
            return Err(finding("nothing was cut".to_owned(), how));
        }
        let judged = Judge::new(self, &record, tally).all(&record);
        judged.map_err(|(cut, how)| finding(cut, how))
    }

    /// Runs a sequence in virtual time.
    fn record(&self, sequence: &Sequence) -> Result<Record, String> {
        let engine = self.engine.snapshot().map_err(|error| error.to_string())?;
        let journal = SharedJournal::default();
        let begin: Rc<Cell<Option<usize>>> = Rc::default();
        let snapshots: Rc<RefCell<Vec<(usize, DeviceEngine)>>> = Rc::default();
        let look = self.look(&begin, &snapshots);
        let recorder = Recorder::new(engine, journal.clone(), look);
        let mut superblock = [0; 4096];
        self.image.read(0, &mut superblock);
        let sabotaged = Sabotaged::new(recorder, self.options.bug, &superblock);
        let mut machine = Machine::new(sabotaged, 2);
        let device = AnyDevice::new(machine.device());
        let clock = AnyClock::new(machine.clock());
        let setup = sequence.setup.clone();
        let fs = run_one(
            &mut machine,
            "setup",
            set_up(device, clock, setup, self.options),
        )??;
        let fs = Rc::new(fs);
        begin.set(Some(journal.lock().events.len()));
        let tasks = Tasks::of(sequence, &journal, self.options.may_lack_room)?;
        tasks.run(&mut machine, &fs)?;
        let tree = run_one(&mut machine, "end", tasks.end(Rc::clone(&fs)))??;
        let moves = fs
            .dax_report()
            .as_ref()
            .map_or_else(Moves::default, Moves::of);
        drop((machine, fs));
        let refused = tasks.refused();
        let snapshots = snapshots.take();
        let (ops, done) = tasks.into_done()?;
        let mut histories = histories(&state_behind(&sequence.setup)?, &done, &tree)?;
        if self.is_synchronous {
            histories.iter_mut().for_each(History::sync_everything);
        }
        if self.options.data == DataMode::Journal {
            histories.iter_mut().for_each(History::keep_writes_whole);
        }
        // A sync by the log commits what was done before, as any other one.
        if self.options.dax.is_some() && !self.options.safe_log {
            histories.iter_mut().for_each(History::sync_contents_alone);
        }
        Ok(Record {
            begin: begin.get().unwrap_or(0),
            ops,
            histories,
            journal: journal.take(),
            snapshots,
            moves,
            refused,
        })
    }

    fn look(
        &self,
        begin: &Rc<Cell<Option<usize>>>,
        snapshots: &Rc<RefCell<Vec<(usize, DeviceEngine)>>>,
    ) -> Option<crate::crash::journal::Look<DeviceEngine>> {
        let every = self.options.device_every as usize;
        if every == 0 {
            return None;
        }
        let (begin, snapshots) = (Rc::clone(begin), Rc::clone(snapshots));
        Some(Box::new(move |engine: &DeviceEngine, event| {
            let is_wanted = begin.get().is_some_and(|begin| event > begin);
            if is_wanted && event.is_multiple_of(every) {
                let snapshot = engine.snapshot().expect("there is memory for a snapshot");
                snapshots.borrow_mut().push((event, snapshot));
            }
        }))
    }
}

/// The state behind operations that must be done.
fn state_behind(setup: &[Op]) -> Result<Model, String> {
    let mut state = Model::new(0o755, (0, 0));
    for op in setup {
        let done = state.apply(op);
        done.map_err(|errno| format!("`{op}` of the setup gives the error {errno}"))?;
    }
    Ok(state)
}

/// What was recorded of a sequence.
pub(super) struct Record {
    /// Of all tasks, by number.
    pub ops: Vec<Op>,
    /// Every order in which they can have been done.
    pub histories: Vec<History>,
    pub journal: Journal,
    /// The event behind which the sequence began.
    pub begin: usize,
    /// The device behind events of these numbers.
    pub snapshots: Vec<(usize, DeviceEngine)>,
    pub moves: Moves,
    pub refused: u64,
}

/// Mounts, and makes what a sequence begins with.
async fn set_up(
    device: AnyDevice,
    clock: AnyClock,
    setup: Vec<Op>,
    lab: Options,
) -> Result<Files, String> {
    let options = MountOptions {
        data: lab.data,
        dax: lab.dax.map(eager),
        ..mount_options()
    };
    let mount = async |device| {
        let mounted = Files::mount(device, clock.clone(), options.clone()).await;
        mounted.map_err(|error| error.to_string())
    };
    let mut fs = mount(device).await?;
    let mut driver = Driver::default();
    for op in setup.iter().chain([&Op::Sync]) {
        if let Op::Remount | Op::Recover = op {
            let done = match op {
                Op::Remount => fs.unmount().await,
                _ => fs.sync().await,
            };
            done.map_err(|error| format!("`{op}` of the setup: {error}"))?;
            fs = mount(fs.into_device()).await?;
            continue;
        }
        let answer = driver.apply(&fs, op).await?;
        if let (true, Op::Fallocate { .. }, Err(errno::ENOSPC)) = (lab.may_lack_room, op, &answer) {
            // The room is less than that.
            continue;
        }
        answer.map_err(|errno| format!("`{op}` of the setup gives the error {errno}"))?;
        if let (Some(_), Op::Write { file, .. }) = (lab.dax, op) {
            // What it begins with is in persistent memory, or may be.
            let synced = driver.apply(&fs, &Op::Fdatasync(file.clone())).await?;
            synced.map_err(|errno| format!("a sync of the setup gives the error {errno}"))?;
        }
    }
    Ok(fs)
}
